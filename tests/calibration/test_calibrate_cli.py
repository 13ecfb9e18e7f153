"""`wattio calibrate power`: options, a fit of points that are there, a sweep on this host."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from wattio import _core, cli
from wattio.calibration.folder import DataFolder, Record
from wattio.calibration.points import Point

from calibration import made

END_S = 120.0
TRUE_W = {"rest": 50.0, "core": 1.5, "busy": 40.0}


def record(**changes: object) -> Record:
    content: dict[str, Any] = {
        "host": "storage-1",
        "begun": "2026-01-31T12:00:00+00:00",
        "meters": [],
        "covers": ["server"],
        "frequency_max_hz": 2e9,
        "frequencies_hz": [1e9, 2e9],
        "cores": [1, 2],
        "loads": [0.0, 1.0],
        "with_io": True,
        "repeat": 1,
        "seed": 1,
        "settle_s": 2.0,
        "measure_s": 10.0,
        "lacks": {},
    }
    return Record.model_validate({**content, **changes})


def data_of(path: Path, points: list[Point], **changes: object) -> Path:
    data = DataFolder(path)
    data.create()
    data.keep(record(**changes))
    for point in points:
        data.add(point)
    return path


def run(*words: str | Path) -> int:
    with pytest.raises(SystemExit) as left:
        cli.main(["calibrate", "power", *map(str, words)])
    assert isinstance(left.value.code, int)
    return left.value.code


def facts(path: Path) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(_core.PowerModel(path.read_text()).facts())
    return told


def test_a_fit_of_points_that_are_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "model.toml"
    assert run("--from", data_of(tmp_path / "d", made.points()), "--out", out, "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["good"]
    assert told["coefficients"]["busy_frequency"]["watts"] == pytest.approx(4.0, abs=0.1)
    assert len(told["residuals"]) == len(made.points())
    assert facts(out)["is_measured"]
    assert json.loads((tmp_path / "d" / "fit.json").read_text()) == told
    with pytest.raises(SystemExit) as left:
        cli.main(["check", str(out)])
    assert left.value.code == 0
    # The model says at a point what it was fitted to there.
    point = made.points()[0]
    groups = [(point.active, point.busy / point.active, point.active_phi / point.active)]
    power_w = _core.PowerModel(out.read_text()).power_w(groups, point.kiops * 1e3)
    assert power_w == pytest.approx(point.power_w, abs=0.5)


def test_a_poor_fit_is_written_and_marked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "model.toml"
    poor = data_of(tmp_path / "d", made.points(noise_w=8.0))
    assert run("--from", poor, "--out", out) == 1
    said = capsys.readouterr().out
    assert "POOR FIT: R^2 is not above 0.99" in said
    assert "POOR FIT" in out.read_text().splitlines()[3]
    assert "POOR FIT" in facts(out)["name"]


def test_what_could_not_be_told_stands_in_the_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "model.toml"
    points = made.points(phis=(1.0,), cores=(4,), kiops=(0.0,), noise_w=0.05)
    lacks = {"frequency": "this host has no cpufreq"}
    assert run("--from", data_of(tmp_path / "d", points, lacks=lacks), "--out", out) == 0
    assert "not swept: frequency: this host has no cpufreq" in capsys.readouterr().out
    text = out.read_text()
    assert "# Not swept: frequency: this host has no cpufreq" in text
    assert 'core = { watts = 0.0, origin = "assumed" }' in text
    assert 'io = { watts = 0.05, origin = "assumed" }' in text
    assert not facts(out)["is_measured"]


def test_names_from_outside_cannot_break_the_file(tmp_path: Path) -> None:
    out = tmp_path / "model.toml"
    lacks = {"cores": 'a "reason"\n[rest]\x1b[0m'}
    host = 'h"\\\n\ud7ff\U0001f600\x7f'
    assert (
        run("--from", data_of(tmp_path / "d", made.points(), host=host, lacks=lacks), "--out", out)
        == 0
    )
    assert facts(out)["name"].startswith('h"\\??\U0001f600?')


def test_drift_and_a_busy_host_are_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    points = [
        replace(point, busy=point.busy + 0.2 * point.active, busy_phi=point.busy_phi + 0.2)
        for point in made.points(drift_w=6.0)
    ]
    run("--from", data_of(tmp_path / "d", points), "--out", tmp_path / "model.toml")
    said = capsys.readouterr().out
    assert "DRIFT: the idle points went by" in said
    assert "NOT IDLE" in said


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "a meter is needed: --meter NAME"),
        (["--meter", "rap:"], 'meter "rap:": unknown kind; did you mean "rapl"'),
        (["--meter", "rapl:", "--meter", "rapl:"], "--meter: a meter is named twice"),
        (["--meter", "rapl:", "--loads", "0,2"], '--loads: "2"; allowed are numbers from 0 to 1'),
        (["--meter", "rapl:", "--loads", ","], "--loads: is empty"),
        (["--meter", "rapl:", "--loads", "nan"], '--loads: "nan"'),
        (["--meter", "rapl:", "--cores", "0"], '--cores: "0"; allowed are whole numbers from 1 to'),
        (["--meter", "rapl:", "--repeat", "0"], "--repeat: 0 is below 1"),
        (["--meter", "rapl:", "--measure", "1 ms"], '--measure: "1 ms"; allowed is 0.1 s to 24 h'),
        (["--meter", "rapl:", "--settle", "5"], "--settle: "),
        (["--meter", "rapl:", "--io", "/none"], "--io: /none is not a folder"),
        (["--from", "/none"], "/none/calibration.json: cannot be read"),
        (["--from", "/none", "--out", "/tmp"], "--out: /tmp is a folder"),
        (["--from", "/none", "--dry-run"], "--from measures nothing"),
    ],
)
def test_bad_input_is_refused(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out: list[str | Path] = [] if "--out" in words else ["--out", tmp_path / "m.toml"]
    assert run(*out, *words) == 2
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_record_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = data_of(tmp_path / "d", made.points())
    (folder / "calibration.json").write_text('{"host": 1}')
    assert run("--from", folder, "--out", tmp_path / "m.toml") == 2
    assert "calibration.json: " in capsys.readouterr().err


def test_an_estimate_is_no_meter(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--meter", "estimate:assumed", "--out", tmp_path / "m.toml") == 2
    assert "a model must be fitted to a measurement" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_data_that_is_there_is_never_written_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data_of(tmp_path / "m.data", made.points())
    assert run("--meter", "csv:none.csv", "--out", tmp_path / "m.toml") == 2
    assert "m.data: already exists" in capsys.readouterr().err


def test_a_dry_run_shows_the_plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--meter", "rapl:", "--out", tmp_path / "m.toml", "--dry-run", "--json")
    assert run(*words) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["seconds"] == 12.0 * len(told["points"])
    assert "I/O" in told["not_swept"]


@pytest.fixture
def meter(tmp_path: Path) -> Iterator[str]:
    """The name of a meter of this host whose coefficients are `TRUE_W`."""
    path = tmp_path / "power.csv"
    process = subprocess.Popen(
        [sys.executable, "-m", "calibration.simulated_meter", path, json.dumps(TRUE_W)],
        stdin=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
    )
    wait_for_lines(path, 5)
    yield f"csv:{path}"
    assert process.stdin is not None
    process.stdin.close()
    process.wait()


def wait_for_lines(path: Path, count: int) -> None:
    deadline = time.monotonic() + END_S
    while not path.exists() or len(path.read_text().splitlines()) < count:
        assert time.monotonic() < deadline, f"{path} does not grow"
        time.sleep(0.02)


def sweep(meter: str, out: Path) -> list[str]:
    """A sweep of the load alone, which takes neither root nor knobs."""
    cores = str(os.sysconf("SC_NPROCESSORS_ONLN"))
    return [
        *(sys.executable, "-m", "wattio.cli", "calibrate", "power", "--meter", meter),
        *("--out", str(out), "--cores", cores, "--settle", "0.3 s", "--measure", "1 s"),
    ]


@pytest.mark.system
@pytest.mark.alone
def test_a_sweep_on_this_host_finds_the_meters_coefficients(meter: str, tmp_path: Path) -> None:
    out = tmp_path / "model.toml"
    done = subprocess.run(sweep(meter, out), capture_output=True, text=True, check=False)
    points = DataFolder(tmp_path / "model.data").points()
    assert len(points) == 7, done.stderr
    spread = max(point.busy for point in points) - min(point.busy for point in points)
    if spread < 0.3:  # Others keep all cores busy: then nothing can be told, and that is said.
        assert done.returncode == 1 or "NOT IDLE" in done.stdout
        return
    model = _core.PowerModel(out.read_text())
    cores = points[0].active
    for use in (0.5, 1.0):
        true_w = TRUE_W["rest"] + cores * (TRUE_W["core"] + use * TRUE_W["busy"])
        # The two count the same ticks, over spans that are not quite the same.
        assert model.power_w([(cores, use, 1.0)], 0.0) == pytest.approx(true_w, rel=0.05)
    assert "not swept: I/O" in done.stdout


@pytest.mark.system
@pytest.mark.alone
def test_a_sweep_that_is_stopped_can_be_fitted(meter: str, tmp_path: Path) -> None:
    out = tmp_path / "model.toml"
    process = subprocess.Popen(sweep(meter, out), stderr=subprocess.PIPE, text=True)
    wait_for_lines(tmp_path / "model.data" / "points.csv", 5)
    process.send_signal(signal.SIGTERM)
    said = process.communicate()[1]
    assert process.returncode == 130, said
    assert f"wattio calibrate power --from {tmp_path / 'model.data'}" in said
    assert sorted(path.name for path in (tmp_path / "model.data").iterdir()) == [
        "calibration.json",
        "points.csv",
        "samples.parquet",
    ]
    assert len(DataFolder(tmp_path / "model.data").points()) >= 4
