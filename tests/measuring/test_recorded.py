"""Recorded power without a study: energies that are known, on phases from files."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from wattio.cli import main
from wattio.errors import InputError
from wattio.kinds.measurement import phase_file, recorded
from wattio.kinds.measurement.phase_file import Phase
from wattio.kinds.measurement.recorded import Ends
from wattio.meters.channels import Channel, channels
from wattio.meters.meter import Facts
from wattio.meters.samples import Samples

from measuring import made

T0 = 1_767_225_600  # 2026-01-01T00:00:00Z
SECOND = 10**9


def channel(power_w: Any, times_s: np.ndarray, energy_j: np.ndarray | None = None) -> Channel:  # noqa: ANN401
    found = made.samples(times_s, power_w, energy_j)
    facts = Facts("csv:x", "made up", 1.0, counts_energy=energy_j is not None)
    return Channel(facts, Samples(found.utc_ns, found.utc_ns, *_values(found)))


def _values(samples: Samples) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return samples.power_w, samples.energy_j, samples.mark


def phase(name: str, start_s: float, end_s: float) -> Phase:
    return Phase(name, made.UTC_NS + round(start_s * 1e9), made.UTC_NS + round(end_s * 1e9))


TIMES = np.arange(0.0, 200.0)


@given(st.floats(0, 100), st.floats(0.001, 99), st.floats(0, 3))
def test_a_ramp_has_the_energy_of_its_closed_form(
    start_s: float, length_s: float, slope: float
) -> None:
    end_s = start_s + max(length_s, 1.01)
    ramp = channel(lambda t: 50 + slope * t, TIMES)
    counted = channel(lambda t: np.nan * t, TIMES, 30.0 * TIMES)
    (found,) = recorded.evaluate({"a": ramp, "b": counted}, [phase("x", start_s, min(end_s, 199))])
    seconds = found.span.seconds
    energy_j = seconds * (50 + slope * (2 * start_s + seconds) / 2)
    assert found.channels["a"].energy_j == pytest.approx(energy_j, rel=1e-6)
    assert found.channels["b"].energy_j == pytest.approx(30 * seconds, rel=1e-6)
    assert found.total.energy_j == pytest.approx(energy_j + 30 * seconds, rel=1e-6)
    assert found.total.power_w_mean == pytest.approx(energy_j / seconds + 30, rel=1e-6)


@pytest.mark.parametrize(("ends", "seconds"), [("interpolated", 100.0), ("samples", 99.0)])
def test_a_phase_may_end_with_its_samples(ends: Ends, seconds: float) -> None:
    ramp = channel(lambda t: 50 + t, TIMES)
    (found,) = recorded.evaluate({"a": ramp}, [phase("x", 10.3, 110.3)], ends)
    assert found.span.seconds == pytest.approx(seconds)
    start_s = 10.3 if ends == "interpolated" else 11.0
    expected_j = seconds * (50 + start_s + seconds / 2)
    assert found.total.energy_j == pytest.approx(expected_j)
    assert found.verdict == "VALID"
    # The mean of the samples themselves is MLPerf's, whatever the ends are.
    assert found.total.power_w_samples_mean == pytest.approx(50 + np.arange(11, 111).mean())


def test_what_is_missing_at_the_ends_is_told_wherever_the_phase_ends() -> None:
    """A phase of 150 s whose meter ended after 50 s was told as one of 49 s, all of it there."""
    (found,) = recorded.evaluate(
        {"a": channel(lambda t: 0 * t + 5, TIMES)}, [phase("late", 150, 300)], "samples"
    )
    assert found.span.seconds == pytest.approx(49)
    assert found.total.energy_j == pytest.approx(5 * 49)
    assert found.total.coverage == pytest.approx(50 / 150)
    assert {"GAP", "MISSING"} <= {one.reason.partition(":")[0] for one in found.verdicts}


def test_what_is_not_there_is_judged_as_in_a_study() -> None:
    holed = channel(lambda t: np.where((t > 20) & (t < 90), np.nan, 50.0), TIMES)
    phases = [phase("holed", 10, 110), phase("short", 5.2, 5.7), phase("late", 150, 300)]
    found = recorded.evaluate({"a": holed}, phases)
    assert [one.verdict for one in found] == ["INVALID"] * 3
    assert found[0].total.coverage == pytest.approx(0.32)
    reasons = [{verdict.reason.partition(":")[0] for verdict in one.verdicts} for one in found]
    assert {"GAP", "MISSING"} <= reasons[0]
    assert "NO_ENERGY" in reasons[1]
    assert "GAP" in reasons[2]
    assert found[1].total.energy_j is None
    assert found[1].total.coverage is None


def test_one_channel_without_energy_leaves_no_total() -> None:
    both = {"a": channel(lambda t: 0 * t + 5, TIMES), "b": channel(lambda t: np.nan * t, TIMES)}
    (found,) = recorded.evaluate(both, [phase("x", 10, 110)])
    assert found.channels["a"].energy_j == pytest.approx(500)
    assert found.total.energy_j is None
    assert found.verdict == "INVALID"


def test_clocks_that_do_not_go_together_are_refused() -> None:
    one = {"a": channel(lambda t: t, TIMES)}
    with pytest.raises(InputError, match=r"others from an arbitrary start; give it with"):
        recorded.evaluate(one, [Phase("x", 0, 5 * SECOND, absolute=False)])
    # Without phases it was told that they have no time in common.
    both = one | {"b": replace(one["a"], absolute=False)}
    with pytest.raises(InputError, match=r"others from an arbitrary start; give it with"):
        recorded.phases_within(both)


def test_without_phases_it_is_the_time_that_all_have() -> None:
    both = {"a": channel(lambda t: t, TIMES), "b": channel(lambda t: t, TIMES + 50)}
    assert recorded.phases_within(both) == [phase("whole", 50, 199)]
    apart = {"a": channel(lambda t: t, TIMES), "b": channel(lambda t: t, TIMES + 500)}
    with pytest.raises(InputError, match="no time in common"):
        recorded.phases_within(apart)


def berlin(meters: tuple[str, ...] = ("",), form: str = "%Y-%m-%dT%H:%M:%S") -> list[list[str]]:
    """Stamps and watts from 01:50 to 03:10 on a day when clocks went back at 03:00 to 02:00."""
    begin = datetime(2025, 10, 25, 23, 50, tzinfo=UTC)
    found = []
    for step in range(0, 140 * 60, 10):
        at = begin + timedelta(seconds=step)
        power_w = 100 if at < datetime(2025, 10, 26, 1, tzinfo=UTC) else 300
        shown = at.astimezone(ZoneInfo("Europe/Berlin"))
        found += [[shown.strftime(form), str(power_w), meter] for meter in meters]
    return found


IN_EACH_HOUR = """\
phase,start,end
first,2025-10-26T00:10:00Z,2025-10-26T00:50:00Z
second,2025-10-26T02:10:00+01:00,2025-10-26T02:50:00+01:00
"""


def tabled(rows: list[list[str]]) -> str:
    return "time,power,meter\n" + "".join(f"{','.join(row)}\n" for row in rows)


@pytest.mark.parametrize(
    "text",
    [
        tabled(berlin()),
        tabled(berlin(("a", "b"))),
        # One meter after the other, and rows that are not quite in order.
        tabled([*berlin(("a",)), *berlin(("b",))]),
        tabled([row for pair in zip(*[iter(berlin())] * 2, strict=True) for row in pair[::-1]]),
        "".join(f"Time,{at}.000,Watts,{w}\n" for at, w, _ in berlin(form="%m-%d-%Y %H:%M:%S")),
    ],
)
def test_both_hours_of_autumn_are_there(text: str, tmp_path: Path) -> None:
    """They were laid over each other, and called VALID."""
    log, phases = tmp_path / "log.csv", tmp_path / "phases.csv"
    log.write_text(text)
    phases.write_text(IN_EACH_HOUR)
    found, bad = channels(f"csv:{log}?zone=Europe/Berlin")
    assert not bad
    first, second = recorded.evaluate(
        {label or "": one for label, one in found.items()}, phase_file.read(phases, UTC)
    )
    for one in found:
        assert first.channels[one or ""].power_w_mean == pytest.approx(100)
        assert second.channels[one or ""].power_w_mean == pytest.approx(300)


def test_a_log_that_begins_in_the_hour_that_is_there_twice_is_told(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text("time,power\n2025-10-26T02:30:00,1\n2025-10-26T03:00:00,2\n")
    found, bad = channels(f"csv:{log}?zone=Europe/Berlin")
    assert found[None].samples.power_w.tolist() == [2.0]
    assert len(bad) == 1
    assert bad[0].startswith(f"{log}:2: ")
    assert "occurs twice in Europe/Berlin: clocks go back then; write the distance" in bad[0]
    _, bad = channels(f"csv:{log}?zone=%2B01:00")
    assert not bad


@pytest.mark.parametrize(
    ("start", "says"),
    [
        ("2025-10-26T02:30:00", r"phases:2: .* occurs twice in Europe/Berlin"),
        ("2025-03-30T02:30:00", r"phases:2: .* does not exist in Europe/Berlin"),
    ],
)
def test_times_that_nobody_can_place_are_refused(start: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "phases"
    path.write_text(f"phase,start,end\nx,{start},2025-10-26T05:00:00\n")
    with pytest.raises(InputError, match=says):
        phase_file.read(path, ZoneInfo("Europe/Berlin"))


@pytest.mark.parametrize("name", ["a#1.csv", "a?b.csv", "a%.csv", "a%23.csv", "csv:a.csv"])
@pytest.mark.parametrize("columns", ["time,power", "time,A (W),B (W)"])
def test_a_file_of_any_name_is_given_by_its_path(
    name: str,
    columns: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    values = ",5" * columns.count(",")
    rows = "".join(f"{T0 + at}{values}\n" for at in range(10))
    (tmp_path / name).write_text(f"{columns}\n{rows}")
    monkeypatch.chdir(tmp_path)
    assert called(name, "--json") == 0
    (phase,) = json.loads(capsys.readouterr().out)["phases"]
    assert phase["total"]["power_w_mean"] == pytest.approx(5 * columns.count(","))
    assert len(phase["channels"]) == columns.count(",")


def read(tmp_path: Path, text: str) -> list[Phase]:
    path = tmp_path / "phases"
    path.write_text(text)
    return phase_file.read(path, UTC)


def test_phases_of_a_table(tmp_path: Path) -> None:
    text = (
        f"# made by hand\nName;Begin;End\nwrite;2026-01-01T00:00:01Z;{T0 + 2}\nread;{T0};{T0}.5\n"
    )
    assert read(tmp_path, text) == [
        Phase("write", (T0 + 1) * SECOND, (T0 + 2) * SECOND),
        Phase("read", T0 * SECOND, T0 * SECOND + SECOND // 2),
    ]
    assert read(tmp_path, "start,end\n1,2.5\n") == [
        Phase("phase 1", SECOND, 5 * SECOND // 2, absolute=False)
    ]


def test_phases_of_mlperfs_log(tmp_path: Path) -> None:
    text = (
        ':::MLLOG {"key": "power_begin", "value": "01-01-2026 00:00:01.500", "time_ms": 1}\n'
        ':::MLLOG {"key": "result", "value": 5}\n'
        ':::MLLOG {"key": "power_end", "value": "01-01-2026 00:00:03.500"}\n'
    )
    start_ns = T0 * SECOND + 3 * SECOND // 2
    assert read(tmp_path, text) == [Phase("power", start_ns, start_ns + 2 * SECOND)]
    assert [one.name for one in read(tmp_path, text + text)] == ["power", "power 2"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "the header needs columns start and end"),
        ("phase,begin\nx,1\n", "phases:1: the header needs columns start and end.*phase, begin"),
        ("start,end\n", "has no phase"),
        ("start,end\n2,1\n", 'phases:2: phase "phase 1" ends before it starts'),
        ("start,end\n2,2\n", 'phases:2: phase "phase 1" ends when it starts'),
        ("start,end\n2\n", "phases:2: has 1 field, needs at least 2"),
        ("start,end\n2,soon\n", 'phases:2: "soon" is not a time'),
        (f"start,end\n2,{T0}\n", "phases:2: one of its times counts from 1970"),
        ("phase,start,end\nx,1,2\nx,2,3\n", 'phases:3: phase "x" is named twice'),
        ("power_end 01-01-2026 00:00:01.5\n", "phases:1: power_end without a power_begin"),
        ("power_begin 01-01-2026 00:00:01.5\n", "a power_begin has no power_end"),
        ("power_begin 31-31-2026 00:00:01.5\n", 'phases:1: "31-31-2026 00:00:01.5" is not a time'),
    ],
)
def test_what_is_wrong_with_phases_is_said(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        read(tmp_path, text)


@given(text=st.text(max_size=200))
def test_no_text_breaks_phases(text: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("any") / "phases"
    for start in ("", "start,end\n1,", "power_begin "):
        path.write_text(start + text, encoding="utf-8", errors="replace")
        try:
            phase_file.read(path, UTC)
        except InputError:
            continue


@pytest.fixture
def logged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A table of two outlets, one of watt-hours, and phases, all from a start of their own."""
    monkeypatch.chdir(tmp_path)
    outlets = [f"{n};{50 + n % 3};0,1" for n in range(200)]
    (tmp_path / "pdu.csv").write_text("\n".join(["t;one [W];two [kW]", *outlets]))
    counts = [f"{n},{n / 10}" for n in range(200)]
    (tmp_path / "wh.csv").write_text("\n".join(["time,Energy [Wh]", *counts]))
    (tmp_path / "phases.csv").write_text("phase,start,end\nwrite,10,130\nlate,150,300\n")
    return tmp_path


