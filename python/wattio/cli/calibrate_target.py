"""`wattio calibrate target`: a server description measured from wattio-target."""

from __future__ import annotations

import os
import platform
import shutil
import socket
import tempfile
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from wattio.calibration.fit import CalibrationFailed
from wattio.cli import EXIT_DONE, EXIT_PROBLEM, output
from wattio.cli.load_options import Quantity, quantity, seconds
from wattio.cli.output_path import writable
from wattio.errors import Cancelled, HostError, InputError, SystemFailed, WorkloadFailed
from wattio.signals import ended_by_signals

if TYPE_CHECKING:
    from wattio.calibration.target.design import Design
    from wattio.calibration.target.fit import Fit
    from wattio.calibration.target.folder import DataFolder, Record
    from wattio.calibration.target.governed import Foreseen
    from wattio.calibration.target.sweep import Settings

DATA = ".data"
"""The folder beside a description is named so."""

EPILOGUE = """**Examples**

```
wattio calibrate target --out server.toml --dry-run
wattio calibrate target --out server.toml --compare
wattio calibrate target --server-bin target/release/wattio-target \\
    --out server.toml --scratch /data
wattio calibrate target --out server.toml --reactors 2 --governed "60 s"
wattio calibrate target --from server.data --out server.toml --json
wattio simulate --server server.toml --iops 20000 --open --read-fraction 1 \\
    --io-size "4 KiB"
```

All measured points are kept in a folder next to the description (`server.data`); --from fits them
again."""

_MIB = 1 << 20
_CACHE_LEAST = 16 * _MIB


def target(
    *,
    out: Path,
    server_bin: Path | None = None,
    reactors: int = 1,
    cache: Quantity = "256 MiB",
    write_buffer: Quantity = "16 MiB",
    size: Quantity = "256 MiB",
    scratch: Path | None = None,
    measure: Quantity = "2 s",
    repeat: int = 2,
    seed: int = 1,
    compare: Annotated[bool, Parameter(negative="")] = False,
    governed: Quantity | None = None,
    idle: Literal["block", "poll"] = "block",
    source: Annotated[Path | None, Parameter("--from")] = None,
    dry_run: Annotated[bool, Parameter(negative="")] = False,
    as_json: Annotated[bool, Parameter("--json", negative="")] = False,
) -> int:
    """Measure wattio-target under load, and write a server description of it.

    The target is started on a volume of its own, first with the given memory and then without. It
    is measured at rates from 1 % to 70 % of what a client reaches: with reads that hit and miss its
    cache and with writes, of 4 KiB and 64 KiB. The kernel reports the reactors' processor time.
    With --compare, loads that the fit did not use are simulated and compared with the target; exit
    code 1 if one is off by more than 10 %.

    Parameters
    ----------
    out
        The description to write, for `wattio simulate --server`.
    server_bin
        Path of the program wattio-target, if it is not installed.
    reactors
        Number of threads that serve.
    cache
        Memory to cache blocks, at least 16 MiB.
    write_buffer
        Memory for writes that are acknowledged before they are on the device; "0 B" for none.
    size
        Size of the volume, in whole MiB.
    scratch
        Folder on the disk to be measured; default: the description's folder.
    measure
        How long each load runs.
    repeat
        How many times each load runs.
    seed
        Seed for the order of the loads and for arrivals.
    compare
        Also measure ten other loads, and compare them with their simulation.
    governed
        Also run two loads under each of three laws, this long each, and compare them with their
        simulation; needs at least two reactors.
    idle
        What reactors without work do while a law governs them. The description itself is always of
        reactors that sleep ("block").
    source
        Folder of an earlier calibration: fit its points, measure nothing.
    dry_run
        Print what would be measured and how long it would take.
    as_json
        Print one JSON object.
    """
    from wattio.calibration.target.design import Design
    from wattio.calibration.target.folder import DataFolder
    from wattio.calibration.target.sweep import Settings
    from wattio.cli import calibrate_target_tables as tables

    if out.suffix == DATA:
        raise InputError(f"--out: {out} ends like a folder of data; name a .toml file")
    writable("--out", out)
    if source is not None:
        if dry_run or scratch or server_bin:
            raise InputError(
                "--from measures nothing: give it without --server-bin, --scratch, --dry-run"
            )
        return _fit(DataFolder(source), out, as_json=as_json)
    settings = Settings(
        program=None if server_bin is None else str(server_bin.resolve()),
        path=scratch,
        reactors=_between("--reactors", reactors, 1, 64),
        cache_bytes=_bytes("--cache", cache, _CACHE_LEAST),
        write_buffer_bytes=_bytes("--write-buffer", write_buffer, 0),
        size_bytes=_bytes("--size", size, _CACHE_LEAST),
    )
    if scratch is not None and not scratch.is_dir():
        raise InputError(f"--scratch: {scratch} is not a folder")
    if server_bin is not None and not os.access(server_bin, os.X_OK):
        raise InputError(f"--server-bin: {server_bin} is not a program")
    design = Design(
        measure_s=seconds("--measure", measure, 0.1, 3600.0),
        repeat=_between("--repeat", repeat, 1, 1000),
        seed=_between("--seed", seed, 0, 2**31),
        buffered=settings.write_buffer_bytes > 0,
        compared=compare,
        governed_s=0.0 if governed is None else seconds("--governed", governed, 5.0, 3600.0),
        governed_idle=idle,
    )
    if design.governed_s and settings.reactors < 2:
        raise InputError(
            "--governed: a law saves nothing with one reactor; give --reactors 2 or more"
        )
    if dry_run:
        return tables.plan(design, as_json=as_json)
    data = DataFolder(out.with_suffix(DATA))
    try:
        _measure(settings, design, data, out, quiet=as_json)
    except (HostError, SystemFailed, WorkloadFailed) as error:
        kept = f"; the points so far are in {data.path}, for --from" if data.path.exists() else ""
        output.complain(f"{error}{kept}")
        return EXIT_PROBLEM
    return _fit(data, out, as_json=as_json)


