"""Slurm's `srun`; which of the MPIs it starts is said by the site, or by `--mpi` among the options.

Hosts are told in a file, one line for each rank, by the distribution "arbitrary": Slurm would sort
them otherwise.
"""

from __future__ import annotations

from pathlib import Path

from wattio.workloads.launchers import Job

NAME = "srun"
GET = "it belongs to Slurm"
LIBRARIES: tuple[str, ...] = ()

HOSTS = "hosts.txt"


def knows(version: str) -> bool:
    """`slurm 22.05.8`, on Debian `slurm-wlm 22.05.8`."""
    return version.startswith("slurm")


def serves(libraries: str) -> bool:
    """Every MPI that it is set up for: it cannot be told from here."""
    return "libmpi" in libraries


def arguments(job: Job) -> list[str]:
    """More ranks than cores are let be, none is bound to a core, and one that fails ends all."""
    found = [f"--ntasks={job.ranks}", *job.unless_given("--overcommit")]
    found += [*job.unless_given("--cpu-bind=none"), *job.unless_given("--kill-on-bad-exit=1")]
    if job.hosts:
        found += [f"--nodes={len(job.hosts)}", "--distribution=arbitrary"]
    else:
        found += ["--nodes=1", f"--nodelist={job.here}"]
    return [*found, *job.given]


def environment(job: Job) -> dict[str, str]:
    """The file of hosts, which is written here."""
    if not job.hosts:
        return {}
    file = (job.folder / HOSTS).absolute()
    lines = [f"{host}\n" for host, ranks in job.hosts.items() for _ in range(ranks)]
    file.write_text("".join(lines), encoding="utf-8")
    return {"SLURM_HOSTFILE": str(file)}


def keeps_in(folder: Path) -> dict[str, str]:
    """None."""
    return {}
