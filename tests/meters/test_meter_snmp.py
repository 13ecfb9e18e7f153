"""SNMP meters read a PDU that Debian's snmpd serves: what it draws, and what it does wrong."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path

import pytest
from wattio.errors import InputError
from wattio.meters import Meter, MeterLost, MeterRefused, Reading, open_meter

from meters.pdu import OWN, Load, Pdu, missing, served_pdu, steps, wait_until

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(missing() is not None, reason=missing() or ""),
]

RISING = Load(((0.0, 100.0), (100.0, 600.0)))
QUICK = "400 ms"

Open = Callable[[str], Meter]


@pytest.fixture
def pdu(tmp_path: Path) -> Iterator[Pdu]:
    with served_pdu(tmp_path, [RISING, steps((0.0, 40.4))]) as served:
        yield served


@pytest.fixture
def opened() -> Iterator[Open]:
    """Opens meters by name, and closes them after the test."""
    with ExitStack() as stack:

        def one(name: str) -> Meter:
            meter = open_meter(name)
            stack.callback(meter.close)
            return meter

        yield one


def read_for(meter: Meter, seconds: float) -> list[Reading]:
    """Readings, one right after the other, over at least so long."""
    readings = [meter.read()]
    while readings[-1].monotonic_ns - readings[0].monotonic_ns < seconds * 1e9:
        readings.append(meter.read())
    return readings


def bracketed(meter: Meter) -> tuple[Reading, tuple[int, int]]:
    """A reading, and the monotonic ns between which its value was taken."""
    start_ns = time.monotonic_ns()
    reading = meter.read()
    return reading, (start_ns, time.monotonic_ns())


def reads(meter: Meter) -> bool:
    try:
        return meter.read().power_w is not None
    except MeterLost:
        return False


def lost(meter: Meter) -> str:
    with pytest.raises(MeterLost) as raised:
        meter.read()
    return str(raised.value)


@pytest.mark.parametrize(
    ("profile", "outlet", "step_w"),
    [
        ("apc-rpdu2", None, 10.0),
        ("apc-rpdu2", 1, 1.0),
        ("eaton-epdu", None, 1.0),
        ("eaton-epdu", 2, 1.0),
        ("raritan-px2", None, 0.1),
        ("raritan-px2", 1, 0.1),
    ],
)
def test_profiles_read_power(
    pdu: Pdu, profile: str, outlet: int | None, step_w: float, opened: Open
) -> None:
    meter = opened(pdu.name(profile, outlet))
    assert meter.facts.resolution_w == pytest.approx(step_w)
    start_ns = time.monotonic_ns()
    reading = meter.read()
    end_ns = time.monotonic_ns()
    assert start_ns <= reading.monotonic_ns <= end_ns
    assert reading.power_w is not None
    # Power only rises here.
    assert reading.power_w >= pdu.power_w(start_ns, outlet or 0) - step_w / 2 - 1e-6
    assert reading.power_w <= pdu.power_w(end_ns, outlet or 0) + step_w / 2 + 1e-6
    meter.close()
    meter.close()
    assert "closed" in lost(meter)


@pytest.mark.parametrize("version", ["1", "2c"])
def test_energy_from_power_is_that_of_the_known_function(
    pdu: Pdu, version: str, opened: Open
) -> None:
    meter = opened(pdu.name(OWN["power_mw"], unit="mW", version=version))
    readings = read_for(meter, 1.0)
    energy_j = sum(
        ((a.power_w or 0) + (b.power_w or 0)) / 2 * (b.monotonic_ns - a.monotonic_ns) / 1e9
        for a, b in pairwise(readings)
    )
    true_j = pdu.energy_j(readings[0].monotonic_ns, readings[-1].monotonic_ns)
    assert energy_j == pytest.approx(true_j, rel=0.01)


@pytest.mark.parametrize(("key", "unit"), [("energy_mj", "mJ"), ("energy_j", "J")])
def test_a_counter_of_energy_is_read_over_its_wrap(
    tmp_path: Path, key: str, unit: str, opened: Open
) -> None:
    # The counter of mJ wraps after 10 J, which is 20 ms away.
    with served_pdu(tmp_path, steps((0.0, 500.0)), 2**32 / 1e3 - 10) as pdu:
        meter = opened(pdu.name(OWN[key], unit=unit))
        assert meter.facts.counts_energy
        first, first_between_ns = bracketed(meter)
        assert (first.power_w, first.energy_j) == (None, 0.0)
        read_for(meter, 1.0)
        last, last_between_ns = bracketed(meter)
        assert last.energy_j is not None
        # The agent counts at some moment between question and answer, which may be far apart on a
        # busy machine; its counts are of whole joules at most.
        least_j = pdu.energy_j(first_between_ns[1], last_between_ns[0]) - 1
        most_j = pdu.energy_j(first_between_ns[0], last_between_ns[1]) + 1
        assert least_j <= last.energy_j <= most_j
        assert last.mark == last.energy_j


def test_a_coarse_counter_has_no_mark(pdu: Pdu, opened: Open) -> None:
    meter = opened(pdu.name("apc-rpdu2", 1, quantity="energy"))
    assert meter.facts.resolution_w == 360e3
    assert meter.read().mark is None


def test_text_is_read_as_a_number(pdu: Pdu, opened: Open) -> None:
    meter = opened(pdu.name(OWN["power_text"], unit="W"))
    assert meter.facts.resolution_w is None
    power_w = meter.read().power_w
    assert power_w is not None
    assert 140.4 <= power_w <= pdu.power_w(time.monotonic_ns())
    with pytest.raises(MeterLost, match='reports "no number", not a number'):
        open_meter(pdu.name(OWN["words"], unit="W"))


def test_a_frozen_meter_s_mark_stands_still(pdu: Pdu, opened: Open) -> None:
    meter = opened(pdu.name(OWN["power_mw"], unit="mW", mark=OWN["clock_ms"]))
    before = meter.read()
    wait_until(lambda: meter.read().mark != before.mark)
    pdu.freeze()
    frozen = {(reading.power_w, reading.mark) for reading in read_for(meter, 0.1)}
    assert len(frozen) == 1
    pdu.recover()
    assert meter.read().mark not in {mark for _, mark in frozen}


def test_a_raritan_s_mark_is_its_time_stamp(pdu: Pdu, opened: Open) -> None:
    meter = opened(pdu.name("raritan-px2", 1))
    before = meter.read().mark
    assert before is not None
    wait_until(lambda: meter.read().mark != before)


@pytest.mark.parametrize(
    ("condition", "message"),
    [("absurd", "means no reading"), ("negative", "reports -1 W; allowed: 0 to")],
)
def test_absurd_values_are_lost(pdu: Pdu, condition: str, message: str, opened: Open) -> None:
    meters = [opened(pdu.name(*place)) for place in (("eaton-epdu", 1), ("apc-rpdu2", 2))]
    pdu.control(condition)
    assert all(message in lost(meter) for meter in meters)
    pdu.recover()
    assert all(meter.read().power_w for meter in meters)


def test_an_object_that_is_not_there_is_refused(pdu: Pdu, opened: Open) -> None:
    for version in ("1", "2c"):
        with pytest.raises(MeterRefused, match="object"):
            open_meter(pdu.name("eaton-epdu", 9, version=version))
    meter = opened(pdu.name("eaton-epdu", 1))
    pdu.control("vanished")
    with pytest.raises(MeterRefused, match="no such object"):
        meter.read()


def test_an_unplugged_pdu_is_lost_and_comes_back(pdu: Pdu, opened: Open) -> None:
    meter = opened(pdu.name("eaton-epdu", 1, timeout=QUICK))
    pdu.unplug()
    assert "did not answer within 0.8 s" in lost(meter)
    pdu.plug_in()
    wait_until(lambda: reads(meter))


def test_a_slow_answer_is_lost_and_not_taken_for_a_later_one(pdu: Pdu, opened: Open) -> None:
    meter = opened(pdu.name("eaton-epdu", 1, timeout=QUICK))
    pdu.control("slow 2")
    assert "did not answer" in lost(meter)
    pdu.recover()

    wait_until(lambda: reads(meter))
    start_ns = time.monotonic_ns()
    power_w = meter.read().power_w
    assert power_w is not None
    assert power_w >= pdu.power_w(start_ns, 1) - 0.5 - 1e-6


def test_a_wrong_community_is_silence(pdu: Pdu) -> None:
    name = pdu.name("eaton-epdu", 1, timeout=QUICK).replace("public@", "hidden@")
    with pytest.raises(MeterLost, match="or the community is wrong") as raised:
        open_meter(name)
    assert "hidden" not in str(raised.value)


def test_a_host_that_is_not_known_is_lost() -> None:
    """`<class 'socket.gaierror'>` stood in the message."""
    with pytest.raises(MeterLost, match=r"nowhere\.invalid cannot be queried: ") as raised:
        open_meter("snmp://public@nowhere.invalid/eaton-epdu")
    assert "class" not in str(raised.value)
    assert "Errno" not in str(raised.value)


def versioned(pdu: Pdu, folder: Path, password: str, user: str | None = None) -> str:
    """The name of a meter by version 3, with its credentials in a file."""
    path = folder / "credentials.toml"
    path.touch(mode=0o600)
    path.write_text(
        f'user = "{user or pdu.user}"\npassword = "{password}"\n'
        f'privacy_password = "{pdu.privacy_password}"\n'
    )
    name = f"snmp://127.0.0.1:{pdu.port}/eaton-epdu?outlet=2&version=3"
    return f"{name}&auth=sha256&privacy=aes&credentials={path}"


def test_version_3_is_asked_by_user_and_encrypted(pdu: Pdu, tmp_path: Path, opened: Open) -> None:
    meter = opened(versioned(pdu, tmp_path, pdu.password))
    assert meter.read().power_w == 40.0


def test_version_3_goes_on_after_the_agent_was_started_anew(
    pdu: Pdu, opened: Open, tmp_path: Path
) -> None:
    meter = opened(versioned(pdu, tmp_path, pdu.password))
    pdu.unplug()
    assert "did not answer" in lost(meter)
    pdu.plug_in()
    wait_until(lambda: reads(meter))


def test_a_meter_can_be_closed_while_another_thread_reads(pdu: Pdu) -> None:
    meter = open_meter(pdu.name("eaton-epdu", 1, timeout=QUICK))
    pdu.control("slow 2")
    outcomes: list[str] = []
    reader = threading.Thread(target=lambda: outcomes.append(lost(meter)))
    reader.start()
    meter.close()
    reader.join()
    # Closed before or after the question was sent, by whichever thread came first.
    assert any(words in outcomes[0] for words in ("closed", "did not answer"))
    assert "closed" in lost(meter)


def test_objects_that_are_no_numbers_are_refused(pdu: Pdu) -> None:
    with pytest.raises(MeterRefused, match="ObjectIdentifier, not a number"):
        open_meter(pdu.name("1.3.6.1.2.1.1.2.0", unit="W"))


def test_a_wrong_password_or_user_is_refused(pdu: Pdu, tmp_path: Path) -> None:
    for name in (
        versioned(pdu, tmp_path, "a wrong password"),
        versioned(pdu, tmp_path, pdu.password, user="nobody"),
    ):
        with pytest.raises(MeterRefused, match=" refused: "):
            open_meter(name)


def test_version_3_without_encryption_is_refused_where_it_is_needed(
    pdu: Pdu, tmp_path: Path
) -> None:
    with pytest.raises(MeterRefused):
        open_meter(versioned(pdu, tmp_path, pdu.password).replace("&privacy=aes", ""))


def test_a_port_that_is_none_is_said() -> None:
    with pytest.raises(InputError, match="its port"):
        open_meter("snmp://public@pdu:0x1/eaton-epdu")
