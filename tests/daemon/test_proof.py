"""`wattiod` beside four real servers under changing load, with faults at random moments.

etcd, PostgreSQL, Redis and nginx run in one control group, which the daemon leaves half of the
processors. It goes by what one of them tells of its latency, which can be broken on the way.
Whatever goes wrong, the servers have all processors until it is over, and nothing is left behind.
`WATTIO_PROOF_S` says how long in all (an hour for work on what this is of), `WATTIO_SEED` which
faults.
"""

from __future__ import annotations

import itertools
import os
import random
import shutil
import signal
import subprocess
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from places import ROOT

from daemon.loaded import Loaded, Page, Source, Statements, loaded
from daemon.proof import SEED, SPAN_S, Took, tell
from daemon.records import check_records
from daemon.running import ALL, BINARY, CPUSET, DEADLINE_S, Place, control_group, cpus
from daemon.servers import POSTGRES, postgres_folder

SERVERS = {"etcd": "etcd-server", "redis-server": "redis-server", "nginx": "nginx-light"}
HALF = len(ALL) // 2
# SIGSEGV from outside ends nobody the first time: Rust's handler of overflowing stacks takes it.
ENDS = (signal.SIGKILL, signal.SIGABRT, signal.SIGUSR1)

pytestmark = [
    pytest.mark.system,
    pytest.mark.alone,
    pytest.mark.timeout(SPAN_S + 300),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root may write control groups"),
    pytest.mark.skipif(not (CPUSET / "cpuset.cpus").exists(), reason="no cpuset, version 1"),
    pytest.mark.skipif(len(ALL) < 2, reason="one processor leaves nothing to take off"),
    pytest.mark.skipif(not BINARY.exists(), reason="make daemon builds it"),
    pytest.mark.skipif(not POSTGRES.exists(), reason="needs the package postgresql"),
    *(
        pytest.mark.skipif(shutil.which(name) is None, reason=f"needs the package {package}")
        for name, package in SERVERS.items()
    ),
]


@contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """A file system of 256 KiB for the daemon's old values."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k,mode=0700", "tmpfs", str(folder)]
    subprocess.run(mount, check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


KNOBS = {
    "cpuset": 'cgroup = "GROUP"\n[[knob]]\nkind = "cpu.cpuset"\n',
    "affinity": 'processes = { cgroup = "GROUP" }\n[[knob]]\nkind = "cpu.affinity"\n',
}


def source(knob: str, url: str, cluster: Path) -> AbstractContextManager[Source]:
    """One of the servers for each knob."""
    query = ROOT / "packaging" / "examples" / "postgresql.sql"
    return Page(url) if knob == "cpuset" else Statements(cluster, query)


def configuration(group: Path, source: Source, knob: str) -> str:
    """Half of the processors, by a law that never waits; its bound is absolute, so always known.

    The source is served by this process or by a shell, which on a busy machine take their time.
    """
    return f"""
