"""Server descriptions of a target: fits of made points, files of points, quiet windows."""

from __future__ import annotations

import json
import tomllib
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from wattio import _core, cli
from wattio.calibration.fit import CalibrationFailed
from wattio.calibration.target import comparison, description, points
from wattio.calibration.target.fit import Demand, Waking, fit, passing_us, woken
from wattio.calibration.target.folder import DataFolder, Record
from wattio.calibration.target.points import DURABLE, MISS, MIX, READ, WRITE, Point
from wattio.calibration.target.quiet_windows import WINDOW_NS, Mark, point, quiet
from wattio.calibration.target.threads import Did, Threads
from wattio.errors import InputError, SystemFailed
from wattio.workloads.nbd_load import Answers, OpenLoad

TRUE = {
    READ: Demand(2.5, 3e-4),
    WRITE: Demand(9.0, 6e-4),
    MISS: Demand(8.0, 3.5e-4),
    DURABLE: Demand(30.0, 8e-4),
}
DEVICE = {MISS: Demand(60.0, 1e-3), DURABLE: Demand(150.0, 2e-3)}
WAKING = Waking(wait_us=11.0, work_us=20.0, cold_us=15.0, cooling_us=120.0)
NETWORK_US = 6.0
RATES = {READ: (500, 2e3, 1e4, 3e4, 6e4), WRITE: (1e3, 1e4), MISS: (500, 3e3), DURABLE: (300, 1e3)}


def made(kind: str, rate: float, size: int = 4096, number: int = 0, *, held_out: int = 0) -> Point:
    """A point as the model of the fit has it, without any noise."""
    ways = 2 if kind in DEVICE else 1
    service_us, work_us = TRUE[kind].at(size), WAKING.work_at(ways * rate)
    setup_us = WAKING.wait_us + work_us
    wakes = ways * woken(ways * rate, service_us / ways, setup_us)
    latency_us = NETWORK_US + ways * passing_us(ways * rate, service_us / ways, setup_us)
    latency_us += DEVICE[kind].at(size) if kind in DEVICE else 0.0
    requests = 1_000_000
    return Point(
        number=number,
        held_out=held_out,
        kind=kind,
        size_bytes=size,
        read_share=float(kind in (READ, MISS)),
        rate_per_s=rate,
        windows=100,
        kept=80,
        span_s=requests / rate,
        requests=requests,
        reactors_s=(service_us + work_us * wakes) * requests / 1e6,
        other_s=0.0,
        slices=round(wakes * requests),
        wait_s=0.0,
        latency_us=latency_us,
        deviation_us=20.0,
        late_us=0.5,
    )


def all_points() -> list[Point]:
    return [
        made(kind, rate if size == 4096 else rate / 4, size)
        for kind, rates in RATES.items()
        for rate in rates
        for size in (4096, 65536)
    ]


def record(**changes: object) -> Record:
    content: dict[str, Any] = {
        "host": "storage-1",
        "begun": "2026-01-31T12:00:00+00:00",
        "version": "wattio-target 0.1.0",
        "processor": "a processor",
        "cores": 4,
        "reactors": 1,
        "cache_bytes": 256 << 20,
        "write_buffer_bytes": 16 << 20,
        "size_bytes": 256 << 20,
        "device": "/dev/sda (ext4)",
        "measure_s": 2.0,
        "repeat": 1,
        "seed": 1,
        "saturated_per_s": {"read 4096": 1e5},
    }
    return Record.model_validate({**content, **changes})


def data_of(path: Path, given_points: list[Point], **changes: object) -> Path:
    data = DataFolder(path)
    data.create()
    data.keep(record(**changes))
    for one in given_points:
        data.add(one)
    return path


def run(*words: str | Path) -> int:
    with pytest.raises(SystemExit) as left:
        cli.main(["calibrate", "target", *map(str, words)])
    assert isinstance(left.value.code, int)
    return left.value.code


