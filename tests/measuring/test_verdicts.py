from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from wattio.clock import Instant, Span
from wattio.kinds.measurement import verdicts
from wattio.kinds.measurement.schema import Rules
from wattio.kinds.measurement.verdicts import Watched
from wattio.recording import Event
from wattio.results.runs import Verdict
from wattio.workloads.workload import Operation

from measuring import made

RULES = Rules()
EVERY_SECOND = np.arange(0.0, 200.0)


def busy(times_s: np.ndarray) -> np.ndarray:
    """Power that never stays the same."""
    return np.asarray(50 + 5 * np.sin(times_s) + times_s / 100)


def judged(
    meter: Watched, *phases: tuple[str, float, float], witness: Watched | None = None
) -> list[Verdict]:
    stills = list(verdicts.standstills(meter, RULES, witness))
    spans = [made.span(*phase) for phase in phases]
    found = verdicts.of_record(made.record(*spans), [], RULES)
    for span in spans:
        found += verdicts.of_meter(span, meter, stills, RULES)
    return found or [Verdict("VALID", "")]


def kinds(found: list[Verdict]) -> set[str]:
    return {f"{verdict.verdict} {verdict.reason.partition(':')[0]}".strip() for verdict in found}


def test_an_even_recording_is_valid() -> None:
    meter = made.watched(made.samples(EVERY_SECOND, busy))
    assert judged(meter, ("write", 10.3, 110.3)) == [Verdict("VALID", "")]


def test_rows_without_a_value_are_no_samples() -> None:
    """A logger left 94 % of a phase blank, and the rows counted: VALID, by the other 6 %."""
    for blank in (EVERY_SECOND % 17 != 0, (EVERY_SECOND > 15) & (EVERY_SECOND < 115)):
        recorded = made.samples(EVERY_SECOND, busy)
        recorded.power_w[blank] = np.nan
        meter = made.watched(recorded)
        assert {"INVALID GAP", "INVALID MISSING"} <= kinds(judged(meter, ("write", 10.3, 110.3)))
    nothing = made.watched(made.samples(EVERY_SECOND, lambda t: np.nan * t))
    assert kinds(judged(nothing, ("write", 10.3, 110.3))) == {"INVALID NO_SAMPLES"}


def test_a_counter_needs_no_power_for_a_sample() -> None:
    counted = made.samples(EVERY_SECOND, lambda t: np.nan * t, 50.0 * EVERY_SECOND)
    meter = made.watched(counted, counts_energy=True)
    assert judged(meter, ("write", 10.3, 110.3)) == [Verdict("VALID", "")]


def test_few_samples_are_a_warning() -> None:
    meter = made.watched(made.samples(EVERY_SECOND, busy))
    assert kinds(judged(meter, ("write", 10.0, 20.0))) == {"WARN LOW_N"}


def test_one_sample_a_second_is_enough_wherever_the_phase_begins() -> None:
    meter = made.watched(made.samples(EVERY_SECOND, busy))
    assert kinds(judged(meter, ("write", 10.3, 126.9))) == {"VALID"}


def test_a_counter_of_coarse_steps_is_a_warning() -> None:
    joules = 100.0 * EVERY_SECOND
    for step_j, expected in ((1.0, "VALID"), (3600.0, "WARN COARSE")):
        counted = made.samples(EVERY_SECOND, busy, np.floor(joules / step_j) * step_j)
        meter = made.watched(counted, counts_energy=True, resolution_w=step_j)
        assert kinds(judged(meter, ("write", 10.3, 110.3))) == {expected}


def lost(at_s: float) -> Event:
    return Event("pdu", made.instant(at_s), "lost", "no answer")


def test_a_counter_that_was_lost_does_not_know_all_joules() -> None:
    """Its counts before and after were stitched: 10790 J of 12000, and LOW_N was all it said."""
    times = EVERY_SECOND[(EVERY_SECOND < 50) | (EVERY_SECOND > 54)]
    power_w = np.where(times == 55, np.nan, 100.0)  # The first one after a hole has none.
    for counted in (
        100.0 * np.where(times < 50, times, times - 55),  # It begins anew,
        100.0 * np.where(times < 50, times, times - 6),  # or was stitched by an earlier edition.
    ):
        recorded = made.samples(times, lambda t, known=power_w: known, counted)  # type: ignore[misc]
        known = made.entry(), made.facts(counts_energy=True), recorded
        meter = Watched.of(*known, [lost(49.5), lost(52.0)])
        assert meter.holes == ((49.0, 55.0),)
        span = made.span("write", 10.0, 130.0)
        assert meter.energy_j(span) == pytest.approx(12_000)
        found = judged(meter, ("write", 10.0, 130.0), ("read", 131.0, 195.0))
        assert [v.reason for v in found if "LOST" in v.reason and v.verdict == "INVALID"] == [
            "LOST: write: pdu was lost once, for 6 s;"
            " what it counted meanwhile, 5 % of the phase, is not known"
        ]
        assert not [v for v in found if "read" in v.reason]


