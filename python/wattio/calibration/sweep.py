"""The sweep: setting by setting, under load, with the meters recorded meanwhile."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from wattio.analysis import power
from wattio.calibration import host as hosts
from wattio.calibration.design import Design, Setting
from wattio.calibration.fit import CalibrationFailed
from wattio.calibration.folder import DataFolder
from wattio.calibration.host import Host, Wait, Work
from wattio.calibration.loads import Loads, file_to_read
from wattio.calibration.points import Point
from wattio.errors import InputError
from wattio.knobs import knobs
from wattio.knobs.holder import SNAPSHOT, Holder
from wattio.meters.meter import Facts
from wattio.recording import Recorder, Samples

MISSING_MOST = 3
"""After so many points in a row without a power the meter is given up."""

GAP_PERIODS_MOST = 3.0
"""A longer gap in the samples, in periods of the meter, leaves a point without a power."""

READINGS_LEAST = 3.0
_CATCH_UP_S = 5.0


class Watch(Protocol):
    """Who is told how the sweep goes."""

    def begun(self, setting: Setting) -> None:
        """A setting is held."""

    def ended(self, point: Point, trouble: str | None) -> None:
        """It is measured; `trouble` says why it has no power."""


@dataclass(frozen=True)
class Place:
    """Where a sweep happens: the folder for data, that for I/O, that for old values of knobs."""

    data: DataFolder
    io: Path | None = None
    snapshot: Path = SNAPSHOT


def fit_to_meters(design: Design, facts: Sequence[Facts]) -> float:
    """The settling time that these meters need, at least that of the design.

    A reading may be a mean over a period and come late. Raises InputError for meters that measure
    nothing, or say too little within a point.
    """
    for meter in facts:
        if meter.estimate:
            raise InputError(
                f"{meter.name}: is an estimate; a model must be fitted to a measurement"
            )
        if design.measure_s < READINGS_LEAST * meter.period_s:
            least_s = math.ceil(READINGS_LEAST * meter.period_s)
            raise InputError(
                f"--measure: {design.measure_s:g} s is too short for {meter.name}, which updates"
                f' every {meter.period_s:g} s; give "{least_s} s" or more'
            )
    needed_s = max((meter.period_s + meter.lag_s for meter in facts), default=0.0)
    return max(design.settle_s, needed_s)


def sweep(
    host: Host,
    design: Design,
    recorder: Recorder,
    facts: dict[str, Facts],
    place: Place,
    frequency_max_hz: float,
    watch: Watch,
    loads: Loads | None = None,
    wait: Wait = time.sleep,
) -> list[Point]:
    """Visit every setting; each point is in the folder as soon as it is measured.

    The recorder runs already. The host's knobs are put back however this ends. Raises HostError for
    knobs that cannot be turned, CalibrationFailed where a load ends or the meters stay silent.
    """
    with contextlib.ExitStack() as stack:
        descriptor = stack.enter_context(file_to_read(place.io)) if place.io else None
        turns = bool(design.frequencies_hz) or len(design.cores) > 1
        holder = None
        if turns or place.snapshot.exists():
            holder = stack.enter_context(Holder(place.snapshot, host.root))
        sweeper = _Sweeper(
            host,
            design,
            _Meters(recorder, facts),
            _Knobs(host, holder if turns else None, max(design.cores)),
            loads or Loads(descriptor),
            frequency_max_hz,
            wait,
        )
        found: list[Point] = []
        missing = 0
        for number, setting in enumerate(design.settings()):
            watch.begun(setting)
            point, trouble = sweeper.measure(number, setting)
            place.data.add(point)
            watch.ended(point, trouble)
            found.append(point)
            missing = missing + 1 if trouble else 0
            if missing >= MISSING_MOST:
                raise CalibrationFailed(f"{missing} points in a row have no power: {trouble}")
        return found


@dataclass
class _Knobs:
    """Frequency and cores of the host, turned only where they change."""

    host: Host
    holder: Holder | None
    cores_most: int
    frequency_hz: float | None = None
    cores: int | None = None

    def put(self, setting: Setting) -> None:
        if self.holder is None:
            return
        if setting.frequency_hz not in (None, self.frequency_hz):
            # Cores that are off refuse a frequency.
            self._put_cores(self.cores_most)
            asked = f"{setting.frequency_hz!r} Hz"
            self.holder.put(knobs.assignments("cpu.frequency", asked, self.host.root))
            self.frequency_hz = setting.frequency_hz
        self._put_cores(setting.cores)

    def _put_cores(self, cores: int) -> None:
        if self.holder is None or not self.host.cores_can_go or cores == self.cores:
            return
        self.holder.put(knobs.assignments("cpu.cores", cores, self.host.root))
        self.cores = cores


@dataclass(frozen=True)
class _Meters:
    """All meters; the host draws their sum."""

    recorder: Recorder
    facts: dict[str, Facts]

    def power_w(self, work: Work) -> tuple[float | None, str | None]:
        """The mean over what was observed, or why there is none."""
        total_w = 0.0
        for label, facts in self.facts.items():
            found = self._one(label, facts, work)
            if found is None:
                return None, self._trouble(label, facts)
            total_w += found
        return total_w, None

    def _one(self, label: str, facts: Facts, work: Work) -> float | None:
        lag_ns = round(facts.lag_s * 1e9)
        period_ns = round(facts.period_s * 1e9)
        start_ns, end_ns = work.start_ns + lag_ns, work.end_ns + lag_ns
        self.recorder.caught_up(label, end_ns, _CATCH_UP_S + 2 * facts.period_s)
        reach_ns = round(GAP_PERIODS_MOST + 1) * period_ns + 1_000_000_000
        samples = self.recorder.read(label, start_ns - reach_ns, end_ns + reach_ns)
        return mean_power_w(samples, facts, start_ns, end_ns)

    def _trouble(self, label: str, facts: Facts) -> str:
        told = [event.text for event in self.recorder.events() if event.label == label]
        return f"{facts.name}: {told[-1] if told else 'has gaps in its samples'}"


def mean_power_w(samples: Samples, facts: Facts, start_ns: int, end_ns: int) -> float | None:
    """Mean power over a stretch of the meter's time; None if samples are missing."""
    import numpy as np

    known = ~np.isnan(samples.energy_j if facts.counts_energy else samples.power_w)
    time_s = (samples.monotonic_ns[known] - start_ns) / 1e9
    span_s = (end_ns - start_ns) / 1e9
    if not ((time_s >= 0) & (time_s <= span_s)).any():
        return None
    # Sampling is not quite even; a short period must allow for a busy host.
    gap_s = max(GAP_PERIODS_MOST * facts.period_s, span_s / 4)
    if power.longest_gap(time_s, 0.0, span_s) > gap_s:
        return None
    if facts.counts_energy:
        energy_j = power.energy_counted(time_s, samples.energy_j[known], 0.0, span_s)
    else:
        energy_j = power.energy_between(time_s, samples.power_w[known], 0.0, span_s)
    return None if energy_j is None else max(energy_j, 0.0) / span_s


@dataclass
class _Sweeper:
    """What it takes to measure one setting."""

    host: Host
    design: Design
    meters: _Meters
    knobs: _Knobs
    loads: Loads
    frequency_max_hz: float
    wait: Wait

    def measure(self, number: int, setting: Setting) -> tuple[Point, str | None]:
        """Hold a setting, let it settle, measure."""
        self.knobs.put(setting)
        cores = hosts.active_cores(self.host.root)
        with self.loads.held(setting.load, cores, setting.readers):
            self.wait(self.design.settle_s)
            work = hosts.observe(
                self.host.root, self.design.measure_s, self.frequency_max_hz, self.wait
            )
            # Still under the load: the reading that ends the span may reach beyond it.
            power_w, trouble = self.meters.power_w(work)
        point = Point(
            number=number,
            is_idle=setting.is_idle,
            frequency_hz=setting.frequency_hz,
            cores=setting.cores,
            load=setting.load,
            readers=setting.readers,
            start_s=work.start_ns / 1e9,
            end_s=work.end_ns / 1e9,
            active=work.active,
            active_phi=work.active_phi,
            busy=work.busy,
            busy_phi=work.busy_phi,
            kiops=work.kiops,
            power_w=power_w,
        )
        return point, trouble
