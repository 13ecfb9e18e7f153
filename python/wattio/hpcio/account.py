"""What became of each dump: how long ranks were blocked, what was stalled, dropped or failed."""

from __future__ import annotations

from collections.abc import Iterator
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

    stalled: bool = False
    """Whether it waited because the buffer was full."""

    write_s: float = 0.0
    """How long this rank took to write its file, or its part of one with the others."""

    files: int = 0
    shares_file: bool = False
    """Whether its data are in a file for all; one rank counts it among its files."""

    dropped: bool = False
    written_through: bool = False
    error: str | None = None


@dataclass
class RankAccount:
    """The dumps of one rank, in their order, and its time from `start` to `close`."""

    rank: int
    node: int
    role: Role
    dumps: list[DumpRecord] = field(default_factory=list)
    wall_s: float = 0.0
    cpu_s: float = 0.0


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
        return sum(dump.stalled for dump in self._dumps("compute"))

    @property
    def dropped(self) -> list[int]:
        """Steps of dumps of which any part was dropped."""
        return sorted({dump.step for dump in self._dumps() if dump.dropped})

    @property
    def drops(self) -> int:
        """How many dumps were dropped."""
        return len(self.dropped)

    @property
    def written_through(self) -> int:
        """How often a rank wrote by itself because the buffer was full."""
        return sum(dump.written_through for dump in self._dumps("compute"))

    @property
    def bytes(self) -> int:
        """Data of whole dumps, without what HDF5 adds or compression takes."""
        return sum(dump.bytes for dump in self._whole() if dump.files or dump.shares_file)

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

    def fail(self, step: int, error: str) -> None:
        """Note an error of a dump that no rank has told."""
        for dump in self._dumps():
            if dump.step == step:
                dump.error = error
                return

    def cpu_s(self, role: Role) -> float:
        """Processor time of all ranks of a role."""
        return sum(rank.cpu_s for rank in self.ranks if rank.role == role)

    def as_json(self) -> dict[str, Any]:
        """The account as plain data."""
        return {
            "approach": self.approach,
            "dumps": len(self.steps),
            "stalls": self.stalls,
            "drops": self.drops,
            "dropped": self.dropped,
            "written_through": self.written_through,
            "bytes": self.bytes,
            "files": self.files,
            "errors": {str(step): texts for step, texts in self.errors.items()},
            "cpu_s": {"compute": self.cpu_s("compute"), "writers": self.cpu_s("writer")},
            "ranks": [asdict(rank) for rank in self.ranks],
        }
