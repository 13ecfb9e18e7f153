"""Reading a vscsi trace: `wattio trace info` against what Python offers for such a file.

Ours checks each record, puts records in order of time and tallies sizes, rates, gaps and sequences.
The peers only sum up: requests, reads, bytes and the last time; numpy.fromfile does so without
looking at records one by one.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from timing import BenchError, Goal, Line, Rate, in_turn
from wattio import _core

READ, WRITE, VERSION_1 = 0x28, 0x2A, 0x0100
RECORD = struct.Struct("<IIIHHQQ")
LAYOUT = np.dtype(
    {
        "names": ["sn", "bytes", "segments", "command", "version", "sector", "time_us"],
        "formats": ["<u4", "<u4", "<u4", "<u2", "<u2", "<u8", "<u8"],
    }
)
CHUNK = 1_000_000


@dataclass(frozen=True)
class Sums:
    """What all readers must agree on."""

    ios: int
    reads: int
    total_bytes: int


def write_trace(path: Path, records: int) -> None:
    """A synthetic trace of 32-byte records: 70 % reads of 4 to 32 KiB, 10,000 a second."""
    random = np.random.default_rng(1)
    with path.open("wb") as file:
        for start in range(0, records, CHUNK):
            count = min(CHUNK, records - start)
            chunk = np.zeros(count, LAYOUT)
            chunk["sn"] = np.arange(start, start + count)
            chunk["bytes"] = 4096 << random.integers(0, 4, count)
            chunk["command"] = np.where(random.random(count) < 0.7, READ, WRITE)
            chunk["version"] = VERSION_1
            chunk["sector"] = random.integers(0, 1 << 24, count) * 8
            chunk["time_us"] = (start + np.arange(count)) * 100 + random.integers(0, 100, count)
            chunk.tofile(file)


def with_wattio(path: Path) -> Sums:
    """The native reader, with everything that `wattio trace info` tells."""
    found = json.loads(_core.trace_info(str(path)))
    reads = round(found["ios"] * found["read_share"])
    return Sums(found["ios"], reads, found["read_bytes"] + found["write_bytes"])


def with_struct(path: Path) -> Sums:
    """struct.iter_unpack over the file's bytes."""
    ios = reads = total = last = 0
    for _, size, _, command, _, _, time_us in RECORD.iter_unpack(path.read_bytes()):
        ios += 1
        reads += command == READ
        total += size
        last = max(last, time_us)
    return Sums(ios, reads, total)


def with_numpy(path: Path) -> Sums:
    """numpy.fromfile and sums over its columns."""
    records = np.fromfile(path, LAYOUT)
    records["time_us"].max()
    reads = int((records["command"] == READ).sum())
    return Sums(len(records), reads, int(records["bytes"].sum(dtype=np.int64)))


def lines(rounds: int = 3, records: int = 8_000_000, slow_records: int = 500_000) -> Iterator[Line]:
    """Run the benchmark; struct reads a shorter file of its own. Raises BenchError."""
    with TemporaryDirectory(prefix="wattio-bench-") as folder:
        whole, part = Path(folder) / "whole.vscsi", Path(folder) / "part.vscsi"
        write_trace(whole, records)
        write_trace(part, slow_records)
        if with_wattio(part) != with_struct(part):
            raise BenchError("vscsi: wattio and struct read different things")
        taken = in_turn(
            rounds,
            {
                "struct": lambda _: with_struct(part),
                "numpy": lambda _: with_numpy(whole),
                "wattio": lambda _: with_wattio(whole),
            },
        )
    if {one.result for one in taken["wattio"]} != {one.result for one in taken["numpy"]}:
        raise BenchError("vscsi: wattio and numpy read different things")
    rates = {name: Rate.of(timed, lambda one: one.ios) for name, timed in taken.items()}
    size_mib = records * RECORD.size / (1 << 20)
    ours = rates["wattio"]
    yield Line(
        "vscsi",
        "records",
        "struct.iter_unpack",
        rates["struct"],
        ours,
        Goal("ours", 2e6),
        f"{size_mib:.0f} MiB, checked, put in order and described as by `wattio trace info`",
    )
    yield Line(
        "vscsi-numpy",
        "records",
        "numpy.fromfile",
        rates["numpy"],
        ours,
        note="the peer holds the whole file in memory and only sums three columns",
    )
