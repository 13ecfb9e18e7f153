"""Redfish meters read a server over HTTPS: logins, certificates, and what it does wrong."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from wattio.errors import InputError
from wattio.meters import Meter, MeterLost, MeterRefused, open_meter
from wattio.meters.redfish import find

from meters.redfish_server import (
    METRICS,
    PASSWORD,
    POWER,
    SENSOR,
    Served,
    chassis,
    collection,
    served_redfish,
)

# 2026-11-20T19:14:05Z
STAMP_S = 1795202045.0


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with served_redfish(tmp_path) as server:
        yield server


class Opened:
    """Opens meters, and closes them at the end."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack

    def __call__(self, name: str) -> Meter:
        meter = open_meter(name)
        self._stack.callback(meter.close)
        return meter


@pytest.fixture
def opened(served: Served) -> Iterator[Opened]:
    with ExitStack() as stack:
        yield Opened(stack)


def lost(meter: Meter) -> str:
    with pytest.raises(MeterLost) as raised:
        meter.read()
    return str(raised.value)


def test_the_sensor_behind_the_metrics_is_read(served: Served, opened: Opened) -> None:
    meter = opened(served.name())
    facts = meter.facts
    assert (facts.period_s, facts.lag_s, facts.accuracy_class) == (3.0, 1.5, "+- 1.5 %")
    reading = meter.read()
    assert (reading.power_w, reading.mark) == (375.25, STAMP_S)
    assert PASSWORD not in repr(facts)
    assert find() == []


def test_metrics_are_read_where_there_is_no_sensor(served: Served, opened: Opened) -> None:
    del served.resources[SENSOR]
    meter = opened(served.name("Chassis/1"))
    assert (meter.facts.period_s, meter.facts.accuracy_class) == (1.0, "unknown")
    reading = meter.read()
    assert (reading.power_w, reading.mark) == (374.5, None)


def test_power_is_read_where_there_are_no_metrics(served: Served, opened: Opened) -> None:
    del served.resources[METRICS]
    meter = opened(served.name(query="&period=2 s&lag=4 s&accuracy=class B"))
    facts = meter.facts
    assert (facts.period_s, facts.lag_s, facts.accuracy_class) == (2.0, 4.0, "class B")
    assert meter.read().power_w == 370.0


def test_one_of_several_chassis_must_be_named(served: Served, opened: Opened) -> None:
    power = "/redfish/v1/Chassis/2/Power"
    served.resources["/redfish/v1/Chassis"] = collection("1", "2")
    served.resources["/redfish/v1/Chassis/2"] = chassis("2", "Power")
    served.resources[power] = {"PowerControl": [{"PowerConsumedWatts": 20.5}]}
    with pytest.raises(MeterRefused, match="name one of Chassis/1, Chassis/2"):
        opened(served.name())
    assert opened(served.name("Chassis/2")).read().power_w == 20.5


@pytest.mark.parametrize(
    ("path", "message"),
    [("Chassis/9", "no such resource: .*Chassis/9"), ("Chassis/Fans", "Fans reports no power")],
)
def test_a_chassis_without_power_is_refused(
    served: Served, opened: Opened, path: str, message: str
) -> None:
    with pytest.raises(MeterRefused, match=message):
        opened(served.name(path))


def test_sessions_are_ended_and_expired_ones_begun_anew(served: Served, opened: Opened) -> None:
    meter = opened(served.name())
    assert served.logins == 1
    served.tokens.clear()
    assert meter.read().power_w == 375.25
    assert (served.logins, len(served.tokens)) == (2, 1)
    meter.close()
    meter.close()
    assert served.tokens == set()
    assert "closed" in lost(meter)


def test_a_server_without_sessions_gets_basic_authentication(
    served: Served, opened: Opened
) -> None:
    served.has_sessions = False
    assert opened(served.name()).read().power_w == 375.25
    with pytest.raises(MeterRefused, match="wrong user or password"):
        opened(served.name(password="wrong"))


def test_a_wrong_password_is_refused_and_not_shown(served: Served, opened: Opened) -> None:
    with pytest.raises(MeterRefused, match="wrong user or password"):
        opened(served.name(password="wrong"))
    name = f"redfish://wattio:hidden@localhost:{served.port}/?ca={served.ca}"
    with pytest.raises(MeterRefused) as raised:
        opened(name)
    assert "hidden" not in str(raised.value)


def test_a_password_that_was_changed_in_the_middle_is_refused(
    served: Served, opened: Opened
) -> None:
    meter = opened(served.name())
    served.tokens.clear()
    served.login_status = 401
    with pytest.raises(MeterRefused, match="wrong user or password"):
        meter.read()


def test_no_free_session_is_tried_again(served: Served, opened: Opened) -> None:
    served.login_status = 503
    with pytest.raises(MeterLost, match="no session now"):
        opened(served.name())


