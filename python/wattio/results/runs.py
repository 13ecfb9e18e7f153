"""What a result is about: its runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Setting = float | int | bool | str
"""The value of one setting."""


@dataclass(frozen=True)
class Run:
    """One load under one policy; its iterations differ by seed and repetition only."""

    load: str
    server: str
    policy: str
    label: str
    settings: Mapping[str, Setting]
    plf: float
    sweep_of: str | None = None
    sweep_setting: str | None = None

    @property
    def name(self) -> str:
        """Load and label, as `wattio compare` takes them."""
        return f"{self.load}/{self.label}"
