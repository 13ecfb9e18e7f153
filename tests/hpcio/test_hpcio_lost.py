"""Dumps that are lost: their data go at once, and the notes say what happened."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from wattio.hpcio import dumps, notes, parts
from wattio.hpcio.account import DumpRecord
from wattio.hpcio.config import Config
from wattio.hpcio.core_writer import CoreWriter
from wattio.hpcio.dumps import Dumps
from wattio.hpcio.inspection import inspect
from wattio.hpcio.notes import Note

from hpcio.launching import launch
from hpcio.waiting import HANGS_S

STEP = 7
FOLDER = "dump-00000007.partial"
FULL = "no space left on device"

LEAVER = """
import sys
from pathlib import Path
from wattio.hpcio import parts
from wattio.hpcio.dumps import Dumps
from wattio.hpcio.notes import Note

output, process, count = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
store = Dumps(output, "dc:1", tuple(range(count)))
print("ready", flush=True)
sys.stdin.readline()
for step in range(int(sys.argv[4])):
    (store.begin(step) / parts.file_name(process)).write_bytes(bytes(1000))
    lost = step % count == process
    note = Note(process, (process,), error="full" if lost else None)
    assert store.leave(step, note) is None
"""


@pytest.fixture
def store(tmp_path: Path) -> Dumps:
    made = Dumps(tmp_path / "dumps", "dc:1", (0, 1, 2))
    made.prepare()
    return made


def write(store: Dumps, process: int) -> Note:
    """A process's part, and the note that it is going to leave."""
    (store.begin(STEP) / parts.file_name(process)).write_bytes(bytes(1000))
    return Note(process, (process,))


def data(store: Dumps) -> list[str]:
    return sorted(path.name for path in (store.output / FOLDER).glob("*.h5"))


def test_a_lost_dump_takes_no_room(store: Dumps) -> None:
    """One process has written its part before another fails, one writes it after."""
    first, last = write(store, 0), write(store, 2)
    assert store.leave(STEP, first) is None
    assert data(store) == ["part-000000.h5", "part-000002.h5"]
    assert store.leave(STEP, Note(1, (1,), error=FULL)) is None
    assert data(store) == ["part-000002.h5"], "it may still be written"
    assert store.leave(STEP, last) is None
    assert data(store) == []
    assert inspect(store.output)[0].problems == [FULL]
    assert len(list((store.output / FOLDER).iterdir())) == 3


def test_a_dropped_part_loses_the_others(store: Dumps) -> None:
    for note in (write(store, 0), Note(1, (1,), dropped=True), write(store, 2)):
        assert store.leave(STEP, note) is None
    assert data(store) == []
    assert inspect(store.output)[0].problems == ["ranks [1]: dropped, the buffer was full"]


@pytest.mark.parametrize("policy", ["drop_oldest", "block"])
@pytest.mark.parametrize(
    ("loss", "error"), [(Note(0, (0,), error=FULL), FULL), (Note(0, (0,), dropped=True), None)]
)
def test_what_another_has_lost_is_not_begun(
    store: Dumps, loss: Note, error: str | None, policy: str
) -> None:
    """By an error: it once was a drop here, as if this writer's buffer had been full."""
    assert store.leave(STEP, loss) is None
    writer = object.__new__(CoreWriter)
    writer.rank, writer.dumps = 1, store
    writer.config = Config.model_validate({"when_full": policy})
    record = DumpRecord(STEP)
    writer.write_dump(record, (1,), [])
    begun = policy == "block"
    assert (record.files, record.dropped) == (begun, loss.dropped and not begun)
    assert record.error == (None if begun else error)
    left, _ = notes.read(store.output / FOLDER)
    assert [note.whole for note in left] == [False, begun]
    assert data(store) == []
    if error is not None:
        assert inspect(store.output)[0].problems[0] == error


def test_a_note_without_room_is_an_error_for_others(store: Dumps) -> None:
    path = store.begin(STEP) / "part-000000.json"
    path.touch()
    loss = store.loss(STEP)
    assert loss is not None
    assert (loss.error, loss.dropped) == (f"{path}: there was no room for this note", False)


