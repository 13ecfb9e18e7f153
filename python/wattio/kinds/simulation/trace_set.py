"""A folder of traces as loads: every trace on every server, at several rates, in pieces.

`[traces]` of a simulation study:

    [traces]
    folder = "/data/traces"       # or: wattio run STUDY --traces /data/traces
    servers = ["small", "dorado6000"]
    rate_scales = [1, 4, 20]
    pieces = 2                    # so many stretches of each trace, evenly spread over it
    stretch = "120 s"             # how long each is; a much shorter trace is stretched in time to
                                  # it, so that its rates fall

Files that are no traces (by their content) are left out and named, damaged ones with what is wrong.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field

from wattio.errors import InputError
from wattio.files import document, toml_text
from wattio.files.document import Document, Strict
from wattio.files.named import in_one_line
from wattio.files.quantity import Seconds
from wattio.kinds.common import Distinct
from wattio.simulator import traces as trace_files

_NAME_MAX = 24
"""So much of the name of a trace or a server goes into that of a load."""

_NO_TRACE = ("the format of the trace is not known", "the trace is empty")
"""How the native module begins where a file holds no trace, damaged or not."""

_SHORT = 0.5
"""A trace of less than this share of a stretch is stretched in time, so that a law gets to act."""


class TraceSetEntry(Strict):
    """`[traces]`: what to make of a folder of traces."""

    folder: str | None = None  # where they lie; or `wattio run --traces`
    # Each trace is played on each: built in, or the path of a server description.
    servers: Distinct[str] = Field(min_length=1)
    # Each trace is played at each of these times its rate.
    rate_scales: Distinct[float] = Field(default=[1.0], min_length=1, max_length=100)
    # So many stretches of each trace, evenly spread over it.
    pieces: int = Field(default=1, ge=1, le=100)
    stretch: Seconds = 120.0  # how long each is; a much shorter trace is stretched to it


@dataclass(frozen=True)
class TraceSet:
    """The loads of a folder, as tables `[[load]]`, and the files that are no traces.

    `unusable` are those that are traces, but damaged or of nothing, each with why.
    """

    loads: list[dict[str, Any]]
    left_out: list[str]
    unusable: list[str]


def with_folder(text: str, folder: Path) -> str:
    """A study's text whose table `[traces]` names a folder. Raises InputError without the table."""
    kept = re.sub(
        r"(?m)^(\[traces\][^\n]*\n(?:(?!\[)[^\n]*\n)*?)\s*folder\s*=[^\n]*\n", r"\1", text
    )
    table = re.search(r"(?m)^\[traces\][^\n]*$", kept)
    if table is None:
        raise InputError("--traces: the study has no table [traces] that says how to use them")
    path = str(folder.resolve())
    try:
        path.encode()
    except UnicodeEncodeError:
        raise InputError(f"--traces: {path!r}: its name must be text in UTF-8") from None
    line = "\n" + toml_text.dump({"folder": path}).rstrip("\n")
    return kept[: table.end()] + line + kept[table.end() :]


def with_traces(source: Document, folder: Path) -> Document:
    """A study whose table `[traces]` names a folder. Raises InputError without the table."""
    return document.parse(source.path, with_folder(source.text, folder))


def expand(entry: TraceSetEntry, folder: Path) -> TraceSet:
    """Make loads of a folder. Raises InputError where it holds no trace."""
    try:
        files = sorted(path for path in folder.iterdir() if path.is_file())
    except OSError as error:
        raise InputError(f"{folder}: cannot be read: {error.strerror}") from error
    spans_s: dict[Path, float] = {}
    left_out, unusable = [], []
    for path in files:
        try:
            spans_s[path] = float(trace_files.of_load(path)["span_s"])
        except InputError as error:
            told, name = str(error).removeprefix(f"{path}: "), in_one_line(path.name)
            if told.startswith(_NO_TRACE):
                left_out.append(name)
            else:
                unusable.append(f"{name}: {told}")
    traces = _short({path.name: path.name for path in spans_s})
    scales = _numbers(entry.rate_scales)
    servers = _short({server: Path(server).stem for server in entry.servers})
    loads = [
        load
        for path, span_s in spans_s.items()
        for server in entry.servers
        for scale in entry.rate_scales
        for load in _pieces(
            entry,
            {"server": server, "trace": str(path), "rate_scale": scale},
            f"{traces[path.name]} x{scales[scale]} {servers[server]}",
            span_s,
        )
    ]
    if not loads:
        named = f" ({', '.join(left_out + unusable)})" if left_out + unusable else ""
        raise InputError(f"{folder}: holds no readable trace{named}")
    return TraceSet(loads, left_out, unusable)


def _short(names: Mapping[str, str]) -> dict[str, str]:
    """For each key a short form of its name, as names of loads may be; no two are the same.

    Where two would be, each ends with digits that its key alone decides.
    """
    plain = {key: re.sub(r"[^A-Za-z0-9._+=-]", "-", name) for key, name in names.items()}
    often = Counter(name[:_NAME_MAX] for name in plain.values())

    def distinct(key: str, name: str) -> str:
        if often[name[:_NAME_MAX]] == 1:
            return name[:_NAME_MAX]
        digits = hashlib.sha256(os.fsencode(key)).hexdigest()[:6]
        return f"{name[: _NAME_MAX - len(digits) - 1]}-{digits}"

    return {key: distinct(key, name) for key, name in plain.items()}


def _numbers(scales: Iterable[float]) -> dict[float, str]:
    """Each scale in few digits, and in all of them where two would be the same."""
    short = {scale: f"{scale:g}" for scale in scales}
    often = Counter(short.values())
    return {scale: text if often[text] == 1 else repr(scale) for scale, text in short.items()}


def _pieces(
    entry: TraceSetEntry, common: dict[str, Any], base: str, span_s: float
) -> list[dict[str, Any]]:
    """The stretches of one trace on one server at one rate, named after `base`."""
    stretch_s = entry.stretch
    if span_s < _SHORT * stretch_s:
        slower = min(1e6, stretch_s / max(span_s, 1e-6))
        return [{**common, "name": base, "time_scale": slower}]
    count = min(entry.pieces, max(1, int(span_s // stretch_s)))
    between_s = (span_s - stretch_s) / max(count - 1, 1) if count > 1 else 0.0
    loads = []
    for at in range(count):
        piece = {**common, "name": f"{base} p{at + 1}"} if count > 1 else {**common, "name": base}
        if span_s > stretch_s:
            piece |= {"duration": f"{stretch_s!r} s"}
        if at > 0:
            piece |= {"start": f"{at * between_s!r} s"}
        loads.append(piece)
    return loads
