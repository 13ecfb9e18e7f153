"""Programs that run as the ranks of an MPI workload: one process each, on the clients' hosts.

They are started by `wattio.workloads.mpi_launch` with their task as JSON in the only argument, and
the first rank prints what all of them did as one line of JSON. They use nothing of wattio but this
package and the clock, except for `hpcio`, which puts the mini-app and the I/O middleware together.
"""

from __future__ import annotations

from pathlib import Path

REPORT = "wattio_ranks"
"""Key of the line of JSON that holds the report, with the version of its form."""

HPCIO_REPORT = "wattio_hpcio"
"""The same for the report of `hpcio`."""

TWIN_REPORT = "wattio_twin"
"""The same for what the mini-app's twins in C and Fortran print."""

HPCIO_REFUSED = "wattio_refused"
"""Key of the line that `hpcio` prints instead where it cannot begin: why."""

HPCIO_PROGRESS = "wattio_step"
"""What stands before the number of a step on a line of `hpcio` that tells how far it is."""

VERSION = 1

SECTOR_BYTES = 512
"""Unit of transfers: each sector of the data is marked by its place."""


def boot() -> str:
    """Which boot of which host this is."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
