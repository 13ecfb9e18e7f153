"""The LMG450 on a serial line, against a pseudo-terminal that answers."""

from __future__ import annotations

import contextlib
import itertools
import multiprocessing
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wattio.errors import InputError
from wattio.files import document
from wattio.meters import lmg450, open_meter
from wattio.meters.lmg450 import TABLE, Table, parse_line
from wattio.meters.meter import MeterLost, MeterRefused
from wattio.recording import Recorder, Source
from wattio.recording.cadence import timing

from meters.lmg450_peer import Lmg450Peer

SHIPPED = document.validate(Table, document.read(TABLE))


@contextlib.contextmanager
def peer(line: Callable[[int], bytes] | None = None, **options: bytes) -> Iterator[Lmg450Peer]:
    found = Lmg450Peer(line, **options)
    try:
        yield found
    finally:
        found.unplug()


def test_values_come_twenty_times_a_second() -> None:
    with peer() as there, contextlib.closing(open_meter(f"lmg450:{there.path}")) as meter:
        assert meter.facts.streams
        assert meter.facts.period_s == 0.05
        assert meter.facts.untried == "hardware"
        assert "01234567" in meter.facts.what
        readings = [meter.read() for _ in range(4)]
        assert [reading.power_w for reading in readings] == [120.0, 121.0, 122.0, 123.0]
        assert all(b.monotonic_ns > a.monotonic_ns for a, b in itertools.pairwise(readings))
        assert b"cycl 0.05" in there.heard


def test_it_is_told_to_stop() -> None:
    with peer() as there:
        meter = open_meter(f"lmg450:{there.path}")
        meter.close()
        meter.close()
        deadline_s = time.monotonic() + 30
        while there.heard[-1] != b"cont off":
            assert time.monotonic() < deadline_s
            time.sleep(0.01)
        with pytest.raises(MeterLost, match="is closed"):
            meter.read()


def test_unplugged_in_the_middle_is_a_loss() -> None:
    with peer() as there:
        meter = open_meter(f"lmg450:{there.path}")
        meter.read()
        there.unplug()
        with pytest.raises(MeterLost, match=r"unplugged|sends no data|cannot be"):
            list(iter(meter.read, None))
        meter.close()


def test_plugged_in_again_it_goes_on_and_the_gap_is_told(tmp_path: Path) -> None:
    line = tmp_path / "ttyUSB0"
    with peer() as first:
        line.symlink_to(first.path)
        source = Source("lmg", f"lmg450:{line}")
        with Recorder([source], tmp_path / "out") as recorder:
            recorder.start()
            assert recorder.caught_up("lmg", time.monotonic_ns() + 200_000_000, 30.0)
            first.unplug()
            line.unlink()
            with peer() as second:
                line.symlink_to(second.path)
                assert recorder.caught_up("lmg", time.monotonic_ns(), 60.0)
            kinds = [event.kind for event in recorder.events()]
    assert kinds[:2] == ["lost", "back"]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (lambda _: b"\xff\x00;?\n", "sends no values"),
        (lambda _: b"x" * 5000, "an endless line; is the baud rate right"),
        (lambda _: b"1e30;0\n", "reports .* W; allowed: 0 to"),
        (lambda _: b"", "sends no data"),
    ],
)
def test_garbage_is_a_loss_that_says_so(line: Callable[[int], bytes], says: str) -> None:
    with peer(line) as there:
        meter = open_meter(f"lmg450:{there.path}")
        with pytest.raises(MeterLost, match=says):
            meter.read()
        meter.close()


def test_a_garbled_line_between_good_ones_is_passed_over() -> None:
    def line(number: int) -> bytes:
        return b"1#0;\n" if number % 2 else b"%d;0\n" % number

    with peer(line) as there, contextlib.closing(open_meter(f"lmg450:{there.path}")) as meter:
        assert [meter.read().power_w for _ in range(3)] == [0.0, 2.0, 4.0]


def test_another_instrument_and_none_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lmg450, "_ANSWER_S", 0.3)
    other = pytest.raises(MeterRefused, match="is not an LMG450; it answered 'YOKOGAWA,WT310'")
    with peer(identity=b"YOKOGAWA,WT310\n") as there, other:
        open_meter(f"lmg450:{there.path}")
    none = pytest.raises(MeterLost, match=r"did not answer \*IDN\?")
    with peer(identity=b"") as there, none:
        open_meter(f"lmg450:{there.path}")
    with pytest.raises(MeterLost, match="cannot be opened"):
        open_meter("lmg450:/dev/nowhere")


def test_an_answer_that_is_slow_is_waited_for() -> None:
    slow = itertools.chain([b""] * 10, itertools.repeat(b"5;0\n"))
    with (
        peer(lambda _: next(slow)) as there,
        contextlib.closing(open_meter(f"lmg450:{there.path}")) as meter,
    ):
        assert meter.read().power_w == 5.0


def test_a_corrected_table_is_used(tmp_path: Path) -> None:
    path = tmp_path / "my-lmg.toml"
    path.write_text(TABLE.read_text().replace("power = [0]", "power = [0, 1]"))

    def line(_: int) -> bytes:
        return b"100.5;20.25\n"

    with peer(line) as there:
        name = f"lmg450:{there.path}?table={path}&baud=9600"
        with contextlib.closing(open_meter(name)) as meter:
            assert meter.read().power_w == 120.75
    path.write_text(TABLE.read_text().replace('separator = ";"', 'separator = ";;"'))
    with pytest.raises(InputError, match=r"my-lmg.toml:.*separator"):
        open_meter(f"lmg450:/dev/nowhere?table={path}")
    with pytest.raises(InputError, match='baud: is "fast"'):
        open_meter("lmg450:/dev/nowhere?baud=fast")
    with pytest.raises(InputError, match="no device given"):
        open_meter("lmg450:")


@given(st.binary(max_size=100))
def test_no_bytes_break_the_lines(line: bytes) -> None:
    found = parse_line(line, SHIPPED)
    assert found is None or found == found


def _spin(stop_s: float) -> None:
    while time.monotonic() < stop_s:
        pass


@pytest.mark.slow
def test_no_value_is_lost_on_a_busy_machine(tmp_path: Path) -> None:
    """20 values a second, while every core has twice as much to do as it can."""
    cores = multiprocessing.cpu_count()
    with peer() as there, Recorder([Source("lmg", f"lmg450:{there.path}")], tmp_path) as recorder:
        recorder.start()
        end_s = time.monotonic() + 3.0
        context = multiprocessing.get_context("spawn")
        busy = [context.Process(target=_spin, args=(end_s,)) for _ in range(2 * cores)]
        for process in busy:
            process.start()
        assert recorder.caught_up("lmg", round(end_s * 1e9), 60.0)
        for process in busy:
            process.join()
        samples = recorder.read_all("lmg")
        events = recorder.events()
    # The peer numbers its values: none is missing.
    numbers = (samples.power_w - 120).round().astype(int).tolist()
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    assert len(numbers) > 40
    assert not [event for event in events if event.kind in ("lost", "missed", "disorder")]
    assert timing(samples, 0.05).jitter_ms_p99 is not None
