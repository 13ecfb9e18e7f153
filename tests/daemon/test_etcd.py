"""`wattiod` governs a real server under a real load: etcd, by the histogram of its fsyncs."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from daemon.running import ALL, BINARY, CPUSET, Place, control_group, cpus, start

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root may write control groups"),
    pytest.mark.skipif(not (CPUSET / "cpuset.cpus").exists(), reason="no cpuset, version 1"),
    pytest.mark.skipif(shutil.which("etcd") is None, reason="needs the package etcd-server"),
    pytest.mark.skipif(not BINARY.exists(), reason="cargo build -p wattiod makes the daemon"),
]

METRIC = "etcd_disk_wal_fsync_duration_seconds"


def free_port() -> int:
    """A port that nobody listens on."""
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@dataclass
class Etcd:
    """A server that runs in a control group."""

    url: str
    group: Path
    pid: int

    def counted(self) -> int:
        """How many fsyncs it counted."""
        page = urllib.request.urlopen(f"{self.url}/metrics").read().decode()
        found = re.search(rf"^{METRIC}_count (\d+)$", page, re.MULTILINE)
        return int(found[1]) if found else 0

    def allowed(self) -> list[set[int]]:
        """The processors that each thread may use."""
        tasks = Path(f"/proc/{self.pid}/task")
        masks = [(task / "status").read_text() for task in tasks.iterdir()]
        found = [re.search(r"Cpus_allowed_list:\s*(\S+)", mask) for mask in masks]
        allowed = [cpus(mask[1]) for mask in found if mask]
        assert len(allowed) == len(masks) > 1
        return allowed


@pytest.fixture
def etcd(tmp_path: Path) -> Iterator[Etcd]:
    """A fresh etcd."""
    url, peer = f"http://127.0.0.1:{free_port()}", f"http://127.0.0.1:{free_port()}"
    command = ["etcd", "--data-dir", str(tmp_path / "etcd"), "--log-level", "error"]
    command += ["--listen-client-urls", url, "--advertise-client-urls", url]
    command += ["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer]
    command += ["--initial-cluster", f"default={peer}"]
    with control_group(f"wattio-etcd-{os.getpid()}") as group:
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        (group / "cgroup.procs").write_text(str(process.pid))
        server = Etcd(url, group, process.pid)
        ready = threading.Event()
        while not ready.wait(0.05):
            assert process.poll() is None, "etcd ended"
            try:
                server.counted()
                ready.set()
            except OSError:
                continue
        yield server
        process.terminate()
        process.wait()


class Load:
    """Clients that put keys, each as often a second as it is told."""

    def __init__(self, url: str, clients: int) -> None:
        self.pause_s = 0.01
        self._stop = threading.Event()
        self._url = f"{url}/v3/kv/put"
        self._threads = [threading.Thread(target=self._put) for _ in range(clients)]
        for thread in self._threads:
            thread.start()

    def _put(self) -> None:
        key = base64.b64encode(threading.current_thread().name.encode()).decode()
        body = json.dumps({"key": key, "value": key}).encode()
        while not self._stop.wait(self.pause_s):
            urllib.request.urlopen(self._url, body).read()

    def __enter__(self) -> Load:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()


def configuration(etcd: Etcd, policy: str) -> str:
    """Latency from etcd's own page, its control group as the knob."""
    return f"""
name = "etcd"
[policy]
{policy}
[latency]
kind = "prometheus"
url = "{etcd.url}/metrics"
metric = "{METRIC}"
[[group]]
name = "etcd"
cores = "{",".join(str(cpu) for cpu in sorted(ALL))}"
cgroup = "/{etcd.group.name}"
[[knob]]
kind = "cpu.cpuset"
[power]
model = "assumed"
"""


def test_every_thread_of_the_server_moves_and_moves_back(tmp_path: Path, etcd: Etcd) -> None:
    half = 'name = "fixed"\nsettings = { cores_share = 0.5 }'
    place = Place(tmp_path, configuration(etcd, half))
    with Load(etcd.url, 4), start("run", place) as daemon:
        place.wait_until(lambda status: status["counts"]["knob_writes"] > 0)
        assert all(len(mask) == len(ALL) // 2 for mask in etcd.allowed())
        assert daemon.send(signal.SIGTERM).end() == 0, daemon.log
        assert all(mask == ALL for mask in etcd.allowed())


def test_the_account_is_that_of_the_server_through_steps_of_the_load(
    tmp_path: Path, etcd: Etcd
) -> None:
    pacer = 'name = "pacer"\nsettings = { requests_min = 10 }'
    place = Place(tmp_path, configuration(etcd, pacer))
    before = etcd.counted()
    with (
        Load(etcd.url, 4) as load,
        start("run", place, "--out", str(tmp_path / "results")) as daemon,
    ):
        for pause_s, windows in ((0.01, 10), (0.1, 20), (0.0, 30)):
            load.pause_s = pause_s
            place.wait_for_windows(windows)
        assert daemon.send(signal.SIGTERM).end() == 0, daemon.log
    after = etcd.counted()
    counts, windows_kept = place.summary()["counts"], place.windows()
    assert counts["requests"] == sum(row["requests"] or 0 for row in windows_kept)
    assert 0 < counts["requests"] <= after - before
    # What came before the first and after the last look is not the daemon's; the rest is whole.
    assert counts["requests"] > 0.8 * (after - before)
    assert counts["knob_failures"] == counts["source_errors"] == 0
    for row in windows_kept:
        if row["histogram"]:
            assert sum(count for _, count in row["histogram"]) == row["requests"]
    assert cpus((etcd.group / "cpuset.cpus").read_text()) == ALL
