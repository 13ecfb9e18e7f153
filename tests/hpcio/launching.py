"""Starting MPI programs of tests: few ranks on this machine, more than it has cores."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from wattio.workloads import mpi_launch
from wattio.workloads.launchers import Job, openmpi

from hpcio.waiting import HANGS_S, until

PROGRAM = Path(__file__).with_name("dumping_program.py")

# Removed when the tests have ended.
_FOLDERS = tempfile.TemporaryDirectory(prefix="wattio-mpi-", ignore_cleanup_errors=True)


def environment() -> dict[str, str]:
    """What a launcher needs on one small machine, as any user; another one's is another.

    Each has a folder of its own, as tests kill many.
    """
    return {
        **os.environ,
        "PYTHONPATH": str(PROGRAM.parents[1]),
        **openmpi.environment(Job(1, Path(), yields=True, as_root=True)),
        **openmpi.keeps_in(Path(tempfile.mkdtemp(dir=_FOLDERS.name))),
    }


def path_without(folder: Path, *words: str) -> str:
    """A PATH that has all programs of this one's but those whose names have one of the words."""
    folder.mkdir()
    for place in os.environ["PATH"].split(os.pathsep):
        for program in Path(place).glob("*"):
            own = folder / program.name
            if not any(word in program.name for word in words) and not own.is_symlink():
                own.symlink_to(program)
    return str(folder)


def command(ranks: int, task: dict[str, Any], program: Path = PROGRAM) -> list[str]:
    """The launcher's command line for so many ranks of a program with a task."""
    return line(ranks, str(program), json.dumps(task))


def line(ranks: int, *words: str) -> list[str]:
    """The launcher's command line for so many ranks of a program of Python."""
    launcher = mpi_launch.launcher(mpi_launch.RankOptions())
    assert launcher is not None
    start = [launcher.path, "-np", str(ranks), "--oversubscribe", "--bind-to", "none"]
    return [*start, sys.executable, "-m", "mpi4py", *words]


def launch(
    ranks: int, task: dict[str, Any], program: Path = PROGRAM
) -> subprocess.CompletedProcess[str]:
    """Run a program on so many ranks; TimeoutExpired where it hangs."""
    return run(command(ranks, task, program))


def run(line: list[str]) -> subprocess.CompletedProcess[str]:
    """Run a launcher's command line; TimeoutExpired where it hangs."""
    return subprocess.run(
        line,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=HANGS_S,
        check=False,
    )


def comes(job: subprocess.Popen[str], condition: Callable[[], bool]) -> None:
    """Wait for what the ranks of a job do; its errors are those of the test if it ends before."""
    until(lambda: condition() or job.poll() is not None)
    assert condition(), f"ended with {job.returncode}: {job.communicate()[1]}"


def account(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """The account that the first rank prints."""
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found
