"""A simulation ahead of its writer, which is held in two dumps: what waits keeps its memory."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mpi4py import MPI
from numpy.typing import NDArray
from wattio import hpcio
from wattio.hpcio import Config, parts
from wattio.hpcio.blocks import Block

from hpcio.dumping_program import dump, whole
from hpcio.waiting import until

HELD = (1, 2)


def hold(folder: Path) -> None:
    """Hold the writer before it writes a dump, until the simulation lets it go on."""
    write = parts.write

    def held(
        path: Path,
        step: int,
        process: int,
        blocks: Sequence[tuple[Block, NDArray[Any]]],
        config: Config,
    ) -> list[dict[str, Any]]:
        if step in HELD:
            (folder / f"reached-{step}").touch()
            until((folder / f"opened-{step}").exists)
        return write(path, step, process, blocks, config)

    parts.write = held


def run(task: dict[str, Any]) -> None:
    config = Config.model_validate(task["config"])
    folder = config.output.parent
    hold(folder)
    session = hpcio.start(MPI.COMM_WORLD, config)
    if not session.is_writer:
        dump(session, 0)
        until(lambda: whole(task, 0))
        # In the memory of the first, then, since that is being written, in memory of its own.
        dump(session, 1)
        dump(session, 2)
        (folder / "opened-1").touch()
        until((folder / "reached-2").exists)
        # One finds the first's memory free again, the other none that is.
        dump(session, 3)
        dump(session, 4)
        (folder / "opened-2").touch()
    account = session.close()
    if MPI.COMM_WORLD.Get_rank() == 0:
        sys.stdout.write(json.dumps(account.as_json()))


if __name__ == "__main__":
    run(json.loads(sys.argv[1]))
