"""What a workload is: the shape that every workload has.

A workload is made of its options, runs step by step on the folders of its clients, and leaves its
tools' own output untouched in a raw folder. Everything that is known of its results is read from
that folder again, by a pure function, so that results can be derived once more at any time.

A module of this package is one workload; it offers

    class Options(Strict)                                   # pydantic; what a study file may say
    class Work                                              # implements Workload; made as
                                                            # Work(options, base), where base is
                                                            # the folder of the study file
    def results(raw: Path) -> list[Operation]               # from raw files; raises ResultError
    def ticks(raw: Path) -> dict[str, ...]                  # optional, by phase: ticks of this
                                                            # machine's cores at its very ends
    AT_HOSTS: Mapping[str, str]                             # programs that each client's host needs
                                                            # and their packages; without it the
                                                            # workload runs on this machine only
    def refused_at_hosts(options: Options) -> str | None    # optional: why these options keep it on
                                                            # this machine; None if they do not
"""

from __future__ import annotations

import contextlib
import shutil
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from wattio.clock import Span
from wattio.errors import HostLost, HostRefused
from wattio.hosts.host import Host
from wattio.hosts.hosts import Hosts

LOCAL = "localhost"
"""The host of places on this machine."""

REMOVED_S = 600.0
"""How long a host may take to remove what a workload left."""


@dataclass(frozen=True)
class Place:
    """Where one client works: a folder of the system under test, on this host or another.

    A system that serves a block device over NBD tells its `uri`; its folder holds nothing then.
    """

    folder: Path
    host: str = LOCAL
    uri: str | None = None


@dataclass(frozen=True)
class Context:
    """What a step works with: the clients' places, the folder for raw files, and a way to stop.

    `raw` is the step's own folder and exists. `hosts` are those that places may be on. Everything
    slow looks at `cancelled` now and then and raises `errors.Cancelled` when it is set, after its
    programs have ended.
    """

    places: tuple[Place, ...]
    raw: Path
    cancelled: threading.Event = field(default_factory=threading.Event)
    hosts: Hosts | None = None

    @property
    def clients(self) -> int:
        """How many clients there are."""
        return len(self.places)

    def make_folders(self, name: str) -> None:
        """Make a folder of the clients in each of their places. Raises HostLost, HostRefused."""
        for place in self.places:
            self.make_folder(place, place.folder / name)

    def make_folder(self, place: Place, path: Path) -> None:
        """Make a folder where a client is. Raises HostLost, HostRefused."""
        if place.host == LOCAL:
            path.mkdir(parents=True, exist_ok=True)
        else:
            self._host(place).ask("folder", path=str(path))

    def remove_folders(self, name: str) -> None:
        """Remove it with all in it; a host that is lost keeps its own."""
        for place in self.places:
            if place.host == LOCAL:
                shutil.rmtree(place.folder / name, ignore_errors=True)
                continue
            with contextlib.suppress(HostLost, HostRefused):
                words = ("rm", "-rf", "--one-file-system", "--", str(place.folder / name))
                self._host(place).run(words, timeout_s=REMOVED_S)

    def _host(self, place: Place) -> Host:
        assert self.hosts is not None, "a place on a host that nobody has named"
        return self.hosts[place.host]


@dataclass(frozen=True)
class Operation:
    """A normalised result: what one operation of one phase moved or did, and how fast.

    What a tool does not say is None, and nothing is made up. `throughput_mib_s`, `iops` and
    `files_per_s` are over all clients together; `files` are those that were dealt with as a whole.
    `phase` names the span of the step that the operation filled. `doubts` says in words what is
    known to be doubtful about it, `uncounted` what else the step moved that is in none of its
    amounts, such as a ramp, `shares` what else a workload tells, by the names of metrics, as shares
    of 1. Operations that ran `in_turn` had their `seconds` to themselves, one after another; others
    filled their phase side by side. Times are nanoseconds since 1970, UTC.
    """

    operation: str
    phase: str
    seconds: float | None = None
    bytes: int | None = None
    operations: int | None = None
    throughput_mib_s: float | None = None
    iops: float | None = None
    latency_us: Mapping[str, float] = field(default_factory=dict)
    start_utc_ns: int | None = None
    end_utc_ns: int | None = None
    doubts: tuple[str, ...] = ()
    uncounted: str | None = None
    shares: Mapping[str, float] = field(default_factory=dict)
    in_turn: bool = False
    files: int | None = None
    files_per_s: float | None = None

    def as_dict(self) -> dict[str, Any]:
        """As plain data, without what is not known."""
        told = asdict(self).items()
        return {
            key: value for key, value in told if value not in (None, {}, ()) and value is not False
        }


class Workload(Protocol):
    """A workload with its options."""

    def probe(self) -> None:
        """Raise HostError where a program is missing or too old: which, and how to get it."""

    def describe(self) -> dict[str, Any]:
        """Facts that results depend on: programs' versions, sizes, in plain data."""

    def steps(self) -> tuple[str, ...]:
        """Names of the steps, in the order in which they run; each is an invocation of its own."""

    def seconds_guess(self, clients: int) -> float:
        """How long all steps may take, for a first plan."""

    def prepare(self, context: Context) -> None:
        """Make what the steps need, before anything is measured."""

    def run(self, step: str, context: Context) -> list[Span]:
        """Run one step; leave raw output in `context.raw`; say when its phases began and ended.

        Most steps are one phase of the step's name. Raises WorkloadFailed where a tool failed.
        """

    def clean(self, context: Context) -> None:
        """Remove what was made on the system under test."""


@runtime_checkable
class TakesSpace(Protocol):
    """A workload that knows beforehand how much it writes."""

    def bytes_needed(self, clients: int) -> float:
        """Bytes of all files that it leaves at a time on the system under test."""