name = "proof"
[policy]
name = "fixed"
settings = {{ cores_share = 0.5 }}
bounds = ["mean {source.limit_us:g} us run"]
[latency]
{source.latency}
[[group]]
name = "servers"
cores = "{",".join(str(cpu) for cpu in sorted(ALL))}"
{KNOBS[knob].replace("GROUP", f"/{group.name}")}
[power]
model = "assumed"
[safety]
dwell = "0 s"
stale_after_windows = 6.0
flaps_max = 100000
errors_max = 100000
"""


@dataclass
class Proof:
    """The host of the proof, and the faults that may come over it."""

    knob: str
    group: Path
    place: Place
    source: Source
    loaded: Loaded
    dice: random.Random
    took: defaultdict[str, Took] = field(default_factory=lambda: defaultdict(Took))
    fault: str = "start"

    def __post_init__(self) -> None:
        self.daemon: subprocess.Popen[str]

    def widths(self) -> dict[str, int]:
        """How many processors each thread of the servers may use, by name and number."""
        found = {}
        for pid in (self.group / "cgroup.procs").read_text().split():
            for task in Path(f"/proc/{pid}/task").glob("*"):
                with suppress(OSError):
                    width = len(os.sched_getaffinity(int(task.name)))
                    found[f"{(task / 'comm').read_text().strip()} {pid}/{task.name}"] = width
        return found

    def wait_for_all(self) -> None:
        self.took[self.fault].full_s.append(self._wait_for(len(ALL)))

    def wait_for_half(self) -> None:
        self.took[self.fault].back_s.append(self._wait_for(HALF))

    def _wait_for(self, width: int) -> float:
        """Look until every thread has so many processors; the seconds.

        Fails after a minute, or after two for the few: a minute is between two searches at most.
        """
        began, never = time.monotonic(), threading.Event()
        until = began + (DEADLINE_S if width == len(ALL) else 2 * DEADLINE_S)
        while set((widths := self.widths()).values()) != {width}:
            if time.monotonic() > until:
                raise AssertionError(f"not {width}: {widths}\n{self.log()}\n{self.place.status()}")
            never.wait(0.01)
        return time.monotonic() - began

    def inject(self, fault: Callable[[], None]) -> None:
        """One fault at any moment of a window, which ends as it began."""
        threading.Event().wait(self.dice.uniform(0.0, 0.5))
        self.loaded.clients.pause_s = self.dice.choice([0.01, 0.02, 0.1])
        self.fault = fault.__name__
        fault()

    def log(self) -> str:
        return self.place.folder.joinpath("log").read_text()[-3000:]

    def start(self) -> None:
        self.begin()
        self.wait_for_half()

    def begin(self) -> None:
        command = [str(BINARY), "run", str(self.place.config)]
        command += ["--out", str(self.place.folder / "results")]
        with self.place.folder.joinpath("log").open("a") as log:
            self.daemon = subprocess.Popen(command, stdout=log, stderr=log, text=True)

    def end(self, number: signal.Signals) -> int:
        self.daemon.send_signal(number)
        return self.daemon.wait(DEADLINE_S)

    def tell(self, *words: str) -> None:
        socket = ["--socket", str(self.place.folder / "socket")]
        subprocess.run([str(BINARY), *words, *socket], check=True, capture_output=True, timeout=60)

    # Faults. Each begins with half of the processors, and ends so.

    def a_daemon_that_is_killed(self) -> None:
        number = self.dice.choice(ENDS)
        assert self.end(number) == -number
        self.wait_for_all()
        self.wait_for_keeper()
        self.start()

    def a_daemon_that_is_stopped(self) -> None:
        self.daemon.send_signal(signal.SIGSTOP)
        self.wait_for_all()
        self.daemon.wait(DEADLINE_S)
        self.wait_for_keeper()
        self.start()

    def a_keeper_that_is_killed(self) -> None:
        """Another one is there before the daemon is killed, too."""
        [keeper] = self.keepers()
        os.kill(keeper, signal.SIGKILL)
        self.place.wait_until(lambda _: self.keepers() not in ([], [keeper]))
        self.a_daemon_that_is_killed()

    def keepers(self) -> list[int]:
        """The process beside the daemon that puts everything back."""
        children = Path(f"/proc/{self.daemon.pid}/task/{self.daemon.pid}/children")
        found = [int(pid) for pid in children.read_text().split()]
        names = {pid: Path(f"/proc/{pid}/comm") for pid in found}
        return [pid for pid, name in names.items() if name.read_text() == "wattiod-keeper\n"]

    def wait_for_keeper(self) -> None:
        """What the keeper does last is to let go of the old values."""
        deadline, never = time.monotonic() + DEADLINE_S, threading.Event()
        while self.place.snapshot.exists():
            assert time.monotonic() < deadline
            never.wait(0.01)

    def a_source_that_hangs(self) -> None:
        self.source.hang()
        self.wait_for_all()
        self.source.mend()
        self.wait_for_half()

    def a_source_of_garbage(self) -> None:
        self.source.garble()
        self.wait_for_all()
        self.source.mend()
        self.wait_for_half()

    def a_server_that_is_killed(self) -> None:
        server = self.loaded.servers[self.source.server]
        server.kill()
        self.wait_for_all()
        server.start()
        self.wait_for_half()

    def another_server_that_is_killed(self) -> None:
        """It has no part in what the daemon goes by: it comes back as narrow as the others."""
        name = self.dice.choice(
            [name for name in self.loaded.servers if name != self.source.server]
        )
        self.loaded.servers[name].kill()
        self.loaded.servers[name].start()
        self.wait_for_half()

    def a_process_of_a_server_that_is_killed(self) -> None:
        """PostgreSQL ends all its sessions then, and goes on."""
        pid = self.dice.choice(self.loaded.servers["postgresql"].children())
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        self.wait_for_half()

    def a_server_that_is_stopped(self) -> None:
        server = self.loaded.servers[self.source.server]
        server.signal(signal.SIGSTOP)
        self.wait_for_all()
        server.signal(signal.SIGCONT)
        self.wait_for_half()

    def processes_that_come_and_go(self) -> None:
        for _ in range(20):
            shell = f'echo $$ >"{self.group}/cgroup.procs"; exec true'
            subprocess.run(["sh", "-c", shell], check=True)
        self.wait_for_half()

    def somebody_who_writes(self) -> None:
        """What he wrote is his, also at the end; what he left is put back."""
        his = {max(ALL)}
        redis = self.loaded.servers["redis"].pid
        file = self.group / "cpuset.cpus"
        if self.knob == "cpuset":
            file.write_text(f"{max(ALL)}")
        else:
            os.sched_setaffinity(redis, his)
        self.place.wait_until(lambda status: bool(status["counts"]["foreign_changes"]))
        assert self.end(signal.SIGTERM) == 0, self.log()
        assert os.sched_getaffinity(redis) == his
        assert not self.place.snapshot.exists()
        if self.knob == "cpuset":
            file.write_text(",".join(str(cpu) for cpu in sorted(ALL)))
        else:
            os.sched_setaffinity(redis, ALL)
        widths = self.widths()
        assert set(widths.values()) == {len(ALL)}, f"{widths}\n{self.log()}"
        self.start()

    def somebody_who_pauses(self) -> None:
        self.tell("pause")
        self.wait_for_all()
        self.tell("resume")
        self.wait_for_half()

    def a_reload(self) -> None:
        began_ns = time.time_ns()

        def is_reloaded(status: dict[str, Any]) -> bool:
            reloaded = [one for one in status["events"] if "reloaded" in one["message"]]
            return any(one["utc_ns"] >= began_ns for one in reloaded)

        self.daemon.send_signal(signal.SIGHUP)
        self.place.wait_until(is_reloaded)
        self.wait_for_half()

    def a_disk_that_is_full(self) -> None:
        """Old values cannot be kept, so nothing is changed; then they can, and it goes on."""
        assert self.end(signal.SIGTERM) == 0, self.log()
        self.wait_for_all()
        filler = self.place.snapshot.parent / "filler"
        with suppress(OSError), filler.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
        self.begin()
        self.place.wait_until(lambda status: bool(status["counts"]["knob_failures"]))
        assert set(self.widths().values()) == {len(ALL)}
        filler.unlink()
        self.wait_for_half()

    def faults(self) -> list[Callable[[], None]]:
        """All of them."""
        return [
            self.a_daemon_that_is_killed,
            self.a_daemon_that_is_stopped,
            self.a_keeper_that_is_killed,
            self.a_source_that_hangs,
            self.a_source_of_garbage,
            self.a_server_that_is_killed,
            self.another_server_that_is_killed,
            self.a_process_of_a_server_that_is_killed,
            self.a_server_that_is_stopped,
            self.processes_that_come_and_go,
            self.somebody_who_writes,
            self.somebody_who_pauses,
            self.a_reload,
            self.a_disk_that_is_full,
        ]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Path]:
    """PostgreSQL's."""
    with postgres_folder() as folder:
        yield folder


