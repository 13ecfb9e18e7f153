"""Numbers as a document prints them, and the check that they follow from one another.

A printed number stands for all that round to it. So does what is computed from printed numbers:
both are spans, and they agree where the spans meet. What does not agree needs a reason.
"""

from __future__ import annotations

import itertools
import math
import sys
import textwrap
import tomllib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

from validation.common import published

Bound = Literal["", "least", "most"]

UNEXPLAINED = 1
BRIEF, WIDTH = 20, 110
"""Lengths of a reason that stands beside its number, and of a line of one that stands below."""


@dataclass(frozen=True)
class Printed:
    """A number in print: its value, and half a unit of its last place; counts are exact."""

    value: float
    half: float = 0.0

    @property
    def span(self) -> tuple[float, float]:
        """From where to where numbers round to it."""
        return self.value - self.half, self.value + self.half


@dataclass(frozen=True)
class Entry:
    """A published number, and how it is computed from others.

    `formula` takes the values of the keys in `takes`, in their order; it rises or falls with each.
    None is an input, or what cannot be computed: `text` says which. `text` is shown always, `why`
    is the reason of a difference, shown where there is one. `half` is the rounding in print where
    the file's number has more places than the print. `bound` says that the print gives what the
    number is at least ("more than ten times") or at most ("up to 30 times"): ours may lie beyond.
    """

    key: str
    where: str
    unit: str = ""
    formula: Callable[..., float] | None = None
    takes: tuple[str, ...] = ()
    text: str = ""
    why: str = ""
    half: float | None = None
    bound: Bound = ""


@dataclass(frozen=True)
class Checked:
    """An entry beside the published value and ours, with the span that rounding leaves ours."""

    entry: Entry
    value: Printed | str
    ours: float | None = None
    span: tuple[float, float] = (0.0, 0.0)

    @property
    def deviation_percent(self) -> float | None:
        """Of ours from the published value; None where nothing was computed, and for a bound."""
        if self.ours is None or isinstance(self.value, str) or self.entry.bound:
            return None
        return published.deviation_percent(self.ours, self.value.value)

    @property
    def outcome(self) -> str:
        """Whether they agree: `agrees`, `differs`, or `not computed`."""
        if self.ours is None or isinstance(self.value, str):
            return "not computed"
        low, high = self.value.span
        low = -math.inf if self.entry.bound == "most" else low
        high = math.inf if self.entry.bound == "least" else high
        return "agrees" if self.span[0] <= high and low <= self.span[1] else "differs"

    @property
    def unexplained(self) -> bool:
        """Whether a difference, or a number that was not computed, lacks its reason."""
        return {
            "agrees": False,
            "differs": not self.entry.why,
            "not computed": not self.entry.text,
        }[self.outcome]

    @property
    def reason(self) -> str:
        """What is to be known of the number, and why it differs where it does."""
        texts = [self.entry.text, self.entry.why if self.outcome == "differs" else ""]
        return "; ".join(text for text in texts if text)

    def as_dict(self) -> dict[str, Any]:
        """As plain data, for `--json`."""
        return {
            "key": self.entry.key,
            "where": self.entry.where,
            "unit": self.entry.unit,
            "published": self.value if isinstance(self.value, str) else self.value.value,
            "ours": self.ours,
            "deviation_percent": self.deviation_percent,
            "bound": self.entry.bound,
            "outcome": self.outcome,
            "reason": self.reason,
        }


Values = Mapping[str, Printed | str]


def read(path: Path) -> dict[str, Printed | str]:
    """Every number and word of a file by its dotted key."""
    with path.open("rb") as file:
        content = tomllib.load(file, parse_float=Decimal)
    return {key: _printed(value) for key, value in published.leaves(content)}


def _printed(value: object) -> Printed | str:
    if isinstance(value, Decimal):
        exponent = value.as_tuple().exponent
        return Printed(float(value), 0.5 * 10.0 ** int(exponent))
    return Printed(float(value)) if isinstance(value, int | float) else str(value)


def number(values: Values, key: str) -> float:
    """A published number by its key. Raises KeyError for none, TypeError for a word."""
    value = values[key]
    if isinstance(value, str):
        raise TypeError(f"{key} is a word")
    return value.value


def check(entries: Sequence[Entry], values: Values) -> list[Checked]:
    """Every published value with its entry. Raises KeyError where either is without the other."""
    known = {entry.key: entry for entry in entries}
    odd = sorted(set(known) ^ set(values))
    if odd or len(known) != len(entries):
        raise KeyError(f"published values and entries do not match: {', '.join(odd)}")
    return [_checked(known[key], value, values) for key, value in values.items()]


def _checked(entry: Entry, value: Printed | str, values: Values) -> Checked:
    if not isinstance(value, str) and entry.half is not None:
        value = Printed(value.value, entry.half)
    if entry.formula is None:
        return Checked(entry, value)
    inputs = [values[key] for key in entry.takes]
    spans = [given.span for given in inputs if isinstance(given, Printed)]
    # A formula that rises or falls with each input has its extremes at the corners.
    corners = [entry.formula(*corner) for corner in itertools.product(*map(set, spans))]
    ours = entry.formula(*(number(values, key) for key in entry.takes))
    return Checked(entry, value, ours, (min(corners), max(corners)))


def table(rows: Sequence[Checked]) -> str:
    """Published, ours, deviation and outcome of each number, its reason below."""
    lines = [f"{'':52} {'published':>12} {'ours':>12} {'deviation':>10}  unit"]
    for row in rows:
        given = "(words)" if isinstance(row.value, str) else f"{row.value.value:.10g}"
        ours = "-" if row.ours is None else f"{row.ours:.6g}"
        deviation = row.deviation_percent
        off = "-" if deviation is None else f"{deviation:+.2f} %"
        mark = "  DIFFERS" if row.outcome == "differs" else ""
        brief = f"  {row.reason}" if len(row.reason) <= BRIEF and not mark else ""
        line = f"{row.entry.key:52} {given:>12} {ours:>12} {off:>10}  {row.entry.unit}"
        lines.append((line + mark + brief).rstrip())
        if not brief:
            indent = 4 * " "
            lines += textwrap.wrap(
                row.reason, WIDTH, initial_indent=indent, subsequent_indent=indent
            )
    counts = Counter(row.outcome for row in rows)
    lines.append(
        f"{counts['agrees']} agree within the rounding of print, {counts['differs']} differ,"
        f" {counts['not computed']} are not computed"
    )
    return "\n".join(lines)


def judge(rows: Sequence[Checked]) -> int:
    """The exit status of a check; tells on stderr what has no reason."""
    bare = [row.entry.key for row in rows if row.unexplained]
    for key in bare:
        sys.stderr.write(f"no reason: {key}\n")
    return UNEXPLAINED if bare else 0
