"""`wattio meter`: what an operator sees of meters that are files of this test."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from wattio.cli import main
from wattio.errors import ResultError
from wattio.meters import parquet
from wattio.recording import Samples
from wattio.recording.cadence import find_step, timing, updates

WATTIO = [sys.executable, "-c", "from wattio.cli import main; main()"]


@pytest.fixture
def sensor(tmp_path: Path) -> str:
    chip = tmp_path / "root" / "sys" / "class" / "hwmon" / "hwmon0"
    chip.mkdir(parents=True)
    (chip / "name").write_text("chip\n")
    (chip / "power1_input").write_text("45000000\n")
    return f"hwmon:chip/power1?root={tmp_path}/root"


def run(*words: str) -> int:
    with pytest.raises(SystemExit) as left:
        main(["meter", *words])
    assert isinstance(left.value.code, int)
    return left.value.code


def test_list_shows_meters_and_how_names_are_written(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("list", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert "estimate:assumed" in [meter["name"] for meter in found["meters"]]
    assert any(form.startswith("csv:FILE") for form in found["forms"])
    assert run("list") == 0
    assert "estimate:assumed" in capsys.readouterr().out


def test_read_says_watts_and_whether_they_are_measured(
    sensor: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("read", sensor) == 0
    assert capsys.readouterr().out.startswith("45 W")
    assert run("read", "estimate:assumed") == 0
    assert "ESTIMATE, nothing is measured" in capsys.readouterr().out
    assert run("read", sensor, "--json") == 0
    assert json.loads(capsys.readouterr().out)["reading"]["power_w"] == 45.0


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["read", "rap:x"], 'unknown kind; did you mean "rapl"'),
        (["record", "--out", "x.parquet"], "needs the name of a meter"),
        (["record", "estimate:assumed", "--out", "x.txt"], "neither .parquet nor .csv"),
        (["record", "estimate:assumed", "--out", "/nowhere/x.csv"], "there is no folder"),
        (["record", "estimate:assumed", "--out", "x.csv", "--rate", "fast"], "--rate: "),
        (["record", "estimate:assumed", "estimate:assumed", "--out", "x.csv"], "is named twice"),
        (["record", "rapl:", "--from", ".", "--out", "x.csv"], "give only --out with it"),
        (["record", "--from", "nowhere", "--out", "x.csv"], "is not a list of recorded meters"),
        (["serve", "ptdaemon", "--from", "nosuch:"], "unknown kind"),
    ],
)
def test_wrong_words_are_one_message(
    words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*words) == 2
    assert says in capsys.readouterr().err


def test_record_writes_parquet_and_csv_alike(
    sensor: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recording = tmp_path / "first.parquet"
    words = ["record", sensor, "--rate", "50 Hz", "--duration", "500 ms"]
    run(*words, "--out", str(recording))
    assert "jitter p99" in capsys.readouterr().out
    (label, samples), *others = parquet.read(recording).items()
    assert not others
    assert set(samples.power_w) == {45.0}
    # The recording is a meter again, and what it says is the same in text.
    again = tmp_path / "again.csv"
    assert run("record", f"parquet:{recording}", "--out", str(again)) == 0
    head, *rows = again.read_text().splitlines()
    assert head == "meter,utc_ns,monotonic_ns,power_w,energy_j,mark"
    assert [int(row.split(",")[1]) for row in rows] == samples.utc_ns.tolist()
    assert rows[0].endswith("45.0,,")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "again.csv",
        "first.parquet",
        "root",
    ]
    assert label.startswith("hwmon:chip/power1")


def test_ctrl_c_keeps_what_was_recorded(sensor: str, tmp_path: Path) -> None:
    out = tmp_path / "out.parquet"
    command = [*WATTIO, "meter", "record", sensor, "--rate", "100 Hz", "--out", str(out)]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as program,
        contextlib.ExitStack() as stack,
    ):
        deadline_s = time.monotonic() + 60
        stack.callback(program.kill)  # Popen waits for its end, however long that takes.
        # More than the first reading is written a while after it began to wait for Ctrl-C.
        while not any(f.stat().st_size > 400 for f in tmp_path.glob(".wattio-*/*.samples")):
            assert time.monotonic() < deadline_s
            time.sleep(0.02)
        program.send_signal(signal.SIGINT)
        _, said = program.communicate(timeout=60)
    assert program.returncode in (0, 1), said
    assert len(next(iter(parquet.read(out).values()))) > 0


def full(path: Path, _: object) -> None:
    raise ResultError(f"{path}: cannot be written: No space left on device")


def interrupted(*_: object) -> None:
    signal.raise_signal(signal.SIGINT)
    signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize(
    ("failing", "code", "says"),
    [
        (full, 2, "out.parquet: cannot be written: No space left on device; what was recorded"),
        (interrupted, 130, "wattio: stopped; what was recorded is kept in "),
    ],
)
def test_what_could_not_be_written_is_kept_and_written_later(
    failing: Callable[..., None],
    code: int,
    says: str,
    sensor: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Hours of samples went with the folder that they were in."""
    out = tmp_path / "out.parquet"
    with monkeypatch.context() as during:
        during.setattr(parquet, "write", failing)
        words = ["--rate", "50 Hz", "--duration", "300 ms", "--out", str(out)]
        assert run("record", sensor, *words) == code
    told = capsys.readouterr().err
    (folder,) = tmp_path.glob(".wattio-recording-*")
    assert says in told
    assert told.endswith(f": wattio meter record --from {folder} --out {out}\n")
    assert run("record", "--from", str(folder), "--out", str(out)) == 0
    (samples,) = parquet.read(out).values()
    assert set(samples.power_w) == {45.0}
    assert len(samples) > 1


