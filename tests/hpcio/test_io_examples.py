"""examples/io, built by CMake against an installed library: C and Fortran, Open MPI and MPICH."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np
import pytest
from wattio.hpcio.assembly import assemble
from wattio.hpcio.inspection import inspect

from hpcio import io_library, launching
from hpcio.launching import environment, path_without
from hpcio.waiting import until

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "io"
SHAPE = (37, 20)
STEPS = [0, 10, 20, 30]
BUILDS_S = 300.0
RUNS_S = 120.0

pytestmark = pytest.mark.system


@dataclass(frozen=True)
class Built:
    """The examples, built with one MPI."""

    folder: Path
    mpi: str

    def line(self, program: str, config: Path, *arguments: object, ranks: int = 4) -> list[str]:
        more = ["--oversubscribe", "--bind-to", "none"] if self.mpi == "openmpi" else []
        start = [f"mpirun.{self.mpi}", *more, "-n", str(ranks)]
        return [*start, str(self.folder / program), str(config), *map(str, arguments)]

    def run(self, program: str, config: Path) -> subprocess.CompletedProcess[str]:
        return self.start(program, config, STEPS[-1], 10)

    def start(
        self, program: str, config: Path, *arguments: object, ranks: int = 4
    ) -> subprocess.CompletedProcess[str]:
        """Run a program to its end."""
        return subprocess.run(
            self.line(program, config, *arguments, ranks=ranks),
            cwd=config.parent,
            env=environment(),
            capture_output=True,
            text=True,
            check=False,
            timeout=RUNS_S,
        )


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


def configure(folder: Path, approach: str) -> Path:
    return io_library.configure(folder, approach=approach, ranks_per_node=2, buffer="4 MiB")


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


DAMARIS = """
#include "Damaris.h"
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
    int is_client, rank, size, iteration, columns;
    MPI_Comm comm;

    MPI_Init(&argc, &argv);
    /* Calls that come too early had a code without a text. */
    if (damaris_start(&is_client) != DAMARIS_NOT_INITIALIZED ||
        strcmp(damaris_error(), "damaris_initialize comes first") != 0)
        return 13;
    if (damaris_initialize(argv[1], MPI_COMM_WORLD) != DAMARIS_OK)
        return 3;
    if (damaris_write("dt", argv) != DAMARIS_NOT_INITIALIZED ||
        strcmp(damaris_error(), "damaris_start comes first") != 0)
        return 14;
    if (damaris_start(&is_client) != DAMARIS_OK)
        return 4;
    if (is_client) {
        damaris_client_comm_get(&comm);
        MPI_Comm_rank(comm, &rank);
        MPI_Comm_size(comm, &size);
        damaris_parameter_set("size", &size, sizeof size);
        damaris_parameter_get("columns", &columns, sizeof columns);
        char title[8];
        if (damaris_parameter_get("title", title, sizeof title) != DAMARIS_OK)
            return 9;
        if (strcmp(title, "a title") != 0 || damaris_parameter_get("title", title, 7) == DAMARIS_OK)
            return 10;
        if (damaris_parameter_set("title", "other", 6) != DAMARIS_OK)
            return 11;
        damaris_parameter_get("title", title, sizeof title);
        if (strcmp(title, "other") != 0)
            return 12;
        int64_t position[] = {rank * (12 / size), 0};
        damaris_set_position("wind/u", position);
        for (int step = 0; step < 3; step++) {
            double *field;
            float one = (float)step;
            if (damaris_alloc("wind/u", (void **)&field) != DAMARIS_OK)
                return 5;
            for (int at = 0; at < 12 / size * columns; at++)
                field[at] = step * 1000 + position[0] * columns + at;
            damaris_commit("wind/u");
            damaris_write("dt", &one);
            damaris_write("unused", &one);
            int halo[6][5];
            for (int at = 0; at < 30; at++)
                ((int *)halo)[at] = at;
            int64_t corner[] = {3 * rank, 0};
            damaris_set_position("halo", corner);
            if (damaris_write("halo", halo) != DAMARIS_OK)
                return 8;
            if (damaris_write("none", &one) != DAMARIS_UNDEFINED_VARIABLE)
                return 6;
            if (damaris_write_block("dt", -1, &one) == DAMARIS_OK)
                return 13;
            if (damaris_write("log", "text") == DAMARIS_OK)
                return 14;
            damaris_get_iteration(&iteration);
            if (iteration != step || damaris_end_iteration() != DAMARIS_OK)
                return 7;
        }
        damaris_stop();
        if (damaris_write("dt", argv) != DAMARIS_NOT_INITIALIZED ||
            strcmp(damaris_error(), "the session has been closed by damaris_stop") != 0)
            return 15;
    }
    damaris_finalize();
    MPI_Finalize();
    return 0;
}
"""

DESCRIPTION = """<?xml version="1.0"?>
<simulation name="test" language="c">
  <architecture>
    <domains count="1"/> <dedicated cores="{cores}" nodes="0"/>
    <buffer name="b" size="1048576"/> <queue name="q" size="100"/> <placement/>
  </architecture>
  <data>
    <parameter name="size" type="int" value="1"/>
    <parameter name="columns" type="int" value="7"/>
    <parameter name="title" type="string" value="a title"/>
    <layout name="text" type="string" dimensions="1"/>
    <layout name="cells" type="double" dimensions="12/size,columns" global="12,columns"/>
    <layout name="one" type="float" dimensions="1"/>
    <layout name="halo" type="int" dimensions="6,5" ghosts="1:2,0:1" global="3*size,4"/>
    <variable name="halo" layout="halo"/>
    <group name="wind"><variable name="u" layout="cells" unit="m/s"/></group>
    <variable name="dt" layout="one"/>
    <variable name="unused" layout="one" enabled="false"/>
    <variable name="log" layout="text"/>
  </data>
  <storage><store name="s" type="HDF5"><option key="FilesPath">{output}</option></store></storage>
