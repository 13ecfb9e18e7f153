"""Launchers where others were killed: what those leave behind keeps no test from starting."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from wattio.workloads import mpi_launch
from wattio.workloads.launchers import Job, openmpi

from hpcio.launching import comes, environment
from hpcio.waiting import HANGS_S

# What Open MPI's leaves of its number: the process keeps it when it becomes the launcher.
LEAVING = """
left="$1/ompi.$$"; shift
mkdir -m 700 "$left" && : >"$left/pmix.$(uname -n).tool"
exec "$@"
"""


def start(left_in: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    launcher = mpi_launch.launcher(mpi_launch.RankOptions())
    assert launcher is not None
    line = ["sh", "-c", LEAVING, "sh", str(left_in), launcher.path, "-np", "1", "true"]
    return subprocess.run(
        line, env=environment, capture_output=True, text=True, timeout=HANGS_S, check=False
    )


def test_a_launcher_starts_where_one_of_its_number_was_killed(tmp_path: Path) -> None:
    """One that was killed kept a later one of the same process number from starting."""
    shared = {
        **os.environ,
        **openmpi.environment(Job(1, tmp_path, as_root=True)),
        "TMPDIR": str(tmp_path),
    }
    refused = start(tmp_path, shared)
    assert refused.returncode != 0
    assert "PMIx server's listener thread failed to start" in refused.stderr
    assert not list(tmp_path.glob("ompi.*"))
    started = start(tmp_path, {**environment(), "TMPDIR": str(tmp_path)})
    assert started.returncode == 0, started.stderr


def test_a_job_that_ends_too_early_says_why() -> None:
    line = [sys.executable, "-c", "raise SystemExit('no rank')"]
    with (
        subprocess.Popen(line, stderr=subprocess.PIPE, text=True) as job,
        pytest.raises(AssertionError, match="no rank"),
    ):
        comes(job, lambda: False)
