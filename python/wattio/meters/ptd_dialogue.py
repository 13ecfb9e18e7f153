"""The dialogue of SPEC's PTDaemon, as MLPerf Power uses it: lines of text, split by commas.

Pure functions, and the state of one conversation on the side that answers. Written from what open
clients say and expect (mlcommons/power-dev, `ptd_client_server/lib/server.py`); never tried against
SPEC's own program.

| asked | answered |
|---|---|
| `Hello` | `Hello, PTDaemon here!` |
| `Identify` | name and version |
| `RR` | `Ranges,{ampere auto},{ampere range},{volt auto},{volt range}`; -1 is unknown |
| `SR,A,x` or `SR,V,x` | that the range was set (our meters have none: it is noted) |
| `Go,{ms},{ramp-up samples},{mark}` | that sampling has begun |
| `RL` | `Last N samples`, and N lines that were not told yet |
| `Watts` | `Watts,{mean},{least},{most},{samples}` of what was sampled |
| `Uncertainty` | `Uncertainty,-1`: unknown |
| `Stop` | that sampling has ended |
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

HELLO = "Hello, PTDaemon here!"
LINE_BYTES_MAX = 1024
SAMPLES_MAX = 10_000
"""So many are told at once, and no more are kept for who never asks."""
PERIOD_MS = range(10, 3_600_001)

_TIME = "%m-%d-%Y %H:%M:%S.%f"
_COUNT = re.compile(r"Last (\d{1,6}) samples?", re.ASCII)
_MARK = re.compile(r"[^\w.+:-]")


@dataclass(frozen=True)
class Sample:
    """One line of samples; `at_s` is the sender's own clock, in seconds since 1970 as if UTC."""

    at_s: float
    power_w: float
    mark: str = "notset"


def parse_sample(line: str) -> Sample | None:
    """What a line `Time,...,Watts,...,Mark,...` says; None if it says no power."""
    fields = line.strip().split(",")
    found = dict(zip(fields[::2], fields[1::2], strict=False))
    try:
        power_w = float(found["Watts"])
        stamp = found["Time"]
        at = datetime.strptime(stamp if "." in stamp else f"{stamp}.0", _TIME).replace(tzinfo=UTC)
    except (KeyError, ValueError, OverflowError):
        return None
    if not math.isfinite(power_w):
        return None
    return Sample(at.timestamp(), power_w, found.get("Mark", "notset"))


def format_sample(sample: Sample) -> str:
    """A sample as a line; volts, amperes and power factor are not known, which is -1."""
    at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=sample.at_s)
    stamp = at.strftime("%m-%d-%Y %H:%M:%S.") + f"{at.microsecond // 1000:03d}"
    return (
        f"Time,{stamp},Watts,{sample.power_w:.6f},Volts,-1.000000,Amps,-1.000000,PF,-1.000000,"
        f"Mark,{sample.mark}"
    )


def parse_count(line: str) -> int | None:
    """How many lines follow an answer to `RL`; None if it is another answer."""
    found = _COUNT.match(line.strip())
    return int(found[1]) if found else None


Means = Callable[[float, float, int], Sequence[Sample]]
"""From a start in seconds, with a period in seconds, and so many periods on: one sample each."""


class Conversation:
    """One client's state: what it asked for, and what it was told."""

    def __init__(self, identity: str, now_s: Callable[[], float], means: Means) -> None:
        """`means` gives the mean power of periods that are over; those without a reading lack."""
        self._identity = identity
        self._now_s = now_s
        self._means = means
        self._running = False
        self._start_s = 0.0
        self._period_s = 1.0
        self._periods_told = 0
        self._mark = "notset"
        self._watts: list[float] = []
        self._waiting: list[Sample] = []

    def answer(self, line: str) -> list[str]:
        """The lines that answer a line; never raises."""
        command, *words = line.strip().split(",")
        known: dict[str, Callable[[list[str]], list[str]]] = {
            "hello": lambda _: [HELLO],
            "identify": lambda _: [self._identity],
            "rr": lambda _: ["Ranges,-1,-1.0,-1,-1.0"],
            "sr": self._set_range,
            "go": self._go,
            "rl": self._read_last,
            "watts": self._told_watts,
            "uncertainty": lambda _: ["Uncertainty,-1"],
            "stop": self._stop,
        }
        act = known.get(command.lower())
        if act is None:
            return ["Unknown command"]
        return act(words)

    def _set_range(self, words: list[str]) -> list[str]:
        if len(words) != 2 or words[0].upper() not in ("A", "V"):
            return ["Error, SR needs A or V, and a range"]
        return [f"Range {words[0].upper()} noted: this meter has none to set"]

    def _go(self, words: list[str]) -> list[str]:
        if self._running:
            return ["Error, a measurement is under way"]
        try:
            period_ms = int(words[0])
            ramp_up = int(words[1]) if len(words) > 1 else 0
        except (IndexError, ValueError):
            return ["Error, Go needs a period in ms, and a number of ramp-up samples"]
        if period_ms not in PERIOD_MS or not 0 <= ramp_up <= SAMPLES_MAX:
            return [f"Error, the period is {PERIOD_MS[0]} to {PERIOD_MS[-1]} ms"]
        self._running = True
        self._period_s = period_ms / 1e3
        self._start_s = self._now_s() + ramp_up * self._period_s
        self._periods_told = 0
        self._watts, self._waiting = [], []
        self._mark = _MARK.sub("_", words[2])[:64] if len(words) > 2 and words[2] else "notset"
        return [f"Starting untimed measurement at {period_ms}ms with {ramp_up} rampup samples"]

    def _read_last(self, words: list[str]) -> list[str]:
        if words:
            return ["Invalid number of parameters"]
        self._collect()
        told, self._waiting = self._waiting[:SAMPLES_MAX], self._waiting[SAMPLES_MAX:]
        return [f"Last {len(told)} samples", *map(format_sample, told)]

    def _told_watts(self, _: list[str]) -> list[str]:
        self._collect()
        if not self._watts:
            return ["Watts,-1,-1,-1,0"]
        mean_w = sum(self._watts) / len(self._watts)
        least_w, most_w = min(self._watts), max(self._watts)
        return [f"Watts,{mean_w:.6f},{least_w:.6f},{most_w:.6f},{len(self._watts)}"]

    def _stop(self, _: list[str]) -> list[str]:
        if not self._running:
            return ["Error, no measurement is under way"]
        self._collect()
        self._running = False
        return ["Stopping untimed measurement"]

    def _collect(self) -> None:
        """Take the periods that are over since the last time."""
        if not self._running:
            return
        over = int((self._now_s() - self._start_s) / self._period_s) - self._periods_told
        if over <= 0:
            return
        # Who did not ask for long gets the newest only.
        self._periods_told += max(0, over - SAMPLES_MAX)
        start_s = self._start_s + self._periods_told * self._period_s
        fresh = self._means(start_s, self._period_s, min(over, SAMPLES_MAX))
        self._periods_told += min(over, SAMPLES_MAX)
        marked = [Sample(one.at_s, one.power_w, self._mark) for one in fresh]
        self._waiting = (self._waiting + marked)[-SAMPLES_MAX:]
        self._watts = (self._watts + [one.power_w for one in fresh])[-1_000_000:]
