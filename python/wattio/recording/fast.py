"""Meters of the kernel that are read many times a second: sampled by the native module.

A reading through the interpreter costs several times what the kernel takes to answer it. The native
sampler adds to the same files; what happens to a meter is looked after here, and a meter that it
cannot read is taken back and waited for like any other.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

from wattio import _core
from wattio.meters.sample import HOST_POWER_W_MAX
from wattio.recording.loops import regain_apart
from wattio.recording.watch import Watched

FAST_S = 0.02
"""Up to this period the native module samples."""


def is_fast(period_s: float | None, group: Sequence[Watched]) -> bool:
    """Whether the native module can and should sample this group."""
    within = period_s is not None and period_s <= FAST_S
    return within and all(watched.native is not None for watched in group)


class FastGroup:
    """A group that the native module samples, from its making to `stop`."""

    def __init__(self, period_s: float, group: Sequence[Watched], stopped: threading.Event) -> None:
        """Begin to sample. Raises HostError."""
        self._period_s = period_s
        self._stopped = stopped
        self._group = list(group)
        self._missed = [0] * len(self._group)
        self._gone = [False] * len(self._group)
        meters = []
        for watched in self._group:
            assert watched.native is not None
            assert watched.facts is not None
            watched.file.flush()
            meters.append((watched.native, watched.file.path, watched.facts.counts_energy))
        self._sampler = _core.PowerSampler(meters, period_s, HOST_POWER_W_MAX)

    def look(self) -> None:
        """Now and then: pass on what happened."""
        for at, (newest_ns, missed, failure) in enumerate(self._sampler.fates()):
            watched = self._group[at]
            if self._gone[at]:
                continue
            watched.seen(newest_ns, missed - self._missed[at])
            self._missed[at] = missed
            if failure is not None:
                self._gone[at] = True
                watched.lose(failure)
                regain_apart(watched, self._period_s, self._stopped)

    def stop(self) -> None:
        """End; every record is in its file then."""
        self._sampler.stop()
        self.look()