</simulation>
"""


def machine_hdf5(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of Damaris names no HDF5 library: that of the machine is taken."""
    monkeypatch.setenv("LD_LIBRARY_PATH", str(folder))
    (folder / "libhdf5.so").symlink_to(io_library.hdf5())


def compile_c(mpi: str, folder: Path, program: str, *parts: str) -> None:
    """Build `program.c` with C parts of the library, by the compiler of an MPI."""
    source, library = io_library.PREFIX / "share" / "wattio_io", io_library.PREFIX / "lib"
    folders = [f"-I{one}" for one in (source / "damaris", source, io_library.PREFIX / "include")]
    link = [f"-L{library}", "-lwattio_io", f"-Wl,-rpath,{library}"]
    sources = [f"{program}.c", *(str(source / part) for part in parts)]
    line = [f"mpicc.{mpi}", "-Wall", "-Werror", *folders, *sources, "-o", program, *link]
    subprocess.run(line, check=True, cwd=folder, timeout=BUILDS_S)


def compile_fortran(
    mpi: str, folder: Path, program: str, modules: list[str], parts: list[str]
) -> None:
    """Build `program.f90` with modules and C parts of the library, by the compilers of an MPI."""
    source, prefix = io_library.PREFIX / "share" / "wattio_io", io_library.PREFIX
    sources = {
        "mpi": [source / "wattio_io_mpi.c"],
        "damaris": sorted((source / "damaris").glob("*.c")),
    }
    c = [str(path) for part in parts for path in sources[part]]
    folders = [f"-I{one}" for one in (source / "damaris", source, prefix / "include")]
    compiled = [f"mpicc.{mpi}", "-Wall", "-Wextra", "-Werror", "-c", *folders, *c]
    subprocess.run(compiled, check=True, cwd=folder, timeout=BUILDS_S)
    objects = [f"{Path(path).stem}.o" for path in c]
    names = [str(source / f"{name}.f90") for name in modules]
    link = [f"-L{prefix / 'lib'}", "-lwattio_io", f"-Wl,-rpath,{prefix / 'lib'}"]
    line = [f"mpifort.{mpi}", *names, f"{program}.f90", *objects, "-o", program, *link]
    subprocess.run(line, check=True, cwd=folder, timeout=BUILDS_S)


