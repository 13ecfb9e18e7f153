"""Which launcher starts ranks: the one that belongs to the MPI that the program was built with.

A launcher of another MPI would start every rank as the only one of a job of its own.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from wattio.workloads.launchers import Launcher, hydra, openmpi, slurm, standard

ANY = "mpirun"
"""As a launcher's name: whichever serves."""

KNOWN: Sequence[Launcher] = (openmpi, hydra, slurm, standard)

_NAMES = (ANY, "mpiexec", "mpirun.openmpi", "mpiexec.hydra", "mpirun.mpich", "srun")


@dataclass(frozen=True)
class Found:
    """A launcher on this machine."""

    path: str
    version: str | None
    kind: Launcher


@cache
def at(path: str) -> Found:
    """What a launcher is, by what it says of its version."""
    said = [line.strip() for line in _said(path, "--version").split("\n") if line.strip()]
    # Hydra's first line is a heading.
    shown = said[:2] if said and said[0].endswith(":") else said[:1]
    version = " ".join(" ".join(shown).split()) or None
    kind = next(kind for kind in KNOWN if kind.knows(version or ""))
    return Found(path, version, kind)


def named(name: str, libraries: str = "") -> Found | None:
    """The launcher of a name; of any name, the first on PATH that serves programs with these."""
    if name != ANY:
        path = shutil.which(name)
        return None if path is None else at(path)
    every = list(on_path())
    fitting = (one for one in every if not libraries or one.kind.serves(libraries))
    return next(fitting, every[0] if every else None)


def on_path() -> Iterator[Found]:
    """The launchers on PATH, under the names that they are known by."""
    for name in _NAMES:
        if (path := shutil.which(name)) is not None:
            yield at(path)


def libraries(program: str) -> str:
    """What the loader says that a program loads; nothing where it cannot say."""
    path, ldd = shutil.which(program), shutil.which("ldd")
    return _said(ldd, path) if path is not None and ldd is not None else ""


def _said(*arguments: str) -> str:
    """What a program prints; nothing where it does not."""
    try:
        done = subprocess.run(
            arguments, stdin=subprocess.DEVNULL, capture_output=True, timeout=10, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode(errors="replace")


def library_of(found: Found) -> str | None:
    """Where mpi4py is to look for the MPI library of a launcher: places with colons in between."""
    prefix = Path(found.path).resolve().parent.parent
    names = found.kind.LIBRARIES
    places = [prefix / folder / name for folder in ("lib", "lib64") for name in names]
    return ":".join([*(str(place) for place in places if place.is_file()), *names]) or None
