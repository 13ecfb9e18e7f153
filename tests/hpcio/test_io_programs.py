"""Programs that use the library or what it has of Damaris, in C and Fortran, with both MPIs."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from pathlib import Path

import h5py
import numpy as np
import pytest
from wattio.hpcio.inspection import inspect

from hpcio import io_library
from hpcio.compiling import (
    BUILDS_S,
    RUNS_S,
    Built,
    compile_c,
    compile_fortran,
    configure,
    machine_hdf5,
    processes,
)
from hpcio.launching import environment
from hpcio.waiting import until

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.system


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
