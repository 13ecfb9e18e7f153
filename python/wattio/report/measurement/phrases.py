"""What a measurement found, in plain words, and its verdicts put together by their reasons."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from wattio.analysis.ranged import chosen_p
from wattio.report.measurement.gather import CLIENTS, Measured, PhasePart, WorkloadPart
from wattio.report.phrases import number
from wattio.report.rankings import LEVEL, Condition, Contest
from wattio.results.summary import Estimate, Row

WORKLOADS_TOLD = 6
"""Most workloads with a headline of their own."""

PHASES_TOLD = 4
"""Most phases of a workload that the headline speaks of."""

UNITS = {"mib_per_joule": "MiB/J", "iops_per_watt": "ops/J", "files_per_joule": "files/J"}

MEANINGS = {
    "LOW_N": "a phase holds few power samples; its energy is less certain",
    "BUSY": "other processes took processor time of the machine that is measured",
    "COARSE": "a meter counts in steps that are no small share of what it counted",
    "DOUBT": "something was seen that makes a result doubtful",
    "FAILED": "a program did not end as it should",
    "UNREADABLE": "what a program left cannot be read",
    "NO_SAMPLES": "a meter said nothing at all during a phase",
    "GAP": "a meter said nothing for too long",
    "LOST": "a meter was lost; what a counter counted meanwhile is not known",
    "NO_ENERGY": "a phase holds no sample of a meter, and has no figure of its energy",
    "MISSING": "too many samples of a meter are missing",
    "FROZEN": "a meter showed an old value",
    "CLOCK": "the wall clock was set while something was measured",
    "CLOCKS": "the clocks of a host and of this machine do not agree",
}

_DIGITS = re.compile(r"\d+(?:\.\d+)?(?:e[+-]?\d+)?")


def headline(part: WorkloadPart, found: Measured) -> str:
    """Which setting does the most for a joule, phase by phase."""
    texts = [text for phase in part.phases if (text := _best(phase, found))]
    if not texts:
        why = "no iteration may be used for it"
        if any(phase.used() for phase in part.phases):
            why = "its phases are too short for the meter: none holds a sample of power"
        return f"{part.name}: no efficiency is known, because {why}."
    left = len(texts) - PHASES_TOLD
    more = f" {left} more phases are below." if left > 0 else ""
    return f"{part.name}: {'; '.join(texts[:PHASES_TOLD])}.{more}"


def details(part: WorkloadPart, found: Measured) -> list[str]:
    """Who needs the least energy for the same work, and where the question has no answer."""
    texts = [text for phase in part.phases if (text := _least_energy(phase, found))]
    left = len(texts) - PHASES_TOLD
    if left > 0:
        texts = [*texts[:PHASES_TOLD], f"{left} more phases are below."]
    apart = [phase for phase in part.phases if len(phase.used()) > 1 and not phase.comparisons]
    unknown = [phase.name for phase in apart if not _all_have_energy(phase)]
    unequal = [phase.name for phase in apart if phase.name not in unknown]
    if unequal:
        texts.append(
            f"The work in {_some(unequal)} differed from row to row, so energies and energy-delay"
            " products are not compared there."
        )
    if unknown:
        texts.append(
            f"The energy in {_some(unknown)} is not known of every row, so energies and"
            " energy-delay products are not compared there."
        )
    return texts


def _all_have_energy(phase: PhasePart) -> bool:
    return all(row.get("energy_j") is not None for row in phase.used())


def _some(names: Sequence[str]) -> str:
    left = len(names) - PHASES_TOLD
    return ", ".join(names[:PHASES_TOLD]) + (" and others" if left > 0 else "")


def has_samples(row: Row, found: Measured) -> bool:
    """Whether the energy of a phase was seen: some sample lies within it, or it was counted.

    What is interpolated between samples outside of a phase says nothing about it.
    """
    samples = row.get("power_samples")
    facts = found.folder.facts(found.records.values())
    counted = [facts[m.shown].counts_energy for m in found.totals if m.shown in facts]
    return (samples is not None and samples.mean > 0) or (bool(counted) and all(counted))


def _best(phase: PhasePart, found: Measured) -> str:
    name = phase.efficiency
    ranked = sorted(
        (
            (row, value)
            for row in phase.used()
            if (value := row.get(name)) is not None and has_samples(row, found)
        ),
        key=lambda pair: -pair[1].mean,
    )
    if not ranked:
        return ""
    row, value = ranked[0]
    figure = f"{spread(value)} {UNITS[name]}{estimate(found)}"
    if len(ranked) == 1:
        return f"{phase.name} does {figure}"
    if untold := efficiency_contest(phase, [row for row, _ in ranked]).estimate_says():
        return f"of {phase.name}, {untold}"
    leaders = efficiency_contest(phase, [row for row, _ in ranked]).leaders()
    if len(leaders) > 1:
        names = ", ".join(one.name for one in leaders[:PHASES_TOLD])
        more = f" and {len(leaders) - PHASES_TOLD} more" if len(leaders) > PHASES_TOLD else ""
        text = f"no winner of {phase.name} for a joule: {names}{more} cannot be told apart"
        return f"{text} ({phase.names.of(row.run)} did {figure})"
    text = f"{phase.name} does the most for a joule on {phase.names.of(row.run)}, {figure}"
    behind = f"{phase.names.of(ranked[1][0].run)} with {number(ranked[1][1].mean)}"
    if not leaders:
        return f"{text}, before {behind} (one repetition does not tell how much of that is noise)"
    return f"{text}, clearly before {behind}"


def efficiency_contest(phase: PhasePart, among: Sequence[Row]) -> Contest:
    """Rows against each other by what they do for a joule."""
    values = [(row, value) for row in among if (value := row.get(phase.efficiency)) is not None]
    conditions = [
        Condition(phase.names.of(row.run), value.values, ranged=value.ranged)
        for row, value in values
    ]
    quantity = UNITS[phase.efficiency]
    return Contest(phase.name, quantity, tuple(conditions), higher_is_better=True)


def _energy_contest(phase: PhasePart, among: Sequence[Row]) -> Contest:
    values = [(row, value) for row in among if (value := row.get("energy_j")) is not None]
    conditions = [
        Condition(phase.names.of(row.run), value.values, ranged=value.ranged)
        for row, value in values
    ]
    return Contest(phase.name, "energy", tuple(conditions))


def _least_energy(phase: PhasePart, found: Measured) -> str:
    """Energy for the same work: the least and the most of each comparison."""
    seen = [
        comparison.rows
        for comparison in phase.comparisons
        if all(has_samples(row, found) and row.get("energy_j") for row in comparison.rows)
    ]
    unclear = [text for rows in seen if (text := _energy_contest(phase, rows).estimate_says())]
    if unclear:
        more = f" ({len(unclear) - 1} more comparisons alike)" if len(unclear) > 1 else ""
        return f"Of the same work in {phase.name}, {unclear[0]}{more}."
    pairs = [(*_ends(rows), _level(rows)) for rows in seen]
    if not pairs:
        return ""
    begin = f"The same work in {phase.name} takes the least energy on"
    winners = {phase.names.of(least.run, without=CLIENTS) for (_, least), *_ in pairs}
    if len(pairs) > 1 and len(winners) == 1:
        ratios = sorted({f"{most[0] / least[0]:.2f}" for least, most, _ in pairs}, key=float)
        text = f"{begin} {winners.pop()} with any number of clients{estimate(found)}; the most is"
        return f"{text} {' to '.join(dict.fromkeys((ratios[0], ratios[-1])))} times that."
    texts = []
    for least, most, level in pairs:
        unit = f"J{', ESTIMATE' * found.estimated}"
        text = f"{phase.names.of(least[1].run)} ({number(least[0])} {unit}; the most:"
        noise = ", within noise" if level else ""
        times = f"{most[0] / least[0]:.2f}\N{MULTIPLICATION SIGN}"
        texts.append(f"{text} {phase.names.of(most[1].run)}, {times} that{noise})")
    return f"{begin} {'; '.join(texts)}."


def _ends(among: Sequence[Row]) -> tuple[tuple[float, Row], tuple[float, Row]]:
    """The least and the most energy among rows of equal work, each with its row."""
    energies = [(value.mean, row) for row in among if (value := row.get("energy_j")) is not None]
    return min(energies, key=_first), max(energies, key=_first)


def _level(among: Sequence[Row]) -> bool:
    """Whether the most energy among rows of equal work may be the least but for noise."""
    found = sorted(
        (value for row in among if (value := row.get("energy_j")) is not None),
        key=lambda value: value.mean,
    )
    p = chosen_p(found[0], found[-1], len(found))
    return p is not None and p >= LEVEL


def _first(pair: tuple[float, Row]) -> float:
    return pair[0]


def spread(value: Estimate) -> str:
    """A mean with its deviation, where there is one."""
    if value.deviation is None:
        return number(value.mean)
    return f"{number(value.mean)} ± {deviation(value.mean, value.deviation)}"


def deviation(mean: float, value: float) -> str:
    """A deviation to one decimal more than its mean has."""
    shown = number(mean)
    if value >= 1000:
        return number(value)
    decimals = 0 if abs(mean) >= 1000 else len(shown.partition(".")[2]) + 1
    return f"{value:.{decimals}f}"


def estimate(found: Measured) -> str:
    """The word, where totals rest on an estimate."""
    return " (ESTIMATE)" if found.estimated else ""


def counts(found: Measured) -> str:
    """How many iterations may be used."""
    last = found.last
    bad = sum(not item.usable for item in last)
    warned = sum(
        item.usable and any(verdict.verdict == "WARN" for verdict in item.verdicts) for item in last
    )
    total = f"{len(last)} iteration{'' if len(last) == 1 else 's'}"
    text = f"{total}: {len(last) - bad - warned} VALID, {warned} WARN, {bad} INVALID."
    again = len(found.iterations) - len(last)
    if again:
        text += f" {again} earlier attempt{'' if again == 1 else 's'} were INVALID and repeated."
    if bad:
        codes = Counter(
            code
            for item in last
            for code in {_code(v.reason) for v in item.verdicts if v.verdict == "INVALID"}
        )
        often = sorted(codes.items(), key=lambda pair: (-pair[1], pair[0]))
        why = ", ".join(f"{code} in {count}" for code, count in often)
        text += f" INVALID ones are shown and never averaged ({why})."
    return text


@dataclass
class Reason:
    """Verdicts that differ in numbers and phases only."""

    verdict: str
    code: str
    example: str
    iterations: set[str] = field(default_factory=set)
    phases: dict[str, None] = field(default_factory=dict)
    runs: dict[str, None] = field(default_factory=dict)

    @property
    def meaning(self) -> str:
        """What the code means."""
        return MEANINGS.get(self.code, "")

    @property
    def where(self) -> str:
        """The runs, the first of them by name."""
        return shortened(list(self.runs), 3)


def reasons(found: Measured) -> list[Reason]:
    """Every reason of every iteration, equal ones together; the worst, then the most frequent."""
    groups: dict[tuple[str, str, str], Reason] = {}
    for item in found.iterations:
        record = found.records.get(item.identity)
        phases = {phase.span.name for phase in record.phases} if record else set()
        for verdict in item.verdicts:
            if verdict.verdict == "VALID":
                continue
            code, text = _code(verdict.reason), verdict.reason.partition(": ")[2]
            first, _, rest = text.partition(": ")
            if first in phases and code == "DOUBT":
                # What stands before the doubt is the operation, which says no more.
                rest = rest.partition(": ")[2]
            masked = _DIGITS.sub("#", rest if first in phases else text)
            key = (verdict.verdict, code, masked)
            reason = groups.setdefault(key, Reason(verdict.verdict, code, text))
            reason.iterations.add(item.identity)
            reason.runs.setdefault(item.run.name)
            if first in phases:
                reason.phases.setdefault(first)
    return sorted(groups.values(), key=lambda one: (one.verdict != "INVALID", -len(one.iterations)))


def _code(reason: str) -> str:
    return reason.partition(":")[0]


def shortened(names: Sequence[str], most: int) -> str:
    """The first few names of a list, and how many more there are."""
    left = len(names) - most
    text = ", ".join(names[:most])
    return f"{text} and {left} more" if left > 0 else text


def axis_text(part: WorkloadPart) -> str:
    """What varies in a workload, in words."""
    if part.x_name is None:
        return "systems side by side" if len(part.x_labels) > 1 else "one setting"
    what = "client count" if part.x_name == CLIENTS else part.x_name
    return f"by {what}: {', '.join(part.x_labels)}"
