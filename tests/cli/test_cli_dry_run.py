"""`--dry-run` and `check`: how much there is to run, what is lacking, what could never fit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from places import ROOT
from simulation.study_fake import FakeSimulator
from simulation.test_fleet import STUDY as FLEET
from wattio.cli import dry_run
from wattio.simulator import native as simulator_module

from cli.test_cli import STUDY, called

MEASURED = """\
[study]
name = "made"
kind = "measurement"
repetitions = 1

[[system]]
name = "here"
kind = "local"
options = {{ {options} }}

[[workload]]
name = "jobs"
kind = "fio"

[[workload.options.jobs]]
name = "seq"
rw = "write"
bs = "1 MiB"
size = "{size}"

[[meter]]
name = "{meter}"
covers = ["server"]
role = "total"
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(simulator_module, "NativeSimulator", FakeSimulator)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "study.toml").write_text(STUDY)
    return tmp_path


def test_a_trial_that_waited_for_a_core_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine the guess for one study went from 1.7 to 8.5 minutes."""
    clock_s, waits_s = [0.0], [30.0, 0.5, 9.0, 0.25]

    def tried() -> None:
        clock_s[0] += waits_s.pop(0)

    monkeypatch.setattr("wattio.cli.dry_run.time.monotonic", lambda: clock_s[0])
    assert dry_run._least_time(tried, 0.5) == 0.5
    assert not waits_s


def measured(place: Path, size: str, options: str = "", meter: str = "estimate:assumed") -> str:
    text = MEASURED.format(size=size, options=options, meter=meter)
    (place / "measured.toml").write_text(text)
    return "measured.toml"


def test_a_dry_run_of_a_simulation_tells_its_runs_and_makes_nothing(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was for measurements only, and refused."""
    assert called("run", "study.toml", "--dry-run", "--jobs", "2") == 0
    told = capsys.readouterr().out
    assert "policies: native, PACER" in told
    assert "2 runs; with 2 at a time about 1 s, by a trial" in told
    assert called("run", "study.toml", "--dry-run", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["runs"], found["loads"], found["seeds"]) == (2, ["steady"], 1)
    assert found["seconds_guess"] > 0
    assert [path.name for path in place.iterdir()] == ["study.toml"]


