"""Debian's own Python with parallel HDF5, and wattio in it: the h5py of PyPI is serial."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pydantic

from hpcio.launching import environment
from hpcio.waiting import HANGS_S

PYTHON = Path("/usr/bin/python3")
MPIRUN = Path("/usr/bin/mpirun.openmpi")
PACKAGES = "apt install python3-h5py-mpi python3-mpi4py openmpi-bin"
_ROOT = Path(__file__).parents[2]
_NEEDED = (
    "annotated_types",
    "pydantic",
    "pydantic_core",
    "typing_extensions.py",
    "typing_inspection",
)
_PROBE = """
import sys
from mpi4py import MPI
import h5py
print(*sys.version_info[:2], h5py.get_config().mpi)
"""


@functools.cache
def missing() -> str | None:
    """What is missing here, in words; None where nothing is."""
    if not PYTHON.exists() or not MPIRUN.exists():
        return f"Debian's Python or Open MPI is not installed: {PACKAGES}"
    done = run([str(PYTHON), "-c", _PROBE], 1, {})
    major, minor = sys.version_info[:2]
    if done.returncode != 0 or done.stdout.split()[2:] != ["True"]:
        return f"Debian's h5py with parallel HDF5 is not installed: {PACKAGES}"
    if done.stdout.split()[:2] != [str(major), str(minor)]:
        return f"Debian's Python is another one than that of these tests, {major}.{minor}"
    return None


def launch(
    ranks: int, program: Path, task: dict[str, Any], place: Path
) -> subprocess.CompletedProcess[str]:
    """Run a program on so many ranks; modules are lent to it in `place`."""
    line = [str(PYTHON), "-m", "mpi4py", str(program), json.dumps(task)]
    return run(line, ranks, lent(place))


def lent(place: Path) -> dict[str, str]:
    """Lend wattio and what it needs in `place`: what the environment has to say of it."""
    modules = place / "modules"
    if not modules.exists():
        modules.mkdir()
        (modules / "wattio").symlink_to(_ROOT / "python" / "wattio")
        (modules / "hpcio").symlink_to(_ROOT / "tests" / "hpcio")
        for name in _NEEDED:
            (modules / name).symlink_to(Path(pydantic.__file__).parents[1] / name)
    return {"PYTHONPATH": str(modules), "PYTHONDONTWRITEBYTECODE": "1"}


def run(line: list[str], ranks: int, more: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a command line on so many ranks; TimeoutExpired where it hangs."""
    return subprocess.run(
        [str(MPIRUN), "-np", str(ranks), "--oversubscribe", "--bind-to", "none", *line],
        env={**environment(), **more},
        capture_output=True,
        text=True,
        timeout=HANGS_S,
        check=False,
    )
