"""The catalog of a result folder: runs, iterations, phases, verdicts and metrics, in SQLite.

An iteration becomes part of the catalog in one transaction, when it has ended; whatever kills the
process before leaves no trace of it here. Catalogs of version 0.1 are converted as they are opened;
those in a folder that cannot be written are read, and converted in memory. What the tables of one
lack is said as damage, with the table: what is read here is whole, or raises ResultError.
"""

from __future__ import annotations

import errno
import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NoReturn

from pydantic import TypeAdapter

from wattio.errors import ResultError, no_room
from wattio.results import conversion
from wattio.results.kept import Kept, Shape, checked
from wattio.results.runs import WHOLE, Metrics, Phase, Recorded, Run, Setting, Verdict

FORMAT = 2
"""Version of the tables below, as `PRAGMA user_version` has it; version 0.1 wrote none."""

_TABLES = """
CREATE TABLE IF NOT EXISTS runs (
    run TEXT PRIMARY KEY, subject TEXT NOT NULL, system TEXT NOT NULL, condition TEXT NOT NULL,
    settings TEXT NOT NULL, facts TEXT NOT NULL, position INTEGER NOT NULL) STRICT;
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
    iteration TEXT NOT NULL REFERENCES iterations, phase TEXT NOT NULL, name TEXT NOT NULL,
    value REAL NOT NULL, unit TEXT NOT NULL, PRIMARY KEY (iteration, phase, name)) STRICT;
"""

VERDICTS = ("VALID", "WARN", "INVALID")

_VALUE_MAX = 1e100
"""What no metric comes near in its unit: beyond it, sums, squares and scales of axes overflow."""


class _Facts(Shape):
    """What is read of a run's facts, where it is there."""

    policy: str = ""
    plf: float = 0.0
    sweep_setting: str = ""


_FACTS = TypeAdapter(_Facts)
_SETTINGS = TypeAdapter(dict[str, Setting])


