"""Mean power of a point, what meters ask of a sweep, and a meter that is lost in the middle."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import pytest
from wattio import clock
from wattio.calibration import host as hosts
from wattio.calibration import loads
from wattio.calibration.design import Design, Setting
from wattio.calibration.fit import CalibrationFailed
from wattio.calibration.folder import DataFolder
from wattio.calibration.kept import POINTS
from wattio.calibration.points import Point
from wattio.calibration.sweep import Place, fit_to_meters, mean_power_w, sweep
from wattio.clock import Instant
from wattio.errors import HostError, InputError
from wattio.meters.meter import Facts, Reading
from wattio.recording import Event, Recorder, Samples

METER = Facts("pdu", "an outlet", period_s=1.0, lag_s=0.5)
COUNTER = replace(METER, counts_energy=True, lag_s=0.0)
S = 1_000_000_000

DESIGN = Design(
    frequencies_hz=(),
    cores=(2,),
    loads=(0.0,),
    with_io=False,
    repeat=9,
    seed=1,
    settle_s=0.0,
    measure_s=0.01,
)


def samples(*power_w: float | None) -> Samples:
    """A reading each second from zero on."""
    return Samples.of([Reading(at * S, at * S, power) for at, power in enumerate(power_w)])


def test_power_is_the_mean_over_the_span() -> None:
    assert mean_power_w(samples(10, 10, 20, 30, 30), METER, 1 * S, 3 * S) == pytest.approx(20.0)


def test_counted_energy_is_taken_where_there_is_any() -> None:
    counted = [Reading(at * S, at * S, 1.0, energy_j=at * 7.0) for at in range(5)]
    assert mean_power_w(Samples.of(counted), COUNTER, 1 * S, 3 * S) == pytest.approx(7.0)
    # Not read after the end: what was drawn until then is not known.
    assert mean_power_w(Samples.of(counted[:3]), COUNTER, 1 * S, 3 * S) is None


@pytest.mark.parametrize(
    "power_w", [(), (None,) * 9, (10.0,), (10.0, *[None] * 6, 10.0, 10.0)], ids=str
)
def test_a_span_with_gaps_has_no_power(power_w: tuple[float | None, ...]) -> None:
    assert mean_power_w(samples(*power_w), METER, 1 * S, 8 * S) is None


def test_a_sweep_settles_for_as_long_as_the_meter_needs() -> None:
    design = replace(DESIGN, measure_s=10.0, settle_s=1.0)
    assert fit_to_meters(design, [METER, COUNTER]) == 1.5
    assert fit_to_meters(replace(design, settle_s=2.0), [METER]) == 2.0
    with pytest.raises(InputError, match=r'--measure: 10 s is too short for pdu.* give "15 s"'):
        fit_to_meters(design, [replace(METER, period_s=5.0)])
    with pytest.raises(InputError, match="is an estimate"):
        fit_to_meters(design, [replace(METER, estimate=True)])


@dataclass
class Lost:
    """A recorder whose meter says its last word when told."""

    last_ns: int | None = None

    def caught_up(self, label: str, monotonic_ns: int, timeout_s: float) -> bool:
        return self.last_ns is None or monotonic_ns <= self.last_ns

    def read(self, label: str, start_ns: int, end_ns: int) -> Samples:
        last_ns = end_ns if self.last_ns is None else min(end_ns, self.last_ns)
        step_ns = 1_000_000
        return Samples.of([Reading(at, at, 42.0) for at in range(start_ns, last_ns, step_ns)])

    def events(self) -> list[Event]:
        return [Event("meter", Instant(0, 0), "lost", "the cable is unplugged")]


@dataclass
class Unplugging:
    """Loses the meter after so many points."""

    recorder: Lost
    after: int
    troubles: list[str | None]

    def begun(self, setting: Setting) -> None: ...

    def ended(self, point: Point, trouble: str | None) -> None:
        self.troubles.append(trouble)
        if len(self.troubles) == self.after:
            self.recorder.last_ns = clock.now().monotonic_ns


@pytest.fixture
def host(tmp_path: Path) -> hosts.Host:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/stat").write_text("cpu0 9 0 0 9 0 0 0 0\ncpu1 9 0 0 9 0 0 0 0\n")
    return hosts.look(tmp_path)


def test_a_lost_meter_ends_the_sweep_and_keeps_the_points(host: hosts.Host, tmp_path: Path) -> None:
    recorder = Lost()
    watch = Unplugging(recorder, after=4, troubles=[])
    data = DataFolder(tmp_path / "data")
    data.create()
    (data.path / POINTS).touch()
    fast = replace(METER, period_s=0.001, lag_s=0.0)
    place = Place(data, snapshot=tmp_path / "none")
    with pytest.raises(CalibrationFailed, match="3 points in a row have no power: pdu: the cable"):
        sweep(host, DESIGN, cast(Recorder, recorder), {"meter": fast}, place, 1e9, watch)
    assert [trouble is None for trouble in watch.troubles] == [True] * 4 + [False] * 3
    assert len((data.path / POINTS).read_text().splitlines()) == 1 + 7


def test_the_loop_of_an_idle_core_is_work(host: hosts.Host) -> None:
    """As it is to `estimate:`: a model fitted without it told of too much on the very host."""
    times = []
    for core in (0, 1):
        state = host.root / f"sys/devices/system/cpu/cpu{core}/cpuidle/state0"
        state.mkdir(parents=True)
        (state / "name").write_text("POLL\n")
        times.append(state / "time")
        times[-1].write_text("5000\n")

    def wait(_: float) -> None:
        (host.root / "proc/stat").write_text("cpu0 59 0 0 59 0 0 0 0\ncpu1 9 0 0 109 0 0 0 0\n")
        times[0].write_text("15000\n")
        times[1].write_text("999005000\n")  # no core loops for longer than it is watched

    work = hosts.observe(host.root, 0.02, 1e9, wait)
    span_s = (work.end_ns - work.start_ns) / 1e9
    assert work.busy == work.busy_phi == pytest.approx(0.5 + 0.01 / span_s + 1.0)
    assert work.active == 2


def test_a_host_without_knobs_says_so(host: hosts.Host) -> None:
    assert "has no cpufreq" in host.lacks["frequency"]
    assert "has no hot-plug" in host.lacks["cores"]
    assert (host.cores, host.cores_default(), host.frequency_max_hz) == (2, (2,), None)


def test_the_highest_frequency_is_looked_up_in_cpuinfo(tmp_path: Path, host: hosts.Host) -> None:
    text = "cpu MHz\t\t: 2600.125\ncpu MHz\t\t: 1200.000\n"
    (tmp_path / "proc/cpuinfo").write_text(text)
    assert hosts.look(tmp_path).frequency_max_hz == pytest.approx(2600.125e6)


def test_cores_that_are_off_already_are_left_alone(tmp_path: Path, host: hosts.Host) -> None:
    for core, state in ((1, "1"), (2, "0")):
        folder = tmp_path / f"sys/devices/system/cpu/cpu{core}"
        folder.mkdir(parents=True)
        (folder / "online").write_text(f"{state}\n")
    found = hosts.look(tmp_path)
    assert "already off" in found.lacks["cores"]
    assert found.cores_default() == (2,)


def test_a_load_that_ends_by_itself_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[str]] = []

    def kept(line: list[str], **how: object) -> subprocess.Popen[str]:
        started.append(start(line, **how))
        return started[-1]

    def ended() -> object:
        """The load has ended, and not just any child of this process; it stays to be asked for."""
        return os.waitid(os.P_PID, started[0].pid, os.WEXITED | os.WNOWAIT)

    start: Callable[..., subprocess.Popen[str]] = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", kept)
    with (
        pytest.raises(CalibrationFailed, match=r"the load ended by itself: .*Error"),
        loads.Loads().held(0.5, [999_999], 0),
    ):
        ended()


def test_no_file_for_reading_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loads, "FILE_BYTES", 4 << 20)
    # A file system without direct I/O says so, and keeps nothing either.
    with contextlib.suppress(HostError), loads.file_to_read(tmp_path) as descriptor:
        assert list(tmp_path.iterdir()) == []
        with loads.Loads(descriptor).held(0.0, [], 2):
            pass
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(HostError, match="/none: cannot create a file for direct I/O: No such file"):
        loads.file_to_read(Path("/none")).__enter__()
