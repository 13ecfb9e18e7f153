"""`wattio hpcio inspect` and `assemble`: what is damaged or missing is told."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest
from wattio import cli
from wattio.errors import InputError, ResultError
from wattio.hpcio import blocks, library
from wattio.hpcio.assembly import assemble, fields
from wattio.hpcio.inspection import inspect

from hpcio.made_dumps import Made

FIELD = np.arange(24.0).reshape(4, 6)


def leave(store: Made, step: int, process: int, rows: slice, at: int | None = None) -> None:
    """One writer's part: some rows of the field, and where it says that they lie."""
    data = FIELD[rows] + step
    offset = (rows.start if at is None else at, 0)
    block = blocks.make("u", process, data.shape, "f8", FIELD.shape, offset)
    store.part(step, process, (block, data))


@pytest.fixture
def store(tmp_path: Path) -> Made:
    """Two writers; step 1 is whole, step 2 lacks a writer, step 3 was dropped by one."""
    made = Made(tmp_path / "dumps", 2)
    for step in (1, 2, 3):
        leave(made, step, 0, slice(0, 1))
    assert not (made.output / "dump-00000001").exists()
    leave(made, 1, 1, slice(1, 4))
    made.note(3, 1, dropped=True)
    return made


def run(*words: str) -> int:
    with pytest.raises(SystemExit) as stop:
        cli.main(["hpcio", *words])
    assert isinstance(stop.value.code, int)
    return stop.value.code


@pytest.mark.parametrize("name", ["part-000000.h5", "fields.h5", "new.h5"])
def test_a_dump_is_not_assembled_into_itself(
    name: str, store: Made, capsys: pytest.CaptureFixture[str]
) -> None:
    """What the part had held was lost."""
    out = store.output / "dump-00000001" / name
    before = out.read_bytes() if out.exists() else None
    assert run("assemble", str(store.output), "1", "--out", str(out)) == 2
    told = f"--out: {out} is in the folder of a dump; name a file elsewhere"
    assert told in " ".join(capsys.readouterr().err.split())
    assert (out.read_bytes() if out.exists() else None) == before


