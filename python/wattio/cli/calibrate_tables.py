"""What `wattio calibrate power` prints: the plan, how the sweep goes, the fit."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from rich.progress import TextColumn
from rich.table import Table

from wattio.calibration.design import Design, Setting
from wattio.calibration.fit import IDLE_USE_MOST, R_SQUARED_ASKED, Fit, Fitted
from wattio.calibration.folder import DataFolder, Record
from wattio.calibration.model_file import INTERVALS
from wattio.calibration.points import Point
from wattio.cli import output
from wattio.cli.calibrate_options import Asked
from wattio.cli.progress import Bar

WORST = 5
"""So many of the largest residuals are printed."""


def plan(asked: Asked, as_json: bool) -> int:
    """Print what would be swept, what cannot be, and how long it takes."""
    settings = asked.design.settings()
    total_s = asked.design.step_s * len(settings)
    if as_json:
        entries = [
            {
                "idle": setting.is_idle,
                "frequency_hz": setting.frequency_hz,
                "cores": setting.cores,
                "load": setting.load,
                "readers": setting.readers,
            }
            for setting in settings
        ]
        output.print_json({"points": entries, "seconds": total_s, "not_swept": asked.lacks})
        return 0
    for number, setting in enumerate(settings, start=1):
        output.say(f"{number:4}  {setting.name}")
    for name, why in asked.lacks.items():
        output.say(f"not swept: {name}: {why}")
    output.say(f"{len(settings)} points, about {total_s / 60:.1f} min")
    return 0


class SweepProgress(Bar):
    """Progress over the points of a sweep: a bar on a terminal, plain lines elsewhere."""

    def __init__(self, design: Design, *, quiet: bool) -> None:
        """The remaining time is guessed first, and corrected by how long points really take."""
        self._total = len(design.settings())
        self._step_s = design.step_s
        self._ended = 0
        self._name = ""
        counts = TextColumn("{task.completed} of {task.total}")
        super().__init__(output.messages(), counts, total=self._total, shown=not quiet)
        self._lines = not quiet and not self._console.is_terminal

    def begun(self, setting: Setting) -> None:
        """A setting is held."""
        self._name = setting.name
        self._bar.update(self._task, description=setting.name)

    def ended(self, point: Point, trouble: str | None) -> None:
        """It is measured."""
        self._ended += 1
        self._bar.update(self._task, completed=self._ended)
        told = f"{point.power_w:.2f} W" if point.power_w is not None else f"no power: {trouble}"
        if self._lines or trouble:
            self._say(f"[{self._ended}/{self._total}] {self._name}: {told}{self._left()}")

    def _left(self) -> str:
        left = self._total - self._ended
        if not left:
            return ""
        step_s = (time.monotonic() - self._begun_s) / self._ended
        return f", about {left * max(step_s, self._step_s):.0f} s left"


def show(fit: Fit, record: Record, out: Path, data: DataFolder, *, as_json: bool) -> None:
    """Print a fit, and keep it beside its points."""
    told = _told(fit, record, out, data)
    data.keep_fit(told)
    if as_json:
        output.print_json(told)
        return
    output.console().print(_table(fit))
    output.say(
        f"R^2 {fit.r_squared:.5f} over {len(fit.points)} points; residuals deviate by"
        f" {fit.deviation_w:.3g} W; intervals: {INTERVALS}"
    )
    if not fit.is_good:
        output.say(
            f"POOR FIT: R^2 is not above {R_SQUARED_ASKED}: this model is written and marked, and"
            " not to be trusted; look at the residuals, and at what else ran on the host"
        )
    for name, why in record.lacks.items():
        output.say(f"not swept: {name}: {why}")
    if fit.idle_use is not None and fit.idle_use > IDLE_USE_MOST:
        output.say(
            f"NOT IDLE: at the idle points the cores were busy for {output.share(fit.idle_use)} of"
            " their time; end what else runs, for coefficients that can be told apart"
        )
    _say_drift(fit)
    output.say("largest residuals (measured less fitted):")
    pairs = sorted(zip(fit.points, fit.residuals_w, strict=True), key=lambda pair: -abs(pair[1]))
    for point, residual_w in pairs[:WORST]:
        output.say(f"  {residual_w:+8.3f} W  point {point.number + 1}: {_setting(point).name}")
    output.say(f"model: {out}")
    output.say(f"data: {data.path}")


def _table(fit: Fit) -> Table:
    table = Table(box=None)
    table.add_column("coefficient")
    table.add_column("W", justify="right")
    table.add_column("95 % interval", justify="right")
    table.add_column("origin")
    for name, found in fit.coefficients.items():
        if isinstance(found, Fitted):
            interval = f"{found.low_w:.4g} to {found.high_w:.4g}"
            origin = "measured" + (", at its bound" if found.at_bound else "")
        else:
            interval, origin = output.ABSENT, f"assumed: {found.why}"
        table.add_row(name, output.number(found.watts), interval, origin)
    return table


def _say_drift(fit: Fit) -> None:
    if fit.drift is None:
        output.say("too few idle points to see a drift")
    elif fit.drift.matters:
        output.say(
            f"DRIFT: the idle points went by {fit.drift.watts:+.3g} W"
            f" ({fit.drift.low_w:+.3g} to {fit.drift.high_w:+.3g}) over the sweep: let the host"
            " warm up, or settle longer"
        )
    else:
        output.say(f"no drift that matters: {fit.drift.watts:+.3g} W over the sweep")


def _told(fit: Fit, record: Record, out: Path, data: DataFolder) -> dict[str, Any]:
    coefficients: dict[str, Any] = {}
    for name, found in fit.coefficients.items():
        if isinstance(found, Fitted):
            coefficients[name] = {
                "watts": found.watts,
                "interval_w": [found.low_w, found.high_w],
                "origin": "measured",
                "at_bound": found.at_bound,
            }
        else:
            coefficients[name] = {
                "watts": found.watts,
                "origin": "assumed",
                "why": found.why,
                "merged_into": list(found.merged_into),
            }
    drift = fit.drift
    residuals = [
        {"point": point.number, "power_w": point.power_w, "residual_w": residual_w}
        for point, residual_w in zip(fit.points, fit.residuals_w, strict=True)
    ]
    return {
        "model": str(out),
        "data": str(data.path),
        "good": fit.is_good,
        "r_squared": fit.r_squared,
        "r_squared_asked": R_SQUARED_ASKED,
        "intervals": INTERVALS,
        "deviation_w": fit.deviation_w,
        "coefficients": coefficients,
        "not_swept": record.lacks,
        "idle_utilisation": fit.idle_use,
        "drift": drift
        and {
            "watts": drift.watts,
            "interval_w": [drift.low_w, drift.high_w],
            "matters": drift.matters,
        },
        "residuals": residuals,
    }


def _setting(point: Point) -> Setting:
    return Setting(point.frequency_hz, point.cores, point.load, point.readers, point.is_idle)
