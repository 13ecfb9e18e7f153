"""What a target says of itself becomes metrics of a phase."""

from __future__ import annotations

import errno
import json
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wattio.errors import ResultError, SystemFailed
from wattio.kinds.measurement import derive, system_status, target_status
from wattio.kinds.measurement.derive import Rulebook, View
from wattio.kinds.measurement.record import Phase
from wattio.kinds.measurement.system_status import Answer

from . import made
from .test_metrics import study


def status(
    ran_s: float, window: int, clock_s: float = 0.0, backlog_core_s: float = 0.0
) -> dict[str, Any]:
    """A target after some windows of half a second: 2 of 3 reactors on, 40 W where all take 50 W.

    One window in ten is bounded, of 100 requests that take 110 us each where full speed is 100 us;
    each window clients write 10 blocks, and 15 are moved.
    """
    seconds, bounded = 0.5 * window, window // 10
    volume = {
        "client_blocks": 10 * window,
        "moved_blocks": 15 * window,
        "header_blocks": 2 * window,
        "checkpoint_blocks": 3 * window,
        "collected_segments": window,
    }
    return {
        "utc_ns": round(1e9 * (1_800_000_000 + clock_s + seconds)),
        "uptime_s": ran_s,
        "counts": {
            "reactors_on_s": 2 * seconds,
            "windows_bounded": bounded,
            "violations": bounded // 2,
            "setting_changes": window,
            "bounded_latency_us_sum": 100 * bounded * 110.0,
            "bounded_full_speed_us_sum": 100 * bounded * 100.0,
        },
        "power": {"estimated_j": 40 * seconds, "estimated_full_speed_j": 50 * seconds},
        "reactors": [{"volumes": [volume]}, {"volumes": []}],
        "background": [
            {"name": "collect", "backlog_core_s_estimated": backlog_core_s, "done_core_s": seconds},
            {"name": "scrub", "backlog_core_s_estimated": 0.5, "done_core_s": 0.0},
        ],
    }


def answered(*statuses: Mapping[str, Any]) -> list[Answer]:
    return [Answer(made.instant(float(at)), one) for at, one in enumerate(statuses)]


def test_means_are_over_the_windows_and_not_over_the_time_between_the_answers() -> None:
    """The answers are 20.4 s apart, and 40 windows ended in between."""
    found = target_status.of_target(
        answered(status(5.1, 10), status(15.0, 30, backlog_core_s=7.0), status(25.5, 50))
    )
    close = {
        "reactors_on_mean": (2.0, "1"),
        "power_estimated_w_mean": (40.0, "W"),
        "power_estimated_full_speed_w_mean": (50.0, "W"),
        "bound_windows": (4.0, "1"),
        "bound_windows_over": (2.0, "1"),
        "setting_changes": (40.0, "1"),
        "loss_mean": (0.1, "1"),
        "write_amplification": (3.0, "1"),
        "collected_segments": (40.0, "1"),
        "background_core_s": (20.0, "core-s"),
        "background_backlog_core_s_estimated_max": (7.5, "core-s"),
        "background_backlog_core_s_estimated_mean": ((0.5 + 7.5 + 0.5) / 3, "core-s"),
    }
    assert set(found) == set(close)
    for name, (value, unit) in close.items():
        assert found[name][0] == pytest.approx(value), name
        assert found[name][1] == unit


def test_a_compressed_volume_writes_less_than_its_clients() -> None:
    first, last = status(5.0, 10), status(25.0, 50)
    for one, window in ((first, 10), (last, 50)):
        one["reactors"][0]["volumes"][0]["client_data_blocks"] = 4 * window
    found = target_status.of_target(answered(first, last))
    assert found["write_amplification"][0] == pytest.approx((4 + 15 + 2 + 3) / 10)


def test_a_window_may_be_longer_than_a_phase() -> None:
    """A target without work closed its window of 5 s in a phase of 2: it told 6.6 of 3 reactors."""
    found = target_status.of_target(answered(status(20.0, 30), status(22.0, 40)))
    assert found["reactors_on_mean"] == (2.0, "1")
    # And in a phase in which none was closed, it does not tell that none was on.
    found = target_status.of_target(answered(status(20.0, 30), status(22.0, 30)))
    assert "reactors_on_mean" not in found


def test_a_wall_clock_that_was_set_is_not_believed() -> None:
    found = target_status.of_target(answered(status(5.0, 10), status(25.0, 50, clock_s=3600)))
    assert found["reactors_on_mean"][0] == pytest.approx(2.0)


