"""The benchmarks: peers and ours compute the same things, and a missed goal is told."""

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

BENCHES = Path(__file__).parents[1] / "benches"
sys.path.insert(0, str(BENCHES))

import fleet  # noqa: E402
import mm96  # noqa: E402
import plant  # noqa: E402
import run  # noqa: E402
import serving  # noqa: E402
import vscsi  # noqa: E402
from timing import BenchError, Goal, Line, Rate, Timed, in_turn  # noqa: E402


def line(name: str, peer: float, ours: float, goal: Goal | None) -> Line:
    def rate(per_s: float) -> Rate:
        return Rate((per_s, per_s * 2, per_s * 4), (per_s, per_s, per_s))

    return Line(name, "jobs", "other", rate(peer), rate(ours), goal, "a note")


def test_the_queue_is_the_one_of_erlang() -> None:
    # By the recursion of Erlang B, B(0) = 1, B(k) = a B(k-1) / (k + a B(k-1)), and C from B.
    offered, blocked = 76.8, 1.0
    for k in range(1, 97):
        blocked = offered * blocked / (k + offered * blocked)
    waits = blocked / (1 - 0.8 * (1 - blocked))
    expected_s = 1e-3 * (1 + waits / (96 - offered))
    assert mm96.erlang_c_latency_s() == pytest.approx(expected_s, rel=1e-12)


def test_peer_and_ours_simulate_the_same_queue() -> None:
    found = list(mm96.lines(rounds=2, peer_jobs=15_000, span_s=0.5))
    assert [one.name for one in found] == ["mm96"]
    assert found[0].ratio > 1
    theirs = mm96.with_simpy(15_000, 1)
    assert (theirs.jobs, theirs.recorded) == (15_000, 15_000)


def test_a_wrong_queue_fails_the_bench() -> None:
    right = mm96.erlang_c_latency_s()
    mm96.check("ours", [mm96.Outcome(1, 1, right)])
    with pytest.raises(BenchError, match="Erlang C gives"):
        mm96.check("ours", [mm96.Outcome(1, 1, right * 1.03)])
    with pytest.raises(BenchError, match="histogram"):
        mm96.check("ours", [mm96.Outcome(2, 1, right)])


def test_the_plant_serves_what_is_asked_for() -> None:
    found = list(plant.lines(rounds=1, peer_events=1000, span_s=0.5, day_span_s=0.5))
    assert [(one.name, one.unit) for one in found] == [("plant", "events"), ("day", "minutes")]
    assert all(one.ours.median > 0 for one in found)
    told = f"take {24 * 60 / found[1].ours.median / 60:.0f} min of one core (estimated from 0 s)"
    assert told in found[1].note


def test_the_fluid_draws_the_power_of_the_events() -> None:
    (found,) = fleet.lines(rounds=1, fluid_span_s=600.0)
    assert (found.name, found.unit) == ("fleet", "server-days")
    assert found.ratio > 1


def test_a_fluid_that_draws_another_power_fails_the_bench(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet, "with_events", lambda *_: {"power_w_mean": 100.0})
    with pytest.raises(BenchError, match=r"by the fluid, 100\.0 W by events"):
        next(fleet.lines(rounds=1, fluid_span_s=600.0))


def test_readers_agree(tmp_path: Path) -> None:
    path = tmp_path / "trace.vscsi"
    vscsi.write_trace(path, 20_000)
    assert vscsi.with_wattio(path) == vscsi.with_struct(path) == vscsi.with_numpy(path)
    assert path.stat().st_size == 20_000 * 32
    found = list(vscsi.lines(rounds=1, records=20_000, slow_records=5_000))
    assert [one.name for one in found] == ["vscsi", "vscsi-numpy"]


