"""What killed runs leave is found and removed; what belongs to one that runs is left alone."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from wattio.cli import main
from wattio.errors import SystemFailed
from wattio.systems import claims, devices, servers
from wattio.systems.commands import wait_until

HERE = Path(__file__).parent


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where claims are kept in a test."""
    found = tmp_path / "claims"
    monkeypatch.setattr(claims, "place", lambda: found)
    return found


@contextlib.contextmanager
def running(folder: Path, scratch: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A run that has brought a system up, and its server; killed at the end."""
    arguments = [sys.executable, str(HERE / "claiming.py"), str(folder), str(scratch)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        server = int(run.stdout.readline())
        try:
            yield run, server
        finally:
            run.kill()


def is_there(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_what_a_killed_run_left_is_removed_by_any_other(folder: Path, tmp_path: Path) -> None:
    """A campaign that was killed and started anew left servers, networks and mounts for ever."""
    scratch = tmp_path / "scratch/local"
    with running(folder, scratch) as (_, server):
        assert scratch.is_dir()
    assert is_there(server)
    (seen,) = claims.left(remove=False)
    assert (seen.runs, seen.found) == (False, ("1 process", "1 folder"))
    assert is_there(server)
    (gone,) = claims.left(remove=True)
    assert gone.complaint is None
    assert not is_there(server)
    assert not scratch.parent.exists()
    assert claims.left(remove=True) == []
    assert sorted(path.name for path in folder.iterdir()) == [".lock"]


def test_what_belongs_to_a_run_is_left_alone_and_its_scratch_refused(
    folder: Path, tmp_path: Path
) -> None:
    scratch = tmp_path / "scratch/local"
    with running(folder, scratch) as (run, server):
        with running(folder, tmp_path / "other/local") as (_, dead):
            pass
        seen = claims.left(remove=True)
        assert {one.runs for one in seen} == {True, False}
        assert is_there(server)
        assert not is_there(dead)
        assert [path.name for path in scratch.iterdir()] != []
        told = rf"scratch: process {run.pid} uses local there or on .*; wait until it ends"
        with (
            pytest.raises(SystemFailed, match=told),
            claims.held(tmp_path, "local", {}, scratch.parent),
        ):
            pass
    claims.left(remove=True)
    assert not is_there(server)


def test_a_scratch_folder_that_a_run_has_again_is_not_cleaned_for_a_dead_one(
    folder: Path, tmp_path: Path
) -> None:
    scratch = tmp_path / "scratch"
    with running(folder, scratch) as (_, server):
        pass
    with claims.held(tmp_path, "local", {}, scratch):
        (alive,) = claims.left(remove=True)
        assert alive.runs
        assert is_there(server)
    assert not scratch.exists() or claims.left(remove=True)
    assert not is_there(server)


def test_an_image_that_a_run_has_is_refused_to_another(folder: Path, tmp_path: Path) -> None:
    """What is named by its path bears no mark: cleaning for one would remove it for the other."""
    options = {"device": "/data/image", "size": "32 MiB"}
    with (
        claims.held(tmp_path, "local", options, tmp_path / "one"),
        pytest.raises(SystemFailed, match="on the same device"),
        claims.held(tmp_path, "local", options, tmp_path / "two"),
    ):
        pass


def test_what_a_workload_leaves_ends_with_the_claim(folder: Path, tmp_path: Path) -> None:
    with claims.held(tmp_path, "local", {}, tmp_path / "one") as kept:
        server = subprocess.Popen(["sleep", "600"], start_new_session=True)
        # Just begun, a program has no environment yet, and is nobody's.
        environment = Path(f"/proc/{server.pid}/environ")
        assert wait_until(lambda: environment.read_bytes() != b"", 10.0)
        kept.over = True
        assert server.poll() is None
    assert server.wait() == -signal.SIGTERM


def test_the_command_tells_and_removes(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def called(*arguments: str) -> tuple[object, str, str]:
        with pytest.raises(SystemExit) as stop:
            main(["clean", *arguments])
        told = capsys.readouterr()
        return stop.value.code or 0, told.out, told.err

    assert called()[:2] == (0, "killed measurements have left nothing\n")
    with running(folder, tmp_path / "scratch") as (run, _):
        code, out, _ = called()
        assert (code, out.count("\n")) == (0, 1)
        assert out.endswith(f"process {run.pid} is still running; left alone\n")
    code, out, _ = called("--dry-run")
    assert (code, out.endswith(": 1 process, 1 folder\n")) == (0, True)
    code, out, _ = called("--json")
    (one,) = json.loads(out)["systems"]
    assert (code, one["removed"], one["found"]) == (0, True, ["1 process", "1 folder"])
    with claims.held(tmp_path, "unheard-of", {}, tmp_path / "one"):
        pass
    code, _, err = called()
    assert code == 1
    assert err.startswith("not removed: unheard-of on ")
    assert "this wattio has no such system" in err


def test_a_claim_stays_until_all_is_taken_down(folder: Path, tmp_path: Path) -> None:
    before = os.environ.get(claims.MARK)
    with claims.held(tmp_path, "local", {}, tmp_path / "one") as kept:
        assert os.environ[claims.MARK] != before
        assert servers.marked(claims.MARK, os.environ[claims.MARK]) == []
        kept.over = True
    assert os.environ.get(claims.MARK) == before
    assert claims.left(remove=False) == []
    with claims.held(tmp_path, "local", {}, tmp_path / "two"):
        pass
    (seen,) = claims.left(remove=False)
    assert not seen.runs


def test_what_cannot_be_removed_is_told_and_tried_again(folder: Path, tmp_path: Path) -> None:
    with claims.held(tmp_path, "unheard-of", {"a": 1}, tmp_path / "one"):
        pass
    for _ in range(2):
        (seen,) = claims.left(remove=True)
        assert seen.complaint is not None
        assert seen.complaint.startswith(f"unheard-of on {tmp_path}/one: ")


def test_files_that_are_no_claims_are_left(folder: Path, tmp_path: Path) -> None:
    folder.mkdir()
    root = {"pid": 1, "result": "/r", "module": "local", "options": {}, "scratch": "/"}
    texts = [
        json.dumps(root),
        "",
        "{",
        "[]",
        '{"pid": "x"}',
        json.dumps({"pid": 1, "scratch": 3, "module": "local"}),
    ]
    for number, text in enumerate(texts):
        (folder / f"{number}.json").write_text(text)
    (folder / ".0123456789abcdef").write_text("of one that was killed while it wrote")
    assert claims.left(remove=True) == []
    assert len(list(folder.glob("*.json"))) == len(texts)
    assert [path.name for path in folder.glob(".*")] == [".lock"]


def test_where_no_claim_can_be_kept_that_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(claims, "place", lambda: tmp_path / "file/claims")
    with claims.held(tmp_path, "local", {}, tmp_path / "one") as kept:
        assert kept.trouble == f"{tmp_path}/file/claims: claims cannot be recorded: Not a directory"


def test_loop_devices_are_found_by_their_file_also_where_it_is_gone(tmp_path: Path) -> None:
    for number, file in enumerate(("/a/b/image", "/a/b/image (deleted)", "/a/bc/image", "")):
        place = tmp_path / f"block/loop{number}/loop"
        place.mkdir(parents=True)
        (place / "backing_file").write_text(f"{file}\n")
    assert devices.loops_below(Path("/a/b"), tmp_path) == ["/dev/loop0", "/dev/loop1"]
