"""Measured runs, as `wattio hpcio run --json` tells of them, for calibration and validation."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from wattio.errors import InputError, ResultError
from wattio.files.named import as_text, read_bytes
from wattio.models import approach
from wattio.models.approach import Approach, Resources, resources
from wattio.models.scenario import Application

APPLICATION = "miniapp"
"""What `wattio hpcio run` runs."""

RESULT = Path("run") / "result.json"
"""Where a run leaves its result within its folder."""

LINES = ".jsonl"
"""Ending of a file of many results, one on each line."""

_MOST = 10**12

WRITING_OPTIONS = ("compression", "sync", "aggregation", "checksum")
"""What must be the same of all runs of a platform that write: each changes how long that takes.

Buffers are not among them, nor what is done when they are full: a larger one shows in stalls, and
runs with dumps that were dropped or written through are not fitted to.
"""


@dataclass(frozen=True)
class Run:
    """A run: `cores` are the ranks of each node, `cells` those of the whole grid.

    `time_s` ends with the last step, as T_sim does; what is written after it is left out.
    `step_s` is a step without its dump, `write_s` and `blocked_s` are those of each dump's slowest
    rank, in the mean; `make_s` is making a dump's variables; `power_w` is that of all nodes;
    `core_share` is how much of a core each rank had where cores were slowed; `written_through` is
    how often a computing rank wrote by itself, as the buffer was full. What is not known is None.
    """

    source: str
    approach: Approach
    nodes: int
    cores: int
    cells: int
    steps: int
    output_every: int
    dumps: int
    dump_bytes: int
    time_s: float
    step_s: float
    write_s: float | None
    blocked_s: float | None
    power_w: float | None
    is_estimate: bool
    stalls: int
    is_whole: bool
    make_s: float | None = None
    core_share: float | None = None
    compression: str | None = None
    sync: bool | None = None
    aggregation: str | None = None
    checksum: bool | None = None
    written_through: int = 0

    @property
    def is_usable(self) -> bool:
        """Whether every dump was written, and by those who are to write by its approach."""
        return self.is_whole and not self.written_through

    @property
    def resources(self) -> Resources:
        """What computes and what writes."""
        return resources(self.approach, self.nodes, self.cores)

    @property
    def writes(self) -> bool:
        """Whether it wrote anything; a run that did not is a profile of computing."""
        return self.dumps > 0

    @property
    def application(self) -> Application:
        """As the models take it. Without dumps it has one after its last step, of no bytes."""
        every = self.output_every if self.writes else self.steps
        size = float(self.dump_bytes) if self.writes else 0.0
        return Application(APPLICATION, self.steps, every, size, self.cells)


def parse(text: str, source: str) -> Run:
    """The run in a JSON object. Raises ResultError for whatever is missing or impossible."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        raise ResultError(f"{source}: is not JSON") from None
    if not isinstance(content, dict):
        raise ResultError(f"{source}: is not a JSON object")
    try:
        return _run(content, source)
    except (KeyError, TypeError, ValueError, OverflowError, InputError) as error:
        what = f'lacks "{error.args[0]}"' if isinstance(error, KeyError) else str(error)
        raise ResultError(f"{source}: is not a result of `wattio hpcio run`: {what}") from None


def _run(content: dict[str, Any], source: str) -> Run:
    ranks, nodes = _count(content, "ranks"), _count(content, "nodes")
    grid = content["grid"]
    if not isinstance(grid, list) or len(grid) != 3:
        raise ValueError("grid: three numbers are needed")
    cells = math.prod(_count({"grid": size}, "grid") for size in grid)
    if nodes == 0 or ranks == 0 or ranks % nodes or cells == 0:
        raise ValueError(f"{ranks} ranks on {nodes} nodes, {cells} cells")
    dumps = _count(content, "dumps")
    steps, every = _count(content, "steps"), _count(content, "output_every")
    if steps == 0 or (dumps and not 0 < every <= steps):
        raise ValueError(f"{dumps} dumps, one every {every} of {steps} steps")
    dump_bytes = _count(content, "dump_bytes")
    if dumps and not dump_bytes:
        raise ValueError(f"{dumps} dumps of 0 B")
    power_w, is_estimate = _power(content.get("energy"))
    drain_s = _seconds(content, "drain_s") or 0.0
    run = Run(
        source=source,
        approach=approach.parse(str(content["approach"])),
        nodes=nodes,
        cores=ranks // nodes,
        cells=cells,
        steps=steps,
        output_every=every,
        dumps=dumps,
        dump_bytes=dump_bytes,
        time_s=_above_zero(content, "wall_s") - drain_s,
        step_s=_above_zero(content, "step_s_mean"),
        write_s=_seconds(content, "write_s_slowest_rank_mean"),
        blocked_s=_seconds(content, "blocked_s_slowest_rank_mean"),
        power_w=power_w,
        is_estimate=is_estimate,
        stalls=_count(content, "stalls"),
        is_whole=not content.get("errors") and _count(content, "drops") == 0,
        make_s=_make_s(content),
        core_share=_share(content, "core_share"),
        compression=_option(content, "compression", str),
        sync=_option(content, "sync", bool),
        aggregation=_option(content, "aggregation", str),
        checksum=_option(content, "checksum", bool),
        written_through=_count({"written_through": 0, **content}, "written_through"),
    )
    if run.time_s <= 0:
        raise ValueError("it took no time")
    if run.resources.nodes != nodes:
        raise ValueError(f"{run.approach} does not divide {nodes} nodes")
    return run


