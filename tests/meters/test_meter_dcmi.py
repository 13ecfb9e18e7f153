"""What ipmitool prints is understood, in every version's words; no text breaks it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wattio.errors import InputError
from wattio.meters import MeterLost, MeterRefused, open_meter
from wattio.meters.dcmi import DcmiReading, explain, parse_reading

# As ipmitool 1.8.19 prints it: the time stamp's line has no end.
NEWER = """\
Loading IANA PEN Registry...

    Instantaneous power reading:                   137 Watts
    Minimum during sampling period:                 90 Watts
    Maximum during sampling period:                410 Watts
    Average power reading over sample period:      140 Watts
    IPMI timestamp:                           11/20/26 19:32:28 UTC    Sampling period:    \
                      00000005 Seconds.
    Power reading state is:                   activated

"""

# As 1.8.18 prints it.
OLDER = """\
    Instantaneous power reading:                   235 Watts
    Minimum during sampling period:                235 Watts
    IPMI timestamp:                           Thu Feb  5 08:36:01 2026
    Sampling period:                          00000001 Seconds.
    Power reading state is:                   deactivated
"""


def test_the_words_of_two_versions() -> None:
    assert parse_reading(NEWER) == DcmiReading(137.0, True, 5.0, 1795203148.0)
    assert parse_reading(OLDER) == DcmiReading(235.0, False, 1.0, 1770280561.0)


@pytest.mark.parametrize(
    "stamp", ["Thu Jan  1 00:00:00 1970", "13/40/26 19:32:28", "unspecified", ""]
)
def test_a_clock_that_was_never_set_is_no_mark(stamp: str) -> None:
    said = parse_reading(OLDER.replace("Thu Feb  5 08:36:01 2026", stamp))
    assert said is not None
    assert said.stamp_s is None
    assert said.period_s == 1.0


def test_what_is_not_said_is_absent() -> None:
    said = parse_reading("Instantaneous power reading: 12 Watts")
    assert said == DcmiReading(12.0, True, None, None)
    assert parse_reading("Instantaneous power reading: -12 Watts") is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("> RAKP 2 HMAC is invalid\nError: Unable to establish", "wrong password"),
        ("DCMI request failed because: Invalid command (c1)", "no DCMI power reading"),
        ("Could not open device at /dev/ipmi0", "no BMC found"),
        ("invalid authentication algorithm", "cipher=17"),
    ],
)
def test_a_no_is_told_from_silence(text: str, message: str) -> None:
    error = explain(text, "ipmi:")
    assert isinstance(error, MeterRefused)
    assert message in str(error)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Error: Unable to establish IPMI v2 / RMCP+ session", "did not answer"),
        ("Address lookup for x failed\nError: Unable to establish", "host name cannot be resolved"),
        ("DCMI request failed because: Node busy (c0)", "Node busy"),
        ("", "ipmitool failed: no output"),
    ],
)
def test_silence_and_trouble_are_tried_again(text: str, message: str) -> None:
    error = explain(text, "ipmi:")
    assert isinstance(error, MeterLost)
    assert message in str(error)


@given(st.text(), st.integers(0, len(NEWER)))
def test_no_text_breaks_it(text: str, at: int) -> None:
    for output in (text, NEWER[:at] + text + NEWER[at:], OLDER[:at] + text):
        parse_reading(output)
        explain(output, "ipmi:")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("ipmi:bmc", '"bmc" is not part of the name'),
        ("ipmi:?cipher=3", 'unknown key "cipher"'),
        ("ipmi://bmc", "no user given"),
        ("ipmi://a@bmc?cipher=99", "cipher"),
        ("ipmi://a@bmc?privilege=admin", "privilege"),
        ("ipmi://a@bmc?lag=0 s", "lag"),
    ],
)
def test_what_is_wrong_with_a_name_is_said(name: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        open_meter(name)


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is searched first for programs."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return tmp_path


def say(programs: Path, script: str) -> None:
    program = programs / "ipmitool"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


def test_this_machine_s_controller_is_asked_by_ipmitool(programs: Path) -> None:
    (programs / "answer").write_text(NEWER)
    say(programs, f'echo "$@" > {programs}/asked; cat {programs}/answer')
    meter = open_meter("ipmi:")
    assert (programs / "asked").read_text() == "-v -I open dcmi power reading\n"
    assert (meter.facts.period_s, meter.facts.lag_s) == (5.0, 2.5)
    reading = meter.read()
    assert (reading.power_w, reading.mark) == (137.0, 1795203148.0)
    (programs / "answer").write_text(NEWER.replace("137", "65535"))
    with pytest.raises(MeterLost, match="means no reading"):
        meter.read()
    (programs / "answer").write_text(NEWER.replace("137", "999999"))
    with pytest.raises(MeterLost, match="allowed: 0 to"):
        meter.read()
    meter.close()
    meter.close()
    with pytest.raises(MeterLost, match="closed"):
        meter.read()


def test_period_and_lag_may_be_given(programs: Path) -> None:
    (programs / "answer").write_text(NEWER)
    say(programs, f"cat {programs}/answer")
    facts = open_meter("ipmi:?period=2 s&lag=3 s&accuracy=class 1").facts
    assert (facts.period_s, facts.lag_s, facts.accuracy_class) == (2.0, 3.0, "class 1")


def test_a_slow_answer_is_lost(programs: Path) -> None:
    say(programs, "exec sleep 60")
    with pytest.raises(MeterLost, match=r"within 0.05 s"):
        open_meter("ipmi:?timeout=50 ms")


def test_a_missing_program_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MeterRefused, match="Debian package ipmitool"):
        open_meter("ipmi:")
