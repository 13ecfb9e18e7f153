"""`wattiod` beside three real servers under changing load, with faults at random moments.

etcd, Redis and nginx run in one control group, which the daemon leaves half of the processors. It
goes by etcd's histogram, by way of a page that can be broken. Whatever goes wrong, the servers have
all processors until it is over, and nothing is left behind. `WATTIO_PROOF_S` says how long in all
(an hour for work on what this is of), `WATTIO_SEED` which faults.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from daemon.running import ALL, BINARY, CPUSET, DEADLINE_S, Place, control_group, cpus
from daemon.servers import ask_redis, free_port, knock, running

SPAN_S = float(os.environ.get("WATTIO_PROOF_S", "60"))
SEED = int(os.environ.get("WATTIO_SEED", "1"))
METRIC = "etcd_disk_wal_fsync_duration_seconds"
SERVERS = {"etcd": "etcd-server", "redis-server": "redis-server", "nginx": "nginx-light"}
HALF = len(ALL) // 2
LIMIT_US = 5_000.0

pytestmark = [
    pytest.mark.system,
    pytest.mark.alone,
    pytest.mark.timeout(SPAN_S + 300),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root may write control groups"),
    pytest.mark.skipif(not (CPUSET / "cpuset.cpus").exists(), reason="no cpuset, version 1"),
    pytest.mark.skipif(len(ALL) < 2, reason="one processor leaves nothing to take off"),
    pytest.mark.skipif(not BINARY.exists(), reason="make daemon builds it"),
    *(
        pytest.mark.skipif(shutil.which(name) is None, reason=f"needs the package {package}")
        for name, package in SERVERS.items()
    ),
]


class Page:
    """etcd's page, or what it answers when it is broken."""

    def __init__(self, url: str) -> None:
        self.broken: Callable[[BaseHTTPRequestHandler], None] | None = None
        page = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if page.broken is not None:
                    page.broken(self)
                    return
                with urllib.request.urlopen(f"{url}/metrics", timeout=5) as answer:
                    body = answer.read()
                self.send_response(200)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.handle_error = lambda *_: None  # type: ignore[method-assign]
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/metrics"

    def __enter__(self) -> Page:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.broken = None
        self._server.shutdown()
        self._server.server_close()


class Clients:
    """Clients of each server, who work as hard as they are told and live through its death."""

    def __init__(self, asks: list[Callable[[], object]]) -> None:
        self.pause_s = 0.02
        self._end = threading.Event()
        self._threads = [threading.Thread(target=self._work, args=(ask,)) for ask in asks]

    def _work(self, ask: Callable[[], object]) -> None:
        while not self._end.wait(self.pause_s):
            with suppress(OSError, AssertionError, ValueError):
                ask()

    def __enter__(self) -> Clients:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        for thread in self._threads:
            thread.join()


@contextmanager
def in_group(group: Path, command: list[str], ready: Callable[[], object]) -> Iterator[int]:
    """A server whose processes are in a control group from the start; its number."""
    shell = ["sh", "-c", f'echo $$ >"{group}/cgroup.procs" && exec "$@"', "sh", *command]
    quiet = subprocess.DEVNULL
    with running(shell, ready, stdout=quiet, stderr=quiet) as process:
        yield process.pid


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


