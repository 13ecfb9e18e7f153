"""SimGrid itself, where it is installed: it finds what was recorded, and what hands work out."""

from __future__ import annotations

import subprocess

import pytest
from wattio.errors import ResultError

from validation.io.simgrid import __main__ as command
from validation.io.simgrid import cases, rows
from validation.io.simgrid.cases import Case
from validation.io.simgrid.rows import OUTSIDE


def has_simgrid() -> bool:
    try:
        return subprocess.run([command.PYTHON, "-c", "import simgrid"]).returncode == 0
    except OSError:
        return False


pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(not has_simgrid(), reason="needs Debian's python3-simgrid"),
]


def small(approach: str, polls: bool = True) -> Case:
    return next(
        case
        for case in cases.cases()
        if (case.place, str(case.approach), case.polls) == ("four nodes", approach, polls)
    )


def test_simgrid_finds_what_was_recorded() -> None:
    """The record is of the program as it stands."""
    asked = cases.cases()
    found = command.check(asked)
    assert OUTSIDE not in {row.outcome for row in found}
    for row, kept in zip(found, rows.recorded(asked), strict=True):
        for name in rows.QUANTITIES:
            assert row.answer[name] == pytest.approx(kept.answer[name], rel=1e-9)


@pytest.mark.parametrize("approach", ["tp", "dc:1", "dn:3"])
def test_slower_storage_on_simgrid_s_side_is_outside(approach: str) -> None:
    case = small(approach)
    slower = {**case.simulated(), "storage_bytes_s": 0.95 * case.values["storage_bytes_s"]}
    assert rows.compare(case, command.simulate(slower)).outcome == OUTSIDE


def test_a_run_by_hand() -> None:
    """One node of two cores without Amdahl's share: 4 s of computing, 3 s of writing, three times.

    Two writers share 100 MB/s; a node that waits asleep draws 100 W of 200 W.
    """
    asked = small("tp", polls=False).simulated() | {
        **{"nodes": 1, "cores": 2, "dumps": 3, "steps": 4, "base_s": 2.0, "cores_sigma": 0.0},
        **{"dump_bytes": 300e6, "storage_bytes_s": 100e6, "client_bytes_s": 80e6},
        "latency_s": 0.0,
    }
    found = command.simulate(asked)
    assert found["time_s"] == pytest.approx(3 * 7)
    assert found["energy_j"] == pytest.approx(3 * (4 * 200 + 3 * 100))
    assert found["period_s"] == pytest.approx(7)
    # Each of two writers gives 40 MB/s at most: 3.75 s.
    slow = command.simulate(asked | {"client_bytes_s": 40e6})
    assert slow["time_s"] == pytest.approx(3 * 7.75)
    # Half as fast with a writer beyond the first.
    crowded = command.simulate(asked | {"contention": 1.0, "free_writers": 1.0})
    assert crowded["time_s"] == pytest.approx(3 * 10)


def test_a_run_that_cannot_be_is_refused() -> None:
    asked = small("tp").simulated()
    for wrong, word in (({"dumps": 2}, "dumps: 2"), ({"speed": 1}, "speed")):
        with pytest.raises(ResultError, match=word):
            command.simulate(asked | wrong)
