"""Simulated sweeps on a cluster of dask.distributed give what threads give."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from wattio import cli
from wattio.errors import InputError
from wattio.executors.cluster import ClusterExecutor
from wattio.kinds.simulation.folder import SimulationFolder

STUDY = """\
[study]
name = "cluster"
kind = "simulation"
seeds = [1, 2]

[[load]]
name = "steady"
server = "small"
pattern = "Rand_RW"
iops = 4000.0
warmup = "1 s"
duration = "3 s"

[[policy]]
name = "ondemand"
"""


def run(folder: Path, *options: str) -> SimulationFolder:
    path = folder / "study.toml"
    path.write_text(STUDY)
    words = ["run", str(path), "--results", str(folder / "results"), "--no-report", *options]
    done = subprocess.run(
        [sys.executable, "-m", "wattio.cli", *words, "--json"],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return SimulationFolder(Path(json.loads(done.stdout)["result"]))


@pytest.mark.slow
def test_a_cluster_gives_what_threads_give(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    threads = run(tmp_path / "a").iterations()
    cluster = run(tmp_path / "b", "--engine", "local", "--jobs", "2").iterations()
    assert len(cluster) == 4
    for one, other in zip(threads, cluster, strict=True):
        assert one.identity == other.identity
        assert {k: v for k, v in one.metrics.items() if k != "events_per_second"} == {
            k: v for k, v in other.metrics.items() if k != "events_per_second"
        }


def test_an_engine_is_a_word_or_an_address() -> None:
    with pytest.raises(InputError, match='must be "local" or a scheduler'):
        ClusterExecutor("scheduler", 1, lambda *_: None)


def test_a_measurement_takes_no_engine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "study.toml"
    path.write_text('[study]\nname = "x"\nkind = "measurement"\n')
    with pytest.raises(SystemExit) as ended:
        cli.main(["run", str(path), "--engine", "local"])
    assert ended.value.code == 2
    assert "--engine is for studies of kind simulation or fleet" in capsys.readouterr().err
