"""Output of parallel simulations by time partitioning, dedicated cores or dedicated nodes.

    session = hpcio.start(MPI.COMM_WORLD, hpcio.Config.read(Path("hpcio.toml")))
    if not session.is_writer:
        for step in range(steps):
            ...
            field = session.allocate("pressure", (nz, ny, nx), "f4")
            field[...] = pressure
            session.end_dump(step)
    account = session.close()

The program is the same for all three approaches. Start it with `python -m mpi4py program.py`, which
ends all ranks when one fails. It needs the extra `hpc` (mpi4py, h5py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wattio.errors import DumpFailed, HostError, needed
from wattio.hpcio.account import Account, DumpRecord, RankAccount
from wattio.hpcio.config import Config, parse_approach

if TYPE_CHECKING:
    from mpi4py import MPI

    from wattio.hpcio.session import Session

__all__ = [
    "Account",
    "Config",
    "DumpFailed",
    "DumpRecord",
    "RankAccount",
    "parse_approach",
    "start",
]


def start(comm: MPI.Intracomm, config: Config) -> Session:
    """Start the middleware on all ranks of a communicator; see `wattio.hpcio.session.start`.

    Raises HostError where mpi4py or h5py is missing, and InputError.
    """
    require("mpi4py", "h5py")
    from wattio.hpcio import session

    return session.start(comm, config)


def require(*modules: str) -> None:
    """Raise HostError for the first module of the extra `hpc` that is missing."""
    from importlib import util

    for module in modules:
        if util.find_spec(module) is None:
            raise HostError(f"{module} is not installed: {needed('hpc')}")
