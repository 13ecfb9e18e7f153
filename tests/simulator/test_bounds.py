"""Bounds on latency: how they are written, and how a run is held against them."""

from __future__ import annotations

import json

import numpy as np
import pytest
from numpy.typing import NDArray
from wattio import _core
from wattio.cli.simulate import PolicyOptions
from wattio.errors import InputError
from wattio.simulator.bounds import Bound, judge, takes_bounds
from wattio.simulator.simulation import Outcome, Request

REQUEST = Request("small", "pacer", {"pattern": "Rand_RW", "iops": 100.0})


OPEN = Request("small", "pacer", {"pattern": "Rand_RW", "iops": 100.0, "open": True})


def outcome(windows: list[list[float]], request: Request = REQUEST) -> Outcome:
    """A run whose windows answered requests with these latencies."""
    every = sorted(latency for window in windows for latency in window)
    means = [float(np.mean(window)) if window else float("nan") for window in windows]
    offsets = np.cumsum([0, *(len(window) for window in windows)]).astype(np.uint64)
    edges = np.array([latency for window in windows for latency in sorted(window)])
    starts: NDArray[np.float64] = np.array([0.5 * at for at in range(len(windows))])
    return Outcome(
        request,
        {"ios": len(every), "latency_us_mean": float(np.mean(every)) if every else None},
        {
            "start_s": starts,
            "latency_us_mean": np.array(means),
        },
        (offsets, edges, np.ones(edges.size, dtype=np.uint64)),
        (np.array(every), np.ones(len(every), dtype=np.uint64)),
    )


NATIVE = outcome([[100.0, 100.0], [100.0, 100.0], [], [100.0]])


@pytest.mark.parametrize(
    ("text", "kept", "worst", "violations"),
    [
        # Means 130, 110, -, 100: 1.13 x native over the run.
        ("mean 20% run", True, 130 / 120, 1 / 3),
        ("mean 20% window", False, 130 / 120, 1 / 3),
        ("mean 10% run", False, 130 / 110, 1 / 3),
        ("mean 118 us run", True, 130 / 118, 1 / 3),
        # The greatest of each window: 150, 120, -, 100.
        ("p99 50% window", True, 1.0, 0.0),
        ("p99 140 us run", False, 150 / 140, 1 / 3),
        ("p50 10% run", True, 110 / 110, 0.0),
    ],
)
def test_a_run_is_held_against_a_bound(
    text: str, kept: bool, worst: float, violations: float
) -> None:
    ours = outcome([[110.0, 150.0], [100.0, 120.0], [], [100.0]])
    judged = judge(Bound.parse(text), ours, NATIVE)
    assert judged["kept"] is kept
    assert judged["worst"] == pytest.approx(worst)
    assert judged["violation_share"] == pytest.approx(violations)


def test_windows_without_a_twin_count_over_the_run_only() -> None:
    ours = outcome([[100.0], [100.0], [500.0], [100.0]])
    judged = judge(Bound.parse("mean 20% run"), ours, NATIVE)
    assert (judged["kept"], judged["violation_share"]) == (False, 0.0)


@pytest.mark.parametrize("text", ["mean 20% run", "mean 20% window", "p99 1 ms run"])
def test_a_run_that_answers_much_less_than_its_twin_keeps_nothing(text: str) -> None:
    bound = Bound.parse(text)

    def judged(count: int, of: int, request: Request) -> tuple[bool, float]:
        ours, native = (outcome([[100.0] * n], request) for n in (count, of))
        found = judge(bound, ours, native)
        return found["kept"], found["answered_share"]

    assert judged(980, 1000, OPEN) == (True, 0.98)
    assert judged(979, 1000, OPEN) == (False, 0.979)
    assert judged(0, 1000, OPEN) == (False, 0.0)
    # One may be under way at the end of any run.
    assert judged(29, 30, OPEN) == (True, 29 / 30)
    # Clients that wait ask less of a slower server, and leave nothing unanswered.
    assert judged(900, 1000, REQUEST) == (True, 0.9)


def test_a_run_without_requests_keeps_and_breaks_nothing() -> None:
    quiet = outcome([[], []])
    judged = judge(Bound.parse("p99 2 ms window"), quiet, quiet)
    assert (judged["kept"], judged["worst"], judged["run_ratio"]) == (None, None, None)


def test_who_keeps_bounds_is_told_a_plf() -> None:
    """Only PACER and the oracle were: others were judged by it, and steered by 20 %."""
    bounded = {name for name in json.loads(_core.policies()) if takes_bounds(name)}
    assert bounded == {"pacer", "foresight", "pegasus", "rubik"}
    assert takes_bounds("oracle")
    for policy in bounded | {"oracle"}:
        assert PolicyOptions(policy=policy, plf=0.1).settings() == {"plf": 0.1}
    assert PolicyOptions(policy="ondemand", plf=0.1).settings() == {}


def test_what_plf_means_is_a_bound() -> None:
    assert Bound.of_plf(0.2) == Bound.parse("mean 20% run")
    assert Bound.of_plf(0.015).share == pytest.approx(0.015)


def test_what_is_no_bound_says_what_would_be() -> None:
    with pytest.raises(InputError, match=r"\"median\" is not a statistic.*mean 20% run"):
        Bound.parse("median 20%")
