"""A platform: a campaign, and what it was measured on."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from wattio.kinds.measurement import comparable, platform_file
from wattio.kinds.measurement.comparable import Asked
from wattio.kinds.measurement.folder import MeasurementFolder
from wattio.kinds.measurement.platform_file import PlatformEntry
from wattio.results.summary import Row, rows


@dataclass(frozen=True)
class Platform:
    """A campaign and what it was measured on."""

    name: str
    folder: MeasurementFolder
    about: PlatformEntry

    @cached_property
    def study(self) -> dict[str, Any]:
        """Its study, with every default."""
        return self.folder.resolved()

    @cached_property
    def rows(self) -> dict[tuple[str, str], Row]:
        """Each phase of each run, by the names of both."""
        return {(row.run.name, row.phase): row for row in rows(self.folder.iterations())}

    @cached_property
    def asked(self) -> dict[str, Asked]:
        """What was asked, by the workload's name."""
        return comparable.of_study(self.study)

    @property
    def covered(self) -> list[str]:
        """The devices whose power is in its totals."""
        meters = [meter for meter in self.study["meter"] if meter.get("role") != "beside"]
        return sorted({device for meter in meters for device in meter["covers"]})

    @property
    def subtracted(self) -> list[str]:
        """The devices whose power is taken off in net figures."""
        return sorted({entry["device"] for entry in self.study.get("subtract", [])})


def platform(name: str | None, path: Path, told: PlatformEntry | None = None) -> Platform:
    """A platform of a result folder. Raises ResultError or InputError where it is none.

    `told` goes before what the study said. Without a name it is called as the study says, or after
    the study.
    """
    folder = MeasurementFolder(path)
    study = folder.resolved()
    own = platform_file.of_result(study.get("platform"))
    shown = name or (own.name if own else str(study["study"]["name"]))
    about = own or PlatformEntry(name=shown)
    if told is not None:
        about = about.model_copy(update=told.model_dump(exclude_unset=True))
    return Platform(shown, folder, about)
