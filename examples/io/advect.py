"""A field carried around a ring of ranks, one row each step, and written by wattio.

    mpirun -n 4 python -m mpi4py advect.py hpcio.toml 30 10

After `step` steps, row y of the global field is row y - step of the first one.
"""

import json
import sys
from pathlib import Path

import numpy as np
from mpi4py import MPI
from wattio import hpcio
from wattio.hpcio.session import Session

NY, NX = 37, 20


def simulate(session: Session, steps: int, every: int) -> None:
    """Carry this rank's rows on; the first row of `u` is the last one of the rank before."""
    comm = session.compute_comm  # From here on, this one instead of MPI.COMM_WORLD.
    rank, size = comm.Get_rank(), comm.Get_size()
    first, end = NY * rank // size, NY * (rank + 1) // size
    u = np.zeros((end - first + 1, NX))
    u[1:] = 0.5 * np.arange(first * NX, end * NX).reshape(-1, NX)
    for step in range(steps + 1):
        if step % every == 0:
            shape, whole, offset = (end - first, NX), (NY, NX), (first, 0)
            units = {"units": "m/s"}
            session.allocate("u", shape, "f8", whole, offset, units)[...] = u[1:]
            session.end_dump(step, {"time": 0.1 * step})
        comm.Sendrecv(u[-1], (rank + 1) % size, recvbuf=u[0], source=(rank - 1) % size)
        u[1:] = u[:-1].copy()


session = hpcio.start(MPI.COMM_WORLD, hpcio.Config.read(Path(sys.argv[1])))
if not session.is_writer:
    simulate(session, int(sys.argv[2]), int(sys.argv[3]))
account = session.close()
if MPI.COMM_WORLD.Get_rank() == 0:
    sys.stdout.write(json.dumps(account.as_json()) + "\n")
