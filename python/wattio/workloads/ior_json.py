"""IOR's JSON, read by its keys in their order: it is often no JSON.

Warnings and the words of `-v` stand in between, 3.2 closes its brackets in the wrong places, commas
trail, numbers are nan. The order of the keys is that of the run, in all versions: those of a test,
then its rows; what follows the first summary ("operation") repeats them.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from wattio.workloads.ior_text import VERSION, Report, Row, Run, count, number

_PAIR = re.compile(
    r'"(?P<key>[^"\\\n]{1,60})"\s*:\s*(?:"(?P<text>[^"\n]*)"|(?P<bare>[\w.+-]{1,400}))'
)
_ENVIRONMENT = re.compile(
    r"^STARTING ENVIRON LOOP$.*?^ENDING ENVIRON LOOP$", re.DOTALL | re.MULTILINE
)
_ACCESS = re.compile(r"[a-z]{1,20}")
_NUMBERS = {
    "totalTime": "seconds",
    "bwMiB": "mib_s",
    "iops": "iops",
    "blockKiB": "block_kib",
    "xferKiB": "transfer_kib",
}
_COUNTS = {"tasks": "tasks", "nodes": "nodes", "segmentCount": "segments"}


def is_json(output: str) -> bool:
    """Whether an output is meant to be JSON."""
    return '"tests"' in output and '"TestID"' in output


def read(output: str) -> Report:
    """Read what is there; no rows where there are none."""
    head: dict[str, str] = {}
    runs: list[Run] = []
    summed = False
    for pair in _PAIR.finditer(_ENVIRONMENT.sub("", output)):
        key, value = pair["key"], pair["text"] if pair["text"] is not None else pair["bare"]
        if key in ("Version", "Began", "Finished", "Command line"):
            head[key] = value
        elif key == "operation":
            summed = True
        elif key == "TestID" and not summed:
            runs.append(Run(number=count(value) or 0))
        elif runs and not summed:
            runs[-1] = _with(runs[-1], key, value)
    version = VERSION.search(output)
    return Report(
        head.get("Version") or (version[1] if version else "unknown"),
        head.get("Began"),
        head.get("Finished"),
        runs,
    )


def _with(run: Run, key: str, value: str) -> Run:
    """The test with what a key says of it, or of its last row."""
    if key == "access" and _ACCESS.fullmatch(value):
        return replace(run, rows=[*run.rows, Row(value)])
    if run.rows:
        if key not in _NUMBERS:
            return run
        told: dict[str, Any] = {_NUMBERS[key]: number(value)}
        return replace(run, rows=[*run.rows[:-1], replace(run.rows[-1], **told)])
    known = count(value)
    if key in _COUNTS:
        # 3.2 says 0 nodes where it has not counted them.
        counted: dict[str, Any] = {_COUNTS[key]: known} if known else {}
        return replace(run, **counted)
    match key:
        case "reorderTasks" | "reorderTasksRandom":
            return replace(run, shifted=bool(run.shifted or known))
        case "fsync" | "fsyncperwrite" | "useO_DIRECT":
            return replace(run, synced=bool(run.synced or known))
        case "deadlineForStonewall":
            return replace(run, stonewall=bool(known))
    return run
