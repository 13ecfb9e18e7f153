"""The protocol of phases: spans, results, refusals, and lines of any kind."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wattio.clock import Instant
from wattio.errors import ResultError, WorkloadFailed
from wattio.workloads.phases import LINE_BYTES_MOST, Listener, Phase, TimedLine, parse, recall


def phases(*lines: str) -> list[Phase]:
    return parse([TimedLine(Instant(1000 + n, n), line) for n, line in enumerate(lines)])


def test_phases_with_results() -> None:
    found = phases(
        "begin copy",
        "result copy bytes=10 operations=2 latency_us_p99=1.5",
        "",
        "begin sync",
        "end copy",
        "result copy operation=fsync",
        "end sync",
    )
    assert [
        (one.span.name, one.span.start.monotonic_ns, one.span.end.monotonic_ns) for one in found
    ] == [
        ("copy", 0, 4),
        ("sync", 3, 6),
    ]
    first, second = found[0].outcomes
    assert (first.operation, first.bytes, first.operations) == ("copy", 10, 2)
    assert first.latency_us == {"p99": 1.5}
    assert (second.operation, second.bytes) == ("fsync", None)


def test_a_phase_that_begins_again_is_told_apart() -> None:
    found = phases("begin a", "end a", "begin a", "result a bytes=1", "end a")
    assert [one.span.name for one in found] == ["a", "a 2"]
    assert [len(one.outcomes) for one in found] == [0, 1]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["start a"], r"'start a' is not understood; allowed are: begin NAME"),
        (["begin"], "is not understood"),
        (["begin /x"], "is not understood"),
        (["end a"], '"end a" comes before "begin a"'),
        (["result a bytes=1"], 'comes before "begin a"'),
        (["begin a", "begin a"], "begins again before it ended"),
        (["begin a", "end a", "end a"], "comes before"),
        (["begin a"], 'phase "a" never ends'),
        (["begin a", "result a bytes=-1"], "bytes=-1 is not a whole number"),
        (["begin a", "result a speed=1"], "speed=1 is not understood"),
        (["begin a", "result a latency_us_p99=nan"], "is not a number of microseconds"),
    ],
)
def test_what_makes_no_sense_is_refused(lines: list[str], message: str) -> None:
    with pytest.raises(ResultError, match=message):
        phases(*lines)


WORDS = st.sampled_from(["begin", "end", "result", "a", "b", "bytes=1", "operations=x", "="])


@given(st.lists(st.text(max_size=20) | st.lists(WORDS, max_size=4).map(" ".join), max_size=8))
def test_no_lines_break_it(lines: list[str]) -> None:
    try:
        found = phases(*lines)
    except ResultError:
        return
    assert all(one.span.end.monotonic_ns >= one.span.start.monotonic_ns for one in found)


def test_a_listener_reads_what_was_written(tmp_path: Path) -> None:
    file = tmp_path / "lines"
    with Listener(file) as listener:
        os.write(listener.write_fd, b"begin a\nend a\n")
        os.write(listener.write_fd, b"begin \xff\n" + b"x" * (LINE_BYTES_MOST + 10) + b"\nrest")
    found = recall(file)
    assert [one.line for one in found][:3] == ["begin a", "end a", "begin \ufffd"]
    assert found[-1].line == "rest"
    assert max(len(one.line) for one in found) <= LINE_BYTES_MOST
    stamps = [one.at.monotonic_ns for one in found]
    assert stamps == sorted(stamps)


def test_one_who_holds_the_pipe_is_not_waited_for(tmp_path: Path) -> None:
    with Listener(tmp_path / "lines") as listener:
        held = os.dup(listener.write_fd)
        os.write(held, b"begin a\n")
    os.close(held)
    assert [one.line for one in recall(tmp_path / "lines")] == ["begin a"]


@given(st.binary(max_size=80) | st.sampled_from([b"{}", b"[]", b'{"utc_ns":1,"monotonic_ns":""}']))
def test_no_file_of_lines_breaks_it(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    file = tmp_path_factory.getbasetemp() / "damaged"
    file.write_bytes(content)
    try:
        recall(file)
    except ResultError:
        return


@pytest.mark.parametrize("copy", ["/dev/full", "/no/such/folder/copy"])
def test_a_program_goes_on_where_its_words_cannot_be_kept(tmp_path: Path, copy: str) -> None:
    """A disk that was full ended the reader, and left the program to a pipe that nobody read."""
    listener = Listener(tmp_path / "lines", copy=Path(copy)).__enter__()
    said = threading.Thread(
        target=lambda: os.writev(listener.write_fd, [b"x" * 4095 + b"\n"] * 100), daemon=True
    )
    said.start()
    said.join(timeout=60)
    assert not said.is_alive()
    with pytest.raises(WorkloadFailed, match="a program's phases cannot be saved: No s"):
        listener.__exit__(None, None, None)
    with pytest.raises(KeyError), Listener(tmp_path / "lines", copy=Path(copy)):
        raise KeyError("what went wrong before is told")
