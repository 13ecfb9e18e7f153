"""What stands behind the PDU's objects: `pdu_agent.py FOLDER`, which `snmpd` runs and asks.

The protocol is that of `pass_persist` in snmpd.conf(5). It reads the power as a function of time
from the file `loads.json` of its folder, and before each answer its condition from `control`.
"""

from __future__ import annotations

import itertools
import json
import math
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CONTROL, LOADS = "control", "loads.json"

CONDITIONS = {
    "well": "says what is true",
    "frozen": "followed by monotonic ns: says what was true then",
    "vanished": "has no objects at all",
    "absurd": "says all ones",
    "negative": "says -1",
    "slow": "followed by seconds: thinks for so long before each answer",
}

APC, EATON, RARITAN, PLAYPEN = (
    (1, 3, 6, 1, 4, 1, 318, 1, 1, 26),
    (1, 3, 6, 1, 4, 1, 534, 6, 6, 7),
    (1, 3, 6, 1, 4, 1, 13742, 6),
    (1, 3, 6, 1, 4, 1, 8072, 9999, 9999),
)

OWN = {
    # Of the whole device: mW as Gauge32, mJ as Counter32, J as Counter64, W as text, ms as Gauge32.
    "power_mw": "1.3.6.1.4.1.8072.9999.9999.1.0",
    "energy_mj": "1.3.6.1.4.1.8072.9999.9999.2.0",
    "energy_j": "1.3.6.1.4.1.8072.9999.9999.3.0",
    "power_text": "1.3.6.1.4.1.8072.9999.9999.4.0",
    "clock_ms": "1.3.6.1.4.1.8072.9999.9999.5.0",
    "words": "1.3.6.1.4.1.8072.9999.9999.6.0",
}

Oid = tuple[int, ...]
Value = tuple[str, str]


@dataclass(frozen=True)
class Load:
    """Power over time: straight lines between knots of seconds and watts, level beyond them."""

    knots: tuple[tuple[float, float], ...]

    def power_w(self, at_s: float) -> float:
        """Power at a time; after the jump where knots are at one time."""
        before = [knot for knot in self.knots if knot[0] <= at_s]
        after = [knot for knot in self.knots if knot[0] > at_s]
        if not before or not after:
            return (before[-1] if before else after[0])[1]
        (start_s, start_w), (end_s, end_w) = before[-1], after[0]
        return start_w + (end_w - start_w) * (at_s - start_s) / (end_s - start_s)

    def energy_j(self, at_s: float) -> float:
        """Energy from zero to a time of zero or more: the area below the lines, exactly."""
        first_w, (last_s, last_w) = self.knots[0][1], self.knots[-1]
        line = [(0.0, first_w), *self.knots, (max(at_s, last_s), last_w)]
        areas = []
        for (start_s, start_w), (end_s, end_w) in itertools.pairwise(line):
            until_s = min(end_s, at_s)
            if until_s > start_s:
                share = (until_s - start_s) / (end_s - start_s)
                until_w = start_w + (end_w - start_w) * share
                areas.append((until_s - start_s) * (start_w + until_w) / 2)
        return math.fsum(areas)


@dataclass(frozen=True)
class Outlets:
    """The loads of all outlets since a moment; outlet 0 is their sum."""

    loads: tuple[Load, ...]
    start_ns: int
    counted_before_j: float

    def _chosen(self, outlet: int) -> tuple[Load, ...]:
        return self.loads if outlet == 0 else (self.loads[outlet - 1],)

    def power_w(self, outlet: int, monotonic_ns: int) -> float:
        """The power of an outlet at a moment."""
        at_s = (monotonic_ns - self.start_ns) / 1e9
        return math.fsum(load.power_w(at_s) for load in self._chosen(outlet))

    def energy_j(self, outlet: int, monotonic_ns: int) -> float:
        """What its counter has counted at a moment."""
        at_s = (monotonic_ns - self.start_ns) / 1e9
        counted = math.fsum(load.energy_j(at_s) for load in self._chosen(outlet))
        return self.counted_before_j + counted

    def as_plain(self) -> dict[str, Any]:
        """As plain data."""
        knots = [load.knots for load in self.loads]
        return {"knots": knots, "start_ns": self.start_ns, "before_j": self.counted_before_j}

    @staticmethod
    def from_plain(plain: dict[str, Any]) -> Outlets:
        """From plain data."""
        loads = tuple(Load(tuple((s, w) for s, w in knots)) for knots in plain["knots"])
        return Outlets(loads, plain["start_ns"], plain["before_j"])