def _make_s(content: dict[str, Any]) -> float | None:
    """What a rank did for a dump while it did not wait."""
    dump_s, blocked_s = _seconds(content, "dump_s_mean"), _seconds(content, "blocked_s_mean")
    if dump_s is None or blocked_s is None:
        return None
    return max(0.0, dump_s - blocked_s)


def _count(content: dict[str, Any], name: str) -> int:
    value = content[name]
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _MOST:
        raise ValueError(f"{name}: {str(value)[:40]} is not a count")
    return value


def _seconds(content: dict[str, Any], name: str, unit: str = "seconds") -> float | None:
    value = content.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _MOST:
        raise ValueError(f"{name}: {str(value)[:40]} is not a number of {unit}")
    return float(value)


def _share(content: dict[str, Any], name: str) -> float | None:
    value = content.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1:
        raise ValueError(f"{name}: {str(value)[:40]} is not a share above 0 and up to 1")
    return float(value)


Option = TypeVar("Option", str, bool)


def _option(content: dict[str, Any], name: str, kind: type[Option]) -> Option | None:
    value = content.get(name)
    if value is not None and not isinstance(value, kind):
        raise ValueError(f"{name}: {str(value)[:40]} has the wrong type")
    return value


def _above_zero(content: dict[str, Any], name: str) -> float:
    value = _seconds(content, name)
    if value is None:
        raise KeyError(name)
    if value <= 0:
        raise ValueError(f"{name}: is not above 0")
    return value


def _power(energies: object) -> tuple[float | None, bool]:
    """Mean power by the first meter that measures, or else by the first estimate."""
    entries = (
        [entry for entry in energies if isinstance(entry, dict)]
        if (isinstance(energies, list))
        else []
    )
    for name, is_estimate in (("power_w_mean", False), ("estimated_power_w_mean", True)):
        for entry in entries:
            value = _seconds(entry, name, "watts")
            if value:
                return value, is_estimate
    return None, False


def largest(runs: Sequence[Run]) -> tuple[int, int]:
    """Nodes and ranks of each: the most that any run had."""
    return max(run.nodes for run in runs), max(run.cores for run in runs)


def read(folders: Iterable[Path]) -> list[Run]:
    """Runs of result files, of folders that `wattio hpcio run` wrote, and of folders of those.

    Raises ResultError for a folder without any, and for a file that is no result.
    """
    found: list[Run] = []
    for path in files(folders):
        text = _text(path)
        if path.suffix == LINES:
            found += [
                parse(line, f"{path}:{number}")
                for number, line in enumerate(text.splitlines(), start=1)
            ]
        else:
            found.append(parse(text, str(path)))
    return found


def files(folders: Iterable[Path]) -> list[Path]:
    """The result files that `read` reads. Raises ResultError for a folder without any."""
    found: list[Path] = []
    for folder in folders:
        paths = _results(folder)
        if not paths:
            raise ResultError(
                f"{folder}: holds no result; allowed: --out folders of `wattio hpcio run`, folders"
                " of them, and files of what --json prints (.jsonl: one on each line)"
            )
        found += paths
    return found


def _results(folder: Path) -> Sequence[Path]:
    if folder.is_file():
        return [folder]
    if (folder / RESULT).is_file():
        return [folder / RESULT]
    patterns = ("*.json", f"*{LINES}", str(Path("*") / RESULT))
    return sorted(path for pattern in patterns for path in folder.glob(pattern))


def _text(path: Path) -> str:
    try:
        return as_text(read_bytes(path), errors="replace")
    except OSError as error:
        raise ResultError(f"{path}: cannot be read: {error.strerror}") from error