def test_the_fit_recovers_what_points_were_made_of() -> None:
    found = fit(all_points(), reactors=1)
    assert found.waking.wait_us == pytest.approx(WAKING.wait_us, rel=0.02)
    assert found.waking.cooling_us == pytest.approx(WAKING.cooling_us, rel=0.1)
    for rate in (500.0, 5e3, 5e4):
        assert found.waking.work_at(rate) == pytest.approx(WAKING.work_at(rate), rel=0.01)
    assert found.network_us == pytest.approx(NETWORK_US, rel=0.05)
    for kind, demand in TRUE.items():
        for size in (4096, 65536):
            assert found.demands[kind].at(size) == pytest.approx(demand.at(size), rel=0.02), kind
    for kind, demand in DEVICE.items():
        assert found.device[kind].at(4096) == pytest.approx(demand.at(4096), rel=0.02)
    assert found.demand_error < 0.01
    assert found.latency_error < 0.01


def test_points_without_an_answer_in_a_quiet_window_do_not_count() -> None:
    """On a host with five times as much to run as cores the fit divided by a latency of 0."""
    several = all_points()
    silent = [replace(several[0], latency_us=0.0), replace(several[1], reactors_s=0.0)]
    found = fit([*several, *silent, replace(silent[0], rate_per_s=700.0)], reactors=1)
    assert found.waking.work_at(1e4) == pytest.approx(WAKING.work_at(1e4), rel=0.01)


def test_repetitions_that_others_disturbed_do_not_count() -> None:
    """Of five repetitions of each load, two were not quiet, and one took three times as long."""
    several = all_points()
    disturbed = [
        replace(one, reactors_s=3 * one.reactors_s, slices=2 * one.slices, latency_us=500.0)
        for one in several
    ]
    loud = [replace(one, kept=10) for one in disturbed]
    found = fit([*loud, *disturbed, *loud, *several, *several], reactors=1)
    assert found.waking.work_at(1e4) == pytest.approx(WAKING.work_at(1e4), rel=0.01)
    assert found.demands[READ].at(4096) == pytest.approx(TRUE[READ].at(4096), rel=0.02)
    assert found.residuals[0].point.windows == 300


@pytest.mark.parametrize(
    ("left", "what"),
    [
        ([], "reads from memory at 3 rates"),
        ([p for p in all_points() if p.kind == READ and p.rate_per_s == 1e4], "at 3 rates"),
        ([p for p in all_points() if p.kind != MISS], "no points of reads of the device"),
        ([p for p in all_points() if p.kind in (READ, MISS)], "no points of writes"),
    ],
)
def test_points_that_do_not_do_are_refused(left: list[Point], what: str) -> None:
    with pytest.raises(CalibrationFailed, match=what):
        fit(left, reactors=1)


@given(rate=st.floats(1, 9e4), service_us=st.floats(0.1, 10), setup_us=st.floats(0, 100))
def test_waking_is_rarer_the_more_there_is_to_do(
    rate: float, service_us: float, setup_us: float
) -> None:
    share = woken(rate, service_us, setup_us)
    assert 0 <= share <= 1
    assert woken(1.1 * rate, service_us, setup_us) <= share
    assert passing_us(rate, service_us, setup_us) >= service_us + setup_us / 2
    assert passing_us(rate, service_us, 0) == pytest.approx(
        passing_us(rate, service_us, 1e-9), rel=1e-6
    )


def test_the_simulator_gives_what_the_description_was_fitted_to(tmp_path: Path) -> None:
    """The description, its format and the simulator's waking cores against the fit's own model."""
    server = tmp_path / "server.toml"
    server.write_text(description.text(fit(all_points(), reactors=1), record()))
    loads = [made(READ, rate, held_out=1) for rate in (1e3, 2e4, 8e4)]
    found = comparison.compare(server, [*loads, made(WRITE, 5e3)], lambda _: 1e5)
    assert [one.kind for one in found] == [READ, READ, READ, WRITE]
    for one in found:
        assert abs(one.latency_off) < 0.04, one
        assert abs(one.busy_off) < 0.04, one
    mixed = replace(loads[1], kind=MIX, read_share=0.7)
    (mix,) = comparison.compare(server, [mixed], lambda _: 1e5)
    assert mix.busy_predicted > found[1].busy_predicted


