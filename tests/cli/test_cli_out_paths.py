"""Where results go is tried before anything is measured; results that are read-only are read."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from governor import governed_fake as fake
from places import ROOT
from simulation.study_fake import FakeSimulator
from wattio.cli.output_path import writable
from wattio.errors import InputError
from wattio.simulator import native as simulator_module

from cli.test_cli import STUDY, called, result_of

TRACE = str(ROOT / "traces/pgbench.wtrace")


def every_out(out: str) -> list[tuple[str, ...]]:
    """Every command that takes long, or needs much, before it writes a file."""
    return [
        ("trace", "record", "--device", "vda", "--duration", "8 s", "--out", out),
        ("trace", "convert", TRACE, out),
        ("meter", "record", "estimate:assumed", "--duration", "1 h", "--out", out),
        ("peak", "--out", out),
        ("calibrate", "power", "--meter", "estimate:assumed", "--out", out),
        ("calibrate", "power", "--from", "nowhere", "--out", out),
        ("calibrate", "target", "--out", out),
        ("calibrate", "target", "--from", "nowhere", "--out", out),
        ("hpcio", "calibrate", "--results", "nowhere", "--out", out),
        ("hpcio", "assemble", "nowhere", "1", "--out", out),
        ("compare", "nowhere", "elsewhere", "--html", out),
        ("compare", "--platforms", "nowhere", "elsewhere", "--html", out),
    ]


COMMANDS = range(len(every_out("")))


@pytest.mark.parametrize("at", COMMANDS)
@pytest.mark.parametrize("out", ["nowhere/x.csv", "folder.csv", "file.csv/x.csv", "/dev/null"])
def test_a_place_that_cannot_be_written_is_refused_first(
    at: int,
    out: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """`trace record` recorded for 8 s and `peak` measured everything, and then failed."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "file.csv").write_text("")
    command = every_out(out)[at]
    assert called(*command) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert out in told
    assert not Path("/dev/null").is_file()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file.csv", "folder.csv"]


@pytest.mark.parametrize("at", COMMANDS)
def test_a_read_only_file_system_is_refused_first(
    at: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def read_only(**_: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "NamedTemporaryFile", read_only)
    assert called(*every_out("x.csv")[at]) == 2
    assert "x.csv: cannot be written: Read-only file system" in capsys.readouterr().err


STUDY_RUN = ("run", str(ROOT / "studies/dvfs-fio"), "--scale", "small")


@pytest.mark.parametrize(
    "words",
    [
        (*STUDY_RUN, "--scratch"),
        (*STUDY_RUN, "--dry-run", "--scratch"),
        (*STUDY_RUN, "--results"),
        ("hpcio", "run", "--out"),
    ],
)
@pytest.mark.parametrize("place", ["file", "file/new"])
def test_a_file_in_the_place_of_a_folder_is_refused_first(
    words: tuple[str, ...],
    place: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """With `--scratch`, a study was begun, and ended with "file/here: Not a directory"."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    assert called(*words, place) == 2
    assert capsys.readouterr().err == f"wattio: {words[-1]}: file is a file; name a folder\n"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_trying_leaves_nothing_and_changes_nothing(tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.write_text("kept")
    assert writable("--out", there) == there
    assert writable("--out", tmp_path / "new")
    assert there.read_text() == "kept"
    assert list(tmp_path.iterdir()) == [there]
    with pytest.raises(InputError, match=r"--out: .* is a folder; name a file"):
        writable("--out", tmp_path)


@pytest.fixture
def simulated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(simulator_module, "NativeSimulator", FakeSimulator)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "study.toml").write_text(STUDY)
    assert called("run", "study.toml", "--no-report") == 0
    return tmp_path / result_of(tmp_path)


def test_a_report_may_go_elsewhere(
    simulated: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert called("report", str(simulated), "--out", "a/page", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["report"] == "a/page/index.html"
    assert list((simulated / "report").iterdir()) == []
    assert called("report", str(simulated), "--out", "a/page") == 2
    assert "a/page is not empty; name a new folder" in capsys.readouterr().err
    assert called("report", str(simulated), "--out", "study.toml") == 2
    assert "--out: study.toml is a file; name a folder" in capsys.readouterr().err
    assert called("report", str(tmp_path), "--out", "b") == 2


@pytest.fixture
def archived(tmp_path: Path) -> Iterator[Path]:
    """A folder for results that will be read-only, as an archive or a snapshot is."""
    folder = tmp_path / "archive"
    folder.mkdir()
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def freeze(folder: Path) -> None:
    for options in (["--bind", str(folder)], ["-o", "remount,bind,ro"]):
        subprocess.run(["mount", *options, str(folder)], check=True)


@pytest.mark.system
def test_results_that_are_read_only_are_read(
    simulated: Path, archived: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """`report` and `recompute` said "not a usable catalog" of every one."""
    result = archived / simulated.name
    simulated.rename(result)
    governed = fake.write(archived / "r", fake.windows(240))
    other = fake.write(archived / "other", fake.windows(240))
    assert called("report", str(governed)) == 0  # What was derived once needs no writing.
    freeze(archived)
    capsys.readouterr()
    assert called("recompute", str(result)) == 0
    assert called("recompute", str(governed)) == 0
    assert called("compare", f"{result}:steady/native", f"{result}:steady/PACER") == 0
    assert called("report", str(result), "--out", "page") == 0
    assert called("report", str(governed), "--out", "governed") == 0
    assert called("report", str(other), "--out", "other") == 0
    capsys.readouterr()
    for folder in (result, governed):
        assert called("report", str(folder)) == 2
        told = capsys.readouterr().err
        text = "cannot be written; name a folder for the report with --out"
        assert told == f"wattio: {folder}: {text}\n"
    assert called("run", "--resume", str(result)) == 2
    told = capsys.readouterr().err
    assert "Read-only file system" in told
    assert told.count("\n") == 1
