"""The text that IOR prints: options as `name : value` (4.x, 3.x) or `name = value` (older), and a
table of results whose columns are named by its head; with commas in CSV. 2.10 has means alone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Any

VERSION = re.compile(r"^IOR-(\S{1,40}): MPI Coordinated", re.MULTILINE)
_OPTION = re.compile(r"^\s*([A-Za-z][\w ()/.-]{0,40}?)\s*[:=]\s?(.*)$")
_HEAD = re.compile(r"^access[\s,]+bw\(MiB/s\)")
_MEANS = re.compile(r"^Operation\s+Max \(MiB\)\s+Min \(MiB\)\s+Mean \(MiB\)")
_MEAN_MIB_S, _MEAN_S = 3, 9
"""Columns of the means."""

_SIZE = re.compile(r"(\d{1,15}) (bytes|[KMGT]iB)")
_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")
# Flags that take no value, as they may be written together.
_FLAGS = re.compile(r"-[ABcCeEFgHIkKlmnqrRuvVwWxYzZ]+")
_ACCESS = re.compile(r"[a-z]{1,20}")
_COLUMNS = {
    "total(s)": "seconds",
    "bw(MiB/s)": "mib_s",
    "IOPS": "iops",
    "block(KiB)": "block_kib",
    "xfer(KiB)": "transfer_kib",
}
_LEAST, _MOST = 1e-12, 2.0**63
_MIB = 1 << 20


@dataclass(frozen=True)
class Row:
    """One access of one iteration; what is not told is None.

    2.10 tells `repetitions` together: their seconds and their bytes are sums.
    """

    access: str
    seconds: float | None = None
    mib_s: float | None = None
    iops: float | None = None
    block_kib: float | None = None
    transfer_kib: float | None = None
    repetitions: int = 1


@dataclass(frozen=True)
class Run:
    """One test: its options, and its rows in order.

    `shifted`: tasks read what others wrote; `synced`: what was written was brought to the disk.
    """

    number: int = 0
    tasks: int | None = None
    nodes: int | None = None
    segments: int | None = None
    shifted: bool | None = None
    synced: bool | None = None
    stonewall: bool = False
    repetitions: int = 1
    aggregate_bytes: int | None = None
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


def number(word: str) -> float | None:
    """The rate or time that a word is; None if it is neither."""
    try:
        return positive(float(word))
    except ValueError:
        return None


def count(word: str) -> int | None:
    """The whole number that a word is; None if it is not one."""
    return int(word) if word.isascii() and word.isdigit() and len(word) < 10 else None


def read(output: str) -> Report:
    """Read what is there; no rows where there are none."""
    version = VERSION.search(output)
    head: dict[str, str] = {}
    runs: list[Run] = []
    columns: list[str] | None = None
    means = False
    for line in output.split("\n"):
        if _HEAD.match(line):
            columns, runs = _words(line), runs or [Run()]
        elif _MEANS.match(line) and not any(run.rows for run in runs):
            means = True
        elif runs and (row := _any_row(line, columns, runs[-1] if means else None)) is not None:
            runs[-1].rows.append(row)
        elif option := _OPTION.match(line):
            key, value = option[1].strip().lower().removeprefix("run "), option[2].strip()
            if key in ("testid", "api"):
                runs = _next(runs, key, value)
            head.setdefault(key, value)
            if key == "finished":
                head[key] = value
            if runs:
                runs[-1] = _with(runs[-1], key, value)
    command = head.get("command line", head.get("command line used"))
    if command is not None:
        words = command.split()
        walled = any(word.startswith("-D") and word != "-D0" for word in words)
        synced = _synced(words)
        runs = [replace(run, synced=synced, stonewall=run.stonewall or walled) for run in runs]
    return Report(
        version[1] if version else "unknown", head.get("began"), head.get("finished"), runs
    )


def _words(line: str) -> list[str]:
    """A row's words; those of CSV stand between commas."""
    return line.strip().split(",") if "," in line else line.split()


def _synced(command: list[str]) -> bool | None:
    """Whether a command asks for data on the disk; None if a file may ask for it."""
    flags = "".join(word for word in command[1:] if _FLAGS.fullmatch(word))
    if {"e", "Y", "B"} & set(flags) or "--posix.odirect" in command:
        return True
    asked = any(re.search(r"\bfsync(perwrite)?=1", word, re.IGNORECASE) for word in command)
    return True if asked else None if any(word.startswith("-f") for word in command) else False


def _next(runs: list[Run], key: str, value: str) -> list[Run]:
    """A test begins with its number; older versions have none, there it is the interface.

    With -vvv the number is told once more, among the parameters.
    """
    if runs and not runs[-1].rows:
        return runs
    return [*runs, Run(number=(count(value) if key == "testid" else None) or len(runs))]


def _with(run: Run, key: str, value: str) -> Run:
    """The test with an option that matters here; others change nothing."""
    match key:
        case "tasks" | "clients":
            # Older: "clients = 8 (4 per node)".
            return replace(run, tasks=count(value.split()[0] if value.split() else ""))
        case "nodes":
            return replace(run, nodes=count(value) or run.nodes)
        case "segments":
            return replace(run, segments=count(value))
        case "repetitions":
            return replace(run, repetitions=count(value) or 1)
        case "aggregate filesize":
            return replace(run, aggregate_bytes=_size(value))
        case "ordering inter file":
            return replace(run, shifted=not value.lower().startswith("no "))
        case "stonewallingtime" | "stonewalling time":
            return replace(run, stonewall=count(value) not in (0, None))
    return run


def _any_row(line: str, columns: list[str] | None, of_means: Run | None) -> Row | None:
    """A row of the table of results, or of that of means, whichever has begun."""
    if of_means is not None and (row := _mean(line.split(), of_means)) is not None:
        return row
    return _row(_words(line), columns) if columns else None


def _row(words: list[str], columns: list[str]) -> Row | None:
    if len(words) != len(columns) or not _ACCESS.fullmatch(words[0]):
        return None
    told = dict(zip(columns, words, strict=True))
    values: dict[str, Any] = {
        name: number(told.get(column, "")) for column, name in _COLUMNS.items()
    }
    if values["seconds"] is None and values["mib_s"] is None:
        return None
    return Row(words[0], **values)


def _mean(words: list[str], run: Run) -> Row | None:
    """A row of means: its rate is that of all repetitions, where the amount is known."""
    if len(words) <= _MEAN_S or not _ACCESS.fullmatch(words[0]):
        return None
    seconds, mib_s = number(words[_MEAN_S]), number(words[_MEAN_MIB_S])
    if seconds is None or mib_s is None:
        return None
    if run.aggregate_bytes is not None:
        mib_s = run.aggregate_bytes / _MIB / seconds
    n = run.repetitions
    return Row(words[0], seconds=seconds * n, mib_s=mib_s, repetitions=n)


def _size(words: str) -> int | None:
    """A size that is a whole number of its unit; IOR rounds others."""
    found = _SIZE.fullmatch(words)
    return int(found[1]) << 10 * _UNITS.index(found[2]) if found else None
