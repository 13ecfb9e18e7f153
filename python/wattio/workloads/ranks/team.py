"""What every rank's program shares: its task, phases between barriers, and the report of all.

A phase begins when a rank has passed a barrier and ends with its own work. Ranks that wait for the
others sleep in between looks, as a spinning one would draw power that is not the workload's.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from mpi4py import MPI

from wattio import clock
from wattio.workloads.ranks import REPORT, VERSION, boot, shifts

_SIGNS_FROM_S = 500_000_000
_SIGN_DIGITS = 7
_LOOK_S = 0.001
_PINGS = 20
_PERCENTILES = {"p50": 50.0, "p95": 95.0, "p99": 99.0}


class Failed(Exception):  # noqa: N818 (what happened to the work)
    """The work cannot go on; told to the user as it is."""


@dataclass
class Tally:
    """What a rank did in a phase."""

    operations: int = 0
    bytes: int = 0
    latencies_s: list[float] = field(default_factory=list)

    @contextmanager
    def timed(self) -> Iterator[None]:
        """One operation."""
        begun = time.perf_counter()
        yield
        self.latencies_s.append(time.perf_counter() - begun)
        self.operations += 1


class Team:
    """All ranks, seen from one of them."""

    def __init__(self, task: dict[str, Any]) -> None:
        """A task holds what `mpi_launch` adds to every one, besides its program's own."""
        self.task = task
        self.comm = MPI.COMM_WORLD
        self.rank, self.size = self.comm.rank, self.comm.size
        self.per_client: int = task["ranks_per_client"]
        self.client = self.rank // self.per_client
        folders = task["folders"]
        self.folder = Path(folders[self.client % len(folders)]) / task["folder"]
        self._errors: list[str] = []
        self._phases: list[dict[str, Any]] = []
        self._offsets: dict[str, list[dict[str, float]]] = {}
        self.facts: dict[str, Any] = {}
        self._held: np.ndarray[Any, Any] | None = None

    def looked_at(self) -> int:
        """The rank whose work this one looks at, by the task's `shift`, `shift_by` and `seed`."""
        task = self.task
        return shifts.owner(
            *(self.rank, self.size, self.per_client),
            *(task["shift"], task.get("shift_by", 1), task.get("seed", 0)),
        )

    def gather_at_folder(self, fresh: bool) -> None:
        """See that all places show one and the same folder; `fresh`: an empty one.

        By a time that the first rank gives it. A file would have to be removed again, and servers
        that remove later would do so in the phase that follows.
        """
        sign_s = _SIGNS_FROM_S + int(self.task["token"][:_SIGN_DIGITS], 16)

        def make() -> None:
            if self.rank != 0:
                return
            if fresh:
                _remove(self.folder)
            self.folder.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(OSError):
                os.utime(self.folder, (sign_s, sign_s))

        if not self.together(make):
            return
        # Not every file system keeps the time that it is given: pvfs2fuse takes its own.
        seen_s = self.comm.bcast(_modified_s(self.folder) if self.rank == 0 else None)

        def look() -> None:
            deadline = time.monotonic() + self.task["seen_s"]
            while _modified_s(self.folder) != seen_s:
                if time.monotonic() > deadline:
                    raise Failed(
                        f"client {self.client + 1} does not see in {self.folder} what the first one"
                        " made: the clients do not share a file system"
                    )
                time.sleep(_LOOK_S * 50)

        self.together(look)

    def together(self, work: Callable[[], None]) -> bool:
        """Do something on all ranks, unless one has failed; whether it went well on all."""
        if not self._errors:
            try:
                work()
            except Exception as error:  # whatever it is, the others must not wait for ever
                self._note(error)
        self._wait()
        if self.comm.allreduce(len(self._errors)) and not self._errors:
            self._errors.append("")  # another rank tells why
        return not self._errors

    def phase(self, name: str, work: Callable[[Tally], None]) -> None:
        """Do a phase's work on all ranks at once, and note when."""
        if self._errors:
            return
        tally = Tally()
        self.comm.Barrier()
        start = clock.now()
        try:
            work(tally)
        except Exception as error:
            self._note(error)
        end = clock.now()
        self.together(lambda: None)
        self._phases.append(
            {
                "name": name,
                "start_utc_ns": start.utc_ns,
                "start_monotonic_ns": start.monotonic_ns,
                "end_utc_ns": end.utc_ns,
                "end_monotonic_ns": end.monotonic_ns,
                "operations": tally.operations,
                "bytes": tally.bytes,
                "latencies": self._latencies(tally),
            }
        )

    def _latencies(self, tally: Tally) -> dict[str, float]:
        """Of all ranks together, told by the first."""
        parts = self.comm.gather(np.array(tally.latencies_s))
        if parts is None or not sum(map(len, parts)):
            return {}
        all_us = np.concatenate(parts) * 1e6
        found = {name: float(np.percentile(all_us, at)) for name, at in _PERCENTILES.items()}
        ends = {"min": float(all_us.min()), "max": float(all_us.max())}
        return {"mean": float(all_us.mean()), **ends, **found}

    def _note(self, error: Exception) -> None:
        plain = isinstance(error, Failed | OSError)
        self._errors.append(str(error) if plain else f"{type(error).__name__}: {error}")

    def _wait(self) -> None:
        request = self.comm.Ibarrier()
        while not request.Test():
            time.sleep(_LOOK_S)

    def hold_memory(self, share: float) -> None:
        """Take a share of each host's memory, split among its ranks, so that caches lack it."""
        on_host = self.comm.Split_type(MPI.COMM_TYPE_SHARED).size
        wanted = int(_memory("MemTotal") * share)

        def look() -> None:
            if wanted > (free := _memory("MemAvailable")):
                raise Failed(
                    f"memory_held: {share:.0%} of {socket.gethostname()}'s memory is"
                    f" {wanted >> 20} MiB, but only {free >> 20} MiB are free"
                )

        def take() -> None:
            self._held = np.ones(wanted // on_host, dtype=np.uint8)

        if wanted:
            self.together(look)  # none takes before all have looked
            self.together(take)

    def compare_clocks(self, when: str) -> None:
        """Note how much the wall clock of each client's first rank is ahead of the first rank's.

        Half of the quickest of several round trips is taken as the way.
        """
        partners = range(self.per_client, self.size, self.per_client)
        found = []
        for partner in partners:
            if self.rank == 0:
                found.append(self._offset_of(partner))
            elif self.rank == partner:
                for _ in range(_PINGS):
                    self.comm.recv(source=0)
                    self.comm.send(time.time_ns(), dest=0)
        self._offsets[when] = found
        self._wait()

    def _offset_of(self, partner: int) -> dict[str, float]:
        best: tuple[float, float] | None = None
        for _ in range(_PINGS):
            sent_ns, begun = time.time_ns(), time.perf_counter()
            self.comm.send(None, dest=partner)
            theirs_ns: int = self.comm.recv(source=partner)
            trip_s = time.perf_counter() - begun
            if best is None or trip_s < best[0]:
                best = trip_s, (theirs_ns - sent_ns) / 1e9 - trip_s / 2
        assert best is not None
        return {"rank": partner, "offset_s": best[1], "round_trip_s": best[0]}

    def report(self) -> None:
        """Print what all ranks did; the launcher reads it."""
        own = {
            "rank": self.rank,
            "client": self.client,
            "host": socket.gethostname(),
            "boot": boot(),
            "memory_bytes": _memory("MemTotal"),
            "memory_held_bytes": 0 if self._held is None else len(self._held),
            "errors": [text for text in self._errors if text],
            "phases": self._phases,
        }
        every = self.comm.gather(own)
        if every is None:
            return
        library = MPI.Get_library_version().split("\0")[0].split(",")[0]
        told = {REPORT: VERSION, "mpi": library, "clocks": self._offsets, "ranks": every}
        told["facts"] = self.facts
        sys.stdout.write(json.dumps(told) + "\n")
        sys.stdout.flush()


def _memory(field_name: str) -> int:
    """Bytes of a field of /proc/meminfo."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        name, _, rest = line.partition(":")
        if name == field_name:
            return int(rest.split()[0]) * 1024
    raise Failed(f"/proc/meminfo has no {field_name}")


def _modified_s(folder: Path) -> int | None:
    """When a folder was changed, in whole seconds, which every file system keeps."""
    try:
        return int(folder.stat().st_mtime)
    except FileNotFoundError:
        return None


def _remove(folder: Path) -> None:
    """Remove a folder and all in it, if it is there."""
    for parent, folders, files in os.walk(folder, topdown=False):
        for name in files:
            (Path(parent) / name).unlink()
        for name in folders:
            (Path(parent) / name).rmdir()
    if folder.is_dir():
        folder.rmdir()


def end_with(launcher: dict[str, Any]) -> None:
    """End this rank, and by that all, when the process on this host ends that asked for the work.

    A killed study must leave nothing behind that keeps the storage busy under the next one.
    """
    if launcher["boot"] != boot():
        return
    try:
        handle = os.pidfd_open(launcher["pid"])
    except ProcessLookupError:
        sys.exit("the study has ended")
    except OSError:
        # A kernel or a container without it: the launcher's own end remains.
        return

    def wait() -> None:
        select.select([handle], [], [])
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def run(work: Callable[[Team], None]) -> None:
    """Run a rank's program with the task of the command line."""
    team = Team(json.loads(sys.argv[1]))
    end_with(team.task["launcher"])
    team.compare_clocks("before")
    work(team)
    team.compare_clocks("after")
    team.report()
