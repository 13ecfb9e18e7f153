"""Any other launcher, by what the MPI standard says of `mpiexec` (MPI 4.1, section 11.5).

It has no words for so many ranks on each of several hosts: these have to be among the study's
options then.
"""

from __future__ import annotations

from pathlib import Path

from wattio.errors import WorkloadFailed
from wattio.workloads.launchers import Job

NAME = "mpiexec"
GET = "apt install openmpi-bin"
LIBRARIES: tuple[str, ...] = ()


def knows(version: str) -> bool:
    """Whatever it says."""
    return True


def serves(libraries: str) -> bool:
    """It cannot be told: one that is known to serve is better."""
    return False


def arguments(job: Job) -> list[str]:
    """The number of ranks alone. Raises WorkloadFailed where nobody says on which hosts."""
    if job.hosts and not job.given:
        raise WorkloadFailed(
            "unknown launcher (known: those of Open MPI, MPICH and Slurm): its"
            f" launcher.options must say how {job.ranks} ranks get to {', '.join(job.hosts)}"
        )
    return ["-n", f"{job.ranks}", *job.given]


def environment(job: Job) -> dict[str, str]:
    """None."""
    return {}


def keeps_in(folder: Path) -> dict[str, str]:
    """None."""
    return {}
