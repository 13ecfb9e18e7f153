"""What was read from a file that a benchmark left: its results, and what to know about them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from wattio.workloads.workload import Operation


@dataclass(frozen=True)
class Imported:
    """Results of one file; `notes` hold for all of them, `doubts` of an operation for it alone.

    `ranks` is how many there were, where it is told and the tool has any.
    """

    tool: str
    version: str
    operations: tuple[Operation, ...]
    notes: tuple[str, ...] = ()
    ranks: int | None = None

    def as_dict(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "tool": self.tool,
            "version": self.version,
            "operations": [one.as_dict() for one in self.operations],
            "notes": list(self.notes),
        }
