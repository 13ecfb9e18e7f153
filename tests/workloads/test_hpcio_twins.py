"""The mini-app's twins in C and Fortran: they write what Python's writes, and tell as much."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError
from wattio.errors import HostError, ResultError
from wattio.hpcio import library
from wattio.hpcio.assembly import fields
from wattio.hpcio.inspection import inspect
from wattio.miniapp.domain import VARIABLES
from wattio.workloads import hpcio_output, hpcio_twins
from wattio.workloads.hpcio import launch
from wattio.workloads.launchers import openmpi
from wattio.workloads.mpi_find import Found
from wattio.workloads.mpi_launch import RankOptions

from workloads.test_hpcio import EVERY, STEPS, context, options

SUMS = {"mass_kg": -1.0, "rest_mass_kg": 4e11, "warmth_k_m3": 2.0, "warmth_k_m4": 4.0}
SUMS |= {"water_kg": 3.0, "wind_m_s_max": 0.5}


def printed(**changed: object) -> str:
    """What two ranks and their writer print of three dumps, of which the second one failed."""
    compute = {"steps": 3, "bytes": 24, "blocked_s": 0.6, "stalls": 1, "dropped": [], "failed": [4]}
    writer = {"written": 2, "bytes": 32, "write_s": 0.5, "cpu_s": 0.25, "dropped": []}
    ranks = [
        {"rank": 0, "compute": compute, "writer": None},
        {"rank": 1, "compute": compute, "writer": None},
        {"rank": 2, "compute": None, "writer": {**writer, "failed": [[4, "the disk is full"]]}},
    ]
    plan = {"size": "tiny", "steps": 6, "output_every": 2, "scaling": "strong"}
    told = {"plan": {**plan, "variables": ["u"]}, "dump_bytes": 16, "ranks_per_node": 3}
    told |= {"domain": {"nx": 16, "ny": 16, "nz": 16, "spacing_m": 500.0}, "synced": True}
    content: dict[str, Any] = {
        **{"wattio_twin": 1, "host": "h", "boot": "b", "mpi": "MPI", "arrangement": [2, 1]},
        **{"model_step_s": 0.5, "start": [1, 1], "computed": [2, 2], "end": [3, 3]},
        "step_s": [[0.1] * 6, [0.2] * 6],
        "dump_s": [[0.3] * 3] * 2,
        "blocked_s": [[0.1, 0.2, 0.3], [0.3, 0.2, 0.1]],
        "cpu_s": [[1.0], [2.0]],
        "before": {**SUMS, "fingerprint": "00000000000000FF"},
        "after": {**SUMS, "fingerprint": "ffffffffffffffff"},
        "report": {"approach": "dc:1", "ranks": ranks},
        "told": told,
    }
    return json.dumps({**content, **changed})


def test_what_twins_print_is_a_report_as_of_python() -> None:
    found = hpcio_output.parse(f"wattio_step 3\n{printed()}\n")
    assert (found.ranks, found.computing, found.dumps, found.dumps_whole) == (3, 2, 3, 2)
    assert found.step_s.mean == pytest.approx(0.15)
    assert found.blocked_s.max == 0.3
    assert found.blocked_s_slowest.mean == pytest.approx((0.3 + 0.2 + 0.3) / 3)
    assert (found.cpu_s_computing, found.cpu_s_writing) == (3.0, 0.25)
    assert found.errors() == ["dump of step 4: the disk is full"]
    assert found.write_s_slowest_mean == 0.25
    assert (found.account.stalls, found.account.files, found.account.bytes) == (2, 2, 32)
    assert found.checks.after.fingerprint == 2**64 - 1


@pytest.mark.parametrize(
    "changed",
    [
        {"report": {"approach": "dc:1", "ranks": [{}]}},
        {"told": {}},
        {"blocked_s": [[0.1], [0.2]]},
        {"after": {**SUMS, "fingerprint": "none"}},
        {"step_s": None},
    ],
)
def test_what_is_no_report_is_told(changed: dict[str, object]) -> None:
    with pytest.raises(ResultError, match="damaged"):
        hpcio_output.parse(printed(**changed))


def test_compilers_are_those_beside_the_launcher(tmp_path: Path) -> None:
    """Debian's have the MPI's name behind them, where there are several."""
    for name in ("mpirun.mpich", "mpicc.mpich", "mpifort.mpich", "mpicc"):
        (tmp_path / name).touch(mode=0o755)

    def beside(name: str) -> list[str | None]:
        found = hpcio_twins.compilers(Found(str(tmp_path / name), None, openmpi))
        return [None if one is None else Path(one).name for one in found]

    assert beside("mpirun.mpich") == ["mpicc.mpich", "mpifort.mpich"]
    assert beside("mpirun") == ["mpicc", None]


def test_slow_cores_are_for_ranks_of_python() -> None:
    with pytest.raises(ValidationError, match="core_share is only for ranks of language"):
        options(language="c", core_share="20 %")


def test_a_missing_compiler_is_told(tmp_path: Path) -> None:
    (tmp_path / "mpirun").touch(mode=0o755)
    with pytest.raises(HostError, match="no MPI with a compiler of Fortran was found: apt"):
        hpcio_twins.built("fortran", RankOptions(mpirun=str(tmp_path / "mpirun")))


def test_what_a_compiler_says_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "mpirun").touch(mode=0o755)
    (tmp_path / "mpicc").write_text("#!/bin/sh\necho 'x.c:1: error: no such thing' >&2\nexit 1\n")
    (tmp_path / "mpicc").chmod(0o755)
    with pytest.raises(HostError, match=r"mpicc: x\.c:1: error: no such thing"):
        hpcio_twins.built("c", RankOptions(mpirun=str(tmp_path / "mpirun")))
    assert not list((tmp_path / "cache").rglob("miniapp/*"))
    assert (library.prefix() / "share" / "wattio_io" / "wattio_io_mpi.c").is_file()


@pytest.mark.system
@pytest.mark.parametrize("language", ["c", "fortran"])
@pytest.mark.parametrize(
    "given",
    [
        {"ranks": 3},
        {"ranks": 4, "approach": "dc:1", "ranks_per_node": 4},
        {"ranks": 4, "approach": "dn:1", "ranks_per_node": 2},
    ],
)
def test_twins_write_what_python_writes(
    tmp_path: Path, language: str, given: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the last bit of single precision, or nearly: powers of mathematics libraries differ."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "twin").mkdir()
    (tmp_path / "python").mkdir()
    twin = launch(options(**given, language=language), tmp_path / "a", context(tmp_path / "twin"))
    python = launch(options(**given), tmp_path / "b", context(tmp_path / "python"))
    assert twin.errors() == []
    assert (twin.ranks, twin.computing, twin.dumps) == (python.ranks, python.computing, 2)
    assert twin.account.bytes == python.account.bytes
    assert twin.account.files == python.account.files
    assert [dump.problems for dump in inspect(tmp_path / "a")] == [[], []]
    for step in (EVERY, STEPS):
        one, other = fields(tmp_path / "a", step), fields(tmp_path / "b", step)
        assert set(one) == set(other) == set(VARIABLES)
        for name, data in other.items():
            assert np.allclose(one[name], data, rtol=1e-5, atol=1e-5 * np.abs(data).max())
