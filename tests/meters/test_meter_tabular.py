"""Recorded power in files: which columns, which times, followed, replayed, loaded whole."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wattio import clock
from wattio.errors import InputError
from wattio.meters import columns, open_meter, parquet, tabular
from wattio.meters.columns import ColumnNames
from wattio.meters.meter import BadReading, MeterLost, MeterRefused, Reading
from wattio.recording import Samples

T0 = 1_767_225_600  # 2026-01-01T00:00:00Z


def loaded(tmp_path: Path, text: str, query: str = "") -> list[tuple[int, float | None]]:
    path = tmp_path / "log.csv"
    path.write_text(text, encoding="utf-8")
    readings = tabular.load(f"csv:{path}{query}").readings()
    return [(reading.utc_ns, reading.power_w) for reading in readings]


@pytest.mark.parametrize(
    ("text", "query", "power_w"),
    [
        ("time,power\n{s},50.5\n", "", 50.5),
        ("\ufeffTimestamp;Power [mW]\r\n{iso};50500,0\r\n", "", 50.5),
        ("# logger 3\n\n# ts in ms\nts\twatts\n{ms}\t50.5\n# end\n", "", 50.5),
        ('"date time","who","P (kW)"\n"{iso}","a, b","0.0505"\n', "", 50.5),
        ("ts,V1,W\n{us},7,50500\n", "?time=ts&power=W&unit=mW", 50.5),
        ("time,volts,amps\n{ns},12.0,2.5\n", "", 30.0),
        (
            "Model,DPO\nRecord,3\nTIME,CH1,CH2\n0.0,12.0,2.5\n",
            "?time=TIME&volts=CH1&amperes=CH2&start=2026-01-01T00:00:00Z",
            30.0,
        ),
        ("Timestamp(ms),Voltage(V),Current(mA)\n{ms},12.0,2500\n", "", 30.0),
        ("Time [ms];U (mV rms);I [µA]\n{ms};12000;2500000\n", "", 30.0),
        ("time;P (KW)\n{s};0.0505\n", "", 50.5),
        ("time;P [MW]\n{s};5.05e-5\n", "", 50.5),
        ("time;P (µW)\n{s};50500000\n", "", 50.5),
        ("time;P (Watts)\n{s};50.5\n", "", 50.5),
        ("time;rack_mw\n{s};50500\n", "?power=rack_mw", 50.5),
        ("time;P (node 1)\n{s};50500\n", "?unit=mW", 50.5),
        ("time (UTC);power\n{s};50.5\n", "", 50.5),
        ("time,power\n{iso},\n", "", None),
        ("time,power\n{iso},NaN\n", "", None),
        ("time,power\n{s},50.5", "", 50.5),
    ],
)
def test_files_of_all_kinds_of_loggers_are_read(
    tmp_path: Path, text: str, query: str, power_w: float | None
) -> None:
    stamps = {
        "iso": "2026-01-01T00:00:00",
        "s": f"{T0}",
        "ms": f"{T0}000",
        "us": f"{T0}000000",
        "ns": f"{T0}000000000",
    }
    found = loaded(tmp_path, text.format(**stamps), query)
    assert found == [(T0 * 10**9, pytest.approx(power_w) if power_w else power_w)]


@pytest.mark.parametrize(
    ("name", "joules"),
    [
        *(("Energy (kWh)", 3.6e6), ("Energy [KWH]", 3.6e6), ("Energy (MWh)", 3.6e9)),
        *(("Energy (mWh)", 3.6), ("energy_uj", 1e-6), ("energy_kwh", 3.6e6), ("kWh", 3.6e6)),
        *(("watt-hours", 3600.0), ("Joules", 1.0), ("energy_mj", 1e-3), ("energy", 1.0)),
    ],
)
def test_a_count_is_in_the_unit_of_its_column(name: str, joules: float) -> None:
    layout = columns.find_layout(f"time;{name}", ColumnNames(energy=name))
    assert columns.parse_row("1;5", layout).energy_j == pytest.approx(5 * joules)


@pytest.mark.parametrize(
    ("name", "at_ns"),
    [
        *(("Time (ms)", 250_000_000), ("Time [us]", 250_000), ("Time (min)", 15_000 * 10**9)),
        *(("t_ns", 250), ("Time (s)", 250 * 10**9), ("time", 250 * 10**9)),
    ],
)
def test_a_time_is_in_the_unit_of_its_column(name: str, at_ns: int) -> None:
    layout = columns.find_layout(f"{name};W", ColumnNames(time=name))
    assert columns.parse_row("250;5", layout)[:2] == (at_ns, False)
    with pytest.raises(ValueError, match="is not a valid time"):
        columns.parse_row("1e999;5", layout)


@pytest.mark.parametrize(
    ("text", "query", "says"),
    [
        ("time,power\n1767225600,50\nnow,50\n", "", 'log.csv:3: "now" is not a time'),
        ("time,power\n1767225600,x5\n", "", 'log.csv:2: "x5" is not a number'),
        ("time,power\n1767225600\n", "", "log.csv:2: has 1 field, needs at least 2"),
        (
            "time,power\n1.5,50\n",
            "",
            "log.csv:2: its times count from an arbitrary start; give .start=",
        ),
        ("time,power\n1767225600,-5\n", "", "log.csv:2: .*reports -5 W; allowed: 0 to"),
        ("time,wats\n1767225600,50\n", "", "log.csv:1: no column of power; name it with .* wats"),
        ("time,power\n", "?power=powr", 'no column "powr"; did you mean "power"'),
        ("time,power\n", "?unit=hp", 'unit "hp" is not known; allowed: W, mW, uW, kW'),
        ("time,P (hp)\n", "", r'unit "hp" of column "P \(hp\)" is not known; allowed: W, mW'),
        ("time,V (V),I (lb)\n", "", r'unit "lb" of column .*; allowed: A, mA, uA'),
        ("", "", "log.csv: has no header line"),
        ("\x7fELF\x02\x01,\0\0" + 900 * "\x01", "", "log.csv: is not text; lines with columns"),
        (
            "\x89PNG\x1a, time, w\n\0\n",
            "",
            "log.csv:1: is not text; a header line with column names",
        ),
        ("time,power\n", "?replay=slow", 'replay "slow" is not known; .*allowed: fast, real'),
        ("time,power\n", "?tme=x", 'unknown key "tme"; did you mean "time"'),
        ("time,power\n1,1\n", "?start=soon", 'start: "soon" is not a time'),
    ],
)
def test_what_is_wrong_names_file_and_line(
    tmp_path: Path, text: str, query: str, says: str
) -> None:
    with pytest.raises(InputError, match=says):
        loaded(tmp_path, text, query)


def test_rows_of_one_stamp_and_rows_out_of_order_are_all_there(tmp_path: Path) -> None:
    """Rows of one stamp were ordered by what they said, and one said nothing of its power."""
    rows = [(T0 + 10, 400), (T0, 100), (T0, 100), (T0 + 10, 400)]
    text = "time,energy_j\n" + "".join(f"{at},{count}\n" for at, count in rows)
    found = loaded(tmp_path, text)
    stamps = [(T0 + 10 * step) * 10**9 for step in (0, 0, 1, 1)]
    assert found == list(zip(stamps, (None, None, 30.0, None), strict=True))


def test_no_file_is_said() -> None:
    for name in ("csv:/nowhere/x.csv", "parquet:/nowhere/x.parquet", "csv:"):
        with pytest.raises(InputError, match=r"No such file|not found|no file given"):
            tabular.load(name)


@given(st.text(max_size=60))
def test_a_time_is_read_or_refused(text: str) -> None:
    try:
        time_ns, absolute = columns.parse_time(text)
    except ValueError:
        return
    assert not absolute or 0 <= time_ns < 2**63


@given(header=st.text(max_size=60), line=st.text(max_size=60))
def test_no_text_breaks_the_columns(header: str, line: str) -> None:
    for first in (header, "time;power;volts", "time,volts,amps"):
        try:
            layout = columns.find_layout(first, ColumnNames())
            columns.parse_row(line, layout)
        except ValueError:
            continue


@given(content=st.binary(max_size=300))
def test_no_file_breaks_the_reader(
    content: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("any") / "log.csv"
    found: list[str] = []
    for start in (b"", b"time,power\n"):
        path.write_bytes(start + content)
        try:
            tabular.load(f"csv:{path}")
        except InputError as error:
            found.append(str(error))
    assert all("log.csv" in text for text in found)


def test_a_followed_file_gives_the_last_line_and_then_each_new_one(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    now_ns = clock.now().utc_ns
    log.write_text(f"time,power\n{now_ns - 10**9},1\n{now_ns},2\n")
    meter = open_meter(f"csv:{log}")
    assert meter.facts.streams
    assert meter.facts.period_s == pytest.approx(1.0)
    assert meter.read().power_w == 2.0
    with log.open("a") as file:
        file.write(f"{now_ns + 1},3\n{now_ns + 2},4")
        file.flush()
        third = meter.read()
        assert (third.utc_ns, third.power_w) == (now_ns + 1, 3.0)
        file.write("5\n")
    assert meter.read().power_w == 45.0
    log.write_text("time,power\n")
    with pytest.raises(MeterLost, match="was truncated or replaced"):
        meter.read()
    meter.close()


@pytest.mark.parametrize("bad", ["{t},x5", "{t}", "now,1", "{t},1e12", '{t},"1,234"'])
def test_a_bad_line_is_one_bad_sample(tmp_path: Path, bad: str) -> None:
    """A line that could not be read lost a followed meter for the session.

    It was opened again and again, and read the same line at the file's end each time.
    """
    log = tmp_path / "log.csv"
    now_ns = clock.now().utc_ns
    log.write_text(f"time,power\n{now_ns},1\n{bad.format(t=now_ns + 1)}\n")
    meter = open_meter(f"csv:{log}")
    assert meter.read().power_w == 1.0
    with log.open("a") as file:
        file.write(f"{bad.format(t=now_ns + 2)}\n{now_ns + 3},4\n")
    with pytest.raises(BadReading, match=r"log\.csv"):
        meter.read()
    assert meter.read().power_w == 4.0
    with pytest.raises(InputError, match=r"log\.csv:3: "):
        tabular.load(f"csv:{log}")


def test_a_bad_line_of_a_replay_is_one_bad_sample(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    rows = [f"{T0 + n},{n}" for n in range(150)]
    rows[120] = f"{T0 + 120},-1"
    log.write_text("time,power\n" + "\n".join(rows))
    meter = open_meter(f"csv:{log}?replay=fast")
    assert [meter.read().power_w for _ in range(120)] == list(range(120))
    with pytest.raises(BadReading, match=r"log\.csv:122: "):
        meter.read()
    assert [meter.read().power_w for _ in range(29)] == list(range(121, 150))
    for _ in range(2):
        with pytest.raises(MeterRefused, match="has ended"):
            meter.read()


@pytest.mark.parametrize("word", ["inf", "-inf", "Infinity", "OVL", "--"])
def test_what_is_beyond_a_meters_range_is_a_sample_without_a_value(
    tmp_path: Path, word: str
) -> None:
    assert loaded(tmp_path, f"time,power\n{T0},{word}\n") == [(T0 * 10**9, None)]


@pytest.mark.parametrize(
    ("row", "query", "power_w"),
    [
        ('{t},"45,2"', "", 45.2),
        ('{t},"1,234,567"', "", 1_234_567.0),
        ('{t},"1,234.5"', "", 1234.5),
        ('{t},"1,234"', "?decimal=,", 1.234),
        ('{t},"1,234"', "?decimal=.", 1234.0),
        ("{t};1,234", "", 1.234),
        ("{t};1,234", "?decimal=.", 1234.0),
    ],
)
def test_what_commas_in_numbers_part_is_a_stated_rule(
    tmp_path: Path, row: str, query: str, power_w: float
) -> None:
    """1,234 W in quotes was taken for 1.234 W, whatever the logger meant."""
    header = "time;power" if ";" in row else "time,power"
    text = f"{header}\n{row.format(t=T0)}\n"
    ((_, found_w),) = loaded(tmp_path, text, query)
    assert found_w == pytest.approx(power_w)


def test_a_comma_that_may_be_either_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r'log.csv:2: "1,234" may be 1.234 or 1234; add .decimal'):
        loaded(tmp_path, f'time,power\n{T0},"1,234"\n')
    with pytest.raises(InputError, match=r'"45,2" is not a number with commas between thousands'):
        loaded(tmp_path, f'time,power\n{T0},"45,2"\n', "?decimal=.")
    with pytest.raises(InputError, match=r'decimal "x" is not known; allowed: . or ,'):
        loaded(tmp_path, f"time,power\n{T0},1\n", "?decimal=x")


def test_a_long_file_is_not_read_from_its_beginning(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    now_ns = clock.now().utc_ns
    rows = "".join(f"{now_ns - 10_000 + n},{n}\n" for n in range(10_000))
    log.write_text("time,power\n" + rows)
    meter = open_meter(f"csv:{log}")
    assert meter.read().power_w == 9999.0


def test_a_logger_that_is_dead_is_noticed_and_its_old_lines_are_not_news(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text(f"time,power\n{T0},1\n")
    meter = open_meter(f"csv:{log}?timeout=50 ms")
    with pytest.raises(MeterLost, match=r"no new line within 0.05 s"):
        meter.read()


def test_closing_ends_a_read(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text("time,power\n")
    meter = open_meter(f"csv:{log}?timeout=1 h")
    said: list[str] = []

    def read() -> None:
        try:
            meter.read()
        except MeterLost as error:
            said.append(str(error))

    reader = threading.Thread(target=read)
    reader.start()
    meter.close()
    reader.join(30)
    assert not reader.is_alive()
    assert said


def test_a_replay_gives_what_is_there_and_ends(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text(f"time,power\n{T0},1\n{T0}.002,2\n")
    meter = open_meter(f"csv:{log}?replay=fast")
    assert [meter.read().utc_ns for _ in range(2)] == [T0 * 10**9, T0 * 10**9 + 2_000_000]
    with pytest.raises(MeterRefused, match="the recording has ended"):
        meter.read()
    meter = open_meter(f"csv:{log}?replay=real")
    before_ns = time.monotonic_ns()
    first, second = meter.read(), meter.read()
    assert second.utc_ns - first.utc_ns == second.monotonic_ns - first.monotonic_ns == 2_000_000
    assert time.monotonic_ns() >= second.monotonic_ns > first.monotonic_ns >= before_ns


def test_a_text_of_several_meters_needs_the_name_of_one(tmp_path: Path) -> None:
    text = f"meter,utc_ns,power_w\na,{T0}000000000,1\nb,{T0}000000000,2\n"
    assert loaded(tmp_path, text, "?meter=b") == [(T0 * 10**9, 2.0)]
    with pytest.raises(InputError, match=r"log.csv:3: .*several meters; name one with .meter="):
        loaded(tmp_path, text)


def test_a_parquet_file_of_ours_is_a_meter_again(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    readings = [Reading(T0 * 10**9 + n, n, 5.0 + n, 0.5 * n, None) for n in range(3)]
    parquet.write(path, {"a": Samples.of(readings), "b": Samples.of(readings[:1])})
    assert list(tabular.load(f"parquet:{path}?meter=a").readings()) == readings
    assert open_meter(f"parquet:{path}?meter=b").read() == readings[0]
    with pytest.raises(InputError, match="holds 2 meters; name one of a, b with"):
        tabular.load(f"parquet:{path}")
    with pytest.raises(InputError, match=r'holds no meter "c"; .*allowed: a, b'):
        open_meter(f"parquet:{path}?meter=c")
    path.write_bytes(b"no")
    with pytest.raises(InputError, match="cannot be read"):
        tabular.load(f"parquet:{path}")
