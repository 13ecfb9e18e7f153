"""What requests cost the servers' processors: every system against the best of the peers."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from wattio.report.measurement.gather import Measured, PhasePart
from wattio.report.measurement.phrases import estimate
from wattio.report.page import Block, Cells, Heading, Text, grid
from wattio.report.phrases import DASH, latency, number, percent, times
from wattio.report.rankings import Condition, Contest
from wattio.results.summary import Estimate, Row

PER_IO = "server_cpu_us_per_io"
SHARE = "server_cpu_share"
JOULES = "energy_j_per_io"

QUANTITY = "processor time per I/O"


def contests(found: Measured) -> Iterator[Contest]:
    """Processor time for each request, phase by phase; the reference is the best of the peers."""
    for part in found.workloads:
        for phase in part.phases:
            contest = of_phase(f"{part.name}, {phase.name}", phase, found)
            if contest is not None:
                yield contest


def sentences(found: Measured) -> Iterator[str]:
    """What won, phase by phase; then how what the study calls its own stands to the best peer."""
    own = {entry.name for entry in found.study.system if entry.role == "own"}
    for contest in contests(found):
        text = contest.sentence()
        for one in contest.conditions[1:]:
            if one.name.partition(",")[0] in own and one not in contest.leaders()[:1]:
                ratio, ends = _ratio(one.name, contest)
                text += f" {one.name} takes {ratio} ({ends}) that of {contest.conditions[0].name}."
        yield text
    for part in found.workloads:
        for phase in part.phases:
            text = _idle(f"{part.name}, {phase.name}", phase)
            if text:
                yield text


def _idle(name: str, phase: PhasePart) -> str:
    """What servers take of which nothing is asked: the least and the most."""
    told = [
        (share.mean, phase.names.of(row.run))
        for row in phase.used()
        if (share := row.get(SHARE)) is not None and row.get("operations") is None
    ]
    if len(told) < 2:
        return ""
    (least, first), (most, last) = min(told), max(told)
    text = f"{name}: servers of which nothing is asked take {percent(least, 4)} of a core ({first})"
    return f"{text} to {percent(most, 4)} ({last})."


def of_phase(name: str, phase: PhasePart, found: Measured) -> Contest | None:
    """The contest of one phase; None if fewer than two that compete tell what they took."""
    roles = {entry.name: entry.role for entry in found.study.system}
    pairs = []
    for row in phase.used():
        value = row.get(PER_IO)
        if value is not None and min(value.values) > 0:
            role = roles[row.run.system]
            label = phase.names.of(row.run)
            pairs.append((role, Condition(label, value.values, competes=role != "beside")))
    peers = [one for role, one in pairs if role == "peer"]
    if sum(one.competes for _, one in pairs) < 2 or not peers:
        return None
    best = min(peers, key=lambda one: float(np.mean(one.values)))
    others = [one for _, one in pairs if one is not best]
    return Contest(name, QUANTITY, (best, *others), beside="shown beside, does not compete")


def table(phase: PhasePart, found: Measured) -> list[Block]:
    """What each system takes, and its ratio to the best peer; nothing where none tells it."""
    if not any(row.get(SHARE) for row in phase.used()):
        return []
    contest = of_phase("", phase, found)
    kind = estimate(found).strip(" ()")
    columns: Cells = [
        "run",
        ("time per I/O", "of its processors"),
        ("to the best peer", contest.conditions[0].name if contest else ""),
        ("95 % interval", "of the ratio"),
        ("of one core", "while it ran"),
        ("energy per I/O", "\n".join(text for text in ("J", "whole host", kind) if text)),
    ]
    rows: list[Cells] = []
    for row in phase.used():
        label = phase.names.of(row.run)
        own, joules = row.get(PER_IO), row.get(JOULES)
        rows.append(
            [
                label,
                _per_io(own),
                *_ratio(label, contest),
                _share(row),
                DASH if joules is None else number(joules.mean),
            ]
        )
    text = "User and system time of the server's processes and all their threads, the kernel's"
    text += " for io_uring among them, from before the client connects until it has left. Not in"
    text += " it: interrupts, completions of the block layer, and the kernel's writing back."
    title = "Processor time of the servers"
    return [Heading(title, 4), grid(title, columns, rows), Text(text, "note")]


def _per_io(value: Estimate | None) -> tuple[str, str]:
    if value is None:
        return DASH, ""
    spread = "" if value.deviation is None else f"± {latency(value.deviation)}"
    return latency(value.mean), spread


def _ratio(label: str, contest: Contest | None) -> tuple[str, str]:
    """The ratio to the reference, and its interval."""
    if contest is None:
        return DASH, DASH
    reference = contest.conditions[0]
    one = next((one for one in contest.conditions if one.name == label), None)
    if one is None:
        return DASH, DASH
    if one is reference:
        return times(1.0), DASH
    ratio = float(np.mean(one.values)) / float(np.mean(reference.values))
    ends = contest.ratio(one, reference)
    return times(ratio), f"{times(ends.low)} to {times(ends.high)}" if ends else DASH


def _share(row: Row) -> tuple[str, str]:
    value = row.get(SHARE)
    if value is None:
        return DASH, ""
    decimals = 1 if value.mean >= 0.1 else 4
    spread = "" if value.deviation is None else f"± {100 * value.deviation:.{decimals}f}"
    return percent(value.mean, decimals), spread