def configuration(group: Path, url: str, knob: str) -> str:
    """Half of the processors, by a law that never waits; its bound is absolute, so always known.

    The page is served by this process, which on a busy machine takes its time.
    """
    return f"""
name = "proof"
[policy]
name = "fixed"
settings = {{ cores_share = 0.5 }}
bounds = ["mean {LIMIT_US / 1e3:g} ms run"]
[latency]
kind = "prometheus"
url = "{url}"
metric = "{METRIC}"
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


class Server:
    """A server that is killed and started again."""

    def __init__(self, group: Path, command: list[str], ready: Callable[[], object]) -> None:
        self._group, self._command, self._ready = group, command, ready
        self._running = ExitStack()
        self._pid = 0

    def __enter__(self) -> Server:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._running.close()

    def start(self) -> None:
        self._pid = self._running.enter_context(in_group(self._group, self._command, self._ready))

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        self._running.close()

    def signal(self, number: signal.Signals) -> None:
        os.kill(self._pid, number)


class Proof:
    """The host of the proof, and the faults that may come over it."""

    def __init__(self, group: Path, place: Place, page: Page, servers: dict[str, Server]) -> None:
        self.group, self.place, self.page, self.servers = group, place, page, servers
        self.daemon: subprocess.Popen[str]

    def widths(self) -> dict[str, int]:
        """How many processors each thread of the servers may use, by name and number."""
        found = {}
        for pid in group_pids(self.group):
            for task in Path(f"/proc/{pid}/task").glob("*"):
                with suppress(OSError):
                    width = len(os.sched_getaffinity(int(task.name)))
                    found[f"{(task / 'comm').read_text().strip()} {pid}/{task.name}"] = width
        return found

    def wait_for(self, width: int) -> None:
        """Look until every thread has so many processors. Fails after a minute."""
        deadline, never = time.monotonic() + DEADLINE_S, threading.Event()
        while set((widths := self.widths()).values()) != {width}:
            if time.monotonic() > deadline:
                raise AssertionError(f"not {width}: {widths}\n{self.log()}\n{self.place.status()}")
            never.wait(0.01)

    def log(self) -> str:
        return self.place.folder.joinpath("log").read_text()[-3000:]

    def start(self) -> None:
        self.begin()
        self.wait_for(HALF)

    def begin(self) -> None:
        command = [str(BINARY), "run", str(self.place.config)]
        command += ["--out", str(self.place.folder / "results")]
        with self.place.folder.joinpath("log").open("a") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, text=True)
        self.daemon = process

    def end(self, number: signal.Signals) -> int:
        self.daemon.send_signal(number)
        return self.daemon.wait(DEADLINE_S)

    def tell(self, *words: str) -> None:
        socket = ["--socket", str(self.place.folder / "socket")]
        subprocess.run([str(BINARY), *words, *socket], check=True, capture_output=True, timeout=60)

    # Faults. Each begins with half of the processors, and ends so.

    def a_daemon_that_is_killed(self) -> None:
        assert self.end(signal.SIGKILL) == -signal.SIGKILL
        self.wait_for(len(ALL))
        self.wait_for_keeper()
        self.start()

    def a_daemon_that_is_stopped(self) -> None:
        self.daemon.send_signal(signal.SIGSTOP)
        self.wait_for(len(ALL))
        self.daemon.wait(DEADLINE_S)
        self.wait_for_keeper()
        self.start()

    def wait_for_keeper(self) -> None:
        """What the keeper does last is to let go of the old values."""
        deadline, never = time.monotonic() + DEADLINE_S, threading.Event()
        while self.place.snapshot.exists():
            assert time.monotonic() < deadline
            never.wait(0.01)

    def a_page_that_hangs(self) -> None:
        over = threading.Event()

        def hang(_: object) -> None:
            over.wait(DEADLINE_S)

        self.page.broken = hang
        self.wait_for(len(ALL))
        self.page.broken = None
        over.set()
        self.wait_for(HALF)

    def a_page_of_garbage(self) -> None:
        def garbage(handler: BaseHTTPRequestHandler) -> None:
            handler.send_response(200)
            handler.end_headers()
            handler.wfile.write(bytes(range(256)) * 40)

        self.page.broken = garbage
        self.wait_for(len(ALL))
        self.page.broken = None
        self.wait_for(HALF)

    def a_server_that_is_killed(self) -> None:
        self.servers["etcd"].kill()
        self.wait_for(len(ALL))
        self.servers["etcd"].start()
        self.wait_for(HALF)

    def another_server_that_is_killed(self) -> None:
        """It has no part in what the daemon goes by: it comes back as narrow as the others."""
        self.servers["redis"].kill()
        self.servers["redis"].start()
        self.wait_for(HALF)

    def a_server_that_is_stopped(self) -> None:
        self.servers["etcd"].signal(signal.SIGSTOP)
        self.wait_for(len(ALL))
        self.servers["etcd"].signal(signal.SIGCONT)
        self.wait_for(HALF)

    def processes_that_come_and_go(self) -> None:
        for _ in range(20):
            shell = f'echo $$ >"{self.group}/cgroup.procs"; exec true'
            subprocess.run(["sh", "-c", shell], check=True)
        self.wait_for(HALF)

    def somebody_who_pauses(self) -> None:
        self.tell("pause")
        self.wait_for(len(ALL))
        self.tell("resume")
        self.wait_for(HALF)

    def a_reload(self) -> None:
        began_ns = time.time_ns()

        def is_reloaded(status: dict[str, Any]) -> bool:
            reloaded = [one for one in status["events"] if "reloaded" in one["message"]]
            return any(one["utc_ns"] >= began_ns for one in reloaded)

        self.daemon.send_signal(signal.SIGHUP)
        self.place.wait_until(is_reloaded)
        self.wait_for(HALF)

    def a_disk_that_is_full(self) -> None:
        """Old values cannot be kept, so nothing is changed; then they can, and it goes on."""
        assert self.end(signal.SIGTERM) == 0, self.log()
        self.wait_for(len(ALL))
        filler = self.place.snapshot.parent / "filler"
        with suppress(OSError), filler.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
        self.begin()
        self.place.wait_until(lambda status: bool(status["counts"]["knob_failures"]))
        assert set(self.widths().values()) == {len(ALL)}
        filler.unlink()
        self.wait_for(HALF)


def group_pids(group: Path) -> list[int]:
    return [int(pid) for pid in (group / "cgroup.procs").read_text().split()]


def faults(proof: Proof) -> list[Callable[[], None]]:
    """All faults once in a drawn order, and again, until the time is over."""
    return [
        proof.a_daemon_that_is_killed,
        proof.a_daemon_that_is_stopped,
        proof.a_page_that_hangs,
        proof.a_page_of_garbage,
        proof.a_server_that_is_killed,
        proof.another_server_that_is_killed,
        proof.a_server_that_is_stopped,
        proof.processes_that_come_and_go,
        proof.somebody_who_pauses,
        proof.a_reload,
        proof.a_disk_that_is_full,
    ]


@contextmanager
def servers(group: Path, folder: Path) -> Iterator[tuple[str, dict[str, Server], Clients]]:
    """etcd's address, the servers, and their clients."""
    ports = [free_port() for _ in range(4)]
    url, peer = (f"http://127.0.0.1:{port}" for port in ports[:2])
    etcd = ["etcd", "--data-dir", f"{folder}/etcd", "--log-level", "error"]
    etcd += ["--listen-client-urls", url, "--advertise-client-urls", url]
    etcd += ["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer]
    etcd += ["--initial-cluster", f"default={peer}"]
    redis = ["redis-server", "--port", str(ports[2]), "--save", "", "--dir", str(folder)]
    config = folder / "nginx.conf"
    config.write_text(f"""
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/errors;
events {{ }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    server {{ listen 127.0.0.1:{ports[3]}; location / {{ return 200 "ok"; }} }}
}}
""")
    nginx = ["nginx", "-e", f"{folder}/errors", "-c", str(config)]

    def get(place: str, body: bytes | None = None) -> bytes:
        with urllib.request.urlopen(place, body, timeout=5) as answer:
            read: bytes = answer.read()
            return read

    put = json.dumps({"key": "a2V5", "value": "dmFsdWU="}).encode()
    commands = [("SET", "key", "x" * 4096), ("GET", "key")] * 10
    asks: list[Callable[[], object]] = [
        lambda: get(f"{url}/v3/kv/put", put),
        lambda: get(f"{url}/v3/kv/put", put),
        lambda: ask_redis(ports[2], *commands),
        lambda: get(f"http://127.0.0.1:{ports[3]}/"),
    ]
    with (
        Server(group, etcd, lambda: get(f"{url}/version")) as first,
        Server(group, redis, knock(ports[2])) as second,
        Server(group, nginx, knock(ports[3])) as third,
        Clients(asks) as clients,
    ):
        yield url, {"etcd": first, "redis": second, "nginx": third}, clients


@pytest.mark.parametrize("knob", KNOBS)
def test_whatever_goes_wrong_the_servers_have_all_processors_until_it_is_over(
    tmp_path: Path, knob: str, capsys: pytest.CaptureFixture[str]
) -> None:
    dice = random.Random(f"{SEED} {knob}")
    until = time.monotonic() + SPAN_S / len(KNOBS)
    done: Counter[str] = Counter()
    longest_s: dict[str, float] = {}
    with (
        control_group(f"wattio-proof-{os.getpid()}") as group,
        small_disk(tmp_path / "state"),
        servers(group, tmp_path) as (url, each, clients),
        Page(url) as page,
    ):
        place = Place(tmp_path, configuration(group, page.url, knob))
        proof = Proof(group, place, page, each)
        proof.wait_for(len(ALL))
        proof.start()
        try:
            for fault in itertools.chain.from_iterable(
                dice.sample(faults(proof), len(faults(proof))) for _ in itertools.count()
            ):
                if time.monotonic() > until and len(done) == len(faults(proof)):
                    break
                clients.pause_s = dice.choice([0.01, 0.02, 0.1])
                name, began = fault.__name__, time.monotonic()
                fault()
                done[name] += 1
                longest_s[name] = max(longest_s.get(name, 0.0), time.monotonic() - began)
            assert proof.end(signal.SIGTERM) == 0, proof.log()
        finally:
            proof.daemon.kill()
            place.restore()
        proof.wait_for(len(ALL))
        assert cpus((group / "cpuset.cpus").read_text()) == ALL
        assert not place.snapshot.exists()
        check_records(tmp_path / "results")
    told = [f"{name} {count} ({longest_s[name]:.1f} s at most)" for name, count in done.items()]
    with capsys.disabled():
        sys.stdout.write(f"\n{knob}, seed {SEED}: {', '.join(told)}\n")


def check_records(results: Path) -> None:
    """No window in which full speed was forced for longer than one is narrow; bounds are right."""
    windows = 0
    for folder in results.glob("*/*"):
        text = (folder / "raw" / "windows.jsonl").read_text()
        # Of a daemon that was killed the last line may be torn.
        rows = [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]
        for earlier, row in itertools.pairwise(rows):
            if earlier["forced"] is not None and row["forced"] is not None:
                assert row["cores"] == [len(ALL)], row
        summary = folder / "raw" / "summary.json"
        if not summary.exists():
            continue
        counts = json.loads(summary.read_text())["counts"]
        if counts["windows"] != len(rows):
            # A reload begins the counts anew, and a kill loses what was on its way to the disk.
            continue
        # What was seen too late to be used is in the record all the same.
        used = [row for row in rows if row["forced"] is None]
        judged = [row for row in used if row["requests"] and row["latency_us_mean"]]
        assert counts["windows_bounded"] == len(judged)
        assert counts["violations"] == sum(row["latency_us_mean"] > LIMIT_US for row in judged)
        windows += len(judged)
    assert windows > 0
