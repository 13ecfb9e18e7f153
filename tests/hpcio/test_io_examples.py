"""examples/io, built by CMake against an installed library: C and Fortran, Open MPI and MPICH."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import h5py
import numpy as np
import pytest
from wattio.hpcio.assembly import assemble
from wattio.hpcio.inspection import inspect

from hpcio import io_library, launching
from hpcio.compiling import (
    BUILDS_S,
    RUNS_S,
    STEPS,
    Built,
    compile_c,
    configure,
    machine_hdf5,
    open_files,
    processes,
)
from hpcio.launching import environment, path_without
from hpcio.waiting import until

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "io"
SHAPE = (37, 20)

pytestmark = pytest.mark.system


@pytest.fixture(scope="module", params=["openmpi", "mpich"])
def built(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Built:
    mpi = request.param
    for program in ("cmake", f"mpicc.{mpi}", f"mpifort.{mpi}", f"mpirun.{mpi}"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    place = tmp_path_factory.mktemp(mpi)
    options = [f"-DCMAKE_PREFIX_PATH={io_library.PREFIX}", "-DCMAKE_C_FLAGS=-Wall -Wextra -Werror"]
    options += [f"-DMPI_C_COMPILER=mpicc.{mpi}", f"-DMPI_Fortran_COMPILER=mpifort.{mpi}"]
    for line in (["-S", str(EXAMPLES), "-B", str(place), *options], ["--build", str(place)]):
        subprocess.run(["cmake", *line], check=True, timeout=BUILDS_S, capture_output=True)
    return Built(place, mpi)


def expected(step: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Row y is row y - step of the first field."""
    first = 0.5 * np.arange(SHAPE[0] * SHAPE[1]).reshape(SHAPE)
    return np.roll(first, step, axis=0)


@pytest.mark.parametrize("program", ["advect_c", "advect_f"])
@pytest.mark.parametrize("approach", ["tp", "dc", "dn"])
def test_programs_write_the_same_fields_by_configuration_alone(
    built: Built, program: str, approach: str, tmp_path: Path
) -> None:
    ran = built.run(program, configure(tmp_path, approach))
    assert ran.returncode == 0, ran.stderr
    check(tmp_path / "dumps")


