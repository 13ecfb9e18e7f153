"""Studies are run by the command line as a user runs it, with an estimate in place of a meter."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from wattio.cli import run_measurement
from wattio.errors import HostError, InputError
from wattio.files import document
from wattio.kinds.measurement import execute, preflight, recompute, rederive
from wattio.kinds.measurement import plan as planning
from wattio.kinds.measurement.folder import MeasurementFolder
from wattio.kinds.measurement.overrides import Asked

PAUSE_S = 0.02
"""Between two looks at something that is waited for, with a deadline."""
HANGS_S = 300.0

ASSUMED_METER = """\
[[meter]]
name = "estimate:assumed"
covers = ["host"]
period = "0.2 s"

# A busy machine is late with its samples.
[rules]
gap_intervals = 50
missing_share_max = 0.9
"""

STUDY = (
    """\
[study]
name = "trial"
kind = "measurement"
repetitions = 2
idle_before = "0.5 s"
idle_after = "0 s"
settle = "0 s"
drop_caches = false
repeat_invalid = 1

[[system]]
name = "local"

[[workload]]
name = "wait"
kind = "command"
options = { run = ["./work.sh"], guess = "1 s" }

"""
    + ASSUMED_METER
)

WORK = """\
#!/bin/sh
echo "begin write" >&$WATTIO_PHASES
dd if=/dev/zero of=data bs=1M count=8 2>/dev/null
sleep 0.5
echo "end write" >&$WATTIO_PHASES
echo "result write bytes=8388608" >&$WATTIO_PHASES
"""


HOLD = """\
echo >> {folder}/runs
[ "$(wc -l < {folder}/runs)" -ne {run} ] || until [ -e {folder}/go ]; do sleep 0.1; done
"""


def work_held(run: int, folder: Path) -> str:
    """Work of which one run, by its number, goes on until there is a file `go` or it is ended.

    What is done to a study meanwhile finds it at work, however late it comes.
    """
    return WORK + HOLD.format(run=run, folder=folder)


def study(folder: Path, text: str = STUDY, work: str = WORK) -> Path:
    path = folder / "study.toml"
    path.write_text(text)
    (folder / "work.sh").write_text(work)
    (folder / "work.sh").chmod(0o755)
    return path


def wattio(*words: str | Path, folder: Path, before: Sequence[str] = ()) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*before, sys.executable, "-m", "wattio.cli", *map(str, words)],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    try:
        out, err = process.communicate(timeout=HANGS_S)
    except subprocess.TimeoutExpired:
        # Others would wait for what it holds.
        process.kill()
        raise
    return process.returncode, out, err


def ended_usable(path: Path, folder: Path) -> str:
    """A study has run, and all of it is usable: what it printed."""
    code, out, err = ended(wattio("run", path, folder=folder))
    assert code == 0, err
    return out


def result(folder: Path) -> Path:
    (only,) = (folder / "results").glob("trial/*")
    return only


def wait_for(folder: Path, count: int, process: subprocess.Popen[str]) -> MeasurementFolder:
    """Wait until so many iterations are kept."""
    end_s = time.monotonic() + 90
    while True:
        found = list((folder / "results").glob("trial/*/machine.json"))
        if found:
            kept = MeasurementFolder(found[0].parent)
            if len(kept.iterations()) >= count:
                return kept
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end_s, "it takes too long"
        threading.Event().wait(PAUSE_S)


def samplers(folder: Path) -> set[int]:
    """Sampling processes of studies that were started in a folder."""
    found = set()
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            own = entry.with_name("cwd").readlink() == folder
            if own and b"wattio.recording.sampler" in entry.read_bytes():
                found.add(int(entry.parent.name))
        except OSError:
            continue
    return found


AWAY = """
[[system]]
name = "orangefs"
optional = true
options = { prefix = "/nonexistent" }
"""


@pytest.mark.slow
def test_optional_systems_that_are_not_there_are_left_out_and_stay_so(tmp_path: Path) -> None:
    path = study(tmp_path, STUDY + AWAY)
    code, out, err = ended(wattio("run", path, "--dry-run", "--json", folder=tmp_path))
    assert code == 0, err
    assert {entry["system"] for entry in json.loads(out)["iterations"]} == {"local"}
    assert "left out: orangefs: " in err
    process = wattio("run", path, "--no-report", folder=tmp_path)
    folder = wait_for(tmp_path, 1, process)
    process.kill()
    ended(process)
    code, _, err = ended(wattio("run", "--resume", folder.path, "--no-report", folder=tmp_path))
    assert code == 0, err
    assert {item.run.system for item in folder.iterations()} == {"local"}
    path.write_text(path.read_text().replace("optional = true\n", ""))
    code, _, err = ended(wattio("run", path, "--no-report", folder=tmp_path))
    assert code == 2
    assert "left out" not in err


def test_a_study_runs_and_is_recomputed_to_the_last_digit(tmp_path: Path) -> None:
    path = study(tmp_path)
    code, out, err = ended(wattio("run", path, "--no-report", "--json", folder=tmp_path))
    assert code == 0, err
    told: dict[str, Any] = json.loads(out)
    assert told["complete"]
    (written,) = [row for row in told["summary"] if row["phase"] == "write"]
    assert written["iterations"] == {"valid": 0, "warned": 2, "invalid": 0}
    assert written["metrics"]["bytes"]["mean"] == 8388608
    assert "energy_j" not in written["metrics"]
    assert written["metrics"]["estimated_energy_j"]["n"] == 2
    folder = MeasurementFolder(result(tmp_path))
    again = recompute.compare(folder)
    compared, differences = again.compared, again.differences
    assert compared > 50
    assert differences == []
    assert folder.sessions() == ["0001"]
    assert not list((folder.path / "recording").iterdir())
    kept = [folder.record(item.identity) for item in folder.iterations()]
    assert [set(record.others) for record in kept] == [set(record.steps) for record in kept]


@pytest.mark.slow
def test_a_changed_raw_file_is_noticed(tmp_path: Path) -> None:
    path = study(tmp_path)
    assert ended(wattio("run", path, "--no-report", folder=tmp_path))[0] == 0
    folder = MeasurementFolder(result(tmp_path))
    work = next(item for item in folder.iterations() if item.run.subject == "wait")
    record = folder.raw(work.identity) / "iteration.json"
    content = json.loads(record.read_text())
    content["phases"][0]["span"]["end"][1] += 1_000_000
    record.write_text(json.dumps(content))
    again = recompute.compare(folder)
    differences = again.differences
    assert "write.seconds" in {difference.metric for difference in differences}


@pytest.mark.slow
def test_raw_files_that_cannot_be_read_make_an_iteration_invalid(tmp_path: Path) -> None:
    path = study(tmp_path)
    assert ended(wattio("run", path, "--no-report", folder=tmp_path))[0] == 0
    folder = MeasurementFolder(result(tmp_path))
    work = next(item for item in folder.iterations() if item.run.subject == "wait")
    for raw in (folder.raw(work.identity) / "run").iterdir():
        raw.write_text("no such thing")
    rederive.put_derived(folder)
    again = next(item for item in folder.iterations() if item.identity == work.identity)
    assert not again.usable
    assert again.verdicts[0].reason.startswith("UNREADABLE: run/")
    assert recompute.compare(folder).differences == []


@pytest.mark.parametrize(
    "number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)]
)
def test_a_stopped_study_says_how_to_go_on(tmp_path: Path, number: signal.Signals) -> None:
    path = study(tmp_path, work=work_held(2, tmp_path))
    process = wattio("run", path, "--no-report", folder=tmp_path)
    folder = wait_for(tmp_path, 2, process)
    process.send_signal(number)
    code, _, err = ended(process)
    assert code == 130
    assert f"continue with: wattio run --resume results/trial/{folder.path.name}" in err
    assert not list((folder.path / "raw").glob(".*"))
    before = {item.identity for item in folder.iterations()}
    (tmp_path / "go").touch()
    code, _, err = ended(wattio("run", "--resume", folder.path, "--no-report", folder=tmp_path))
    assert code == 0, err
    after = folder.iterations()
    assert len(after) == 3
    assert before <= {item.identity for item in after}


def test_a_study_goes_on_in_the_scratch_folder_that_it_was_begun_with(tmp_path: Path) -> None:
    path = study(tmp_path, work=f"{work_held(2, tmp_path)}pwd >> {tmp_path}/log\n")
    process = wattio("run", path, "--scratch", "fast", "--no-report", folder=tmp_path)
    folder = wait_for(tmp_path, 2, process)
    process.send_signal(signal.SIGINT)
    assert ended(process)[0] == 130
    (tmp_path / "log").write_text("")
    code, _, err = ended(
        wattio("run", "--resume", folder.path, "--scratch", "slow", folder=tmp_path)
    )
    assert code == 2
    assert "--scratch slow: " in err
    assert f"was started with the scratch folder {tmp_path / 'fast'}" in err
    assert not (tmp_path / "slow").exists()
    (tmp_path / "go").touch()
    code, _, err = ended(wattio("run", "--resume", folder.path, "--no-report", folder=tmp_path))
    assert code == 0, err
    places = (tmp_path / "log").read_text().splitlines()
    assert places
    assert all(Path(place).is_relative_to(tmp_path / "fast") for place in places)


@pytest.mark.parametrize(
    ("begun", "now", "taken"),
    [
        ("a", "a", True),
        ("a", "b", False),
        ("a", None, True),
        (None, "b", False),
        (None, None, True),
        ("older", "b", True),
    ],
)
def test_only_the_scratch_folder_of_the_beginning_is_taken(
    begun: str | None, now: str | None, taken: bool, tmp_path: Path
) -> None:
    given = document.read(study(tmp_path))
    first = None if begun is None else tmp_path / begun
    plan, _ = run_measurement.start(given, None, tmp_path, Asked(), first).plan()
    folder = MeasurementFolder.create(plan, tmp_path / "results", datetime(2026, 1, 2, tzinfo=UTC))
    if begun == "older":
        inputs = folder.inputs()
        del inputs["scratch"]
        (folder.path / "inputs.json").write_text(json.dumps(inputs))
    again = None if now is None else tmp_path / now
    start = run_measurement.start(None, folder.path, tmp_path, Asked(), again)
    refused = pytest.raises(InputError, match="leave --scratch out")
    with contextlib.nullcontext() if taken else refused:
        assert start.plan()[0].iterations == plan.iterations


@pytest.mark.slow
def test_a_killed_study_loses_the_iteration_in_flight_and_nothing_else(tmp_path: Path) -> None:
    path = study(tmp_path, work=work_held(2, tmp_path))
    process = wattio("run", path, "--no-report", folder=tmp_path)
    folder = wait_for(tmp_path, 2, process)
    process.kill()
    ended(process)
    kept = {item.identity: item.by_phase for item in folder.iterations()}
    (tmp_path / "go").touch()
    code, _, err = ended(wattio("run", "--resume", folder.path, "--no-report", folder=tmp_path))
    assert code == 0, err
    again = {item.identity: item.by_phase for item in folder.iterations()}
    assert len(again) == 3
    for identity in kept:
        assert again[identity].keys() == kept[identity].keys()
    assert folder.sessions() == ["0001", "0002"]
    assert recompute.compare(folder).differences == []
    end_s = time.monotonic() + 20
    while samplers(tmp_path):
        assert time.monotonic() < end_s, "a sampling process outlived its study"
        threading.Event().wait(PAUSE_S)


@pytest.mark.slow
def test_two_at_once_do_not_work_in_one_folder(tmp_path: Path) -> None:
    path = study(tmp_path, work=work_held(1, tmp_path))
    process = wattio("run", path, "--no-report", folder=tmp_path)
    folder = wait_for(tmp_path, 1, process)
    code, _, err = ended(wattio("run", "--resume", folder.path, folder=tmp_path))
    assert code == 2
    assert "another wattio is using it" in err
    (tmp_path / "go").touch()
    assert ended(process)[0] == 0
    assert recompute.compare(folder).differences == []


@pytest.mark.slow
def test_a_study_stops_when_nothing_is_recorded_any_more(tmp_path: Path) -> None:
    path = study(tmp_path, work=work_held(1, tmp_path))
    process = wattio("run", path, "--no-report", folder=tmp_path)
    folder = wait_for(tmp_path, 1, process)
    for sampler in samplers(tmp_path):
        if f"\nPPid:\t{process.pid}\n" in Path(f"/proc/{sampler}/status").read_text():
            os.kill(sampler, signal.SIGKILL)
    (tmp_path / "go").touch()
    code, _, err = ended(process)
    assert code == 2
    assert f"continue with: wattio run --resume {folder.path.relative_to(tmp_path)}" in err
    assert all(item.usable for item in folder.iterations())
    assert ended(wattio("run", "--resume", folder.path, "--no-report", folder=tmp_path))[0] == 0
    assert recompute.compare(folder).differences == []


@pytest.mark.slow
def test_a_lag_that_the_study_gives_is_waited_for(tmp_path: Path) -> None:
    text = STUDY.replace('period = "0.2 s"', 'period = "0.2 s"\nlag = "2 s"')
    code, _, err = ended(wattio("run", study(tmp_path, text), "--no-report", folder=tmp_path))
    assert code == 0, err
    assert {item.attempt for item in MeasurementFolder(result(tmp_path)).iterations()} == {0}


@pytest.mark.slow
def test_a_changed_study_is_not_resumed(tmp_path: Path) -> None:
    path = study(tmp_path)
    assert ended(wattio("run", path, "--no-report", folder=tmp_path))[0] == 0
    path.write_text(STUDY.replace("repetitions = 2", "repetitions = 3"))
    code, _, err = ended(wattio("run", "--resume", result(tmp_path), folder=tmp_path))
    assert code == 2
    assert "has changed since" in err


def test_a_tool_that_fails_is_invalid_and_tried_again(tmp_path: Path) -> None:
    path = study(tmp_path, work="#!/bin/sh\necho no such disk >&2\nexit 3\n")
    code, out, err = ended(wattio("run", path, "--no-report", "--json", folder=tmp_path))
    assert code == 1, err
    told = json.loads(out)
    assert len(told["invalid"]) == 2
    assert "no such disk" in told["invalid"][0]["reasons"][0]
    attempts = [item.attempt for item in MeasurementFolder(result(tmp_path)).iterations()]
    assert sorted(attempts) == [0, 0, 0, 1, 1]


@pytest.mark.slow
def test_a_record_that_is_lost_is_measured_again(tmp_path: Path) -> None:
    """A machine that lost power once left an empty record, and nothing could be done with it."""
    path = study(tmp_path)
    assert ended(wattio("run", path, "--no-report", folder=tmp_path))[0] == 0
    folder = MeasurementFolder(result(tmp_path))
    lost = next(item for item in folder.iterations() if item.run.subject == "wait")
    (folder.raw(lost.identity) / "iteration.json").write_text("")
    rederive.put_derived(folder)
    assert recompute.compare(folder).differences == []
    code, _, err = ended(wattio("run", "--resume", folder.path, "--no-report", folder=tmp_path))
    assert code == 0, err
    again = [item for item in folder.iterations() if item.repetition == lost.repetition]
    assert sorted(item.usable for item in again if item.run.subject == "wait") == [False, True]


def test_a_missing_program_is_told_without_a_trace(tmp_path: Path) -> None:
    path = study(tmp_path, STUDY.replace("./work.sh", "no-such-program"))
    code, _, err = ended(wattio("run", path, folder=tmp_path))
    assert code == 2
    assert err.startswith('wattio: "no-such-program" is not a program')
    assert "Traceback" not in err


def test_what_is_missing_when_a_study_goes_on_is_told_before_anything_is_measured(
    tmp_path: Path,
) -> None:
    """Nothing was looked at again: what had gone meanwhile made every iteration INVALID."""
    made = planning.make(document.read(study(tmp_path)))
    folder = MeasurementFolder.create(made, tmp_path / "results", datetime.now(UTC))
    (tmp_path / "work.sh").unlink()
    code, _, err = ended(wattio("run", "--resume", folder.path, "--no-report", folder=tmp_path))
    assert code == 2
    assert '"./work.sh" is not a program' in err
    assert f"0 of 3 iterations are kept in {folder.path}" in err
    assert folder.iterations() == []


def test_only_what_is_left_has_to_be_there_when_a_study_goes_on(tmp_path: Path) -> None:
    more = f"""
