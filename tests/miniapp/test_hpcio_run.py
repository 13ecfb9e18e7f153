"""`wattio hpcio run`: small runs by real ranks, what is told of them, and how they end."""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hpcio.waiting import HANGS_S, until
from wattio.cli import hpcio_run, main
from wattio.meters import parquet
from wattio.workloads import hpcio_output, mpi_launch
from wattio.workloads.hpcio_output import Report

SAMPLED = ("--steps", "600", "--output-every", "300")
"""Long enough for the estimate, which says something every half second, to fall within."""

QUICK = {"--size": "tiny", "--steps": "6", "--output-every": "3"}


def line(*arguments: str) -> list[str]:
    """A command, quick where nothing else is asked for."""
    rest = [word for pair in QUICK.items() if pair[0] not in arguments for word in pair]
    return ["hpcio", "run", *rest, *arguments]


def called(*arguments: str) -> int:
    """The exit code of a command."""
    with pytest.raises(SystemExit) as ended:
        main(line(*arguments))
    return int(ended.value.code or 0)


def test_a_run_is_told_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "dumps"
    assert called("--out", str(out), "--json", *SAMPLED) == 0
    told: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert (told["approach"], told["ranks"], told["ranks_computing"]) == ("tp", 2, 2)
    assert told["grid"] == [16, 16, 16]
    assert (told["dumps"], told["files"], told["errors"]) == (2, 4, [])
    assert told["bytes"] == 2 * told["dump_bytes"] == 2 * 98304
    how = ("when_full", "compression", "checksum", "sync", "buffer_bytes")
    assert [told[name] for name in how] == ["block", "none", True, True, 2**28]
    assert (told["stalls"], told["drops"]) == (0, 0)
    assert 0 < told["blocked_s_mean"] <= told["blocked_s_p99"] <= told["blocked_s_max"]
    assert told["step_s_mean"] * 600 < told["wall_s"]
    assert told["bubble_height_m_last"] > told["bubble_height_m_first"]
    [energy] = told["energy"]
    assert energy["estimate"] is True
    assert energy["estimated_energy_j"] == pytest.approx(2 * energy["estimated_joules_per_dump"])
    assert energy["meter"] == "estimate:host"
    assert energy["estimated_energy_j_low"] < energy["estimated_energy_j"]
    assert energy["estimated_energy_j"] < energy["estimated_energy_j_high"]
    assert "busy and idle time" in energy["by"]
    cores = told["cores"]
    whole_s = sum(cores[name] for name in ("busy_s", "idle_s", "iowait_s", "steal_s"))
    assert whole_s == pytest.approx(cores["count"] * told["wall_s"], rel=0.1, abs=0.1)
    assert cores["busy_s"] > 0
    power_w = energy["estimated_energy_j"] / told["wall_s"]
    assert energy["estimated_power_w_mean"] == pytest.approx(power_w)
    assert not any(name in energy for name in ("energy_j", "power_w_mean", "joules_per_dump"))
    assert parquet.read(out / "run" / "power.parquet")
    assert json.loads((out / "run" / "result.json").read_text()) == told
    names = sorted(path.name for path in (out / "dumps").iterdir())
    assert names == ["dump-00000300", "dump-00000600"]


def test_a_run_is_told_as_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert called("--out", str(tmp_path / "dumps"), "--ranks", "1", *SAMPLED) == 0
    text = capsys.readouterr().out
    assert "energy, ESTIMATE" in text
    assert " J possible; an estimate by the model" in " ".join(text.split())
    assert re.search(r"this machine's cores\s+[0-9.]+ m?s busy, ", text)
    assert "1 rank computes, 0 only write" in text
    assert "J a dump" in text


def test_a_failed_dump_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = hpcio_run._raw_folder

    @contextmanager
    def in_the_way(out: Path) -> Iterator[Path]:
        with made(out) as raw:
            (out / "dumps").mkdir()
            (out / "dumps/dump-00000003.partial").touch()
            yield raw

    monkeypatch.setattr(hpcio_run, "_raw_folder", in_the_way)
    assert called("--out", str(tmp_path / "dumps"), "--json") == 1
    streams = capsys.readouterr()
    assert "FAILED: dump of step 3" in streams.err
    told = json.loads(streams.out)
    assert len(told["errors"]) == 1
    assert told["files"] == 2


