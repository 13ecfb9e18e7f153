"""`wattiod` governs a real server under a real load: etcd, by the histogram of its fsyncs."""

from __future__ import annotations

import base64
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import threading
import tomllib
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from ports import free_port

from daemon.running import (
    ALL,
    BINARY,
    CPUSET,
    IDLE_SHARE,
    Idleness,
    Place,
    control_group,
    cpus,
    start,
)

pytestmark = [
    pytest.mark.system,
    pytest.mark.alone,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root may write control groups"),
    pytest.mark.skipif(not (CPUSET / "cpuset.cpus").exists(), reason="no cpuset, version 1"),
    pytest.mark.skipif(shutil.which("etcd") is None, reason="needs the package etcd-server"),
    pytest.mark.skipif(not BINARY.exists(), reason="make daemon builds it"),
]

# The server tells sums of seconds in full; what is lost is lost in differences of large sums.
ROUNDING = 1e-6
METRIC = "etcd_disk_wal_fsync_duration_seconds"


@dataclass
class Histogram:
    """What the server counted: fsyncs, the sum of their latencies, and how they spread."""

    requests: int
    latency_us_sum: float
    below: list[int]

    @classmethod
    def of_page(cls, page: str) -> Histogram:
        """Read the metrics page by rules of its own, not the daemon's."""
        count = re.search(rf"^{METRIC}_count (\S+)$", page, re.MULTILINE)
        total = re.search(rf"^{METRIC}_sum (\S+)$", page, re.MULTILINE)
        below = re.findall(rf"^{METRIC}_bucket{{.*}} (\S+)$", page, re.MULTILINE)
        assert count
        assert total
        return cls(int(count[1]), float(total[1]) * 1e6, [int(float(text)) for text in below])

    def spread(self) -> list[int]:
        """Fsyncs in each bucket."""
        return [upper - lower for lower, upper in itertools.pairwise([0, *self.below])]


@dataclass
class Etcd:
    """A server that runs in a control group."""

    url: str
    group: Path
    pid: int

    def histogram(self) -> Histogram:
        """What it counted until now."""
        with urllib.request.urlopen(f"{self.url}/metrics") as page:
            return Histogram.of_page(page.read().decode())

    def has_settled(self) -> bool:
        """Whether it has written the last thing that it writes by itself: its cluster's version."""
        with urllib.request.urlopen(f"{self.url}/version") as page:
            return bool(json.load(page)["etcdcluster"] != "not_decided")

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
                if server.has_settled():
                    ready.set()
            except OSError:
                continue
        yield server
        process.terminate()
        process.wait()


class Watch:
    """A second pair of eyes on the server's histogram, which looks often."""

    def __init__(self, etcd: Etcd) -> None:
        self._etcd, self._stop, self._seen = etcd, threading.Event(), [etcd.histogram()]
        self._thread = threading.Thread(target=self._look)

    def _look(self) -> None:
        while not self._stop.wait(0.01):
            self._seen.append(self._etcd.histogram())

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def latency_us_sum(self, requests: int) -> tuple[float, float]:
        """The least and the most that the sum can have been after so many fsyncs: it only grows."""
        least = max(seen.latency_us_sum for seen in self._seen if seen.requests <= requests)
        most = min(seen.latency_us_sum for seen in self._seen if seen.requests >= requests)
        return least, most


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


def test_what_is_proposed_for_it_can_be_had(tmp_path: Path, etcd: Etcd) -> None:
    proposed = tmp_path / "proposed.toml"
    subprocess.run([BINARY, "init", "--service", "etcd", "--out", proposed], check=True)
    config = tomllib.loads(proposed.read_text())
    assert config["latency"]["url"] == f"{etcd.url}/metrics"
    assert config["latency"]["metric"] == METRIC
    assert config["group"][0]["cgroup"] == f"/{etcd.group.name}"
    assert [knob["kind"] for knob in config["knob"]] == ["cpu.cpuset"]
    subprocess.run([BINARY, "doctor", proposed], check=True)


