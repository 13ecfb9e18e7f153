"""`wattio trace pressure` and what is behind it, on a server whose saturated rate is known."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from places import ROOT, TRACES
from wattio.cli import main
from wattio.errors import Cancelled, InputError
from wattio.simulator.pressure import Pressure, Segment, measure, pattern_of, read_segments

SHIPPED = ROOT / "traces" / "pgbench.wtrace"
SEGMENT_S = 2.0
POSSIBLE_IOPS = 4000.0

# Four cores, each request takes 1 ms of one of them: at most 4000 requests a second.
SERVER = """
name = "four"
title = "four cores, a millisecond a request"
assumptions = []
rest_power = "0 W"
network = "0 s"
clients = 100
cache = { hit_random = 0.0, hit_sequential = 0.0 }
sizing = { reference = "8 KiB", core_share = 0.0 }
group = [{ name = "only", cores = 4, cores_min = 1 }]
path = [
  { kind = "read", stages = [{ on = { group = "only" }, time = "1 ms" }] },
  { kind = "write", stages = [{ on = { group = "only" }, time = "1 ms" }] },
]
[cores]
frequency_min = "1 GHz"
frequency_max = "1 GHz"
idle = "polling"
static_power = "1 W"
dynamic_power = "0 W"
frequency_bound_share = 1.0
gate_off = "0 s"
gate_on = "0 s"
migrate = "0 s"
frequency_change = "0 s"
time_variation = 0.0
"""


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def server(tmp_path: Path) -> str:
    path = tmp_path / "four.toml"
    path.write_text(SERVER)
    return str(path)


def trace_of(path: Path, rates_iops: Sequence[float]) -> Path:
    """A vscsi trace of `SEGMENT_S` at each rate, evenly spaced: random 8 KiB, half of it reads."""
    times = [
        round(1e6 * (at * SEGMENT_S + number / rate))
        for at, rate in enumerate(rates_iops)
        if rate > 0
        for number in range(round(rate * SEGMENT_S))
    ]
    names = ["sn", "bytes", "segments", "command", "version", "sector", "time_us"]
    kinds = ["<u4", "<u4", "<u4", "<u2", "<u2", "<u8", "<u8"]
    records = np.zeros(len(times), np.dtype(list(zip(names, kinds, strict=True))))
    records["bytes"] = 8192
    records["version"] = 0x0100
    records["command"] = np.where(np.arange(len(times)) % 2, 0x28, 0x2A)
    records["sector"] = np.arange(len(times)) * 1000
    records["time_us"] = times
    path.write_bytes(records.tobytes())
    return path


def run(*words: str | Path) -> int:
    with pytest.raises(SystemExit) as left:
        main([str(word) for word in words])
    return int(left.value.code or 0)


def test_pressure_of_a_known_server(tmp_path: Path, server: str) -> None:
    # A tenth, nothing, three quarters and twice of what is possible, a fifth at the end.
    trace = trace_of(tmp_path / "trace", [400, 0, 3000, 8000, 800])
    found = measure(read_segments(trace, SEGMENT_S), server, SEGMENT_S)
    pressures = [segment.pressure_percent for segment in found.segments]
    assert pressures == pytest.approx([10, 0, 75, 100, 20], rel=0.03)
    assert found.percent == pytest.approx((10 + 0 + 75 + 100 + 20) / 5, rel=0.02)
    assert found.segments[1].iops_possible is None
    assert found.segments[3].iops_mean == pytest.approx(8000, rel=0.01)
    assert found.segments[3].iops_achieved == pytest.approx(POSSIBLE_IOPS, rel=0.01)
    assert max(pressures) <= 100
    assert found.time_share_below(15) == pytest.approx(2 / 5, rel=0.01)
    assert found.percentile(0.5) == pytest.approx(20, rel=0.01)
    assert found.percentile(1.0) == pytest.approx(100)


def test_the_command_prints_rows_and_totals(
    tmp_path: Path, server: str, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = trace_of(tmp_path / "trace", [400, 0, 800])
    options = ("trace", "pressure", trace, "--server", server, "--segment", "2 s")
    assert run(*options, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["segments_total"], found["segments_empty"], found["clients"]) == (3, 1, 100)
    assert found["ios"] == 2400
    assert found["pressure_percent"] == pytest.approx(10, rel=0.01)
    assert [row["ios"] for row in found["segments"]] == [800, 0, 1600]
    assert found["segments"][0]["size_bytes"]["mean"] == 8192
    shares = {row["pressure_percent"]: row["share"] for row in found["time_share_below"]}
    assert shares[1.0] == pytest.approx(1 / 3, rel=0.01)
    assert shares[50.0] == pytest.approx(1)
    assert run(*options) == 0
    shown = capsys.readouterr().out
    for part in ("from", "0:00:02", "1 of them without requests", "under 10 %", "8 KiB"):
        assert part in shown


def test_the_shipped_trace(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("trace", "pressure", SHIPPED, "--segment", "30 s", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["segments_total"], found["segments_empty"]) == (9, 1)
    assert 0 < found["pressure_percent"] < 10
    assert found["span_s"] == pytest.approx(253.4, abs=0.1)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--segment", "0 s"], "1 ms"),
        (["--segment", "soon"], "--segment"),
        (["--segment", "1 ms"], "choose longer"),
        (["--server", "nowhere"], "unknown server"),
    ],
)
def test_bad_options_are_refused(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("trace", "pressure", SHIPPED, *words) == 2
    assert said in capsys.readouterr().err


def test_a_trace_without_a_rate_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = tmp_path / "one.csv"
    one.write_text("1,host,0,Read,4096,512,0\n")
    assert run("trace", "pressure", one) == 2
    assert "no rate" in capsys.readouterr().err
    none = tmp_path / "none.log"
    none.write_text("fio version 3 iolog\n0 a add\n")
    assert run("trace", "pressure", none) == 2
    assert "no requests" in capsys.readouterr().err


def test_a_damaged_trace_names_its_record(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cut = tmp_path / "cut.vscsi"
    cut.write_bytes((TRACES / "synthetic.vscsi").read_bytes()[:-5])
    assert run("trace", "pressure", cut) == 2
    assert "record 40" in capsys.readouterr().err


def test_requests_too_large_for_the_server_are_refused(tmp_path: Path) -> None:
    slow = tmp_path / "slow.toml"
    slow.write_text(SERVER.replace('time = "1 ms"', 'time = "10 s"'))
    found = read_segments(trace_of(tmp_path / "trace", [400]), SEGMENT_S)
    with pytest.raises(InputError, match="not one request of 8192 bytes"):
        measure(found, str(slow), SEGMENT_S)


def test_replaying_stops_when_asked(tmp_path: Path, server: str) -> None:
    found = read_segments(trace_of(tmp_path / "trace", [400, 800]), SEGMENT_S)
    with pytest.raises(Cancelled):
        measure(found, server, SEGMENT_S, lambda share: share == 0)


def test_a_mix_is_rounded_so_that_like_ones_meet() -> None:
    def segment(reads: float, size: float) -> dict[str, Any]:
        return {"read_share": reads, "random_share": 0.9951, "size_bytes": {"mean": size}}

    assert pattern_of(segment(0.701, 8190.0)) == pattern_of(segment(0.699, 8200.0))
    assert pattern_of(segment(0.7, 1.0)).io_bytes == 512


def test_uneven_segments_are_weighed_by_their_span() -> None:
    def segment(span_s: float, achieved: float, possible: float | None) -> Segment:
        percent = 100 * achieved / possible if possible else 0.0
        return Segment(0, span_s, 1, achieved, None, None, None, achieved, possible, percent)

    rows = (segment(3, 100, 1000), segment(1, 100, 200), segment(4, 0, None))
    found = Pressure("four", 100, 3, rows)
    assert found.percent == pytest.approx(100 * (300 + 100) / (3000 + 200) * 4 / 8)
    assert found.time_share_below(20) == pytest.approx(7 / 8)


@pytest.mark.skipif("WATTIO_TRACES" not in os.environ, reason="WATTIO_TRACES is not set")
@pytest.mark.parametrize(
    ("name", "segments", "empty"),
    [("cloudPhysicsIO.vscsi", 6, 0), ("tpcc-small.trace", 1, 0), ("ajw.1week.srt", 503, 78)],
)
def test_real_traces(name: str, segments: int, empty: int) -> None:
    path = Path(os.environ["WATTIO_TRACES"]) / name
    found = read_segments(path)
    assert (len(found), sum(one["ios"] == 0 for one in found)) == (segments, empty)
    result = measure(found[:5], "small")
    assert 0 < result.percent < 20


def test_no_requests_is_an_input_error(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.write_bytes(b"")
    with pytest.raises(InputError, match="empty"):
        read_segments(empty)
