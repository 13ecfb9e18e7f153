"""The benchmark of importing: awk and wattio find the same in the same log."""

from __future__ import annotations

import json

import importing
import pytest
from timing import BenchError


def test_peer_and_ours_read_the_same() -> None:
    found = list(importing.lines(rounds=1, entries=5000))
    assert [one.name for one in found] == ["import"]
    assert found[0].ours.median > 0


def test_a_difference_is_no_speed() -> None:
    told = {"operations": [{"operation": "read", "operations": 5, "latency_us": {"mean": 1.0}}]}
    ours = json.dumps(told).encode()
    importing.check(b"0 5 1000.0\n", ours)
    for awk in (b"0 4 1000.0\n", b"0 5 1100.0\n"):
        with pytest.raises(BenchError, match="different things"):
            importing.check(awk, ours)