def objects(outlets: Outlets, now_ns: int) -> Iterator[tuple[Oid, Value]]:
    """All objects with what they say at a moment."""
    seconds = round(now_ns / 1e9) % 2**32
    for outlet in range(len(outlets.loads) + 1):
        power_w, energy_j = outlets.power_w(outlet, now_ns), outlets.energy_j(outlet, now_ns)
        watts, energy_wh = str(round(power_w)), str(int(energy_j / 3600) % 2**32)
        tenths_kwh = str(int(energy_j / 360e3) % 2**32)
        if outlet == 0:
            yield (*APC, 4, 3, 1, 5, 1), ("gauge", str(round(power_w / 10)))
            yield (*APC, 4, 3, 1, 9, 1), ("gauge", tenths_kwh)
            yield (*EATON, 3, 5, 1, 4, 0, 1), ("integer", watts)
            yield (*EATON, 3, 5, 1, 5, 0, 1), ("gauge", energy_wh)
            settings, readings, place = (3, 3, 4, 1, 7), (5, 2, 3, 1), (1, 1)
        else:
            yield (*APC, 9, 4, 3, 1, 7, outlet), ("gauge", watts)
            yield (*APC, 9, 4, 3, 1, 11, outlet), ("gauge", tenths_kwh)
            yield (*EATON, 6, 5, 1, 3, 0, outlet), ("integer", watts)
            yield (*EATON, 6, 5, 1, 4, 0, outlet), ("gauge", energy_wh)
            settings, readings, place = (3, 5, 4, 1, 7), (5, 4, 3, 1), (1, outlet)
        # Sensor 5 is active power, here with one decimal digit; 8 is active energy.
        for sensor, digits, said in ((5, "1", str(round(power_w * 10))), (8, "0", energy_wh)):
            yield (*RARITAN, *settings, *place, sensor), ("gauge", digits)
            yield (*RARITAN, *readings, 4, *place, sensor), ("gauge", said)
            yield (*RARITAN, *readings, 5, *place, sensor), ("gauge", str(seconds))
    power_w, energy_j = outlets.power_w(0, now_ns), outlets.energy_j(0, now_ns)
    own = (
        ("gauge", str(round(power_w * 1e3))),
        ("counter", str(int(energy_j * 1e3) % 2**32)),
        ("counter64", str(int(energy_j))),
        ("string", f"{power_w:.3f}"),
        ("gauge", str(now_ns // 10**6 % 2**32)),
        ("string", "no number"),
    )
    for number, value in enumerate(own, start=1):
        yield (*PLAYPEN, number, 0), value


class Agent:
    """Answers the questions of `snmpd`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._outlets = Outlets.from_plain(json.loads((folder / LOADS).read_text()))

    def answer(self, question: str, oid: Oid) -> list[str]:
        """The lines that answer "get" or "getnext"."""
        condition, _, detail = (self._folder / CONTROL).read_text().strip().partition(" ")
        if condition == "slow":
            time.sleep(float(detail))
        if condition == "vanished":
            return ["NONE"]
        now_ns = int(detail) if condition == "frozen" else time.monotonic_ns()
        there = dict(objects(self._outlets, now_ns))
        if question == "getnext":
            oid = min((other for other in there if other > oid), default=())
        if oid not in there:
            return ["NONE"]
        kind, said = there[oid]
        if condition == "absurd":
            said = str(2**31 - 1 if kind == "integer" else 2**32 - 1)
        if condition == "negative":
            kind, said = "integer", "-1"
        return ["." + ".".join(map(str, oid)), kind, said]


def main() -> None:
    """Answer until there are no more questions."""
    agent = Agent(Path(sys.argv[1]))
    for line in sys.stdin:
        question = line.strip()
        if question == "PING":
            lines = ["PONG"]
        elif question in ("get", "getnext"):
            said = sys.stdin.readline().strip()
            lines = agent.answer(question, tuple(int(part) for part in said.split(".") if part))
        elif question == "set":
            sys.stdin.readline()
            sys.stdin.readline()
            lines = ["not-writable"]
        else:
            return
        sys.stdout.write("\n".join(lines) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
