"""Targets that a law governs, against the same target at full speed, beside the best peer.

Full speed is never shown alone: where no law was measured in a phase, nothing is said of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wattio.analysis import statistics
from wattio.kinds.measurement.schema import SystemEntry
from wattio.report import output
from wattio.report.measurement import background, servers
from wattio.report.measurement.gather import Measured, PhasePart
from wattio.report.measurement.tables import UTILISATION
from wattio.report.page import Block, Cells, Heading, Section, Text, as_data, gallery, grid
from wattio.report.phrases import DASH, latency, number, percent, times
from wattio.report.plots import Table
from wattio.results.summary import Row

TARGET = "wattio-target"
FULL_SPEED = "native"

_POLICY = "policy."
_MEAN, _DONE, _P99 = "latency_us_mean", "operations", "latency_us_p99"

Pair = tuple[str, str]
"""What stands in a cell, and in small letters below."""


@dataclass(frozen=True)
class Compared:
    """A phase: targets under laws, those at full speed that they are compared with, and a peer.

    `twins` has for the system of each law that of its full speed, where there is one.
    """

    subject: str
    phase: PhasePart
    laws: tuple[Row, ...]
    full_speed: tuple[Row, ...]
    twins: Mapping[str, Row]
    peer: Row | None

    @property
    def rows(self) -> tuple[Row, ...]:
        """All of them in the order of the study, the peer at the end."""
        own = [row for row in self.phase.rows if row in self.laws or row in self.full_speed]
        return (*own, *(() if self.peer is None else (self.peer,)))


def policy(entry: SystemEntry) -> str | None:
    """The law of a target, of which full speed is one; None for other servers."""
    if entry.options.get("server") != TARGET:
        return None
    return str(_settings(entry).get("policy.name", FULL_SPEED))


def twin_of(entry: SystemEntry, among: Sequence[SystemEntry]) -> SystemEntry | None:
    """The same target at full speed; None if the study has none."""
    alike = (one for one in among if policy(one) == FULL_SPEED and _apart(one) == _apart(entry))
    return next(alike, None)


def _settings(entry: SystemEntry) -> Mapping[str, Any]:
    settings: Mapping[str, Any] = entry.options.get("settings", {})
    return settings


def _apart(entry: SystemEntry) -> object:
    """What there is to a target but its law."""
    own = {key: value for key, value in _settings(entry).items() if not key.startswith(_POLICY)}
    return {**entry.options, "settings": own}


def compared(found: Measured) -> Iterator[Compared]:
    """Phase by phase, where a law governed a target that told of it."""
    entries = {entry.name: entry for entry in found.study.system}
    for part in found.workloads:
        for phase in part.phases:
            used = phase.used()
            of_system = {row.run.system: row for row in used}
            laws = [
                row
                for row in used
                if policy(entries[row.run.system]) not in (None, FULL_SPEED)
                and row.get("reactors_on_mean")
            ]
            twins = {}
            for row in laws:
                twin = twin_of(entries[row.run.system], found.study.system)
                if twin is not None and twin.name in of_system:
                    twins[row.run.system] = of_system[twin.name]
            if laws:
                first = list({row.run.name: row for row in twins.values()}.values())
                peer = _best_peer(used, entries)
                yield Compared(part.name, phase, tuple(laws), tuple(first), twins, peer)


def _best_peer(used: Sequence[Row], entries: Mapping[str, SystemEntry]) -> Row | None:
    """The peer that takes the least processor time: for each request, or where none is asked."""
    peers = [row for row in used if entries[row.run.system].role == "peer"]
    for name in (servers.PER_IO, servers.SHARE):
        told = [(value.mean, at) for at, row in enumerate(peers) if (value := row.get(name))]
        if told:
            return peers[min(told)[1]]
    return None


def section(found: Measured) -> list[Section]:
    """All phases; none where no law was measured."""
    every = list(compared(found))
    if not every:
        return []
    blocks: list[Block] = [Text(text) for text in sentences(every)]
    for one in every:
        title = f"{one.subject}: {one.phase.name}"
        blocks += [Heading(title), _table(one, found)]
        blocks += [Text(text) for text in _training(one, found)]
        blocks += _background(one, found)
    text = "Means over usable iterations; latency to full speed is the ratio of the mean latencies,"
    text += " with a 95 % interval (Welch's t of its logarithm). Processor time is that of the"
    text += " server alone. Windows are those that the bound was held against; full speed is held"
    text += " against none. The mean latency within the target decides a window, that of the table"
    text += " is the client's."
    blocks.append(Text(text, "note"))
    if any(row.get(name) for one in every for row in one.rows for name in _POWER):
        text = (
            "ESTIMATE: power is what the target's own model says of its processors, not measured."
        )
        blocks.append(Text(text, "note"))
    blocks.append(Text(as_data("governed.csv"), "note"))
    return [Section("Governed by a law", blocks)]


_POWER = ("power_estimated_w_mean", "power_estimated_full_speed_w_mean")


def sentences(every: Sequence[Compared]) -> Iterator[str]:
    """Each law over all phases: windows, reactors on, and processor time against full speed."""
    for system in dict.fromkeys(row.run.system for one in every for row in one.laws):
        own = [(one, row) for one in every for row in one.laws if row.run.system == system]
        windows = _total(row for _, row in own if row.get("bound_windows")) or 0
        over = _total((row for _, row in own if row.get("bound_windows")), "bound_windows_over")
        text = f"{system}: of {windows:.0f} windows that its bound was held against,"
        text += f" {over or 0:.0f} were over it."
        if not windows:
            text = f"{system}: its bound was held against no window, as none is while a law learns"
            text += " what full speed is."
        pairs = [(row, one.twins[system]) for one, row in own if system in one.twins]
        taken = [_taken(row) for row, _ in pairs], [_taken(twin) for _, twin in pairs]
        if pairs and all(taken[0]) and all(taken[1]):
            mine, full = math.fsum(taken[0]), math.fsum(taken[1])
            on = [math.fsum(row.mean("reactors_on_mean") or 0 for row in rows) / len(pairs)
                  for rows in zip(*pairs, strict=True)]  # fmt: skip
            text += f" On average over {_phases(len(pairs))}, {number(on[0])} reactors were on"
            text += f" where full speed has {number(on[1])}, and it took {times(mine / full)} the"
            text += f" processor time of {pairs[0][1].run.system}."
        yield text


def _phases(count: int) -> str:
    return "one phase" if count == 1 else f"{count} phases"


def _total(rows: Iterator[Row], name: str = "bound_windows") -> float | None:
    """A count over all iterations of some rows."""
    found = [math.fsum(value.values) for row in rows if (value := row.get(name)) is not None]
    return math.fsum(found) if found else None


def _taken(row: Row) -> float:
    return row.mean(servers.SHARE) or 0.0


def _table(one: Compared, found: Measured) -> Block:
    columns: Cells = [
        "run",
        ("windows over", "of those bounded"),
        ("reactors on", "mean"),
        ("processor time", "of the server"),
        ("to full speed", "processor time\nwhile it ran"),
        ("latency", "mean"),
        ("latency", "p99"),
        ("to full speed", "mean latency"),
        ("power", "W of its processors\nESTIMATE"),
    ]
    reactors = {
        entry.name: _settings(entry).get("reactors", 1)
        for entry in found.study.system
        if policy(entry)
    }
    rows: list[Cells] = []
    for row in one.rows:
        mark = "the best peer" if row is one.peer else "full speed" if row in one.full_speed else ""
        # A peer is compared with the full speed of the first law.
        peers = next(iter(one.full_speed), None) if row is one.peer else None
        twin = row if row in one.full_speed else one.twins.get(row.run.system, peers)
        of = reactors.get(row.run.system)
        rows.append(
            [
                (one.phase.names.of(row.run), mark),
                _windows(row),
                (_plain(row, "reactors_on_mean"), "" if of is None else f"of {of}"),
                _seconds(row),
                _part(row, twin),
                (latency(_mean_us(row)), ""),
                (latency(_tail_us(row)), ""),
                _slower(row, twin),
                _power(row),
            ]
        )
    return grid(f"Governed, {one.subject}: {one.phase.name}", columns, rows)


def _background(one: Compared, found: Measured) -> list[Block]:
    """What collecting garbage wrote and took, where clients wrote; its course, if that is kept."""
    if not any(row.get("write_amplification") for row in one.rows):
        return []
    columns: Cells = [
        "run",
        ("write amplification", "blocks written\nfor each of clients"),
        ("segments", "collected"),
        ("background", "core-s done"),
        ("due, mean", "core-s\nESTIMATE"),
        ("due, most", "core-s\nESTIMATE"),
    ]
    due = "background_backlog_core_s_estimated"
    names = ("write_amplification", "collected_segments", "background_core_s")
    rows: list[Cells] = [
        [one.phase.names.of(row.run), *(_plain(row, name) for name in told)]
        for row in one.rows
        if row is not one.peer
        for told in [(*names, f"{due}_mean", f"{due}_max")]
    ]
    shown = grid(f"Background work, {one.subject}: {one.phase.name}", columns, rows)
    groups: dict[str, list[str]] = {}
    for entry in found.study.system:
        if policy(entry):
            groups.setdefault(repr(_apart(entry)), []).append(entry.name)
    drawn = background.drawn(one.subject, one.phase.name, list(groups.values()), found)
    slug = output.slug(one.subject)
    return [Heading("Background work", 4), shown, *gallery([drawn], f"governed-{slug}-")]


_PUBLISHED = {"unet3d-v0.5": 0.13, "bert-v0.5": 0.22}
"""Less power of the whole system under PACER: the PACER paper, Fig. 19 (MLPerf Storage v0.5)."""


def _training(one: Compared, found: Measured) -> Iterator[str]:
    """What each law kept of the use of accelerators, for loads of the PACER paper."""
    entry = next(entry for entry in found.study.workload if entry.name == one.subject)
    published = _PUBLISHED.get(str(entry.options.get("model")))
    if published is None:
        return
    kept = []
    for row in one.laws:
        twin, used = one.twins.get(row.run.system), row.mean(UTILISATION)
        at_full_speed = twin.mean(UTILISATION) if twin is not None else None
        if twin is None or used is None or not at_full_speed:
            continue
        text = (
            f"{row.run.system} kept {percent(used / at_full_speed, 1)} of the use of accelerators"
        )
        text += f" that {twin.run.system} had"
        own, full = (row.mean(name) for name in _POWER)
        if own is not None and full:
            text += f", with {percent(1 - own / full, 1)} less power of its processors (ESTIMATE)"
        kept.append(text)
    if kept:
        text = "; ".join(kept)
        yield (
            f"{text}. The PACER paper (Fig. 19) has {percent(published)} less power of the whole"
            " system under PACER for this load, at the same throughput."
        )


def _windows(row: Row) -> Pair:
    windows = _total(iter([row]))
    if not windows:
        return DASH, ""
    return f"{_total(iter([row]), 'bound_windows_over') or 0:.0f}", f"of {windows:.0f}"


def _plain(row: Row, name: str) -> str:
    return number(row.mean(name))


def _seconds(row: Row) -> Pair:
    """Seconds of processor time, and how many cores that is."""
    taken, share = row.mean("server_cpu_s"), row.mean(servers.SHARE)
    if taken is None:
        return DASH, ""
    return f"{number(taken)}\N{NO-BREAK SPACE}s", "" if share is None else f"{number(share)} cores"


def _part(row: Row, twin: Row | None) -> str:
    """Processor time to that of full speed, both for the time that they ran."""
    if twin is None or row is twin or not _taken(row) or not _taken(twin):
        return times(1.0) if row is twin else DASH
    return times(_taken(row) / _taken(twin))


def latencies_us(row: Row) -> tuple[float, ...]:
    """The mean latency of each iteration; over operations of a phase weighted by their numbers."""
    own = row.get(_MEAN)
    if own is not None:
        return own.values
    parts = [name.removesuffix(f".{_MEAN}") for name in row.metrics if name.endswith(f".{_MEAN}")]
    values = [row.metrics[f"{part}.{_MEAN}"].values for part in parts]
    counts = [found.values for part in parts if (found := row.get(f"{part}.{_DONE}")) is not None]
    if not parts or len({len(one) for one in (*values, *counts)}) != 1 or len(counts) != len(parts):
        return ()
    weighted = []
    for means, done in zip(zip(*values, strict=True), zip(*counts, strict=True), strict=True):
        weighed = math.fsum(mean * count for mean, count in zip(means, done, strict=True))
        weighted.append(weighed / sum(done))
    return tuple(weighted)


def _mean_us(row: Row) -> float | None:
    values = latencies_us(row)
    return math.fsum(values) / len(values) if values else None


def _tail_us(row: Row) -> float | None:
    """The greatest of the operations' quantiles: those of several cannot be put together."""
    return max((v.mean for name, v in row.metrics.items() if name.endswith(_P99)), default=None)


