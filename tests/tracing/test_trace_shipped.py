"""The trace in the tree is what its note says."""

import json

import pytest
from places import ROOT
from wattio import _core

FILE = ROOT / "traces" / "pgbench.wtrace"


def test_the_shipped_trace_is_what_its_note_says() -> None:
    found = json.loads(_core.trace_info(str(FILE)))
    assert (found["format"], found["ios"], found["devices"]) == ("wtrace", 107_981, 1)
    assert found["span_s"] == pytest.approx(253.4, abs=0.05)
    assert found["read_share"] == pytest.approx(0.497, abs=0.0005)
    assert found["rate_per_s"]["max"] == 7_742
    assert found["idle_gaps"]["count"] == 1
    assert found["idle_gaps"]["longest_s"] == pytest.approx(60.8, abs=0.05)


def test_the_shipped_trace_is_small() -> None:
    assert FILE.stat().st_size < 2_000_000
