"""What must hold of the simulated evaluation, and what is reported as found.

A check that must hold and does not fails the command. One whose runs are missing is "not run": it
neither holds nor fails, and is shown as such.
"""

from __future__ import annotations

from dataclasses import dataclass

from wattio.analysis.statistics import Interval

from validation.pacer import before, data
from validation.pacer.data import (
    BACKGROUND_FLOOR,
    GATING,
    LOW_PRESSURES,
    ONDEMAND,
    ONDEMAND_PRINTED,
    ORACLE,
    PACER,
    PATTERNS,
    PRESSURES,
    PRINTED,
    UNCOORDINATED,
    Evaluation,
    load_name,
)
from validation.pacer.entries import NOT_RUN, Compared

HOLDS, FAILS, FOUND = "holds", "FAILS", "found"

SMALL_SAVING_PERCENT = 5.0
"""What the document calls modest: ondemand saves less than this."""

BURST = "burst"


@dataclass(frozen=True)
class Check:
    """One check: its claim, how it came out (holds, FAILS, found, not run) and the numbers."""

    claim: str
    outcome: str
    detail: str

    @property
    def failed(self) -> bool:
        """Whether the claim must hold and does not."""
        return self.outcome == FAILS


def run(study: Evaluation, compared: list[Compared]) -> list[Check]:
    """Every check, those that must hold first."""
    must = [_bound(study), _ondemand(study), _background(study), _inputs(compared)]
    found = [_combination(study), _starved(study), _captured(study), _sweep(study)]
    return [*must, *found, _fit(compared)]


def _bound(study: Evaluation) -> Check:
    """Mean latency within 1 + plf on Table II at 3 and 10 %, with every seed."""
    claim = f"PACER keeps mean latency within {1 + study.plf:g} x native on all five patterns of "
    claim += "Table II at 3 and 10 % pressure, with every seed"
    worst: list[tuple[float, str]] = []
    missing = []
    for pattern in PATTERNS:
        for pressure in LOW_PRESSURES:
            load = load_name(pattern, pressure)
            ratios = study.ratios(load, PACER, "latency_us_mean")
            worst += [(max(ratios), load)] if ratios else []
            missing += [] if ratios else [load]
    if not worst:
        return Check(claim, NOT_RUN, "none of these loads was run under PACER")
    most, load = max(worst)
    detail = f"most is {most:.3f} x ({load})"
    return _judged(claim, most <= 1 + study.plf, detail, missing)


def _ondemand(study: Evaluation) -> Check:
    """Both variants of ondemand save little and cost latency on every load but the burst."""
    claim = f"ondemand saves less than {SMALL_SAVING_PERCENT:g} % and costs latency on every load "
    claim += "below full pressure, in both variants"
    found = []
    for label in (ONDEMAND, ONDEMAND_PRINTED):
        for load in study.loads(label):
            saving = study.saving_percent(load, label)
            latency = study.ratio(load, label, "latency_us_mean")
            if load != BURST and saving is not None and latency is not None:
                found.append((saving.high, latency.low, load))
    if not found:
        return Check(claim, NOT_RUN, "ondemand was not run")
    most, least = max(saving for saving, *_ in found), min(latency for _, latency, _ in found)
    over = [load for _, latency, load in found if latency > 1 + study.plf]
    detail = (
        f"it saves at most {most:.1f} % and costs at least {least:.2f} x over {len(found)} runs"
    )
    detail += f"; {len(over)} of them are beyond {1 + study.plf:g} x" if over else ""
    return _judged(claim, most < SMALL_SAVING_PERCENT and least > 1, detail)


def _background(study: Evaluation) -> Check:
    """PACER does the background work of native beside every saving."""
    floor_percent = 100 * BACKGROUND_FLOOR
    claim = f"PACER does at least {floor_percent:.0f} % of native's background work on every load"
    found = []
    for load in study.loads(PACER):
        ratio = study.ratio(load, PACER, "background_rate_mean")
        if ratio is not None:
            found.append((ratio.estimate, load))
    if not found:
        return Check(claim, NOT_RUN, "PACER was not run")
    least, load = min(found)
    detail = f"least is {least:.3f} x ({load}) of {len(found)} loads"
    return _judged(claim, least >= BACKGROUND_FLOOR, detail)


