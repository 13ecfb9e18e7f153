"""The power analyser ZES ZIMMER LMG450 on a serial line: `lmg450:/dev/ttyUSB0`, 20 values a second.

What is said to it stands in `lmg450.toml`, of which a user can correct a copy (`?table=FILE`). A
value's moment is when its line arrived; lines that arrived together are a cycle apart.
"""

from __future__ import annotations

import contextlib
import math
import termios
import threading
import time
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from wattio import clock
from wattio.errors import needed
from wattio.files import document
from wattio.files.document import Strict
from wattio.files.quantity import Seconds
from wattio.meters.meter import Facts, FoundMeter, MeterAbsent, MeterLost, MeterRefused, Reading
from wattio.meters.name import Name, parse
from wattio.meters.sample import plausible

if TYPE_CHECKING:
    import serial

SCHEME = "lmg450"
FORM = "lmg450:/dev/ttyUSB0, with ?baud=57600, table=FILE"

TABLE = Path(__file__).with_name("lmg450.toml")
_ANSWER_S = 2.0
_SILENT_PERIODS = 40
_WAIT_S = 0.1
_GARBAGE_LINES_MAX = 20
_LINE_BYTES_MAX = 4096


class Table(Strict):
    """The instrument's language; see `lmg450.toml`."""

    identify: str
    identifies: str
    prepare: list[str]
    start: str
    stop: str
    terminator: Annotated[str, Field(min_length=1, max_length=2)]
    separator: Annotated[str, Field(min_length=1, max_length=1)]
    power: Annotated[list[Annotated[int, Field(ge=0, le=99)]], Field(min_length=1)]
    baud: Annotated[int, Field(ge=300, le=4_000_000)]
    handshake: bool
    period: Seconds


def find() -> list[FoundMeter]:
    """None: what a serial line leads to shows only when it is asked."""
    return []


def open_meter(name: str) -> Lmg450:
    """Open the line, ask who is there, let it send. Raises InputError, MeterRefused, MeterLost."""
    parts = parse(name)
    parts.allow(["baud", "table"])
    if not parts.path.startswith("/"):
        raise parts.missing("device", FORM)
    table = document.validate(Table, document.read(Path(parts.query.get("table", str(TABLE)))))
    if "baud" in parts.query:
        baud = parts.query["baud"]
        if not (baud.isascii() and baud.isdigit() and 300 <= int(baud[:9]) <= 4_000_000):
            raise parts.error(f'baud: is "{baud[:20]}"; allowed is 300 to 4000000')
        table = table.model_copy(update={"baud": int(baud)})
    return Lmg450(parts, table)


def parse_line(line: bytes, table: Table) -> float | None:
    """Watts of a line; None if the line holds no values. Never raises."""
    fields = line.decode("ascii", "replace").strip().split(table.separator)
    total_w = 0.0
    for place in table.power:
        try:
            total_w += float(fields[place])
        except (IndexError, ValueError):
            return None
    return total_w if math.isfinite(total_w) else None


