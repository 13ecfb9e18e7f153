"""What is kept of an iteration beside the tools' own output: `raw/<identity>/iteration.json`."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from wattio.clock import Instant, Span
from wattio.errors import ResultError
from wattio.hosts.clocks import Drift, Offset
from wattio.kinds.measurement.foreign_load import Others
from wattio.meters.meter import Facts

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
        content = json.loads(path.read_text(encoding="utf-8"))
        phases = tuple(Phase(entry["step"], _span(entry["span"])) for entry in content["phases"])
        meters = {label: Facts(**facts) for label, facts in content["meters"].items()}
        plain = {
            key: content[key] for key in ("identity", "session", "module", "attempt", "system")
        }
        return Record(
            **plain,
            start=Instant(*content["start"]),
            end=Instant(*content["end"]),
            phases=phases,
            meters=meters,
            workload=content["workload"],
            caches_dropped=content["caches_dropped"],
            doubts=tuple(content["doubts"]),
            others=_others(content.get("others", {})),
            others_at={name: _others(it) for name, it in content.get("others_at", {}).items()},
            failure=content["failure"],
            # Before there were other hosts there were none.
            hosts={name: _drift(ends) for name, ends in content.get("hosts", {}).items()},
            # Before servers told what they took there were none.
            accounts={key: Account(**own) for key, own in content.get("accounts", {}).items()},
            deletes={key: Deletes(**own) for key, own in content.get("deletes", {}).items()},
        )
    except OSError as error:
        raise ResultError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ResultError(f"{path}: is not the record of an iteration: {error!r}") from error


def _others(entries: Mapping[str, Any]) -> dict[str, Others]:
    return {step: Others(**entry) for step, entry in entries.items()}


def _drift(entry: Mapping[str, Any]) -> Drift:
    def end(told: Mapping[str, Any]) -> Offset:
        return Offset(**{**told, "at": Instant(*told["at"])})

    return Drift(end(entry["before"]), end(entry["after"]))


def _span(entry: Mapping[str, Any]) -> Span:
    return Span(entry["name"], Instant(*entry["start"]), Instant(*entry["end"]))
