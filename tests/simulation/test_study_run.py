"""Running of studies: what is kept, what a stop loses, and that jobs do not change results."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from places import TESTS
from wattio.analysis.histogram import WindowHistograms
from wattio.analysis.statistics import Interval
from wattio.errors import InputError, ResultError
from wattio.executors.threads import SimulationExecutor
from wattio.files import document
from wattio.kinds.simulation import execute, metrics, recompute
from wattio.kinds.simulation.compare import ratios
from wattio.kinds.simulation.folder import SimulationFolder
from wattio.results import samples, summary
from wattio.results.compare import compare, sentence, side
from wattio.simulator.simulation import Outcome, Request

from simulation.study_fake import FakeSimulator, outcome

STUDY = """\
[study]
name = "small"
kind = "simulation"
seeds = [1, 2]

[[load]]
name = "steady"
server = "dorado6000"
pattern = "Rand_RW"
pressure = 0.1
duration = "40 s"

[[load]]
name = "recorded"
server = "small"
trace = "a.bin"

[[policy]]
name = "pacer"
label = "PACER"

[[policy]]
name = "oracle"
loads = ["steady"]

[[sweep]]
policy = "PACER"
setting = "plf"
values = [0.1, 0.2]
loads = ["steady"]
"""

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def wrote_study(folder: Path) -> Path:
    (folder / "a.bin").write_bytes(b"a trace")
    path = folder / "study.toml"
    path.write_text(STUDY)
    return path


@pytest.fixture
def study(tmp_path: Path) -> Path:
    return wrote_study(tmp_path)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> SimulationFolder:
    """A result that was carried out without a stop, for looking only."""
    place = tmp_path_factory.mktemp("whole")
    return carried_out(wrote_study(place), place, jobs=1)


@pytest.fixture
def copy(whole: SimulationFolder, tmp_path: Path) -> SimulationFolder:
    """The same, to change."""
    return SimulationFolder(shutil.copytree(whole.path, tmp_path / "copy"))


def carried_out(
    study: Path, results: Path, simulator: FakeSimulator | None = None, jobs: int = 2
) -> SimulationFolder:
    simulator = simulator or FakeSimulator()
    plan = execute.prepare(document.read(study), simulator)
    folder = SimulationFolder.create(plan, results, NOW)
    executor = SimulationExecutor(simulator, jobs, lambda *_: None)
    execute.execute(folder.remaining(plan), folder, executor, simulator)
    return folder


def content(folder: SimulationFolder) -> dict[str, object]:
    """Everything of a result that must not depend on when and how it was run."""
    connection = sqlite3.connect(folder.path / "catalog.sqlite")
    rows: dict[str, object] = {
        table: sorted(connection.execute(f"SELECT * FROM {table}").fetchall())
        for table in ("runs", "iterations", "verdicts", "metrics")
    }
    connection.close()
    files: dict[str, object] = {
        path.name: path.read_bytes() for path in (folder.path / "samples").iterdir()
    }
    return rows | files


def test_result_folder_holds_what_it_should(study: Path, tmp_path: Path) -> None:
    folder = carried_out(study, tmp_path / "results")
    assert folder.path.parent == tmp_path / "results" / "small"
    assert folder.name.startswith("20260102T030405Z-")
    assert sorted(path.name for path in folder.path.iterdir()) == [
        "catalog.sqlite",
        "inputs.json",
        "lock",
        "machine.json",
        "raw",
        "report",
        "resolved.toml",
        "samples",
        "study.toml",
    ]
    assert (folder.path / "study.toml").read_text() == STUDY
    assert len(list((folder.path / "raw").iterdir())) == 12
    assert len(list((folder.path / "samples").iterdir())) == 12
    assert folder.complete()
    connection = sqlite3.connect(folder.path / "catalog.sqlite")
    phases = connection.execute("SELECT * FROM phases").fetchall()
    connection.close()
    assert len(phases) == 12
    for _, name, start_utc, end_utc, start, end in phases:
        assert name == "simulate"
        assert start_utc <= end_utc
        assert start <= end


def test_a_second_one_of_the_same_second_leaves_the_first(study: Path, tmp_path: Path) -> None:
    plan = execute.prepare(document.read(study), FakeSimulator())
    first = SimulationFolder.create(plan, tmp_path / "results", NOW)
    before = content(first)
    others = [SimulationFolder.create(plan, tmp_path / "results", NOW).name for _ in range(2)]
    assert others == [f"{first.name}-2", f"{first.name}-3"]
    assert content(first) == before
    assert not first.complete()


def test_jobs_do_not_change_results(whole: SimulationFolder, study: Path, tmp_path: Path) -> None:
    assert content(whole) == content(carried_out(study, tmp_path / "many", jobs=7))


def test_summary_compares_twins(whole: SimulationFolder) -> None:
    rows = summary.by_subject(summary.rows(whole.iterations()))
    assert [row.run.name for row in rows] == [
        "steady/native",
        "steady/PACER",
        "steady/oracle",
        "steady/PACER plf=0.1",
        "recorded/native",
        "recorded/PACER",
    ]
    native, pacer, oracle, swept, _, other = rows
    assert native.mean("saving_share") == 0
    assert oracle.mean("captured_share") == 1
    assert pacer.mean("relative_latency_us_mean") == pytest.approx(1.1, abs=1e-3)
    assert pacer.bound_kept
    assert 0 < pacer.metrics["captured_share"].mean < 1
    # The oracle was searched for another bound, or not at all: there is no share to give.
    assert "captured_share" not in swept.metrics
    assert "captured_share" not in other.metrics
    assert pacer.used == 2
    saving = pacer.metrics["saving_share"]
    assert saving.interval is not None
    assert saving.interval.low <= saving.mean


def test_ctrl_c_keeps_what_is_done_and_resume_does_the_rest(
    whole: SimulationFolder, study: Path, tmp_path: Path
) -> None:
    stopped = FakeSimulator(stop_after=5)
    plan = execute.prepare(document.read(study), stopped)
    folder = SimulationFolder.create(plan, tmp_path / "stopped", NOW)
    executor = SimulationExecutor(stopped, 1, lambda *_: None)
    with pytest.raises(KeyboardInterrupt):
        execute.execute(folder.remaining(plan), folder, executor, stopped)
    assert len(folder.iterations()) == 5
    assert not folder.complete()

    rest = FakeSimulator()
    plan = execute.resume(folder, rest)
    executor = SimulationExecutor(rest, 2, lambda *_: None)
    execute.execute(folder.remaining(plan), folder, executor, rest)
    assert len(rest.simulated) == 7
    assert content(folder) == content(whole)


def test_a_stop_does_not_relate_everything_again(
    whole: SimulationFolder, study: Path, tmp_path: Path
) -> None:
    """At 500 kept runs a Ctrl-C was followed by 50 s of silence.

    Every run's files were read again and every relation derived again, with Ctrl-C held back. Each
    is now related when it is kept, and a stop has nothing left to do.
    """

    class Counting(FakeSimulator):
        related = 0

        def relate(self, outcome: Outcome, native: Outcome, plf: float | None) -> dict[str, Any]:
            self.related += 1
            return super().relate(outcome, native, plf)

    first = Counting()
    plan = execute.prepare(document.read(study), first)
    folder = SimulationFolder.create(plan, tmp_path / "stopped", NOW)
    for count in (5, 9, 12):
        counting = Counting(stop_after=count - len(folder.iterations()))
        kept = len(folder.iterations())
        executor = SimulationExecutor(counting, 1, lambda *_: None)
        with pytest.raises(KeyboardInterrupt) if count < 12 else contextlib.nullcontext():
            execute.execute(folder.remaining(plan), folder, executor, counting)
        assert counting.related <= count - kept + 1  # One may have waited for its native twin.
    assert content(folder) == content(whole)


def test_what_a_kill_left_unrelated_is_related_by_the_next_run(study: Path, tmp_path: Path) -> None:
    folder = carried_out(study, tmp_path / "results")
    whole = content(folder)
    connection = sqlite3.connect(folder.path / "catalog.sqlite")
    connection.execute(
        "DELETE FROM metrics WHERE name LIKE 'relative_%' OR name LIKE '%_share'"
        " OR name LIKE 'bound_%'"
    )
    connection.commit()
    connection.close()
    simulator = FakeSimulator()
    executor = SimulationExecutor(simulator, 1, lambda *_: None)
    execute.execute([], folder, executor, simulator)
    assert content(folder) == whole


KILLED = """
import os, sys, threading
from pathlib import Path
from simulation.study_fake import FakeSimulator
from simulation.test_study_run import carried_out

