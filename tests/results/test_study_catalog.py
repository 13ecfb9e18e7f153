"""The catalog of a study: several may have it open, and what one reads is of one moment."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from wattio.errors import ResultError
from wattio.results.catalog import Catalog
from wattio.results.runs import Metrics, Phase, Recorded, Run, Setting, Verdict

RUN = Run("load", "server", "label", {}, {"policy": "p", "plf": 0.2})
NAMES = ("idle", "write")
PHASES = [Phase(name, *[at] * 4) for at, name in enumerate(NAMES)]


def ended(number: int) -> Recorded:
    metrics: dict[str, Metrics] = {phase: {"energy_j": (float(number), "J")} for phase in NAMES}
    return Recorded(f"iteration{number}", RUN, 1, number, number, (Verdict("VALID", ""),), metrics)


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[Catalog]:
    catalog = Catalog(tmp_path / "catalog.sqlite")
    catalog.add_runs([RUN])
    catalog.add(ended(0), PHASES, "measurement")
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
            writer.add(ended(added[-1]), PHASES, "measurement")

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


@pytest.mark.parametrize(
    ("verdicts", "usable"),
    [
        ([Verdict("VALID", "x")], True),
        ([Verdict("WARN", "x"), Verdict("WARN", "y")], True),
        ([Verdict("WARN", "x"), Verdict("INVALID", "y")], False),
    ],
)
def test_what_is_usable_is_told_without_reading_all(
    writer: Catalog, verdicts: list[Verdict], usable: bool
) -> None:
    item = replace(ended(1), verdicts=tuple(verdicts))
    writer.add(item, PHASES, "measurement")
    assert writer.usable() == {"iteration0": ended(0).usable, item.identity: usable}
    assert item.usable is usable


def test_closing_leaves_the_log_to_one_who_still_reads(tmp_path: Path, writer: Catalog) -> None:
    reading = sqlite3.connect(tmp_path / "catalog.sqlite", isolation_level=None)
    reading.execute("BEGIN")
    assert reading.execute("SELECT count(*) FROM iterations").fetchone() == (1,)
    other = Catalog(tmp_path / "catalog.sqlite")
    other.add(ended(1), PHASES, "measurement")
    other.close()
    assert reading.execute("SELECT count(*) FROM iterations").fetchone() == (1,)
    reading.close()
    assert writer.done() == {"iteration0", "iteration1"}


def test_a_file_that_is_none_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "catalog.sqlite"
    path.write_bytes(b"a text that is no database, and long enough to be looked at" * 20)
    with pytest.raises(ResultError, match=r"catalog\.sqlite: is not a usable catalog"):
        Catalog(path)


OLD = """
CREATE TABLE runs (
    run TEXT PRIMARY KEY, load TEXT NOT NULL, server TEXT NOT NULL, policy TEXT NOT NULL,
    label TEXT NOT NULL, settings TEXT NOT NULL, plf REAL NOT NULL,
    sweep_of TEXT, sweep_setting TEXT, position INTEGER NOT NULL) STRICT;
CREATE TABLE iterations (
    iteration TEXT PRIMARY KEY, run TEXT NOT NULL REFERENCES runs, seed INTEGER NOT NULL,
    repetition INTEGER NOT NULL, derived_seed INTEGER NOT NULL, kind TEXT NOT NULL) STRICT;
CREATE TABLE phases (
    iteration TEXT NOT NULL REFERENCES iterations, name TEXT NOT NULL,
    start_utc_ns INTEGER NOT NULL, end_utc_ns INTEGER NOT NULL,
    start_monotonic_ns INTEGER NOT NULL, end_monotonic_ns INTEGER NOT NULL,
    PRIMARY KEY (iteration, name)) STRICT;
CREATE TABLE verdicts (
    iteration TEXT NOT NULL REFERENCES iterations, verdict TEXT NOT NULL, reason TEXT NOT NULL,
    PRIMARY KEY (iteration, reason)) STRICT;
CREATE TABLE metrics (
    iteration TEXT NOT NULL REFERENCES iterations, name TEXT NOT NULL, value REAL NOT NULL,
    unit TEXT NOT NULL, PRIMARY KEY (iteration, name)) STRICT;
INSERT INTO runs VALUES
    ('day/PACER plf=0.1', 'day', 'small', 'pacer', 'PACER plf=0.1', '{"plf": 0.1}', 0.1,
     'PACER', 'plf', 0),
    ('posix/local, 1 client', 'posix', 'local', 'measured', 'local, 1 client', '{"clients": 1}',
     0.0, NULL, NULL, 1);
INSERT INTO iterations VALUES
    ('a', 'day/PACER plf=0.1', 1, 0, 1, 'simulation'),
    ('b', 'posix/local, 1 client', 1, 0, 1, 'measurement');
INSERT INTO phases VALUES ('b', 'write', 3, 4, 3, 4), ('b', 'write.4k', 1, 2, 1, 2);
INSERT INTO verdicts VALUES ('a', 'VALID', ''), ('b', 'WARN', 'LOW_N');
INSERT INTO metrics VALUES
    ('a', 'energy_j', 5.0, 'J'), ('b', 'write.4k.seconds', 2.0, 's'),
    ('b', 'write.4k.read.bytes', 8.0, 'B'), ('b', 'write.seconds', 1.0, 's'),
    ('b', 'write.energy_j', 3.0, 'J');
"""


@pytest.mark.parametrize("writable", [True, False])
def test_catalogs_of_version_0_1_are_read_on(
    tmp_path: Path, writable: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "catalog.sqlite"
    old = sqlite3.connect(path)
    old.executescript(OLD)
    old.close()
    before = path.read_bytes()
    monkeypatch.setattr("wattio.results.catalog.os.access", lambda *_: writable)
    for _ in range(2):
        catalog = Catalog(path)
        simulated, measured = catalog.iterations()
        catalog.close()
        facts: dict[str, Setting] = {
            "policy": "pacer",
            "plf": 0.1,
            "sweep_of": "PACER",
            "sweep_setting": "plf",
        }
        assert simulated.run == Run("day", "small", "PACER plf=0.1", {"plf": 0.1}, facts)
        assert simulated.metrics == {"energy_j": (5.0, "J")}
        assert measured.run == Run("posix", "local", "local, 1 client", {"clients": 1})
        assert measured.by_phase == {
            "write.4k": {"seconds": (2.0, "s"), "read.bytes": (8.0, "B")},
            "write": {"seconds": (1.0, "s"), "energy_j": (3.0, "J")},
        }
        assert list(measured.by_phase) == ["write.4k", "write"]
        assert measured.verdicts == (Verdict("WARN", "LOW_N"),)
    assert writable or path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["catalog.sqlite"]


def test_a_catalog_of_a_newer_version_is_refused(tmp_path: Path, writer: Catalog) -> None:
    writer._connection.execute("PRAGMA user_version = 99")
    with pytest.raises(ResultError, match="by a newer wattio"):
        Catalog(tmp_path / "catalog.sqlite")
