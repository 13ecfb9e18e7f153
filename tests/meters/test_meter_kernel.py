"""RAPL and hwmon through their meters, on made-up trees; time goes on as the machine's does."""

from __future__ import annotations

from pathlib import Path

import pytest
from wattio.errors import InputError
from wattio.meters import MeterLost, hwmon, open_meter, rapl
from wattio.meters.kernel import found
from wattio.meters.meter import MeterAbsent

ZONE = "sys/class/powercap/intel-rapl:0"
CHIP = "sys/class/hwmon/hwmon0"


def say(root: Path, path: str, text: object) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(f"{text}\n")


@pytest.fixture
def zones(tmp_path: Path) -> Path:
    for path, name, energy_uj in (
        (ZONE, "package-0", 900_000),
        (f"{ZONE}/../intel-rapl:0:0", "core", 1),
        (f"{ZONE}/../intel-rapl:0:1", "dram", 5),
        (f"{ZONE}/../intel-rapl:1", "package-1", 7),
    ):
        (tmp_path / path).mkdir(parents=True)
        say(tmp_path, f"{path}/name", name)
        say(tmp_path, f"{path}/max_energy_range_uj", 1_000_000)
        say(tmp_path, f"{path}/energy_uj", energy_uj)
    return tmp_path


def test_a_zone_counts_energy_over_its_wrap(zones: Path) -> None:
    meter = open_meter(f"rapl:package-0?root={zones}")
    assert meter.facts.counts_energy
    assert meter.facts.what == "processor package"
    first = meter.read()
    assert (first.power_w, first.energy_j, first.mark) == (None, 0.0, 0.0)
    say(zones, f"{ZONE}/energy_uj", 400_000)
    second = meter.read()
    assert second.energy_j == pytest.approx(0.5)
    assert second.mark == second.energy_j
    assert second.power_w is not None
    assert second.power_w > 0


def test_a_meter_is_told_by_the_name_that_it_was_given(tmp_path: Path) -> None:
    """`rapl:` was quoted back as rapl:sum, which nobody had written."""
    with pytest.raises(MeterAbsent, match=rf"^rapl:\?root={tmp_path}: no such meter; this host"):
        open_meter(f"rapl:?root={tmp_path}")


def test_no_zone_named_is_packages_and_memory_once(zones: Path) -> None:
    meter = rapl.open_meter(f"rapl:?root={zones}")
    meter.read()
    say(zones, f"{ZONE}/energy_uj", 950_000)
    say(zones, f"{ZONE}:0/energy_uj", 40_001)
    say(zones, f"{ZONE}:1/energy_uj", 20_005)
    say(zones, "sys/class/powercap/intel-rapl:1/energy_uj", 10_007)
    assert meter.read().energy_j == pytest.approx(0.050 + 0.020 + 0.010)


def test_zones_are_found(zones: Path) -> None:
    names = [meter.name for meter in found("rapl", zones)]
    assert names == [
        "rapl:package-0",
        "rapl:package-0/core",
        "rapl:package-0/dram",
        "rapl:package-1",
        "rapl:sum",
    ]
    assert found("hwmon", zones) == []
    assert all(meter.name.startswith("rapl:") for meter in rapl.find())
    assert all(meter.name.startswith("hwmon:") for meter in hwmon.find())


def test_a_counter_that_stands_still_is_lost(zones: Path) -> None:
    meter = rapl.open_meter(f"rapl:package-0?root={zones}")

    def read_on() -> None:
        for _ in range(20):
            meter.read()

    with pytest.raises(MeterLost, match="did not advance"):
        read_on()


def test_an_unplugged_zone_is_lost_and_comes_back(zones: Path) -> None:
    meter = rapl.open_meter(f"rapl:package-0?root={zones}")
    meter.read()
    (zones / ZONE / "energy_uj").unlink()
    with pytest.raises(MeterLost, match="energy_uj"):
        meter.read()
    say(zones, f"{ZONE}/energy_uj", 910_000)
    assert meter.read().energy_j == pytest.approx(0.01)


@pytest.mark.parametrize("name", ["rapl:package-9", "hwmon:acpi/power1", "rapl:", "hwmon:"])
def test_what_is_not_there_is_refused(tmp_path: Path, name: str) -> None:
    # It may come: a recording that had it does not give it up.
    with pytest.raises(MeterAbsent, match="no such meter"):
        open_meter(f"{name}?root={tmp_path}")


def test_an_unknown_key_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match='unknown key "rot"'):
        open_meter(f"rapl:?rot={tmp_path}")


def test_a_sensor_says_its_power_and_what_is_known_of_it(tmp_path: Path) -> None:
    say(tmp_path, f"{CHIP}/name", "power_meter")
    say(tmp_path, f"{CHIP}/power1_average", 61_500_000)
    say(tmp_path, f"{CHIP}/power1_average_interval", 4000)
    say(tmp_path, f"{CHIP}/power1_accuracy", "90.0%")
    meter = open_meter(f"hwmon:power_meter/power1?root={tmp_path}")
    facts = meter.facts
    assert (facts.period_s, facts.lag_s, facts.accuracy_class) == (4.0, 2.0, "90.0%")
    assert not facts.counts_energy
    reading = meter.read()
    assert (reading.power_w, reading.energy_j, reading.mark) == (61.5, None, None)
    meter.close()
    meter.close()
    with pytest.raises(MeterLost, match="closed"):
        meter.read()


@pytest.mark.parametrize("said", ["", "-4", "1e3", "٣", "9" * 30, "x"])
def test_an_interval_that_makes_no_sense_is_not_believed(tmp_path: Path, said: str) -> None:
    say(tmp_path, f"{CHIP}/name", "power_meter")
    say(tmp_path, f"{CHIP}/power1_average", 61_500_000)
    say(tmp_path, f"{CHIP}/power1_average_interval", said)
    facts = open_meter(f"hwmon:power_meter/power1?root={tmp_path}").facts
    assert 0 < facts.period_s <= 3600


def test_the_largest_number_of_32_bits_is_not_believed(tmp_path: Path) -> None:
    say(tmp_path, f"{CHIP}/name", "acpi")
    say(tmp_path, f"{CHIP}/power1_input", 4_000_000)
    meter = open_meter(f"hwmon:acpi/power1?root={tmp_path}")
    assert meter.read().power_w == 4.0
    for absurd_uw in (4_294_967_295_000, 200_000_000_000):
        say(tmp_path, f"{CHIP}/power1_input", absurd_uw)
        with pytest.raises(MeterLost, match=r"not a power|allowed: 0 to"):
            meter.read()
    say(tmp_path, f"{CHIP}/power1_input", 5_000_000)
    assert meter.read().power_w == 5.0