class Killed(FakeSimulator):
    def simulate(self, request, **rest):
        if len(self.simulated) == 4:
            os._exit(9)
        return super().simulate(request, **rest)

carried_out(Path(sys.argv[1]), Path(sys.argv[2]), Killed(), jobs=1)
"""


def test_a_killed_run_loses_only_what_was_in_flight(
    whole: SimulationFolder, study: Path, tmp_path: Path
) -> None:
    results = tmp_path / "killed"
    command = [sys.executable, "-c", KILLED, str(study), str(results)]
    done = subprocess.run(command, cwd=TESTS, check=False, capture_output=True)
    assert done.returncode == 9, done.stderr.decode()
    folder = SimulationFolder(next((results / "small").iterdir()))
    assert len(folder.iterations()) == 4
    simulator = FakeSimulator()
    plan = execute.resume(folder, simulator)
    executor = SimulationExecutor(simulator, 2, lambda *_: None)
    execute.execute(folder.remaining(plan), folder, executor, simulator)
    assert len(simulator.simulated) == 8
    assert content(folder) == content(whole)


def test_resume_of_a_changed_study_is_refused(study: Path, tmp_path: Path) -> None:
    folder = carried_out(study, tmp_path / "results")
    study.write_text(STUDY.replace("0.1\n", "0.2\n"))
    with pytest.raises(ResultError, match="has changed since"):
        execute.resume(folder, FakeSimulator())


def test_a_study_with_a_mark_of_the_byte_order_is_no_other_one(study: Path, tmp_path: Path) -> None:
    study.write_text(STUDY, encoding="utf-8-sig")
    folder = carried_out(study, tmp_path / "results")
    assert folder.study_text() == STUDY
    assert folder.remaining(execute.resume(folder, FakeSimulator())) == []


def test_resume_with_a_changed_trace_is_refused(study: Path, tmp_path: Path) -> None:
    folder = carried_out(study, tmp_path / "results")
    (tmp_path / "a.bin").write_bytes(b"another trace")
    with pytest.raises(ResultError, match="would not be comparable"):
        execute.resume(folder, FakeSimulator())


def test_an_error_in_one_run_stops_the_study_and_keeps_the_others(
    study: Path, tmp_path: Path
) -> None:
    class Damaged(FakeSimulator):
        def simulate(self, request: Request, **rest: object) -> Outcome:
            if "trace" in request.load:
                raise InputError("a.bin: record 3 at byte 96 is cut off")
            return outcome(request)

    with pytest.raises(InputError, match="record 3"):
        carried_out(study, tmp_path / "results", Damaged(), jobs=1)
    folder = SimulationFolder(next((tmp_path / "results" / "small").iterdir()))
    assert {item.run.subject for item in folder.iterations()} == {"steady"}


def test_recompute_agrees_with_an_untouched_result(whole: SimulationFolder) -> None:
    again = recompute.compare(whole, FakeSimulator())
    compared, found = again.compared, again.differences
    assert compared > 200
    assert found == []


def test_a_load_is_judged_by_its_own_bounds(study: Path, tmp_path: Path) -> None:
    """A study that asked for a p99 was told whether the mean had kept its plf."""
    text = STUDY.replace('server = "small"', 'server = "small"\nbounds = ["p99 20%"]')
    text = text.replace(
        'loads = ["steady"]\n\n[[sweep]]', '[[policy]]\nname = "ondemand"\n[[sweep]]'
    )
    study.write_text(text)
    folder = carried_out(study, tmp_path / "results")
    rows = {row.run.name: row for row in summary.rows(folder.iterations())}
    # The made-up simulator slows every request alike: 1.22 times, 1.1 times.
    late, kept = rows["recorded/ondemand"], rows["recorded/PACER"]
    assert (late.bound_kept, kept.bound_kept) == (False, True)
    assert late.mean("bound_limit_ratio") == pytest.approx(1.22 / 1.2)
    assert late.mean("bound_violation_share") == 1.0
    assert kept.mean("bound_limit_ratio") == pytest.approx(1.1 / 1.2)
    assert kept.mean("bound_plf") is None
    assert kept.mean("captured_share") is not None
    assert rows["steady/PACER"].mean("bound_plf") == 0.2
    assert rows["steady/PACER"].mean("bound_kept") is None
    assert recompute.compare(folder, FakeSimulator()).differences == []


def test_recompute_finds_a_changed_metric(copy: SimulationFolder) -> None:
    connection = sqlite3.connect(copy.path / "catalog.sqlite")
    connection.execute(
        "UPDATE metrics SET value = value * 1.00000001 WHERE name = 'energy_j' AND iteration ="
        " (SELECT iteration FROM iterations WHERE run = 'steady/PACER' AND seed = 2)"
    )
    connection.commit()
    connection.close()
    again = recompute.compare(copy, FakeSimulator())
    found = again.differences
    assert {(item.run, item.seed, item.metric) for item in found} == {
        ("steady/PACER", 2, "energy_j")
    }


def test_recompute_finds_a_changed_window(copy: SimulationFolder) -> None:
    item = copy.iterations()[0]
    path = copy.path / "samples" / f"{item.identity}.parquet"
    windows, histograms = samples.read(path)
    windows["energy_j"][3] += 1.0
    samples.write(path, windows, histograms)
    again = recompute.compare(copy, FakeSimulator())
    found = again.differences
    assert {"energy_j", "power_w_mean"} <= {difference.metric for difference in found}


def test_unbalanced_energy_makes_a_run_invalid() -> None:
    request = Request("dorado6000", "native", {"pattern": "Rand_RW", "pressure": 0.1})
    run = outcome(request)
    assert [verdict.verdict for verdict in metrics.verdicts(run)] == ["VALID"]
    run.windows["energy_cores_j"][0] *= 1.001
    assert [verdict.verdict for verdict in metrics.verdicts(run)] == ["INVALID"]


def test_short_runs_are_marked() -> None:
    load = {"pattern": "Rand_RW", "pressure": 0.1}
    run = outcome(Request("dorado6000", "native", load, duration_s=3.0))
    assert {verdict.reason.split(":")[0] for verdict in metrics.verdicts(run)} == {"LOW_N"}


def test_samples_keep_absent_values_and_histograms(tmp_path: Path) -> None:
    path = tmp_path / "it's one.parquet"
    windows = {"start_s": np.array([0.0, 0.5, 1.0]), "latency_us_mean": np.array([1.0, np.nan, 3])}
    histograms = WindowHistograms(
        np.array([0, 2, 2, 3], dtype=np.uint64),
        np.array([1.0, 2.0, 3.0]),
        np.array([4, 2**63, 6], dtype=np.uint64),
    )
    samples.write(path, windows, histograms)
    first = path.read_bytes()
    found, again = samples.read(path)
    for name, column in windows.items():
        np.testing.assert_array_equal(found[name], column)
    np.testing.assert_array_equal(again.offsets, histograms.offsets)
    np.testing.assert_array_equal(again.edge, histograms.edge)
    np.testing.assert_array_equal(again.count, histograms.count)
    samples.write(path, found, again)
    assert path.read_bytes() == first


def test_compare_draws_seeds_where_there_are_several(whole: SimulationFolder) -> None:
    sides = [side(whole, f"steady/{name}") for name in ("native", "PACER")]
    found = {ratio.metric: ratio for ratio in compare(sides[0], sides[1], ratios)}
    assert found["power_w_mean"].test.endswith("over 2 pairs of seeds")
    power = found["power_w_mean"]
    assert power.ratio == pytest.approx(power.second.mean / power.first.mean)
    assert found["latency_us_mean"].ratio == pytest.approx(1.1, abs=1e-3)


def test_compare_takes_all_seeds_where_they_are_not_in_common(
    study: Path, whole: SimulationFolder, tmp_path: Path
) -> None:
    """One seed of each was compared, by the windows of its run, and called beyond noise."""
    study.write_text(STUDY.replace("[1, 2]", "[2, 3, 4, 5, 6]"))
    other = carried_out(study, tmp_path)
    for left, right, n in ((whole, other, (2, 5)), (other, whole, (5, 2))):
        found = compare(side(left, "steady/PACER"), side(right, "steady/PACER"), ratios)
        for ratio in found:
            assert (ratio.first.n, ratio.second.n) == n
            assert ratio.test.startswith("Welch's t test")
            assert ratio.test.endswith(f"over {n[0]} and {n[1]} seeds")
            assert not ratio.beyond_noise


def test_compare_draws_windows_where_there_is_one_run(study: Path, tmp_path: Path) -> None:
    study.write_text(STUDY.replace("[1, 2]", "[1]"))
    folder = carried_out(study, tmp_path)
    whole = side(folder, None)
    same = compare(whole, whole, ratios)
    assert {ratio.interval for ratio in same} == {Interval(1.0, 1.0, 1.0, 0.95)}
    sides = [side(folder, f"steady/{name}") for name in ("native", "PACER")]
    found = {ratio.metric: ratio for ratio in compare(sides[0], sides[1], ratios)}
    power = found["power_w_mean"].interval
    assert power is not None
    assert found["power_w_mean"].test == "bootstrap of moving blocks of windows, one run each"
    assert power.low < power.estimate < power.high < 1


def test_energy_is_compared_over_equal_times_only(
    study: Path, whole: SimulationFolder, tmp_path: Path
) -> None:
    """Half as long a run of the same policy was called 50 % better by energy."""
    study.write_text(STUDY.replace("40 s", "20 s"))
    other = carried_out(study, tmp_path)
    for run in ("steady/PACER", "recorded/PACER"):
        found = compare(side(whole, run), side(other, run), ratios)
        is_same = run == "recorded/PACER"
        assert ("energy_j" in {ratio.metric for ratio in found}) == is_same
        assert {ratio.tests for ratio in found} == {len(found)}
        told = " Unequal simulated times: energy is left out."
        assert sentence(found).endswith(told) != is_same
        assert "power_w_mean" in {ratio.metric for ratio in found}


def test_compare_names_the_nearest_run(whole: SimulationFolder) -> None:
    with pytest.raises(InputError, match='did you mean "steady/PACER"'):
        side(whole, "steady/PACR")


def test_a_folder_that_is_no_result_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ResultError, match="is not a result folder"):
        SimulationFolder(tmp_path)
