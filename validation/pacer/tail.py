"""What the document says of tail latency beside ours: p99 under PACER against p99 under ondemand.

The document draws its p99 latencies and gives none as a number; its text compares them. So what is
compared here is the sentence: it holds, or it does not, and by how much.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from wattio.analysis.statistics import Interval

from validation.pacer import data
from validation.pacer.data import (
    ONDEMAND,
    ONDEMAND_PRINTED,
    PACER,
    PRESSURES,
    BySeed,
    Evaluation,
    interval,
    load_name,
    together,
)
from validation.pacer.entries import NOT_RUN

P99, MEAN = "latency_us_p99", "latency_us_mean"

HELD, NOT_HELD, UNDECIDED = "held", "not held", "undecided"

LOWER = "rises less than under ondemand"
COMPARABLE = "comparable to ondemand"

COMPARABLE_PERCENT = 3.0
"""A difference up to this is called comparable: what the page counts as agreement."""

Values = Callable[[str, str], BySeed]
"""Ratios to native of a metric under a policy."""


@dataclass(frozen=True)
class Tail:
    """One sentence on p99 at one load: both policies over native, and how it came out."""

    load: str
    where: str
    claim: str
    against: str
    ondemand: Interval | None
    pacer: Interval | None
    more_percent: Interval | None
    """PACER's p99 over ondemand's, in per cent above it, seed by seed."""
    outcome: str
    why: str


def claims(study: Evaluation) -> list[Tail]:
    """Every sentence of the document on p99, at each load that it may stand for."""
    found = []
    for against in (ONDEMAND, ONDEMAND_PRINTED):
        found.append(_of(study, "day", "section V-B1, fig. 17", LOWER, against))
    for pressure in PRESSURES:
        for against in (ONDEMAND, ONDEMAND_PRINTED):
            load = load_name("Rand_RW", pressure)
            found.append(_of(study, load, "section V-A3, fig. 14", LOWER, against))
    for pressure in data.LOW_PRESSURES:
        name = f"five access patterns at {pressure:.2f}, geometric mean"

        def values(label: str, metric: str, at: float = pressure) -> BySeed:
            return study.geometric_means(at, label, metric)

        found.append(_compared(name, "section V-A2, fig. 12", COMPARABLE, ONDEMAND, values))
    return found


def _of(study: Evaluation, load: str, where: str, claim: str, against: str) -> Tail:
    return _compared(
        load, where, claim, against, lambda label, metric: study.by_seed(load, label, metric)
    )


def _compared(load: str, where: str, claim: str, against: str, values: Values) -> Tail:
    theirs, ours = values(against, P99), values(PACER, P99)
    pairs = together(theirs, ours)
    more = interval([100 * (pacer / ondemand - 1) for ondemand, pacer in pairs])
    outcome = judged(claim, more)
    why = _reason(values, against) if outcome in (NOT_HELD, UNDECIDED) else ""
    return Tail(load, where, claim, against, _mean(theirs), _mean(ours), more, outcome, why)


def _mean(values: BySeed) -> Interval | None:
    return interval([*values.values()])


def judged(claim: str, more_percent: Interval | None) -> str:
    """Whether a sentence holds of p99 being so much higher than under ondemand.

    Where the interval over the seeds has both answers in it, it is undecided.
    """
    if more_percent is None:
        return NOT_RUN
    low, high = more_percent.low, more_percent.high
    if claim == COMPARABLE:
        # A lower tail than ondemand's is no fault: only a higher one breaks the sentence.
        low, high = low - COMPARABLE_PERCENT, high - COMPARABLE_PERCENT
    if high < 0:
        return HELD
    return NOT_HELD if low > 0 else UNDECIDED


def _reason(values: Values, against: str) -> str:
    """Why the tail is longer: gating makes queues, a lower frequency makes longer tasks."""
    latency = [_mean(values(label, MEAN)) for label in (PACER, against)]
    power = [_mean(values(label, "power_w_mean")) for label in (PACER, against)]
    known = [value.estimate for value in (*latency, *power) if value is not None]
    if len(known) < 4:
        return ""
    ours, theirs, ours_w, theirs_w = known
    return (
        "PACER promises the mean, not the tail, and gates cores: what that costs are queues, which"
        " few requests meet and p99 shows, where a lower frequency stretches all tasks alike. It"
        f" saves {100 * (1 - ours_w):.1f} % at {ours:.3f} x mean latency here, ondemand"
        f" {100 * (1 - theirs_w):.1f} % at {theirs:.3f} x."
    )
