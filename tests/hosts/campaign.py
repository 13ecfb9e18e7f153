"""A study on nodes in namespaces, over ssh, with an SNMP outlet for each, killed at random.

    cd tests && python -m hosts.campaign --kills 20

brings up nodes, runs the small `arm-cluster` on them, kills it at random moments, resumes it each
time, and tells whether anything was lost, was left behind, or was charged the wrong joules.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from meters.pdu import Load, Pdu, served_pdu
from wattio.kinds.measurement.folder import MeasurementFolder
from wattio.systems import claims, mounts

from hosts.cluster import Cluster, cluster

PERIOD_S = 0.5
CLIENTS, SERVERS = 4, 5
_LEFT_S = 60.0

PEAK = """\
[peak]
name = "legs"
rule = "nodes"

[[part]]
kind = "network"
node = "data"
nodes = {servers}
origin = "assumed"
how = "the rate that the legs of the servers are held to, 1 Gbit/s"
read_throughput_mib_s = {{ mean = 119.2 }}
write_throughput_mib_s = {{ mean = 119.2 }}
"""


def outlets(count: int) -> list[Load]:
    """For each node a power of its own, up and down by a fifth in its own time, for an hour."""
    loads = []
    for number in range(count):
        power_w, half_s = 40.0 + 10.0 * number, 90.0 + 7.0 * number
        knots = ((at * half_s, power_w * (1.2 if at % 2 else 1.0)) for at in range(40))
        loads.append(Load(tuple(knots)))
    return loads


@dataclass(frozen=True)
class Bed:
    """Nodes and their PDU."""

    nodes: Cluster
    pdu: Pdu
    clients: int
    peak: Path

    @property
    def options(self) -> list[str]:
        """What takes `wattio run` there."""
        mark, count = self.nodes.mark, len(self.nodes.names)
        meter = self.pdu.name("raritan-px2").partition("?")[0]
        return [
            *("--hosts", f"{mark}-[1-{self.clients}]"),
            *("--servers", f"{mark}-[{self.clients + 1}-{count}]"),
            *("--ssh", f"-F {self.nodes.config}"),
            *("--meter", f"{meter}?outlet=[1-{count}]&period={PERIOD_S}+s"),
            *("--each", f"{mark}-[1-{count}]"),
            *("--peak", str(self.peak)),
        ]


@contextlib.contextmanager
def bed(folder: Path, clients: int = CLIENTS, servers: int = SERVERS) -> Iterator[Bed]:
    """Nodes with an sshd and an outlet each; nothing is left of them."""
    (folder / "pdu").mkdir(parents=True)
    with (
        cluster(folder / "nodes", clients + servers) as nodes,
        served_pdu(folder / "pdu", outlets(clients + servers)) as pdu,
    ):
        peak = folder / "peak.toml"
        peak.write_text(PEAK.format(servers=servers))
        yield Bed(nodes, pdu, clients, peak)


def places_of(result: Path | None) -> set[str]:
    """Names of the folders in /var/tmp that a result's systems have at hosts."""
    found: set[str] = set()
    for entry in () if result is None else MeasurementFolder(result).resolved()["system"]:
        scratch = (result or Path()) / "scratch" / entry["name"]
        storage = claims.storage(entry.get("kind") or entry["name"], {}, scratch)
        mark = getattr(storage, "_mark", None)
        work = getattr(storage, "_work", Path())
        found.add(work.name if mark is None else f"wattio-{mark}")
    return found


def left_behind(made: Cluster, result: Path | None) -> list[str]:
    """What of a run is still there: processes, mounts and folders at the nodes and here."""
    found = []
    for number in range(1, len(made.names) + 1):
        words = ("ip", "netns", "pids", made.namespace(number))
        done = subprocess.run(words, capture_output=True, check=True)
        for pid in done.stdout.split():
            with contextlib.suppress(OSError):
                said = Path(f"/proc/{int(pid)}/cmdline").read_bytes().replace(b"\0", b" ")
                if b"sshd" not in said.partition(b" ")[0]:
                    found.append(f"process {int(pid)} at node {number}: {said[:100]!r}")
    places = places_of(result)
    points = [str(mount.point) for mount in mounts.current()]
    found += [f"a mount: {one}" for one in points if any(f"/{name}/" in one for name in places)]
    there = {path.name for path in Path("/var/tmp").glob("wattio-*")}
    return found + [f"a folder: {name}" for name in sorted(there & places)]


def clean_within(made: Cluster, result: Path | None, limit_s: float = _LEFT_S) -> list[str]:
    """What is left behind, once there is nothing or so much time has passed."""
    deadline = time.monotonic() + limit_s
    while (found := left_behind(made, result)) and time.monotonic() < deadline:
        time.sleep(0.2)
    return found


