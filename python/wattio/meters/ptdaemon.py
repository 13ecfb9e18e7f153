"""An analyser behind SPEC's PTDaemon, or behind ours: `ptdaemon://HOST:8888`.

The dialogue is in `ptd_dialogue`. One reading a second (`?period=`); ranges are left as they are,
but for `?amperes=` and `?volts=`, which set them ("Auto", or a number).
"""

from __future__ import annotations

import contextlib
import select
import socket
import threading
import time
from collections import deque

from wattio import clock
from wattio.meters import ptd_dialogue
from wattio.meters.meter import Facts, FoundMeter, MeterLost, MeterRefused, Reading
from wattio.meters.name import Name, parse
from wattio.meters.sample import plausible

SCHEME = "ptdaemon"
FORM = "ptdaemon://HOST:8888, with ?period=1 s, amperes=Auto, volts=Auto"

PORT = 8888
_TIMEOUT_S = 10.0
_POLLS_A_PERIOD = 5
_SILENT_PERIODS = 10


def find() -> list[FoundMeter]:
    """None: they are found by who knows their host."""
    return []


def open_meter(name: str) -> PtDaemon:
    """Connect and begin to measure. Raises InputError, MeterRefused, MeterLost."""
    parts = parse(name)
    parts.allow(["period", "amperes", "volts"])
    if not parts.host:
        raise parts.missing("host", FORM)
    for key in ("amperes", "volts"):
        if not parts.query.get(key, "x").replace(".", "", 1).isalnum():
            raise parts.error(f'{key}: is "{parts.query[key]}"; write Auto or a number')
    period_s = parts.seconds("period", 1.0)
    if round(period_s * 1e3) not in ptd_dialogue.PERIOD_MS:
        raise parts.error("period: allowed is 10 ms to 1 h")
    return PtDaemon(parts, round(period_s * 1e3))


class PtDaemon:
    """A conversation with a PTDaemon that measures."""

    def __init__(self, parts: Name, period_ms: int) -> None:
        """Connect, say hello, begin. Raises MeterRefused, MeterLost."""
        self._name = parts.shown
        self._period_s = period_ms / 1e3
        self._closed = threading.Event()
        self._samples: deque[Reading] = deque()
        self._received = b""
        self._newest_ns = 0
        address = (parts.host or "", parts.port or PORT)
        try:
            self._socket = socket.create_connection(address, _TIMEOUT_S)
        except OSError as error:
            raise MeterLost(f"{self._name}: cannot be reached: {error.strerror or error}") from None
        try:
            self._socket.settimeout(_TIMEOUT_S)
            identity = self._begin(parts, period_ms)
        except Exception:
            self._socket.close()
            raise
        self._facts = Facts(
            name=self._name,
            what=f"PTDaemon: {identity}",
            period_s=self._period_s,
            accuracy_class="that of the analyser behind it",
            streams=True,
            untried="SPEC's own PTDaemon",
        )

    @property
    def facts(self) -> Facts:
        """What it says about itself."""
        return self._facts

    def read(self) -> Reading:
        """The next sample; its mark is the daemon's own time. Raises MeterLost."""
        silent_s = time.monotonic() + max(_TIMEOUT_S, _SILENT_PERIODS * self._period_s)
        while not self._samples:
            if time.monotonic() > silent_s:
                raise MeterLost(f"{self._name}: answers but has no samples")
            self._fetch()
            if not self._samples and self._closed.wait(self._period_s / _POLLS_A_PERIOD):
                raise MeterLost(f"{self._name}: is closed")
        return self._samples.popleft()

    def close(self) -> None:
        """End the measurement, and the connection."""
        if not self._closed.is_set():
            self._closed.set()
            with contextlib.suppress(OSError):
                self._socket.settimeout(1.0)
                self._socket.sendall(b"Stop\r\n")
                # Its answer is waited for: a connection that is cut can be taken for a fault.
                select.select([self._socket], [], [], 1.0)
        self._socket.close()

    def _begin(self, parts: Name, period_ms: int) -> str:
        hello = self._ask("Hello")
        if hello != ptd_dialogue.HELLO:
            raise MeterRefused(f"{self._name}: is not a PTDaemon; it answered {hello[:80]!r}")
        identity = self._ask("Identify")
        self._ask("RR")
        for key, letter in (("amperes", "A"), ("volts", "V")):
            if key in parts.query:
                self._ask(f"SR,{letter},{parts.query[key]}")
        begun = self._ask(f"Go,{period_ms},0,wattio")
        if not begun.startswith("Starting"):
            raise MeterRefused(f"{self._name}: did not start measuring: {begun[:120]!r}")
        return identity[:120]

    def _fetch(self) -> None:
        """Ask for what is new; stamps are those of the answer, a period apart where it is more."""
        answer = self._ask("RL")
        at = clock.now()
        count = ptd_dialogue.parse_count(answer)
        if count is None or count > ptd_dialogue.SAMPLES_MAX:
            raise MeterLost(f"{self._name}: did not send samples: {answer[:120]!r}")
        found = [ptd_dialogue.parse_sample(self._line()) for _ in range(count)]
        for later, sample in zip(range(count - 1, -1, -1), found, strict=True):
            if sample is None:
                raise MeterLost(f"{self._name}: sent an invalid sample")
            ago_ns = round(later * self._period_s * 1e9)
            monotonic_ns = max(at.monotonic_ns - ago_ns, self._newest_ns + 1)
            utc_ns = at.utc_ns - at.monotonic_ns + monotonic_ns
            self._newest_ns = monotonic_ns
            power_w = plausible(sample.power_w, self._name)
            self._samples.append(Reading(utc_ns, monotonic_ns, power_w, mark=sample.at_s))

    def _ask(self, command: str) -> str:
        try:
            self._socket.sendall(f"{command}\r\n".encode())
        except OSError as error:
            raise self._lost(error) from None
        return self._line()

    def _line(self) -> str:
        while b"\n" not in self._received:
            if len(self._received) > ptd_dialogue.LINE_BYTES_MAX:
                raise MeterLost(f"{self._name}: sends an endless line")
            try:
                chunk = self._socket.recv(65_536)
            except OSError as error:
                raise self._lost(error) from None
            if not chunk:
                raise MeterLost(f"{self._name}: closed the connection")
            self._received += chunk
        line, _, self._received = self._received.partition(b"\n")
        return line.decode("ascii", "replace").strip()

    def _lost(self, error: OSError) -> MeterLost:
        if self._closed.is_set():
            return MeterLost(f"{self._name}: is closed")
        words = "did not answer" if isinstance(error, TimeoutError) else str(error)
        return MeterLost(f"{self._name}: {words}")
