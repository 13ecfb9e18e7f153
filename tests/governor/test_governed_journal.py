"""Lines of a governor's journal: what they may hold, and what becomes of those that cannot be."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from wattio.errors import ResultError
from wattio.kinds.governor import windows
from wattio.kinds.governor.journal import (
    LINE_BYTES_MAX,
    Event,
    Group,
    Journal,
    Machine,
    Summary,
    Window,
    parse,
    read_object,
)

from governor import governed_fake as fake

GOOD = {"utc_ns": 1, "monotonic_ns": 2, "dt_s": 0.5, "cores": [4]}

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(st.binary())
def test_no_text_breaks_the_parser(text: bytes) -> None:
    for model in (Window, Event, Machine, Summary):
        with contextlib.suppress(ValueError):
            parse(model, text)


@given(st.sampled_from(sorted(Window.model_fields)), _JSON)
def test_a_wrong_value_is_refused_by_its_key_or_usable(key: str, value: object) -> None:
    line = json.dumps(GOOD | {key: value}).encode()
    window, message = None, ""
    try:
        window = parse(Window, line)
    except ValueError as error:
        message = str(error)
    if window is None:
        # Python writes what is no JSON, such as NaN or half a surrogate pair: no key is at fault.
        assert message.startswith((key, "invalid JSON"))
        return
    groups = [f"g{number}" for number in range(len(window.cores))]
    if windows.misfit(window, groups) is None:
        columns = windows.columns([window], 0, groups)
        assert all(len(column) == 1 for column in columns.values())
        assert not any(
            np.isinf(column).any() for column in columns.values() if column.dtype.kind == "f"
        )
        histograms = windows.histograms([window])
        assert (np.diff(histograms.edge) > 0).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dt_s": -1}, "dt_s: must be greater than or equal to 0"),
        ({"dt_s": "1"}, "dt_s: must be a number"),
        ({"requests": True}, "requests: must be a whole number"),
        ({"utc_ns": 2**64}, "utc_ns: must be less than or equal to"),
        (
            {"state": "asleep"},
            "state: must be 'unstable', 'stable', 'idle',",
        ),
        ({"histogram": [[1.0]]}, "histogram[1]"),
        ({"cores": None}, "cores: must be a list"),
    ],
)
def test_messages_name_the_key(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message.replace("[", r"\[").replace("]", r"\]")):
        parse(Window, json.dumps(GOOD | change).encode())


def test_newer_keys_pass_and_nesting_is_bounded() -> None:
    assert parse(Window, json.dumps(GOOD | {"volume_db": 3}).encode()).requests is None
    with pytest.raises(ValueError, match="recursion"):
        parse(Window, b"[" * 100_000)


def test_a_last_line_without_end_is_dropped_and_told(tmp_path: Path) -> None:
    path = tmp_path / "windows.jsonl"
    whole = json.dumps(GOOD)
    path.write_text(f'{whole}\n{whole}\n{{"utc_ns": 17')
    journal = Journal(path)
    assert [number for number, _ in journal.lines(Window)] == [1, 2]
    assert journal.truncated
    assert journal.bytes_read == path.stat().st_size


def test_power_loss_may_leave_zeros_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "windows.jsonl"
    path.write_bytes(json.dumps(GOOD).encode() + b"\n" + bytes(5000))
    journal = Journal(path)
    assert len(list(journal.lines(Window))) == 1
    assert journal.truncated


@pytest.mark.parametrize("garbage", [b"garbage\n", b"\n", b"\xff\xfe\n", b"{}\n", b"null\n"])
def test_garbage_names_file_and_line(tmp_path: Path, garbage: bytes) -> None:
    path = tmp_path / "windows.jsonl"
    path.write_bytes(json.dumps(GOOD).encode() + b"\n" + garbage)
    with pytest.raises(ResultError, match=r"windows\.jsonl:2: "):
        list(Journal(path).lines(Window))


def test_a_line_without_end_does_not_fill_the_memory(tmp_path: Path) -> None:
    path = tmp_path / "windows.jsonl"
    path.write_bytes(b"x" * (LINE_BYTES_MAX + 1))
    with pytest.raises(ResultError, match=r":1: is longer than 1048576 bytes"):
        list(Journal(path).lines(Window))


def test_a_file_that_is_not_there_holds_no_line(tmp_path: Path) -> None:
    assert list(Journal(tmp_path / "events.jsonl").lines(Event)) == []
    with pytest.raises(ResultError, match=r"machine\.json: cannot be read"):
        read_object(Machine, tmp_path / "machine.json")


def test_lists_must_fit_the_groups() -> None:
    window = parse(Window, json.dumps(GOOD).encode())
    assert windows.misfit(window, ["a"]) is None
    assert windows.misfit(window, ["a", "b"]) == (
        "cores: has 1 entries, machine.json names 2 groups"
    )


def test_buckets_of_the_same_edge_are_added() -> None:
    row = GOOD | {"histogram": [[2.0, 1], [None, 3], [1.0, 0], [2.0, 4]]}
    histograms = windows.histograms([parse(Window, json.dumps(row).encode())])
    assert histograms.edge.tolist() == [2.0, np.inf]
    assert histograms.count.tolist() == [5, 3]


@pytest.mark.parametrize(
    ("cores", "total"), [("0-7", 8), ("3", 1), ("0-3, 8-11", 8), ("", None), ("a-b", None)]
)
def test_lists_of_cores_are_counted(cores: str, total: int | None) -> None:
    assert Group(name="g", cores=cores).cores_total == total


def test_the_made_up_daemon_writes_what_the_parser_takes() -> None:
    for row in fake.windows(50):
        parse(Window, json.dumps(row).encode())
    parse(Machine, json.dumps(fake.machine()).encode())
    parse(Summary, json.dumps(fake.summary(50)).encode())


def test_a_machine_of_before_says_its_version_otherwise() -> None:
    """Journals of before there was another program than `wattiod` name no program."""
    facts = fake.machine()
    del facts["program"], facts["version"]
    old = parse(Machine, json.dumps(facts | {"wattiod": "0.0.9"}).encode())
    assert (old.program, old.version) == ("wattiod", "0.0.9")
    new = parse(Machine, json.dumps(fake.machine() | {"program": "wattio-target"}).encode())
    assert (new.program, new.version) == ("wattio-target", "0.1.0")
