"""Policies over many loads."""

from __future__ import annotations

from wattio.kinds.simulation import overall
from wattio.results.runs import WHOLE, Run, Setting
from wattio.results.summary import BOUND_KEPT, BOUNDS_KEPT, Row, estimates

PLF: dict[str, Setting] = {"plf": 0.2}


def row(
    load: int,
    label: str,
    *,
    kept: bool = True,
    background: float = 1.0,
    held: dict[str, Setting] = PLF,
    **more: float,
) -> Row:
    run = Run(f"load {load}", "small", label, {}, {"policy": label, **held})
    values = {"relative_background_rate": background, **more}
    if label != "native":
        values[BOUND_KEPT if held is PLF else BOUNDS_KEPT] = float(kept)
    return Row(run, WHOLE, 1, 0, 0, estimates([{k: (v, "1") for k, v in values.items()}]))


def test_a_broken_bound_and_undone_background_work_count_as_nothing_saved() -> None:
    rows = [row(at, "native") for at in range(4)]
    rows += [
        row(0, "law", captured_share=0.9, saving_share=0.1, relative_latency_us_mean=1.1),
        row(1, "law", captured_share=0.8, saving_share=0.1, kept=False),
        row(2, "law", captured_share=0.7, saving_share=0.1, background=0.9),
        row(3, "law", captured_share=0.6, saving_share=0.3, relative_latency_us_mean=1.19),
    ]
    [found] = overall.of(rows)
    assert (found.label, found.loads) == ("law", 4)
    assert (found.kept, found.judged, found.background_done) == (3, 4, 3)
    # Captured: 0.9, 0, 0, 0.6.
    assert found.captured_median == 0.3
    assert found.captured_worst_quarter == 0.0
    assert (found.saving_median, found.latency_worst) == (0.1, 1.19)


def test_few_loads_have_their_own_tables_only() -> None:
    assert overall.of([row(at, "law", captured_share=1.0) for at in range(3)]) == []


def test_loads_are_told_of_by_what_their_bounds_are_on() -> None:
    """A broken p99 would have stood among means, under the worst mean latency."""
    p99: dict[str, Setting] = {"bounds": "p99 20% run"}
    rows = [row(at, "law", relative_latency_us_mean=1.1) for at in range(5)]
    rows += [row(5 + at, "law", kept=at > 0, held=p99, bound_limit_ratio=1.0) for at in range(4)]
    found = overall.of(rows)
    assert [(one.bound, one.loads, one.kept) for one in found] == [("mean", 5, 5), ("p99", 4, 3)]
    assert [one.limit_worst for one in found] == [None, 1.0]
    titles = ["Over all loads with a bound on the mean", "Over all loads with a bound on p99"]
    assert list(overall.by_bound(found)) == titles
    assert list(overall.by_bound(found[:1])) == ["Over all loads"]
    # Three of a kind have their own tables only.
    assert [one.bound for one in overall.of(rows[:8])] == ["mean"]


def test_a_policy_without_an_oracle_has_no_share() -> None:
    [found] = overall.of([row(at, "law", saving_share=0.1) for at in range(4)])
    assert found.captured_median is None
