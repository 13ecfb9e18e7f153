"""How commands print: tables on the terminal, numbers as people read them, JSON for programs."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from wattio.analysis.price import YEAR_H, Price
from wattio.cli.narrow_tables import fitted
from wattio.cli.printable import printable
from wattio.files.plain import plain

if TYPE_CHECKING:
    from wattio.kinds.simulation.overall import Overall
    from wattio.results.runs import Recorded
    from wattio.results.summary import Row

ABSENT = "-"

TAILS = {"p99": "latency_us_p99", "p99.9": "latency_us_p999", "p99.99": "latency_us_p9999"}
"""Percentiles of latency in tables, by metric."""


def print_json(content: object) -> None:
    """Print one JSON value on standard output."""
    sys.stdout.write(json.dumps(content, indent=2, allow_nan=False) + "\n")


class Screen(Console):
    """Where commands print to: what comes from outside is shown, and does nothing.

    Characters that would steer the terminal are shown as `\\x1b`, and no text is taken for markup
    or for the name of an emoji.
    """

    def __init__(self, *, stderr: bool = False) -> None:
        """Standard output, or standard error; wide enough for tables where it is no terminal."""
        super().__init__(stderr=stderr, markup=False, emoji=False)
        if not stderr and not self.is_terminal:
            self.width = 200

    def render_str(self, text: str, **options: Any) -> Text:  # noqa: ANN401
        """Before tables are laid out, which then have room for what is shown."""
        return super().render_str(printable(text), **options)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Every piece of text passes here on its way out, and every table."""
        pieces: list[RenderableType] = [renderable]
        if isinstance(renderable, Table):
            pieces = [*fitted(self, options or self.options, renderable)]
        for piece in pieces:
            for segment in super().render(piece, options):
                if segment.control:
                    yield segment
                else:
                    yield Segment(printable(segment.text), segment.style)


def console() -> Screen:
    """Standard output for tables."""
    return Screen()


def messages() -> Screen:
    """Standard error, for progress and what is not the result."""
    return Screen(stderr=True)


def say(text: str) -> None:
    """A line of the result, on standard output, as it is and however long."""
    console().print(text, highlight=False, soft_wrap=True)


def note(text: str) -> None:
    """A line that is not of the result, on standard error, as it is and however long."""
    messages().print(text, highlight=False, soft_wrap=True)


def complain(text: str) -> None:
    """The same of something that went wrong, which names the program."""
    note(f"wattio: {text}")


def busy(text: str) -> AbstractContextManager[object]:
    """A sign on a terminal that something takes a while, while in this context."""
    screen = messages()
    return screen.status(text) if screen.is_terminal else contextlib.nullcontext()


def share(value: float | None) -> str:
    """A share as per cent."""
    return ABSENT if value is None else f"{100 * value:.1f} %"


def ratio(value: float | None) -> str:
    """A ratio to native."""
    return ABSENT if value is None else f"{value:.3f}x"


def number(value: float | None) -> str:
    """A quantity with four significant digits, in powers of ten only below 1e-9."""
    if value is None:
        return ABSENT
    return f"{value:,.0f}" if value == 0 or abs(value) >= 1000 else plain(value, 4)


def bound(row: Row) -> str:
    """Whether the bound was kept, which one if its load has its own, and the windows above it."""
    from wattio.kinds.simulation import promises
    from wattio.simulator.policies import REFERENCE

    if row.bound_kept is None or row.run.policy == REFERENCE:
        return ABSENT
    over = row.mean("bound_violation_share")
    given = f", {promises.told(row.run)}" if promises.are_given(row.run) else ""
    word = "kept" if row.bound_kept else "BROKEN"
    return word + given + (f" ({share(over)} over)" if over else "")


def saved(row: Row, name: str) -> str:
    """A share saved; in brackets where it was had by breaking the bound or leaving work undone."""
    from wattio.kinds.simulation.overall import sound
    from wattio.simulator.policies import REFERENCE

    value = row.mean(name)
    if value is None or row.run.policy == REFERENCE:
        return ABSENT
    return bracketed(share(value), sound(row))


def quantity(value: float | None, unit: str) -> str:
    """A value in the unit that fits, as pages have it: 428 µs, 1.89 Wh."""
    from wattio.report import phrases

    if value is None:
        return ABSENT
    told = phrases.quantity(value, unit)
    return told.replace("\N{NO-BREAK SPACE}", " ").replace("\N{NARROW NO-BREAK SPACE}", ",")


def bracketed(text: str, sound: bool) -> str:
    """A saving; in brackets where it was had by breaking the bound or leaving work undone."""
    return text if sound or text == ABSENT else f"({text})"


def year(saved_w: Mapping[str, tuple[float, bool]], where: str = "") -> str:
    """What power is worth in a year that was saved, by whom, and whether it may be called saved."""
    told = []
    for name, (power_w, sound) in saved_w.items():
        found = Price().year(power_w)
        text = f"{number(found.kwh)} kWh, {number(found.eur)} EUR, {number(1000 * found.co2_t)} kg"
        told.append(f"{name} {bracketed(text, sound)}")
    return f"saved in a year{where}, and its CO\N{SUBSCRIPT TWO}: {'; '.join(told)}."


def year_json(saved_w: float, sound: bool) -> dict[str, object]:
    """The same as plain data, with the factors."""
    price = Price()
    found = price.year(saved_w)
    return {
        "kwh": found.kwh,
        "eur": found.eur,
        "co2_kg": 1000 * found.co2_t,
        "may_be_called_saved": sound,
        "hours": YEAR_H,
        "eur_per_kwh": price.electricity_eur_per_kwh,
        "co2_g_per_kwh": price.co2_g_per_kwh,
        "pue": price.pue,
    }


