"""What the phases of a result achieved, with all that tells which part of the cluster bound them.

Of the same workload on the same system, the run with the most clients stands for the rest where
one has to: fewer clients ask less of the servers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from wattio.analysis.cluster import Achieved
from wattio.analysis.peak import Measure, Peak, Quantity, direction_of
from wattio.errors import ResultError
from wattio.files import document
from wattio.kinds.measurement.folder import MeasurementFolder
from wattio.kinds.measurement.schema import IDLE
from wattio.peak import file as peak_file
from wattio.results.runs import Recorded
from wattio.results.summary import last_attempts

_RATES: tuple[Measure, ...] = ("throughput_mib_s", "iops")


def peak_of(folder: MeasurementFolder) -> Peak | None:
    """The theoretical peak that the study of a result named; None if it named none."""
    text = folder.inputs().get("peak")
    if text is None:
        return None
    return peak_file.from_document(document.parse(folder.path / "inputs.json", str(text))).model()


def of_result(folder: MeasurementFolder, peak: Peak) -> Iterator[Achieved]:
    """Every phase that reads or writes, over the usable repetitions of its run.

    Of throughput and I/Os per second it is the one that comes nearer to the peak; phases of neither
    direction, and those that the peak has no rates for, are left out.
    """
    groups: dict[str, list[Recorded]] = {}
    for item in last_attempts(folder.iterations()):
        if item.usable and item.run.subject != IDLE:
            groups.setdefault(item.run.name, []).append(item)
    cores = None if "hosts" in folder.resolved() else folder.machine().get("cores")
    for items in groups.values():
        facts = _facts(folder, items[0].identity)
        for phase in dict.fromkeys(name for item in items for name in item.by_phase):
            found = _phase([one for one in items if phase in one.by_phase], phase, peak, facts)
            if found is not None:
                yield _with_cores(found, items, cores)


def _facts(folder: MeasurementFolder, identity: str) -> Mapping[str, Any]:
    try:
        return folder.record(identity).system
    except ResultError:
        return {}


def _phase(
    items: list[Recorded], phase: str, peak: Peak, facts: Mapping[str, Any]
) -> Achieved | None:
    direction = direction_of(phase)
    if direction is None:
        return None
    best: tuple[float, Measure] | None = None
    for measure in _RATES:
        values = [
            one.by_phase[phase][measure][0] for one in items if measure in one.by_phase[phase]
        ]
        limit = peak.limit(Quantity(measure, direction))
        if values and limit is not None:
            share = sum(values) / len(values) / limit.mean
            best = max(best or (share, measure), (share, measure))
    if best is None or best[0] <= 0:
        return None
    measure = best[1]
    rated = [one for one in items if one.by_phase[phase].get(measure, (0.0, ""))[0] > 0]
    powers = [_power_w(one, phase) for one in rated]
    known = [power[0] for power in powers if power is not None]
    run = items[0].run
    writes = measure == "throughput_mib_s" and direction == "write"
    stored = stored_share(facts) if writes else 1.0
    return Achieved(
        run.name,
        run.subject,
        run.system,
        phase,
        int(run.settings.get("clients", 1)),
        Quantity(measure, direction),
        tuple(one.by_phase[phase][measure][0] for one in rated),
        tuple(known) if len(known) == len(rated) else (),
        any(power[1] for power in powers if power is not None),
        stored,
        # Of these, GlusterFS makes copies and parity at the client.
        stored if "volume" in facts else 1.0,
    )


def _power_w(one: Recorded, phase: str) -> tuple[float, bool] | None:
    """Mean power, and whether it is an estimate."""
    for prefix, estimated in (("", False), ("estimated_", True)):
        found = one.by_phase[phase].get(f"{prefix}power_w_mean")
        if found is not None and found[0] > 0:
            return found[0], estimated
    return None


def stored_share(facts: Mapping[str, Any]) -> float:
    """Bytes that come to the servers for each byte of a file, by what a system tells of itself."""
    if facts.get("volume") == "disperse":
        bricks, redundancy = float(facts["bricks"]), float(facts["redundancy"])
        return bricks / (bricks - redundancy)
    if facts.get("volume") == "distribute":
        return 1.0
    copies = facts.get("goal", facts.get("copies", 1))
    return float(copies) if isinstance(copies, int | float) and copies >= 1 else 1.0


def _with_cores(found: Achieved, items: list[Recorded], cores: object) -> Achieved:
    """With the servers' processor time, where their system tells it."""
    busy = [
        one.by_phase[found.phase]["server_cpu_share"][0]
        for one in items
        if "server_cpu_share" in one.by_phase.get(found.phase, {})
    ]
    if not busy or not isinstance(cores, int):
        return found
    return replace(found, server_cores=sum(busy) / len(busy), cores=cores)
