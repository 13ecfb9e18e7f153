"""Publishing a dump of many writers, into memory: from their first note to the dump's name.

One writer is real and publishes; the others are played by this process, their part files are empty.
The peer makes virtual datasets of all blocks with h5py's own calls of HDF5, and does nothing else
of what publishing is. Ours are of what a part's blocks fill together: of these, writers make
datasets in their own files, each of its own blocks, which is not timed here.
"""

from __future__ import annotations

import ctypes
import json
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
from h5py import h5d, h5p, h5s, h5t
from timing import BenchError, Goal, Line, Rate
from wattio.hpcio import library

TOKEN = "0" * 8 + "5a" * 12
"""What ranks that meet their writer at a path say, zeros, and what writers say to each other."""

ROUNDS = 5
PUBLISH_S_MAX = 1.0

EXTENTS = (8, 64, 64)
"""Of a rank's block; ranks lie behind each other along the first axis."""


@dataclass(frozen=True)
class Job:
    """Writers, each with ranks and variables."""

    writers: int
    ranks: int
    variables: int

    @property
    def whole(self) -> tuple[int, ...]:
        """The extents of a variable."""
        return self.writers * self.ranks * EXTENTS[0], *EXTENTS[1:]

    def note(self, process: int, step: int) -> bytes:
        """What a writer says of its part."""
        blocks = [
            {
                **{"name": f"v{variable:02}", "rank": rank, "shape": EXTENTS, "dtype": "<f4"},
                "global_shape": self.whole,
                **{"offset": (rank * EXTENTS[0], 0, 0), "crc32": 12345678},
                "attributes": {"units": "m/s"},
            }
            for rank in range(process * self.ranks, (process + 1) * self.ranks)
            for variable in range(self.variables)
        ]
        attributes = {"time": (process * self.ranks, 0.5)}
        note = {"number": step, "step": step, "blocks": blocks, "attributes": attributes}
        return json.dumps({"note": note}).encode() + b"\n"


def lines(built: Path, room: Path) -> Iterator[Line]:
    """Run the benchmark with the library and its writer in a folder. Raises BenchError."""
    for name, job, words in (
        ("io-publish-1024", Job(1024, 1, 4), "1024 writers of a rank each"),
        ("io-publish-256", Job(256, 47, 12), "256 writers of 47 ranks each"),
    ):
        place = room / name
        place.mkdir()
        yield Line(
            name,
            "dumps",
            "h5py, the virtual datasets alone",
            _rate([_peer(job, place) for _ in range(ROUNDS)]),
            _rate(_ours(job, place, built)),
            Goal("ours", 1 / PUBLISH_S_MAX),
            f"publishing a dump of {job.variables} variables by {words}, the writer's processor"
            f" time from the first note on: under {PUBLISH_S_MAX:g} s",
        )


def _rate(taken: list[tuple[float, float]]) -> Rate:
    cpu_s, wall_s = zip(*taken, strict=True)
    return Rate(tuple(1 / one for one in cpu_s), tuple(1 / one for one in wall_s))


def _peer(job: Job, room: Path) -> tuple[float, float]:
    """Seconds of processor and of wall time of a file of the same virtual datasets."""
    cpu_s, wall_s = time.process_time(), time.perf_counter()
    with h5py.File(room / "peer.h5", "w") as file:
        for variable in range(job.variables):
            space, part = h5s.create_simple(job.whole), h5s.create_simple(EXTENTS)
            properties = h5p.create(h5p.DATASET_CREATE)
            for rank in range(job.writers * job.ranks):
                space.select_hyperslab((rank * EXTENTS[0], 0, 0), EXTENTS)
                name = f"part-{rank // job.ranks:06}.h5", f"v{variable:02}/{rank:06}"
                properties.set_virtual(space, *(one.encode() for one in name), part)
            space = h5s.create_simple(job.whole)
            h5d.create(file.id, f"v{variable:02}".encode(), h5t.NATIVE_FLOAT, space, properties)
    return time.process_time() - cpu_s, time.perf_counter() - wall_s


