"""What the page says of each load, in sentences."""

from __future__ import annotations

from collections import Counter

from wattio.kinds.simulation import promises
from wattio.kinds.simulation.overall import sound
from wattio.report.phrases import bracketed, number, percent, times, undone
from wattio.report.simulation.figures import contests
from wattio.report.simulation.gather import LoadPart, Result
from wattio.results.summary import Row
from wattio.simulator.policies import BOUND_BY, REFERENCE

LOADS_TOLD = 6
"""Most loads whose winner is told in a sentence."""


def winners(result: Result) -> list[str]:
    """Who draws the least power on each load, or over how many loads."""
    found = contests(result)
    if len(found) <= LOADS_TOLD:
        return [one.sentence() for one in found]
    led = [one.leaders() for one in found]
    clear = Counter(leaders[0].name for leaders in led if len(leaders) == 1)
    told = [f"{name} on {count}" for name, count in clear.most_common()]
    level = sum(len(leaders) > 1 for leaders in led)
    told += [f"several that cannot be told apart on {level}"] if level else []
    unknown = len(led) - clear.total() - level
    told += [f"not known on {unknown}, of which one seed says too little"] if unknown else []
    head = f"Of {len(found)} loads, clearly the least power with every promise kept is drawn by"
    return [f"{head}: {', '.join(told)}."]


def headline(part: LoadPart) -> str:
    """What a reader should take away about one load, in one or two sentences."""
    where = f"On {part.name} ({part.server})"
    subject = part.subject
    if subject is None or part.native is None:
        return f"{where}: no policy was compared with native."
    row = subject.row
    saving = part.saving(subject)
    latency, called = _latency(row)
    if saving is None or latency is None:
        return f"{where}: {subject.label} has no native run to be compared with."
    watts = (
        f"{number(part.native.row.mean('power_w_mean'))} to {number(row.mean('power_w_mean'))} W"
    )
    share = bracketed(percent(abs(saving), 1), sound(row))
    change = f"save {share}" if saving >= 0 else f"cost {share} more"
    text = f"{where}, {subject.label} would {change} of the power ({watts}, simulated)"
    text += f" at {times(latency)} the {called}, {_bound(row)}{_undone(row)}."
    captured = row.mean("captured_share")
    if captured is not None:
        share = bracketed(percent(captured, 0), sound(row))
        text += f" That is {share} of the saving that the oracle finds possible."
    level = [one.name for one in part.contest.leaders()] if part.contest else []
    if subject.label in level and len(level) > 1:
        rest = ", ".join(name for name in level if name != subject.label)
        text += f" Its power cannot be told from that of {rest}."
    return text


def others(part: LoadPart) -> str:
    """One sentence on the policies that the headline leaves out."""
    parts = []
    for curve in part.curves:
        row = curve.row
        saving = part.saving(curve)
        latency, _ = _latency(row)
        skipped = curve is part.subject or row.run.policy in (REFERENCE, BOUND_BY)
        if skipped or saving is None or latency is None:
            continue
        verb = "saves" if saving >= 0 else "costs"
        kept = f"{_bound(row)}{_undone(row)}"
        share = bracketed(percent(abs(saving), 1), sound(row))
        parts.append(f"{curve.label} {verb} {share} at {times(latency)}, {kept}")
    return "; ".join(parts) + "." if parts else ""


def _latency(row: Row) -> tuple[float | None, str]:
    """The latency that a row is held to, over native's, and what it is called."""
    name, called = promises.latency(row.run)
    return row.mean(f"relative_{name}"), called


def _bound(row: Row) -> str:
    side = "within" if row.bound_kept else "outside"
    if promises.are_given(row.run):
        return f"{side} its bound, {promises.told(row.run)}"
    return f"{side} its {percent(row.run.plf)} bound"


def _undone(row: Row) -> str:
    """What a policy leaves undone of the server's own work."""
    return undone(row.mean("relative_background_rate"))
