"""IPMI meters read a simulated BMC over the network, through the real ipmitool."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from wattio.meters import Meter, MeterLost, MeterRefused, open_meter

from meters.bmc import Bmc, missing, served_bmc
from meters.pdu import wait_until

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(missing() is not None, reason=missing() or ""),
]


@pytest.fixture
def bmc(tmp_path: Path) -> Iterator[Bmc]:
    with served_bmc(tmp_path, watts=137) as served:
        wait_until(lambda: answers(served))
        yield served


def answers(bmc: Bmc) -> bool:
    try:
        open_meter(bmc.name()).close()
    except MeterLost:
        return False
    return True


def test_power_and_time_stamp_are_read(bmc: Bmc) -> None:
    meter = open_meter(bmc.name())
    assert (meter.facts.period_s, meter.facts.lag_s) == (1.0, 0.5)
    assert bmc.password not in repr(meter.facts)
    reading = meter.read()
    assert reading.power_w == 137.0
    assert reading.mark is not None
    bmc.say(200)
    wait_until(lambda: meter.read().mark != reading.mark)
    assert meter.read().power_w == 200.0


def test_a_frozen_controller_s_mark_stands_still(bmc: Bmc) -> None:
    bmc.say(137, stamp=1_800_000_000)
    meter = open_meter(bmc.name())
    assert {meter.read().mark for _ in range(3)} == {1_800_000_000.0}


@pytest.mark.parametrize(
    ("user", "password", "query", "message"),
    [
        (None, "wrong", "", "wrong password"),
        ("nobody", None, "", "unknown user"),
        (None, None, "cipher=17", "cipher suite"),
    ],
)
def test_a_no_is_said(
    bmc: Bmc, user: str | None, password: str | None, query: str, message: str
) -> None:
    with pytest.raises(MeterRefused, match=message):
        open_meter(bmc.name(user, password, query))


def lost(meter: Meter) -> str:
    with pytest.raises(MeterLost) as raised:
        meter.read()
    return str(raised.value)


def test_a_reading_that_is_not_activated_is_refused(bmc: Bmc) -> None:
    bmc.say(0, measuring=False)
    with pytest.raises(MeterRefused, match="not activated"):
        open_meter(bmc.name())


def test_absurd_and_absent_readings_are_lost(bmc: Bmc) -> None:
    meter = open_meter(bmc.name())
    bmc.say(65535)
    assert "means no reading" in lost(meter)
    bmc.know_nothing()
    assert "could not be provided" in lost(meter)
    bmc.say(90)
    assert meter.read().power_w == 90.0


def test_an_unplugged_controller_is_lost_and_comes_back(bmc: Bmc) -> None:
    meter = open_meter(bmc.name())
    bmc.unplug()
    assert "did not answer" in lost(meter)
    bmc.plug_in()
    wait_until(lambda: answers(bmc))
    assert meter.read().power_w == 137.0


def test_a_controller_that_hangs_is_lost_and_comes_back(bmc: Bmc) -> None:
    meter = open_meter(bmc.name(query="timeout=300 ms"))
    bmc.hang(True)
    assert "did not answer within 0.3 s" in lost(meter)
    bmc.hang(False)
    wait_until(lambda: answers(bmc))
    assert meter.read().power_w == 137.0
