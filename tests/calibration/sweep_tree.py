"""A sweep over a tree, also as a process to kill: `python -m calibration.sweep_tree ROOT DATA`."""

from __future__ import annotations

import sys
from pathlib import Path

from wattio.calibration import host as hosts
from wattio.calibration import sweep as sweeping
from wattio.calibration.design import Design, Setting
from wattio.calibration.folder import DataFolder
from wattio.calibration.points import Point
from wattio.recording import Recorder, Source

from calibration.loaded_host import METER, TreeLoads

DESIGN = Design(
    frequencies_hz=(0.8e9, 1.8e9, 3e9),
    cores=(1, 4),
    loads=(0.0, 1.0),
    with_io=False,
    repeat=1,
    seed=1,
    settle_s=0.2,
    measure_s=0.3,
)
FREQUENCY_MAX_HZ = 3e9


class Silent:
    """Tells nobody."""

    def begun(self, setting: Setting) -> None: ...

    def ended(self, point: Point, trouble: str | None) -> None:
        assert trouble is None, trouble


def sweep(root: Path, folder: Path) -> list[Point]:
    """Visit every setting of `DESIGN`; old values of knobs lie beside the data meanwhile."""
    data = DataFolder(folder)
    data.create()
    (data.path / "points.csv").touch()
    source = Source("meter", f"{METER}?root={root}")
    with Recorder([source], data.recording) as recorder:
        facts = recorder.start()
        return sweeping.sweep(
            hosts.look(root),
            DESIGN,
            recorder,
            facts,
            sweeping.Place(data, snapshot=folder / "knobs" / "snapshot.json"),
            FREQUENCY_MAX_HZ,
            Silent(),
            loads=TreeLoads(root),
        )


if __name__ == "__main__":
    sweep(Path(sys.argv[1]), Path(sys.argv[2]))