def test_other_dumps_keep_theirs(store: Dumps) -> None:
    assert store.leave(STEP, write(store, 0)) is None
    store.lose(STEP + 1, Note(1, (1,), error=FULL))
    assert data(store) == ["part-000000.h5"]


@pytest.fixture
def no_room(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Files of these names find no room, as long as any data are there."""
    names: list[str] = []
    put = parts.put_json

    def without_room(path: Path, content: dict[str, Any], *, sync: bool) -> None:
        if path.name in names and list(path.parent.glob("*.h5")):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        put(path, content, sync=sync)

    monkeypatch.setattr(parts, "put_json", without_room)
    yield names
    assert names


@pytest.mark.parametrize("name", ["part-000002.json", "manifest.json"])
def test_where_there_is_no_room_for_a_note_data_give_way(
    store: Dumps, no_room: list[str], name: str
) -> None:
    no_room.append(name)
    written = [write(store, process) for process in (0, 1, 2)]
    assert [store.leave(STEP, note) for note in written[:2]] == [None, None]
    told = store.leave(STEP, written[2])
    assert told is not None
    assert "the disk is full" in told
    assert data(store) == []
    assert inspect(store.output)[0].problems == [told]


def test_an_empty_note_tells_that_a_dump_is_lost(
    store: Dumps, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where there is no room for any data at all."""

    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as full:
        full.setattr(parts, "put_json", fail)
        told = store.leave(STEP, write(store, 1))
    assert told is not None
    assert "the disk is full" in told
    assert data(store) == []
    assert store.loss(STEP)
    assert store.leave(STEP, write(store, 0)) is None
    assert data(store) == []
    problems = inspect(store.output)[0].problems
    assert problems[0] == "part-000001.json: is no whole note"
    assert problems[1].startswith("ranks [1, 2]: no whole note: ")


def test_a_failed_note_leaves_no_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="Input/output"):
        parts.put_json(tmp_path / "part-000000.json", {}, sync=True)
    assert list(tmp_path.iterdir()) == []


def test_processes_side_by_side_leave_no_data_of_lost_dumps(tmp_path: Path) -> None:
    """Each of three processes loses every third dump, while the others write it."""
    count, steps = 3, 150
    Dumps(tmp_path, "dc:1", tuple(range(count))).prepare()
    line = [sys.executable, "-c", LEAVER, str(tmp_path)]
    writers = [
        subprocess.Popen(
            [*line, str(process), str(count), str(steps)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for process in range(count)
    ]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"ready\n"
    for writer in writers:
        writer.communicate(b"go\n", timeout=HANGS_S)
    assert [writer.returncode for writer in writers] == [0] * count
    assert len(dumps.find(tmp_path, partial=True)) == steps
    assert list(tmp_path.glob("*/*.h5")) == []
    for folder in tmp_path.iterdir():
        assert len(list(folder.glob("part-*.json"))) == count


@pytest.mark.parametrize("approach", ["tp", "dc:1"])
def test_ranks_that_wrote_their_part_remove_it(tmp_path: Path, approach: str) -> None:
    """One writer of two meets a limit on the size of files."""
    from wattio.hpcio import parse_approach

    output = tmp_path / "dumps"
    ranks, limited = (2, 1) if approach == "tp" else (4, 3)
    config = {"output": str(output), **parse_approach(approach), "ranks_per_node": ranks // 2}
    task = {"config": config, "steps": [0], "limit": 2048, "limited": limited}
    done = launch(ranks, task)
    assert done.returncode != 0
    found = inspect(output)[0]
    assert not found.whole
    assert len(found.problems) == 1
    assert "the disk is full or a limit is reached" in found.problems[0]
    assert list(output.glob("*/*.h5")) == []
    left, _ = notes.read(found.path)
    assert sorted(note.whole for note in left) == [False, True]


def test_a_folder_that_no_file_can_have_is_refused() -> None:
    from wattio.errors import InputError

    with pytest.raises(InputError, match="cannot be used"):
        Dumps(Path("a\0b"), "tp", (0,)).prepare()
