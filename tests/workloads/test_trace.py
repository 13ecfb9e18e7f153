"""Replaying a trace: the iolog that fio gets, and a real replay at the trace's pace."""

from __future__ import annotations

import shutil
from contextlib import nullcontext
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from wattio.errors import HostError, WorkloadFailed
from wattio.workloads import processes, trace
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


@pytest.mark.parametrize(
    ("version", "is_new"),
    [
        *(("fio-3.31", True), ("fio-3.33-12-gabc", True), ("fio-4.0", True)),
        *(("fio-3.30", False), ("fio-3.4", False), ("fio-2.99", False), (None, False)),
    ],
)
def test_a_fio_that_cannot_replay_by_times_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str | None, is_new: bool
) -> None:
    """An older one was taken, and failed in the step: it does not know iologs of version 3."""
    monkeypatch.setattr(processes, "find", lambda *_: "fio")
    monkeypatch.setattr(processes, "first_line", lambda _: version)
    work = trace.Work(trace.Options(trace=str(TRACE)), tmp_path)
    told = f"fio 3.31 or newer is needed to replay a trace by its times; this is {version or '.'}"
    with nullcontext() if is_new else pytest.raises(HostError, match=told):
        work.probe()


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
