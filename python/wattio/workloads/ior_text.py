"""The text that IOR prints: options as `name : value` (4.x, 3.x) or `name = value` (older), and a
table of results whose columns are named by its head."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field, replace

_VERSION = re.compile(r"^IOR-(\S{1,40}): MPI Coordinated", re.MULTILINE)
_OPTION = re.compile(r"^\s*([A-Za-z][\w ()/.-]{0,40}?)\s*[:=]\s?(.*)$")
_HEAD = re.compile(r"^access\s+bw\(MiB/s\)")
_ACCESS = re.compile(r"[a-z]{1,20}")
_COLUMNS = {
    "total(s)": "seconds",
    "bw(MiB/s)": "mib_s",
    "IOPS": "iops",
    "block(KiB)": "block_kib",
    "xfer(KiB)": "transfer_kib",
}
_LEAST, _MOST = 1e-12, 2.0**63


@dataclass(frozen=True)
class Row:
    """One access of one iteration; what is not told is None."""

    access: str
    seconds: float | None = None
    mib_s: float | None = None
    iops: float | None = None
    block_kib: float | None = None
    transfer_kib: float | None = None


@dataclass(frozen=True)
class Run:
    """One test: its options, and its rows in order. `shifted`: tasks read what others wrote."""

    number: int = 0
    tasks: int | None = None
    nodes: int | None = None
    segments: int | None = None
    shifted: bool | None = None
    synced: bool | None = None
    stonewall: bool = False
    rows: list[Row] = field(default_factory=list)


@dataclass(frozen=True)
class Report:
    """A whole output; stamps are as printed."""

    version: str
    began: str | None
    finished: str | None
    runs: list[Run]


def positive(value: float | None) -> float | None:
    """A rate or a time; None if it is absent, or out of all range."""
    return value if value is not None and _LEAST < value < _MOST else None


def read(output: str) -> Report:
    """Read what is there; no rows where there are none."""
    version = _VERSION.search(output)
    head: dict[str, str] = {}
    runs: list[Run] = []
    columns: list[str] | None = None
    for line in output.split("\n"):
        words = line.split()
        if _HEAD.match(line):
            columns = words
        elif columns and runs and (row := _row(words, columns)) is not None:
            runs[-1].rows.append(row)
        elif option := _OPTION.match(line):
            key, value = option[1].strip().lower(), option[2].strip()
            if key in ("testid", "api"):
                runs = _next(runs, key, value)
            head.setdefault(key, value)
            if key == "finished":
                head[key] = value
            if runs:
                runs[-1] = _with(runs[-1], key, value)
    synced = "-e" in head["command line"].split() if "command line" in head else None
    return Report(
        version[1] if version else "unknown",
        head.get("began"),
        head.get("finished"),
        [replace(run, synced=synced) for run in runs],
    )


def _next(runs: list[Run], key: str, value: str) -> list[Run]:
    """A test begins with its number; older versions have none, there it is the interface."""
    if key == "testid":
        return [*runs, Run(number=_count(value) or 0)]
    return runs if runs and not runs[-1].rows else [*runs, Run(number=len(runs))]


def _with(run: Run, key: str, value: str) -> Run:
    """The test with an option that matters here; others change nothing."""
    match key:
        case "tasks" | "clients":
            # Older: "clients = 8 (4 per node)".
            return replace(run, tasks=_count(value.split()[0] if value.split() else ""))
        case "nodes":
            return replace(run, nodes=_count(value))
        case "segments":
            return replace(run, segments=_count(value))
        case "ordering inter file":
            return replace(run, shifted=not value.lower().startswith("no "))
        case "stonewallingtime" | "stonewalling time":
            return replace(run, stonewall=_count(value) not in (0, None))
    return run


def _row(words: list[str], columns: list[str]) -> Row | None:
    if len(words) != len(columns) or not _ACCESS.fullmatch(words[0]):
        return None
    told = dict(zip(columns, words, strict=True))
    values = {name: _number(told.get(column, "")) for column, name in _COLUMNS.items()}
    if values["seconds"] is None and values["mib_s"] is None:
        return None
    return Row(words[0], **values)


def _number(word: str) -> float | None:
    try:
        found = float(word)
    except ValueError:
        return None
    return positive(found) if math.isfinite(found) else None


def _count(word: str) -> int | None:
    return int(word) if word.isascii() and word.isdigit() and len(word) < 10 else None
