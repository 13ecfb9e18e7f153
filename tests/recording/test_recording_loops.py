"""When readings are due, and what happens to a meter that is watched."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from wattio.clock import Instant
from wattio.meters.meter import BadReading, Facts, MeterAbsent, MeterLost, MeterRefused, Reading
from wattio.meters.samples import read_file
from wattio.recording import journal, loops
from wattio.recording.deadlines import BackOff, ClockWatch, Deadlines
from wattio.recording.watch import Tools, Watched

SECOND = 1_000_000_000


class Scripted:
    """A meter that says one thing after another; exceptions are raised."""

    def __init__(self, script: Iterator[Reading | Exception], period_s: float = 0.001) -> None:
        self.facts = Facts("scripted:", "a script", period_s)
        self._script = script

    def read(self) -> Reading:
        step = next(self._script)
        if isinstance(step, Exception):
            raise step
        return step

    def close(self) -> None:
        pass


def counting(start: int = 1) -> Iterator[Reading]:
    return (Reading(1000 + n, n, float(n)) for n in itertools.count(start))


def watched(
    folder: Path,
    open_meter: Callable[[str], Scripted],
    now: Callable[[], Instant] = lambda: Instant(1000, 0),
) -> Watched:
    events = journal.EventLog(folder / journal.EVENTS)
    tools = Tools(open_meter, events, threading.Event(), now)
    return Watched("node", "scripted:", tools, journal.RecordFile(folder / "0.samples"))


def events(folder: Path) -> list[tuple[str, str]]:
    return [(event.kind, event.text) for event in journal.read_events(folder / journal.EVENTS)]


def kept(folder: Path) -> list[Reading]:
    return list(read_file(folder / "0.samples").readings())


@given(st.integers(1, 100), st.lists(st.integers(0, 500), max_size=50))
def test_deadlines_stay_on_their_grid_and_none_goes_uncounted(
    period: int, works: list[int]
) -> None:
    deadlines = Deadlines(period, 1000)
    now, skipped = 1000, 0
    for number, work in enumerate(works, start=1):
        now = max(now, deadlines.due_ns) + work
        skipped += deadlines.advance(now)
        assert deadlines.due_ns == 1000 + (number + skipped) * period
        assert deadlines.due_ns > now - period


def test_pauses_double_up_to_their_limit() -> None:
    back_off = BackOff(0.5, 2.0)
    assert [back_off.next_s() for _ in range(4)] == [0.5, 1.0, 2.0, 2.0]


def test_a_clock_that_is_set_is_noticed_and_one_that_is_steered_is_not() -> None:
    clocks = ClockWatch(Instant(100 * SECOND, 0))
    assert clocks.jump_s(Instant(101 * SECOND + 40_000_000, SECOND)) is None
    assert clocks.jump_s(Instant(99 * SECOND + 40_000_000, 2 * SECOND)) == -3.0
    assert clocks.jump_s(Instant(100 * SECOND + 40_000_000, 3 * SECOND)) is None


def test_readings_are_kept_and_those_out_of_order_told(tmp_path: Path) -> None:
    script = iter([Reading(1, 5, 1.0), Reading(2, 4, 2.0), Reading(3, 6, None)])
    one = watched(tmp_path, lambda _: Scripted(script))
    one.open()
    assert one.sample()
    assert one.sample()
    one.report(Instant(0, 0))
    assert kept(tmp_path) == [Reading(1, 5, 1.0), Reading(3, 6, None)]
    assert events(tmp_path) == [("disorder", "1 readings older than the one before were left out")]


def test_a_lost_meter_is_opened_again_and_its_counter_begins_anew(tmp_path: Path) -> None:
    """Its count was added to that of before: the joules in between were lost without a word."""
    scripts: Iterator[Iterator[Reading | Exception]] = iter(
        [
            iter([Reading(1, 1, 1.0, 0.0), Reading(2, 2, 1.0, 7.0), MeterLost("no answer")]),
            iter([MeterLost("still none")]),
            iter([Reading(9, 9, 1.0, 0.0), Reading(10, 10, 1.0, 2.0)]),
        ]
    )
    one = watched(tmp_path, lambda _: Scripted(next(scripts)))
    one.open()
    assert one.sample()
    assert not one.sample()
    assert one.regain()
    assert one.sample()
    assert [reading.energy_j for reading in kept(tmp_path)] == [0.0, 7.0, 0.0, 2.0]
    assert [kind for kind, _ in events(tmp_path)] == ["lost", "back"]


def test_a_bad_reading_is_missing_and_the_meter_stays_open(tmp_path: Path) -> None:
    """One value that could not be true closed a meter and opened it anew."""
    bad = [BadReading("says -1 W"), BadReading("says -2 W")]
    script: list[Reading | Exception] = [Reading(1, 1, 1.0), *bad, Reading(4, 4, 4.0)]
    opened: list[str] = []

    def open_meter(name: str) -> Scripted:
        opened.append(name)
        return Scripted(iter(script))

    one = watched(tmp_path, open_meter)
    one.open()
    assert all(one.sample() for _ in range(3))
    one.report(Instant(0, 0))
    one.report(Instant(0, 0))
    assert [reading.power_w for reading in kept(tmp_path)] == [1.0, 4.0]
    assert events(tmp_path) == [("bad", "2 readings could not be used: says -2 W")]
    assert len(opened) == 1


def test_a_fault_in_a_meter_counts_as_lost(tmp_path: Path) -> None:
    one = watched(tmp_path, lambda _: Scripted(iter([Reading(1, 1, 1.0), KeyError("power")])))
    one.open()
    assert not one.sample()
    assert events(tmp_path) == [("lost", "KeyError: 'power'")]


def test_who_refuses_is_not_asked_again(tmp_path: Path) -> None:
    steps: list[Reading | Exception] = [Reading(1, 1, 1.0), MeterRefused("wrong password")]
    one = watched(tmp_path, lambda _: Scripted(iter(steps)))
    one.open()
    stopped = threading.Event()
    loops.run(0.0001, [one], stopped)
    assert one.refused
    assert events(tmp_path) == [("refused", "wrong password")]


def test_a_meter_that_is_not_there_for_a_moment_is_not_given_up(tmp_path: Path) -> None:
    """A fault of 0.1 s, in which a kernel meter could not be opened, cost the rest of a session."""
    tried: list[str] = []

    def open_meter(name: str) -> Scripted:
        tried.append(name)
        if len(tried) in (2, 3):
            raise MeterAbsent("no such meter")
        absent = MeterAbsent("no such object")
        first: list[Reading | Exception] = [Reading(1, 1, 1.0), absent]
        return Scripted(iter(first if len(tried) == 1 else [Reading(9, 9, 9.0)]))

    one = watched(tmp_path, open_meter)
    one.open()
    assert not one.sample()
    assert not one.refused
    assert one.regain()
    assert [reading.power_w for reading in kept(tmp_path)] == [1.0, 9.0]
    assert [kind for kind, _ in events(tmp_path)] == ["lost", "back"]


def test_a_reading_that_takes_long_is_told_once_and_when_it_is_over(tmp_path: Path) -> None:
    one = watched(tmp_path, lambda _: Scripted(counting()))
    one.open()
    for at_s in (1, 6, 7):
        one.look(Instant(0, at_s * SECOND))
    one.seen(8 * SECOND, missed=3)
    one.look(Instant(0, 8 * SECOND))
    assert events(tmp_path) == [
        ("silent", "no reading for 6.0 s"),
        ("missed", "3 readings were not taken in time"),
        ("back", "readings have resumed"),
    ]


def test_quick_meters_of_one_rate_share_a_thread_and_others_do_not(tmp_path: Path) -> None:
    def made(number: int, *, read_s: float, streams: bool = False) -> Watched:
        (tmp_path / str(number)).mkdir()
        one = watched(tmp_path / str(number), lambda _: Scripted(counting()))
        one.open()
        one.read_s = read_s
        one.facts = Facts("scripted:", "a script", 0.05, streams=streams)
        return one

    quick, also, other, slow = (
        made(n, read_s=s) for n, s in enumerate((0.0001, 0.0002, 0.0001, 0.4))
    )
    stream = made(9, read_s=0.0, streams=True)
    found = loops.plan([(quick, None), (slow, None), (also, 20.0), (other, 1000.0), (stream, None)])
    assert found == [
        (0.05, [slow]),
        (None, [stream]),
        (0.05, [quick, also]),
        (0.001, [other]),
    ]
    assert [one.file.at_once for one in (quick, other, slow)] == [True, False, True]
