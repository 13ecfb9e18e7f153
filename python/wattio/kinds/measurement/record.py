"""What is kept of an iteration beside the tools' own output: `raw/<identity>/iteration.json`."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from wattio.clock import Instant, Span
from wattio.errors import ResultError
from wattio.hosts.clocks import Drift
from wattio.kinds.measurement.foreign_load import Others
from wattio.meters.meter import Facts
from wattio.results.kept import checked

FILE = "iteration.json"


@dataclass(frozen=True)
class Phase:
    """A span of an iteration, and the step that it belongs to."""

    step: str
    span: Span


@dataclass(frozen=True)
class Account:
    """Processor time that the servers took during a step, and how long that was."""

    cpu_s: float
    seconds: float


@dataclass(frozen=True)
class Deletes:
    """How long servers still deleted after a step.

    `charged_s` is what its last phase is longer for it, None if it is not.
    """

    seconds: float
    charged_s: float | None = None


@dataclass(frozen=True)
class Record:
    """An iteration as it went: when, on what, with which meters; results are not in it.

    `session` is the recording that holds its power samples; `module` the kind of workload that
    can read the raw files of its steps (None for an idle iteration); `doubts` what was seen to be
    doubtful while it ran; `others` the processor time that others took of this machine during each
    step, where the kernel tells it, `others_at` the same of hosts, by their names; `failure` why it
    did not end as it should; `hosts` how far the clocks of other machines were off before and
    after; `accounts` what the servers took during each step, where the system can tell; `deletes`
    what servers still had to delete after steps.
    """

    identity: str
    session: str
    module: str | None
    attempt: int
    start: Instant
    end: Instant
    phases: tuple[Phase, ...]
    meters: Mapping[str, Facts]
    system: Mapping[str, Any] = field(default_factory=dict)
    workload: Mapping[str, Any] = field(default_factory=dict)
    caches_dropped: bool = False
    doubts: tuple[str, ...] = ()
    others: Mapping[str, Others] = field(default_factory=dict)
    others_at: Mapping[str, Mapping[str, Others]] = field(default_factory=dict)
    failure: str | None = None
    hosts: Mapping[str, Drift] = field(default_factory=dict)
    accounts: Mapping[str, Account] = field(default_factory=dict)
    deletes: Mapping[str, Deletes] = field(default_factory=dict)

    @property
    def steps(self) -> list[str]:
        """The steps that ran, in order."""
        return list(dict.fromkeys(phase.step for phase in self.phases))

    def write(self, folder: Path) -> None:
        """Write the record into the iteration's raw folder."""
        text = json.dumps(asdict(self), indent=1, allow_nan=False, default=str)
        (folder / FILE).write_text(text + "\n", encoding="utf-8")
        on_disk(folder / FILE)


def on_disk(path: Path) -> None:
    """Wait until a file, and its name in its folder, have reached the disk."""
    for place in (path, path.parent):
        number = os.open(place, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)


def read(folder: Path) -> Record:
    """The record in an iteration's raw folder. Raises ResultError where there is no usable one."""
    path = folder / FILE
    try:
        text = path.read_bytes()
    except OSError as error:
        raise ResultError(f"{path}: cannot be read: {error.strerror}") from error
    found = checked(path, text, _RECORD)
    missing = _ALWAYS - json.loads(text).keys()
    if missing:
        raise ResultError(f'{path}: has no "{min(missing)}": the file is damaged')
    return found


_RECORD = TypeAdapter(Record)

_LATER = ("others", "others_at", "hosts", "accounts", "deletes")
"""What earlier records do not have."""

_ALWAYS = {one.name for one in fields(Record)} - {*_LATER}
