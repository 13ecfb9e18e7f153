"""The side that measures: starts the sampling process, and reads what it has written."""

from __future__ import annotations

import contextlib
import json
import select
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from wattio import clock
from wattio.errors import InputError, ResultError, WattioError
from wattio.meters import samples
from wattio.meters.meter import Facts, MeterLost, MeterRefused
from wattio.meters.samples import Samples
from wattio.recording import journal
from wattio.recording.journal import Event

LOG = "sampler.log"
_POLL_S = 0.02
_STOP_S = 5.0
_ERRORS: dict[str, type[Exception]] = {
    "InputError": InputError,
    "MeterRefused": MeterRefused,
    "MeterLost": MeterLost,
    "ResultError": ResultError,
}


@dataclass(frozen=True)
class Source:
    """A meter to record: a label of its own, its name, and how often it is read.

    Without a rate it is read once in the meter's own period; a meter that streams sends at its own.
    """

    label: str
    name: str
    rate_hz: float | None = None


class Recorder:
    """Meters that are sampled in a process of their own, from `start` to `stop`.

    The process outlives a stalled reader and a meter that is lost, which is opened again; it ends
    with the process that started it, and does not hear the terminal's Ctrl-C. Use it with `with`.
    """

    def __init__(self, sources: Sequence[Source], folder: Path) -> None:
        """`folder` takes the files; it is made where it does not exist. Raises InputError."""
        labels = [source.label for source in sources]
        if not labels:
            raise InputError("nothing to record: name a meter")
        for source in sources:
            if labels.count(source.label) > 1:
                raise InputError(f'meter label "{source.label}" is named twice; labels must differ')
            if source.rate_hz is not None and not 0 < source.rate_hz <= 10_000:
                raise InputError(
                    f'meter "{source.label}": rate is {source.rate_hz:g} Hz; allowed is above 0 to'
                    " 10000 Hz"
                )
        self._sources = tuple(sources)
        self._folder = folder.absolute()
        self._process: subprocess.Popen[bytes] | None = None
        self._ended: Event | None = None

    def __enter__(self) -> Self:
        """Nothing runs yet."""
        return self

    def __exit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        """Stop."""
        self.stop()

    def start(self, timeout_s: float = 30.0) -> dict[str, Facts]:
        """Open the meters, wait for the first reading of each; their facts by label.

        Raises InputError, MeterRefused, MeterLost with the meter's words; MeterLost also where a
        meter says nothing within `timeout_s`. ResultError where its files cannot be written.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        with (self._folder / LOG).open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "wattio.recording.sampler"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                # Its own session: a terminal's Ctrl-C is for us, and we end it.
                start_new_session=True,
            )
        request = {"folder": str(self._folder), "sources": [asdict(s) for s in self._sources]}
        answer = self._ask(request, timeout_s)
        if "error" in answer:
            self.stop()
            raise raised(answer)
        return {label: Facts(**facts) for label, facts in answer["facts"].items()}

    def read(self, label: str, start_monotonic_ns: int, end_monotonic_ns: int) -> Samples:
        """All that was recorded from start to end, so far as it is written."""
        return samples.read_file(self._file(label), start_monotonic_ns, end_monotonic_ns)

    def read_all(self, label: str) -> Samples:
        """All that was recorded."""
        return samples.read_file(self._file(label))

    def caught_up(self, label: str, monotonic_ns: int, timeout_s: float) -> bool:
        """Wait until readings reach beyond a moment; False where they do not in time.

        They do not where the meter is lost or the sampling process is gone: look into `events`.
        """
        file = self._file(label)
        deadline_s = time.monotonic() + timeout_s
        while True:
            running = self._is_running()
            newest = samples.newest(file)
            if newest is not None and newest.monotonic_ns >= monotonic_ns:
                return True
            if not running or time.monotonic() >= deadline_s:
                return False
            time.sleep(_POLL_S)

    def events(self) -> list[Event]:
        """What happened to the meters so far, in order."""
        found = journal.read_events(self._folder / journal.EVENTS)
        if self._process is not None and not self._is_running() and self._ended is None:
            text = f"the sampling process ended unexpectedly: {self._last_words()}"
            self._ended = Event("", clock.now(), "ended", text)
        if self._ended is not None:
            found += [
                Event(source.label, self._ended.at, self._ended.kind, self._ended.text)
                for source in self._sources
            ]
        return found

    @property
    def is_sampling(self) -> bool:
        """Whether a reading may still come: the process runs, and not every meter has refused."""
        refused = {event.label for event in self.events() if event.kind in ("refused", "ended")}
        return self._is_running() and refused != {source.label for source in self._sources}

    @property
    def process_id(self) -> int:
        """The sampling process, whose cost can be measured. Raises WattioError without one."""
        if self._process is None:
            raise WattioError("nothing is being recorded")
        return self._process.pid

    def stop(self) -> None:
        """End the sampling process; everything that it recorded stays readable."""
        process = self._process
        if process is None:
            return
        # What happened until now is looked at first: an end that is asked for is no event.
        self.events()
        self._process = None
        assert process.stdin is not None
        assert process.stdout is not None
        with contextlib.suppress(OSError):
            process.stdin.close()
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()

    def _ask(self, request: dict[str, Any], timeout_s: float) -> dict[str, Any]:
        """Send the request, wait for the answer."""
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        line, in_time = b"", True
        with contextlib.suppress(OSError):
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
            in_time = bool(select.select([process.stdout], [], [], timeout_s)[0])
            line = process.stdout.readline() if in_time else b""
        try:
            answer: dict[str, Any] = json.loads(line)
        except ValueError:
            process.kill()
            self.stop()
            if in_time:
                message = f"the sampling process failed: {self._last_words()}"
                raise WattioError(message) from None
            missing = ", ".join(s.label for s in self._sources if not self._has_begun(s.label))
            raise MeterLost(f"{missing}: no reading within {timeout_s:g} s") from None
        return answer

    def _has_begun(self, label: str) -> bool:
        return samples.newest(self._file(label)) is not None

    def _file(self, label: str) -> Path:
        for number, source in enumerate(self._sources):
            if source.label == label:
                return self._folder / journal.samples_name(number)
        raise KeyError(label)

    def _is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def _last_words(self) -> str:
        try:
            lines = (self._folder / LOG).read_text("utf-8", "replace").strip().splitlines()
        except OSError:
            lines = []
        return lines[-1] if lines else "no output"


def raised(answer: dict[str, Any]) -> Exception:
    """The error that the sampling process answers with; what the system said led to it."""
    error = _ERRORS[answer["error"]](answer["text"])
    if "system" in answer:
        error.__cause__ = OSError(*answer["system"])
    return error