def _measure(
    settings: Settings, design: Design, data: DataFolder, out: Path, *, quiet: bool
) -> None:
    """Sweep into a folder. Raises Cancelled on Ctrl-C and SIGTERM, with how to go on."""
    from wattio.calibration.target.sweep import sweep
    from wattio.cli import calibrate_target_tables as tables

    data.create()
    record = _record(settings, design)
    data.keep(record)
    try:
        with ended_by_signals(), tables.SweepProgress(design, quiet=quiet) as progress:
            record = sweep(settings, design, data, record, progress, threading.Event())
        load = [*record.load_average, os.getloadavg()[0]]
        data.keep(record.model_copy(update={"load_average": load}))
    except KeyboardInterrupt:
        raise Cancelled(f"stopped; the points so far are in {data.path}, for --from") from None
    finally:
        shutil.rmtree(data.scratch, ignore_errors=True)
        data.remove_if_empty()


def _record(settings: Settings, design: Design) -> Record:
    from wattio.calibration.target.folder import Record

    return Record(
        host=socket.gethostname(),
        begun=datetime.now(UTC).isoformat(timespec="seconds"),
        version=None,
        processor=_processor(),
        cores=os.cpu_count() or 1,
        reactors=settings.reactors,
        cache_bytes=settings.cache_bytes,
        write_buffer_bytes=settings.write_buffer_bytes,
        size_bytes=settings.size_bytes,
        device="",
        measure_s=design.measure_s,
        repeat=design.repeat,
        seed=design.seed,
        load_average=[os.getloadavg()[0]],
    )


def _processor(listed: Path = Path("/proc/cpuinfo")) -> str:
    try:
        lines = listed.read_text(errors="replace").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())


def _fit(data: DataFolder, out: Path, *, as_json: bool) -> int:
    """Fit what a folder holds, write the description, compare what was held out, show it all."""
    from wattio.calibration.model_file import write
    from wattio.calibration.target import comparison, description
    from wattio.calibration.target.fit import fit
    from wattio.calibration.target.points import Point
    from wattio.cli import calibrate_target_tables as tables

    record, points = data.record(), data.points()
    try:
        found = fit([point for point in points if not point.held_out], record.reactors)
    except CalibrationFailed as error:
        output.complain(f"{error}; what was measured is kept in {data.path}")
        return EXIT_PROBLEM
    write(out, description.text(found, record))

    def saturated(point: Point) -> float:
        known = record.saturated_per_s.get(f"{point.kind} {point.size_bytes}")
        if not known:
            raise InputError(f"{data.path}: does not say what rate {point.kind} reaches")
        return known

    held_out = [point for point in points if point.held_out]
    compared = comparison.compare(out, held_out, saturated)
    foreseen = _foreseen(found, record)
    tables.show(found, (compared, foreseen), out, data, as_json=as_json)
    within = [one.is_within for one in compared] + [one.is_within for one in foreseen]
    return EXIT_DONE if all(within) else EXIT_PROBLEM


def _foreseen(found: Fit, record: Record) -> list[Foreseen]:
    """What laws did, simulated by a description of the target as they found it."""
    from wattio.calibration.target import description, governed
    from wattio.calibration.target.design import SMALL

    told = []
    with tempfile.TemporaryDirectory() as folder:
        for one in record.governed:
            server = Path(folder) / f"{one.idle}.toml"
            server.write_text(description.text(found, record, one.idle), encoding="utf-8")
            told.append(governed.foresee(server, one, SMALL))
    return told


def _between(option: str, value: int, least: int, most: int) -> int:
    if not least <= value <= most:
        raise InputError(f"{option} {value}: allowed is {least} to {most}")
    return value


def _bytes(option: str, text: Quantity, least: int) -> int:
    value = quantity(option, text, "data size")
    if not least <= value <= 2**40 or value % _MIB:
        allowed = f"{least // _MIB} MiB to 1 TiB, in whole MiB"
        raise InputError(f'{option}: "{text}"; allowed is {allowed}')
    return int(value)