def _ours(job: Job, room: Path, built: Path) -> list[tuple[float, float]]:
    """Seconds of the writer that publishes a dump.

    Of processor time from the first note on, and of wall time from the last one on.
    """
    own, its = socket.socketpair()
    meeting, output = room / "socket", room / "dumps"
    config = {
        **{"approach": "dc", "writers": 1, "ratio": 1, "ranks_per_node": None},
        **{"buffer": "1 MiB", "when_full": "block", "output": str(output)},
        **{"compression": "none", "checksum": True, "sync": False, "fields": True},
        **{"existing": "overwrite", "grace": "20 s", "program": None},
        "hdf5": None if library.hdf5() is None else str(library.hdf5()),
    }
    told = {
        **{"id": "job", "config": config, "approach": "dc:1", "process": 0, "clients": [0]},
        **{"share": 65536, "computing": list(range(job.writers * job.ranks)), "publisher": None},
        **{"writers": job.writers, "token": TOKEN, "spread": False, "address": str(meeting)},
    }
    with subprocess.Popen([built / "wattio-io-writer"], stdin=its.fileno()) as writer, own:
        its.close()
        lines = own.makefile("rwb")
        lines.write(json.dumps(told).encode() + b"\n")
        lines.flush()
        address = json.loads(lines.readline())["ready"]["publisher"]
        rank = _Rank(room, meeting, built)
        members = [_member(address, process) for process in range(1, job.writers)]
        taken = []
        for step in range(ROUNDS):
            cpu_s = _cpu_s(writer.pid)
            wall_s = _dump(job, output, rank, members, step)
            taken.append((_cpu_s(writer.pid) - cpu_s, wall_s))
        for one in members:
            one.close()
        writer.kill()
    return taken


class _Rank:
    """The rank of the real writer; its dumps are empty, as it is not what is timed."""

    def __init__(self, room: Path, meeting: Path, built: Path) -> None:
        self._calls: Any = ctypes.CDLL(str(built / "libwattio_io.so"))
        self._io = ctypes.c_void_p()
        config = room / "hpcio.toml"
        config.write_text('[hpcio]\napproach = "dc"\n')
        one = ctypes.c_int64(1)
        self._check(
            self._calls.wattio_io_open(
                bytes(config), bytes(meeting), ctypes.c_int64(0), one, ctypes.byref(self._io)
            )
        )

    def dump(self, step: int) -> None:
        self._check(self._calls.wattio_io_begin_step(self._io, ctypes.c_int64(step)))
        self._check(self._calls.wattio_io_end_step(self._io))

    def _check(self, code: int) -> None:
        if code:
            raise BenchError(f"io-publish: a call gives {code}")


def _cpu_s(process: int) -> float:
    """Processor time of a process of one thread that matters, which the kernel counts in ns."""
    text = Path(f"/proc/{process}/schedstat").read_text()
    return 1e-9 * int(text.split()[0])


def _member(address: str, process: int) -> socket.socket:
    found = socket.socket(socket.AF_UNIX)
    found.connect("\0" + address.removeprefix("@"))
    hello = {"token": TOKEN, "process": process, "ranks": [process]}
    found.sendall(json.dumps({"hello": hello}).encode() + b"\n")
    return found


def _dump(job: Job, output: Path, rank: _Rank, members: list[socket.socket], step: int) -> float:
    folder = output / f"dump-{step:08}.partial"
    folder.mkdir(exist_ok=True)
    notes = [job.note(process, step) for process in range(1, job.writers)]
    for process, (member, note) in enumerate(zip(members, notes, strict=True), 1):
        (folder / f"part-{process:06}.h5").touch()
        if process < job.writers - 1:
            member.sendall(note)
    rank.dump(step)
    began = time.perf_counter()
    members[-1].sendall(notes[-1])
    settled = json.loads(members[-1].makefile("rb").readline())
    taken_s = time.perf_counter() - began
    if settled["error"] is not None:
        raise BenchError(f"io-publish: {settled['error']}")
    for one in members[:-1]:
        one.recv(1 << 16)
    return taken_s
