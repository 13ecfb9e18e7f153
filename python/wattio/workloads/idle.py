"""Nothing, for a while: what the system under test draws when it only stands by.

Clients of a block device are connected to it, and ask nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from wattio import clock
from wattio.clock import Span
from wattio.errors import Cancelled, ResultError, WorkloadFailed
from wattio.files.document import Strict, in_words
from wattio.files.quantity import Seconds
from wattio.workloads.nbd_client import Connection, NbdError
from wattio.workloads.workload import Context, Operation

STEP = "idle"
FILE = "idle.json"
AT_HOSTS: Mapping[str, str] = {}


class Options(Strict):
    """How long."""

    duration: Seconds = 60.0  # how long


class IdleRecord(Strict):
    """What is left in the raw folder."""

    start_utc_ns: int
    end_utc_ns: int
    seconds: float


class Work:
    """Waits."""

    def __init__(self, options: Options, base: Path) -> None:
        """There are no files beside the study: `base` is not looked at."""
        self._seconds = options.duration

    def probe(self) -> None:
        """Nothing is needed."""

    def describe(self) -> dict[str, Any]:
        """How long."""
        return {"seconds": self._seconds}

    def steps(self) -> tuple[str, ...]:
        """One."""
        return (STEP,)

    def seconds_guess(self, clients: int) -> float:
        """As long as it was told."""
        return self._seconds

    def prepare(self, context: Context) -> None:
        """Nothing is needed."""

    def run(self, step: str, context: Context) -> list[Span]:
        """Wait. Raises Cancelled, and WorkloadFailed where a device cannot be reached."""
        with ExitStack() as connections:
            try:
                for uri in (place.uri for place in context.places if place.uri is not None):
                    connections.enter_context(Connection(uri))
            except NbdError as error:
                raise WorkloadFailed(f"idle: {error}") from error
            start = clock.now()
            if context.cancelled.wait(self._seconds):
                raise Cancelled("idling was stopped")
            span = Span(step, start, clock.now())
        waited = IdleRecord(
            start_utc_ns=start.utc_ns, end_utc_ns=span.end.utc_ns, seconds=span.seconds
        )
        (context.raw / FILE).write_text(waited.model_dump_json() + "\n", encoding="utf-8")
        return [span]

    def clean(self, context: Context) -> None:
        """Nothing was made."""


def results(raw: Path) -> list[Operation]:
    """That it was idle, and when. Raises ResultError."""
    try:
        told = IdleRecord.model_validate_json((raw / FILE).read_bytes())
    except OSError as error:
        raise ResultError(f"{raw / FILE}: cannot be read: {error.strerror}") from error
    except ValidationError as error:
        raise ResultError(
            f"{raw / FILE}: is damaged: {in_words(error.errors()[0]['msg'])}"
        ) from None
    return [
        Operation(
            STEP,
            STEP,
            seconds=told.seconds,
            start_utc_ns=told.start_utc_ns,
            end_utc_ns=told.end_utc_ns,
        )
    ]