def test_a_description_tells_where_it_comes_from(tmp_path: Path) -> None:
    found = fit([p for p in all_points() if p.kind != WRITE], reactors=1)
    made_text = description.text(found, record(write_buffer_bytes=0, host="a\nb = 1"))
    content = tomllib.loads(made_text)
    assert [group["name"] for group in content["group"]] == ["reactors"]
    write = next(path for path in content["path"] if path["kind"] == "write")
    assert [stage["on"] for stage in write["stages"]][1] == "drive-write"
    assert "2026-01-31" in made_text
    assert "write buffer 0 MiB" in made_text
    _core.check_server(made_text)


def test_a_folder_is_fitted_and_compared_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    held_out = [made(READ, 2e4, held_out=1, number=n) for n in range(2)]
    data, out = data_of(tmp_path / "d", [*all_points(), *held_out]), tmp_path / "server.toml"
    assert run("--from", data, "--out", out, "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["waking"]["work_us"] == pytest.approx(WAKING.work_us, rel=0.05)
    (one,) = told["comparison"]
    assert one["within"]
    assert one["share"] == pytest.approx(0.2)
    assert len(told["residuals"]) == len(all_points())
    assert run("--from", data, "--out", out) == 0
    assert "1 of 1 loads within 10%" in capsys.readouterr().out


def test_a_prediction_that_is_off_is_exit_code_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = replace(made(READ, 2e4, held_out=1), latency_us=80.0)
    data = data_of(tmp_path / "d", [*all_points(), wrong])
    assert run("--from", data, "--out", tmp_path / "server.toml") == 1
    assert "0 of 1 loads within" in capsys.readouterr().out


def test_what_is_known_of_why_a_prediction_is_off_is_said(tmp_path: Path) -> None:
    server = tmp_path / "server.toml"
    server.write_text(description.text(fit(all_points(), reactors=1), record()))
    good = made(READ, 2e4, held_out=1)
    slow = replace(good, latency_us=2 * good.latency_us)
    cases = {
        comparison.MODEL: [slow],
        comparison.APART: [slow, slow, replace(good, latency_us=0.5 * good.latency_us)],
        comparison.HOST: [replace(slow, kept=20)],
        comparison.RECORDS: [
            replace(good, kind=MIX, read_share=0.7, reactors_s=good.reactors_s * 3)
        ],
        "": [good],
    }
    for why, several in cases.items():
        # All repetitions of a load are as quiet as each other: of three, two count.
        (found,) = comparison.compare(server, [*several, *several], lambda _: 1e5)
        assert found.why == why, found
        assert found.is_within == (not why)


def test_bad_input_is_one_line_and_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "server.toml"
    empty = data_of(tmp_path / "empty", [])
    cases: list[tuple[list[str | Path], int, str]] = [
        (["--out", tmp_path / "no" / "s.toml"], 2, "there is no folder"),
        (["--out", tmp_path / "s.data"], 2, "ends like a folder of data"),
        (["--out", out, "--reactors", "0"], 2, "--reactors 0: allowed is 1 to 64"),
        (["--out", out, "--cache", "1 MiB"], 2, "allowed is 16 MiB to 1 TiB"),
        (["--out", out, "--size", "16.5 KiB"], 2, "in whole MiB"),
        (["--out", out, "--measure", "0 s"], 2, "--measure"),
        (["--out", out, "--repeat", "0"], 2, "--repeat 0"),
        (["--out", out, "--scratch", tmp_path / "no"], 2, "is not a folder"),
        (["--out", out, "--server-bin", tmp_path / "no"], 2, "is not a program"),
        (["--out", out, "--from", tmp_path / "no"], 2, "cannot be read"),
        (["--out", out, "--from", empty, "--dry-run"], 2, "--from measures nothing"),
        (["--out", out, "--from", empty], 1, "3 rates are needed"),
    ]
    for words, code, what in cases:
        assert run(*words) == code, words
        said = capsys.readouterr().err
        assert what in said
        assert said.count("\n") == 1
    assert not out.exists()


def test_a_dry_run_tells_loads_and_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "server.toml"
    assert run("--out", out, "--dry-run", "--json", "--compare") == 0
    told = json.loads(capsys.readouterr().out)
    assert sum(load["held_out"] for load in told["loads"]) == 10
    assert told["seconds"] > 2 * len(told["loads"])
    # Where writes are answered from the device, none are answered from memory.
    assert run("--out", out, "--dry-run", "--json", "--write-buffer", "0 B") == 0
    kinds = {load["kind"] for load in json.loads(capsys.readouterr().out)["loads"]}
    assert kinds == {READ, MISS, DURABLE}
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("1,2", r":2: has 2 fields; needs 17"),
        (points.dump([made(READ, 1e3)], header=False).replace("read", "raed"), ':2: kind: "raed"'),
        (
            points.dump([replace(made(READ, 1e3), span_s=0.0)], header=False),
            "span_s: must be above",
        ),
        (points.dump([replace(made(READ, 1e3), late_us=-1)], header=False), ":2: late_us"),
        (points.dump([replace(made(READ, 1e3), wait_s=float("nan"))], header=False), "wait_s"),
    ],
)
def test_a_damaged_point_names_file_and_line(tmp_path: Path, line: str, what: str) -> None:
    path = tmp_path / "points.csv"
    path.write_text(points.dump([]) + line.strip() + "\n")
    with pytest.raises(InputError, match=what):
        points.load(path)


