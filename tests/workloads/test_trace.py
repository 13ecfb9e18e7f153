"""Replaying a trace: the iolog that fio gets, and a real replay at the trace's pace."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from wattio.errors import WorkloadFailed
from wattio.workloads import trace
from wattio.workloads.workload import Context, Place

TRACE = Path(__file__).parents[1] / "data" / "traces" / "synthetic.msr"


def test_times_are_never_zero_and_offsets_are_divided() -> None:
    lines = ["fio version 3 iolog\n", "0 a add\n", "0 a read 0 4096\n", "7 a write 81920 512\n"]
    assert list(trace.replayed(lines, 10)) == [
        "fio version 3 iolog\n",
        "1 a add\n",
        "1 a read 0 4096\n",
        "8 a write 8192 512\n",
    ]
    assert trace.extent(lines) == 1 << 20


@given(st.integers(0, 2**50), st.integers(1, 2**30), st.integers(1, 100))
def test_every_request_fits_into_the_file(offset: int, size: int, scale: int) -> None:
    (line,) = trace.replayed([f"0 a read {offset} {size}\n"], scale)
    words = line.split()
    assert int(words[3]) + int(words[4]) <= trace.extent([line])
    assert int(words[3]) <= offset


def test_how_the_trace_is_read_is_checked() -> None:
    columns = "time=0:s,op=1,lba=2:bytes,size=3:bytes"
    assert trace.Options(trace="a.csv", columns=columns).columns == columns
    with pytest.raises(ValidationError, match='"cvs" is not a trace format'):
        trace.Options(trace="a.csv", format="cvs")


def test_prepare_comes_first(tmp_path: Path) -> None:
    work = trace.Work(trace.Options(trace=str(TRACE)), tmp_path)
    assert work.steps() == ("replay",)
    with pytest.raises(WorkloadFailed, match="prepare comes before run"):
        work.run("replay", Context((Place(tmp_path),), tmp_path))


@pytest.mark.system
@pytest.mark.alone
@pytest.mark.skipif(shutil.which("fio") is None, reason="fio is not installed")
@pytest.mark.parametrize("as_fast", [False, True])
def test_a_replay_takes_as_long_as_the_trace(tmp_path: Path, as_fast: bool) -> None:
    options = trace.Options(trace=str(TRACE), time_scale=0.02, as_fast=as_fast)
    work = trace.Work(options, tmp_path)
    work.probe()
    (tmp_path / "raw").mkdir()
    (tmp_path / "place").mkdir()
    context = Context((Place(tmp_path / "place"),), tmp_path / "raw")
    work.prepare(context)
    (span,) = work.run("replay", context)
    found = {one.operation: one for one in trace.results(context.raw)}
    assert {name: one.operations for name, one in found.items()} == {"read": 30, "write": 10}
    if not as_fast:
        assert span.seconds >= 0.9  # 49.75 s, scaled
    work.clean(context)
    assert not list((tmp_path / "place").iterdir())
