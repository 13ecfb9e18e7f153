"""A server of the PTDaemon dialogue: any of our meters, for clients that know only that one."""

from __future__ import annotations

import bisect
import socketserver
import threading
from collections import deque
from collections.abc import Callable, Sequence

from wattio import clock
from wattio.errors import HostError, storage_reason
from wattio.meters import ptd_dialogue
from wattio.meters.meter import BadReading, Meter, MeterLost, MeterRefused, Reading
from wattio.meters.ptd_dialogue import Conversation, Sample

CLIENTS_MAX = 16
_READINGS_MAX = 200_000
_IDLE_S = 3600.0


class Feed:
    """The newest readings of a meter, taken by a thread of its own."""

    def __init__(self, reopen: Callable[[], Meter]) -> None:
        """Open the meter and begin. Raises what `reopen` raises."""
        self._reopen = reopen
        self._meter = reopen()
        self.facts = self._meter.facts
        self.trouble: str | None = None
        self._readings: deque[Reading] = deque(maxlen=_READINGS_MAX)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def means(self, start_s: float, period_s: float, periods: int) -> list[Sample]:
        """Mean power of each period from a UTC start on; a period without a reading is left out."""
        return means(list(self._readings), start_s, period_s, periods)

    def close(self) -> None:
        """End the thread, let go of the meter."""
        self._stopped.set()
        self._meter.close()
        self._thread.join(2.0)

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                self._readings.append(self._meter.read())
                self.trouble = None
            except MeterRefused as error:
                self.trouble = str(error)
                return
            except BadReading as error:
                self.trouble = str(error)
            except MeterLost as error:
                self.trouble = str(error)
                self._regain()
            if not self.facts.streams:
                self._stopped.wait(self.facts.period_s)

    def _regain(self) -> None:
        self._meter.close()
        while not self._stopped.wait(1.0):
            try:
                self._meter = self._reopen()
            except (MeterLost, MeterRefused, ValueError, HostError) as error:
                self.trouble = str(error)
            else:
                return


def means(
    readings: Sequence[Reading], start_s: float, period_s: float, periods: int
) -> list[Sample]:
    """Mean power of the readings within each period; told at its end."""
    times = [reading.utc_ns / 1e9 for reading in readings]
    found = []
    for number in range(periods):
        begin_s = start_s + number * period_s
        first = bisect.bisect_right(times, begin_s)
        last = bisect.bisect_right(times, begin_s + period_s)
        watts = [r.power_w for r in readings[first:last] if r.power_w is not None]
        if watts:
            found.append(Sample(begin_s + period_s, sum(watts) / len(watts)))
    return found


class Server(socketserver.ThreadingTCPServer):
    """Serves a feed until it is shut down; a client has a conversation of its own."""

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, feed: Feed, host: str = "127.0.0.1", port: int = 8888) -> None:
        """Bind the address. Raises HostError where that cannot be had."""
        from importlib.metadata import version

        self.feed = feed
        self.identity = f"wattio,version={version('wattio')},{feed.facts.name.replace(',', ' ')}"
        self.places = threading.BoundedSemaphore(CLIENTS_MAX)
        try:
            super().__init__((host, port), _Client)
        except (OSError, OverflowError) as error:
            why = storage_reason(error) or error
            raise HostError(f"{host}:{port}: cannot listen: {why}") from None

    @property
    def port(self) -> int:
        """The port, also where port 0 left the choice to the system."""
        return int(self.server_address[1])


class _Client(socketserver.StreamRequestHandler):
    """One client."""

    server: Server
    timeout = _IDLE_S

    def handle(self) -> None:
        """Answer line by line until the client leaves, or says what no line is."""
        if not self.server.places.acquire(blocking=False):
            self._say(["Error, too many clients"])
            return
        try:
            feed = self.server.feed
            conversation = Conversation(self.server.identity, _utc_s, feed.means)
            while (line := self._line()) is not None:
                self._say(conversation.answer(line))
        except OSError:
            return  # The client is gone; there is nobody to tell.
        finally:
            self.server.places.release()

    def _line(self) -> str | None:
        line = self.rfile.readline(ptd_dialogue.LINE_BYTES_MAX + 1)
        if len(line) > ptd_dialogue.LINE_BYTES_MAX:
            self._say([f"Error, a line is at most {ptd_dialogue.LINE_BYTES_MAX} bytes"])
            return None
        return line.decode("ascii", "replace") if line.endswith(b"\n") else None

    def _say(self, lines: list[str]) -> None:
        self.wfile.write("".join(f"{line}\r\n" for line in lines).encode("ascii", "replace"))


def _utc_s() -> float:
    return clock.now().utc_ns / 1e9
