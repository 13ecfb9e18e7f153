"""PTDaemon's log of samples: what its lines say, and files of them as meters."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wattio.errors import InputError
from wattio.meters import channels, columns, spl, tabular

LINE = (
    "Time,07-20-2022 17:55:40.125,Watts,98.250000,Volts,229.8,Amps,0.49,PF,0.87,Mark,day_1_testing"
)
AT_NS = int(datetime(2022, 7, 20, 17, 55, 40, tzinfo=UTC).timestamp()) * 10**9 + 125_000_000


def test_a_line_says_when_how_much_and_what_was_going_on() -> None:
    assert spl.is_log(LINE)
    assert spl.parse(LINE) == spl.Line(AT_NS, {None: 98.25}, "day_1_testing")
    assert spl.parse(LINE, columns.parse_zone("+02:00")).time_ns == AT_NS - 7200 * 10**9
    assert spl.parse(LINE.replace("98.250000", "-1")).power_w == {None: None}


def test_channels_stand_for_themselves_and_their_sum_is_left_out() -> None:
    line = f"{LINE},Ch1,Watts,58.25,Volts,229.8,Ch2,Watts,40.0,Volts,229.8"
    assert spl.parse(line).power_w == {"Ch1": 58.25, "Ch2": 40.0}


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("Time,2022-07-20 17:55:40,Watts,1", "is not a time; write it as 05-24-2021 17:12:48.375"),
        ("Time,07-20-2022 17:55:40.125,Watts,x", '"x" is not a number of watts'),
        ("Time,07-20-2022 17:55:40.125,Volts,1", "has no Time or no Watts"),
    ],
)
def test_what_is_wrong_is_said(line: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        spl.parse(line)


@given(st.text(max_size=80))
def test_no_text_breaks_a_line(text: str) -> None:
    for line in (text, f"Time,{text},Watts,1", f"{LINE},{text}"):
        try:
            spl.parse(line)
        except ValueError:
            continue


def written(folder: Path, *lines: str) -> str:
    path = folder / "spl.txt"
    path.write_text("\n".join(("PTD started", *lines)) + "\n")
    return f"csv:{path}"


def test_a_log_is_a_meter_like_any_other_file(tmp_path: Path) -> None:
    """It was refused: no column of time."""
    name = written(tmp_path, LINE, "Notification,range changed", LINE.replace("40.125", "41.125"))
    assert list(tabular.load(name).utc_ns) == [AT_NS, AT_NS + 10**9]
    assert tabular.load(f"{name}?zone=%2B02:00").utc_ns[0] == AT_NS - 7200 * 10**9
    with pytest.raises(InputError, match=r"spl.txt:3: .* is not a number of watts"):
        tabular.load(written(tmp_path, LINE, LINE.replace("98.250000", "x")))


def test_a_mark_of_the_byte_order_may_stand_first(tmp_path: Path) -> None:
    path = tmp_path / "spl.txt"
    path.write_text(f"{LINE}\n{LINE.replace('40.125', '41.125')}\n", encoding="utf-8-sig")
    assert list(tabular.load(f"csv:{path}").utc_ns) == [AT_NS, AT_NS + 10**9]


def test_channels_of_a_log_are_meters_by_name(tmp_path: Path) -> None:
    name = written(tmp_path, f"{LINE},Ch1,Watts,58.25,Ch2,Watts,40.0")
    assert list(tabular.load(f"{name}?meter=Ch2").power_w) == [40.0]
    with pytest.raises(InputError, match=r"several meters; name one with .meter="):
        tabular.load(name)
    found, bad = channels.channels(name)
    assert {label: list(one.samples.power_w) for label, one in found.items()} == {
        "Ch1": [58.25],
        "Ch2": [40.0],
    }
    assert bad == []


def test_its_marks_are_stretches(tmp_path: Path) -> None:
    lines = [
        LINE.replace("40.125", f"{40 + n}.125").replace(
            "testing", "ranging" if n < 2 else "testing"
        )
        for n in range(5)
    ]
    (found,) = channels.channels(written(tmp_path, *lines))[0].values()
    assert found.marks == (
        ("day_1_ranging", AT_NS, AT_NS + 10**9),
        ("day_1_testing", AT_NS + 2 * 10**9, AT_NS + 4 * 10**9),
    )


@pytest.mark.parametrize(
    ("header", "query", "joules"),
    [
        ("time,energy_j", "", 3.0),
        ("time,Energy [Wh]", "", 3600.0 * 3),
        ("time,kWh", "", 3.6e6 * 3),
        ("time,energy_wh", "", 3600.0 * 3),
        ("time,count", "?energy=count&unit=mWh", 3.6 * 3),
        ("time,Energy (kJ)", "", 1e3 * 3),
    ],
)
def test_counts_of_energy_are_a_meter_that_counts(
    tmp_path: Path, header: str, query: str, joules: float
) -> None:
    """A column of watt-hours was refused, or taken for joules."""
    path = tmp_path / "log.csv"
    path.write_text(f"{header}\n1767225600,0\n1767225610,3\n1767225620,1\n")
    samples = tabular.load(f"csv:{path}{query}")
    assert samples.energy_j[1] == pytest.approx(joules)
    # Its power is the mean since the count before, and nobody knows it where the count fell.
    assert samples.power_w[1:].tolist() == pytest.approx([joules / 10, float("nan")], nan_ok=True)
    meter = tabular.open_meter(f"csv:{path}{query}")
    assert meter.facts.counts_energy
    with pytest.raises(InputError, match='unit "W" is not known; allowed: J, mJ'):
        tabular.load(f"csv:{path}?energy={header.split(',')[1].replace(' ', '+')}&unit=W")
