"""Source trees that are kept where clients are, on disks that are not measured.

On this machine they stay in the user's cache for the next time; on a host they are there for the
time of a run. A tree is known by what it is made of.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from wattio.errors import WorkloadFailed
from wattio.files.small import cache_folder
from wattio.hosts.host import Host
from wattio.workloads import processes
from wattio.workloads.compile_client import TREE, WHOLE
from wattio.workloads.processes import Program
from wattio.workloads.workload import LOCAL, Context, Place

CLIENT, GENERATOR = "compile_client.py", "source_tree.py"

THERE = "/var/tmp"  # noqa: S108 (a folder in it has a name that nobody guesses)
"""Where a host keeps trees, if nothing else is said."""

PART_BYTES = 4 << 20
"""An archive goes to a host in parts of so much."""

_SHOWN = 16


class Counted(BaseModel):
    """What is in a tree, as a client counts it."""

    files: int
    directories: int
    bytes: int


@dataclass(frozen=True)
class Source:
    """A tree that is whole: where, and what is in it."""

    tree: str
    counted: Counted


@dataclass(frozen=True)
class Made:
    """What a tree is made of: an archive with its digest, or files of a seed with a history."""

    archive: Path | None = None
    sha256: str | None = None
    files: int = 0
    seed: int = 0
    history: int = 0

    @property
    def identity(self) -> str:
        """The same for the same tree."""
        # Another generator makes other trees.
        generated = (self.files, self.seed, self.history, program(GENERATOR))
        words = self.sha256 if self.archive else repr(generated)
        return hashlib.sha256(str(words).encode()).hexdigest()[:_SHOWN]


def program(name: str) -> bytes:
    """A program that goes along to hosts."""
    return resources.files("wattio.workloads").joinpath(name).read_bytes()


def client(task: dict[str, Any], place: Place, context: Context, **more: Any) -> Program:  # noqa: ANN401
    """The client's program with its task, where the client is; `more` are fields of a Program."""
    if place.host == LOCAL:
        path = str(Path(__file__).with_name(CLIENT))
        return Program((sys.executable, "-I", path, json.dumps(task)), title=task["step"], **more)
    files = {name: program(name) for name in (CLIENT, GENERATOR)}
    python = _host(place, context).access.python
    line = (python, "-I", CLIENT, json.dumps(task))
    return Program(line, host=place.host, files=files, title=task["step"], **more)


def _host(place: Place, context: Context) -> Host:
    assert context.hosts is not None, "a place on a host that nobody has named"
    return context.hosts[place.host]


def keep(made: Made, folder: str | None, context: Context) -> dict[str, Source]:
    """See that each host of the places has the tree, in a folder of its own below `folder`.

    Raises WorkloadFailed and Cancelled.
    """
    places = list({place.host: place for place in context.places}.values())
    folders = {place.host: _folder(made, folder, place, context) for place in places}
    missing = [place for place in places if _look(folders[place.host], place, context) is None]
    programs = [
        _maker(number, made, folders[place.host], place, context)
        for number, place in enumerate(missing)
    ]
    if programs:
        processes.run_all(programs, context.cancelled, hosts=context.hosts)
    _forget(programs)
    found: dict[str, Source] = {}
    for place in places:
        source = _look(folders[place.host], place, context)
        if source is None:
            raise WorkloadFailed(f"{folders[place.host]} on {place.host}: the source tree is gone")
        found[place.host] = source
    return found


def _forget(programs: Sequence[Program]) -> None:
    """What they said is nothing where all went well."""
    for one in programs:
        for path in (one.out, one.err):
            path.unlink(missing_ok=True)


def _folder(made: Made, folder: str | None, place: Place, context: Context) -> str:
    if place.host == LOCAL:
        kept = cache_folder() / "sources" if folder is None else Path(folder)
        return str(kept / f"wattio-{made.identity}")
    return f"{folder or THERE}/wattio-source-{_host(place, context).mark}-{made.identity}"


def _look(folder: str, place: Place, context: Context) -> Source | None:
    """The tree in a folder, if it is whole."""
    path = Path(folder) / WHOLE
    if place.host == LOCAL:
        told = path.read_bytes() if path.is_file() else None
    else:
        told = _host(place, context).read(path)
    try:
        return (
            None if told is None else Source(f"{folder}/{TREE}", Counted.model_validate_json(told))
        )
    except ValidationError as error:
        raise WorkloadFailed(f"{path} on {place.host}: is damaged; remove {folder}") from error


def _maker(number: int, made: Made, folder: str, place: Place, context: Context) -> Program:
    task: dict[str, Any] = {"step": "keep", "folder": folder}
    if made.archive is None:
        task |= {"files": made.files, "seed": made.seed, "history": made.history}
    elif place.host == LOCAL:
        task |= {"archive": [str(made.archive)]}
    if place.host != LOCAL:
        host = _host(place, context)
        host.ask("folder", path=folder, owned=True)
        if made.archive is not None:
            task |= {"archive": _send(made.archive, folder, host)}
    out, err = (context.raw / f"source-{number}.{end}" for end in ("out", "err"))
    return client(task, place, context, out=out, err=err)


def _send(archive: Path, folder: str, host: Host) -> list[str]:
    """Bring an archive to a host; where its parts are."""
    parts: list[str] = []
    try:
        with archive.open("rb") as file:
            while data := file.read(PART_BYTES):
                parts.append(f"{folder}/part-{len(parts):06}")
                host.write(Path(parts[-1]), data, mode=None)
    except OSError as error:
        raise WorkloadFailed(f"{archive}: cannot be read: {error.strerror}") from error
    return parts
