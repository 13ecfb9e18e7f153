"""What a daemon of a `fixed` law left in its result folders, against a count of its own."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass
class Accounted:
    """The windows that count for a bound, over all result folders."""

    windows: int = 0
    over: int = 0
    requests: int = 0
    latency_us_sum: float = 0.0
    forced: int = 0
    """Windows at full speed, whatever the law said."""

    def __str__(self) -> str:
        mean_us = self.latency_us_sum / max(self.requests, 1)
        return (
            f"{self.windows} windows accounted, {self.over} over the bound, mean {mean_us:.0f} us"
            f" of {self.requests} requests; {self.forced} windows at full speed"
        )


def rows_of(folder: Path) -> Iterator[dict[str, Any]]:
    """The windows of a result folder. Of a daemon that was killed the last line may be torn."""
    text = (folder / "raw" / "windows.jsonl").read_text()
    for line in text.splitlines(keepends=True):
        if line.endswith("\n"):
            yield json.loads(line)


def check_records(results: Path, full: dict[str, Any], limit_us: float) -> Accounted:
    """No window in which full speed was forced for longer than one is narrow; bounds are right, and
    time goes on whatever the host's clock is set to.

    `full` is what a window says of the setting at full speed: of cores, and of frequency where it
    is turned.
    """
    found = Accounted()
    for folder in sorted(results.glob("*")):
        rows = list(rows_of(folder))
        for earlier, row in itertools.pairwise(rows):
            assert earlier["monotonic_ns"] < row["monotonic_ns"], row
            if earlier["forced"] is not None and row["forced"] is not None:
                assert {key: row[key] for key in full} == full, row
        found.forced += sum(row["forced"] is not None for row in rows)
        summary = folder / "raw" / "summary.json"
        if not summary.exists():
            continue
        counts = json.loads(summary.read_text())["counts"]
        if counts["windows"] != len(rows):
            # A reload begins the counts anew, and a kill loses what was on its way to the disk.
            continue
        # What was seen too late to be used is in the record all the same.
        used = [row for row in rows if row["forced"] is None]
        judged = [row for row in used if row["requests"] and row["latency_us_mean"]]
        over = sum(row["latency_us_mean"] > limit_us for row in judged)
        assert (counts["windows_bounded"], counts["violations"]) == (len(judged), over)
        found.windows += len(judged)
        found.over += over
        found.requests += sum(row["requests"] for row in judged)
        found.latency_us_sum += sum(row["requests"] * row["latency_us_mean"] for row in judged)
    assert found.windows > 0
    return found
