"""Simulate one run of an I/O approach with SimGrid: a JSON object on stdin, another on stdout.

    /usr/bin/python3 -m validation.io.simgrid.dumps <run.json

`__main__.py` starts it once for each run, with the Python that has SimGrid's module (Debian's
`python3-simgrid`); a process simulates once. It imports nothing of wattio and knows none of its
equations: what comes out follows from flops, bytes and who waits for whom.

- A node is a host with its cores. Computing is flops: Amdahl's share that is not divided is
  computed by every core (and node) again, so all cores are busy to the end of a step.
- A write is a flow from a writer's own link (its most bytes per second) over its node's network
  card to the storage's link, which all flows share fairly; that link gives less the more flows
  there are at the moment, not by how many writers there could be.
- Handing over is a message to a dedicated rank: over the node's memory link (`dc`), or over the
  network card of the I/O node, which its computing nodes share (`dn`). A dedicated rank takes
  a dump only when it has written the one before: a buffer of one dump. It writes when it has all.
- All computing ranks meet at a barrier after each dump; the job ends for all ranks together, when
  the last dump is written, as MPI's does.
- Who waits either sleeps (SimGrid takes a blocked actor for idle) or polls, which burns its core.
  Copying, sending and writing count as waiting of the rank that does it.

Energy is SimGrid's plugin `host_energy`: a node's power rises from idle to most with busy cores.
The network is SimGrid's model CM02 without cross traffic: rates are those an application gets,
so the share of protocol headers, which its default model takes off, is in them already.
"""

from __future__ import annotations

import ctypes
import json
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from simgrid import Actor, Barrier, Comm, Engine, Host, Link, Mailbox, this_actor

from validation.io.simgrid.platform import Run, clients, platform

BAD_INPUT = 2
FOREVER = 1e18
"""Flops that no run reaches."""

SETTINGS = [
    "simgrid_dumps",
    "--log=root.thres:warning",
    "--log=no_loc",
    "--cfg=plugin:host_energy",
    "--cfg=network/model:CM02",
    "--cfg=network/crosstraffic:0",
]


class Meter:
    """Energy of hosts, which SimGrid's Python module does not offer: by its library."""

    def __init__(self, hosts: list[str]) -> None:
        """Find the library that the module has loaded."""
        mapped = Path("/proc/self/maps").read_text(encoding="utf-8").split()
        path = next(word for word in mapped if "/libsimgrid.so" in word)
        library = ctypes.CDLL(path)
        library.sg_host_by_name.restype = ctypes.c_void_p
        library.sg_host_by_name.argtypes = [ctypes.c_char_p]
        self._read = library.sg_host_get_consumed_energy
        self._read.restype = ctypes.c_double
        self._read.argtypes = [ctypes.c_void_p]
        self._hosts = [library.sg_host_by_name(name.encode()) for name in hosts]
        parts = [ctypes.c_int() for _ in range(3)]
        library.sg_version_get(*(ctypes.byref(part) for part in parts))
        self.version = ".".join(str(part.value) for part in parts)

    def energy_j(self) -> float:
        """Of all hosts since the start."""
        return float(sum(self._read(each) for each in self._hosts))


@dataclass
class World:
    """What the actors share; at `barrier` ranks that compute, at `end` all.

    `marks` are clock and energy when a dump was handed over.
    """

    run: Run
    meter: Meter
    barrier: Any
    end: Any
    marks: dict[int, tuple[float, float]] = field(default_factory=dict)

    def waiting(self, what: Callable[[], object]) -> None:
        """Wait for something, asleep or polling."""
        if not self.run.polls:
            what()
            return
        burning = this_actor.exec_async(FOREVER)
        what()
        burning.cancel()

    def write(self, node: int, core: int, size: int) -> None:
        """Write so many bytes from a core."""
        door = Host.by_name(f"door{core}")
        Comm.sendto(Host.by_name(f"node{node}"), door, size)

    def compute(self, node: int, core: int) -> None:
        """A computing rank."""
        run = self.run
        writer = run.writer_of(node, core)
        mailbox = Mailbox.by_name(f"{writer[0]}.{writer[1]}")

        def output() -> None:
            if writer == (node, core):
                self.write(node, core, run.share_bytes)
            else:
                mailbox.put("dump", run.share_bytes)
            self.barrier.wait()

        for dump in range(1, run.dumps + 1):
            this_actor.execute(run.flops)
            self.waiting(output)
            if (node, core) == (0, 0) and dump in (2, run.dumps):
                self.marks[dump] = (Engine.clock, self.meter.energy_j())
        self.waiting(self.end.wait)

    def dedicated(self, node: int, core: int, senders: int) -> None:
        """A rank that takes a dump from some others and writes it, and again."""
        mailbox = Mailbox.by_name(f"{node}.{core}")

        def serve() -> None:
            for _ in range(self.run.dumps):
                # SimGrid writes the payload into the second of each, so it has to live on.
                coming = [mailbox.get_async() for _ in range(senders)]
                Comm.wait_all([message for message, _ in coming])
                self.write(node, core, senders * self.run.share_bytes)
            self.end.wait()

        self.waiting(serve)


def simulate(run: Run) -> dict[str, Any]:
    """Time and energy until the last dump is written, and those from the second to the last."""
    engine = Engine(SETTINGS)
    with tempfile.NamedTemporaryFile("w", suffix=".xml") as file:
        file.write(platform(run))
        file.flush()
        engine.load_platform(file.name)
    shared = next(each for each in engine.all_links if each.name == "storage")
    shared.set_sharing_policy(
        Link.SharingPolicy.NONLINEAR,
        lambda bytes_s, flows: bytes_s / (1 + run.contention * max(0.0, flows - run.free_writers)),
    )
    meter = Meter([f"node{node}" for node in range(run.nodes)])
    computing, writers = run.computing_nodes * run.computing_cores, clients(run)
    ranks = computing if run.kind == "tp" else computing + len(writers)
    world = World(run, meter, Barrier(computing), Barrier(ranks))
    for node in range(run.computing_nodes):
        for core in range(run.computing_cores):
            start(f"computing{node}.{core}", node, world.compute, node, core)
    for (node, core), senders in writers.items():
        if run.kind != "tp":
            start(f"writer{node}.{core}", node, world.dedicated, node, core, senders)
    engine.run()
    (first_s, first_j), (last_s, last_j) = world.marks[2], world.marks[run.dumps]
    return {
        "simgrid": meter.version,
        "time_s": Engine.clock,
        "energy_j": meter.energy_j(),
        "period_s": (last_s - first_s) / (run.dumps - 2),
        "period_j": (last_j - first_j) / (run.dumps - 2),
    }


def start(name: str, node: int, what: Callable[..., None], *arguments: int) -> None:
    """Start an actor on a node."""
    Actor.create(name, Host.by_name(f"node{node}"), what, *arguments)


def main() -> int:
    """Run the command; return its exit status."""
    try:
        run = Run(**json.load(sys.stdin))
    except (TypeError, ValueError) as error:
        sys.stderr.write(f"error: stdin is no run: {error}\n")
        return BAD_INPUT
    if run.dumps < 3:
        sys.stderr.write(f"error: dumps: {run.dumps}; allowed: 3 or more\n")
        return BAD_INPUT
    sys.stdout.write(json.dumps(simulate(run)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
