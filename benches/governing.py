"""The daemon: what it costs to govern 128 cores, and how soon it answers a burst.

It runs on a folder shaped like a host of 128 cores with cpufreq, and with its defaults: it reads
the metrics page twice in each window. What it costs, its keeper included, is compared with the
script that people write instead: a loop in Python that reads the same metrics page once in a window
and the same files as often. How soon full speed is asked for after the first late request is
compared with the same law looking at its whole windows only.
"""

from __future__ import annotations

import contextlib
import getpass
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from timing import BenchError, Goal, Line, Rate, Timed

CORES = 128
PERIOD_S = 0.5
PAGE_LINES = 200
KHZ_MAX, KHZ_MIN = 3_000_000, 1_000_000
STEPS = " ".join(str(khz) for khz in range(KHZ_MAX, KHZ_MIN - 1, -200_000))
STEPS_S_MIN = PERIOD_S**-1 / 0.001
"""Steps a second of processor time where two a second take 0.1 % of a core: 500 us each."""
STEPS_S_HOPED = 1 / 100e-6
"""Where a step takes 100 us."""
RESIDENT_MIB_MAX = 10.0
STEP_US_MAX = 50.0
"""What law and bookkeeping of a step may cost, without the system's calls."""
REACTION_S_MAX = 0.1
ROOT = Path(__file__).parents[1]
SHARED_MEMORY = Path("/dev") / "shm"
MEMORY = SHARED_MEMORY if os.access(SHARED_MEMORY, os.W_OK) else None
"""Where the host's files lie: on a disk each write would cost more than the kernel's own files."""


