"""The catalog of a result folder: runs, iterations, phases, verdicts and metrics, in SQLite.

An iteration becomes part of the catalog in one transaction, when it has ended; whatever kills the
process before leaves no trace of it here.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from wattio.errors import ResultError
from wattio.results.runs import Run

_TABLES = """
CREATE TABLE IF NOT EXISTS runs (
    run TEXT PRIMARY KEY, load TEXT NOT NULL, server TEXT NOT NULL, policy TEXT NOT NULL,
    label TEXT NOT NULL, settings TEXT NOT NULL, plf REAL NOT NULL,
    sweep_of TEXT, sweep_setting TEXT, position INTEGER NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS iterations (
    iteration TEXT PRIMARY KEY, run TEXT NOT NULL REFERENCES runs, seed INTEGER NOT NULL,
    repetition INTEGER NOT NULL, derived_seed INTEGER NOT NULL, kind TEXT NOT NULL,
    attempt INTEGER NOT NULL DEFAULT 0) STRICT;
CREATE TABLE IF NOT EXISTS phases (
    iteration TEXT NOT NULL REFERENCES iterations, name TEXT NOT NULL,
    start_utc_ns INTEGER NOT NULL, end_utc_ns INTEGER NOT NULL,
    start_monotonic_ns INTEGER NOT NULL, end_monotonic_ns INTEGER NOT NULL,
    PRIMARY KEY (iteration, name)) STRICT;
CREATE TABLE IF NOT EXISTS verdicts (
    iteration TEXT NOT NULL REFERENCES iterations, verdict TEXT NOT NULL, reason TEXT NOT NULL,
    PRIMARY KEY (iteration, reason)) STRICT;
CREATE TABLE IF NOT EXISTS metrics (
    iteration TEXT NOT NULL REFERENCES iterations, name TEXT NOT NULL, value REAL NOT NULL,
    unit TEXT NOT NULL, PRIMARY KEY (iteration, name)) STRICT;
"""

Metrics = dict[str, tuple[float, str]]
"""Value and unit of each metric, by name."""


@dataclass(frozen=True)
class Phase:
    """A stretch of an iteration on both clocks of the machine that ran it."""

    name: str
    start_utc_ns: int
    end_utc_ns: int
    start_monotonic_ns: int
    end_monotonic_ns: int


@dataclass(frozen=True)
class Verdict:
    """VALID, WARN or INVALID, with the reason."""

    verdict: str
    reason: str


@dataclass(frozen=True)
class Recorded:
    """An iteration as the catalog holds it."""

    identity: str
    run: Run
    seed: int
    repetition: int
    derived_seed: int
    verdicts: tuple[Verdict, ...]
    metrics: Metrics
    # How often a measured iteration was tried before, and was INVALID.
    attempt: int = 0

    @property
    def usable(self) -> bool:
        """Whether means may be taken over it: every verdict but INVALID."""
        return all(verdict.verdict != "INVALID" for verdict in self.verdicts)


class Catalog:
    """One open catalog; for one thread."""

    def __init__(self, path: Path) -> None:
        """Open a catalog, or begin one. Raises ResultError where the file is something else."""
        try:
            self._connection = sqlite3.connect(path, isolation_level=None)
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA foreign_keys = ON")
            self._connection.executescript(_TABLES)
            self._add_attempts()
        except sqlite3.Error as error:
            raise ResultError(f"{path}: is not a usable catalog: {error}") from error

    def _add_attempts(self) -> None:
        """Folders of version 0.1 know no attempts: theirs are all first ones."""
        columns = self._connection.execute("PRAGMA table_info(iterations)")
        if "attempt" not in [row[1] for row in columns]:
            column = "attempt INTEGER NOT NULL DEFAULT 0"
            self._connection.execute(f"ALTER TABLE iterations ADD COLUMN {column}")

    def close(self) -> None:
        """Fold the write-ahead log into the file, where no other reads it now, and close it."""
        with suppress(sqlite3.OperationalError):
            self._connection.execute("PRAGMA busy_timeout = 0")
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._connection.close()

    def add_runs(self, runs: Iterable[Run]) -> None:
        """Enter runs that are not there yet."""
        rows = [
            (
                *(run.name, run.load, run.server, run.policy, run.label),
                *(json.dumps(run.settings, sort_keys=True), run.plf),
                *(run.sweep_of, run.sweep_setting, position),
            )
            for position, run in enumerate(runs)
        ]
        with _transaction(self._connection) as connection:
            connection.executemany(
                "INSERT OR IGNORE INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows
            )

    def add(self, ended: Recorded, phases: Sequence[Phase], kind: str) -> None:
        """Enter an iteration that has ended, with all that belongs to it, or nothing of it."""
        key = ended.identity
        place = (ended.seed, ended.repetition, ended.derived_seed)
        head = (key, ended.run.name, *place, kind, ended.attempt)
        with _transaction(self._connection) as connection:
            connection.execute("INSERT INTO iterations VALUES (?, ?, ?, ?, ?, ?, ?)", head)
            connection.executemany(
                "INSERT INTO phases VALUES (?, ?, ?, ?, ?, ?)",
                [(key, *phase.__dict__.values()) for phase in phases],
            )
            _insert_verdicts(connection, key, ended.verdicts)
            _insert_metrics(connection, key, ended.metrics)

    def put_metrics(self, identity: str, metrics: Mapping[str, tuple[float, str]]) -> None:
        """Enter metrics of an iteration that is there already; equal names are replaced."""
        with _transaction(self._connection) as connection:
            _insert_metrics(connection, identity, metrics)

    def replace_derived(
        self,
        identity: str,
        verdicts: Sequence[Verdict],
        metrics: Mapping[str, tuple[float, str]],
    ) -> None:
        """Put verdicts and metrics of an iteration in the place of those that are there."""
        with _transaction(self._connection) as connection:
            for table in ("verdicts", "metrics"):
                connection.execute(f"DELETE FROM {table} WHERE iteration = ?", (identity,))  # noqa: S608
            _insert_verdicts(connection, identity, verdicts)
            _insert_metrics(connection, identity, metrics)

    def phases(self, identity: str) -> list[Phase]:
        """The phases of an iteration, in their order."""
        rows = self._connection.execute(
            "SELECT name, start_utc_ns, end_utc_ns, start_monotonic_ns, end_monotonic_ns"
            " FROM phases WHERE iteration = ? ORDER BY start_monotonic_ns",
            (identity,),
        )
        return [Phase(*row) for row in rows]

    def done(self) -> set[str]:
        """Identities of the iterations that are there."""
        return {row[0] for row in self._connection.execute("SELECT iteration FROM iterations")}

    def iterations(self) -> list[Recorded]:
        """Every iteration, in the order of the study's runs, then by seed and repetition."""
        with _transaction(self._connection, "BEGIN"):
            # One state of the catalog, also while a study goes on to write to it.
            return self._iterations()

    def _iterations(self) -> list[Recorded]:
        runs = {row[0]: _run(row) for row in self._connection.execute("SELECT * FROM runs")}
        metrics: dict[str, Metrics] = {}
        for key, name, value, unit in self._connection.execute(
            "SELECT * FROM metrics ORDER BY iteration, name"
        ):
            metrics.setdefault(key, {})[name] = (value, unit)
        verdicts: dict[str, list[Verdict]] = {}
        for key, verdict, reason in self._connection.execute(
            "SELECT * FROM verdicts ORDER BY iteration, reason"
        ):
            verdicts.setdefault(key, []).append(Verdict(verdict, reason))
        rows = self._connection.execute(
            "SELECT iteration, run, seed, repetition, derived_seed, attempt FROM iterations"
            " JOIN runs USING (run) ORDER BY position, seed, repetition, attempt"
        )
        return [
            Recorded(
                *(key, runs[run], seed, again, derived),
                *(tuple(verdicts[key]), metrics.get(key, {}), attempt),
            )
            for key, run, seed, again, derived, attempt in rows
        ]


def _run(row: Sequence[str | float | None]) -> Run:
    _, load, server, policy, label, settings, plf, sweep_of, sweep_setting, _ = row
    return Run(
        *(str(load), str(server), str(policy), str(label)),
        *(json.loads(str(settings)), float(plf or 0.0)),
        *(sweep_of if sweep_of is None else str(sweep_of),),
        *(sweep_setting if sweep_setting is None else str(sweep_setting),),
    )


def _insert_verdicts(connection: sqlite3.Connection, key: str, verdicts: Sequence[Verdict]) -> None:
    rows = [(key, verdict.verdict, verdict.reason) for verdict in verdicts]
    connection.executemany("INSERT INTO verdicts VALUES (?, ?, ?)", rows)


def _insert_metrics(
    connection: sqlite3.Connection, key: str, metrics: Mapping[str, tuple[float, str]]
) -> None:
    rows = [(key, name, float(value), unit) for name, (value, unit) in sorted(metrics.items())]
    connection.executemany("INSERT OR REPLACE INTO metrics VALUES (?, ?, ?, ?)", rows)


@contextmanager
def _transaction(
    connection: sqlite3.Connection, begin: str = "BEGIN IMMEDIATE"
) -> Iterator[sqlite3.Connection]:
    """Everything inside is committed together, or not at all."""
    connection.execute(begin)
    try:
        yield connection
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")