@pytest.mark.parametrize("knob", KNOBS)
def test_whatever_goes_wrong_the_servers_have_all_processors_until_it_is_over(
    tmp_path: Path, cluster: Path, knob: str, capsys: pytest.CaptureFixture[str]
) -> None:
    dice = random.Random(f"{SEED} {knob}")
    until = time.monotonic() + SPAN_S / len(KNOBS)
    with (
        control_group(f"wattio-proof-{os.getpid()}") as group,
        small_disk(tmp_path / "state"),
        loaded(group, tmp_path, cluster) as servers,
        source(knob, servers.etcd_url, cluster) as told,
    ):
        place = Place(tmp_path, configuration(group, told, knob))
        proof = Proof(knob, group, place, told, servers, dice)
        proof.wait_for_all()
        proof.start()
        try:
            # All of them once in a drawn order, and again, until the time is over.
            rounds = (dice.sample(proof.faults(), len(proof.faults())) for _ in itertools.count())
            for number, fault in enumerate(itertools.chain.from_iterable(rounds)):
                if time.monotonic() > until and number >= len(proof.faults()):
                    break
                proof.inject(fault)
            proof.fault = "end"
            assert proof.end(signal.SIGTERM) == 0, proof.log()
        finally:
            proof.daemon.kill()
            place.restore()
        proof.wait_for_all()
        assert cpus((group / "cpuset.cpus").read_text()) == ALL
        assert not place.snapshot.exists()
        accounted = check_records(
            tmp_path / "results" / "proof", {"cores": [len(ALL)]}, told.limit_us
        )
    tell(capsys, knob, proof.took, accounted)
