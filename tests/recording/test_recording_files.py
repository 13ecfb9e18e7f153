"""What a sampling process writes, and what is read back, also from files that were cut short."""

from __future__ import annotations

from pathlib import Path

import duckdb
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from wattio.clock import Instant
from wattio.errors import ResultError
from wattio.meters import parquet
from wattio.meters.meter import Facts, Reading
from wattio.meters.samples import RECORD, newest, read_file
from wattio.recording import Event, Samples, journal

READINGS = [
    Reading(1_000 + 10 * n, 10 * n, 50.0 + n, None if n % 2 else 0.5 * n, None) for n in range(9)
]


def written(path: Path) -> journal.RecordFile:
    from wattio.meters.samples import packed

    file = journal.RecordFile(path, at_once=False)
    for reading in READINGS:
        file.add(packed(reading))
    file.flush()
    return file


def test_records_are_read_back_with_what_is_absent(tmp_path: Path) -> None:
    written(tmp_path / "0.samples")
    samples = read_file(tmp_path / "0.samples")
    assert list(samples.readings()) == READINGS
    assert newest(tmp_path / "0.samples") == READINGS[-1]
    assert np.isnan(samples.mark).all()


def test_only_the_asked_part_is_read_both_ends_included(tmp_path: Path) -> None:
    written(tmp_path / "0.samples")
    part = read_file(tmp_path / "0.samples", 20, 45)
    assert part.monotonic_ns.tolist() == [20, 30, 40]
    assert Samples.of(READINGS).between(20, 40).monotonic_ns.tolist() == [20, 30, 40]
    assert len(read_file(tmp_path / "0.samples", 1000, 2000)) == 0


@given(torn=st.integers(0, RECORD.size * 3))
def test_a_torn_last_record_is_left_out(
    torn: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("torn") / "0.samples"
    written(path)
    with path.open("r+b") as file:
        file.truncate(RECORD.size * len(READINGS) - torn)
    whole = (RECORD.size * len(READINGS) - torn) // RECORD.size
    assert list(read_file(path).readings()) == READINGS[:whole]


def test_no_file_is_no_reading(tmp_path: Path) -> None:
    assert len(read_file(tmp_path / "none")) == 0
    assert newest(tmp_path / "none") is None
    with pytest.raises(ResultError, match=r"sources\.json: is not a list of recorded meters"):
        journal.read_folder(tmp_path)


def test_a_folder_tells_its_meters_without_their_passwords(tmp_path: Path) -> None:
    written(tmp_path / "0.samples")
    name = "ipmi://admin:hidden@bmc"
    journal.write_sources(tmp_path, {"node": name}, {"node": Facts("ipmi://admin@bmc", "", 1.0)})
    assert "hidden" not in (tmp_path / "sources.json").read_text()
    assert list(journal.read_folder(tmp_path)["node"].readings()) == READINGS


def test_events_are_read_up_to_what_is_none(tmp_path: Path) -> None:
    log = journal.EventLog(tmp_path / "events.jsonl")
    event = Event("node", Instant(5, 6), "lost", 'says "no"')
    log.add(event)
    with (tmp_path / "events.jsonl").open("a") as file:
        file.write('{"label": "node", "at": [1')
    assert journal.read_events(tmp_path / "events.jsonl") == [event]


@given(content=st.binary(max_size=200))
def test_no_bytes_break_the_events(
    content: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("events") / "events.jsonl"
    path.write_bytes(content)
    journal.read_events(path)


def test_parquet_keeps_every_sample_and_is_the_same_each_time(tmp_path: Path) -> None:
    recorded = {
        "b's": Samples.of(READINGS),
        "a": Samples.of([Reading(1, 2, None, None, 3.0)]),
    }
    first, second = tmp_path / "first.parquet", tmp_path / "second.parquet"
    parquet.write(first, recorded)
    parquet.write(second, recorded)
    assert first.read_bytes() == second.read_bytes()
    back = parquet.read(first)
    assert list(back) == ["b's", "a"]
    assert {label: list(samples.readings()) for label, samples in back.items()} == {
        label: list(samples.readings()) for label, samples in recorded.items()
    }
    assert sorted(path.name for path in tmp_path.iterdir()) == ["first.parquet", "second.parquet"]


def test_parquet_of_nothing_is_a_file_of_no_row(tmp_path: Path) -> None:
    parquet.write(tmp_path / "none.parquet", {})
    assert parquet.read(tmp_path / "none.parquet") == {}


def test_parquet_is_read_piece_by_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "_PIECE_ROWS", 2)
    parquet.write(tmp_path / "x.parquet", {"x": Samples.of(READINGS), "y": Samples.of(READINGS)})
    for samples in parquet.read(tmp_path / "x.parquet").values():
        assert list(samples.readings()) == READINGS


def test_what_is_no_parquet_is_said(tmp_path: Path) -> None:
    (tmp_path / "x.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(ResultError, match=r"x\.parquet: cannot be read"):
        parquet.read(tmp_path / "x.parquet")


def test_meters_that_lie_mixed_are_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "mixed.parquet"
    rows = "(VALUES ('a', 1, 1, 5.0), ('b', 1, 1, NULL), ('a', 2, 2, 6.0)) t(m, u, n, p)"
    duckdb.sql(
        f"COPY (SELECT m AS meter, u::BIGINT AS utc_ns, n::BIGINT AS monotonic_ns, p::DOUBLE AS"
        f" power_w, NULL::DOUBLE AS energy_j, NULL::DOUBLE AS mark FROM {rows}) TO '{path}'"
    )
    found = {label: list(samples.readings()) for label, samples in parquet.read(path).items()}
    assert found == {"a": [Reading(1, 1, 5.0), Reading(2, 2, 6.0)], "b": [Reading(1, 1, None)]}
