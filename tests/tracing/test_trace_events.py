"""The kernel's tracing text: read exactly, or refused; never a crash."""

import contextlib
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wattio.tracing.events import Event, Kind, Lost, Tally, UnreadableEvent, kind_of, parse
from wattio.tracing.tracefs import dropped_in

LINE = (
    "        postgres-812     [001] d..1.  5012.250411: block_bio_queue: 254,0 WS 2048 + 16"
    " [postgres]"
)


def test_a_line_becomes_an_event() -> None:
    assert parse(LINE) == Event(5_012_250_411, 254, 0, Kind.WRITE, 2048, 16)


@pytest.mark.parametrize(
    ("flags", "sectors", "kind"),
    [
        ("R", 8, Kind.READ),
        ("RA", 8, Kind.READ),
        ("RSM", 8, Kind.READ),
        ("W", 8, Kind.WRITE),
        ("WS", 8, Kind.WRITE),
        ("WFS", 8, Kind.WRITE),
        ("FWFS", 8, Kind.WRITE),
        ("FWS", 0, Kind.FLUSH),
        ("FF", 0, Kind.FLUSH),
        ("F", 0, Kind.FLUSH),
        ("D", 2048, Kind.DISCARD),
        ("DS", 2048, Kind.DISCARD),
        ("DE", 8, Kind.DISCARD),
        ("N", 0, Kind.OTHER),
        ("W", 0, Kind.OTHER),
    ],
)
def test_flags_mean_what_the_kernel_means(flags: str, sectors: int, kind: Kind) -> None:
    assert kind_of(flags, sectors) is kind


def test_a_loss_is_seen() -> None:
    assert parse("CPU:1 [LOST 4711 EVENTS]") == Lost(cpu=1, events=4711)
    tally = Tally()
    tally.add("CPU:0 [LOST 3 EVENTS]")
    assert tally.lost == 3


def test_the_largest_request_fits() -> None:
    tally = Tally()
    tally.add(LINE.replace("2048 + 16", f"{2**64 - 1} + {2**32 - 1}"))
    assert (tally.sectors[0], tally.lengths[0]) == (2**64 - 1, 2**32 - 1)


def test_comments_and_empty_lines_are_nothing() -> None:
    assert parse("") is None
    assert parse("#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION") is None


@pytest.mark.parametrize(
    "line",
    [
        LINE[:-30],
        LINE.replace("254,0", "254"),
        LINE.replace("5012.250411", "5012.25"),
        LINE.replace("block_bio_queue", "block_rq_issue"),
        LINE.replace("2048 + 16", f"{2**64} + 16"),
        LINE.replace("2048 + 16", f"2048 + {2**32}"),
        "CPU:x [LOST 3 EVENTS]",
    ],
)
def test_other_text_is_refused(line: str) -> None:
    with pytest.raises(UnreadableEvent):
        parse(line)


TASK = st.text(string.printable.replace("\n", ""), min_size=1, max_size=15)


@given(
    task=TASK,
    time_us=st.integers(0, 10**15),
    kind=st.sampled_from(["R", "W"]),
    sector=st.integers(0, 2**55),
    sectors=st.integers(1, 2**23),
)
def test_what_the_kernel_prints_is_read_back(
    task: str, time_us: int, kind: str, sector: int, sectors: int
) -> None:
    """Whatever a task calls itself, it cannot change how the rest of the line is read."""
    seconds, micros = divmod(time_us, 1_000_000)
    line = (
        f"{task:>16}-77 [000] ..... {seconds}.{micros:06d}: block_bio_queue:"
        f" 254,0 {kind} {sector} + {sectors} [{task}]"
    )
    if line.startswith("#"):
        return
    assert parse(line) == Event(time_us, 254, 0, Kind(kind), sector, sectors)


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(UnreadableEvent):
        parse(text)


@given(
    at=st.integers(0, len(LINE) - 1),
    character=st.characters(codec="utf-8"),
    cut=st.integers(0, len(LINE)),
)
def test_a_changed_line_is_read_or_refused(at: int, character: str, cut: int) -> None:
    text = (LINE[:at] + character + LINE[at + 1 :])[:cut]
    tally = Tally()
    try:
        tally.add(text)
    except UnreadableEvent:
        assert len(tally) == 0


def test_requests_are_told_as_blkparse_tells_them() -> None:
    tally = Tally()
    tally.add(LINE)
    tally.add(LINE.replace("WS 2048 + 16", "FWS 0 + 0"))
    tally.add(LINE.replace("WS 2048 + 16", "D 0 + 8"))
    assert (len(tally), tally.flushes, tally.discards) == (1, 1, 1)
    assert tally.blkparse_line(0) == "0,0 0 1 5012.250411 0 Q W 2048 + 16 [-]\n"


def test_every_way_to_lose_events_is_counted() -> None:
    stats = (
        "entries: 12\noverrun: 3\ncommit overrun: 1\nbytes: 400\noldest event ts: 5.1\n"
        "now ts: 6.2\ndropped events: 7\nread events: 90\n"
    )
    assert dropped_in(stats) == 11
    assert dropped_in("") == 0
