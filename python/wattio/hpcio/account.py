"""What became of each dump: how long ranks were blocked, what was stalled, dropped or failed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Role = Literal["compute", "writer"]


@dataclass(slots=True)
class DumpRecord:
    """One dump as one rank saw it."""

    step: int
    bytes: int = 0
    """What the rank handed over, or the writer wrote."""

    blocked_s: float = 0.0
    """How long the simulation waited in `allocate` and `end_dump`."""

    write_s: float = 0.0
    """How long this rank's writer took to write its file."""

    files: int = 0
    dropped: bool = False
    error: str | None = None


@dataclass
class RankAccount:
    """The dumps of one rank, in their order, and its time from `start` to `close`."""

    rank: int
    node: int
    role: Role
    dumps: list[DumpRecord] = field(default_factory=list)
    stalls: int = 0
    """How often the rank waited because the buffer was full."""

    wall_s: float = 0.0
    cpu_s: float = 0.0
    writer_cpu_s: float = 0.0
    """Processor time of the writer that the rank has started."""


def settle(own: RankAccount, report: Mapping[str, Any], reasons: Mapping[int, str]) -> None:
    """Take over what the library reports of a rank at its end: what became of each dump.

    `reasons` tell why dumps failed, by their steps.
    """
    if (computed := report.get("compute")) is not None:
        own.stalls = computed["stalls"]
        _mark(own, computed["dropped"], computed["failed"], reasons)
    if (writer := report.get("writer")) is None:
        return
    own.writer_cpu_s = writer["cpu_s"]
    if own.role == "writer":
        steps = {*(one["step"] for one in writer.get("dumps", [])), *writer["dropped"]}
        steps |= {step for step, _ in writer["failed"]}
        own.dumps = [DumpRecord(step) for step in sorted(steps)]
        _mark(own, writer["dropped"], [step for step, _ in writer["failed"]], reasons)
    records = {dump.step: dump for dump in own.dumps}
    for one in writer.get("dumps", []):
        if (record := records.get(one["step"])) is not None:
            record.bytes, record.write_s, record.files = one["bytes"], one["write_s"], 1


def _mark(
    own: RankAccount, dropped: Iterable[int], failed: Iterable[int], reasons: Mapping[int, str]
) -> None:
    given_up, lost = set(dropped), set(failed)
    for dump in own.dumps:
        dump.dropped = dump.step in given_up
        if dump.step in lost:
            dump.error = reasons.get(dump.step, "it did not reach its file")


@dataclass
class Account:
    """The ranks' accounts: of all of them on the first rank, elsewhere of one's own."""

    approach: str
    ranks: list[RankAccount]

    def _dumps(self, role: Role | None = None) -> Iterator[DumpRecord]:
        for rank in self.ranks:
            if role is None or rank.role == role:
                yield from rank.dumps

    @property
    def steps(self) -> list[int]:
        """The steps of the dumps, ascending."""
        return sorted({dump.step for dump in self._dumps()})

    @property
    def blocked_s(self) -> list[float]:
        """Seconds that a computing rank was blocked: one value for each rank and dump."""
        return [dump.blocked_s for dump in self._dumps("compute")]

    @property
    def stalls(self) -> int:
        """How often a rank waited because the buffer was full."""
        return sum(rank.stalls for rank in self.ranks)

    @property
    def dropped(self) -> list[int]:
        """Steps of dumps of which any part was dropped."""
        return sorted({dump.step for dump in self._dumps() if dump.dropped})

    @property
    def drops(self) -> int:
        """How many dumps were dropped."""
        return len(self.dropped)

    @property
    def bytes(self) -> int:
        """Data of whole dumps, without what HDF5 adds or compression takes."""
        return sum(dump.bytes for dump in self._whole() if dump.files)

    @property
    def files(self) -> int:
        """Data files of whole dumps."""
        return sum(dump.files for dump in self._whole())

    def _whole(self) -> list[DumpRecord]:
        """The dumps of which no part was dropped or failed: parts of others are of no use."""
        lost = {*self.dropped, *self.errors}
        return [dump for dump in self._dumps() if dump.step not in lost]

    @property
    def errors(self) -> dict[int, list[str]]:
        """Errors by the step of their dump, each told once."""
        found: dict[int, list[str]] = {}
        for dump in self._dumps():
            if dump.error is not None and dump.error not in found.setdefault(dump.step, []):
                found[dump.step].append(dump.error)
        return {step: found[step] for step in sorted(found)}

    def cpu_s(self, role: Role) -> float:
        """Processor time of all ranks of a role; writers that ranks have started are writers."""
        found = sum(rank.cpu_s for rank in self.ranks if rank.role == role)
        if role == "writer":
            found += sum(rank.writer_cpu_s for rank in self.ranks)
        return found

    def as_json(self) -> dict[str, Any]:
        """The account as plain data."""
        return {
            "approach": self.approach,
            "dumps": len(self.steps),
            "stalls": self.stalls,
            "drops": self.drops,
            "dropped": self.dropped,
            "bytes": self.bytes,
            "files": self.files,
            "errors": {str(step): texts for step, texts in self.errors.items()},
            "cpu_s": {"compute": self.cpu_s("compute"), "writers": self.cpu_s("writer")},
            "ranks": [asdict(rank) for rank in self.ranks],
        }
