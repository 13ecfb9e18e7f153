"""Names of SNMP meters, profiles and credentials; nothing is asked."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wattio.errors import InputError
from wattio.meters import MeterLost, open_meter
from wattio.meters.credentials import credentials_of
from wattio.meters.name import parse
from wattio.meters.snmp import FORM, find
from wattio.meters.snmp_client import number_of
from wattio.meters.snmp_profile import ENERGY_J, POWER_W, profiles, target_of

HOST = "snmp://public@pdu"


def test_an_object_says_its_unit_and_scale() -> None:
    target = target_of(parse(f"{HOST}/.1.3.6.1.4.1.1.2?unit=dW&scale=10&mark=1.3.6.1"))
    assert (target.oid, target.unit, target.mark) == ("1.3.6.1.4.1.1.2", "W", "1.3.6.1")
    assert target.per_count == pytest.approx(1.0)
    energy = target_of(parse(f"{HOST}/1.3.6.1.4.1.1.2?unit=kWh&scale=0.1"))
    assert energy.unit == "J"
    assert energy.per_count == pytest.approx(360e3)


@pytest.mark.parametrize(
    ("path", "oid", "per_count"),
    [
        ("apc-rpdu2", "1.3.6.1.4.1.318.1.1.26.4.3.1.5.1", 10.0),
        ("apc-rpdu2?device=2", "1.3.6.1.4.1.318.1.1.26.4.3.1.5.2", 10.0),
        ("apc-rpdu2?outlet=3", "1.3.6.1.4.1.318.1.1.26.9.4.3.1.7.3", 1.0),
        ("apc-rpdu2?quantity=energy", "1.3.6.1.4.1.318.1.1.26.4.3.1.9.1", 360e3),
        ("eaton-epdu", "1.3.6.1.4.1.534.6.6.7.3.5.1.4.0.1", 1.0),
        ("eaton-epdu?outlet=7&device=1", "1.3.6.1.4.1.534.6.6.7.6.5.1.3.1.7", 1.0),
        ("raritan-px2?outlet=4", "1.3.6.1.4.1.13742.6.5.4.3.1.4.1.4.5", 1.0),
        ("raritan-px2?quantity=energy", "1.3.6.1.4.1.13742.6.5.2.3.1.4.1.1.8", 3600.0),
    ],
)
def test_profiles_name_objects(path: str, oid: str, per_count: float) -> None:
    target = target_of(parse(f"{HOST}/{path}"))
    assert target.oid == oid
    assert target.untried == profiles()[path.partition("?")[0]].what
    assert target.per_count == pytest.approx(per_count)


def test_every_profile_is_whole_and_named_in_the_form() -> None:
    for name, profile in profiles().items():
        assert name in FORM
        for place in (profile.device, profile.outlet):
            assert place.power.unit in POWER_W
            assert place.energy.unit in ENERGY_J
        for described in (profile.outlet.power, profile.outlet.energy):
            assert "{outlet}" in described.oid
    assert find() == []


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (f"{HOST}/apc-rpdu", 'did you mean "apc-rpdu2"'),
        (f"{HOST}/", "neither an object identifier nor a profile"),
        (f"{HOST}/1.3.6.1", "needs ?unit="),
        (f"{HOST}/1.3.6.1?unit=VA", 'unit: "VA" is not known'),
        (f"{HOST}/1.3.6.1?unit=W&scale=-1", "scale"),
        (f"{HOST}/1.3.6.1?unit=W&scale=nan", "scale"),
        (f"{HOST}/1.3.6.1?unit=W&outlet=1", "outlet: is for a profile"),
        (f"{HOST}/1.3.6.1?unit=W&mark=x", "mark"),
        (f"{HOST}/eaton-epdu?unit=W", "the profile sets it"),
        (f"{HOST}/eaton-epdu?outlet=x", "outlet"),
        (f"{HOST}/eaton-epdu?quantity=enrgy", 'did you mean "energy"'),
        (f"{HOST}/eaton-epdu?outlt=1", 'did you mean "outlet"'),
        ("snmp:/eaton-epdu", "no host given"),
        ("snmp://pdu/eaton-epdu", "needs a community"),
        ("snmp://public:x@pdu/eaton-epdu", "a community has no password"),
        (f"{HOST}/eaton-epdu?version=2", 'version: "2"'),
        (f"{HOST}/eaton-epdu?auth=sha", "auth: needs version=3"),
        ("snmp://pdu/eaton-epdu?version=3", "needs a user"),
        (f"{HOST}/eaton-epdu?version=3&auth=sha1", 'did you mean "sha"'),
        (f"{HOST}/eaton-epdu?version=3&privacy=aes", "needs auth="),
        (f"{HOST}/eaton-epdu?version=3&auth=sha", "password of 8 characters"),
        (f"{HOST}/eaton-epdu?version=3&auth=sha&password_env=WATTIO_NONE", "is not set"),
        (f"{HOST}/eaton-epdu?period=soon", "period"),
    ],
)
def test_what_is_wrong_with_a_name_is_said(name: str, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        open_meter(name)


@given(st.text())
def test_no_path_or_value_breaks_it(text: str) -> None:
    for name in (f"{HOST}/{text}", f"{HOST}/1.3.6.1?unit=W&scale={text}", f"{HOST}/1.3.6?{text}"):
        with contextlib.suppress(InputError):
            target_of(parse(name))


@given(st.binary())
def test_no_text_of_an_agent_breaks_it(text: bytes) -> None:
    with contextlib.suppress(MeterLost):
        number_of(text, "pdu")


@pytest.mark.parametrize(
    ("text", "number"), [(b"12.5", 12.5), (b" 7\n", 7.0), (b"-3", -3.0), (b"8.", 8.0)]
)
def test_numbers_as_text(text: bytes, number: float) -> None:
    assert number_of(text, "pdu") == number


@pytest.mark.parametrize("text", [b"nan", b"inf", b"1e9", b"1_0", b"", b"12 W", b"\xff"])
def test_other_text_is_no_number(text: bytes) -> None:
    with pytest.raises(MeterLost, match="not a number"):
        number_of(text, "pdu")


def secrets(path: Path, text: str, mode: int = 0o600) -> Path:
    path.write_text(text)
    path.chmod(mode)
    return path


def test_credentials_are_found_in_name_file_and_environment(tmp_path: Path) -> None:
    path = secrets(tmp_path / "secrets.toml", 'user = "u"\npassword = "p"\ncommunity = "c"\n')
    found = credentials_of(parse(f"snmp://h/x?credentials={path}"))
    assert (found.user, found.password, found.community) == ("u", "p", "c")
    found = credentials_of(parse(f"ipmi://me:mine@h?credentials={path}"))
    assert (found.user, found.password) == ("me", "mine")
    found = credentials_of(parse("ipmi://me@h?password_env=PW"), {"PW": "env"})
    assert found.password == "env"
    assert "env" not in repr(found)


@pytest.mark.parametrize(
    ("text", "mode", "message"),
    [
        ('password = "p"', 0o640, "chmod 600"),
        ('pasword = "hidden"', 0o600, 'did you mean "password"'),
        ("password = 1234", 0o600, "must be text"),
        ("password =", 0o600, "is not valid TOML"),
    ],
)
def test_a_file_of_credentials_that_cannot_be_used(
    tmp_path: Path, text: str, mode: int, message: str
) -> None:
    path = secrets(tmp_path / "secrets.toml", text, mode)
    with pytest.raises(InputError, match=re.escape(message)) as raised:
        credentials_of(parse(f"ipmi://h?credentials={path}"))
    assert "hidden" not in str(raised.value)
    assert "1234" not in str(raised.value)


def test_one_password_is_enough() -> None:
    with pytest.raises(InputError, match="give one of them"):
        credentials_of(parse("ipmi://me:mine@h?password_env=PW"), {"PW": "env"})