def test_a_certificate_that_is_not_trusted_is_refused(served: Served, opened: Opened) -> None:
    with pytest.raises(MeterRefused, match=f"not trusted.*sha256:{served.fingerprint}"):
        opened(served.name(trust=""))
    assert served.logins == 0


def test_a_certificate_for_another_host_is_refused(served: Served, opened: Opened) -> None:
    with pytest.raises(MeterRefused, match="not trusted"):
        opened(served.name().replace("localhost", "127.0.0.1"))


def test_a_certificate_can_be_named_by_its_fingerprint(served: Served, opened: Opened) -> None:
    pairs = ":".join(re.findall("..", served.fingerprint.upper()))
    for trust in (f"&fingerprint=sha256:{served.fingerprint}", f"&fingerprint={pairs}"):
        assert opened(served.name(trust=trust)).read().power_w == 375.25
    with pytest.raises(MeterRefused, match=f"a different fingerprint: {served.fingerprint}"):
        opened(served.name(trust=f"&fingerprint=sha256:{'00' * 32}"))
    assert served.logins == 2


def test_no_check_at_all_must_be_spelled_out(served: Served, opened: Opened) -> None:
    assert opened(served.name(trust="&insecure=yes")).read().power_w == 375.25


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        (200, b"<html>", "not a JSON object"),
        (200, b"[1]", "not a JSON object"),
        (200, b"[" * 100_000, "not a JSON object"),
        (200, b"{}", "reports no power now"),
        (200, b'{"Reading": null}', "reports no power now"),
        (200, b'{"Reading": NaN}', "allowed: 0 to 10000000 W"),
        (200, b'{"Reading": -1}', "allowed: 0 to 10000000 W"),
        (200, b'{"Reading": 4294967295000}', "allowed: 0 to 10000000 W"),
        (200, b'{"Reading": "375"}', "reports no power now"),
        (200, b"x" * (2**22 + 1), "too long"),
        (500, b"", "HTTP 500"),
        (429, b"", "HTTP 429"),
    ],
)
def test_answers_that_make_no_sense_are_lost(
    served: Served, opened: Opened, status: int, body: bytes, message: str
) -> None:
    meter = opened(served.name())
    served.status, served.body = status, body
    assert message in lost(meter)
    served.status = served.body = None
    assert meter.read().power_w == 375.25


@pytest.mark.parametrize(("status", "message"), [(404, "no longer exists"), (302, "HTTP 302")])
def test_a_resource_that_went_is_refused(
    served: Served, opened: Opened, status: int, message: str
) -> None:
    meter = opened(served.name())
    served.status = status
    with pytest.raises(MeterRefused, match=message):
        meter.read()


def test_a_frozen_sensor_s_mark_stands_still(served: Served, opened: Opened) -> None:
    meter = opened(served.name())
    assert {meter.read().mark for _ in range(3)} == {STAMP_S}
    served.resources[SENSOR] |= {"ReadingTime": "2026-11-20T20:14:08+01:00"}
    assert meter.read().mark == STAMP_S + 3


def test_a_slow_answer_is_lost(served: Served, opened: Opened) -> None:
    meter = opened(served.name(query="&timeout=200 ms"))
    served.hangs.set()
    assert "did not answer within 0.2 s" in lost(meter)
    served.hangs.clear()
    assert meter.read().power_w == 375.25


def test_an_unplugged_server_is_lost(tmp_path: Path) -> None:
    with served_redfish(tmp_path) as served:
        meter = open_meter(served.name(query="&timeout=200 ms"))
        served.hangs.set()
        lost(meter)
    assert f"localhost:{served.port}" in lost(meter)
    meter.close()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("redfish:/Chassis/1", "no host given"),
        ("redfish://bmc/", "no user given"),
        ("redfish://a@bmc/", "no password given"),
        ("redfish://a:b@bmc/Systems/1", "write it as Chassis/ID"),
        ("redfish://a:b@bmc/Chassis/1/Power", "write it as Chassis/ID"),
        ("redfish://a:b@bmc/?insecure=no", "insecure"),
        ("redfish://a:b@bmc/?insecure=yes&ca=/x", "give only one of them"),
        ("redfish://a:b@bmc/?ca=/nowhere.pem", "ca: /nowhere.pem: No such file"),
        ("redfish://a:b@bmc/?ca=/dev/null", "holds no certificate"),
        ("redfish://a:b@bmc/?fingerprint=sha256:12", "64 hexadecimal digits"),
        ("redfish://a:b@bmc/?timeout=never", "timeout"),
        ("redfish://a:b@bmc/?verify=no", 'unknown key "verify"'),
    ],
)
def test_what_is_wrong_with_a_name_is_said(name: str, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        open_meter(name)


def test_the_older_resource_is_not_asked_where_there_is_a_sensor(
    served: Served, opened: Opened
) -> None:
    opened(served.name()).read()
    assert POWER not in served.asked
