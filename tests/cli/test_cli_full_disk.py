"""A disk that fills up while a study runs, and two processes in one folder.

Each ended in a traceback, or in both running the same: now one line, nothing lost, and resumable.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from places import ROOT
from simulation.study_fake import FakeSimulator
from wattio.analysis.histogram import WindowHistograms
from wattio.cli.failures import answer
from wattio.errors import InputError, ResultError, no_room
from wattio.kinds.simulation.folder import SimulationFolder
from wattio.recording import recorder, sampler
from wattio.results import catalog, samples
from wattio.results.catalog import Catalog
from wattio.results.plan import Plan
from wattio.results.runs import Run
from wattio.simulator import native as simulator_module

from cli.test_cli import STUDY, called, result_of

FULL = os.strerror(errno.ENOSPC)
TRACE = str(ROOT / "traces" / "pgbench.wtrace")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(simulator_module, "NativeSimulator", FakeSimulator)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "study.toml").write_text(STUDY)
    return tmp_path


def full_file(*_: object) -> None:
    raise OSError(errno.ENOSPC, FULL, "raw/x.json")


def full_database(*_: object) -> None:
    raise sqlite3.OperationalError("database or disk is full")


def full_parquet(*_: object) -> None:
    import duckdb

    told = 'IO Error: {"exception_type":"IO","exception_message":"Could not write","errno":"28"}'
    error = ResultError(f"samples/x.parquet: cannot be written: {told}")
    raise error from duckdb.IOException(told)


@pytest.mark.parametrize(
    ("owner", "name", "failing"),
    [
        (SimulationFolder, "write_outcome", full_file),
        (Catalog, "add", full_database),
        (samples, "write", full_parquet),
    ],
)
def test_a_disk_that_is_full_is_one_line_and_the_study_goes_on_later(
    owner: object,
    name: str,
    failing: object,
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with monkeypatch.context() as full:
        full.setattr(owner, name, failing)
        assert called("run", "study.toml", "--jobs", "1") == 1
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert FULL in told
    assert f"0 of 2 runs are kept in {result_of(place)}" in told
    assert f"continue with: wattio run --resume {result_of(place)}\n" in told
    assert called("run", "--resume", result_of(place), "--no-report") == 0
    assert called("recompute", result_of(place)) == 0


@contextlib.contextmanager
def tiny_disk(at: Path, kib: int) -> Iterator[Path]:
    at.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={kib}k", "tmpfs", str(at)], check=True)
    try:
        yield at
    finally:
        subprocess.run(["umount", "--lazy", str(at)], check=True)


@pytest.mark.system
@pytest.mark.parametrize("left_kib", [24, 100, 130, 160, 180, 200, 300])
def test_a_disk_that_fills_up(
    left_kib: int, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with tiny_disk(place / "disk", 4096) as disk:
        fill = disk / "fill"
        fill.write_bytes(bytes((4096 - left_kib) * 1024))
        assert called("run", "study.toml", "--jobs", "1", "--results", "disk") == 1
        captured = capsys.readouterr()
        (line,) = (line for line in captured.err.splitlines() if not line.startswith("["))
        assert FULL in line
        fill.unlink()
        results = list(disk.glob("small/*/machine.json"))
        if "runs are kept in" in line or "/report" in line:
            result = str(results[0].parent.relative_to(place))
            assert called("run", "--resume", result) == 0
            assert called("recompute", result) == 0
        else:
            assert not results, "a folder for which there was no room is left"


def test_two_processes_do_not_run_into_one_folder(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both ran what was left, and the second ended in `UNIQUE constraint failed`."""
    monkeypatch.setattr(simulator_module, "NativeSimulator", lambda: FakeSimulator(stop_after=1))
    assert called("run", "study.toml", "--jobs", "1") == 130
    monkeypatch.setattr(simulator_module, "NativeSimulator", FakeSimulator)
    capsys.readouterr()
    result = result_of(place)
    with (place / result / "lock").open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        assert called("run", "--resume", result) == 2
    told = capsys.readouterr().err
    assert told == f"wattio: {result}: another wattio is using it; wait until it ends\n"
    assert called("run", "--resume", result, "--no-report") == 0


