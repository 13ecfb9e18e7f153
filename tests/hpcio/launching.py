"""Starting MPI programs of tests: few ranks on this machine, more than it has cores."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from wattio.workloads import mpi_launch, mpirun

from hpcio.waiting import HANGS_S

PROGRAM = Path(__file__).with_name("dumping_program.py")


def environment() -> dict[str, str]:
    """What launchers need on one small machine, as any user."""
    return {
        **os.environ,
        "PYTHONPATH": str(PROGRAM.parents[1]),
        **mpirun._ENVIRONMENT,
        **mpi_launch._ENVIRONMENT,
        **mpi_launch._ONE_HOST,
        **mpi_launch._ROOT,
    }


def command(ranks: int, task: dict[str, Any], program: Path = PROGRAM) -> list[str]:
    """The launcher's command line for so many ranks of a program."""
    launcher = mpi_launch.launcher(mpi_launch.RankOptions())
    assert launcher is not None
    line = [launcher, "-np", str(ranks), "--oversubscribe", "--bind-to", "none", sys.executable]
    return [*line, "-m", "mpi4py", str(program), json.dumps(task)]


def launch(
    ranks: int, task: dict[str, Any], program: Path = PROGRAM
) -> subprocess.CompletedProcess[str]:
    """Run a program on so many ranks; TimeoutExpired where it hangs."""
    return run(command(ranks, task, program))


def run(line: list[str]) -> subprocess.CompletedProcess[str]:
    """Run a launcher's command line: once more where it ended before it had started a rank."""
    done = _run(line)
    return _run(line) if mpi_launch.says_not_started(done.stderr) else done


def _run(line: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        line,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=HANGS_S,
        check=False,
    )


def account(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """The account that the first rank prints."""
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found
