"""What is kept of a step beside its programs' output: which programs ran, and when.

`invocation.json` in the step's raw folder; the results of a step are derived from it and from the
programs' output alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from wattio.clock import Instant, Span
from wattio.errors import ResultError
from wattio.files.document import Strict
from wattio.hosts.clocks import Offset
from wattio.workloads.processes import Ended
from wattio.workloads.workload import LOCAL

FILE = "invocation.json"


class ProgramRun(Strict):
    """One program of a step; times in nanoseconds, UTC and of the monotonic clock, are ours.

    What it tells by its host's wall clock is `ahead_ns` later than by ours.
    """

    arguments: list[str]
    out: str
    host: str
    code: int
    start_utc_ns: int
    start_monotonic_ns: int
    end_utc_ns: int
    end_monotonic_ns: int
    ahead_ns: int = 0

    @property
    def start(self) -> Instant:
        """When it was started."""
        return Instant(self.start_utc_ns, self.start_monotonic_ns)

    @property
    def end(self) -> Instant:
        """When it had ended."""
        return Instant(self.end_utc_ns, self.end_monotonic_ns)


class Invocation(Strict):
    """A step that ran: its programs in the order of the clients, and the workload's own facts.

    `clocks` are how far those of other machines were ahead of ours, by the machines' boots, where a
    program of ours started others there.
    """

    step: str
    programs: list[ProgramRun] = Field(min_length=1)
    clocks: dict[str, Offset] = Field(default_factory=dict)
    facts: dict[str, Any] = Field(default_factory=dict)

    def whole(self) -> Span:
        """From the first start of a program to the last end."""
        start = min((one.start for one in self.programs), key=_monotonic)
        return Span(self.step, start, max((one.end for one in self.programs), key=_monotonic))

    def span(self) -> Span:
        """The step as a phase: from the latest start of a program to the earliest end."""
        start = max((one.start for one in self.programs), key=_monotonic)
        end = min((one.end for one in self.programs), key=_monotonic)
        return Span(self.step, start, max(start, end, key=_monotonic))


def _monotonic(moment: Instant) -> int:
    return moment.monotonic_ns


def keep(
    raw: Path,
    step: str,
    ended: Sequence[Ended],
    *,
    clocks: Mapping[str, Offset] | None = None,
    **facts: object,
) -> Invocation:
    """Write down what ran."""
    told = Invocation(
        step=step,
        programs=[
            ProgramRun(
                arguments=list(one.program.arguments),
                out=one.program.out.name,
                host=one.program.host or LOCAL,
                code=one.code,
                start_utc_ns=one.start.utc_ns,
                start_monotonic_ns=one.start.monotonic_ns,
                end_utc_ns=one.end.utc_ns,
                end_monotonic_ns=one.end.monotonic_ns,
                ahead_ns=one.ahead_ns,
            )
            for one in ended
        ],
        clocks=dict(clocks or {}),
        facts=facts,
    )
    text = json.dumps(told.model_dump(mode="json"), indent=2, allow_nan=False)
    (raw / FILE).write_text(text + "\n", encoding="utf-8")
    return told


def recall(raw: Path) -> Invocation:
    """Read what ran. Raises ResultError where it is missing or damaged."""
    path = raw / FILE
    try:
        return Invocation.model_validate_json(path.read_bytes())
    except OSError as error:
        raise ResultError(f"{path}: cannot be read: {error.strerror}") from error
    except ValidationError as error:
        first = error.errors()[0]
        raise ResultError(f"{path}: is damaged: {first['loc']}: {first['msg']}") from None


def text_of(raw: Path, ran: ProgramRun) -> str:
    """A program's standard output. Raises ResultError where it is missing."""
    path = raw / ran.out
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except (OSError, ValueError) as error:
        raise ResultError(f"{path}: cannot be read: {error}") from error