class Lmg450:
    """An instrument that sends."""

    def __init__(self, parts: Name, table: Table) -> None:
        """Open and begin. Raises MeterRefused, MeterLost."""
        self._name = parts.shown
        self._table = table
        self._end = table.terminator.encode("ascii", "replace")
        self._closed = threading.Event()
        self._received = b""
        self._waiting: deque[Reading] = deque()
        self._newest_ns = 0
        self._garbage = 0
        self._port = _opened(parts, table)
        try:
            identity = self._begin()
        except Exception:
            self._port.close()
            raise
        self._facts = Facts(
            name=self._name,
            what=f"power analyser: {identity}",
            period_s=table.period,
            accuracy_class="0.1 % (data sheet of the LMG450; ranges and sensors add theirs)",
            streams=True,
            untried="hardware",
        )

    @property
    def facts(self) -> Facts:
        """What it says about itself."""
        return self._facts

    def read(self) -> Reading:
        """The next value. Raises MeterLost."""
        silent_s = time.monotonic() + max(_ANSWER_S, _SILENT_PERIODS * self._table.period)
        while not self._waiting:
            if self._closed.is_set():
                raise MeterLost(f"{self._name}: is closed")
            if time.monotonic() > silent_s:
                raise MeterLost(f"{self._name}: sends no data")
            self._take(self._receive())
        return self._waiting.popleft()

    def close(self) -> None:
        """Tell it to stop sending, close the line."""
        if not self._closed.is_set():
            self._closed.set()
            with contextlib.suppress(MeterLost):
                self._say(self._table.stop)
        self._port.close()

    def _begin(self) -> str:
        table = self._table
        # It may still send from an earlier time.
        self._say(table.stop)
        self._say(table.identify)
        deadline_s = time.monotonic() + _ANSWER_S
        heard = ""
        while table.identifies not in heard:
            if time.monotonic() > deadline_s:
                if heard:
                    raise MeterRefused(
                        f"{self._name}: is not an {table.identifies}; it answered {heard[:80]!r}"
                    )
                raise MeterLost(f"{self._name}: did not answer {table.identify}")
            for line in self._receive():
                if parse_line(line, table) is None and line.strip():
                    heard = line.decode("ascii", "replace").strip()
        for command in table.prepare:
            self._say(command.replace("{period_s}", f"{table.period:g}"))
        self._say(table.start)
        return heard[:120]

    def _say(self, command: str) -> None:
        try:
            self._port.write(command.encode("ascii", "replace") + self._end)
            self._port.flush()
        except (OSError, TypeError, ValueError, termios.error) as error:
            raise MeterLost(f"{self._name}: cannot be written to: {error}") from None

    def _receive(self) -> list[bytes]:
        """Lines that are whole; waits for a tenth of a second at most. Raises MeterLost."""
        try:
            first: bytes = self._port.read(1)
            rest: bytes = self._port.read(self._port.in_waiting) if first else b""
        except (OSError, TypeError, ValueError, termios.error) as error:
            # TypeError is what pyserial says of a port that was closed meanwhile.
            raise MeterLost(f"{self._name}: was unplugged: {error}") from None
        parts: list[bytes] = (self._received + first + rest).split(self._end)
        lines, self._received = parts[:-1], parts[-1]
        if len(self._received) > _LINE_BYTES_MAX:
            self._received = b""
            raise MeterLost(f"{self._name}: sends an endless line; is the baud rate right?")
        return lines

    def _take(self, lines: list[bytes]) -> None:
        at = clock.now()
        period_ns = round(self._table.period * 1e9)
        for later, line in zip(range(len(lines) - 1, -1, -1), lines, strict=True):
            power_w = parse_line(line, self._table)
            if power_w is None:
                self._garbage += 1
                if self._garbage > _GARBAGE_LINES_MAX:
                    shown = line[:60].decode("ascii", "replace")
                    raise MeterLost(f"{self._name}: sends no values: {shown!r}")
                continue
            self._garbage = 0
            monotonic_ns = max(at.monotonic_ns - later * period_ns, self._newest_ns + 1)
            self._newest_ns = monotonic_ns
            utc_ns = at.utc_ns - at.monotonic_ns + monotonic_ns
            power_w = plausible(power_w, self._name)
            self._waiting.append(Reading(utc_ns, monotonic_ns, power_w))


def _opened(parts: Name, table: Table) -> serial.Serial:
    try:
        import serial
    except ImportError:
        raise MeterRefused(f"{parts.shown}: {needed('meters')}") from None
    try:
        return serial.Serial(
            parts.path, table.baud, timeout=_WAIT_S, write_timeout=_ANSWER_S, rtscts=table.handshake
        )
    except PermissionError as error:
        raise MeterAbsent(f"{parts.shown}: cannot be opened: {error}") from None
    except (OSError, ValueError, termios.error) as error:
        if getattr(error, "errno", None) == 13:
            raise MeterAbsent(f"{parts.shown}: cannot be opened: {error}") from None
        raise MeterLost(f"{parts.shown}: cannot be opened: {error}") from None