def _inputs(compared: list[Compared]) -> Check:
    """What the document gives as input is what was simulated."""
    claim = "The inputs of the document are those of the simulation"
    inputs = [row for row in compared if row.entry.kind == "input"]
    known = {"results.workload_duration_s"}  # shorter on purpose; the table says why
    odd = [row.entry.quantity for row in inputs if row.differs and row.entry.key not in known]
    detail = f"{len(inputs)} inputs compared" + (f"; other: {', '.join(odd)}" if odd else "")
    return _judged(claim, not odd, detail)


def _combination(study: Evaluation) -> Check:
    """Whether gating and frequency together beat gating alone: as found."""
    claim = (
        "Do gating and frequency together beat gating alone? The document says so (section V-A3)"
    )
    named = ((PACER, "coordinated"), (UNCOORDINATED, "uncoordinated"), (PRINTED, "as printed"))
    parts = []
    for label, name in named:
        gains = []
        for pressure in PRESSURES:
            load = load_name("Rand_RW", pressure)
            both = study.ratio(load, label, "iops_per_watt")
            alone = study.ratio(load, GATING, "iops_per_watt")
            if both is not None and alone is not None:
                gains.append(100 * (both.estimate / alone.estimate - 1))
        if gains:
            shown = " / ".join(f"{gain:+.1f}" for gain in gains)
            parts.append(f"{name} {shown} %")
    if not parts:
        return Check(claim, NOT_RUN, "the adaptors were not run one by one")
    at = " / ".join(f"{100 * pressure:.0f}" for pressure in PRESSURES)
    detail = f"IOPS/W of both over gating alone, Rand_RW at {at} %: " + "; ".join(parts)
    return Check(claim, FOUND, detail + ". As printed is not comparable: see background work.")


def _starved(study: Evaluation) -> Check:
    claim = "Background work under the law as printed, which does not account for it"
    return _listed(
        claim,
        [
            (load, study.ratio(load, PRINTED, "background_rate_mean"), "{:.2f} x")
            for load in study.loads(PRINTED)
        ],
    )


def _captured(study: Evaluation) -> Check:
    claim = "Share of the oracle's saving that PACER captures"
    loads = [load for load in study.loads(ORACLE) if load in study.loads(PACER)]
    return _listed(
        claim, [(load, study.captured_percent(load, PACER), "{:.0f} %") for load in loads]
    )


def _sweep(study: Evaluation) -> Check:
    """Whether mean latency stays within plf for every plf, as the document says of figure 10."""
    claim = "Does mean latency stay within 1 + plf for every plf (figure 10), and does plf matter?"
    inside, total, spreads = 0, 0, []
    for pressure in PRESSURES:
        load, savings = load_name("Rand_RW", pressure), []
        for label, plf in data.plf_runs(study, load):
            ratio = study.ratio(load, label, "latency_us_mean")
            saving = study.saving_percent(load, label)
            if ratio is not None and saving is not None:
                total += 1
                inside += ratio.estimate <= 1 + plf
                savings.append(saving.estimate)
        if len(savings) > 1:
            low, high = min(savings), max(savings)
            spreads.append(f"{low:.1f} to {high:.1f} % at {100 * pressure:.0f} %")
    if not spreads:
        return Check(claim, NOT_RUN, "plf was not swept")
    detail = f"within it in {inside} of {total} runs; power saved over all plf: "
    return Check(claim, FOUND, detail + ", ".join(spreads) + " pressure")


def _fit(compared: list[Compared]) -> Check:
    """What fitting the background work did to the published numbers."""
    claim = "Which published numbers did fitting the background work come nearer to, and which not?"
    moved = before.moved(compared)
    if not moved:
        return Check(claim, NOT_RUN, "none of the readings that it moves was run")
    parts = []
    for worse, name in ((False, "nearer"), (True, "further away")):
        own = [
            f"{one.named} ({one.before_percent:+.1f} % before, {one.now_percent:+.1f} % now)"
            for one in moved
            if one.worse is worse
        ]
        parts.append(f"{name}: {'; '.join(own) or 'none'}")
    return Check(claim, FOUND, ". ".join(parts))


def _listed(claim: str, values: list[tuple[str, Interval | None, str]]) -> Check:
    known = [
        f"{form.format(value.estimate)} on {load}"
        for load, value, form in values
        if value is not None
    ]
    return Check(claim, FOUND, ", ".join(known)) if known else Check(claim, NOT_RUN, "no such run")


def _judged(claim: str, holds: bool, detail: str, missing: list[str] | None = None) -> Check:
    if missing:
        detail += f"; not run: {', '.join(missing)}"
        return Check(claim, FAILS if not holds else NOT_RUN, detail)
    return Check(claim, HOLDS if holds else FAILS, detail)