@pytest.mark.parametrize("mpi", ["openmpi", "mpich"])
def test_sources_suit_standard_c_and_integers_of_8_bytes(mpi: str, tmp_path: Path) -> None:
    """Standard C has no strdup: it lost half of a pointer. Integers of MPI have 4 bytes."""
    for program in (f"mpicc.{mpi}", f"mpifort.{mpi}"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    source = io_library.PREFIX / "share" / "wattio_io"
    names = ("wattio_io", "wattio_io_mpi", "wattio_io_mpi_f08")
    modules = [str(source / f"{name}.f90") for name in names]
    parts = [str(source / "wattio_io_mpi.c"), *map(str, (source / "damaris").glob("*.c"))]
    folders = [f"-I{one}" for one in (source / "damaris", source, io_library.PREFIX / "include")]
    strict = ["-std=c99", "-Wall", "-Wextra", "-Werror"]
    for line in (
        [f"mpicc.{mpi}", *strict, "-c", *folders, *parts],
        [f"mpifort.{mpi}", "-fdefault-integer-8", "-c", *modules],
    ):
        subprocess.run(line, check=True, cwd=tmp_path, timeout=BUILDS_S)


@pytest.mark.parametrize(("cores", "ranks"), [(1, 4), (0, 3)])
def test_a_program_that_is_described_for_damaris_runs(
    cores: int, ranks: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine_hdf5(tmp_path, monkeypatch)
    (tmp_path / "program.c").write_text(DAMARIS)
    file = tmp_path / "test.xml"
    file.write_text(DESCRIPTION.format(cores=cores, output=tmp_path / "dumps"))
    compile_c("openmpi", tmp_path, "program", "damaris/wattio_damaris.c", "wattio_io_mpi.c")
    # The second run replaces what the first has written, as a file has no word for anything else.
    for _ in range(2):
        ran = Built(tmp_path, "openmpi").start("program", file, ranks=ranks)
        assert ran.returncode == 0, ran.stderr
    assert [dump.problems for dump in inspect(tmp_path / "dumps")] == [[], [], []]
    with h5py.File(tmp_path / "dumps" / "dump-00000002" / "fields.h5") as found:
        assert np.array_equal(found["wind.u"][:], 2000 + np.arange(84.0).reshape(12, 7))
        assert found["wind.u"].attrs["units"] == "m/s"
        assert sorted(found) == ["dt", "halo", "wind.u"]
        inner = np.arange(30).reshape(6, 5)[1:4, :4]
        assert np.array_equal(found["halo"][:], np.tile(inner, (3, 1)))


DAMARIS_F = """
program cube
    use, intrinsic :: iso_c_binding
    use mpi
    implicit none
    interface
        function damaris_alloc_f(name, ierr) result(memory)
            import :: c_ptr
            character(*), intent(in) :: name
            integer, intent(out) :: ierr
            type(c_ptr) :: memory
        end function
    end interface
    integer, parameter :: nx = 4, ny = 3, nz = 2
    integer :: ierr, is_client, comm, rank, ranks, step, found, i, j, k
    integer(c_int64_t) :: position(3)
    real(c_float) :: u(nx, ny, nz), three(1, 1, 1) = 3
    real(c_double), pointer :: w(:, :, :), scratch(:)
    character(256) :: file
    call MPI_Init(ierr)
    call get_command_argument(1, file)
    call damaris_initialize_f(file, MPI_COMM_WORLD, ierr)
    if (ierr /= 0) error stop 1
    call damaris_start_f(is_client, ierr)
    if (ierr /= 0) error stop 2
    if (is_client > 0) then
        call damaris_client_comm_get_f(comm, ierr)
        call MPI_Comm_rank(comm, rank, ierr)
        call MPI_Comm_size(comm, ranks, ierr)
        call damaris_parameter_set_f("ranks", ranks, 4, ierr)
        if (ierr /= 0) error stop 3
        call damaris_parameter_get_f("nz", found, 4, ierr)
        if (ierr /= 0 .or. found /= nz) error stop 4
        call damaris_parameter_get_f("none", found, 4, ierr)
        if (ierr /= -4) error stop 5
        call damaris_parameter_get_f("nz", found, 2, ierr)
        if (ierr /= -1) error stop 6
        position = [0, 0, rank * nz]
        call damaris_set_position_f("wind/u  ", position, ierr)
        if (ierr /= 0) error stop 7
        call damaris_set_position_f("w", position, ierr)
        do step = 0, 2
            do k = 1, nz
                do j = 1, ny
                    do i = 1, nx
                        u(i, j, k) = 1000 * step + i - 1 + nx * (j - 1 + ny * (k - 1 + nz * rank))
                    end do
                end do
            end do
            call damaris_write_f("wind/u", u, ierr)
            if (ierr /= 0) error stop 8
            call c_f_pointer(damaris_alloc_f("w", ierr), w, [nx, ny, nz])
            if (ierr /= 0) error stop 9
            w = 2 * u
            call damaris_commit_f("w", ierr)
            if (ierr /= 0) error stop 10
            ! Of no store: for plugins, and to be filled all the same.
            call c_f_pointer(damaris_alloc_f("scratch", ierr), scratch, [nx])
            if (ierr /= 0) error stop 11
            scratch = 1
            call damaris_write_f("seen", three, ierr)
            if (ierr /= 0) error stop 12
            call damaris_write_f("none", u, ierr)
            if (ierr /= -5) error stop 13
            ! A block of it there is already.
            call damaris_write_f("wind/u", u, ierr)
            if (ierr /= -1) error stop 14
            call damaris_get_iteration_f(found, ierr)
            if (found /= step) error stop 15
            call damaris_end_iteration_f(ierr)
            if (ierr /= 0) error stop 16
        end do
        call damaris_stop_f(ierr)
        if (ierr /= 0) error stop 17
        call damaris_write_f("wind/u", u, ierr)
        if (ierr /= -3) error stop 18
    end if
    call damaris_finalize_f(ierr)
    if (ierr /= 0) error stop 19
    call MPI_Finalize(ierr)
end program
"""

DESCRIPTION_F = """<?xml version="1.0"?>
<simulation name="cube" language="fortran">
  <architecture>
    <domains count="1"/> <dedicated cores="1" nodes="0"/> <buffer name="b" size="1048576"/>
  </architecture>
  <data>
    <parameter name="nz" type="int" value="2"/>
    <parameter name="ranks" type="int" value="1"/>
    <layout name="cells" type="real" dimensions="4,3,nz" global="4,3,nz*ranks"/>
    <layout name="fine" type="double" dimensions="4,3,nz" global="4,3,nz*ranks"/>
    <layout name="line" type="double" dimensions="4"/>
    <layout name="one" type="real" dimensions="1"/>
    <group name="wind" store="s"><variable name="u" layout="cells" unit="m/s"/></group>
    <variable name="w" layout="fine" store="s"/>
    <variable name="scratch" layout="line"/>
    <variable name="seen" layout="one"/>
  </data>
  <storage>
    <store name="other" type="HDF5"><option key="FilesPath">/nowhere</option></store>
    <store name="s" type="HDF5"><option key="FilesPath">{output}</option></store>
  </storage>
</simulation>
"""


@pytest.mark.parametrize("mpi", ["openmpi", "mpich"])
def test_a_program_in_fortran_that_is_described_for_damaris_runs(
    mpi: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for program in (f"mpicc.{mpi}", f"mpifort.{mpi}", f"mpirun.{mpi}"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    machine_hdf5(tmp_path, monkeypatch)
    (tmp_path / "cube.f90").write_text(DAMARIS_F)
    file = tmp_path / "cube.xml"
    file.write_text(DESCRIPTION_F.format(output=tmp_path / "dumps"))
    compile_fortran(mpi, tmp_path, "cube", [], ["damaris", "mpi"])
    ran = Built(tmp_path, mpi).start("cube", file, ranks=4)
    assert ran.returncode == 0, ran.stderr
    assert [dump.problems for dump in inspect(tmp_path / "dumps")] == [[], [], []]
    with h5py.File(tmp_path / "dumps" / "dump-00000002" / "fields.h5") as found:
        assert sorted(found) == ["w", "wind.u"]
        whole = np.arange(3 * 2 * 12, dtype="f4").reshape(6, 3, 4) + 2000
        assert np.array_equal(found["wind.u"][:], whole)
        assert np.array_equal(found["w"][:], 2 * whole)


F08 = """
program whole
    use, intrinsic :: iso_c_binding
    use mpi_f08
    use wattio_io
    use wattio_io_mpi_f08
    implicit none
    type(wattio_io_session) :: io
    type(MPI_Comm) :: comm
    integer(c_int64_t) :: id
    integer :: code, rank, ranks
    real(c_double), target :: field(5)
    character(256) :: config
    call MPI_Init()
    call get_command_argument(1, config)
    call wattio_io_open_mpi(MPI_COMM_WORLD, config, io, comm, code)
    if (code /= 0) error stop 1
    if (wattio_io_is_writer(io) .neqv. comm == MPI_COMM_NULL) error stop 2
    if (.not. wattio_io_is_writer(io)) then
        call MPI_Comm_rank(comm, rank)
        call MPI_Comm_size(comm, ranks)
        field = rank
        call wattio_io_variable(io, "u", WATTIO_IO_FLOAT64, [5], id, code, [5 * ranks], [5 * rank])
        call wattio_io_begin_step(io, 1, code)
        call wattio_io_put(io, id, c_loc(field), code)
        call wattio_io_end_step(io, code)
    end if
    call wattio_io_close(io, code)
    if (code /= 0) error stop 3
    call MPI_Finalize()
end program
"""


@pytest.mark.parametrize("mpi", ["openmpi", "mpich"])
def test_communicators_of_mpi_f08_are_taken_as_they_are(mpi: str, tmp_path: Path) -> None:
    for program in (f"mpicc.{mpi}", f"mpifort.{mpi}", f"mpirun.{mpi}"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    (tmp_path / "whole.f90").write_text(F08)
    modules = ["wattio_io", "wattio_io_mpi", "wattio_io_mpi_f08"]
    compile_fortran(mpi, tmp_path, "whole", modules, ["mpi"])
    ran = Built(tmp_path, mpi).start("whole", configure(tmp_path, "dc"), ranks=4)
    assert ran.returncode == 0, ran.stderr
    assert [dump.problems for dump in inspect(tmp_path / "dumps")] == [[]]
    with h5py.File(tmp_path / "dumps" / "dump-00000001" / "fields.h5") as file:
        assert np.array_equal(file["u"][:], np.repeat([0.0, 1.0], 5))


GUIDE = """
program guide
    use, intrinsic :: iso_c_binding
    use mpi
    use wattio_io
    use wattio_io_mpi
    implicit none
    type(wattio_io_session) :: io
    integer(c_int64_t) :: id
    integer :: code, comm, step, nx, ny, nz, gnx, gny, gnz, i0, j0, k0
    integer, parameter :: steps = 2
    real(c_float), allocatable, target :: theta(:, :, :)
    real(c_double) :: time = 0
    {lines}
contains
    subroutine set_up(comm)
        integer, intent(in) :: comm
        integer :: rank, ranks
        call MPI_Comm_rank(comm, rank, code)
        call MPI_Comm_size(comm, ranks, code)
        nx = 4
        ny = 3
        nz = 2
        gnx = nx
        gny = ny
        gnz = nz * ranks
        i0 = 0
        j0 = 0
        k0 = nz * rank
        allocate (theta(nx, ny, nz))
        theta = rank
    end subroutine

    subroutine advance(comm, time)
        integer, intent(in) :: comm
        real(c_double), intent(inout) :: time
        call MPI_Barrier(comm, code)
        theta = theta + 10
        time = time + 0.5
    end subroutine
end program
"""


def test_the_ten_lines_of_the_guide_write_a_field(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "io-library.md").read_text()
    lines = text.partition("<!-- ten lines -->\n```fortran\n")[2].partition("```")[0]
    own = [line for line in lines.splitlines() if "wattio_io_" in line or line == "end if"]
    assert len(own) == 10
    (tmp_path / "guide.f90").write_text(GUIDE.format(lines=lines))
    compile_fortran("openmpi", tmp_path, "guide", ["wattio_io", "wattio_io_mpi"], ["mpi"])
    config = configure(tmp_path, "dc")
    assert config.name == "hpcio.toml"
    ran = Built(tmp_path, "openmpi").start("guide", config, ranks=4)
    assert ran.returncode == 0, ran.stderr
    assert [dump.problems for dump in inspect(tmp_path / "dumps")] == [[], []]
    with h5py.File(tmp_path / "dumps" / "dump-00000002" / "fields.h5") as file:
        assert np.array_equal(file["theta"][:, 0, 0], [20, 20, 21, 21])
        assert file["theta"].shape == (4, 3, 4)
        assert (file["theta"].attrs["units"], file.attrs["time"]) == ("K", 1.0)


NETCDF = """
program both
    use, intrinsic :: iso_c_binding
    use mpi
    use netcdf
    use wattio_io
    use wattio_io_mpi
    implicit none
    type(wattio_io_session) :: io
    integer :: comm, code, file, axis, variable, step
    integer(c_int64_t) :: id
    real(c_double), target :: field(10)
    character(256) :: config, own
    call MPI_Init(code)
    call get_command_argument(1, config)
    call get_command_argument(2, own)
    call wattio_io_open_mpi(MPI_COMM_WORLD, config, io, comm, code)
    if (code /= 0) error stop 1
    if (.not. wattio_io_is_writer(io)) then
        call wattio_io_variable(io, "u", WATTIO_IO_FLOAT64, [10], id, code)
        do step = 1, 3
            field = step
            if (nf90_create(trim(own), NF90_NETCDF4, file) /= 0) error stop 2
            if (nf90_def_dim(file, "x", 10, axis) /= 0) error stop 3
            if (nf90_def_var(file, "u", NF90_DOUBLE, [axis], variable) /= 0) error stop 4
            if (nf90_put_var(file, variable, field) /= 0) error stop 5
            call wattio_io_begin_step(io, step, code)
            call wattio_io_put(io, id, c_loc(field), code, WATTIO_IO_DEFERRED)
            call wattio_io_end_step(io, code)
            if (nf90_close(file) /= 0) error stop 6
        end do
    end if
    call wattio_io_close(io, code)
    if (code /= 0) error stop 7
    call MPI_Finalize(code)
end program
"""
"""A program that writes NetCDF-4 by itself, so that it has an HDF5 library of its own."""


def test_a_program_with_an_hdf5_of_its_own_is_not_disturbed(tmp_path: Path) -> None:
    if shutil.which("nf-config") is None:
        pytest.skip("nf-config is not installed: apt install libnetcdff-dev")
    (tmp_path / "both.f90").write_text(NETCDF)
    source = io_library.PREFIX / "share" / "wattio_io"
    flags = subprocess.check_output(["nf-config", "--fflags", "--flibs"], text=True).split()
    config = {**os.environ, "PKG_CONFIG_PATH": str(io_library.PREFIX / "lib" / "pkgconfig")}
    line = ["pkg-config", "--cflags", "--libs", "wattio_io"]
    library = subprocess.check_output(line, text=True, env=config).split()
    compiled = ["mpicc.openmpi", "-c", str(source / "wattio_io_mpi.c"), "-o", "mpi.o", *library]
    subprocess.run(compiled, check=True, cwd=tmp_path, timeout=BUILDS_S)
    modules = [str(source / name) for name in ("wattio_io.f90", "wattio_io_mpi.f90")]
    linked = ["mpifort.openmpi", *modules, "both.f90", "mpi.o", "-o", "both", *flags, *library]
    subprocess.run(linked, check=True, cwd=tmp_path, timeout=BUILDS_S)
    built = Built(tmp_path, "openmpi")
    config_path = configure(tmp_path, "dc")
    ran = built.start("both", config_path, tmp_path / "own.nc", ranks=2)
    assert ran.returncode == 0, ran.stderr
    assert [dump.problems for dump in inspect(tmp_path / "dumps")] == [[], [], []]
    with h5py.File(tmp_path / "own.nc") as file:
        assert np.array_equal(file["u"][:], np.full(10, 3.0))


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
    files = Path(f"/proc/{writer}/fd").iterdir()
    (board,) = [one for one in files if "memfd:wattio-io-board" in str(one.readlink())]
    os.kill(writer, signal.SIGSTOP)
    try:
        # Of a word for each dump, the last two bits: nothing, begun, given up (slot.rs).
        until(lambda: bool((np.fromfile(board, "u8", 512) % 4 == 2).any()))
    finally:
        os.kill(writer, signal.SIGCONT)


WAITS = """
#include "wattio_io_mpi.h"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void touch(const char *name, int rank)
{
    char path[64];
    snprintf(path, sizeof path, "%s-%d", name, rank);
    fclose(fopen(path, "w"));
}

static void check(int code)
{
    if (code != WATTIO_IO_OK)
        MPI_Abort(MPI_COMM_WORLD, code);
}

int main(int argc, char **argv)
{
    wattio_io *io;
    MPI_Comm comm;
    int rank, level, writes, steps = atoi(argv[2]);
    int64_t count[] = {1000}, id;
    double field[1000] = {0};
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    check(wattio_io_open_mpi(MPI_COMM_WORLD, argv[1], &io, &comm));
    check(wattio_io_is_writer(io, &writes));
    if (!writes) {
        check(wattio_io_variable(io, "u", WATTIO_IO_FLOAT64, 1, count, NULL, NULL, &id));
        for (int step = 0; step <= steps; step++) {
            check(wattio_io_begin_step(io, step));
            check(wattio_io_put(io, id, field, WATTIO_IO_SYNC));
            check(wattio_io_end_step(io));
            if (step == 0) {
                check(wattio_io_flush(io));
                touch("begun", rank);
                while (access("go", F_OK) != 0)
                    usleep(1000);
            }
        }
        touch("handed", rank);
        for (;;)
            pause();
    }
    wattio_io_close(&io, NULL, 0, NULL);
    MPI_Finalize();
    return 0;
}
"""
"""Ranks that hand steps over when told to, and then compute until somebody ends them."""


@pytest.mark.parametrize("mpi", ["openmpi", "mpich"])
def test_what_was_handed_over_is_written_though_the_launcher_ends_all_ranks(
    mpi: str, tmp_path: Path
) -> None:
    for program in (f"mpicc.{mpi}", f"mpirun.{mpi}"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    (tmp_path / "waits.c").write_text(WAITS)
    compile_c(mpi, tmp_path, "waits", "wattio_io_mpi.c")
    config = io_library.configure(tmp_path, approach="dc", ranks_per_node=4, buffer="4 MiB")
    steps, ranks = 5, range(3)
    line = Built(tmp_path, mpi).line("waits", config, steps)
    job = subprocess.Popen(line, cwd=tmp_path, env=environment())
    writers: list[int] = []
    try:
        until(lambda: all((tmp_path / f"begun-{rank}").exists() for rank in ranks))
        writers = processes("wattio-io-writer", tmp_path)
        (writer,) = writers
        os.kill(writer, signal.SIGSTOP)
        (tmp_path / "go").touch()
        until(lambda: all((tmp_path / f"handed-{rank}").exists() for rank in ranks))
        assert [dump.step for dump in inspect(tmp_path / "dumps") if dump.whole] == [0]
        job.send_signal(signal.SIGTERM)
        assert job.wait(RUNS_S) != 0
        until(lambda: not processes("waits", tmp_path))
        # The kernel continues it, too, when its rank has gone, and sends SIGHUP before.
        with contextlib.suppress(ProcessLookupError):
            os.kill(writer, signal.SIGCONT)
        until(lambda: not processes("wattio-io-writer", tmp_path))
    finally:
        for process in [*writers, *processes("waits", tmp_path)]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        job.kill()
        job.wait()
    dumps = inspect(tmp_path / "dumps")
    assert [(dump.step, dump.whole, dump.problems) for dump in dumps] == [
        (step, True, []) for step in range(steps + 1)
    ]


@pytest.mark.parametrize("program", ["advect_c", "advect_f"])
def test_an_error_of_one_rank_is_told_by_all(built: Built, program: str, tmp_path: Path) -> None:
    config = io_library.configure(tmp_path, hdf5="/nonexistent.so", ranks_per_node=2)
    ran = built.run(program, config)
    assert ran.returncode != 0
    assert "/nonexistent.so" in ran.stderr
    ran = built.run(program, io_library.configure(tmp_path, writers=4))
    assert ran.returncode != 0
    assert "no rank of it is left to compute" in ran.stderr


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


def processes(name: str, folder: Path) -> list[int]:
    """Those of a program whose configuration, or open files, lie below a folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            line = (path / "cmdline").read_bytes().split(b"\0")
            near = str(folder).encode() in b" ".join(line) or any(
                str(folder) in str(one.readlink()) for one in (path / "fd").iterdir()
            )
        except OSError:
            continue
        if line[0].endswith(name.encode()) and near:
            found.append(int(path.name))
    return found


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