def test_what_is_not_told_or_fell_is_absent() -> None:
    """A server of before, without counts of blocks; one without a model; one that began anew."""
    first, last = status(5.0, 10), status(25.0, 50)
    assert target_status.of_target([]) == target_status.of_target(answered(first)) == {}
    for one in (first, last):
        del one["reactors"][0]["volumes"][0]["moved_blocks"]
        one["power"] = {"estimated_j": None, "estimated_full_speed_j": None}
        one["counts"]["bounded_full_speed_us_sum"] = 0.0
    found = target_status.of_target(answered(first, last))
    missing = {"write_amplification", "power_estimated_w_mean", "loss_mean"}
    assert not missing & set(found)
    assert "reactors_on_mean" in found
    fallen = target_status.of_target(answered(status(25.0, 50), status(5.0, 10)))
    assert {name.rpartition("_")[0] for name in fallen} == {"background_backlog_core_s_estimated"}


WORDS = st.sampled_from(["counts", "power", "reactors", "volumes", "background", "utc_ns"])
THINGS = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(WORDS, THINGS), st.dictionaries(WORDS, THINGS))
def test_no_answer_breaks_it(first: dict[str, Any], last: dict[str, Any]) -> None:
    for value, _ in target_status.of_target(answered(first, last)).values():
        assert isinstance(value, int | float)


def test_the_answers_around_a_step_are_kept_as_they_were_and_become_metrics(tmp_path: Path) -> None:
    left = [status(5.0, 10), status(25.0, 50)]
    with system_status.kept(lambda: left.pop(0), 0.0, tmp_path, "step"):
        assert len(left) == 1
    kept = system_status.read(tmp_path, "step")
    assert [one.status for one in kept] == [status(5.0, 10), status(25.0, 50)]
    span = made.span("phase", 10.0, 30.0)
    record = made.record(span, phases=(Phase("step", span),), module=None)
    results = derive.read_results(tmp_path, record)
    view = View({"csv": made.facts()}, {}, book := Rulebook(study(), None))
    found = derive.derive(record, results, view, book).by_phase["phase"]
    assert found["reactors_on_mean"][0] == pytest.approx(2.0)
    # Of a step of several phases nobody knows which it was.
    both = (Phase("step", span), Phase("step", made.span("other", 30.0, 31.0)))
    record = made.record(span, both[1].span, phases=both, module=None)
    found = derive.derive(record, results, view, book).by_phase["phase"]
    assert "reactors_on_mean" not in found


def test_it_is_asked_meanwhile_and_a_question_that_fails_ends_nothing(tmp_path: Path) -> None:
    """The second answer fails; the step goes on until there were four."""
    asked = 0
    enough = threading.Event()

    def ask() -> Mapping[str, Any]:
        nonlocal asked
        asked += 1
        if asked >= 4:
            enough.set()
        if asked == 2:
            raise SystemFailed("busy")
        return {"number": asked}

    with system_status.kept(ask, 1e-3, tmp_path, "step"):
        assert enough.wait(20)
    found = system_status.read(tmp_path, "step")
    assert [one.status["number"] for one in found] == [1, *range(3, asked + 1)]
    lines = (tmp_path / "step.status.jsonl").read_text().splitlines()
    assert json.loads(lines[1])["failure"] == "busy"


def test_nothing_is_kept_of_one_who_says_nothing(tmp_path: Path) -> None:
    for ask in (None, lambda: None):
        with system_status.kept(ask, 1.0, tmp_path, "step"):
            pass
    assert list(tmp_path.iterdir()) == []
    assert system_status.read(tmp_path, "step") == ()


@pytest.mark.parametrize("line", ["no", "[]", '{"at": [1], "status": {}}', '{"at": [1, 2]}'])
def test_a_broken_answer_is_told_with_its_line(tmp_path: Path, line: str) -> None:
    (tmp_path / "step.status.jsonl").write_text('{"at": [1, 2], "status": {}}\n' + line + "\n")
    with pytest.raises(ResultError, match=r"step\.status\.jsonl:2: is not an answer"):
        system_status.read(tmp_path, "step")


def test_answers_for_which_there_is_no_room_end_the_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A traceback of a thread was printed, and the step went on without its answers."""
    monkeypatch.setattr(system_status, "_place", lambda *_: Path("/dev/full"))
    asked = threading.Event()

    def ask() -> dict[str, Any]:
        if threading.current_thread() is threading.main_thread():
            return {}
        asked.set()
        return {"more": "than a buffer holds" * 10_000}

    with (
        pytest.raises(OSError, match="/dev/full") as raised,
        system_status.kept(ask, 1e-3, tmp_path, "step"),
    ):
        assert asked.wait(30)
    assert raised.value.errno == errno.ENOSPC
