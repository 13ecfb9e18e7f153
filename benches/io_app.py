"""An application with output, as `io_library.py` times it: it computes, and dumps, by one scheme.

    mpirun -n 2 python -m mpi4py io_app.py '{"scheme": "dc", "dumps": [[1, 200]], ...}'

The first computing rank prints the seconds from the first step to the end of the last file, one for
each size of dumps, of which each comes with its number. Nothing of wattio is imported where another
scheme writes: peers may have a Python of their own.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

VARIABLES = 4
PASSES, PASSES_PER_MIB = 500, 300
"""Over a part of the field between two dumps: a simulation's steps."""
PART = 1 << 15
"""Elements of that part, which stays in a core's own cache: how fast one passes over more
depends on where the kernel puts their pages, and so on who else asked for memory."""

Dump = Callable[[int, Any], None]


def compute(field: Any, passes: int) -> None:  # noqa: ANN401 (an array)
    """Work on the field: as much each time, however long that takes."""
    part = field[0][:PART]
    for _ in range(passes):
        part *= 1.0000001
        part += 1e-9
    field[1:] += 1.0


def aligned(elements: int) -> Any:  # noqa: ANN401 (an array)
    """Ones that begin with a page: where an array begins changes how fast it is worked on."""
    raw = np.ones(elements + 512)
    return raw[-(raw.ctypes.data // 8) % 512 :][:elements]


def timed(size_mib: int, dumps: int, dump: Dump, close: Callable[[], object]) -> float:
    """The application; its seconds."""
    each = (size_mib << 20) // VARIABLES // 8
    field = aligned(VARIABLES * each).reshape(VARIABLES, each)
    began_s = time.perf_counter()
    for step in range(dumps):
        compute(field, PASSES + PASSES_PER_MIB * size_mib)
        dump(step, field)
    close()
    return time.perf_counter() - began_s


def alone(size_mib: int, dumps: int, _: Path) -> float:
    """Without output."""
    return timed(size_mib, dumps, lambda *_: None, lambda: None)


def hpcio(size_mib: int, dumps: int, output: Path, approach: str) -> float:
    """By wattio; 0 on ranks that only write."""
    from mpi4py import MPI
    from wattio import hpcio

    given = {"approach": approach, "output": output, "buffer": f"{3 * size_mib} MiB"}
    config = hpcio.Config.model_validate({**given, "checksum": False, "fields": False})
    session = hpcio.start(MPI.COMM_WORLD, config)
    if session.is_writer:
        session.close()
        return 0.0

    def dump(step: int, field: Any) -> None:  # noqa: ANN401 (an array)
        for at, data in enumerate(field):
            np.copyto(session.allocate(f"v{at}", data.shape), data)
        session.end_dump(step)

    return timed(size_mib, dumps, dump, session.close)


def bp5(size_mib: int, dumps: int, output: Path) -> float:
    """By ADIOS2's BP5, which writes beside the program, and is told to take large pieces."""
    import adios2  # type: ignore[import-not-found]

    io = adios2.Adios().declare_io(f"bench{size_mib}")
    io.set_engine("BP5")
    chunk = str(max(size_mib, 16) << 20)
    given = {"AsyncWrite": "On", "BufferChunkSize": chunk, "InitialBufferSize": chunk}
    io.set_parameters({**given, "StatsLevel": "0"})
    each = (size_mib << 20) // VARIABLES // 8
    like = np.ones(each)
    names = [io.define_variable(f"v{at}", like, [each], [0], [each]) for at in range(VARIABLES)]
    engine = io.open(str(output), adios2.bindings.Mode.Write)

    def dump(_: int, field: Any) -> None:  # noqa: ANN401 (an array)
        engine.begin_step()
        for at, one in enumerate(names):
            engine.put(one, field[at], adios2.bindings.Mode.Deferred)
        engine.end_step()

    return timed(size_mib, dumps, dump, engine.close)


def h5py(size_mib: int, dumps: int, output: Path, *, parallel: bool = False) -> float:
    """A file of each process and dump; or one that is opened by all ranks, by parallel HDF5."""
    import h5py

    output.mkdir()
    how: dict[str, Any] = {}
    if parallel:
        from mpi4py import MPI

        how = {"driver": "mpio", "comm": MPI.COMM_WORLD}

    def dump(step: int, field: Any) -> None:  # noqa: ANN401 (an array)
        with h5py.File(output / f"dump-{step}.h5", "w", **how) as file:
            for at, data in enumerate(field):
                file.create_dataset(f"v{at}", data=data)

    return timed(size_mib, dumps, dump, lambda: None)


SCHEMES: dict[str, Callable[[int, int, Path], float]] = {
    "alone": alone,
    "dc": lambda size, dumps, output: hpcio(size, dumps, output, "dc"),
    "tp": lambda size, dumps, output: hpcio(size, dumps, output, "tp"),
    "bp5": bp5,
    "h5py": h5py,
    "phdf5": lambda size, dumps, output: h5py(size, dumps, output, parallel=True),
}


def main() -> None:
    """Run the task that is given as JSON."""
    task = json.loads(sys.argv[1])
    found = {}
    # The same order on all ranks.
    for size_mib, dumps in np.random.default_rng(task["seed"]).permutation(task["dumps"]).tolist():
        output = Path(task["output"]) / str(size_mib)
        found[size_mib] = SCHEMES[task["scheme"]](size_mib, dumps, output)
        if found[size_mib]:
            shutil.rmtree(output, ignore_errors=True)
    if all(found.values()):
        sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
