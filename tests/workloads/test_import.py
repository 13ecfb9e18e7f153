"""`wattio import`: one form for all, as JSON and as a table; refusals that name the file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from wattio import cli

from .fio_fake import direction, job, output

DATA = Path(__file__).parents[1] / "data" / "outputs"


def called(*arguments: str) -> int:
    with pytest.raises(SystemExit) as caught:
        cli.main(["import", *arguments])
    assert isinstance(caught.value.code, int)
    return caught.value.code


def test_each_tool_in_one_form(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "fio.json").write_text(output(job(read=direction(600, 1 << 20))))
    (tmp_path / "fio.log").write_text("0, 1000, 0, 4096\n1000, 2000, 0, 4096\n")
    for tool, file, operation in (
        ("fio", tmp_path / "fio.json", "read"),
        ("fio-log", tmp_path / "fio.log", "read"),
        ("ior", DATA / "ior-4.json", "write"),
        ("ior", DATA / "ior-3.0.txt", "write"),
        ("mdtest", DATA / "mdtest-3.3.txt", "directory_creation"),
    ):
        assert called(tool, str(file), "--json") == 0
        found = json.loads(capsys.readouterr().out)
        assert list(found) == ["tool", "version", "operations", "notes"]
        assert found["tool"] == tool
        assert found["operations"][0]["operation"] == operation
        assert called(tool, str(file)) == 0
        assert operation in capsys.readouterr().out


def test_doubts_are_told_once_with_what_they_are_about(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert called("ior", str(DATA / "ior-4.json")) == 0
    shown = capsys.readouterr().out
    assert "doubtful: write 1, write 2: written without -e" in shown
    assert "note: IOR's stamps" in shown


def test_stamps_are_read_in_a_zone(capsys: pytest.CaptureFixture[str]) -> None:
    assert called("ior", str(DATA / "ior-3.0.txt"), "--zone", "Asia/Tokyo", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["operations"][0]["start_utc_ns"] == 1420419600 * 10**9
    for zone in ("Nowhere/Town", "../etc/passwd", ""):
        assert called("ior", str(DATA / "ior-3.0.txt"), "--zone", zone) == 2
        assert "unknown time zone" in capsys.readouterr().err


def test_windows_of_a_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "a.log"
    log.write_text("0, 1000, 0, 4096\n1500, 2000, 0, 4096\n")
    assert called("fio-log", str(log), "--window", "1 s", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert [one["start_s"] for one in found["windows"]] == [0.0, 1.0]
    assert called("fio-log", str(log), "--window", "1 s") == 0
    assert "windows" in capsys.readouterr().out
    assert called("fio-log", str(log), "--window", "1 us") == 2
    assert "allowed is 1 ms to" in capsys.readouterr().err


@pytest.mark.parametrize("tool", ["fio", "ior", "mdtest", "fio-log"])
def test_what_cannot_be_read_is_told_with_the_file(
    tool: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, content in (("none", None), ("empty", b""), ("odd", b"\xff\x00{")):
        file = tmp_path / name
        if content is not None:
            file.write_bytes(content)
        assert called(tool, str(file)) == 2
        told = capsys.readouterr().err
        assert told.startswith(f"wattio: {file}")
        assert told.count("\n") == 1


def test_a_job_that_failed_has_no_result(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "fio.json"
    file.write_text(output(job(error=5, read=direction())))
    assert called("fio", str(file)) == 2
    assert 'job "a" ended with error 5 (Input/output error)' in capsys.readouterr().err