[[system]]
name = "taken away"
kind = "local"
options = {{ path = "{tmp_path}/nowhere" }}

[[workload]]
name = "gone"
kind = "command"
options = {{ run = ["no-such-program"] }}
"""
    made = planning.make(document.read(study(tmp_path, STUDY + more)))
    for system, load, missing in (
        ("local", "gone", "no-such-program"),
        ("taken away", "wait", "nowhere: is not a folder"),
    ):
        runs = [item for item in made.iterations if item.run.system == system]
        with pytest.raises(HostError, match=missing):
            preflight.probe_left(made, [one for one in runs if one.run.subject == load], tmp_path)
    runs = [item for item in made.iterations if item.run.name == "wait/local, 1 client"]
    preflight.probe_left(made, runs, tmp_path)


def test_a_terminal_that_goes_away_ends_a_study_in_good_order(tmp_path: Path) -> None:
    path = study(tmp_path, work=work_held(1, tmp_path))
    process = wattio("run", path, "--no-report", folder=tmp_path)
    folder = wait_for(tmp_path, 1, process)
    process.send_signal(signal.SIGHUP)
    code, _, err = ended(process)
    assert code == 130
    assert "continue with: wattio run --resume" in err
    assert not (folder.path / "scratch").exists()


def test_a_terminal_that_goes_away_ends_no_study_that_nohup_started(tmp_path: Path) -> None:
    path = study(tmp_path)
    process = wattio("run", path, "--no-report", folder=tmp_path, before=("nohup",))
    folder = wait_for(tmp_path, 1, process)
    process.send_signal(signal.SIGHUP)
    code, _, err = ended(process)
    assert code == 0, err
    assert len(folder.iterations()) == 3


@pytest.mark.slow
def test_warming_up_is_not_kept(tmp_path: Path) -> None:
    path = study(
        tmp_path,
        STUDY.replace("repetitions = 2", "repetitions = 1\nwarm_up = 2"),
        WORK + f"echo ran >> {tmp_path}/log\n",
    )
    code, _, err = ended(wattio("run", path, "--no-report", folder=tmp_path))
    assert code == 0, err
    assert (tmp_path / "log").read_text() == "ran\n" * 3
    folder = MeasurementFolder(result(tmp_path))
    assert len(folder.iterations()) == 2
    assert not list((folder.path / "raw").glob(".*"))


def test_an_unknown_meter_leaves_no_half_made_folder(tmp_path: Path) -> None:
    path = study(tmp_path, STUDY.replace("estimate:assumed", "estimate:none.toml"))
    code, _, err = ended(wattio("run", path, folder=tmp_path))
    assert code == 2
    assert "none.toml" in err
    assert not (tmp_path / "results").exists()


@pytest.mark.slow
def test_nothing_is_left_to_run_twice(tmp_path: Path) -> None:
    path = study(tmp_path)
    assert ended(wattio("run", path, "--no-report", folder=tmp_path))[0] == 0
    folder = MeasurementFolder(result(tmp_path))
    plan = execute.resume(folder)
    assert execute.remaining(plan, folder) == []
    code, _, _ = ended(wattio("run", "--resume", folder.path, "--no-report", folder=tmp_path))
    assert code == 0
    assert folder.sessions() == ["0001"]
