"""The result folder that `wattiod` leaves: deriving what the run format promises from its journal.

study.toml      the daemon's configuration as given
machine.json    the host, the daemon's version and mode; its `kind` is "governor"
raw/            the journal: windows.jsonl, events.jsonl, summary.json
catalog.sqlite  derived: one run, one iteration, one phase, verdicts, metrics
samples/        derived: every window with its histogram
derived.json    derived: how much of raw/ was there then, and by which version
report/         derived: the page

A daemon may still be writing: what is derived is derived again when the journal has grown. Where
the folder cannot be written, it is derived into a temporary one.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import shutil
import tempfile
import tomllib
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from wattio.errors import ResultError, storage_reason
from wattio.kinds.governor import metrics
from wattio.kinds.governor import windows as governed_windows
from wattio.kinds.governor.journal import Event, Journal, Machine, Summary, Window, read_object
from wattio.kinds.governor.metrics import STABLE, Tally
from wattio.results import samples
from wattio.results.catalog import Catalog
from wattio.results.runs import WHOLE, Metrics, Phase, Recorded, Run, Setting, Verdict

PIECE = 20_000
"""Windows in one file of samples: some hours at 2 Hz, and what is held in memory at once."""

_SOURCE = """WITH windows AS (FROM read_parquet('{files}')), judged AS (
    SELECT *, coalesce(
        lag(state) OVER (ORDER BY "window") = {stable} AND requests > 0 AND latency_us_seen > 0
        AND baseline_us > 0 AND bound_us IS NOT NULL, false) AS bounded
    FROM windows)"""
"""SQL of the samples; a window is `bounded` when it counts towards the bound, as in the metrics."""

_CANNOT_BE_WRITTEN = (errno.EACCES, errno.EPERM, errno.EROFS)

WINDOWS, EVENTS, SUMMARY = "raw/windows.jsonl", "raw/events.jsonl", "raw/summary.json"


@dataclass(frozen=True)
class Derived:
    """What a journal says, as the catalog holds it; `read` tells how much of raw/ was there."""

    recorded: Recorded
    phase: Phase
    read: dict[str, Any]


class GovernorFolder:
    """One result folder of `wattiod`."""

    def __init__(self, path: Path) -> None:
        """Open a folder. Raises ResultError where its machine.json cannot be used."""
        self.path = path
        self._elsewhere: Path | None = None
        self.machine = read_object(Machine, path / "machine.json")
        self.groups = [group.name for group in self.machine.groups]
        if len(set(self.groups)) < len(self.groups):
            raise ResultError(f"{path / 'machine.json'}: groups: two have the same name")

    @property
    def name(self) -> str:
        """The folder's own name: time and short hash."""
        return self.path.resolve().name

    @property
    def place(self) -> Path:
        """Where catalog and samples are: in the folder, or elsewhere while this object lives."""
        return self._elsewhere or self.path

    def config_text(self) -> str:
        """The daemon's configuration as given."""
        try:
            return (self.path / "study.toml").read_text(encoding="utf-8-sig", errors="replace")
        except OSError as error:
            message = f"{self.path / 'study.toml'}: cannot be read: {error.strerror}"
            raise ResultError(message) from error

    def summary(self) -> Summary | None:
        """The daemon's last status; None if it never wrote one."""
        path = self.path / SUMMARY
        return read_object(Summary, path) if path.exists() else None

    def events(self) -> Iterator[Event]:
        """Every event, in order. Raises ResultError that names file and line."""
        return (event for _, event in Journal(self.path / EVENTS).lines(Event))

    def refresh(self) -> None:
        """Derive catalog and samples where there are none, or where the journal has grown.

        In a temporary folder if it cannot be in this one. Raises ResultError.
        """
        if self.is_fresh():
            return
        try:
            self.derive()
        except ResultError as error:
            cause = error.__cause__
            if not isinstance(cause, OSError) or cause.errno not in _CANNOT_BE_WRITTEN:
                raise
            self._elsewhere = Path(tempfile.mkdtemp(prefix="wattio-derived-"))
            weakref.finalize(self, shutil.rmtree, self._elsewhere, ignore_errors=True)
            self.derive()

    def is_fresh(self) -> bool:
        """Whether what is derived was derived from what raw/ holds now, by this version."""
        sizes = (_size(self.path / WINDOWS), _size(self.path / EVENTS))
        facts = _facts(*sizes, self._summary_digest())
        return (self.place / "catalog.sqlite").is_file() and self._derived_from() == facts

    def has_grown(self) -> bool:
        """Whether the journal holds more than when catalog and samples were derived from it."""
        before = self._derived_from().get("windows_bytes", 0)
        return isinstance(before, int) and _size(self.path / WINDOWS) > before

    def _derived_from(self) -> dict[str, Any]:
        try:
            content = json.loads((self.place / "derived.json").read_bytes())
        except (OSError, ValueError, RecursionError):
            return {}
        return content if isinstance(content, dict) else {}

    def derive(self) -> None:
        """Derive catalog and samples; they appear when they are whole. Raises ResultError."""
        try:
            beside = Path(tempfile.mkdtemp(prefix=".derived-", dir=self.place))
        except OSError as error:
            raise ResultError(f"{self.place}: cannot be written: {error.strerror}") from error
        try:
            beside.chmod(0o755)
            (beside / "samples").mkdir()
            derived = self.read(beside / "samples")
            with Catalog(beside / "catalog.sqlite") as catalog:
                catalog.add_runs([derived.recorded.run])
                catalog.add(derived.recorded, [derived.phase], "governor")
            text = json.dumps(derived.read, indent=1) + "\n"
            (beside / "derived.json").write_text(text, encoding="utf-8")
            self._move_in(beside)
        except OSError as error:
            raise ResultError(f"{self.place}: cannot be written: {error.strerror}") from error
        finally:
            shutil.rmtree(beside, ignore_errors=True)

    def read(self, target: Path | None = None) -> Derived:
        """Read the journal from end to end; write samples into `target` where it is given."""
        journal, tally = Journal(self.path / WINDOWS), Tally()
        # Taken first: a daemon that is writing may replace it meanwhile.
        digest, summary = self._summary_digest(), self.summary()
        for number, piece in enumerate(_pieces(self._windows(journal))):
            columns = governed_windows.columns(piece, tally.windows, self.groups)
            histograms = governed_windows.histograms(piece)
            tally.add(columns, histograms)
            if target is not None:
                name = f"{self._identity()}-{number:04}.parquet"
                samples.write(target / name, columns, histograms)
        events = Journal(self.path / EVENTS)
        errors = sum(event.severity == "error" for _, event in events.lines(Event))
        truncated = [WINDOWS] * journal.truncated + [EVENTS] * events.truncated
        found = metrics.of_tally(tally, self.machine)
        found |= metrics.of_summary(summary)
        verdicts = metrics.verdicts(tally, summary, truncated, errors)
        facts = _facts(journal.bytes_read, events.bytes_read, digest)
        run = self._run(tally, summary)
        return Derived(self._recorded(run, verdicts, found), self._phase(tally), facts)

    def recorded(self) -> tuple[Recorded, Phase]:
        """What the catalog holds. Raises ResultError where it does not hold one iteration."""
        path = self.place / "catalog.sqlite"
        if not path.is_file():
            message = "no metrics derived yet; run `wattio report` first"
            raise ResultError(f"{self.path}: has no catalog.sqlite: {message}")
        with Catalog(path, reading=True) as catalog:
            found = catalog.iterations()
            if len(found) != 1:
                raise ResultError(f"{path}: holds {len(found)} iterations, not one")
            phases = catalog.phases(found[0].identity)
        if len(phases) != 1:
            raise ResultError(f"{path}: holds {len(phases)} phases, not one")
        return found[0], phases[0]

    def query(self, sql: str) -> dict[str, NDArray[Any]]:
        """Columns of a query over the samples; numbers with NaN for NULL. Raises ResultError.

        The query calls them `windows`, or `judged` with the column `bounded`.
        """
        files = str(self.place / "samples" / f"{self._identity()}-*.parquet").replace("'", "''")
        source = _SOURCE.format(files=files, stable=STABLE)
        try:
            with duckdb.connect() as connection:
                connection.execute("SET threads = 1")
                found = connection.execute(f"{source} {sql}").fetchnumpy()
        except duckdb.Error as error:
            said = storage_reason(error)
            raise ResultError(f"{self.place / 'samples'}: cannot be read: {said}") from error
        return {
            name: column
            if column.dtype.kind == "O"
            else np.ma.filled(column.astype(np.float64), np.nan)
            for name, column in found.items()
        }

    def _windows(self, journal: Journal) -> Iterator[Window]:
        for number, window in journal.lines(Window):
            wrong = governed_windows.misfit(window, self.groups)
            if wrong:
                raise journal.error(number, wrong)
            yield window

    def _identity(self) -> str:
        machine = self.machine
        content = [machine.name, machine.hostname, machine.boot_id, machine.started_utc_ns]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]

    def _run(self, tally: Tally, summary: Summary | None) -> Run:
        machine = self.machine
        tolerance = summary.latency.tolerance if summary else None
        plf = tolerance if tolerance is not None else round(tally.tolerance or 0.0, 6)
        host = machine.hostname or "unknown host"
        settings = self._settings()
        facts: dict[str, Setting] = {"policy": machine.policy, "plf": plf}
        return Run(machine.name, host, machine.policy, settings, facts)

    def _settings(self) -> dict[str, Any]:
        """The policy's settings as the configuration gives them."""
        try:
            content = tomllib.loads(self.config_text())
        except tomllib.TOMLDecodeError:
            return {}
        policy = content.get("policy")
        settings = policy.get("settings") if isinstance(policy, dict) else None
        given = settings.items() if isinstance(settings, dict) else ()
        return {key: value for key, value in given if isinstance(value, str | int | float)}

    def _recorded(self, run: Run, verdicts: list[Verdict], found: Metrics) -> Recorded:
        return Recorded(self._identity(), run, 0, 0, 0, tuple(verdicts), {WHOLE: found})

    def _phase(self, tally: Tally) -> Phase:
        machine = self.machine
        start = (machine.started_utc_ns, machine.started_monotonic_ns)
        end = tally.last_ns or start
        return Phase(machine.mode, start[0], end[0], start[1], end[1])

    def _summary_digest(self) -> str | None:
        with contextlib.suppress(OSError):
            return hashlib.sha256((self.path / SUMMARY).read_bytes()).hexdigest()
        return None

    def _move_in(self, beside: Path) -> None:
        """Put what was derived in place; the catalog comes last, as nothing counts without it."""
        catalog = self.place / "catalog.sqlite"
        catalog.unlink(missing_ok=True)
        shutil.rmtree(self.place / "samples", ignore_errors=True)
        for name in ("samples", "derived.json", "catalog.sqlite"):
            (beside / name).replace(self.place / name)


def _pieces(windows: Iterator[Window]) -> Iterator[list[Window]]:
    """Windows piece by piece; where there is none, one piece without any."""
    yield list(islice(windows, PIECE))
    while piece := list(islice(windows, PIECE)):
        yield piece


RULES = 2
"""Grows when a journal gives other metrics or verdicts than before; 2: NO_ESTIMATE."""


def _facts(windows_bytes: int, events_bytes: int, summary: str | None) -> dict[str, Any]:
    return {
        "wattio": version("wattio"),
        "rules": RULES,
        "windows_bytes": windows_bytes,
        "events_bytes": events_bytes,
        "summary_sha256": summary,
    }


def _size(path: Path) -> int:
    with contextlib.suppress(OSError):
        return path.stat().st_size
    return 0


def open_folder(path: Path) -> GovernorFolder:
    """Open a folder of this kind. Raises ResultError where it is not one."""
    return GovernorFolder(path)
