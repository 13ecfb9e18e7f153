"""Names of meters: taken apart, and shown without secrets."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wattio.errors import InputError
from wattio.meters import kind_of, public_name
from wattio.meters.name import of_file, parse


def test_every_part_is_found() -> None:
    parts = parse("redfish://ad%40min:p%2Fw@bmc:8443/Chassis/1?ca=/a/b.pem&timeout=2+s")
    assert (parts.user, parts.password) == ("ad@min", "p/w")
    assert (parts.host, parts.port, parts.path) == ("bmc", 8443, "Chassis/1")
    assert parts.query == {"ca": "/a/b.pem", "timeout": "2 s"}
    assert parts.seconds("timeout", 1.0) == 2.0
    assert parts.seconds("period", 1.0) == 1.0


def test_a_name_without_a_host_is_a_path() -> None:
    parts = parse("rapl:package-0/dram?root=/tmp/x")
    assert (parts.host, parts.path, parts.query) == (None, "package-0/dram", {"root": "/tmp/x"})
    assert parse("rapl:").path == ""
    assert parse("rapl:?").path == ""


@pytest.mark.parametrize(
    "path", ["/a#1.csv", "/a?b.csv", "a%.csv", "/a%23.csv", "/a b\tc\n@:+&=", ""]
)
def test_any_path_of_a_file_can_be_named(path: str) -> None:
    for scheme in ("csv", "parquet", "estimate"):
        assert parse(f"{of_file(scheme, path)}?root=/x").path == path
    assert of_file("csv", "/data/a b.csv") == "csv:/data/a b.csv"
    assert parse("hwmon:a%20b").path == "a%20b"


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("rapl:package-0@1", "rapl:package-0@1"),
        ("ipmi://admin@bmc", "ipmi://admin@bmc"),
        ("ipmi://admin:pass@bmc/", "ipmi://admin:***@bmc/"),
        ("redfish://a:p/a?s@s@bmc/", "redfish://a:***@bmc/"),
        ("ipmi:admin:pass@bmc", "ipmi:admin:***@bmc"),
        ("ipmi:/admin:pass@bmc", "ipmi:/admin:***@bmc"),
        ("snmp://public@pdu/1.3?unit=W", "snmp://public@pdu/1.3?unit=W"),
        ("snmp://hidden@pdu/1.3?unit=W", "snmp://***@pdu/1.3?unit=W"),
        ("snmp://user@pdu/1.3?version=3", "snmp://user@pdu/1.3?version=3"),
        ("snmp://pdu/1.3?privacy_password=x&unit=W", "snmp://pdu/1.3?privacy_password=***&unit=W"),
    ],
)
def test_secrets_are_hidden(name: str, shown: str) -> None:
    assert public_name(name) == shown
    assert public_name(shown) == shown


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("ipmi://a:secret@bmc:99999", "its port is not a number from 1 to 65535"),
        ("ipmi://a:secret@[bmc", "malformed"),
        ("ipmi://a:secret#@bmc", "%23"),
        ("ipmi://a:secret@bmc?period", "malformed"),
    ],
)
def test_what_is_no_name_is_said_without_its_secret(name: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as raised:
        parse(name)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize("text", ["0 s", "5", "-1 s", "5 W", ""])
def test_spans_of_time_have_a_unit_and_are_above_zero(text: str) -> None:
    with pytest.raises(InputError, match="period"):
        parse(f"ipmi:?period={text}").seconds("period", 1.0)


@pytest.mark.parametrize(
    "name",
    [
        "csv:a\0b",
        "rapl:?root=%00",
        "snmp://a%00@h/x",
        "ipmi://u:p%00@h",
        "csv:a?%00=x",
        "csv:a%00b",
    ],
)
def test_a_nul_is_refused_however_it_is_written(name: str) -> None:
    """Decoded, it reached the system's calls: `ValueError: embedded null byte`, and a traceback."""
    with pytest.raises(InputError, match="holds the character NUL"):
        parse(name)


def test_an_unknown_key_is_said_with_the_nearest() -> None:
    with pytest.raises(InputError, match=r'"rot".*did you mean "root"'):
        parse("rapl:?rot=/").allow(["root"])


def test_an_unknown_kind_is_said() -> None:
    with pytest.raises(InputError, match='unknown kind; did you mean "rapl"'):
        kind_of("rpal:package-0")


@given(st.text())
def test_no_name_breaks_the_parser(text: str) -> None:
    public_name(text)
    for name in (text, f"ipmi://{text}", f"redfish:{text}", f"snmp://a@b/{text}"):
        with contextlib.suppress(InputError):
            parse(name)


@given(st.text(min_size=1).map(lambda secret: f"x{secret}x9"))
def test_no_password_is_shown(secret: str) -> None:
    assert secret not in public_name(f"ipmi://admin:{secret}@bmc/path?period=5")


def test_what_is_like_no_kind_is_not_said_to_be_one() -> None:
    """`nope` was taken for snmp."""
    with pytest.raises(InputError, match='meter "nope:": unknown kind; allowed: csv, '):
        kind_of("nope:")