def test_the_example_that_is_written_for_damaris_runs(
    built: Built, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine_hdf5(tmp_path, monkeypatch)
    description = shutil.copy(EXAMPLES / "damaris.xml", tmp_path)
    ran = built.start("damaris", Path(description))
    assert ran.returncode == 0, ran.stderr
    dumps = inspect(tmp_path / "dumps")
    assert [(dump.step, dump.problems, dump.approach) for dump in dumps] == [
        (step, [], "dc:1") for step in range(4)
    ]
    with h5py.File(tmp_path / "dumps" / "dump-00000003" / "fields.h5") as file:
        assert np.array_equal(file["wind.u"][:, 0], 300 + np.arange(24.0))
        assert file["wind.u"].shape == (24, 20)


def test_dedicated_nodes_of_a_damaris_file_write(
    built: Built, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MPICH takes one machine for several nodes where it is told so; Open MPI has no such thing."""
    machine_hdf5(tmp_path, monkeypatch)
    monkeypatch.setenv("MPIR_CVAR_NUM_CLIQUES", "2")
    text = (EXAMPLES / "damaris.xml").read_text()
    assert 'nodes="0"' in text
    description = tmp_path / "damaris.xml"
    description.write_text(text.replace('nodes="0"', 'nodes="1"'))
    ran = built.start("damaris", description)
    if built.mpi == "openmpi":
        assert ran.returncode != 0
        assert "<dedicated>: of 1 nodes, 1 leave none to compute" in ran.stderr
        return
    assert ran.returncode == 0, ran.stderr
    dumps = inspect(tmp_path / "dumps")
    assert [(dump.step, dump.problems, dump.approach) for dump in dumps] == [
        (step, [], "dn:1") for step in range(4)
    ]
    with h5py.File(tmp_path / "dumps" / "dump-00000003" / "fields.h5") as file:
        assert np.array_equal(file["wind.u"][:, 0], 300 + np.arange(16.0))


@pytest.mark.parametrize("approach", ["tp", "dc", "dn"])
def test_so_does_the_one_in_python(approach: str, tmp_path: Path) -> None:
    given = map(str, (EXAMPLES / "advect.py", configure(tmp_path, approach), STEPS[-1], 10))
    ran = launching.run(launching.line(4, *given))
    assert ran.returncode == 0, ran.stderr
    check(tmp_path / "dumps")
    # One file of a dump has what its own have.
    assemble(tmp_path / "dumps", 10, tmp_path / "one.h5")
    with h5py.File(tmp_path / "one.h5") as file:
        assert np.array_equal(file["u"][:], expected(10))
        assert file["u"].attrs["units"] == "m/s"
        assert file.attrs["time"] == pytest.approx(1.0)


@pytest.mark.parametrize("mpi", ["openmpi", "mpich"])
@pytest.mark.parametrize("approach", ["tp", "dc", "dn"])
def test_a_program_that_forgets_to_close_ends_all_the_same(
    approach: str, mpi: str, tmp_path: Path
) -> None:
    """Ranks that write waited for those that compute, which waited for them in MPI_Finalize."""
    closing = "    check(wattio_io_close(&io, report, sizeof report, NULL));\n"
    before, found, after = (EXAMPLES / "advect.c").read_text().partition(closing)
    assert found
    (tmp_path / "forgets.c").write_text(before + after)
    compile_c(mpi, tmp_path, "forgets", "wattio_io_mpi.c")
    ran = Built(tmp_path, mpi).run("forgets", configure(tmp_path, approach))
    assert ran.returncode == 0, ran.stderr
    check(tmp_path / "dumps")


def test_one_in_python_that_forgets_it_says_so(tmp_path: Path) -> None:
    """It hung without a word."""
    before, found, _ = (EXAMPLES / "advect.py").read_text().partition("account = session.close()")
    assert found
    source = tmp_path / "forgets.py"
    source.write_text(before)
    given = map(str, (source, configure(tmp_path, "dn"), STEPS[-1], 10))
    line = launching.line(4, *given)
    job = subprocess.Popen(line, env=environment(), stderr=subprocess.PIPE, text=True)
    try:
        assert job.stderr is not None
        assert any("ends without session.close()" in told for told in job.stderr)
    finally:
        job.terminate()
        job.communicate(timeout=RUNS_S)


def check(output: Path) -> None:
    """Whether the dumps of a program are what they should be."""
    dumps = inspect(output)
    assert [(dump.step, dump.whole, dump.problems) for dump in dumps] == [
        (step, True, []) for step in STEPS
    ]
    for step in STEPS:
        with h5py.File(output / f"dump-{step:08}" / "fields.h5") as file:
            assert np.array_equal(file["u"][:], expected(step))
            assert file["u"].attrs["units"] == "m/s"
            assert file.attrs["time"] == pytest.approx(0.1 * step)


TWICE = """
cmake_minimum_required(VERSION 3.18)
project(twice LANGUAGES C)
add_subdirectory(one)
add_subdirectory(other)
"""

ONE_OF_TWO = """
{mpi}
find_package(wattio_io REQUIRED)
add_executable({name} main.c)
target_link_libraries({name} PRIVATE {target})
"""


def cmake(source: Path, build: Path, *options: str, path: str | None = None) -> str:
    """Configure and build; what CMake says."""
    given = [f"-DCMAKE_PREFIX_PATH={io_library.PREFIX}", "-DMPI_C_COMPILER=mpicc.openmpi"]
    told = ""
    for line in (["-S", str(source), "-B", str(build), *given, *options], ["--build", str(build)]):
        ran = subprocess.run(
            ["cmake", *line],
            env={**os.environ, "PATH": path or os.environ["PATH"]},
            capture_output=True,
            text=True,
            check=False,
            timeout=BUILDS_S,
        )
        assert ran.returncode == 0, ran.stderr
        told += ran.stdout
    return told


@pytest.mark.parametrize("first", ["wattio_io::wattio_io", "wattio_io::mpi"])
def test_two_directories_of_a_project_may_ask_for_the_package(first: str, tmp_path: Path) -> None:
    """The second asked to make the library's own targets again, or had none for MPI."""
    (tmp_path / "CMakeLists.txt").write_text(TWICE)
    for name, target in (("one", first), ("other", "wattio_io::damaris")):
        mpi = "" if target == "wattio_io::wattio_io" else "find_package(MPI REQUIRED COMPONENTS C)"
        (tmp_path / name).mkdir()
        text = ONE_OF_TWO.format(name=name, mpi=mpi, target=target)
        (tmp_path / name / "CMakeLists.txt").write_text(text)
        header = "wattio_io.h" if name == "one" else "Damaris.h"
        main = f'#include "{header}"\nint main(void) {{ return !wattio_io_version(); }}\n'
        (tmp_path / name / "main.c").write_text(main)
    cmake(tmp_path, tmp_path / "build")
    for name in ("one", "other"):
        assert subprocess.run([tmp_path / "build" / name / name], check=False).returncode == 0


def test_the_examples_are_built_without_a_fortran_compiler(tmp_path: Path) -> None:
    path = path_without(tmp_path / "bin", "fort", "f77", "f90", "f95")
    told = cmake(EXAMPLES, tmp_path / "build", path=path)
    assert "advect_f is left out" in told
    built = {one.name for one in (tmp_path / "build").iterdir() if os.access(one, os.X_OK)}
    assert {"advect_c", "alone", "damaris"} <= built
    assert "advect_f" not in built


@pytest.mark.parametrize("policy", ["block", "drop_oldest"])
def test_dedicated_nodes_take_what_there_is_room_for(
    built: Built, policy: str, tmp_path: Path
) -> None:
    """The buffer holds a few steps of each rank: those beyond wait, or give way."""
    config = io_library.configure(
        tmp_path, approach="dn", ranks_per_node=2, buffer="64 KiB", when_full=policy
    )
    line = built.line("advect_c", config, 300, 1)
    job = subprocess.Popen(line, env=environment(), stderr=subprocess.PIPE, text=True)
    try:
        if policy == "drop_oldest":
            hold_until_a_step_is_given_up(job, tmp_path)
        told = job.communicate(timeout=RUNS_S)[1]
    finally:
        job.kill()
    assert job.returncode == 0, told
    dumps = inspect(tmp_path / "dumps")
    whole = [dump for dump in dumps if dump.whole]
    assert all(dump.problems == [] for dump in whole)
    lost = [dump for dump in dumps if not dump.whole]
    assert all("dropped" in dump.problems[0] for dump in lost)
    assert bool(lost) == (policy == "drop_oldest")
    assert len(dumps) == 301


def hold_until_a_step_is_given_up(job: subprocess.Popen[str], folder: Path) -> None:
    """Stop a writer of a job that has begun until its buffer is full and a step gave way.

    Of a job whose writers keep up, none does. On a slow machine it may have been the first step,
    and the job may have ended.
    """
    until(lambda: job.poll() is not None or any((folder / "dumps").glob("dump-*")))
    if job.poll() is not None:
        return
    writer = processes("wattio-io-writer", folder)[0]
    files = open_files(Path(f"/proc/{writer}"))
    (board,) = [one for one, file in files.items() if "memfd:wattio-io-board" in file]
    os.kill(writer, signal.SIGSTOP)
    try:
        # Of a word for each dump, the last two bits: nothing, begun, given up (slot.rs).
        until(lambda: bool((np.fromfile(board, "u8", 512) % 4 == 2).any()))
    finally:
        os.kill(writer, signal.SIGCONT)


@pytest.mark.parametrize("program", ["advect_c", "advect_f"])
def test_an_error_of_one_rank_is_told_by_all(built: Built, program: str, tmp_path: Path) -> None:
    config = io_library.configure(tmp_path, hdf5="/nonexistent.so", ranks_per_node=2)
    ran = built.run(program, config)
    assert ran.returncode != 0
    assert "/nonexistent.so" in ran.stderr
    ran = built.run(program, io_library.configure(tmp_path, writers=4))
    assert ran.returncode != 0
    assert "no rank of it is left to compute" in ran.stderr


def test_a_folder_whose_name_is_no_text_is_refused_on_all_ranks(
    built: Built, tmp_path: Path
) -> None:
    """The others waited for ever for what rank 0 could not tell them."""
    folder = tmp_path / os.fsdecode(b"a\xff")
    folder.mkdir()
    ran = built.run("advect_c", io_library.configure(folder, output="dumps", ranks_per_node=2))
    assert ran.returncode != 0
    assert 'a\\xFF/dumps": is not text in UTF-8' in ran.stderr


@pytest.fixture
def running(built: Built, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A job that dumps for as long as it lives."""
    config = configure(tmp_path, "dc")
    line = built.line("advect_c", config, 10**9, 1)
    process = subprocess.Popen(
        line, env=environment(), stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    )
    yield process
    process.kill()
    process.wait()


@pytest.mark.parametrize("victim", ["wattio-io-writer", "advect_c"])
def test_a_death_ends_the_job_and_what_was_whole_stays(
    running: subprocess.Popen[str], victim: str, tmp_path: Path
) -> None:
    dumps = tmp_path / "dumps"
    until(lambda: (dumps / "dump-00000020").exists())
    os.kill(processes(victim, tmp_path)[0], signal.SIGKILL)
    assert running.wait(60) != 0
    # Writers go on with what was accepted, and end.
    until(lambda: not processes("wattio-io-writer", tmp_path))
    until(lambda: not processes("advect_c", tmp_path))
    found = inspect(dumps)
    assert all(dump.problems == [] for dump in found if dump.whole)
    assert [dump.step for dump in found if dump.whole][:21] == list(range(21))
    assert all(dump.problems for dump in found if not dump.whole)