def energies_off(folder: MeasurementFolder, made: Bed) -> list[str]:
    """Phases whose joules at a node are not those of its outlet, by more than two samples'."""
    found = []
    places = {name: place for place, name in enumerate(made.nodes.names, start=1)}
    for item in folder.iterations():
        if not item.usable:
            continue
        for phase in folder.record(item.identity).phases:
            span = phase.span
            for name, outlet in places.items():
                told = item.by_phase.get(span.name, {}).get(f"{name}.energy_j")
                if told is None:
                    continue
                true_j = made.pdu.energy_j(span.start.monotonic_ns, span.end.monotonic_ns, outlet)
                swing_w = 0.2 * (40.0 + 10.0 * (outlet - 1))
                if abs(told[0] - true_j) > 0.005 * true_j + 2 * 2 * PERIOD_S * swing_w:
                    found.append(
                        f"{item.run.name} {span.name}, {name}: {told[0]:.1f} J of {true_j:.1f}"
                    )
    return found


@dataclass
class Killing:
    """A study that is run, killed at random moments, and resumed."""

    made: Bed
    words: Sequence[str]
    folder: Path
    draw: random.Random
    say: Callable[[str], None]

    def _start(self, words: Sequence[str]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "wattio.cli", "run", *words, "--no-report"],
            cwd=self.folder,
            stdout=subprocess.DEVNULL,
            stderr=(self.folder / "run.log").open("ab"),
        )

    def _result(self) -> Path | None:
        found = sorted((self.folder / "results").glob("*/*/machine.json"))
        return found[0].parent if found else None

    def run(self, kills: int, spread_s: float) -> list[str]:
        """Kill and resume; complaints of what was lost or left. The study is done then."""
        complaints: list[str] = []
        known: dict[str, object] = {}
        process = self._start(self.words)
        for number in range(1, kills + 1):
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(self.draw.uniform(0.5, spread_s))
            if process.poll() is not None:
                break
            process.send_signal(signal.SIGKILL)
            process.wait()
            place = self._result()
            left = clean_within(self.made.nodes, place)
            kept = {} if place is None else _kept(place)
            lost = [name for name, value in known.items() if kept.get(name) != value]
            complaints += [f"kill {number}: left behind: {one}" for one in left]
            complaints += [f"kill {number}: lost or changed: {one}" for one in lost]
            known = kept
            self.say(
                f"kill {number}: {len(kept)} iterations kept, {len(left)} left, {len(lost)} lost"
            )
            process = self._start(["--resume", str(place)] if place else self.words)
        code = process.wait()
        if code not in (0, 1):
            complaints.append(f"it ended with exit code {code}")
        left = clean_within(self.made.nodes, self._result())
        complaints += [f"left behind at the end: {one}" for one in left]
        complaints += [
            f"a claim is left: {one}" for one in claims.left(remove=False) if not one.runs
        ]
        return complaints

    @property
    def result(self) -> MeasurementFolder:
        """What was measured."""
        place = self._result()
        assert place is not None
        return MeasurementFolder(place)


def _kept(place: Path) -> dict[str, object]:
    """Of each iteration that is kept, what nothing may change later: when it ran, its phases."""
    folder = MeasurementFolder(place)
    found: dict[str, object] = {}
    for item in folder.iterations():
        record = folder.record(item.identity)
        found[item.identity] = (record.start, tuple(phase.span for phase in record.phases))
    return found


def main() -> int:
    """Run the campaign; 1 where something was lost, left or wrong."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--spread-s", type=float, default=120.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--study", default="arm-cluster")
    parser.add_argument("--folder", type=Path)
    given = parser.parse_args()
    if os.geteuid() != 0:
        parser.error("needs root, for namespaces and file systems")
    folder = given.folder or Path(tempfile.mkdtemp(prefix="campaign-"))
    folder.mkdir(exist_ok=True)
    begun_s = time.monotonic()

    def say(text: str) -> None:
        sys.stdout.write(f"{time.monotonic() - begun_s:7.1f} s  {text}\n")
        sys.stdout.flush()

    with bed(folder / "bed") as made:
        words = [given.study, "--scale", "small", *made.options]
        say(f"wattio run {' '.join(words)}")
        work = Killing(made, words, folder, random.Random(given.seed), say)
        complaints = work.run(given.kills, given.spread_s)
        complaints += energies_off(work.result, made)
        items = work.result.iterations()
    usable = sum(item.usable for item in items)
    say(f"{usable} of {len(items)} iterations usable, in {work.result.path}")
    for complaint in complaints:
        say(complaint)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
