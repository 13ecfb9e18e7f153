"""`wattio calibrate target` with a server that was built, small: what comes out, what is left."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from places import ROOT
from wattio import _core
from wattio.calibration.target import points
from wattio.calibration.target.points import READ, Point
from wattio.systems import servers

SERVER = next(
    (
        path
        for kind in ("release", "debug")
        if (path := ROOT / "target" / kind / "wattio-target").is_file()
    ),
    None,
)
pytestmark = [
    pytest.mark.system,
    pytest.mark.timeout(300),
    pytest.mark.skipif(SERVER is None, reason="wattio-target is not built"),
    pytest.mark.skipif(shutil.which("fio") is None, reason="fio is not installed"),
]


def command(out: Path, *words: str) -> list[str]:
    sizes = ("--size", "32 MiB", "--cache", "64 MiB", "--measure", "0.2 s", "--repeat", "1")
    call = (sys.executable, "-m", "wattio.cli", "calibrate", "target", "--out", str(out))
    return [*call, "--server-bin", str(SERVER), *sizes, *words]


def demand_us(points: Sequence[Point], size_bytes: int) -> float:
    """What a read takes, over all loads of one size."""
    reads = [one for one in points if (one.kind, one.size_bytes) == (READ, size_bytes)]
    return 1e6 * sum(one.reactors_s for one in reads) / sum(one.requests for one in reads)


def test_a_target_is_measured_and_simulated(tmp_path: Path) -> None:
    """Nothing is asked of the numbers of a busy machine but their order."""
    out = tmp_path / "server.toml"
    words = ("--compare", "--reactors", "2", "--governed", "5 s", "--json")
    ended = subprocess.run(command(out, *words), capture_output=True, text=True, check=False)
    # 1 where a prediction was off, which so short a run cannot rule out.
    assert ended.returncode in (0, 1), ended.stderr
    told = json.loads(ended.stdout)
    server = json.loads(_core.check_server(out.read_text()))
    assert [group["name"] for group in server["group"]] == ["reactors"]
    # On a host that is never quiet, some may tell nothing.
    assert 5 <= len(told["comparison"]) <= 10
    assert all(one["busy"] > 0 and one["busy_predicted"] > 0 for one in told["comparison"])
    laws = [one["policy"] for one in told["governed"]]
    assert laws == ["native", "native", "pacer", "pacer", "foresight", "foresight"]
    for one in told["governed"]:
        assert 0 < one["busy"] <= one["reactors_on"] * 1.2
        assert 1 <= one["reactors_on"] <= 2.01
        assert 1 <= one["reactors_on_predicted"] <= 2
    assert sum(told["waking"].values()) > 0
    assert told["demands"]["durable"]["us"] > 0
    found = points.load(tmp_path / "server.data" / "points.csv")
    assert sum(one.tells and not one.held_out for one in found) == len(told["residuals"])
    # Reading 16 times as much takes longer: all loads together, as one alone may tell nothing.
    assert demand_us(found, 65536) > demand_us(found, 4096) > 0
    assert sorted(path.name for path in (tmp_path / "server.data").iterdir()) == [
        "points.csv",
        "target.json",
    ]
    assert servers.running({"wattio-target"}, tmp_path) == []


def test_ctrl_c_leaves_no_server_and_tells_of_the_points(tmp_path: Path) -> None:
    out = tmp_path / "server.toml"
    with subprocess.Popen(
        command(out), stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith("[2/"):
                break
        os.kill(process.pid, signal.SIGINT)
        said = process.stderr.read()
        assert process.wait(60) == 130
    assert "for --from" in said
    assert not (tmp_path / "server.data" / "run").exists()
    assert points.load(tmp_path / "server.data" / "points.csv")
    assert servers.running({"wattio-target"}, tmp_path) == []
    assert not out.exists()
