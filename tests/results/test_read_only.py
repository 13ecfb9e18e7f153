"""Result folders in places where nothing can be written."""

from __future__ import annotations

import contextlib
import errno
import gc
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import wattio
from governor import governed_fake
from simulation.study_fake import FakeSimulator
from simulation.test_study_end_to_end import called
from simulation.test_study_run import NOW, carried_out, wrote_study
from wattio.errors import ResultError
from wattio.files import document
from wattio.kinds.simulation import execute
from wattio.kinds.simulation.folder import SimulationFolder

NOBODY = 65_534


def become_nobody() -> None:
    """For a while; a container of a user's own may have no other user than its root."""
    try:
        os.setresuid(NOBODY, NOBODY, 0)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        pytest.skip("this user namespace has no user nobody")


@contextlib.contextmanager
def read_only(source: Path) -> Iterator[Path]:
    """A copy of a folder that can only be read; by root, with the rights of nobody meanwhile."""
    root = os.geteuid() == 0
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        copy = Path(shutil.copytree(source, Path(place) / source.name))
        folders = [copy, *(path for path in copy.rglob("*") if path.is_dir())]
        for path in copy.rglob("*"):
            path.chmod(0o555 if path.is_dir() else 0o444)
        copy.chmod(0o555)
        try:
            if root:
                become_nobody()
            yield copy
        finally:
            if root:
                os.setresuid(0, 0, 0)
            for folder in folders:
                folder.chmod(0o755)


def test_every_table_can_be_had_where_nothing_can_be_written(tmp_path: Path) -> None:
    """Only the summary could."""
    folder = carried_out(wrote_study(tmp_path), tmp_path / "results").path
    result = wattio.open(shutil.copytree(folder, tmp_path / "other"))
    expected = {name: repr(result.table(name)) for name in result.tables()}
    with read_only(folder) as copy:
        assert not os.access(copy, os.W_OK)
        again = wattio.open(copy)
        found = {name: repr(again.table(name)) for name in again.tables()}
        there = sorted(path.name for path in copy.glob("catalog.sqlite*"))
    assert found == expected
    assert there == ["catalog.sqlite"]


def test_a_folder_that_cannot_be_made_is_named_once(tmp_path: Path) -> None:
    plan = execute.prepare(document.read(wrote_study(tmp_path)), FakeSimulator())
    (tmp_path / "results" / plan.name).mkdir(parents=True)
    with read_only(tmp_path / "results") as copy, pytest.raises(ResultError) as told:
        SimulationFolder.create(plan, copy, NOW)
    place, _, why = str(told.value).partition(": ")
    assert place.startswith(f"{copy / plan.name}/20260102T030405Z-")
    assert why == f"cannot be created: {os.strerror(errno.EACCES)}"


def test_what_wattiod_left_is_derived_elsewhere_where_nothing_can_be_written(
    tmp_path: Path,
) -> None:
    left = governed_fake.write(tmp_path / "left", governed_fake.windows(70))
    result = wattio.open(shutil.copytree(left, tmp_path / "other"))
    expected = {name: repr(result.table(name)) for name in result.tables()}
    with read_only(left) as copy:
        again = wattio.open(copy)
        assert {name: repr(again.table(name)) for name in again.tables()} == expected
        assert repr(again) == f"<wattio governor in {copy}>"
        assert not (copy / "catalog.sqlite").exists()


def test_the_report_of_wattiod_is_made_elsewhere_where_nothing_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = governed_fake.write(tmp_path / "left", governed_fake.windows(70))
    before = sorted(left.rglob("*"))
    made, own = tempfile.mkdtemp, tmp_path / "tmp"
    own.mkdir()

    def refused(prefix: str, dir: Path | None = None) -> str:
        if dir == left:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(dir))
        return made(prefix=prefix, dir=dir or own)

    monkeypatch.setattr(tempfile, "mkdtemp", refused)
    assert called("report", str(left), "--out", str(tmp_path / "page")) == 0
    assert (tmp_path / "page" / "index.html").is_file()
    assert sorted(left.rglob("*")) == before
    gc.collect()
    # The plotting library may have made a folder of its own there.
    assert not list(own.glob("wattio-derived-*"))
