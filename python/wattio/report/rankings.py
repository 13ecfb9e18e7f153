"""What won and by how much: conditions of equal work against a reference, with intervals.

A winner is named only where its ratio to every other condition is not 1: by t tests of all pairs
whose p values are corrected for their number, as it is chosen after they were all looked at. Where
values rest on a power model, that has to be so whatever its coefficients are within their ranges
(`analysis.ranged`); where it is not, that the estimate cannot tell is said in place of a ranking.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.lines import Line2D

from wattio.analysis.ranged import Ranged, RangedTest, chosen_p, compared, untold
from wattio.analysis.statistics import Interval, RatioTest
from wattio.report import dots
from wattio.report.phrases import bracketed, percent, times
from wattio.report.plots import Drawn, Table

SHOWN_MAX = 60
"""Most conditions in one figure; all of them are in its CSV file."""

_NAMED_MAX = 4

LEVEL = 0.05
"""Two are apart where the corrected p value is below this."""


@dataclass(frozen=True)
class Condition:
    """One of those that are compared: its name and its values, one for each repetition.

    `sound` is whether it may win: it kept its bound and did its work. What does not compete is
    shown, such as a limit that nothing can beat. `ranged` is what values may be that rest on a
    power model.
    """

    name: str
    values: tuple[float, ...]
    sound: bool = True
    competes: bool = True
    ranged: Ranged | None = None


@dataclass(frozen=True)
class Contest:
    """Conditions that did the same work; the reference is the first.

    `quantity` is what is compared, in words; `paired` says that values of the same place belong
    to the same seed or server, `of` what the values are of; `beside` what those are that do not
    compete.
    """

    name: str
    quantity: str
    conditions: tuple[Condition, ...]
    higher_is_better: bool = False
    paired: bool = False
    of: str = "repetitions"
    beside: str = "limit that none can beat"

    def ratio(self, one: Condition, other: Condition) -> Interval | None:
        """Mean of one over the mean of the other, with a 95 % interval; None for one value each.

        Of an estimate, with all that its coefficients may be.
        """
        tested = self._test(one, other)
        return None if tested is None else tested.interval()

    def _test(self, one: Condition, other: Condition) -> RatioTest | RangedTest | None:
        return compared(other, one, paired=self.paired)

    def ranked(self) -> list[Condition]:
        """Those that may win, the best first."""
        able = [one for one in self.conditions if one.sound and one.competes]
        sign = -1 if self.higher_is_better else 1
        return sorted(able, key=lambda one: sign * float(np.mean(one.values)))

    def leaders(self) -> list[Condition]:
        """The best and all that cannot be told apart from it; none where noise is not known."""
        ranked = self.ranked()
        p = [chosen_p(ranked[0], one, len(ranked), paired=self.paired) for one in ranked[1:]]
        known = [value for value in p if value is not None]
        if not known or len(known) < len(p):
            return []
        near = [one for one, value in zip(ranked[1:], known, strict=True) if value >= LEVEL]
        return [ranked[0], *near]

    def untold(self) -> list[tuple[Condition, RangedTest]]:
        """Those that the estimate cannot tell from the best, each with the test that says why."""
        ranked = self.ranked()
        pairs = [
            (one, untold(ranked[0], one, len(ranked), LEVEL, paired=self.paired))
            for one in ranked[1:]
        ]
        return [(one, tested) for one, tested in pairs if tested is not None]

    @property
    def is_ranked(self) -> bool:
        """Whether an order of the best means anything: no estimate fails to tell them apart."""
        return not self.untold()

    def estimate_says(self) -> str:
        """That the estimate cannot tell, and why, for the first of them; nothing where it can."""
        alike = self.untold()
        if not alike:
            return ""
        best, (one, tested) = self.ranked()[0], alike[0]
        names = _listed([best.name, *(other.name for other, _ in alike)])
        text = f"the estimate cannot tell {names} apart:"
        return f"{text} {tested.why(best.name, one.name, self.quantity)}"

    def _of_estimate(self) -> str:
        """That the estimate cannot tell, and how the others stand to those that it cannot."""
        best, alike = self.ranked()[0], self.untold()
        text = f"{self.name}: {self.estimate_says()}."
        others = [one for one in self.ranked()[1:] if all(one is not it for it, _ in alike)]
        level = [one.name for one in others if one in self.leaders()]
        behind = [one.name for one in others if one not in self.leaders()] if self.leaders() else []
        if level:
            text += f" {_listed(level)} cannot be told from {best.name} for noise."
        if behind:
            more = "less" if self.higher_is_better else "more"
            text += f" {_listed(behind)}: {more} than {best.name} whatever they are."
        return text

    def sentence(self) -> str:
        """The winner and by how much, or that there is none, or that the estimate cannot tell."""
        ranked, reference = self.ranked(), self.conditions[0]
        if len(ranked) < 2:
            return f"{self.name}: nothing is left to compare."
        if not self.is_ranked:
            return self._of_estimate()
        best, rivals = ranked[0], ranked[1:]
        text = f"{self.name}: {best.name}{', the reference,' if best is reference else ''} has"
        text += f" the {'most' if self.higher_is_better else 'least'} {self.quantity}"
        if best is not reference:
            text += f", {self._by(best, reference)} {reference.name}"
        level = self.leaders()[1:]
        if not self.leaders():
            return f"{text}; one {self.of[:-1]} does not tell how much is noise."
        if not level:
            if rivals[0] is not reference:
                also = "" if best is reference else " and"
                text += f",{also} {self._by(best, rivals[0])} {rivals[0].name}, the next"
            return f"{text}."
        names = _listed([one.name for one in (best, *level)])
        if len(level) == len(rivals):
            return f"{self.name}: no winner; {names} cannot be told apart.{self._seen(level)}"
        text = f"{self.name}: no single winner: {names} lead, and cannot be told apart."
        return f"{text}{self._seen(level)}"

    def _by(self, one: Condition, other: Condition) -> str:
        """By how much one is better than the other, with its interval."""
        ratio = float(np.mean(one.values)) / float(np.mean(other.values))
        interval = self.ratio(one, other)
        ends = f" ({times(interval.low)} to {times(interval.high)})" if interval else ""
        change = f"{percent(abs(ratio - 1), 1)} {'more' if ratio > 1 else 'less'}"
        return f"{change}{ends} than"

    def _seen(self, level: Sequence[Condition]) -> str:
        """How large a difference from the best would have been seen."""
        best = self.ranked()[0]
        tests = [tested for one in level if isinstance(tested := self._test(one, best), RatioTest)]
        if len(tests) < len(level):
            return ""
        size = max(tested.seen_from(LEVEL / math.comb(len(self.ranked()), 2)) for tested in tests)
        counts = sorted({len(one.values) for one in (best, *level)})
        many = f"With {' or '.join(map(str, counts))} {self.of} each"
        if size >= 1:
            return f" {many}, only a difference of more than double would have been seen."
        seen = percent(max(size, 0.001), 1)  # Of runs that are the same it would be 0.0 %.
        return f" {many}, a difference of {seen} would have been seen in 80 % of cases."


def _listed(names: Sequence[str]) -> str:
    """The first of some names, and how many more there are."""
    left = len(names) - _NAMED_MAX
    text = ", ".join(names[:_NAMED_MAX])
    return f"{text} and {left} more" if left > 0 else text


def drawn(contests: Sequence[Contest], estimated: bool = False) -> Drawn | None:
    """Every condition over its contest's reference, the best first; None if nothing competes."""
    contests = [one for one in contests if len(one.conditions) > 1]
    if not contests:
        return None
    table: Table = [["contest", "condition", "quantity", "ratio", "low", "high", "n", "counts"]]
    panels = [
        dots.Panel(
            contest.name,
            _dots(contest, table)[:SHOWN_MAX],
            f"{contest.quantity}, over that of {contest.conditions[0].name}",
        )
        for contest in contests
    ]
    image, narrow = dots.images(panels, _handles(contests), columns=2)
    kind = " ESTIMATE." if estimated else ""
    text = (
        "Each mean over the mean of the reference, which is 1, with its 95 % interval alone where"
    )
    kinds = dict.fromkeys("the paired" if one.paired else "Welch's" for one in contests)
    text += f" there are repetitions ({' or '.join(kinds)} t of the ratio's logarithm); left of the"
    text += " line is less. A winner is told where p of its pairs, corrected for all pairs"
    text += f" (Bonferroni), is below {LEVEL:g}.{kind}"
    if not all(contest.is_ranked for contest in contests):
        text += " Intervals of an estimate are over all that its coefficients may be; where it"
        text += " cannot tell, conditions stand in the order of the study."
    if any(len(one.conditions) > SHOWN_MAX for one in contests):
        text += f" The best {SHOWN_MAX} of each are drawn."
    alternative = "Dots with error bars: every condition relative to the reference, ranked."
    title = "Everything against the reference"
    return Drawn("winners", title, text, alternative, image, table, narrow=narrow)


