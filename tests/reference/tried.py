"""Steps that overshot the bound are undone and not taken again for `retry_after`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from reference.limits import GroupLimits, GroupSetting

SAMPLES_MIN = 30.0
"""A floor stands for as long as so many samples take at least."""
COARSE = 0.1
"""A step that takes this share of a group's cores can overshoot."""


class Tried:
    """The last step down, and what is not gone below for now."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.last: tuple[Sequence[GroupSetting], Sequence[GroupSetting]] | None = None
        self.samples_since = 0
        self.span_s = 0.0
        self.cores: dict[int, tuple[int, float]] = {}
        self.f_shares: dict[int, tuple[float, float]] = {}

    def grow_older(self, dt_s: float) -> None:
        self.cores = {g: (n, s - dt_s) for g, (n, s) in self.cores.items() if s - dt_s > 0.0}
        self.f_shares = {g: (f, s - dt_s) for g, (f, s) in self.f_shares.items() if s - dt_s > 0.0}

    def ask(
        self, before: Sequence[GroupSetting], after: Sequence[GroupSetting], span_s: float
    ) -> None:
        """What a sample of `span_s` seconds made of the setting before."""
        self.span_s = span_s
        pairs = zip(before, after, strict=True)
        if any(a[0] < b[0] or a[1] < b[1] for b, a in pairs):
            self.last, self.samples_since = (before, after), 0
        else:
            self.samples_since += 1

    def blame(
        self, any_step: bool, limits: Sequence[GroupLimits], settings: Mapping[str, Any]
    ) -> str | None:
        """Whether a step down within the last `windows` + 1 samples before is "blamed" or "not".

        What it lowered is not lowered as far again: the frequency, on which every task bears, or
        else the cores of each group that lost a coarse part, or any where `any_step`.
        """
        if self.last is None or self.samples_since > settings["windows"] + 1:
            return None
        verdict = "not"
        (before, after), self.last = self.last, None
        left_s = max(settings["retry_after"], self.span_s * SAMPLES_MIN)
        slower = any(a[1] < b[1] for b, a in zip(before, after, strict=True))
        for at, (b, a) in enumerate(zip(before, after, strict=True)):
            if slower:
                self.f_shares[at] = (b[1] / limits[at].frequency_max, left_s)
                verdict = "blamed"
            elif a[0] < b[0] and (any_step or a[0] <= b[0] * (1.0 - COARSE)):
                self.cores[at] = (b[0], left_s)
                verdict = "blamed"
        return verdict

    def cores_floor(self, group: int) -> int:
        return self.cores.get(group, (0, 0.0))[0]

    def f_floor(self) -> float:
        return max([0.0, *(share for share, _ in self.f_shares.values())])
