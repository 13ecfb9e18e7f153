"""The sweep over a host of known coefficients that has every knob; and its end by `kill -9`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fuse.mount import let_run, missing, mounted
from fuse.processors import CPU
from wattio.calibration import host as hosts
from wattio.calibration.fit import Fitted, fit

from calibration.loaded_host import tree
from calibration.made import TRUE_W
from calibration.sweep_tree import DESIGN, sweep

pytestmark = [pytest.mark.system, pytest.mark.alone]

END_S = 60.0
KNOBS = (f"{CPU}/online", *(f"{CPU}/cpufreq/policy{at}/scaling_max_freq" for at in (0, 1)))


@pytest.fixture
def root() -> Iterator[Path]:
    if lacking := missing():
        pytest.skip(lacking)
    with mounted(tree(TRUE_W)) as root:
        let_run(root)
        yield root


def said(root: Path) -> list[str]:
    return [(root / path).read_text().strip() for path in KNOBS]


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + END_S
    while not true():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.01)


def test_the_host_says_what_can_be_swept(root: Path) -> None:
    host = hosts.look(root)
    assert host.lacks == {}
    assert host.frequencies_hz == (0.8e9, 1.0e9, 1.8e9, 2.6e9, 3.0e9)
    assert host.frequencies_default() == (0.8e9, 1.0e9, 2.6e9, 3.0e9)
    assert host.cores_default() == (1, 2, 4)
    assert host.frequency_max_hz == 3.0e9


def test_every_coefficient_is_found_and_the_host_is_as_before(root: Path, tmp_path: Path) -> None:
    before = said(root)
    found = fit(sweep(root, tmp_path / "data"), 0.05)
    assert len(found.points) == len(DESIGN.settings())
    assert found.r_squared > 0.9999
    for name in ("rest", "core", "core_frequency", "busy", "busy_frequency"):
        coefficient = found.coefficients[name]
        assert isinstance(coefficient, Fitted), name
        assert coefficient.watts == pytest.approx(TRUE_W[name], abs=0.05), name
    assert said(root) == before


def test_a_killed_sweep_leaves_the_host_as_before(root: Path, tmp_path: Path) -> None:
    before = said(root)
    process = subprocess.Popen(
        [sys.executable, "-m", "calibration.sweep_tree", str(root), str(tmp_path / "data")],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
    )
    until(lambda: (root / CPU / "online").read_text().strip() == "0")
    process.send_signal(signal.SIGKILL)
    process.wait()
    # A policy without processors refuses to be read: their list comes first.
    until(lambda: (root / CPU / "online").read_text().strip() == before[0])
    until(lambda: said(root) == before)