def test_a_count_that_falls_is_a_loss_that_nobody_told_of() -> None:
    """A recorded counter that was set back has no events; what it counted is not known either."""
    counted = 100.0 * np.where(EVERY_SECOND < 50, EVERY_SECOND, EVERY_SECOND - 50)
    meter = made.watched(made.samples(EVERY_SECOND, busy, counted), counts_energy=True)
    assert meter.holes == ((49.0, 50.0),)
    assert kinds(judged(meter, ("write", 10.0, 80.0))) == {"INVALID LOST"}
    assert kinds(judged(meter, ("write", 51.0, 151.0))) == {"VALID"}


def test_a_short_loss_is_told_and_judged_by_its_share() -> None:
    meter = made.watched(made.samples(EVERY_SECOND, busy))
    sampled = Watched.of(meter.entry, meter.facts, meter.samples, [lost(50.5)])
    assert kinds(judged(sampled, ("write", 10.0, 110.0))) == {"WARN LOST"}
    counted = made.samples(EVERY_SECOND, busy, 50 * EVERY_SECOND)
    counter = Watched.of(made.entry(), made.facts(counts_energy=True), counted, [lost(50.5)])
    assert kinds(judged(counter, ("write", 10.0, 150.0))) == {"WARN LOST"}
    assert kinds(judged(counter, ("write", 10.0, 80.0))) == {"INVALID LOST"}


def test_a_meter_that_never_came_back() -> None:
    times = EVERY_SECOND[EVERY_SECOND < 50]
    meter = Watched.of(made.entry(), made.facts(), made.samples(times, busy), [lost(49.5)])
    assert meter.holes == ((49.0, np.inf),)
    assert "WARN LOST" in kinds(judged(meter, ("write", 10.0, 110.0)))
    silent = Watched.of(made.entry(), made.facts(), made.samples(np.empty(0), busy), [lost(1.0)])
    assert silent.lost_s(made.span("write", 10.0, 110.0)) == [100.0]


def test_a_gap_touches_the_phases_that_it_lies_in_only() -> None:
    times = EVERY_SECOND[(EVERY_SECOND < 50) | (EVERY_SECOND > 54)]
    meter = made.watched(made.samples(times, busy))
    found = judged(meter, ("write", 0.0, 100.0), ("read", 101.0, 190.0))
    reasons = [verdict.reason for verdict in found if verdict.verdict == "INVALID"]
    assert len(reasons) == 2
    assert reasons[0] == "GAP: write: pdu is silent for 6 s, but due every 1 s"
    assert reasons[1].startswith("MISSING: write: pdu lacks 4.0 %")


def test_a_meter_that_says_nothing_at_all() -> None:
    meter = made.watched(made.samples(np.empty(0), busy))
    assert kinds(judged(meter, ("write", 0.0, 100.0))) == {"INVALID NO_SAMPLES"}


def test_a_phase_shorter_than_the_meters_period_is_no_gap() -> None:
    meter = made.watched(made.samples(EVERY_SECOND, busy))
    assert kinds(judged(meter, ("write", 10.2, 10.7))) == {"WARN NO_ENERGY", "WARN LOW_N"}


def test_a_phase_without_a_sample_has_no_energy_unless_joules_are_counted() -> None:
    """Power was interpolated through phases shorter than the period: 11.6 MiB/J of no sample."""
    span = made.span("write", 10.2, 10.7)
    sampled = made.watched(made.samples(EVERY_SECOND, busy))
    assert sampled.energy_j(span) is None
    assert sampled.energy_j(made.span("write", 10.2, 11.2)) is not None
    counted = made.samples(EVERY_SECOND, busy, 50.0 * EVERY_SECOND)
    counter = made.watched(counted, counts_energy=True)
    assert counter.energy_j(span) == pytest.approx(25.0)
    assert kinds(judged(counter, ("write", 10.2, 10.7))) == {"WARN LOW_N"}


