"""Power by a model, for machines without a meter: `estimate:assumed`, `estimate:power-model.toml`.

Utilisation of the cores from /proc/stat, their frequency from cpufreq (the highest where there is
none), I/Os per second from /proc/diskstats; the model is `wattio._core.PowerModel`. Nothing is
measured: the model's coefficients decide what comes out. It is told as the mean since the reading
before.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wattio import _core, clock
from wattio.clock import Instant
from wattio.errors import InputError
from wattio.files.document import text_of
from wattio.meters.meter import Facts, FoundMeter, MeterLost, Reading
from wattio.meters.name import parse
from wattio.meters.sample import midway

SCHEME = "estimate"
FORM = "estimate:assumed or estimate:FILE, a power-model.toml"

ASSUMED = "assumed"
_PERIOD_S = 0.5
_SPAN_S_MIN = 0.1
"""The kernel counts in ticks of 10 ms: over less than ten of them a share means little."""
# Parts of a disk, and devices that stand on others whose requests are counted below.
_NO_DISK = re.compile(
    r"(loop|ram|zram|dm-|md|sr|fd)\d+|(nvme\d+n\d+|mmcblk\d+)p\d+|(sd|vd|xvd|hd)[a-z]+\d+"
)


@dataclass(frozen=True)
class Ticks:
    """Ticks of a core: in tasks, and altogether but for what a hypervisor took."""

    busy: int
    total: int


def find() -> list[FoundMeter]:
    """The model that comes with wattio."""
    return [FoundMeter(f"{SCHEME}:{ASSUMED}", "an assumed model of a server; nothing is measured")]


def open_meter(name: str) -> Estimate:
    """Read the model. Raises InputError.

    `?root=FOLDER` says below which folder /proc and /sys lie.
    """
    parts = parse(name)
    parts.allow(["root"])
    if not parts.path:
        raise parts.error(f"names no model; write {FORM}")
    return Estimate(read_model(parts.path), Path(parts.query.get("root", "/")), parts.shown)


def read_model(path: str) -> _core.PowerModel:
    """The model of a file, or the assumed one. Raises InputError."""
    if path == ASSUMED:
        return _core.PowerModel(_core.assumed_power_model())
    text = text_of(Path(path))
    try:
        return _core.PowerModel(text)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


class Estimate:
    """A model with this host's counters."""

    def __init__(self, model: _core.PowerModel, root: Path, name: str) -> None:
        """Read the counters for the first time at `read`."""
        self._model = model
        self._root = root
        facts: dict[str, Any] = json.loads(model.facts())
        self._frequency_max_hz = float(facts["frequency_max_hz"])
        # Facts of a model are the user's own text.
        origin = "fitted to a meter" if facts["is_measured"] else "with assumed coefficients"
        self._facts = Facts(
            name=name,
            what=f"an estimate by the model {facts['name']}, {origin}",
            period_s=_PERIOD_S,
            accuracy_class="estimate",
            estimate=True,
        )
        self._before: tuple[Instant, dict[int, Ticks], int] | None = None
        self._power_w: float | None = None
        self._closed = False

    @property
    def facts(self) -> Facts:
        """What it says about itself."""
        return self._facts

    def read(self) -> Reading:
        """The mean since the reading before; None for the first. Raises MeterLost.

        A reading sooner than a tenth of a second after the one before repeats what that one said.
        """
        if self._closed:
            raise MeterLost(f"{self._facts.name}: is closed")
        asked = clock.now()
        ticks = parse_stat(self._text("proc/stat"))
        completed = parse_diskstats(self._text("proc/diskstats", needed=False))
        at = midway(asked, clock.now())
        if self._before is None:
            self._before = (at, ticks, completed)
            return Reading(*at, None)
        before, old_ticks, old_completed = self._before
        span_s = (at.monotonic_ns - before.monotonic_ns) / 1e9
        if span_s >= _SPAN_S_MIN:
            groups = [
                (1.0, use, self._frequency_share(core))
                for core, use in shares(old_ticks, ticks).items()
            ]
            iops = max(0, completed - old_completed) / span_s
            self._power_w = self._model.power_w(groups, iops)
            self._before = (at, ticks, completed)
        return Reading(*at, self._power_w)

    def close(self) -> None:
        """Let go of it."""
        self._closed = True

    def _frequency_share(self, core: int) -> float:
        """A core's frequency over the model's highest; 1 where the host tells none."""
        folder = self._root / f"sys/devices/system/cpu/cpu{core}/cpufreq"
        try:
            khz = int((folder / "scaling_cur_freq").read_text())
        except (OSError, ValueError):
            return 1.0
        return min(max(khz * 1e3 / self._frequency_max_hz, 0.0), 1.0)

    def _text(self, path: str, *, needed: bool = True) -> str:
        try:
            return (self._root / path).read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            if not needed:
                return ""
            raise MeterLost(f"/{path}: cannot be read: {error.strerror}") from None


def parse_stat(text: str) -> dict[int, Ticks]:
    """Ticks of each core that is on, from the text of /proc/stat. Raises MeterLost.

    The columns are user, nice, system, idle, iowait, irq, softirq, steal; guests are in user
    already, and what a hypervisor took (steal) is neither used nor there.
    """
    found = {}
    for line in text.splitlines():
        name, _, rest = line.partition(" ")
        if not re.fullmatch(r"cpu\d{1,6}", name, re.ASCII):
            continue
        fields = rest.split()[:7]
        if len(fields) < 7 or not all(re.fullmatch(r"\d{1,20}", f, re.ASCII) for f in fields):
            raise MeterLost(f"/proc/stat: {line[:80]!r} is no line of a core")
        user, nice, system, idle, iowait, irq, softirq = map(int, fields)
        busy = user + nice + system + irq + softirq
        found[int(name[3:])] = Ticks(busy, busy + idle + iowait)
    if not found:
        raise MeterLost("/proc/stat lists no core")
    return found


def parse_diskstats(text: str) -> int:
    """Reads and writes that all disks have completed, from the text of /proc/diskstats.

    Partitions, and devices that stand on other ones, are left out: theirs are counted below.
    """
    completed = 0
    for line in text.splitlines():
        fields = line.split()
        if len(fields) < 8 or _NO_DISK.fullmatch(fields[2]):
            continue
        if all(re.fullmatch(r"\d{1,20}", fields[at], re.ASCII) for at in (3, 7)):
            completed += int(fields[3]) + int(fields[7])
    return completed


def shares(old: dict[int, Ticks], new: dict[int, Ticks]) -> dict[int, float]:
    """The share of its time that each core was busy, between two looks.

    A core that just came on, and one whose counters went back, counts as idle.
    """
    found = {}
    for core, now in new.items():
        before = old.get(core, now)
        busy, total = now.busy - before.busy, now.total - before.total
        found[core] = min(max(busy / total, 0.0), 1.0) if total > 0 and busy > 0 else 0.0
    return found