_YEARS = 12


def years(rows: Sequence[Row]) -> list[str]:
    """A year of what each policy saves, load by load, and by which factors; not of many loads."""
    from wattio.kinds.simulation.overall import sound
    from wattio.simulator.policies import BOUND_BY

    saved_w = _saved_w(rows)
    saved: dict[str, dict[str, tuple[float, bool]]] = {}
    for row in rows:
        if row.run.policy == BOUND_BY or row.run.sweep_of is not None:
            continue
        if row.run.name in saved_w:
            own = saved.setdefault(row.run.subject, {})
            own[row.run.condition] = saved_w[row.run.name], sound(row)
    if not 0 < len(saved) <= _YEARS:
        return []
    return [*(year(found, f" on {load}") for load, found in saved.items()), Price().stated]


def _saved_w(rows: Sequence[Row]) -> dict[str, float]:
    """By how much less than native each other run draws on its load, in watts, by its name."""
    from wattio.simulator.policies import REFERENCE

    native_w = {row.run.subject: row.mean("power_w_mean") for row in rows
                if row.run.policy == REFERENCE}  # fmt: skip
    return {
        row.run.name: whole_w - own_w
        for row in rows
        if row.run.policy != REFERENCE
        and (whole_w := native_w.get(row.run.subject)) is not None
        and (own_w := row.mean("power_w_mean")) is not None
    }


_REMARKS = 12


def remarks(iterations: Sequence[Recorded]) -> list[str]:
    """Why iterations are WARN: one line for each reason, with how often and an example.

    Doubts are all of one code, and each is told; not more than some of them.
    """
    found: dict[str, dict[int, tuple[str, str]]] = {}
    for number, item in enumerate(iterations):
        for verdict in item.verdicts:
            if verdict.verdict == "WARN":
                code = verdict.reason.partition(":")[0]
                key = verdict.reason if code == "DOUBT" else code
                found.setdefault(key, {}).setdefault(number, (item.run.name, verdict.reason))
    lines = []
    for every in found.values():
        name, reason = next(iter(every.values()))
        lines.append(f"WARN in {len(every)} of {len(iterations)} iterations: {reason} ({name})")
    left = len(lines) - _REMARKS
    return lines if left <= 0 else [*lines[:_REMARKS], f"(and {left} reasons more)"]


def summary_table(rows: Sequence[Row]) -> Table:
    """Each policy against native, load by load."""
    from wattio.kinds.simulation import promises

    title = "Simulated; ratios are to native; a saving in brackets broke the bound or left"
    title += " background work undone"
    table = Table(title=title, title_justify="left", box=None)
    table.add_column("load")
    table.add_column("policy")
    tails = [name for name in TAILS if any(row.mean(f"relative_{TAILS[name]}") for row in rows)]
    for column in ("W", "saving", "IOPS/W", "mean lat.", *tails, "backgr.", "of oracle"):
        table.add_column(column, justify="right")
    given = any(promises.are_given(row.run) for row in rows)
    table.add_column("bound" if given else "bound on mean")
    before = None
    for row in rows:
        table.add_row(
            row.run.subject if row.run.subject != before else "",
            row.run.condition,
            number(row.mean("power_w_mean")),
            saved(row, "saving_share"),
            ratio(row.mean("relative_iops_per_watt")),
            ratio(row.mean("relative_latency_us_mean")),
            *(ratio(row.mean(f"relative_{TAILS[name]}")) for name in tails),
            ratio(row.mean("relative_background_rate")),
            saved(row, "captured_share"),
            bound(row),
        )
        before = row.run.subject
    return table


def overall_table(title: str, found: Sequence[Overall]) -> Table:
    """Each policy over loads of one kind of bound; a broken one counts as nothing saved."""
    from wattio.kinds.simulation import promises

    on_mean = found[0].bound == promises.MEAN
    table = Table(title=title, title_justify="left", box=None)
    table.add_column("policy")
    worst = "worst mean lat." if on_mean else "worst lat. to limit"
    columns = ("bound kept", "background done", worst, "saving, median")
    for column in (*columns, "of oracle, median", "worst quarter"):
        table.add_column(column, justify="right")
    for policy in found:
        table.add_row(
            policy.label,
            f"{policy.kept} of {policy.judged}",
            f"{policy.background_done} of {policy.loads}",
            ratio(policy.latency_worst if on_mean else policy.limit_worst),
            share(policy.saving_median),
            share(policy.captured_median),
            share(policy.captured_worst_quarter),
        )
    return table


def summary_json(rows: Sequence[Row]) -> list[dict[str, object]]:
    """The summary as plain data: means and intervals of every metric, and what a year saves."""
    from wattio.kinds.simulation import promises
    from wattio.kinds.simulation.overall import sound

    saved_w = _saved_w(rows)
    return [
        {
            "load": row.run.subject,
            "server": row.run.system,
            "policy": row.run.policy,
            "label": row.run.condition,
            "settings": dict(row.run.settings),
            "iterations": {"used": row.used, "warned": row.warned, "invalid": row.invalid},
            "bounds": [bound.text for bound in promises.of(row.run)],
            "bound_kept": row.bound_kept,
            "saved_in_a_year": (
                year_json(saved_w[row.run.name], sound(row)) if row.run.name in saved_w else None
            ),
            "metrics": {name: found.mean for name, found in row.metrics.items()},
            "intervals": {
                name: {"low": i.low, "high": i.high, "confidence": i.confidence}
                for name, found in row.metrics.items()
                if (i := found.interval) is not None
            },
        }
        for row in rows
    ]
