"""The benchmark of sampling measures what it says, at a size for a test."""

from __future__ import annotations

import sampling


def test_both_sides_take_the_readings_that_were_due() -> None:
    (line,) = sampling.lines(rounds=1, span_s=0.5)
    assert line.name == "recorder"
    assert line.goal is not None
    assert line.peer.median > 0
    assert line.ours.median > 0