class Host:
    """A folder shaped like a host."""

    def __init__(self, folder: Path) -> None:
        """Make its files."""
        self.root = folder / "root"
        self.stat = self.root / "proc" / "stat"
        cpu = self.root / "sys" / "devices" / "system" / "cpu"
        self._write(cpu / "online", f"0-{CORES - 1}")
        self._write(cpu / "present", f"0-{CORES - 1}")
        self.limits = []
        for number in range(CORES):
            policy = cpu / "cpufreq" / f"policy{number}"
            self.limits.append(policy / "scaling_max_freq")
            for name, value in (
                ("related_cpus", number),
                ("affected_cpus", number),
                ("cpuinfo_min_freq", KHZ_MIN),
                ("cpuinfo_max_freq", KHZ_MAX),
                ("scaling_min_freq", KHZ_MIN),
                ("scaling_max_freq", KHZ_MAX),
                ("scaling_governor", "schedutil"),
                ("scaling_available_frequencies", STEPS),
                ("scaling_driver", "acpi-cpufreq"),
            ):
                self._write(policy / name, str(value))
        user = getpass.getuser()
        self._write(
            self.root / "etc" / "passwd", f"{user}:x:{os.getuid()}:{os.getgid()}::/:/bin/sh"
        )
        self._write(self.root / "proc" / "sys" / "kernel" / "random" / "boot_id", "bench")
        self.tick(0)

    def tick(self, seconds: float) -> None:
        """Let every core have been busy for a fifth of `seconds`.

        The kernel's file is the same one for ever: it is written in place, in one call and at one
        length, so that a reader finds lines that are whole.
        """
        busy, idle = int(seconds * 20), int(seconds * 80)
        rows = (f"cpu{number} {busy:8} 0 0 {idle:8} 0 0 0 0 0 0\n" for number in range(CORES))
        text = f"cpu  {busy * CORES:12} 0 0 {idle * CORES:12}\n" + "".join(rows)
        file = os.open(self.stat, os.O_WRONLY | os.O_CREAT)
        os.pwrite(file, text.encode(), 0)
        os.close(file)

    @staticmethod
    def _write(path: Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        # A reader never finds half a file.
        beside = path.with_name(f".{path.name}")
        beside.write_text(text + "\n")
        beside.replace(path)


def page(seconds: float) -> str:
    """A metrics page of 200 lines with one histogram: 2,000 requests a second of 250 us."""
    count = int(seconds * 2000)
    lines = [f'other_total{{shard="{number}"}} {number}' for number in range(PAGE_LINES - 12)]
    lines.append("# TYPE request_seconds histogram")
    edges = ("0.0001", "0.0002", "0.0005", "0.001", "0.002", "0.005", "0.01", "0.1", "+Inf")
    for edge in edges:
        lines.append(f'request_seconds_bucket{{le="{edge}"}} {count if edge > "0.0002" else 0}')
    lines += [f"request_seconds_sum {count * 250e-6}", f"request_seconds_count {count}"]
    return "\n".join(lines) + "\n"


@contextlib.contextmanager
def metrics_server() -> Iterator[str]:
    """The page on a port of its own; its address."""
    began = time.monotonic()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            body = page(time.monotonic() - began).encode()
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/metrics"
    finally:
        server.shutdown()


def configuration(folder: Path, latency: str, cpu: str, settings: str) -> Path:
    """A daemon that governs all cores' frequency."""
    file = folder / "wattiod.toml"
    file.write_text(f"""
name = "bench"
[policy]
settings = {{ {settings} }}
[latency]
{latency}
[cpu]
{cpu}
[[group]]
name = "all"
cores = "0-{CORES - 1}"
[[knob]]
kind = "cpu.frequency"
[safety]
dwell = "0 s"
flaps_max = 1000
[service]
listen = "off"
socket = "{folder}/socket"
state = "{folder}/state"
""")
    return file


def binary() -> Path:
    """The daemon, built as it is shipped."""
    command = ["cargo", "build", "--profile", "shipped", "--locked", "--quiet", "-p", "wattiod"]
    subprocess.run(command, check=True, cwd=ROOT)
    return ROOT / "target" / "shipped" / "wattiod"


def children_cpu_s(pid: int) -> float:
    """Processor time of the processes that this one started: of a daemon, its keeper."""
    lists = Path(f"/proc/{pid}/task").glob("*/children")
    children = [child for one in lists for child in one.read_text().split()]
    return sum(int(Path(f"/proc/{c}/schedstat").read_text().split()[0]) for c in children) / 1e9


@contextlib.contextmanager
def governing(program: Path, host: Host, config: Path) -> Iterator[Callable[[], dict[str, Any]]]:
    """A daemon that runs; asks it for its status."""
    command = [str(program), "--root", str(host.root), "run", str(config)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)
    socket = str(config.parent / "socket")

    def status() -> dict[str, Any]:
        ask = [str(program), "status", "--json", "--socket", socket]
        done = subprocess.run(ask, capture_output=True, text=True)
        if process.poll() is not None:
            assert process.stderr is not None
            raise BenchError(f"daemon: ended: {process.stderr.read().decode()}")
        answer: dict[str, Any] = json.loads(done.stdout or "{}")
        if answer:
            answer["own"]["cpu_s"] += children_cpu_s(process.pid)
        return answer

    try:
        yield status
    finally:
        process.terminate()
        process.communicate()


PEER = """
import sys, time, urllib.request
url, stat, *files = sys.argv[1:]
for _ in range(int(sys.stdin.readline())):
    page = urllib.request.urlopen(url).read().decode()
    samples = [line.rsplit(" ", 1) for line in page.splitlines() if not line.startswith("#")]
    wanted = {name: float(value) for name, value in samples if name.startswith("request_seconds")}
    mean = wanted["request_seconds_sum"] / max(wanted["request_seconds_count"], 1)
    with open(stat) as file:
        busy = [sum(map(int, line.split()[1:4])) for line in file if line.startswith("cpu")]
    for name in files:
        with open(name) as file:
            int(file.read())
"""
PEER_FILES = 8
"""How many of the files that the daemon holds it looks at in each window."""


def peer(url: str, host: Host, steps: int) -> Timed[int]:
    """The script: processor time of so many steps, without that of its start."""

    def cpu_s(count: int) -> float:
        files = [str(limit) for limit in host.limits[:PEER_FILES]]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [sys.executable, "-c", PEER, url, str(host.stat), *files]
        subprocess.run(command, input=f"{count}\n", text=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    began = time.monotonic()
    return Timed(steps, max(cpu_s(steps) - cpu_s(0), 1e-6), time.monotonic() - began)


def law_and_bookkeeping_us() -> float:
    """What a step costs where sources and places lie in memory. Raises BenchError."""
    command = ["cargo", "run", "--release", "--locked", "--quiet", "-p", "wattio-governor"]
    command += ["--example", "tick"]
    done = subprocess.run(command, check=True, cwd=ROOT, capture_output=True, text=True)
    found = json.loads(done.stdout)
    if found["changes"] < 100:
        raise BenchError(f"tick: the law did next to nothing: {found}")
    step_us: float = found["step_ns"] / 1e3
    if step_us > STEP_US_MAX:
        raise BenchError(f"tick: a step takes {step_us:.1f} us of {STEP_US_MAX:.0f}")
    return step_us


def cost(program: Path, rounds: int, span_s: float) -> Iterator[Line]:
    """What a step costs, everything included."""
    ours: list[Timed[int]] = []
    theirs: list[Timed[int]] = []
    with tempfile.TemporaryDirectory(dir=MEMORY) as name, metrics_server() as url:
        folder = Path(name)
        host = Host(folder)
        latency = f'kind = "prometheus"\nurl = "{url}"\nmetric = "request_seconds"'
        config = configuration(folder, latency, 'kind = "proc-stat"', "requests_min = 10")
        began = time.monotonic()
        with governing(program, host, config) as status:
            last: dict[str, Any] = {}
            # The first seconds load the program and learn; they are not what a day costs.
            marks = [12.0 + span_s * number for number in range(rounds + 1)]
            for mark in marks:
                while (elapsed := time.monotonic() - began) < mark:
                    host.tick(elapsed)
                    time.sleep(0.05)
                now = status()
                if last:
                    steps = now["counts"]["windows"] - last["counts"]["windows"]
                    cpu_s = now["own"]["cpu_s"] - last["own"]["cpu_s"]
                    ours.append(Timed(steps, cpu_s, span_s))
                    theirs.append(peer(url, host, 40))
                last = status()
        if last["counts"]["source_errors"] or last["counts"]["windows_missing"] > rounds:
            raise BenchError(f"daemon: it did not govern: {last['counts']}")
    resident_mib = last["own"]["resident_bytes"] / 2**20
    if resident_mib > RESIDENT_MIB_MAX:
        raise BenchError(f"daemon: {resident_mib:.1f} MiB resident of {RESIDENT_MIB_MAX:.0f}")
    ours_rate = Rate.of(ours, lambda steps: steps)
    share = 2.0 / ours_rate.median
    yield Line(
        "daemon",
        "steps",
        "script in Python",
        Rate.of(theirs, lambda steps: steps),
        ours_rate,
        Goal("ours", STEPS_S_MIN, STEPS_S_HOPED),
        f"{CORES} cores, a metrics page of {PAGE_LINES} lines: {share:.3%} of a core at two steps "
        f"a second with its keeper, {resident_mib:.1f} MiB resident; law and bookkeeping take "
        f"{law_and_bookkeeping_us():.1f} us a step",
    )


CALM_WINDOWS = 60
"""Windows of the source, of 50 ms each, from the last step down to the burst."""

FEED = "import sys\nfor line in open(sys.argv[1]):\n    print(line, end='', flush=True)\n"


def reactions(program: Path, bursts: int, settings: str) -> list[Timed[int]]:
    """Seconds from the first late request to the first limit that is lifted, burst by burst.

    The source tells of windows of 50 ms; a late request counts from the beginning of its window.
    """
    found = []
    with tempfile.TemporaryDirectory(dir=MEMORY) as name:
        folder = Path(name)
        host = Host(folder)
        fifo = folder / "latency"
        os.mkfifo(fifo)
        command = json.dumps([sys.executable, "-c", FEED, str(fifo)])
        latency = f'kind = "exec"\ncommand = {command}\nuser = "{getpass.getuser()}"'
        config = configuration(folder, latency, 'kind = "proc-stat"', settings)
        began = time.monotonic()
        with governing(program, host, config), fifo.open("w", buffering=1) as feed:

            def window(latency_us: float) -> float:
                """Fifty milliseconds of requests; when they began."""
                start = time.monotonic()
                while time.monotonic() < start + 0.05:
                    time.sleep(0.002)
                host.tick(time.monotonic() - began)
                line = {"requests": 100, "latency_us_mean": latency_us}
                feed.write(json.dumps(line) + "\n")
                return start

            def khz() -> int:
                # The daemon empties the file and writes it: between the two it is neither.
                return int(host.limits[0].read_text() or KHZ_MIN)

            def slowed() -> bool:
                return khz() < KHZ_MAX

            for _ in range(bursts):
                deadline = time.monotonic() + 60.0
                while khz() > KHZ_MIN:
                    window(200.0)
                    if time.monotonic() > deadline:
                        raise BenchError("burst: the daemon never slowed down")
                # A burst on the heels of a step down is laid to that, and the step is not taken
                # again for a minute.
                for _ in range(CALM_WINDOWS):
                    window(200.0)
                first = window(800.0)
                late = threading.Thread(target=window, args=(800.0,))
                late.start()
                while slowed():
                    time.sleep(0.0005)
                    if time.monotonic() > first + 10.0:
                        raise BenchError("burst: the daemon did not react")
                    if not late.is_alive():
                        late = threading.Thread(target=window, args=(800.0,))
                        late.start()
                reaction_s = time.monotonic() - first
                late.join()
                found.append(Timed(1, reaction_s, reaction_s))
    return found


def burst(program: Path, bursts: int) -> Iterator[Line]:
    """How soon a burst is answered."""
    settings = "requests_min = 10, windows = 2"
    ours = reactions(program, bursts, settings)
    theirs = reactions(program, bursts, settings + ', burst_window = "500 ms"')
    worst_ms = max(one.wall_s for one in ours) * 1e3
    yield Line(
        "burst",
        "answers",
        "looks at its windows of 500 ms only",
        Rate.of(theirs, lambda one: one),
        Rate.of(ours, lambda one: one),
        Goal("ours", 1.0 / REACTION_S_MAX),
        f"from the first late request to full speed, windows of 50 ms: at worst {worst_ms:.0f} ms "
        f"of {bursts} bursts (of wall time)",
    )


def lines(rounds: int = 4, span_s: float = 8.0, bursts: int = 7) -> Iterator[Line]:
    """Run the benchmark. Raises BenchError."""
    program = binary()
    yield from cost(program, rounds, span_s)
    yield from burst(program, bursts)