def test_points_are_read_as_they_were_written() -> None:
    several = all_points()
    assert points.parse(points.dump(several) + "1,0,rea", "torn") == several


def mark(at: int, waited_ns: int = 0, client_ns: int = 0, *, ran_ns: int = 0) -> Mark:
    reactors = Did(ran_ns=ran_ns, waited_ns=waited_ns, slices=at)
    return Mark(at * WINDOW_NS, reactors, Did(waited_ns=client_ns))


def test_windows_in_which_somebody_waited_are_left_out_with_their_neighbours() -> None:
    long_ns = 2 * WINDOW_NS
    marks = [mark(at, waited_ns=long_ns if at >= 6 else 0) for at in range(10)]
    kept = quiet(list(pairwise(marks)))
    # The wait ended in window 5 and began in window 4 (or 3): both go, and one on either side.
    assert [begin.at_ns // WINDOW_NS for begin, _ in kept] == [0, 1, 2, 7, 8]
    marks = [mark(at, client_ns=long_ns if at >= 6 else 0) for at in range(10)]
    assert len(quiet(list(pairwise(marks)))) == 5


def test_some_windows_are_kept_where_none_was_quiet() -> None:
    marks = [mark(at, waited_ns=at * WINDOW_NS // 2) for at in range(21)]
    assert quiet(list(pairwise(marks)))


def test_a_point_is_of_its_quiet_windows_only() -> None:
    """Ten requests in each window of 4; nobody has time in the last one."""
    waits = [0, 0, 0, 0, 0, WINDOW_NS]
    marks = [mark(at, waited_ns=waits[at], ran_ns=1000 * at) for at in range(6)]
    sent_ns = np.arange(50) * (WINDOW_NS // 10)
    done_ns = sent_ns + 50_000
    done_ns[45:] += 10 * WINDOW_NS
    load = OpenLoad(2000.0, 50, 4096, 1.0, 1 << 20)
    answers = Answers(np.ones(50, bool), sent_ns - 1000, sent_ns, done_ns)
    found = point(READ, 3, load, answers, marks)
    assert (found.windows, found.kept, found.requests) == (5, 3, 30)
    assert found.latency_us == pytest.approx(50.0)
    assert found.late_us == pytest.approx(1.0)
    assert found.reactors_s == pytest.approx(3e-6)


def test_threads_are_told_apart_by_their_names(tmp_path: Path) -> None:
    for number, (name, said) in enumerate(
        [("reactor 0", "10 2 3"), ("reactor 1", "20 1 1"), ("control", "7 0 1"), ("gone", "x")]
    ):
        task = tmp_path / "9" / "task" / str(number)
        task.mkdir(parents=True)
        (task / "comm").write_text(name + "\n")
        (task / "schedstat").write_text(said + "\n")
    threads = Threads(9, tmp_path)
    assert threads.reactors() == Did(30, 3, 4)
    assert threads.others() == Did(7, 0, 1)
    with pytest.raises(SystemFailed, match="the server has ended"):
        Threads(8, tmp_path)
