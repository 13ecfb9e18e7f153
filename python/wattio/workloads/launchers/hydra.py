"""Hydra: the `mpiexec` of MPICH, and of those made from it (Intel MPI, MVAPICH)."""

from __future__ import annotations

import shlex
from pathlib import Path

from wattio.workloads.launchers import Job

NAME = "Hydra"
GET = "apt install mpich"
LIBRARIES = ("libmpi.so.12",)


def knows(version: str) -> bool:
    """`HYDRA build details:`, or Intel's name for it."""
    return "HYDRA" in version.upper() or "Intel(R) MPI" in version


def serves(libraries: str) -> bool:
    """Libraries of MPICH's ABI."""
    return "libmpich" in libraries or "libmpi.so.12" in libraries


def arguments(job: Job) -> list[str]:
    """None is bound to a core; it passes all variables on by itself."""
    found = ["-n", f"{job.ranks}", *job.unless_given("-bind-to", "none")]
    if job.hosts:
        found += ["-hosts", ",".join(f"{host}:{ranks}" for host, ranks in job.hosts.items())]
    return [*found, *job.given]


def environment(job: Job) -> dict[str, str]:
    """How hosts are reached, where that is not the usual way."""
    if not job.reach:
        return {}
    more = shlex.join(job.reach[1:])
    return {"HYDRA_LAUNCHER": job.reach[0], "HYDRA_LAUNCHER_EXTRA_ARGS": more}


def keeps_in(folder: Path) -> dict[str, str]:
    """None."""
    return {}
