"""Recorded samples that join a result afterwards: a scope's or a logger's file, by its stamps.

The samples go into the sessions' own files, under a label of their own; the meter goes into
`resolved.toml`, its facts into `attached.json`; then every metric and verdict is derived again.
"""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

import numpy as np

from wattio.errors import InputError, ResultError
from wattio.files import document, toml_text
from wattio.files.whole import write_whole
from wattio.kinds.measurement import rederive
from wattio.kinds.measurement.derive import Rulebook
from wattio.kinds.measurement.folder import MeasurementFolder
from wattio.kinds.measurement.schema import MeterEntry
from wattio.kinds.measurement.verdicts import WITNESS
from wattio.meters import open_meter, parquet, tabular
from wattio.meters.samples import COLUMNS
from wattio.recording import Samples
from wattio.results.folder import write_json

_FILES = ("csv", "parquet")

MARGIN_S = 60.0
"""How long before its first and after its last phase a session's samples are taken."""


def attach(folder: MeasurementFolder, entry: MeterEntry, in_place_of_totals: bool) -> int:
    """Join the samples of a file to a result; how many of them fell into its sessions.

    With `in_place_of_totals` the study's own totals are shown beside it from then on. Raises
    InputError for a file that cannot be used or has nothing to say, ResultError.
    """
    if entry.name.partition(":")[0] not in _FILES:
        raise InputError(
            f'meter "{entry.name}": only recorded files can be attached: csv: or parquet:'
        )
    with folder.alone():
        return _attach(folder, entry, in_place_of_totals)


def _attach(folder: MeasurementFolder, entry: MeterEntry, in_place_of_totals: bool) -> int:
    # One that joined before may join again: what a kill left half-done is mended so. The witness is
    # among the samples without being a meter of the study.
    known = {_label(meter) for meter in folder.resolved()["meter"]} - folder.attached().keys()
    known.add(WITNESS)
    if entry.shown in known:
        raise InputError(f'the result already has a meter "{entry.shown}"; give another --label')
    samples = tabular.load(entry.name)
    spans = _sessions(folder)
    if not spans:
        raise InputError(f"{folder.path}: holds nothing measured that samples could join")
    parts = {name: _within(samples, *span) for name, span in spans.items()}
    count = sum(len(part) for part in parts.values())
    if count == 0:
        own = f"{_told(int(samples.utc_ns[0]))} to {_told(int(samples.utc_ns[-1]))}"
        starts, ends, _ = zip(*spans.values(), strict=True)
        raise InputError(
            f'meter "{entry.name}": no sample falls within the time of {folder.path}: they are of'
            f" {own}, and it is of {_told(min(starts))} to {_told(max(ends))}"
        )
    meter = open_meter(entry.name)
    facts = meter.facts
    meter.close()
    resolved = _resolved_with(folder, entry, in_place_of_totals)
    for name, part in parts.items():
        path = folder.path / "samples" / f"{name}.parquet"
        parquet.write(path, {**parquet.read(path), entry.shown: part})
    attached = folder.attached() | {entry.shown: facts}
    write_json(folder.path / "attached.json", {key: asdict(one) for key, one in attached.items()})
    # Last: what stands in resolved.toml is what the rest is derived by.
    write_whole(folder.path / "resolved.toml", resolved)
    rederive.put_derived(folder)
    return count


def _sessions(folder: MeasurementFolder) -> dict[str, tuple[int, int, int]]:
    """UTC start and end of each session in ns, and what to add to UTC for the monotonic clock."""
    found: dict[str, tuple[int, int, int]] = {}
    for item in folder.iterations():
        try:
            record = folder.record(item.identity)
        except ResultError:
            continue  # It is UNREADABLE, and nothing of it is derived.
        start, end = record.start, record.end
        before = found.get(record.session, (start.utc_ns, end.utc_ns, 0))
        ends = min(before[0], start.utc_ns), max(before[1], end.utc_ns)
        found[record.session] = (*ends, start.monotonic_ns - start.utc_ns)
    for name in found:
        if not (folder.path / "samples" / f"{name}.parquet").exists():
            raise ResultError(f"{folder.path}: session {name} is still being recorded")
    return found


def _within(samples: Samples, start_ns: int, end_ns: int, to_monotonic_ns: int) -> Samples:
    """Samples in a session by their wall clock, put on the session's monotonic clock."""
    margin_ns = round(MARGIN_S * 1e9)
    known = (samples.utc_ns >= start_ns - margin_ns) & (samples.utc_ns <= end_ns + margin_ns)
    columns: dict[str, Any] = {name: getattr(samples, name)[known] for name in COLUMNS}
    columns["monotonic_ns"] = columns["utc_ns"] + np.int64(to_monotonic_ns)
    return Samples(**columns)


def _resolved_with(folder: MeasurementFolder, entry: MeterEntry, in_place_of_totals: bool) -> str:
    """`resolved.toml` with the meter. Raises InputError where a device would count twice."""
    resolved = folder.resolved()
    meters = [dict(meter) for meter in resolved["meter"] if _label(meter) != entry.shown]
    if in_place_of_totals:
        meters = [meter | {"role": "beside"} for meter in meters]
    if entry.role != "total" and not any(meter.get("role", "total") == "total" for meter in meters):
        raise InputError(
            f'meter "{entry.shown}" was attached with --total, and nothing else is a total: give'
            " --total again, or another --label"
        )
    resolved["meter"] = [*meters, entry.model_dump(mode="json", exclude_none=True)]
    text = toml_text.dump(resolved)
    Rulebook.of_text(document.parse(folder.path / "resolved.toml", text), None)
    return text


def _told(utc_ns: int) -> str:
    """A moment, to see which clock or zone is off."""
    return f"{datetime.fromtimestamp(utc_ns // 10**9, UTC):%Y-%m-%dT%H:%M:%SZ}"


def _label(meter: dict[str, Any]) -> str:
    return str(meter.get("label") or str(meter["name"]).partition(":")[0])