@pytest.mark.parametrize("words", [("inspect", "."), ("assemble", ".", "1", "--out", "x.h5")])
def test_without_h5py_it_is_said_what_brings_it(
    words: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It was told as a fault of ours: ModuleNotFoundError."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "h5py", None)
    assert run(*words) == 2
    told = capsys.readouterr().err
    assert told.startswith("wattio: h5py is not installed: needs the extra hpc: ")
    # It was "uv sync", and uv is below .tools/ where the Makefile brought it.
    assert told.endswith("or make build in a source tree\n")
    assert told.count("\n") == 1
    assert library.hdf5() is None


def test_whole_and_not(store: Made, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("inspect", str(store.output), "--json") == 1
    told = json.loads(capsys.readouterr().out)["dumps"]
    assert [(dump["step"], dump["whole"], dump["checked"]) for dump in told] == [
        (1, True, 2),
        (2, False, 0),
        (3, False, 0),
    ]
    assert told[0]["problems"] == []
    assert told[1]["problems"] == [
        "ranks [1]: no complete note: the program ended before, is still writing, or there was no"
        " room for it"
    ]
    assert told[1]["files"] == 1
    assert told[2]["problems"] == ["ranks [1]: dropped, the buffer was full"]
    assert told[2]["files"] == 0
    assert sorted(path.name for path in (store.output / "dump-00000001").iterdir()) == [
        "manifest.json",
        "part-000000.h5",
        "part-000001.h5",
    ]
    for folder in store.output.glob("*.partial"):
        shutil.rmtree(folder)
    assert run("inspect", str(store.output)) == 0


def test_notes_that_had_no_room_are_told(store: Made) -> None:
    folder = store.output / "dump-00000002.partial"
    (folder / "part-000001.json").touch()
    silent = "the program ended before, is still writing, or there was no room for it"
    assert inspect(store.output)[1].problems == [
        "part-000001.json: is not a complete note",
        f"ranks [1]: no complete note: {silent}",
    ]
    for note in folder.glob("*.json"):
        note.unlink()
    assert inspect(store.output)[1].problems == [f"no part has a complete note: {silent}"]


def test_the_field_is_put_together(store: Made, tmp_path: Path) -> None:
    target = tmp_path / "whole.h5"
    assert run("assemble", str(store.output), "1", "--out", str(target)) == 0
    with h5py.File(target) as file:
        assert np.array_equal(file["u"][()], FIELD + 1)
    assert np.array_equal(fields(store.output, 1)["u"], FIELD + 1)
    with pytest.raises(InputError, match="no whole dump of step 2; whole dumps: 1"):
        fields(store.output, 2)


def test_a_field_of_a_long_name_and_many_axes_is_told_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Lines were cut in two at 80 letters, wherever that was."""
    made, shape = Made(tmp_path / "dumps", 1), (1,) * 12 + (3,)
    block = blocks.make("q" * 64, 0, shape, "f8", shape, (0,) * 13)
    made.part(1, 0, (block, np.zeros(shape)))
    assert run("assemble", str(made.output), "1", "--out", str(tmp_path / "whole.h5")) == 0
    assert capsys.readouterr().err == "q" * 64 + ": " + "1 x " * 12 + "3\n"


def test_a_flipped_bit_is_found(store: Made, tmp_path: Path) -> None:
    path = store.output / "dump-00000001" / "part-000001.h5"
    content = bytearray(path.read_bytes())
    at = content.index((FIELD + 1)[2].tobytes())
    content[at] ^= 1
    path.write_bytes(content)
    problems = inspect(store.output)[0].problems
    assert problems == ["part-000001.h5: u/000001 is damaged: its checksum is wrong"]
    with pytest.raises(ResultError, match="checksum"):
        assemble(store.output, 1, tmp_path / "whole.h5")
    assert not list(tmp_path.glob("whole*"))
    path.write_bytes(content[: len(content) // 3])
    assert "cannot be read" in inspect(store.output)[0].problems[0]
    path.unlink()
    assert "is missing" in inspect(store.output)[0].problems[0]


def test_a_manifest_that_lacks_something(store: Made) -> None:
    path = store.output / "dump-00000001" / "manifest.json"
    content = json.loads(path.read_text())
    content["parts"].pop()
    path.write_text(json.dumps(content))
    assert inspect(store.output)[0].problems == [
        "ranks [1] are missing",
        "u: 18 of 24 elements are missing",
    ]
    path.write_text("{")
    assert "is not JSON" in inspect(store.output)[0].problems[0]


def test_nothing_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("inspect", str(tmp_path)) == 1
    assert "no dumps" in capsys.readouterr().out.replace("\n", " ")
    assert run("inspect", str(tmp_path / "none")) == 2


def test_a_wrong_offset_leaves_a_hole(store: Made) -> None:
    """Two writers once put their halves to the same place, and the other half was zeros."""
    leave(store, 4, 0, slice(0, 2))
    leave(store, 4, 1, slice(2, 4), at=0)
    hole = "u: 12 of 24 elements are missing"
    assert inspect(store.output)[-1].problems == [hole]
    with pytest.raises(ResultError, match=hole):
        fields(store.output, 4)


def test_halos_are_no_holes_and_are_told(store: Made, capsys: pytest.CaptureFixture[str]) -> None:
    leave(store, 4, 0, slice(0, 3))
    leave(store, 4, 1, slice(1, 4))
    found = inspect(store.output)[-1]
    assert found.problems == []
    assert found.notes == ["u: blocks overlap by 12 elements; each is read once"]
    assert np.array_equal(fields(store.output, 4)["u"], FIELD + 4)
    run("inspect", str(store.output), "--json")
    dumps = json.loads(capsys.readouterr().out)["dumps"]
    assert [one["step"] for one in dumps if one["notes"]] == [4]


def test_what_the_manifest_does_not_name_is_noted(
    store: Made, capsys: pytest.CaptureFixture[str]
) -> None:
    """A part file of another job beside those of a whole dump was passed over."""
    folder = store.output / "dump-00000001"
    shutil.copy(folder / "part-000000.h5", folder / "part-000007.h5")
    (folder / "junk\x1b[2J").mkdir()
    found = inspect(store.output)[0]
    assert found.problems == []
    assert found.notes == [
        "junk\x1b[2J: is not in the manifest",
        "part-000007.h5: is not in the manifest",
    ]
    run("inspect", str(store.output))
    told = capsys.readouterr().out
    assert "part-000007.h5: is not in the manifest" in told
    assert "\x1b" not in told
