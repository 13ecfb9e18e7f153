"""Power meters on counters that advance: what they say against what was drawn."""

from __future__ import annotations

import time

import pytest
from wattio import _core
from wattio.errors import HostError

from fuse.hosts import hwmon, package, powercap, sensor
from fuse.mount import hold_at, let_run, mounted, now_s, wait_until
from fuse.nodes import Constant, Counter

pytestmark = pytest.mark.system

PACKAGE = "rapl:package-0"
SENSOR = "hwmon:power_meter/power1"
ENERGY = "sys/class/powercap/intel-rapl:0/energy_uj"
# So many readings without advance make a counter stuck.
STUCK = 10


def energy_j(meter: _core.PowerMeter) -> float:
    """What a meter counted since its first reading."""
    reading = meter.read()
    assert reading is not None
    return reading[1]


def test_power_is_right_within_one_sample() -> None:
    """The counter goes on with the machine's time; the calls around a reading bound its moment."""
    with mounted(package(95.0)) as root:
        let_run(root)
        meter = _core.PowerMeter(PACKAGE, str(root))
        before_first = time.monotonic()
        assert meter.read() is None
        after_first = time.monotonic()
        wait_until(root, now_s(root) + 0.05)
        before_second = time.monotonic()
        reading = meter.read()
        after_second = time.monotonic()
    assert reading is not None
    shortest, longest = before_second - after_first, after_second - before_first
    # The counter is in whole microjoules.
    assert 95.0 * shortest - 2e-6 <= reading[1] <= 95.0 * longest + 2e-6
    assert 95.0 * shortest / longest - 1e-3 <= reading[0] <= 95.0 * longest / shortest + 1e-3


def test_energy_follows_the_power_that_is_drawn() -> None:
    drawn = Counter(((0.0, 95e6), (10.0, 40e6), (30.0, 200e6)), range=10**12)
    with mounted(powercap("intel-rapl:0", "package-0", drawn)) as root:
        meter = _core.PowerMeter(PACKAGE, str(root))
        assert meter.read() is None
        for at_s, joules in ((10.0, 950.0), (20.0, 1350.0), (31.0, 1950.0)):
            hold_at(root, at_s)
            assert energy_j(meter) == pytest.approx(joules, abs=1e-6)


def test_wraps_are_unwrapped() -> None:
    # 100 J are one turn of the counter.
    with mounted(package(95.0, range_uj=100_000_000)) as root:
        meter = _core.PowerMeter(PACKAGE, str(root))
        assert meter.read() is None
        wraps, last = 0, 0
        for second in range(1, 21):
            hold_at(root, float(second))
            assert energy_j(meter) == pytest.approx(95.0 * second, abs=1e-6)
            raw = int((root / ENERGY).read_text())
            wraps, last = wraps + (raw < last), raw
        assert wraps == 19


def test_a_counter_that_is_frozen_is_refused_until_it_goes_on() -> None:
    drawn = Counter(((0.0, 95e6), (1.0, 0.0), (2.0, 95e6)), range=10**12)
    with mounted(powercap("intel-rapl:0", "package-0", drawn)) as root:
        meter = _core.PowerMeter(PACKAGE, str(root))
        assert meter.read() is None
        hold_at(root, 1.5)
        assert energy_j(meter) == pytest.approx(95.0, abs=1e-6)
        for _ in range(STUCK - 1):
            assert energy_j(meter) == pytest.approx(95.0, abs=1e-6)
        for _ in range(3):
            with pytest.raises(HostError, match=r"energy_uj did not advance over 10 readings"):
                meter.read()
        hold_at(root, 3.0)
        assert energy_j(meter) == pytest.approx(190.0, abs=1e-6)


def test_a_counter_that_leaves_its_range_is_refused() -> None:
    counted = Counter(((0.0, 95e6),), jumps=((2.0, 10**9),))
    tree = powercap("intel-rapl:0", "package-0", counted)
    tree["sys/class/powercap/intel-rapl:0/max_energy_range_uj"] = Constant("1000000000")
    with mounted(tree) as root:
        meter = _core.PowerMeter(PACKAGE, str(root))
        assert meter.read() is None
        hold_at(root, 2.0)
        with pytest.raises(HostError, match="beyond its range of 1000000000"):
            meter.read()


def test_parts_that_drew_more_than_their_whole_are_refused() -> None:
    core = Counter(((0.0, 120e6),), range=10**12)
    tree = package(95.0) | powercap("intel-rapl:0:0", "core", core)
    with mounted(tree) as root:
        meter = _core.PowerMeter(PACKAGE, str(root))
        assert meter.read() is None
        hold_at(root, 1.0)
        with pytest.raises(HostError, match=r"95\.0 J and its parts 120\.0 J"):
            meter.read()


def test_a_sensor_shows_what_it_shows() -> None:
    with mounted(sensor((0.0, 230.0), (5.0, 180.5))) as root:
        meter = _core.PowerMeter(SENSOR, str(root))
        assert meter.read() == (230.0, 0.0)
        hold_at(root, 5.0)
        reading = meter.read()
        assert reading is not None
        assert reading[0] == 180.5


# What sensors say that do not know: all bits of a 32-bit number of milliwatts, and none.
@pytest.mark.parametrize("absurd_uw", ["4294967295000", "-1", "18446744073709551615"])
def test_a_sensor_that_cannot_be_right_is_refused(absurd_uw: str) -> None:
    with mounted(hwmon(Constant(absurd_uw))) as root:
        (found,) = _core.power_meters(str(root))
        assert found["trouble"]
        assert absurd_uw in found["trouble"]
        with pytest.raises(HostError, match=absurd_uw):
            _core.PowerMeter(SENSOR, str(root))


def test_a_sensor_that_turns_absurd_is_refused_while_it_is() -> None:
    steps = ((0.0, 230.0), (1.0, 4_294_967.295), (2.0, 210.0))
    with mounted(sensor(*steps)) as root:
        meter = _core.PowerMeter(SENSOR, str(root))
        assert meter.read() == (230.0, 0.0)
        hold_at(root, 1.0)
        with pytest.raises(HostError, match="4294967295000"):
            meter.read()
        hold_at(root, 2.0)
        reading = meter.read()
        assert reading is not None
        assert reading[0] == 210.0


def test_all_packages_and_their_memory_are_one_meter() -> None:
    tree = package(95.0)
    tree |= powercap("intel-rapl:0:0", "dram", Counter(((0.0, 12e6),), range=10**10))
    tree |= powercap("intel-rapl:1", "package-1", Counter(((0.0, 80e6),), range=10**10))
    with mounted(tree) as root:
        meter = _core.PowerMeter("rapl:sum", str(root))
        assert meter.read() is None
        hold_at(root, 10.0)
        assert energy_j(meter) == pytest.approx(1870.0, abs=1e-6)


def test_a_zone_without_a_counter_has_trouble() -> None:
    with mounted({"sys/class/powercap/intel-rapl:0/name": Constant("package-0")}) as root:
        (found, whole) = _core.power_meters(str(root))
        assert (
            found["trouble"]
            == whole["trouble"]
            == ("/sys/class/powercap/intel-rapl:0/energy_uj: No such file or directory")
        )