def test_every_thread_of_the_server_moves_and_moves_back(tmp_path: Path, etcd: Etcd) -> None:
    half = 'name = "fixed"\nsettings = { cores_share = 0.5 }'
    place = Place(tmp_path, configuration(etcd, half))
    with Load(etcd.url, 4), start("run", place) as daemon:
        place.wait_until(lambda status: status["counts"]["knob_writes"] > 0)
        assert all(len(mask) == len(ALL) // 2 for mask in etcd.allowed())
        assert daemon.send(signal.SIGTERM).end() == 0, daemon.log
        assert all(mask == ALL for mask in etcd.allowed())


def test_by_turns_with_full_speed_the_difference_is_told(tmp_path: Path, etcd: Etcd) -> None:
    half = 'name = "fixed"\nsettings = { cores_share = 0.5 }'
    place = Place(tmp_path, configuration(etcd, half))
    more = ("--alternate", "5 s", "--out", str(tmp_path / "results"))
    with Load(etcd.url, 2), start("run", place, *more) as daemon:
        watched = Idleness(ALL)
        found = place.wait_until(lambda status: status["alternation"]["pairs"] >= 2)["alternation"]
        idle_share = watched.least_share()
        assert daemon.send(signal.SIGTERM).end() == 0, daemon.log
        assert all(mask == ALL for mask in etcd.allowed())
    # No meter: half of the cores less is the power model's word, and called so.
    assert found["power_is_estimate"]
    assert found["power_w_saved"]["mean"] < found["power_w_full_speed"]
    # Where others keep the cores busy that were left there is nothing to save.
    assert found["power_w_saved"]["mean"] > 0 or idle_share < IDLE_SHARE
    assert found["latency_change"]["half_width"] > 0
    by_turns = [row["cores"] for row in place.windows() if row["forced"] is not None]
    governed = [row["cores"] for row in place.windows() if row["forced"] is None]
    assert by_turns.count([len(ALL)]) >= len(by_turns) - 5
    assert governed.count([len(ALL) // 2]) >= len(governed) - 5
    told = " ".join(daemon.log)
    assert "by alternation: " in told
    assert "estimate by the power model" in told


# An fsync's latency varies by itself: so much counts as stable here, and so little as a burst, that
# some windows keep the bound and others break it.
TREMBLING = """name = "pacer"
settings = { requests_min = 10, plf = 0.2, stable_threshold = 2, unstable_threshold = 9, \
burst_margin = 90, burst_utilisation = 1 }"""


def test_the_account_is_that_of_the_server_through_steps_of_the_load(
    tmp_path: Path, etcd: Etcd
) -> None:
    place = Place(tmp_path, configuration(etcd, TREMBLING))
    with start("run", place, "--out", str(tmp_path / "results")) as daemon:
        # Load comes once the daemon has looked, and ends before it looks last: all of it is seen.
        place.wait_for_windows(2)
        before = etcd.histogram()
        with Watch(etcd) as watch:
            with Load(etcd.url, 4) as load:
                for pause_s, windows in ((0.01, 20), (0.1, 30), (0.0, 50)):
                    load.pause_s = pause_s
                    place.wait_for_windows(windows)
            after = etcd.histogram()
            place.wait_for_windows(place.status()["counts"]["windows"] + 3)
        assert daemon.send(signal.SIGTERM).end() == 0, daemon.log
    counts, rows = place.summary()["counts"], place.windows()
    assert counts["knob_failures"] == counts["source_errors"] == 0
    assert cpus((etcd.group / "cpuset.cpus").read_text()) == ALL

    # Over the run nothing is lost and nothing is made up; the sums differ by rounding only.
    busy = [row for row in rows if row["requests"]]
    assert counts["requests"] == after.requests - before.requests
    assert counts["requests"] == sum(row["requests"] for row in busy)
    latency_us_sum = sum(row["latency_us_mean"] * row["requests"] for row in busy)
    assert latency_us_sum == pytest.approx(
        after.latency_us_sum - before.latency_us_sum, rel=ROUNDING
    )
    spread = [sum(buckets) for buckets in zip(*map(bucket_counts, busy), strict=True)]
    assert spread == [b - a for a, b in zip(before.spread(), after.spread(), strict=True)]

    check_windows(rows, counts, watch, before.requests)


def check_windows(
    rows: list[dict[str, Any]], counts: dict[str, Any], watch: Watch, requests: int
) -> None:
    """Hold each window, from so many fsyncs on, against what the looks around its ends allow.

    The server's sum at a window's end lies between those of the looks before and after it; so the
    window's mean lies between two bounds, and with it the count of broken windows and the loss.
    """
    bounded = []
    for earlier, row in itertools.pairwise(rows):
        if not row["requests"]:
            continue
        first = watch.latency_us_sum(requests)
        requests += row["requests"]
        last = watch.latency_us_sum(requests)
        least = (last[0] - first[1]) / row["requests"] * (1.0 - ROUNDING)
        most = (last[1] - first[0]) / row["requests"] * (1.0 + ROUNDING)
        assert least <= row["latency_us_mean"] <= most
        if earlier["state"] == "stable" and row["bound_us"]:
            bounded.append((least, most, row))
    assert counts["windows_bounded"] == len(bounded) > 0
    surely = sum(least > row["bound_us"] for least, _, row in bounded)
    perhaps = sum(most > row["bound_us"] for _, most, row in bounded)
    assert surely <= counts["violations"] <= perhaps
    baseline = sum(row["baseline_us"] * row["requests"] for *_, row in bounded)
    losses = [
        sum(window[at] * window[2]["requests"] for window in bounded) / baseline - 1.0
        for at in (0, 1)
    ]
    assert losses[0] <= counts["loss_mean"] <= losses[1]


def bucket_counts(row: dict[str, Any]) -> list[int]:
    """Requests in each bucket of a window."""
    return [count for _, count in row["histogram"]]
