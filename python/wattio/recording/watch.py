"""One meter under watch: each reading goes to its file, and what happens to it to the log."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from wattio import _core, clock
from wattio.clock import Instant
from wattio.errors import InputError, storage_reason
from wattio.meters.meter import (
    BadReading,
    Facts,
    Meter,
    MeterAbsent,
    MeterLost,
    MeterRefused,
    Reading,
)
from wattio.meters.samples import newest, packed
from wattio.recording.deadlines import BackOff
from wattio.recording.journal import Event, EventLog, RecordFile

REPORT_S = 1.0
"""Readings that were missed are told together, at most this often."""

SILENT_S = 5.0
"""A reading that takes longer, and longer than three periods, is told of while it lasts."""

STEADY_S = 10.0
"""A meter that is lost again sooner is opened after longer pauses."""


@dataclass(frozen=True)
class Tools:
    """What a watch works with, so that tests can stand in for it."""

    open_meter: Callable[[str], Meter]
    events: EventLog
    stopped: threading.Event
    now: Callable[[], Instant] = clock.now


class Watched:
    """A meter that is open, lost, or given up."""

    def __init__(self, label: str, name: str, tools: Tools, file: RecordFile) -> None:
        """Opened by `open`."""
        self.label = label
        self.file = file
        self.facts: Facts | None = None
        self.read_s = 0.0
        self._name = name
        self._tools = tools
        self._meter: Meter | None = None
        self._last = Reading(0, 0, None)
        self._missed: list[int] = []
        self._disorder = 0
        self._bad: list[str] = []
        self._told_ns = 0
        self._silent = False
        self._lost = False
        self._back_off = BackOff(0.1, 2.0)
        self._back_ns = 0

    def open(self) -> None:
        """Open the meter and take its first reading. Raises what the meter raises."""
        self._meter = self._tools.open_meter(self._name)
        self.facts = self._meter.facts
        before_ns = time.perf_counter_ns()
        self._keep(self._meter.read())
        self.read_s = (time.perf_counter_ns() - before_ns) / 1e9

    def sample(self) -> bool:
        """Take a reading; False where the meter is lost or refuses, which the log then says."""
        assert self._meter is not None
        try:
            self._keep(self._meter.read())
        except BadReading as error:
            self._bad.append(str(error))
        except Exception as error:
            if _is_final(error):
                self.tell("refused", str(error))
                self.close()
                self._meter = None
                return False
            self._lost = True
            if not self._tools.stopped.is_set():
                self.tell("lost", _words(error))
            return False
        return True

    @property
    def refused(self) -> bool:
        """Whether the meter will not serve."""
        return self._meter is None

    def regain(self) -> bool:
        """Open a lost meter again, as often as it takes; False when stopped or refused.

        A counter begins anew: what it counted meanwhile is not known, and not made up.
        """
        lost = self._tools.now()
        if lost.monotonic_ns - self._back_ns > STEADY_S * 1e9:
            self._back_off = BackOff(0.1, 2.0)
        while True:
            self.close()
            if self._tools.stopped.wait(self._back_off.next_s()):
                return False
            try:
                self.open()
            except Exception as error:
                if not _is_final(error):
                    continue  # It was told that it is lost.
                self.tell("refused", str(error))
                return False
            self._back_ns = self._tools.now().monotonic_ns
            gone_s = (self._back_ns - lost.monotonic_ns) / 1e9
            self._lost = self._silent = False
            self.tell("back", f"answers again after {gone_s:.1f} s")
            return True

    @property
    def native(self) -> _core.PowerMeter | None:
        """The native module's meter behind this one, where there is one."""
        found: _core.PowerMeter | None = getattr(self._meter, "native", None)
        return found

    def seen(self, newest_ns: int, missed: int) -> None:
        """Note how the native sampler fares with it: its newest reading, and how many it missed."""
        self._last = self._last._replace(monotonic_ns=max(newest_ns, self._last.monotonic_ns))
        if missed:
            self._missed.append(missed)

    def lose(self, text: str) -> None:
        """Take it back from the native sampler, which could not read it."""
        self._last = newest(self.file.path) or self._last
        self._lost = True
        self.tell("lost", text)

    def missed(self, count: int) -> None:
        """Note readings that were due and not taken in time."""
        self._missed.append(count)

    def look(self, now: Instant) -> None:
        """From another thread, now and then: tell what has gathered, and write it down."""
        self.file.flush()
        if now.monotonic_ns - self._told_ns >= REPORT_S * 1e9:
            self.report(now)
        facts, last_ns = self.facts, self._last.monotonic_ns
        if facts is None or self.refused or self._lost or not last_ns:
            return
        quiet_s = (now.monotonic_ns - last_ns) / 1e9
        silent = quiet_s > max(SILENT_S, 3 * facts.period_s)
        if silent and not self._silent:
            self.tell("silent", f"no reading for {quiet_s:.1f} s")
        elif self._silent and not silent:
            self.tell("back", "readings have resumed")
        self._silent = silent

    def report(self, now: Instant) -> None:
        """Tell of readings that were missed, bad or in disorder since the last time."""
        self._told_ns = now.monotonic_ns
        if self._missed:
            count = len(self._missed)
            self.tell("missed", f"{sum(self._missed[:count])} readings were not taken in time")
            del self._missed[:count]
        if self._bad:
            count = len(self._bad)
            words = "one reading" if count == 1 else f"{count} readings"
            self.tell("bad", f"{words} could not be used: {self._bad[count - 1]}")
            del self._bad[:count]
        if self._disorder:
            count, self._disorder = self._disorder, 0
            self.tell("disorder", f"{count} readings older than the one before were left out")

    def close(self) -> None:
        """Let go of the meter, whatever it says to that."""
        if self._meter is not None:
            with contextlib.suppress(Exception):
                self._meter.close()

    def tell(self, kind: str, text: str) -> None:
        """Add an event to the log."""
        self._tools.events.add(Event(self.label, self._tools.now(), kind, text))

    def _keep(self, reading: Reading) -> None:
        if reading[1] <= self._last[1]:
            self._disorder += 1
            return
        self.file.add(packed(reading))
        self._last = reading


def _is_final(error: Exception) -> bool:
    """Whether a meter is not asked again; one that is absent now may be back."""
    return isinstance(error, MeterRefused) and not isinstance(error, MeterAbsent)


def _words(error: Exception) -> str:
    if isinstance(error, OSError) and (reason := storage_reason(error)):
        return reason
    if isinstance(error, MeterLost | InputError | OSError) and str(error):
        return str(error)
    return f"{type(error).__name__}: {error}"