def test_what_another_process_has_run_since_is_not_run_again(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert called("run", "study.toml", "--no-report") == 0

    def everything(_: SimulationFolder, plan: Plan) -> list[object]:
        return list(plan.iterations)

    monkeypatch.setattr(SimulationFolder, "remaining", everything)
    assert called("run", "--resume", result_of(place), "--no-report") == 0
    assert len(SimulationFolder(place / result_of(place)).iterations()) == 2


@pytest.mark.system
def test_a_recording_for_which_there_is_no_room_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """DuckDB's JSON, with three lines of SQL, was printed."""
    windows = {"start_s": np.arange(2e5)}
    offsets = np.zeros(200_001, dtype=np.uint64)
    histograms = WindowHistograms(offsets, np.array([]), np.array([], dtype=np.uint64))
    with tiny_disk(tmp_path / "disk", 64) as disk:
        with pytest.raises(ResultError) as raised:
            samples.write(disk / "x.parquet", windows, histograms)
        assert str(raised.value) == f"{disk / 'x.parquet'}: cannot be written: {FULL}"
        assert list(disk.iterdir()) == []


QUOTA = OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))


@pytest.mark.system
def test_a_trace_for_which_there_is_no_room_is_a_problem_of_the_machine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What Rust said of a full disk was bad input."""
    with tiny_disk(tmp_path / "disk", 16) as disk:
        out = disk / "x.wtrace"
        assert called("trace", "convert", TRACE, str(out)) == 1
        assert capsys.readouterr().err == f"wattio: {out}: {FULL}\n"
        assert not out.exists()


def test_a_catalog_on_a_full_disk_is_not_called_unusable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is sound, and `wattio report` said that it was none, by a disk I/O error."""
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorname = "SQLITE_IOERR_SHMSIZE"

    def connect(_: Path) -> None:
        raise error

    monkeypatch.setattr(catalog, "_connect", connect)
    with pytest.raises(ResultError) as raised:
        Catalog(tmp_path / "catalog.sqlite")
    assert str(raised.value) == f"{tmp_path}/catalog.sqlite: cannot be opened: {FULL}"
    assert no_room(raised.value)


@pytest.mark.system
def test_what_is_on_a_full_disk_can_be_read(tmp_path: Path) -> None:
    """`wattio compare` and `report --out` could not: opening a catalog made a file beside it."""
    with tiny_disk(tmp_path / "disk", 256) as disk:
        path = disk / "catalog.sqlite"
        with Catalog(path) as catalog:
            catalog.add_runs([Run("load", "small", "native", {})])
        with contextlib.suppress(OSError), (disk / "fill").open("wb", buffering=0) as fill:
            while True:
                fill.write(bytes(4096))
        with pytest.raises(ResultError, match=FULL):
            Catalog(path)
        for _ in range(2):
            with Catalog(path, reading=True) as catalog:
                assert catalog.done() == set()


@pytest.mark.parametrize(
    ("cause", "code"),
    [
        (OSError(errno.ENOSPC, FULL), 1),
        (QUOTA, 1),
        (sqlite3.OperationalError("database or disk is full"), 1),
        (PermissionError(errno.EACCES, os.strerror(errno.EACCES)), 2),
        (sqlite3.DatabaseError("file is not a database"), 2),
    ],
)
@pytest.mark.parametrize("hidden", [False, True])
def test_no_room_is_no_bad_input_whatever_the_error_is_called(
    hidden: bool,
    cause: Exception,
    code: int,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Scripts that tell bad input (2) from a machine's problem (1) were told the wrong one."""
    for kind in (ResultError, InputError):
        told = kind("x: cannot be written")
        # As `from None` and `from error` leave it.
        told.__cause__, told.__context__ = (None if hidden else cause), cause
        assert answer(told) == code
    assert answer(cause) == code
    capsys.readouterr()


def test_a_full_disk_under_the_recorder_is_known_as_one(tmp_path: Path) -> None:
    """The number was lost on the way from its process."""
    full = OSError(errno.ENOSPC, FULL, str(tmp_path / "0.samples"))
    told = sampler.told(full, tmp_path)
    assert told["system"] == [errno.ENOSPC, FULL, str(tmp_path / "0.samples")]
    with pytest.raises(ResultError) as raised:
        raise recorder.raised(told)
    assert no_room(raised.value)
    assert "system" not in sampler.told(OSError(errno.ENOSPC, FULL, "/dev/x"), tmp_path)
