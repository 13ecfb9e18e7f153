"""Dumps of which nobody says that they are whole, and jobs that share an output folder."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from wattio.errors import InputError
from wattio.hpcio import blocks, parts
from wattio.hpcio.assembly import fields
from wattio.hpcio.config import Config
from wattio.hpcio.dumps import Dumps
from wattio.hpcio.inspection import inspect
from wattio.hpcio.notes import Note
from wattio.hpcio.output_lock import NAME, Lock

from hpcio.dumping_program import field
from hpcio.launching import account, launch
from hpcio.waiting import HANGS_S

PROGRAM = Path(__file__).with_name("unseen_program.py")
STEP = 7

HOLDER = """
import sys
from pathlib import Path
from wattio.hpcio.output_lock import Lock

lock = Lock(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.readline()
lock.close()
"""


@pytest.fixture
def store(tmp_path: Path) -> Dumps:
    """Two writers have left their notes of a dump, and neither saw the other's."""
    made = Dumps(tmp_path / "dumps", "dc:1", (0, 1))
    made.prepare()
    for process in made.ranks:
        data = np.arange(2.0)
        block = blocks.make("u", process, data.shape, "f8", (4,), (2 * process,))
        folder = made.begin(STEP)
        facts = parts.write(
            folder / parts.file_name(process), STEP, process, [(block, data)], Config()
        )
        Note(process, (process,), facts).put(folder, made.ranks, sync=False)
    return made


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that has locked the folder."""
    line = [sys.executable, "-c", HOLDER, str(tmp_path / "dumps")]
    with subprocess.Popen(
        line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_a_second_look_publishes_what_all_have_written(store: Dumps) -> None:
    """Also where a process that was about to has not come to its end."""
    (store.output / "dump-00000007.partial" / "publishing").touch()
    assert store.look_again(STEP) is None
    assert store.published == {STEP}
    (dump,) = inspect(store.output)
    assert (dump.whole, dump.problems) == (True, [])
    assert sorted(path.name for path in dump.path.iterdir()) == [
        "manifest.json",
        "part-000000.h5",
        "part-000001.h5",
    ]
    assert store.look_again(STEP) is None


def test_a_second_look_tells_what_is_missing(store: Dumps) -> None:
    folder = store.output / "dump-00000007.partial"
    (folder / "part-000001.h5").unlink()
    assert store.look_again(STEP) == f"{folder / 'part-000001.h5'}: No such file or directory"
    (folder / "part-000001.json").unlink()
    told = store.look_again(STEP)
    assert told is not None
    assert told.startswith(f"{folder}: ranks [1] have left no note there")
    store.lose(STEP, Note(1, (1,), error="full"))
    assert store.look_again(STEP) == "full"
    assert not inspect(store.output)[0].whole


def test_a_part_that_has_gone_is_not_published(store: Dumps) -> None:
    """As where another job has cleared the folder between a part and its note."""
    path = store.output / "dump-00000007.partial" / "part-000000.h5"
    content = path.read_bytes()
    path.unlink()
    assert store.leave(STEP, Note(0, (0,))) is None
    assert not store.published
    path.write_bytes(content)
    assert store.look_again(STEP) is None
    assert store.published == {STEP}


def test_notes_that_nobody_saw_are_seen_at_the_end(tmp_path: Path) -> None:
    config = {"output": str(tmp_path / "dumps"), "approach": "dc", "ranks_per_node": 2}
    task = {"config": config, "steps": [0, 1], "how": "blind"}
    told = account(launch(4, task, PROGRAM))
    assert told["errors"] == {}
    assert [(dump.step, dump.whole, dump.problems) for dump in inspect(tmp_path / "dumps")] == [
        (0, True, []),
        (1, True, []),
    ]
    assert np.array_equal(fields(tmp_path / "dumps", 1)["theta"], field(1))


def test_what_somebody_has_removed_is_an_error(tmp_path: Path) -> None:
    output = tmp_path / "dumps"
    config = {"output": str(output), "approach": "dc", "ranks_per_node": 2}
    task = {"config": config, "steps": [0], "how": "cleared", "clearing": 3, "other": 1}
    done = launch(4, task, PROGRAM)
    assert done.returncode != 0
    error = f"{output / 'dump-00000000.partial'}: ranks [0] have left no note there"
    assert f"DumpFailed: dump of step 0: {error}" in done.stderr
    told = account(launch(4, {**task, "going": True}, PROGRAM))
    assert list(told["errors"]) == ["0"]
    assert told["errors"]["0"][0].startswith(error)
    assert told["files"] == 0


def test_a_folder_is_of_one_job(holder: subprocess.Popen[str], tmp_path: Path) -> None:
    """What the other one is writing stays, and can be looked at."""
    output = tmp_path / "dumps"
    store = Dumps(output, "tp", (0,))
    store.lose(STEP, Note(0, (0,), error="full"))
    told = launch(2, {"config": {"output": str(output)}, "steps": [0]})
    assert told.returncode != 0
    assert f"output {output}: another job writes there (process {holder.pid} on " in told.stderr
    assert [dump.problems for dump in inspect(output)] == [["full"]]
    holder.communicate("done\n", timeout=HANGS_S)
    assert account(launch(2, {"config": {"output": str(output)}, "steps": [0]}))["errors"] == {}
    assert [path.name for path in output.iterdir()] == ["dump-00000000"]


def test_a_process_that_is_killed_lets_go(holder: subprocess.Popen[str], tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"process {holder.pid} "):
        Lock(tmp_path / "dumps")
    holder.kill()
    holder.wait(HANGS_S)
    lock = Lock(tmp_path / "dumps")
    assert (tmp_path / "dumps" / NAME).read_text().startswith(f"process {os.getpid()} on ")
    lock.close()
    lock.close()
    assert not list((tmp_path / "dumps").iterdir())


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOSYS])
def test_without_locks_a_job_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def fail(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "lockf", fail)
    locks = [Lock(tmp_path), Lock(tmp_path)]
    for lock in locks:
        lock.close()
    assert not list(tmp_path.iterdir())


def test_a_lock_that_its_holder_removes_is_taken_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the opening of the file and its locking."""
    lockf = fcntl.lockf

    def late(file: int, how: int) -> None:
        monkeypatch.setattr(fcntl, "lockf", lockf)
        (tmp_path / NAME).unlink()
        lockf(file, how)

    monkeypatch.setattr(fcntl, "lockf", late)
    lock = Lock(tmp_path)
    assert (tmp_path / NAME).exists()
    line = [sys.executable, "-c", HOLDER, str(tmp_path)]
    other = subprocess.run(line, capture_output=True, text=True, timeout=HANGS_S, check=False)
    assert "another job writes there" in other.stderr
    lock.close()


def test_a_folder_that_cannot_be_is_no_matter_of_locks(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", Path("a\0b")):
        Lock(path).close()


def test_sessions_of_one_program_share_a_folder(tmp_path: Path) -> None:
    """One after the other, also after one that has not been closed."""
    output = tmp_path / "dumps"
    done = launch(2, {"config": {"output": str(output)}, "how": "shared"}, PROGRAM)
    assert done.returncode == 0, done.stderr
    assert [dump.step for dump in inspect(output) if dump.whole] == [0, 1, 2]
    assert not (output / NAME).exists()