def test_a_result_that_cannot_be_kept_is_told_after_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that the dumps have filled: half of a result would fail a later calibration."""
    out = tmp_path / "out"
    write_text = Path.write_text

    def full(path: Path, text: str, encoding: str | None = None) -> int:
        if "result.json" in path.name:
            write_text(path, text[:9])
            raise OSError(errno.ENOSPC, "No space left on device")
        return write_text(path, text, encoding)

    monkeypatch.setattr(Path, "write_text", full)
    monkeypatch.setattr(Report, "errors", lambda _: ["dump of step 3: No space left on device"])
    assert called("--out", str(out), "--ranks", "1", "--output-every", "0", "--json") == 1
    streams = capsys.readouterr()
    assert json.loads(streams.out)["steps"] == 6
    assert "FAILED: dump of step 3" in streams.err
    assert "run/result.json: cannot be written: No space left on device" in streams.err
    assert not list((out / "run").glob("*result.json*"))


@pytest.mark.parametrize(
    ("missing", "arguments"),
    [
        (True, ()),
        (False, ("--meter", "sysfs:/no/such")),
        (False, ("--meter", "estimate:assumed", "--meter", "estimate:assumed")),
    ],
)
def test_what_is_refused_leaves_no_folder_in_the_way_of_the_next_try(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    missing: bool,
    arguments: tuple[str, ...],
) -> None:
    if missing:
        monkeypatch.setattr(mpi_launch, "launcher", lambda _: None)
    (tmp_path / "there").mkdir()
    for out in (tmp_path / "new", tmp_path / "there"):
        assert called("--out", str(out), *arguments) == 2
    assert [path.name for path in tmp_path.rglob("*")] == ["there"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--size", "tinny"), '--size: "tinny" is not known; did you mean "tiny"'),
        (("--approach", "dc:x"), 'approach "dc:x" needs a number'),
        (("--ranks", "0"), "--ranks: 0"),
        (("--output-every", "-1"), "--output-every: -1: must be"),
        (("--compression", "gzip:0"), '--compression "gzip:0" is not known'),
        (("--variables", "u,rain"), '"rain" is not known'),
        (("--buffer", "12"), "buffer"),
        (("--buffer", "1KiB"), "--buffer: '1KiB': must be greater than or equal to 65536"),
        (("--meter", "estimate:assumed", "--meter", "estimate:assumed"), "is named twice"),
    ],
)
def test_input_that_cannot_be_used(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str
) -> None:
    assert called("--out", str(tmp_path / "dumps"), *arguments) == 2
    assert message in capsys.readouterr().err


def test_dumps_of_another_run_are_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine").touch()
    assert called("--out", str(tmp_path)) == 2
    assert "is not empty" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_a_run_without_output_has_no_joules_of_a_dump(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert called("--out", str(tmp_path / "dumps"), "--output-every", "0", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["dumps"] == told["bytes"] == 0
    assert "blocked_s_mean" not in told
    assert "estimated_joules_per_dump" not in told["energy"][0]


@contextmanager
def endless(out: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A run without end that has made some steps."""
    words = line("--steps", "10000000", "--output-every", "0", "--out", str(out))
    command = [sys.executable, "-m", "wattio.cli", *words]
    process = subprocess.Popen(command, stderr=subprocess.PIPE)
    try:
        ranks_output = out / "run" / mpi_launch.OUTPUT
        until(lambda: hpcio_output.steps_done(ranks_output) > 0)
        yield process
    finally:
        process.kill()
        process.communicate()


def test_ctrl_c_ends_all_ranks(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with endless(out) as process:
        assert len(of_run(out)) >= 2
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=HANGS_S)
        assert process.returncode == 130
        assert b"was stopped" in told
        until(lambda: not of_run(out))


def test_a_rank_that_is_killed_ends_the_run(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with endless(out) as process:
        os.kill(of_run(out)[-1], signal.SIGKILL)
        _, told = process.communicate(timeout=HANGS_S)
        assert process.returncode == 1
        # On a machine with much to do, the launcher may be ended before it has said so.
        ends = (b"was killed by signal 9 (Killed)", b"did not react to the end of a rank")
        assert any(end in told for end in ends)
        until(lambda: not of_run(out))


def of_run(out: Path) -> list[int]:
    """The ranks whose dumps go to a folder, ascending; their launcher is none."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                words = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            program = words.partition(b"\0")[0]
            if b"ranks.hpcio" in words and str(out).encode() in words and b"python" in program:
                found.append(int(entry.name))
    return sorted(found)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--approach dc:9 --ranks 4", "no rank of it is left"),
        ("--approach dn:1 --ranks 4", "needs two nodes"),
        ("--approach dc:1 --ranks 8", "7 computing ranks (7 x 1) are too many for 16 x 16 columns"),
        ("--approach dc:1 --buffer 900TiB", "--buffer: 1 of 989,560,464,998,400 B exceed"),
        ("--approach dc:1 --ranks 8 --ranks-per-node 4 --buffer 900TiB", "--buffer: 2 of"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_made(
    arguments: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Too many ranks for the grid and too large a buffer were found out by the ranks only.

    The exit code was 1, and the folder that was left stood in the way of the next try.
    """
    out = tmp_path / "out"
    words = [word.replace("TiB", " TiB") for word in arguments.split()]
    assert called(*words, "--out", str(out)) == 2
    assert message in capsys.readouterr().err
    assert not out.exists()