class Catalog:
    """One open catalog; for one thread."""

    def __init__(self, path: Path, *, reading: bool = False) -> None:
        """Open a catalog, or begin one. Raises ResultError if the file is something else.

        For reading only, a full disk is no reason not to: opening a file for more makes the index
        of its log beside it.
        """
        self._path = path
        try:
            try:
                self._connection = _connect(path)
            except sqlite3.Error as error:
                if not (reading and no_room(error)):
                    raise
                self._connection = _read_only(path)
        except (sqlite3.Error, ValueError) as error:
            if no_room(error):
                full = f"{path}: cannot be opened: {os.strerror(errno.ENOSPC)}"
                raise ResultError(full) from error
            raise ResultError(f"{path}: is not a usable catalog: {error}") from error

    def __enter__(self) -> Catalog:
        """It is closed at the end."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()

    def close(self) -> None:
        """Fold the write-ahead log into the file, unless others read it now, and close it."""
        with suppress(sqlite3.OperationalError):
            self._connection.execute("PRAGMA busy_timeout = 0")
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._connection.close()

    def add_runs(self, runs: Iterable[Run]) -> None:
        """Enter runs that are not there yet."""
        rows = [
            (
                *(run.name, run.subject, run.system, run.condition),
                *(json.dumps(dict(part), sort_keys=True) for part in (run.settings, run.facts)),
                position,
            )
            for position, run in enumerate(runs)
        ]
        with _transaction(self._connection) as connection:
            connection.executemany("INSERT OR IGNORE INTO runs VALUES (?, ?, ?, ?, ?, ?, ?)", rows)

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
            _insert_metrics(connection, key, ended.by_phase)

    def put_metrics(self, identity: str, metrics: Metrics) -> None:
        """Enter metrics of a whole iteration that is there; equal names are replaced."""
        with _transaction(self._connection) as connection:
            _insert_metrics(connection, identity, {WHOLE: metrics})

    def replace_derived(
        self, identity: str, verdicts: Sequence[Verdict], by_phase: Mapping[str, Metrics]
    ) -> None:
        """Put verdicts and metrics of an iteration in the place of those that are there."""
        with _transaction(self._connection) as connection:
            for table in ("verdicts", "metrics"):
                connection.execute(f"DELETE FROM {table} WHERE iteration = ?", (identity,))  # noqa: S608
            _insert_verdicts(connection, identity, verdicts)
            _insert_metrics(connection, identity, by_phase)

    def query(self, sql: str) -> tuple[list[str], list[tuple[object, ...]]]:
        """The names of a query's columns, and its rows. Raises ResultError where it fails."""
        with self._reading():
            found = self._connection.execute(sql)
            return [item[0] for item in found.description], found.fetchall()

    def phases(self, identity: str) -> list[Phase]:
        """The phases of an iteration, in their order."""
        with self._reading():
            rows = self._connection.execute(
                "SELECT name, start_utc_ns, end_utc_ns, start_monotonic_ns, end_monotonic_ns"
                " FROM phases WHERE iteration = ? ORDER BY start_monotonic_ns",
                (identity,),
            )
            return [Phase(*row) for row in rows]

    def done(self) -> set[str]:
        """Identities of the iterations that are there."""
        with self._reading():
            return {row[0] for row in self._connection.execute("SELECT iteration FROM iterations")}

    def usable(self) -> dict[str, bool]:
        """Of the iterations that are there, by identity, whether means may be taken over them."""
        with self._reading():
            rows = self._connection.execute(
                "SELECT iteration, run, coalesce(max(verdict = 'INVALID'), -1) FROM iterations"
                " LEFT JOIN verdicts USING (iteration) GROUP BY iteration"
            ).fetchall()
        for key, run, invalid in rows:
            if invalid < 0:
                self._unjudged(key, run)
        return {key: not invalid for key, _, invalid in rows}

    def iterations(self) -> list[Recorded]:
        """Every iteration, in the order of the study's runs, then by seed and repetition."""
        # One state of the catalog, also while a study goes on to write to it.
        with self._reading(), _transaction(self._connection, "BEGIN"):
            return self._iterations()

    def _iterations(self) -> list[Recorded]:
        runs = self._runs()
        rows = self._connection.execute(
            "SELECT iteration, run, seed, repetition, derived_seed, attempt FROM iterations"
            " LEFT JOIN runs USING (run) ORDER BY position, seed, repetition, attempt"
        ).fetchall()
        known = {key: run for key, run, *_ in rows}
        for key, run in known.items():
            if run not in runs:
                self._damaged("runs", f'has no "{run}", which iteration {key} is of')
        metrics, verdicts = self._metrics(known), self._verdicts(known)
        found = [
            Recorded(
                *(key, runs[run], seed, again, derived),
                *(tuple(verdicts[key]), metrics.get(key, {}), attempt),
            )
            for key, run, seed, again, derived, attempt in rows
        ]
        for item in found:
            if item.usable and not item.by_phase:
                self._damaged("metrics", f"has none of iteration {item.identity} ({item.name})")
        return found

    def _runs(self) -> dict[str, Run]:
        found = {}
        for name, subject, system, condition, *texts in self._connection.execute(
            "SELECT run, subject, system, condition, settings, facts FROM runs"
        ):
            tables = []
            for part, text in zip(("settings", "facts"), texts, strict=True):
                place = self._place("runs", f"{part} of {name}")
                table = checked(place, text, _SETTINGS)
                tables.append(Kept(place, table))
            checked(place, texts[1], _FACTS)
            settings, facts = tables
            found[name] = run = Run(subject, system, condition, settings, facts)
            if run.name != name:
                self._damaged("runs", f'"{name}" is of subject and condition "{run.name}"')
        return found

    def _metrics(self, known: Mapping[str, str]) -> dict[str, Kept]:
        found: dict[str, dict[str, Metrics]] = {}
        for key, phase, name, value, unit, start in self._connection.execute(
            "SELECT metrics.iteration, metrics.phase, metrics.name, value, unit, start_monotonic_ns"
            " FROM metrics LEFT JOIN phases"
            " ON phases.iteration = metrics.iteration AND phases.name = metrics.phase"
            " ORDER BY metrics.iteration, start_monotonic_ns, metrics.phase, metrics.name"
        ):
            if start is None and phase != WHOLE:
                self._damaged(
                    "phases", f'has no "{phase}" of iteration {key}, of which are metrics'
                )
            if not _is_finite(value):
                run = known.get(key, "no run")
                told = f"{name} of iteration {key} ({run}) is {value}, not a finite number"
                self._damaged("metrics", f"{told} of at most {_VALUE_MAX:g}")
            found.setdefault(key, {}).setdefault(phase, {})[name] = (value, unit)
        self._all_known("metrics", found, known)
        return {
            key: Kept(self._place("metrics", f"iteration {key} ({known[key]})"), by_phase)
            for key, by_phase in found.items()
        }

    def _verdicts(self, known: Mapping[str, str]) -> dict[str, list[Verdict]]:
        found: dict[str, list[Verdict]] = {}
        for key, verdict, reason in self._connection.execute(
            "SELECT iteration, verdict, reason FROM verdicts ORDER BY iteration, reason"
        ):
            if verdict not in VERDICTS:
                told = f'"{verdict}" of iteration {key} is no verdict; allowed: '
                self._damaged("verdicts", told + ", ".join(VERDICTS))
            found.setdefault(key, []).append(Verdict(verdict, reason))
        self._all_known("verdicts", found, known)
        for key, run in known.items():
            if key not in found:
                self._unjudged(key, run)
        return found

    def _unjudged(self, key: str, run: str) -> NoReturn:
        self._damaged("verdicts", f"has none of iteration {key} ({run})")

    def _all_known(self, table: str, found: Iterable[str], known: Mapping[str, str]) -> None:
        for key in found:
            if key not in known:
                self._damaged("iterations", f'has no "{key}", of which are {table}')

    def _place(self, table: str, row: str) -> str:
        return f"{self._path}: table {table}: {row}"

    def _damaged(self, table: str, lack: str) -> NoReturn:
        raise ResultError(f"{self._path}: table {table}: {lack}: the file is damaged")

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """What SQLite says of a table that cannot be read names the file. Raises ResultError."""
        try:
            yield
        except sqlite3.Error as error:
            raise ResultError(f"{self._path}: cannot be read: {error}") from error