def _slower(row: Row, twin: Row | None) -> Pair:
    own, full = latencies_us(row), () if twin is None else latencies_us(twin)
    if twin is None or row is twin or not own or not full:
        return (times(1.0) if row is twin and own else DASH), ""
    tested = statistics.ratio_test(full, own)
    ends = tested.interval() if tested else None
    ratio = (math.fsum(own) / len(own)) / (math.fsum(full) / len(full))
    return times(ratio), f"{times(ends.low)} to {times(ends.high)}" if ends else ""


def _power(row: Row) -> Pair:
    own, full = (row.mean(name) for name in _POWER)
    if own is None:
        return DASH, ""
    return number(own), "" if not full else f"{percent(own / full, 1)} of full speed"


def table(found: Measured) -> Table:
    """What is compared, as data."""
    names = (
        "bound_windows",
        "bound_windows_over",
        "loss_mean",
        "reactors_on_mean",
        "setting_changes",
        "server_cpu_s",
        servers.SHARE,
        servers.PER_IO,
        *_POWER,
    )
    rows: Table = [["workload", "phase", "system", "role", "n", *names, _MEAN, _P99]]
    for one in compared(found):
        for row in one.rows:
            role = "peer" if row is one.peer else "full speed" if row in one.full_speed else "law"
            head = [one.subject, row.phase, row.run.system, role, row.used]
            values = [*(row.mean(name) for name in names), _mean_us(row), _tail_us(row)]
            rows.append([*head, *("" if value is None else value for value in values)])
    return rows