def test_a_counter_that_stands_still_is_frozen() -> None:
    mark = np.minimum(EVERY_SECOND, 80.0)
    meter = made.watched(made.samples(EVERY_SECOND, busy, mark=mark))
    assert kinds(judged(meter, ("write", 10.0, 79.0))) == {"VALID"}
    assert kinds(judged(meter, ("write", 10.0, 100.0))) == {"INVALID FROZEN"}


def test_one_value_while_the_load_changes_is_frozen() -> None:
    shown = made.samples(EVERY_SECOND, lambda t: np.where(t < 100, busy(t), busy(np.array(100.0))))
    meter = made.watched(shown, resolution_w=0.1)
    still = made.watched(made.samples(EVERY_SECOND, lambda t: 20.0 + 0 * t), "estimate")
    moving = made.watched(made.samples(EVERY_SECOND, busy), "estimate")
    phases = ("write", 10.0, 95.0), ("read", 110.0, 180.0)
    assert kinds(judged(meter, *phases, witness=still)) == {"VALID"}
    assert kinds(judged(meter, *phases, witness=None)) == {"VALID"}
    found = judged(meter, *phases, witness=moving)
    assert [verdict.reason.split(":")[:2] for verdict in found] == [["FROZEN", " read"]]


def test_a_coarse_meter_may_show_one_value_while_the_load_hardly_changes() -> None:
    shown = made.samples(EVERY_SECOND, lambda t: 50.0 + 0 * t)
    moving = made.watched(made.samples(EVERY_SECOND, busy), "estimate")
    coarse = made.watched(shown, resolution_w=20.0)
    assert kinds(judged(coarse, ("write", 10.0, 190.0), witness=moving)) == {"VALID"}


@given(st.floats(20, 150), st.floats(0, 199), st.floats(0, 199))
def test_a_frozen_meter_touches_exactly_the_phases_after_its_last_change(
    frozen_s: float, one: float, other: float
) -> None:
    start, end = sorted((one, other))
    mark = np.minimum(EVERY_SECOND, np.floor(frozen_s))
    meter = made.watched(made.samples(EVERY_SECOND, busy, mark=mark))
    found = kinds(judged(meter, ("write", start, end)))
    # The value before the freeze is good for one period; the record ends at 199 s.
    touched = end > max(start, np.floor(frozen_s) + 1)
    assert ("INVALID FROZEN" in found) == touched


def test_the_lag_moves_samples_to_the_power_that_they_tell_of() -> None:
    lagging = made.watched(made.samples(EVERY_SECOND, busy), lag_s=5.0)
    assert lagging.time_s[10] == 5.0
    meter = Watched.of(made.entry(lag="2 s"), made.facts(lag_s=5.0), lagging.samples)
    assert meter.time_s[10] == 8.0


def test_a_jump_of_the_clock_invalidates_the_phase() -> None:
    recorded = made.samples(EVERY_SECOND, busy)
    recorded.utc_ns[120:] += 3 * 10**9
    meter = made.watched(recorded)
    found = judged(meter, ("write", 10.0, 100.0), ("read", 101.0, 190.0))
    assert [verdict.reason for verdict in found] == [
        "CLOCK: read: pdu: the wall clock jumped by 3 s"
    ]


def test_a_jump_between_the_ends_of_a_phase_is_seen_without_samples() -> None:
    span = made.span("read", 10.0, 20.0)
    later = Instant(span.end.utc_ns - 5 * 10**9, span.end.monotonic_ns)
    found = verdicts.of_record(made.record(Span("read", span.start, later)), [], RULES)
    assert [verdict.reason for verdict in found] == ["CLOCK: read: the wall clock jumped by -5 s"]


def test_doubts_and_failures_are_verdicts() -> None:
    doubtful = Operation("stat", "stat", doubts=("faster than the network",))
    record = made.record(made.span("stat", 0.0, 100.0), doubts=("caches were not dropped",))
    found = verdicts.of_record(record, [doubtful], RULES)
    assert [verdict.reason for verdict in found] == [
        "DOUBT: caches were not dropped",
        "DOUBT: stat: stat: faster than the network",
    ]
    assert verdicts.is_valid(found)
    failed = made.record(made.span("stat", 0.0, 100.0), failure="fio: exit code 1")
    found = verdicts.of_record(failed, [], RULES)
    assert found == [Verdict("INVALID", "FAILED: fio: exit code 1")]
    assert not verdicts.is_valid(found)