def _dots(contest: Contest, table: Table) -> list[dots.Dot]:
    """All conditions, the best first where they are ranked; their rows are added to the table."""
    reference = contest.conditions[0]
    base = float(np.mean(reference.values))
    sign = (-1 if contest.higher_is_better else 1) if contest.is_ranked else 0
    found = []
    for one in sorted(contest.conditions, key=lambda one: sign * float(np.mean(one.values))):
        ratio = float(np.mean(one.values)) / base
        interval = None if one is reference else contest.ratio(one, reference)
        ends = (interval.low, interval.high) if interval else None
        counts = "yes" if one.sound and one.competes else "no"
        head = [contest.name, one.name, contest.quantity, ratio]
        table.append([*head, *(ends or ("", "")), len(one.values), counts])
        text = bracketed(times(ratio), one.sound)
        found.append(dots.Dot(one.name, ratio, text, _look(one, one is reference), ends))
    return found


def _look(one: Condition, is_reference: bool) -> dict[str, Any]:
    colour = "#000000" if is_reference else "#0072B2" if one.competes else "#009E73"
    mark = "s" if is_reference else "o" if one.competes else "D"
    return {"color": colour, "marker": mark, "markerfacecolor": colour if one.sound else "white"}


def _handles(contests: Sequence[Contest]) -> list[Line2D]:
    every = [one for contest in contests for one in contest.conditions]
    kinds = [("reference", Condition("", ()), True), ("compared", Condition("", ()), False)]
    if any(not one.sound for one in every):
        text = "does not count: bound broken or work left undone"
        kinds.append((text, Condition("", (), sound=False), False))
    if any(not one.competes for one in every):
        kinds.append((contests[0].beside, Condition("", (), competes=False), False))
    return [
        Line2D([], [], label=label, linestyle="none", **_look(one, is_ref))
        for label, one, is_ref in kinds
    ]