def called(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["energy", *words])
    return int(ended.value.code or 0)


def test_the_command_tells_channels_and_their_total(
    logged: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert called("pdu.csv", "wh.csv", "--phases", "phases.csv", "--json") == 1
    told = json.loads(capsys.readouterr().out)
    write, late = told["phases"]
    assert (write["phase"], write["verdict"], late["verdict"]) == ("write", "VALID", "INVALID")
    energies = {label: own["energy_j"] for label, own in write["channels"].items()}
    assert energies == {
        "one [W]": pytest.approx(120 * 51, rel=1e-3),
        "two [kW]": pytest.approx(12_000),
        "wh": pytest.approx(12 * 3600),
    }
    assert write["total"]["energy_j"] == pytest.approx(sum(energies.values()))
    assert late["total"]["coverage"] == pytest.approx(50 / 150)
    assert called("pdu.csv", "wh.csv", "--phases", "phases.csv") == 1
    text = capsys.readouterr().out
    assert "INVALID: GAP: late: wh is silent for 101 s" in text
    assert "total" in text
    rows = {line.split()[0]: line for line in text.splitlines() if " total " in line}
    assert "(" not in rows["write"]
    assert "(76,6" in rows["late"]  # 51 W, 100 W and 360 W for 150 s
    assert "in brackets: energy and power of an INVALID phase" in text
    assert called("pdu.csv") == 0
    assert "(" not in capsys.readouterr().out


@pytest.mark.parametrize("above", ["", "Logger 3000\n", "Logger;made;by\nserial;123;x\n\n"])
def test_every_column_with_a_unit_of_power_is_found_below_what_stands_above(
    logged: Path, capsys: pytest.CaptureFixture[str], above: str
) -> None:
    """Of a file with lines above its header, only a column of a known name was found."""
    table = (logged / "pdu.csv").read_text().replace("one [W]", "power [W]")
    (logged / "pdu.csv").write_text(f"{above}{table}")
    assert called("pdu.csv", "--json") == 0
    (whole,) = json.loads(capsys.readouterr().out)["phases"]
    assert list(whole["channels"]) == ["power [W]", "two [kW]"]


def test_one_column_with_a_unit_of_power_needs_no_known_name(
    logged: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (logged / "pdu.csv").write_text("\n".join(["t;Load [kW]", *(f"{n};0,1" for n in range(200))]))
    for name in ("pdu.csv", "csv:pdu.csv"):
        assert called(name, "--json") == 0
        (whole,) = json.loads(capsys.readouterr().out)["phases"]
        assert whole["total"]["energy_j"] == pytest.approx(19_900)


def test_a_count_that_is_named_keeps_its_unit_beside_a_column_of_power(
    logged: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = (f"{n};1;{n / 10}" for n in range(200))
    (logged / "both.csv").write_text("\n".join(["t;load [W];E", *rows]))
    assert called("csv:both.csv?energy=E&unit=Wh", "--json") == 0
    (whole,) = json.loads(capsys.readouterr().out)["phases"]
    assert whole["total"]["energy_j"] == pytest.approx(19.9 * 3600)


def test_a_line_that_cannot_be_read_is_told(
    logged: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with (logged / "wh.csv").open("a") as file:
        file.write("\nx,y\n")
    assert called("wh.csv") == 0
    found = capsys.readouterr()
    assert 'one line could not be read: wh.csv:202: "x" is not a time' in found.err
    assert "whole" in found.out


def test_what_a_model_estimated_is_labelled_and_so_is_a_total_with_it(
    logged: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A total of an outlet and a model looked measured."""
    meters = ("csv:pdu.log", "estimate:/etc/model.toml")
    rows = (f"{meter},{n},{50 + n % 3}" for n in range(200) for meter in meters)
    (logged / "both.csv").write_text("\n".join(["meter,time,power_w", *rows]))
    assert called("both.csv") == 0
    rows_told = capsys.readouterr().out
    assert "estimate:/etc/model.toml, ESTIMATE" in rows_told
    assert "total, ESTIMATE" in rows_told
    assert "pdu.log, ESTIMATE" not in rows_told
    assert called("both.csv", "--json") == 0
    (whole,) = json.loads(capsys.readouterr().out)["phases"]
    assert whole["estimates"] == ["estimate:/etc/model.toml"]
    assert called("pdu.csv") == 0
    assert "ESTIMATE" not in capsys.readouterr().out


def test_what_was_logged_twice_counts_once(
    logged: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The energy was right; the samples and their mean were not."""
    assert called("wh.csv", "--json") == 0
    once = json.loads(capsys.readouterr().out)
    assert once["repeated_lines"] == {}
    head, *rows = (logged / "wh.csv").read_text().splitlines()
    (logged / "wh.csv").write_text("\n".join([head, *rows, *rows[50:90], ""]))
    assert called("wh.csv", "--json") == 0
    twice = json.loads(capsys.readouterr().out)
    assert twice["phases"] == once["phases"]
    assert twice["repeated_lines"] == {"wh": 40}
    assert called("wh.csv") == 0
    assert "wh: 40 lines have the time of another, of which" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "needs a file of recorded power"),
        (("nope.csv",), "nope.csv: cannot be read: No such file"),
        (("phases.csv",), "no column of time"),
        (("wh.csv", "wh.csv"), 'channel "wh" is named twice'),
        (("wh.csv", "--phases", "nope.csv"), "nope.csv: cannot be read"),
        (("wh.csv", "--phases-zone", "Mars"), '--phases-zone: zone "Mars" is not known'),
        (("csv:wh.csv?zone=Mars",), 'zone "Mars" is not known'),
        (("wh.csv", "--ends", "none"), "none"),
    ],
)
def test_what_cannot_be_used_is_said(
    logged: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], says: str
) -> None:
    assert called(*words) == 2
    assert says in capsys.readouterr().err


def test_a_column_that_is_the_sum_of_the_others_is_told(
    logged: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The total was twice what was drawn, without a word."""
    rows = (f"{n},{50 + n % 3},{20 + n % 2},{70 + n % 3 + n % 2}" for n in range(200))
    (logged / "pdu.csv").write_text("\n".join(["time,A [W],B [W],Total [W]", *rows]))
    assert called("pdu.csv") == 0
    assert "wattio: Total [W]: is the sum of the other channels" in capsys.readouterr().err
    assert called("pdu.csv", "--json") == 0
    assert json.loads(capsys.readouterr().out)["sum_of_others"] == "Total [W]"
    parts = [f"csv:pdu.csv?power={name}%20%5BW%5D" for name in "AB"]
    assert called(*parts) == 0
    assert "sum of" not in capsys.readouterr().err


def test_only_the_sum_of_all_others_is_one() -> None:
    ramp, level = channel(lambda t: 10 + t, TIMES), channel(lambda t: 50 + 0 * t, TIMES)
    both = channel(lambda t: 60 + t, TIMES)
    assert recorded.sum_of_others({"a": ramp, "b": level, "c": both}) == "c"
    assert recorded.sum_of_others({"c": both, "a": ramp, "b": level}) == "c"
    assert recorded.sum_of_others({"a": ramp, "b": level, "c": ramp}) is None
    assert recorded.sum_of_others({"a": level, "b": level}) is None
    late = channel(lambda t: 60 + t, TIMES[1:])
    assert recorded.sum_of_others({"a": ramp, "b": level, "c": late}) is None
    off = channel(lambda t: 0 * t, TIMES)
    assert recorded.sum_of_others({"a": off, "b": off, "c": off}) is None
