"""Which loads are asked of a target, and in which order."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass

from wattio.calibration.target.governed import LAWS
from wattio.calibration.target.governed import SHARES as GOVERNED_SHARES
from wattio.calibration.target.points import DURABLE, MISS, MIX, READ, WRITE

SMALL, LARGE = 4096, 65536
"""Sizes of requests, in bytes."""

SHARES: Mapping[tuple[str, int], tuple[float, ...]] = {
    (READ, SMALL): (0.01, 0.03, 0.1, 0.3, 0.5, 0.7),
    (READ, LARGE): (0.02, 0.1, 0.4),
    (WRITE, SMALL): (0.05, 0.2, 0.4),
    (WRITE, LARGE): (0.05, 0.2),
    (MISS, SMALL): (0.05, 0.2, 0.5),
    (MISS, LARGE): (0.05, 0.3),
    (DURABLE, SMALL): (0.05, 0.3),
    (DURABLE, LARGE): (0.1,),
}
"""Rates of each kind and size, as shares of what a client reaches at depth 32."""

COMPARED = (0.05, 0.2, 0.4, 0.6, 0.8)
"""Rates that are simulated and held against the target: none of those that are fitted to."""
READ_SHARE = {READ: 1.0, MISS: 1.0, WRITE: 0.0, DURABLE: 0.0, MIX: 0.7}

_WRITTEN_BYTES_MOST = 128 << 20
"""What a load may write: it is made beforehand, in memory."""
_START_S = 3.0
_SATURATION_S = 2.0


@dataclass(frozen=True)
class Load:
    """Requests of a kind and size at a share of what can be reached.

    `held_out`: for the comparison, and not for the fit.
    """

    kind: str
    size_bytes: int
    share: float
    held_out: bool = False

    @property
    def of_device(self) -> bool:
        """Whether it is asked of a server that keeps nothing in memory."""
        return self.kind in (MISS, DURABLE)

    @property
    def name(self) -> str:
        """As it is printed."""
        what = f"{self.kind} {self.size_bytes // 1024} KiB at {self.share:.0%} of saturation"
        return f"{what}, for comparison" if self.held_out else what


@dataclass(frozen=True)
class Design:
    """What is asked, each load for `measure_s`, each repetition in an order of its own.

    Laws are given each of their loads for `governed_s`, with reactors that do `governed_idle`.
    """

    measure_s: float
    repeat: int
    seed: int
    buffered: bool
    compared: bool
    governed_s: float = 0.0
    governed_idle: str = "block"

    def saturated(self) -> list[tuple[str, int]]:
        """Kinds and sizes whose saturation has to be known, in the order of the servers."""
        return list(dict.fromkeys((load.kind, load.size_bytes) for load in self._once()))

    def loads(self, of_device: bool) -> list[list[Load]]:
        """For each repetition, the loads of one of the two servers."""
        drawn = random.Random(self.seed)  # noqa: S311 (an order, no secret)
        once = [load for load in self._once() if load.of_device == of_device]
        return [drawn.sample(once, len(once)) for _ in range(self.repeat)]

    def _once(self) -> list[Load]:
        fitted = [
            Load(kind, size, share)
            for (kind, size), shares in SHARES.items()
            for share in shares
            if self.buffered or kind != WRITE
        ]
        if not self.compared:
            return fitted
        mix = (READ, MIX) if self.buffered else (READ,)
        return fitted + [Load(kind, SMALL, share, True) for kind in mix for share in COMPARED]

    @property
    def count(self) -> int:
        """How many points there are."""
        return len(self._once()) * self.repeat

    @property
    def seconds(self) -> float:
        """How long it takes, about."""
        laws_s = len(LAWS) * len(GOVERNED_SHARES) * (self.governed_s + _START_S)
        asked_s = laws_s if self.governed_s else 0.0
        return (
            asked_s
            + 2 * _START_S
            + len(self.saturated()) * _SATURATION_S
            + self.count * self.measure_s
        )

    def requests(self, load: Load, rate_per_s: float) -> int:
        """How many requests a load of some rate has."""
        wanted = max(round(rate_per_s * self.measure_s), 20)
        writes = 1 - READ_SHARE[load.kind]
        if writes == 0:
            return wanted
        return min(wanted, round(_WRITTEN_BYTES_MOST / load.size_bytes / writes))
