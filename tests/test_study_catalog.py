"""The catalog of a study: several may have it open, and what one reads is of one moment."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from wattio.errors import ResultError
from wattio.results.catalog import Catalog, Recorded, Verdict
from wattio.results.runs import Run

RUN = Run("load", "server", "policy", "label", {}, 0.0, None, None)
PHASES = ("idle", "write")


def ended(number: int) -> Recorded:
    metrics = {f"{phase}.energy_j": (float(number), "J") for phase in PHASES}
    return Recorded(f"iteration{number}", RUN, 1, number, number, (Verdict("VALID", ""),), metrics)


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[Catalog]:
    catalog = Catalog(tmp_path / "catalog.sqlite")
    catalog.add_runs([RUN])
    catalog.add(ended(0), [], "measurement")
    yield catalog
    catalog.close()


def test_what_is_read_is_of_one_moment(
    tmp_path: Path, writer: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another adds an iteration before each statement that the reader makes."""
    connect = sqlite3.connect
    added = [0]

    def add(statement: str) -> None:
        if statement.startswith("SELECT"):
            added.append(len(added))
            writer.add(ended(added[-1]), [], "measurement")

    def watched(path: Path, isolation_level: None) -> sqlite3.Connection:
        connection = connect(path, isolation_level=isolation_level)
        connection.set_trace_callback(add)
        return connection

    monkeypatch.setattr(sqlite3, "connect", watched)
    reader = Catalog(tmp_path / "catalog.sqlite")
    found = reader.iterations()
    reader.close()
    assert len(added) > 3
    assert 1 <= len(found) < len(added)
    assert found == [ended(item.repetition) for item in found]
    assert {item.identity for item in found} < writer.done()


def test_closing_leaves_the_log_to_one_who_still_reads(tmp_path: Path, writer: Catalog) -> None:
    reading = sqlite3.connect(tmp_path / "catalog.sqlite", isolation_level=None)
    reading.execute("BEGIN")
    assert reading.execute("SELECT count(*) FROM iterations").fetchone() == (1,)
    other = Catalog(tmp_path / "catalog.sqlite")
    other.add(ended(1), [], "measurement")
    other.close()
    assert reading.execute("SELECT count(*) FROM iterations").fetchone() == (1,)
    reading.close()
    assert writer.done() == {"iteration0", "iteration1"}


def test_a_file_that_is_none_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "catalog.sqlite"
    path.write_bytes(b"a text that is no database, and long enough to be looked at" * 20)
    with pytest.raises(ResultError, match=r"catalog\.sqlite: is not a usable catalog"):
        Catalog(path)
