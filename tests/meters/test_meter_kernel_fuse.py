"""RAPL and hwmon meters on a tree whose counters advance by a known power, wrap and get stuck."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fuse.mount import hold_at, missing, mounted
from fuse.nodes import Constant, Counter, Steps
from wattio.meters import MeterLost, open_meter

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(missing() is not None, reason=missing() or ""),
]

ZONES = "sys/class/powercap"
SENSOR = "sys/class/hwmon/hwmon3"
RANGE_UJ = 262_143_328_850
# 90 mW, and from 100 s on nothing more: the tree's time leaps, and so would greater powers.
PACKAGE = Counter(((0.0, 90e3), (100.0, 0.0)), start=RANGE_UJ - 1_000_000, range=RANGE_UJ)
MEMORY = Counter(((0.0, 10e3),), range=RANGE_UJ)


@pytest.fixture(scope="module")
def root() -> Iterator[Path]:
    tree = {
        f"{ZONES}/intel-rapl:0/name": Constant("package-0"),
        f"{ZONES}/intel-rapl:0/energy_uj": PACKAGE,
        f"{ZONES}/intel-rapl:0/max_energy_range_uj": Constant(str(RANGE_UJ)),
        f"{ZONES}/intel-rapl:0:0/name": Constant("dram"),
        f"{ZONES}/intel-rapl:0:0/energy_uj": MEMORY,
        f"{ZONES}/intel-rapl:0:0/max_energy_range_uj": Constant(str(RANGE_UJ)),
        f"{SENSOR}/name": Constant("power_meter"),
        f"{SENSOR}/power1_average": Steps(
            ((0.0, "61500000"), (10.0, "4294967295000"), (20.0, "62000000"))
        ),
    }
    with mounted(tree) as folder:
        yield folder


def test_energy_is_counted_over_the_wrap(root: Path) -> None:
    hold_at(root, 0.0)
    meter, total = (open_meter(f"{name}?root={root}") for name in ("rapl:package-0", "rapl:"))
    assert (meter.read().energy_j, total.read().energy_j) == (0.0, 0.0)
    # The package's counter wraps after 1 J, which is 11 s.
    for at_s in (5.0, 12.0, 40.0):
        hold_at(root, at_s)
        reading = meter.read()
        assert reading.energy_j == pytest.approx(0.090 * at_s, abs=1e-5)
        assert reading.mark == reading.energy_j
        assert total.read().energy_j == pytest.approx(0.100 * at_s, abs=1e-5)


def test_a_counter_that_gets_stuck_is_lost(root: Path) -> None:
    hold_at(root, 90.0)
    meter = open_meter(f"rapl:package-0?root={root}")
    meter.read()
    hold_at(root, 110.0)
    assert meter.read().energy_j == pytest.approx(0.900, abs=1e-5)

    def read_on() -> None:
        for at_s in range(111, 130):
            hold_at(root, float(at_s))
            meter.read()

    with pytest.raises(MeterLost, match="did not advance"):
        read_on()


def test_a_sensor_without_a_reading_is_lost_and_comes_back(root: Path) -> None:
    hold_at(root, 0.0)
    meter = open_meter(f"hwmon:power_meter/power1?root={root}")
    assert meter.read().power_w == 61.5
    hold_at(root, 10.0)
    with pytest.raises(MeterLost, match="not a power"):
        meter.read()
    hold_at(root, 20.0)
    assert meter.read().power_w == 62.0
