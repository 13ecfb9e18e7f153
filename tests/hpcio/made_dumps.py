"""Folders of dumps as writers leave them, with whatever a test wants to be wrong."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h5py
from numpy.typing import NDArray
from wattio.hpcio import dumps, parts
from wattio.hpcio.blocks import Block

JOB = "0123456789abcdef"


@dataclass
class Made:
    """Dumps of a job of so many writers; each writes for the rank of its number."""

    output: Path
    writers: int
    facts: dict[int, dict[int, list[dict[str, Any]]]] = field(default_factory=dict)

    def folder(self, step: int) -> Path:
        """Where parts of a dump are written."""
        found = self.output / (dumps.name(step) + dumps.PARTIAL)
        found.mkdir(parents=True, exist_ok=True)
        return found

    def part(self, step: int, process: int, *given: tuple[Block, NDArray[Any]]) -> None:
        """A writer's part of a dump; the last one makes it whole."""
        facts = []
        with h5py.File(self.folder(step) / f"part-{process:06}.h5", "w") as file:
            told = {"wattio_hpcio": parts.VERSION, "step": step, "process": process, "job": JOB}
            file.attrs.update(told)
            for block, data in given:
                dataset = file.create_dataset(parts.dataset_name(block), data=data)
                fact = {**block.as_json(), "crc32": parts.crc32(data)}
                known = {"global_shape", "offset", "crc32"} & fact.keys()
                dataset.attrs.update({key: fact[key] for key in known})
                facts.append(fact)
        self.note(step, process, blocks=facts)

    def note(
        self,
        step: int,
        process: int,
        *,
        blocks: Sequence[dict[str, Any]] = (),
        error: str | None = None,
        dropped: bool = False,
    ) -> None:
        """A writer's note."""
        folder = self.folder(step)
        ranks = list(range(self.writers))
        note = {"process": process, "ranks": [process], "blocks": list(blocks), "error": error}
        note |= {"dropped": dropped, "ranks_expected": ranks}
        (folder / f"part-{process:06}.json").write_text(json.dumps(note))
        if error is not None or dropped:
            for path in folder.glob("*.h5"):
                path.unlink()
            return
        known = self.facts.setdefault(step, {})
        known[process] = list(blocks)
        if len(known) < self.writers:
            return
        listed = [
            {"file": f"part-{one:06}.h5", "ranks": [one], "blocks": known[one]} for one in ranks
        ]
        manifest = {"wattio_hpcio": parts.VERSION, "step": step, "job": JOB, "approach": "dc:1"}
        manifest |= {"ranks": ranks, "parts": listed}
        for path in folder.glob("*.json"):
            path.unlink()
        (folder / dumps.MANIFEST).write_text(json.dumps(manifest))
        folder.rename(self.output / dumps.name(step))
