"""fio's latency logs: percentiles whole and by windows, refusals that name the line."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wattio.errors import InputError
from wattio.workloads import fio_log

EPOCH_MS = 1_800_000_000_000
Entry = tuple[int, int, int, int]


def write(path: Path, entries: list[Entry], more: str = "") -> Path:
    path.write_text("".join(f"{', '.join(map(str, one))}{more}\n" for one in entries))
    return path


def slow_percentile(values: list[int], share: float) -> float:
    """The smallest value that at least this share of all do not exceed."""
    return sorted(values)[max(1, math.ceil(share * len(values))) - 1] / 1e3


@pytest.mark.parametrize("more", ["", ", 0", ", 4096, 0x0001"])
def test_directions_are_told_apart(tmp_path: Path, more: str) -> None:
    entries = [(EPOCH_MS + n, 1000 * (n + 1), n % 2, 4096) for n in range(1001)]
    path = write(tmp_path / "a.log", entries, more)
    found = fio_log.summary(path, fio_log.read(path))
    assert [one.operation for one in found.operations] == ["read", "write"]
    one = found.operations[0]
    assert (one.operations, one.bytes, one.seconds) == (501, 501 * 4096, 1.0)
    assert (one.iops, one.start_utc_ns) == (501.0, EPOCH_MS * 10**6)
    assert one.latency_us == {
        "mean": 501.0,
        "min": 1.0,
        "max": 1001.0,
        "p50": 501.0,
        "p95": 951.0,
        "p99": 991.0,
        "p999": 1001.0,
    }


def test_the_far_percentile_of_a_log(tmp_path: Path) -> None:
    entries = [(EPOCH_MS + n, 1000 * (n + 1), 0, 4096) for n in range(10_000)]
    path = write(tmp_path / "a.log", entries)
    assert fio_log.summary(path, fio_log.read(path)).operations[0].latency_us["p9999"] == 9999.0


def test_times_since_the_start_are_no_stamps(tmp_path: Path) -> None:
    path = write(tmp_path / "a.log", [(0, 5, 0, 512)])
    one = fio_log.summary(path, fio_log.read(path)).operations[0]
    assert (one.start_utc_ns, one.seconds, one.iops) == (None, None, None)


def test_windows_are_those_in_which_something_happened(tmp_path: Path) -> None:
    entries = [(100, 1000, 0, 1), (1099, 3000, 0, 1), (5100, 7000, 0, 1), (200, 9000, 1, 1)]
    path = write(tmp_path / "a.log", entries)
    found = fio_log.windows(path, fio_log.read(path), 1.0)
    assert [(one.operation, one.start_s, one.operations) for one in found] == [
        ("read", 0.0, 2),
        ("read", 5.0, 1),
        ("write", 0.0, 1),
    ]
    assert [one.latency_us["max"] for one in found] == [3.0, 7.0, 9.0]
    with pytest.raises(InputError, match="more than 1,000,000 windows"):
        fio_log.windows(path, fio_log.read(path), 1e-6)


def test_averages_are_doubtful(tmp_path: Path) -> None:
    path = write(tmp_path / "a.log", [(500 * n, 1000, 0, 0) for n in range(20)])
    (one,) = fio_log.summary(path, fio_log.read(path)).operations
    assert "entries come every 500 ms" in one.doubts[0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("\n\n", "is empty"),
        ("1, 2, 0\n", r":1: 3 fields; wanted is"),
        ("1, 2, 0, 4\n1, x, 0, 4\n", r":2: '1, x, 0, 4' is not an entry of a latency log"),
        ("1, 2, 0, 4\n1, -2, 0, 4\n", r":2: "),
        ("1, 2, 0, 4\n1, 2\n", r":2: "),
        ("1, 2, 0, 4\n1, , 0, 4\n", "wanted is"),
        ("1, 2, 9, 4\n", "direction 9 is not known"),
    ],
)
def test_what_is_no_log_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "a.log"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        fio_log.summary(path, fio_log.read(path))


def test_a_name_is_no_pattern(tmp_path: Path) -> None:
    write(tmp_path / "a1.log", [(0, 1, 0, 1)])
    path = write(tmp_path / "a[1]*.log", [(0, 1, 0, 1), (0, 1, 0, 1)])
    assert fio_log.read(path).time_ms.size == 2
    with pytest.raises(InputError, match=r"a\?\.log: cannot be read"):
        fio_log.read(tmp_path / "a?.log")


@settings(max_examples=40)
@given(
    st.lists(
        st.tuples(st.integers(0, 10**4), st.integers(0, 10**9), st.integers(0, 2), st.just(512)),
        min_size=1,
        max_size=50,
    )
)
def test_percentiles_are_those_of_a_sorted_list(
    tmp_path_factory: pytest.TempPathFactory, entries: list[Entry]
) -> None:
    path = write(tmp_path_factory.getbasetemp() / "any.log", entries)
    log = fio_log.read(path)
    for one in fio_log.summary(path, log).operations:
        number = fio_log.DIRECTIONS.index(one.operation)
        values = [latency for _, latency, direction, _ in entries if direction == number]
        assert one.latency_us["p50"] == slow_percentile(values, 0.5)
        assert one.latency_us["p99"] == slow_percentile(values, 0.99)
    told = fio_log.windows(path, log, 1.0)
    assert sum(one.operations for one in told) == len(entries)


@settings(max_examples=40)
@given(
    st.binary(max_size=60)
    | st.lists(
        st.lists(
            st.integers().map(str) | st.sampled_from(["", "x", '"', "0x1", "nan", "1e5", "#"]),
            min_size=3,
            max_size=6,
        ).map(", ".join),
        max_size=6,
    ).map(lambda lines: "\n".join(lines).encode())
)
def test_no_file_breaks_it(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "broken.log"
    path.write_bytes(content)
    try:
        log = fio_log.read(path)
        found = fio_log.summary(path, log)
        fio_log.windows(path, log, 1.0)
    except InputError:
        return
    json.dumps(found.as_dict(), allow_nan=False)
