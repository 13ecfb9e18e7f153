"""`wattio advise cluster`: what bounds a storage cluster, what to buy, how many nodes to have."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from wattio import shipped
from wattio._core import parse_quantity
from wattio.cli import cluster_tables, output
from wattio.errors import InputError

if TYPE_CHECKING:
    from wattio.analysis.cluster import Achieved
    from wattio.analysis.peak import Measure, Peak

EXAMPLES = """**Examples**

```
wattio advise cluster arm-cluster/thesis-peak.toml
wattio advise cluster arm-cluster/thesis-peak.toml --rate "2 GiB/s" \\
    --purchases arm-cluster/purchases.toml
wattio advise cluster --runs results/arm-cluster/20260102T030405Z-1a2b3c4 \\
    --rate "5000 IO/s"
wattio advise cluster peak.toml --runs results/a/20260102T030405Z-1a2b3c4 \\
    results/b/20260103T030405Z-5d6e7f8 --purchases purchases.toml --json
```

docs/advise.md describes the model and its assumptions."""

_IOPS = re.compile(r"([0-9][0-9_]*(?:\.[0-9]+)?) ?IO/s", re.ASCII)


def cluster(
    peak: Path | None = None,
    /,
    *,
    runs: Annotated[list[Path] | None, Parameter(consume_multiple=True, negative="")] = None,
    purchases: Path | None = None,
    rate: str | None = None,
    draws: int = 20_000,
    seed: int = 1,
    as_json: Annotated[bool, Parameter("--json", negative="")] = False,
) -> int:
    """Show what limits a storage cluster, what to buy next, and how many nodes a rate needs.

    Measured runs are compared with the theoretical peak of links, devices, clients' memory and, if
    results have their time, the servers' processors. If no part is near its limit, software is the
    limit. All predictions are estimates with 95 % intervals, from the deviations of the peak and
    the repetitions of the runs. Without runs, the cluster is assumed to work at its peak.

    Parameters
    ----------
    peak
        A peak.toml (`wattio peak --out`); default: the one that the first result's study names.
    runs
        Result folders of measurements on this cluster.
    purchases
        TOML file of [[purchase]] tables: what could be bought, at what price and power.
    rate
        A desired rate, such as "2 GiB/s" or "5000 IO/s": show how many nodes it needs, and their
        power.
    draws
        Number of draws, 1000 to 1000000.
    seed
        Seed of the draws.
    as_json
        Print one JSON object.
    """
    from wattio.models import cluster as model
    from wattio.models import purchases as files
    from wattio.models.cluster_parts import Cluster

    if not 1000 <= draws <= 1_000_000 or seed < 0:
        raise InputError(
            f"--draws {draws}, --seed {seed}: allowed: 1000 to 1000000 draws, a seed from 0"
        )
    wanted = None if rate is None else parse_rate(rate)
    parts, achieved = _read(peak, runs or [])
    bought = [] if purchases is None else files.read(shipped.located(purchases), parts)
    drawn = Cluster(parts, draws, seed)
    largest = _largest(achieved)
    with output.busy("drawing from the intervals"):
        found = [
            model.advise(
                drawn,
                one,
                bought if one in largest else (),
                wanted[1]
                if wanted and one in largest and one.quantity.measure == wanted[0]
                else None,
                seed,
            )
            for one in achieved
        ]
    if wanted and all(one.nodes is None for one in found):
        raise InputError(
            f"--rate {rate}: no phase is measured in this unit; allowed: {_units(achieved)}"
        )
    if as_json:
        output.print_json(cluster_tables.as_object(found, parts, bought, draws, seed))
    else:
        cluster_tables.show(found, parts, bought)
    return 0


def parse_rate(text: str) -> tuple[Measure, float]:
    """A wished rate in MiB/s or I/Os per second, and which. Raises InputError."""
    if operations := _IOPS.fullmatch(text.strip()):
        value = float(operations[1])
        measure: Measure = "iops"
    else:
        measure = "throughput_mib_s"
        bare = text.strip().removesuffix("/s")
        try:
            value = parse_quantity(bare, "data size") / 2**20 if bare != text.strip() else 0.0
        except InputError:
            value = 0.0
    if not 0 < value < float("inf"):
        raise InputError(f'--rate "{text}": is not a rate; write it as "2 GiB/s" or "5000 IO/s"')
    return measure, value


def _read(path: Path | None, runs: list[Path]) -> tuple[Peak, list[Achieved]]:
    """The peak, and what was achieved. Raises InputError and ResultError."""
    from wattio.analysis.cluster import Achieved
    from wattio.analysis.peak import QUANTITIES
    from wattio.kinds.measurement import phase_rates
    from wattio.kinds.measurement.folder import MeasurementFolder
    from wattio.peak import advice as words
    from wattio.peak.file import read_peak

    folders = [MeasurementFolder(one) for one in runs]
    if len({one.path.resolve() for one in folders}) < len(folders):
        raise InputError("--runs names a folder twice")
    if path is not None:
        parts = read_peak(shipped.located(path))
    elif not folders:
        raise InputError("give a peak or --runs")
    else:
        own = phase_rates.peak_of(folders[0])
        if own is None:
            raise InputError(f"{runs[0]}: its study names no peak; give a peak.toml")
        parts = own
    if not folders:
        limits = [(one, parts.limit(one)) for one in QUANTITIES]
        at_peak = [
            Achieved("at its peak", "", "", words.spoken(one), 0, one)
            for one, limit in limits
            if limit is not None
        ]
        if not at_peak:
            raise InputError(
                f"{path}: neither the network nor disks are known, so there is no peak"
            )
        return parts, at_peak
    found = [one for folder in folders for one in phase_rates.of_result(folder, parts)]
    if not found:
        raise InputError("no usable phase of --runs reads or writes at a rate that the peak knows")
    return parts, found


def _largest(achieved: list[Achieved]) -> list[Achieved]:
    """Of each phase of a workload on a system, the runs with the most clients."""
    most: dict[tuple[str, str, str], int] = {}
    for one in achieved:
        key = one.subject, one.system, one.phase
        most[key] = max(most.get(key, 0), one.clients)
    return [one for one in achieved if one.clients == most[one.subject, one.system, one.phase]]


def _units(achieved: list[Achieved]) -> str:
    shown = {"iops": '"5000 IO/s"', "throughput_mib_s": '"2 GiB/s"'}
    return ", ".join(sorted({shown[one.quantity.measure] for one in achieved}))