def test_one_ctrl_c_while_a_recording_is_written_ends_nothing(
    sensor: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = parquet.write

    def interrupted_once(path: Path, recorded: Mapping[str, Samples]) -> None:
        signal.raise_signal(signal.SIGINT)
        write(path, recorded)

    monkeypatch.setattr(parquet, "write", interrupted_once)
    out = tmp_path / "out.parquet"
    run("record", sensor, "--rate", "50 Hz", "--duration", "300 ms", "--out", str(out))
    assert len(parquet.read(out)) == 1
    assert not list(tmp_path.glob(".wattio-recording-*"))


def test_check_says_what_a_sensor_that_stands_still_is(
    sensor: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("check", sensor, "--span", "300 ms") == 1
    captured = capsys.readouterr()
    assert "no rise in power was seen when all cores became busy" in captured.out
    assert "its power did not change, at rest or under load" in captured.err
    assert run("check", sensor, "--span", "300 ms", "--json") == 1
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert found["power_w_mean"] == 45.0
    assert found["step"] is None
    assert found["timing"]["samples"] >= 1  # How many depends on how busy the machine is.


@contextlib.contextmanager
def served(sensor: str) -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [*WATTIO, "meter", "serve", "ptdaemon", "--from", sensor, "--port", str(port)]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as program:
        assert program.stdout is not None
        try:
            assert b"is served on 127.0.0.1" in program.stdout.readline()
            yield port
            program.send_signal(signal.SIGINT)
            assert program.wait(60) == 130
        finally:
            program.kill()  # Popen waits for its end, however long that takes.


def test_a_served_meter_is_read_by_its_client(
    sensor: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with served(sensor) as port:
        assert run("read", f"ptdaemon://127.0.0.1:{port}?period=500 ms") == 0
    captured = capsys.readouterr()
    assert captured.out.startswith("45 W")
    assert "not been tried on SPEC's own PTDaemon" in captured.err


def samples(times_ms: np.ndarray[Any, Any], power_w: np.ndarray[Any, Any]) -> Samples:
    times_ns = (times_ms * 1e6).astype(np.int64)
    absent = np.full(len(times_ns), np.nan)
    return Samples(times_ns + 10**18, times_ns, power_w.astype(float), absent, absent)


def test_jitter_and_gaps_are_those_of_the_steps() -> None:
    times_ms = np.array([0, 50, 100, 151, 200, 400])
    found = timing(samples(times_ms, times_ms), 0.05)
    assert found.samples == 6
    assert found.period_ms_median == 50.0
    assert found.gap_ms_max == 200.0
    assert found.gaps == 1
    assert timing(samples(times_ms[:1], times_ms[:1]), 0.05).jitter_ms_p99 is None


def test_the_real_period_is_that_of_changes() -> None:
    times_ms = np.arange(0, 10_000, 20)
    found = updates(samples(times_ms, times_ms // 1000))
    assert (found.by, found.changes) == ("power", 9)
    assert found.period_ms_median == 1000.0
    assert updates(samples(times_ms, times_ms * 0)).period_ms_median is None


@pytest.mark.parametrize("lag_ms", [0, 40, 1500])
def test_a_meters_lag_is_found_in_noise(lag_ms: int) -> None:
    times_ms = np.arange(0, 20_000, 20)
    noise = np.random.default_rng(1).normal(0, 3, len(times_ms))
    power_w = 50 + 25 * (times_ms >= 10_000 + lag_ms) + noise
    found = find_step(samples(times_ms, power_w), 10_000 * 10**6, 20_000 * 10**6)
    assert found is not None
    assert found.lag_s == pytest.approx(lag_ms / 1e3, abs=0.03)
    assert found.after_w - found.before_w == pytest.approx(25, abs=1)


def test_noise_is_no_step() -> None:
    times_ms = np.arange(0, 20_000, 20)
    power_w = np.random.default_rng(1).normal(50, 3, len(times_ms))
    assert find_step(samples(times_ms, power_w), 10_000 * 10**6, 20_000 * 10**6) is None
    assert find_step(samples(times_ms[:2], power_w[:2]), 0, 10**10) is None