def test_a_dry_run_of_what_is_left(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(simulator_module, "NativeSimulator", lambda: FakeSimulator(stop_after=1))
    assert called("run", "study.toml", "--jobs", "1") == 130
    monkeypatch.setattr(simulator_module, "NativeSimulator", FakeSimulator)
    capsys.readouterr()
    (result,) = (place / "results" / "small").iterdir()
    assert called("run", "--resume", str(result), "--dry-run", "--json") == 0
    assert json.loads(capsys.readouterr().out)["runs"] == 1


def test_a_dry_run_of_what_is_done(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An empty table, and a second by a trial of nothing."""
    assert called("run", "study.toml", "--no-report") == 0
    capsys.readouterr()
    (result,) = (place / "results" / "small").iterdir()
    assert called("run", "--resume", str(result), "--dry-run") == 0
    assert capsys.readouterr().out == "small: nothing is left to run; every run is done\n"


def test_a_dry_run_of_a_fleet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fleet.toml").write_text(FLEET)
    assert called("run", "fleet.toml", "--dry-run", "--jobs", "1") == 0
    assert "batches; with 1 at a time about" in capsys.readouterr().out
    assert [path.name for path in tmp_path.iterdir()] == ["fleet.toml"]


def test_a_trace_lasts_as_long_as_it_lasts(capsys: pytest.CaptureFixture[str]) -> None:
    study = str(ROOT / "studies" / "quickstart")
    assert called("run", study, "--dry-run", "--json") == 0
    assert json.loads(capsys.readouterr().out)["seconds_guess"] > 0


def test_what_a_measurement_lacks_is_said_with_its_plan(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A plan of 710 minutes was shown of disks and frequencies that were not there."""
    meter = "hwmon:nosuch/power1"
    study = measured(place, "1 MiB", 'path = "/nonexistent"', meter)
    assert called("run", study, "--dry-run") == 1
    captured = capsys.readouterr()
    assert "3 iterations, about" in captured.out
    assert "missing: /nonexistent: is not a folder" in captured.err
    assert "missing: hwmon:nosuch/power1" in captured.err
    assert called("run", study, "--dry-run", "--json") == 1
    assert len(json.loads(capsys.readouterr().out)["lacking"]) >= 2


def test_guesses_of_a_measurement_are_whole_seconds(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`5.342` stood beside `10`, as if it were known to a millisecond."""
    study = measured(place, "700 MiB")
    assert called("run", study, "--dry-run") == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    guesses = [row[-1] for row in rows if row and row[0].isdigit() and "iterations," not in row]
    assert len(guesses) == 3
    assert all(guess.isdigit() for guess in guesses), guesses


def test_what_a_scale_leaves_out_and_the_host_lacks_is_said(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A small trial passed; that the study's frequencies need cpufreq came out on the day."""
    study = measured(place, "1 MiB", 'path = "/nonexistent"')
    with Path(study).open("a") as file:
        file.write('[scale.small]\nsystem = [{ name = "here", kind = "local" }]\n')
    assert called("run", study, "--scale", "small", "--dry-run") == 0
    assert "missing without --scale: /nonexistent: is not" in capsys.readouterr().err
    assert called("run", study, "--scale", "small", "--dry-run", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["lacking"] == []
    assert len(told["lacking_without_scale"]) == 1


def test_jobs_are_for_simulations(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert called("run", measured(place, "1 MiB"), "--jobs", "3", "--dry-run") == 2
    assert "--jobs is for studies of kind simulation or fleet" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "size", "message"),
    [
        ("", "900 TiB", "needs 900 TiB for its files, but the file system of"),
        ('path = "/"', "900 TiB", "needs 900 TiB for its files, but / has"),
        ('size = "64 MiB"', "200 MiB", "needs 200 MiB for its files, but system here has only"),
    ],
)
def test_what_never_fits_is_found_by_check_and_refused_by_run(
    options: str, size: str, message: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """fio's `size = "900 TiB"` passed, and filled the disk."""
    study = measured(place, size, options)
    assert called("check", study) == 2
    assert f"measured.toml:11: workload[1]: {message}" in capsys.readouterr().err
    assert called("run", study, "--dry-run") == 1
    assert "for its files, but" in capsys.readouterr().err
    assert [path.name for path in place.iterdir() if path.is_dir()] == []
    assert called("check", measured(place, "1 MiB", options)) == 0


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("local", 'size = "900 TiB"'),
        ("nbd", 'server = "nbdkit", form = "raw", size = "900 TiB"'),
        ("nbd", 'size = "900 TiB"'),
        ("nbd", 'server = "wattio-target", size = "900 TiB"'),
    ],
)
def test_a_disk_that_no_file_system_here_holds_is_found_by_check(
    kind: str, options: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = Path(measured(place, "1 MiB", options))
    study.write_text(study.read_text().replace('kind = "local"', f'kind = "{kind}"'))
    assert called("check", str(study)) == 2
    told = capsys.readouterr().err
    assert "measured.toml:6: system[1]: size: 900 TiB, but the file system of" in told
    assert told.count("\n") == 1
    small = study.read_text().replace("900 TiB", "64 MiB")
    study.write_text(small)
    assert called("check", str(study)) == 0


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("mdtest", 'items = 1_000_000_000, bytes = "64 MiB"'),
        ("mpi_meta", 'items = 100_000_000, shape = "tree", branch = 8, depth = 5'),
    ],
)
def test_small_files_that_never_fit_are_found_by_check(
    kind: str, options: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """10^9 files of 64 MiB were ok."""
    study = Path(measured(place, "1 MiB"))
    head, _, _ = study.read_text().partition("[[workload]]")
    tail = f'[[workload]]\nname = "w"\nkind = "{kind}"\noptions = {{ {options} }}\n'
    meter = study.read_text().partition("[[meter]]")[2]
    study.write_text(f"{head}{tail}[[meter]]{meter}")
    assert called("check", str(study)) == 2
    assert "workload[1]: needs " in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["simulation", "measurement"])
def test_a_trace_that_is_cut_off_is_found_by_check(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    whole = (ROOT / "traces" / "pgbench.wtrace").read_bytes()
    (tmp_path / "a.wtrace").write_bytes(whole[:4000])
    if kind == "simulation":
        text = STUDY.replace('pattern = "Rand_RW"\npressure = 0.1\nduration = "40 s"\n', "")
        text = text.replace('server = "dorado6000"\n', 'server = "small"\ntrace = "a.wtrace"\n')
        at = "study.toml:8: load[1].trace: "
    else:
        text = MEASURED.format(size="1 MiB", options="", meter="estimate:assumed")
        text = (
            text[: text.index("[[workload]]")]
            + ('[[workload]]\nname = "t"\nkind = "trace"\noptions = { trace = "a.wtrace" }\n')
            + text[text.index("[[meter]]") :]
        )
        at = "study.toml:11: workload[1]: "
    (tmp_path / "study.toml").write_text(text)
    assert called("check", "study.toml") == 2
    told = capsys.readouterr().err
    assert told.startswith(f"wattio: {at}")
    assert "the file is cut" in told
    (tmp_path / "a.wtrace").write_bytes(whole)
    assert called("check", "study.toml") == 0


def test_dumps_for_which_there_is_no_room_are_refused_before_anything_is_made(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`wattio hpcio run` looked at memory alone, and filled the disk."""
    steps = ("--size", "document", "--steps", "10000000", "--output-every", "1")
    assert called("hpcio", "run", "--out", "out", "--buffer", "16 MiB", *steps) == 2
    told = capsys.readouterr().err
    assert "wattio: --out: out: " in told
    assert f"TiB will be written, but {place} has only " in told
    assert not (place / "out").exists()
