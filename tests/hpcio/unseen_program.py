"""A simulation for tests of dumps that nobody publishes, and of sessions that share a folder."""

from __future__ import annotations

import json
import shutil
import sys
from typing import Any

from mpi4py import MPI
from wattio import hpcio
from wattio.hpcio import dumps, notes
from wattio.hpcio.dumps import Dumps
from wattio.hpcio.notes import Note

from hpcio import dumping_program, waiting

_LEAVE = Dumps.leave


def be_blind() -> None:
    """No process sees a note when it leaves its own, as on NFS that of another node."""

    def leave(self: Dumps, step: int, note: Note) -> str | None:
        read = notes.read
        notes.read = lambda folder: ([], set())
        try:
            return _LEAVE(self, step, note)
        finally:
            notes.read = read

    Dumps.leave = leave  # type: ignore[method-assign]


def clear(other: int) -> None:
    """Somebody removes a folder that is not whole when the other writer has left its note."""

    def leave(self: Dumps, step: int, note: Note) -> str | None:
        folder = self.output / (dumps.name(step) + dumps.PARTIAL)
        waiting.until((folder / Note(other, ()).path).exists)
        shutil.rmtree(folder)
        return _LEAVE(self, step, note)

    Dumps.leave = leave  # type: ignore[method-assign]


def share(task: dict[str, Any]) -> None:
    """Sessions of one program with one folder; the first but one is never closed."""
    config = hpcio.Config.model_validate(task["config"])
    for step in range(3):
        session = hpcio.start(MPI.COMM_WORLD, config)
        dumping_program.dump(session, step)
        if step != 1:
            session.close()


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    if given["how"] == "shared":
        share(given)
    else:
        if given["how"] == "blind":
            be_blind()
        elif MPI.COMM_WORLD.Get_rank() == given["clearing"]:
            clear(given["other"])
        dumping_program.run(given)
