"""Running one program after another on some host, for what it says."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from wattio.errors import WorkloadFailed
from wattio.peak.hosts import Host
from wattio.workloads import processes
from wattio.workloads.processes import Program

OUTPUT_BYTES_MAX = 64 * 1024**2
"""More than any of the programs says."""


@dataclass
class Programs:
    """Runs programs; their output stays in the scratch folder, numbered in their order."""

    scratch: Path
    cancelled: threading.Event
    _count: int = 0

    def program(self, host: Host, words: Sequence[str]) -> Program:
        """A program with output files of its own."""
        self._count += 1
        stem = f"{self._count:03}-{words[0]}"
        return Program(
            host.arguments(tuple(words)),
            self.scratch / f"{stem}.out",
            self.scratch / f"{stem}.err",
        )

    def say(
        self,
        host: Host,
        words: Sequence[str],
        *,
        success: Sequence[int] = (0,),
        even_cancelled: bool = False,
    ) -> str:
        """What a program says on a host when it has ended.

        Raises WorkloadFailed where it ends with another code, or says too much; Cancelled when the
        work was stopped, but for what runs `even_cancelled`.
        """
        program = self.program(host, words)
        stop = threading.Event() if even_cancelled else self.cancelled
        processes.run_all([program], stop, success=success)
        if program.out.stat().st_size > OUTPUT_BYTES_MAX:
            raise WorkloadFailed(f"{words[0]} printed more than {OUTPUT_BYTES_MAX} bytes")
        return program.out.read_text(encoding="utf-8", errors="replace")