def _connect(path: Path) -> sqlite3.Connection:
    """The file itself, or a copy in memory if it is old and cannot be written."""
    writable = os.access(path if path.exists() else path.parent, os.W_OK)
    if not (writable and os.access(path.parent, os.W_OK)):
        return _read_only(path)
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        _bring_up(connection)
        # Only now: what is converted refers to tables that are made anew.
        connection.execute("PRAGMA foreign_keys = ON")
    except BaseException:
        connection.close()
        raise
    return connection


def _read_only(path: Path) -> sqlite3.Connection:
    # Without write access there is no place for the locks and the index of the log.
    log = path.with_name(f"{path.name}-wal")
    with_log = log.exists() and log.stat().st_size > 0
    mode = "mode=ro" if with_log else "mode=ro&immutable=1"
    with sqlite3.connect(f"{path.resolve().as_uri()}?{mode}", uri=True) as kept:
        connection = sqlite3.connect(":memory:", isolation_level=None)
        kept.backup(connection)
    kept.close()
    _bring_up(connection)
    return connection


def _bring_up(connection: sqlite3.Connection) -> None:
    """Make the tables if there are none, and convert those of an older version."""
    found = connection.execute("PRAGMA user_version").fetchone()[0]
    if found > FORMAT:
        raise ValueError(
            f"written by a newer wattio (format {found}; this one reads up to {FORMAT})"
        )
    if found == FORMAT:
        return
    with _transaction(connection):
        # Another process may have done it meanwhile.
        if connection.execute("PRAGMA user_version").fetchone()[0] == FORMAT:
            return
        old = conversion.take_out(connection)
        for statement in _TABLES.split(";"):
            connection.execute(statement)
        conversion.put_in(connection, old)
        connection.execute(f"PRAGMA user_version = {FORMAT}")


def _is_finite(value: object) -> bool:
    """Whether a value is a number that can be computed with further."""
    return isinstance(value, int | float) and abs(value) <= _VALUE_MAX  # NaN is not.


def _insert_verdicts(connection: sqlite3.Connection, key: str, verdicts: Sequence[Verdict]) -> None:
    rows = [(key, verdict.verdict, verdict.reason) for verdict in verdicts]
    connection.executemany("INSERT INTO verdicts VALUES (?, ?, ?)", rows)


def _insert_metrics(
    connection: sqlite3.Connection, key: str, by_phase: Mapping[str, Metrics]
) -> None:
    rows = [
        (key, phase, name, float(value), unit)
        for phase, metrics in by_phase.items()
        for name, (value, unit) in sorted(metrics.items())
        # What could not be computed is absent, as a reading is that is missing.
        if _is_finite(float(value))
    ]
    connection.executemany("INSERT OR REPLACE INTO metrics VALUES (?, ?, ?, ?, ?)", rows)


@contextmanager
def _transaction(
    connection: sqlite3.Connection, begin: str = "BEGIN IMMEDIATE"
) -> Iterator[sqlite3.Connection]:
    """Everything inside is committed together, or not at all."""
    connection.execute(begin)
    try:
        yield connection
    except BaseException:
        if connection.in_transaction:  # On a full disk SQLite has undone it by itself.
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")
