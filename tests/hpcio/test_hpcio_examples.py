"""The middleware from C, Fortran and Python: examples/hpcio, built and run."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from wattio.hpcio.assembly import assemble, fields
from wattio.hpcio.inspection import inspect
from wattio.workloads import mpi_launch

from hpcio import launching
from hpcio.launching import comes, environment
from hpcio.test_hpcio_failures import children
from hpcio.waiting import runs, until

EXAMPLES = Path(__file__).parents[2] / "examples" / "hpcio"
SHAPE = (37, 20)
STEPS = [0, 10, 20, 30]
BUILDS_S = 300.0

LAYOUTS = {
    "tp": (4, 'approach = "tp"'),
    "dc:1": (5, 'approach = "dc"\nwriters = 1\nranks_per_node = 3'),
    "dn:1": (6, 'approach = "dn"\nratio = 1\nranks_per_node = 3'),
}
"""Ranks, and what is said of who writes: three computing ranks or four, of uneven shares."""

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the examples, built with this Python environment."""
    for program in ("make", "cc", "gfortran"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    if not (Path(sysconfig.get_path("include")) / "Python.h").exists():
        pytest.skip("Python's headers are not installed")
    place = tmp_path_factory.mktemp("examples") / "hpcio"
    shutil.copytree(EXAMPLES, place, ignore=shutil.ignore_patterns("*.o", "*.mod", "advect_[cf]"))
    make(place, "all")
    return place


def make(place: Path, target: str) -> None:
    line = ["make", "-C", str(place), f"PYTHON={sys.executable}", target]
    subprocess.run(line, check=True, timeout=BUILDS_S)


def line(program: str, ranks: int, *arguments: object) -> list[str]:
    """The command line of a program in so many ranks."""
    launcher = mpi_launch.launcher(mpi_launch.RankOptions())
    assert launcher is not None
    start = [launcher.path, "-np", str(ranks), "--oversubscribe", "--bind-to", "none"]
    return [*start, program, *map(str, arguments)]


def launch(
    programs: Path, language: str, ranks: int, *arguments: object
) -> subprocess.CompletedProcess[str]:
    program = str(programs / f"advect_{language}")
    if language == "python":
        program, arguments = sys.executable, ("-m", "mpi4py", programs / "advect.py", *arguments)
    return launching.run(line(program, ranks, *arguments))


def write_config(path: Path, text: str) -> Path:
    """A configuration whose dumps lie beside it."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(f'[hpcio]\n{text}\noutput = "{path.parent / "dumps"}"\n')
    return path


def field(step: int) -> NDArray[np.float64]:
    first = 0.5 * np.arange(float(np.prod(SHAPE))).reshape(SHAPE)
    return first[(np.arange(SHAPE[0]) - step) % SHAPE[0]]


@pytest.mark.parametrize("approach", LAYOUTS)
def test_all_languages_write_the_same_fields(programs: Path, tmp_path: Path, approach: str) -> None:
    ranks, text = LAYOUTS[approach]
    files: dict[int, set[bytes]] = {}
    for language in ("c", "f", "python"):
        config = write_config(tmp_path / language / "hpcio.toml", text)
        done = launch(programs, language, ranks, config, STEPS[-1], 10)
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith(f'{{"approach": "{approach}", "dumps": {len(STEPS)}, ')
        output = config.parent / "dumps"
        found = inspect(output)
        assert [dump.step for dump in found] == STEPS
        assert all(dump.whole and not dump.problems for dump in found)
        for step in STEPS:
            assembled = fields(output, step)
            assert list(assembled) == ["u"]
            assert assembled["u"].dtype == np.float64
            assert np.array_equal(assembled["u"], field(step))
            assemble(output, step, config.parent / "whole.h5")
            files.setdefault(step, set()).add((config.parent / "whole.h5").read_bytes())
    assert {step: len(contents) for step, contents in files.items()} == dict.fromkeys(STEPS, 1)


@pytest.mark.parametrize(
    ("language", "approach"), [("c", "tp"), ("c", "dc:1"), ("c", "dn:1"), ("f", "tp")]
)
def test_a_dump_that_exists_is_told(
    programs: Path, tmp_path: Path, language: str, approach: str
) -> None:
    """By the call that meets it with `tp`, by a later one or the last with the others."""
    ranks, text = LAYOUTS[approach]
    config = write_config(tmp_path / "hpcio.toml", text)
    assert launch(programs, language, ranks, config, 0, 10).returncode == 0
    again = launch(programs, language, ranks, config, 0, 10)
    place = tmp_path / "dumps" / "dump-00000000"
    assert again.returncode == 1
    assert f"advect_{language}: dump of step 0: {place}: exists already" in again.stderr
    assert np.array_equal(fields(place.parent, 0)["u"], field(0))


@pytest.mark.parametrize("language", ["c", "f"])
def test_a_wrong_configuration_is_told(programs: Path, tmp_path: Path, language: str) -> None:
    config = write_config(tmp_path / "hpcio.toml", 'approach = "dc"\nwriters = 0')
    done = launch(programs, language, 4, config, 0, 10)
    assert done.returncode == 2
    assert f"advect_{language}: {config}:3: hpcio.writers: 0: " in done.stderr


def test_a_dead_launcher_ends_a_program_that_computes(programs: Path, tmp_path: Path) -> None:
    """Between calls Python's own threads run: the one that watches the launcher is such a one."""
    shutil.copy(Path(__file__).with_name("waiting_program.c"), programs)
    make(programs, "waiting_program")
    config = write_config(tmp_path / "hpcio.toml", 'approach = "tp"')
    with subprocess.Popen(
        line(str(programs / "waiting_program"), 2, config),
        env=environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as job:
        try:
            comes(job, (tmp_path / "dumps" / "dump-00000000").is_dir)
            found = children(job.pid)
        finally:
            job.kill()
    assert len(found) == 2
    until(lambda: not any(runs(rank) for rank in found))
