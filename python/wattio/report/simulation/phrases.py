"""What the page says of each load, in sentences."""

from __future__ import annotations

from wattio.report.phrases import number, percent, times
from wattio.report.simulation.gather import LoadPart
from wattio.results.summary import Row
from wattio.simulator.policies import BOUND_BY, REFERENCE


def headline(part: LoadPart) -> str:
    """What a reader should take away about one load, in one or two sentences."""
    where = f"On {part.name} ({part.server})"
    subject = part.subject
    if subject is None or part.native is None:
        return f"{where}: no policy was compared with native."
    row = subject.row
    saving, latency = row.mean("saving_share"), row.mean("relative_latency_us_mean")
    if saving is None or latency is None:
        return f"{where}: {subject.label} has no native run to be compared with."
    watts = (
        f"{number(part.native.row.mean('power_w_mean'))} to {number(row.mean('power_w_mean'))} W"
    )
    change = f"save {percent(saving, 1)}" if saving >= 0 else f"cost {percent(-saving, 1)} more"
    text = f"{where}, {subject.label} would {change} of the power ({watts}, simulated)"
    text += f" at {times(latency)} the mean latency, {_bound(row)}."
    captured = row.mean("captured_share")
    if captured is not None:
        text += f" That is {percent(captured, 0)} of the saving that the oracle finds possible."
    return text


def others(part: LoadPart) -> str:
    """One sentence on the policies that the headline leaves out."""
    parts = []
    for curve in part.curves:
        row = curve.row
        saving, latency = row.mean("saving_share"), row.mean("relative_latency_us_mean")
        skipped = curve is part.subject or row.run.policy in (REFERENCE, BOUND_BY)
        if skipped or saving is None or latency is None:
            continue
        verb = "saves" if saving >= 0 else "costs"
        kept = _bound(row)
        parts.append(f"{curve.label} {verb} {percent(abs(saving), 1)} at {times(latency)}, {kept}")
    return "; ".join(parts) + "." if parts else ""


def _bound(row: Row) -> str:
    side = "within" if row.bound_kept else "outside"
    return f"{side} its {percent(row.run.plf)} bound"
