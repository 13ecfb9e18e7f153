"""What `wattio calibrate target` prints: the plan, how it goes, the fit, and the comparison."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from rich.progress import TextColumn
from rich.table import Table

from wattio.calibration.target.comparison import BOUND, HOST, WHY, Compared
from wattio.calibration.target.design import Design, Load
from wattio.calibration.target.fit import Demand, Fit
from wattio.calibration.target.folder import DataFolder
from wattio.calibration.target.governed import WAITED_MOST, Foreseen
from wattio.calibration.target.points import Point
from wattio.cli import output
from wattio.cli.progress import Bar


def plan(design: Design, *, as_json: bool) -> int:
    """Print what would be measured, and how long it takes."""
    loads = [load for of_device in (False, True) for load in design.loads(of_device)[0]]
    if as_json:
        entries = [asdict(load) for load in loads]
        output.print_json({"loads": entries, "repeat": design.repeat, "seconds": design.seconds})
        return 0
    for number, load in enumerate(loads, start=1):
        output.say(f"{number:4}  {load.name}")
    times = "" if design.repeat == 1 else f", {design.repeat} times in another order"
    output.say(f"{len(loads)} loads{times}, about {design.seconds / 60:.1f} min")
    return 0


class SweepProgress(Bar):
    """Progress over the points of a sweep: a bar on a terminal, plain lines elsewhere."""

    def __init__(self, design: Design, *, quiet: bool) -> None:
        """The remaining time is guessed by how long points took so far."""
        self._total, self._ended = design.count, 0
        counts = TextColumn("{task.completed} of {task.total}")
        super().__init__(output.messages(), counts, total=self._total, shown=not quiet)
        self._lines = not quiet and not self._console.is_terminal

    def doing(self, what: str) -> None:
        """Something that is no point."""
        self._bar.update(self._task, description=what)
        if self._lines:
            self._say(what)

    def ended(self, load: Load, point: Point) -> None:
        """A load was measured."""
        self._ended += 1
        self._bar.update(self._task, completed=self._ended, description=load.name)
        if self._lines:
            told = f"{point.demand_us:.1f} us of core, {point.latency_us:.0f} us"
            self._say(f"[{self._ended}/{self._total}] {point.name}: {told}{self._left()}")

    def _left(self) -> str:
        left = self._total - self._ended
        step_s = (time.monotonic() - self._begun_s) / self._ended
        return f", about {left * step_s:.0f} s left" if left else ""


def show(
    fit: Fit,
    held: tuple[Sequence[Compared], Sequence[Foreseen]],
    out: Path,
    data: DataFolder,
    *,
    as_json: bool,
) -> None:
    """Print a fit and what is held against it: loads at full speed, and under laws."""
    compared, foreseen = held
    if as_json:
        output.print_json(_told(fit, held, out, data))
        return
    table = Table("request", "us of core", "us more per 4 KiB", "us of device", box=None)
    for kind, demand in fit.demands.items():
        device = fit.device.get(kind)
        table.add_row(
            kind,
            f"{demand.at(4096):.2f}",
            f"{demand.us_per_byte * 4096:.2f}",
            output.ABSENT if device is None else f"{device.at(4096):.1f}",
        )
    output.console().print(table)
    waking = fit.waking
    output.say(
        f"a sleeping reactor: {waking.wait_us:.1f} us until it runs, {waking.work_us:.1f} us of"
        f" work to wake, {waking.cold_us:.1f} us more after long sleep (63 % of them after"
        f" {waking.cooling_us:.0f} us); {fit.network_us:.1f} us for the rest of the way"
    )
    output.say(
        f"median residual: processor time {fit.demand_error:.1%}, latency {fit.latency_error:.1%}"
        f" over {len(fit.residuals)} points"
    )
    if compared:
        _compared(compared)
    if foreseen:
        _foreseen(foreseen)
    output.say(f"description: {out}")
    output.say(f"data: {data.path}")


def _compared(compared: Sequence[Compared]) -> None:
    table = _table(
        "loads that were not fitted to",
        "load",
        "1/s",
        "latency us",
        "(least to most)",
        "simulated",
        "off",
        "cores busy",
        "(least to most)",
        "simulated",
        "off",
        "quiet",
        "why",
    )
    for one in compared:
        table.add_row(
            f"{one.kind} {one.share:.0%}",
            f"{one.rate_per_s:,.0f}",
            f"{one.latency_us:.1f}",
            "{:.0f} to {:.0f}".format(*one.latency_range_us),
            f"{one.latency_predicted_us:.1f}",
            f"{one.latency_off:+.0%}",
            f"{one.busy:.3f}",
            "{:.2f} to {:.2f}".format(*one.busy_range),
            f"{one.busy_predicted:.3f}",
            f"{one.busy_off:+.0%}",
            f"{one.kept_share:.0%}",
            one.why,
        )
    output.console().print(table)
    off = [one for one in compared if not one.is_within]
    output.say(
        f"{len(compared) - len(off)} of {len(compared)} loads within {BOUND:.0%} in both; measured"
        " values are medians over the quieter half of the repetitions, in the windows in which"
        " neither the server nor the client was kept waiting for a core (quiet: how many of them)"
    )
    for name in dict.fromkeys(one.why for one in off):
        output.say(f"off, {name}: {WHY[name]}")
    if off:
        output.say("repeat on an idle host (--repeat 5) before blaming the model")


def _foreseen(foreseen: Sequence[Foreseen]) -> None:
    idle = foreseen[0].measured.idle
    table = _table(
        f"reads of 4 KiB under laws, idle = {idle}",
        "law",
        "1/s",
        "windows over",
        "reactors on",
        "simulated",
        "off",
        "cores busy",
        "simulated",
        "off",
        "latency us",
        "simulated",
        "off",
        "waited",
    )
    for one in foreseen:
        m = one.measured
        cells = [m.policy, f"{m.rate_per_s:,.0f}", f"{m.windows_over} of {m.windows_bounded}"]
        for name, form in (("reactors_on", ".2f"), ("busy", ".3f"), ("latency_us", ".1f")):
            values = getattr(m, name), getattr(one, name)
            cells += [*(format(value, form) for value in values), f"{one.off(name):+.0%}"]
        table.add_row(*cells, f"{m.wait_share:.0%}")
    output.console().print(table)
    within = sum(one.is_within for one in foreseen)
    output.say(
        f"{within} of {len(foreseen)} within {BOUND:.0%} in all three; waited: time that reactors"
        " were kept waiting for a core, in cores"
    )
    disturbed = sum(one.is_disturbed and not one.is_within for one in foreseen)
    if disturbed:
        output.say(
            f"off, {HOST}: {disturbed} of them had reactors wait for more than {WAITED_MOST:.0%}"
        )


def _table(title: str, first: str, *headings: str) -> Table:
    table = Table(first, title=title, title_justify="left", box=None)
    for heading in headings:
        table.add_column(heading, justify="right")
    return table


def _told(
    fit: Fit,
    held: tuple[Sequence[Compared], Sequence[Foreseen]],
    out: Path,
    data: DataFolder,
) -> dict[str, object]:
    compared, foreseen = held
    return {
        "description": str(out),
        "data": str(data.path),
        "demands": _of_4_kib(fit.demands),
        "device": _of_4_kib(fit.device),
        "waking": asdict(fit.waking),
        "network_us": fit.network_us,
        "demand_error_median": fit.demand_error,
        "latency_error_median": fit.latency_error,
        "residuals": [
            asdict(one.point)
            | {"demand_fitted_us": one.demand_us, "latency_fitted_us": one.latency_us}
            for one in fit.residuals
        ],
        "comparison": [
            asdict(one)
            | {
                "latency_off": one.latency_off,
                "busy_off": one.busy_off,
                "within": one.is_within,
                "why": one.why,
            }
            for one in compared
        ],
        "governed": [
            one.measured.model_dump()
            | {
                f"{name}_{what}": value
                for name in ("reactors_on", "busy", "latency_us")
                for what, value in (("predicted", getattr(one, name)), ("off", one.off(name)))
            }
            | {"within": one.is_within}
            for one in foreseen
        ],
    }


def _of_4_kib(demands: Mapping[str, Demand]) -> dict[str, dict[str, float]]:
    return {
        kind: {"us": demand.at(4096), "us_per_4_kib": demand.us_per_byte * 4096}
        for kind, demand in demands.items()
    }