def test_the_peer_of_a_load_is_the_one_that_takes_the_least() -> None:
    def rounds(*each_us: float) -> list[Timed[int]]:
        return [Timed(1000, 1e-3 * one, 1.0) for one in each_us]

    taken = {"a": rounds(30, 10, 50), "b": rounds(20, 22, 21), serving.OURS: rounds(10, 11, 30)}
    found = serving.line("depth-1", taken)
    assert (found.name, found.peer_name) == ("depth-1", "b")
    assert found.ratio == pytest.approx(2.0)
    assert "a 30.0, b 21.0, wattio-target 11.0" in found.note
    assert (found.reached, found.hope_reached) == (True, True)


@pytest.mark.parametrize(
    ("ours_us", "reached", "hoped"), [(6, True, True), (9, True, False), (11, False, False)]
)
def test_a_request_may_take_what_it_takes_the_best_peer(
    ours_us: float, reached: bool, hoped: bool
) -> None:
    def rounds(each_us: float) -> list[Timed[int]]:
        return [Timed(1000, 1e-3 * each_us, 1.0)]

    taken = {"a": rounds(10), "b": rounds(20), serving.OURS: rounds(ours_us)}
    found = serving.line("saturation", taken)
    assert (found.reached, found.hope_reached) == (reached, hoped)


def test_without_the_target_there_are_no_lines_and_that_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(serving, "binary", lambda: None)
    assert list(serving.lines()) == []
    assert "serving is left out: wattio-target is neither" in capsys.readouterr().err


@pytest.mark.system
@pytest.mark.timeout(120)
@pytest.mark.skipif(shutil.which("nbdkit") is None, reason="nbdkit is not installed")
def test_servers_are_measured_in_turn() -> None:
    peers = {"nbdkit": serving.PEERS["nbdkit"]}
    memory = {"server": "nbdkit", "form": "memory"}
    found = list(serving.lines(rounds=2, span_s=0.3, ours=memory, peers=peers))
    assert [one.name for one in found] == list(serving.LOADS)
    assert all(len(one.ours.cpu_per_s) == 2 and one.ours.median > 0 for one in found)


def test_rounds_are_taken_in_turn() -> None:
    order: list[str] = []

    def call(name: str) -> int:
        order.append(name)
        return len(order)

    taken = in_turn(2, {"a": lambda _: call("a"), "b": lambda _: call("b")})
    assert order == ["a", "b", "a", "b"]
    assert [one.result for one in taken["b"]] == [2, 4]


def test_goals_are_held_against_medians() -> None:
    assert line("a", 1, 60, Goal("ratio", 60, 100)).reached
    assert not line("a", 1, 59, Goal("ratio", 60, 100)).reached
    assert line("a", 1, 50, Goal("ours", 100)).reached  # the median of 50, 100 and 200
    assert not line("a", 1, 49, Goal("ours", 100)).reached
    assert line("a", 1, 60, Goal("ratio", 60, 100)).hope_reached is False


@pytest.mark.parametrize(("ours", "code"), [(6e6, 0), (1.0, 1)])
def test_the_exit_code_tells_a_missed_goal(
    ours: float, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def lines() -> Iterator[Line]:
        yield line("fast", 1e5, ours, Goal("ratio", 60, 100))
        yield line("plain", 2.0, 4.0, None)

    monkeypatch.setattr(run, "BENCHMARKS", {"one": lines})
    assert run.main(["--json"]) == code
    found = json.loads(capsys.readouterr().out)
    assert [one["name"] for one in found["lines"]] == ["fast", "plain"]
    assert found["missed"] == (["fast"] if code else [])
    assert found["lines"][0]["goal"]["reached"] is (code == 0)
    assert run.main(["one"]) == code
    shown = capsys.readouterr()
    first = shown.out.splitlines()[1].split()
    assert first[:3] == ["fast", f"{ours / 1e5:.3g}x", "other"]
    assert ("goal missed: fast" in shown.err) == bool(code)


def test_a_wrong_result_is_no_speed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def lines() -> Iterator[Line]:
        raise BenchError("one: wrong")
        yield

    monkeypatch.setattr(run, "BENCHMARKS", {"one": lines})
    assert run.main([]) == 1
    assert "one: wrong" in capsys.readouterr().err
