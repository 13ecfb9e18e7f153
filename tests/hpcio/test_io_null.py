"""NULL where a call gives something back is refused with a text, from C and by what Damaris has."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Callable
from ctypes import c_char_p, c_int64, c_void_p
from pathlib import Path

import numpy as np
import pytest

from hpcio import io_library
from hpcio.compiling import BUILDS_S, RUNS_S
from hpcio.io_library import INPUT, OK, Configure, Rank
from hpcio.launching import environment

SHARE = io_library.PREFIX / "share/wattio_io"

PROGRAM = """
#include "wattio_damaris.h"
#include "wattio_io_mpi.h"
#include <stdio.h>
#include <string.h>

static int wrong;

static void refused(int code, int as, const char *(*text)(void), const char *expected)
{
    if (code != as || strcmp(text(), expected) != 0) {
        printf("%d, \\"%s\\", and not %d, \\"%s\\"\\n", code, text(), as, expected);
        wrong = 1;
    }
}

int main(int argc, char **argv)
{
    wattio_io *io = (wattio_io *)argv;
    MPI_Comm comm;

    MPI_Init(&argc, &argv);
    refused(wattio_io_open_mpi(MPI_COMM_WORLD, "none.toml", &io, NULL), WATTIO_IO_INPUT,
            wattio_io_error, "compute is NULL");
    if (io != NULL)
        wrong = 1;
    refused(wattio_io_open_mpi(MPI_COMM_WORLD, "none.toml", NULL, &comm), WATTIO_IO_INPUT,
            wattio_io_error, "io is NULL");
    refused(damaris_initialize(NULL, MPI_COMM_WORLD), DAMARIS_INIT_ERROR, damaris_error,
            "file is NULL");
    refused(damaris_start(NULL), DAMARIS_ERROR_UNKNOWN, damaris_error, "is_client is NULL");
    refused(damaris_client_comm_get(NULL), DAMARIS_ERROR_UNKNOWN, damaris_error, "comm is NULL");
    refused(damaris_alloc("u", NULL), DAMARIS_ERROR_UNKNOWN, damaris_error, "data is NULL");
    refused(damaris_get_iteration(NULL), DAMARIS_ERROR_UNKNOWN, damaris_error,
            "iteration is NULL");
    MPI_Finalize();
    return wrong;
}
"""


def test_a_call_that_can_give_nothing_back_says_so(configure: Configure, meeting: Path) -> None:
    rank = Rank(configure(), meeting)
    calls = ctypes.CDLL(str(io_library.LIBRARY))
    calls.wattio_io_error.restype = c_char_p
    one = (c_int64 * 1)(4)
    nothing = c_void_p()

    def told(name: str, *arguments: object) -> str:
        assert getattr(calls, f"wattio_io_{name}")(*arguments) == INPUT
        found: bytes = calls.wattio_io_error()
        return found.decode()

    # They were accepted: a number that was never set was used, and kept memory was lost.
    declared = (rank.handle, b"u", c_int64(10), c_int64(1), one, None, None, nothing)
    assert told("variable", *declared) == "variable u: the place for its number is NULL"
    assert told("is_writer", rank.handle, nothing) == "yes is NULL"
    assert told("is_durable", rank.handle, c_int64(0), nothing) == "yes is NULL"
    assert told("keep_memory", rank.handle, nothing) == "kept is NULL"
    assert told("allocate", rank.handle, c_int64(0), nothing) == "data is NULL"
    # Nothing was declared, and the session is none the worse.
    rank.declare("v", (4,))
    assert rank.ids == {"v": 0}
    rank.dump(0, v=np.ones(4))
    rank.close()


def test_a_part_that_is_built_with_the_program_has_texts_of_its_own() -> None:
    calls = ctypes.CDLL(str(io_library.LIBRARY))
    calls.wattio_io_error.restype = c_char_p
    assert [calls.wattio_io_fail(code, b"a text") for code in (INPUT, 3, OK, 77)] == [2, 3, 3, 3]
    assert calls.wattio_io_error() == b"a text"
    assert calls.wattio_io_fail(INPUT, None) == INPUT
    assert calls.wattio_io_error() == b"told is NULL"


@pytest.fixture(params=["openmpi", "mpich"])
def ran(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Callable[[str], subprocess.CompletedProcess[str]]:
    """Compiles a program with the parts for MPI and Damaris, and runs two ranks of it."""
    mpi = request.param
    for needed in (f"mpicc.{mpi}", f"mpirun.{mpi}"):
        if shutil.which(needed) is None:
            pytest.skip(f"{needed} is not installed")

    def run(text: str) -> subprocess.CompletedProcess[str]:
        (tmp_path / "program.c").write_text(text)
        folders = [f"-I{io_library.PREFIX / 'include'}", f"-I{SHARE}", f"-I{SHARE / 'damaris'}"]
        parts = [SHARE / "wattio_io_mpi.c", SHARE / "damaris/wattio_damaris.c"]
        library = io_library.LIBRARY.parent
        linked = [f"-L{library}", "-lwattio_io", f"-Wl,-rpath,{library}"]
        sources = [str(tmp_path / "program.c"), *map(str, parts)]
        subprocess.run(
            [f"mpicc.{mpi}", *folders, *sources, *linked, "-o", str(tmp_path / "program")],
            check=True,
            timeout=BUILDS_S,
        )
        more = ["--oversubscribe", "--bind-to", "none"] if mpi == "openmpi" else []
        return subprocess.run(
            [f"mpirun.{mpi}", *more, "-n", "2", str(tmp_path / "program")],
            cwd=tmp_path,
            env=environment(),
            capture_output=True,
            text=True,
            check=False,
            timeout=RUNS_S,
        )

    return run


@pytest.mark.system
def test_so_do_the_parts_for_mpi_and_damaris(
    ran: Callable[[str], subprocess.CompletedProcess[str]],
) -> None:
    # The first had a code without a text, and left `io` as it was; those of Damaris crashed.
    done = ran(PROGRAM)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


STARTS = """
#include "wattio_damaris.h"
#include <stdio.h>

int main(int argc, char **argv)
{
    int client, code, rank;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (damaris_initialize("many.xml", MPI_COMM_WORLD) != DAMARIS_OK ||
        damaris_write("u", argv) != DAMARIS_NOT_INITIALIZED)
        return 3;
    code = damaris_start(&client);
    if (rank == 0)
        printf("%d %s\\n", code, damaris_error());
    if (damaris_initialize("one.xml", MPI_COMM_WORLD) != DAMARIS_OK ||
        damaris_start(&client) != DAMARIS_OK)
        return 4;
    code = client ? damaris_initialize("one.xml", MPI_COMM_WORLD) : 0;
    if (rank == 0)
        printf("%d %s\\n", code, damaris_error());
    if (damaris_finalize() != DAMARIS_OK)
        return 5;
    MPI_Finalize();
    return 0;
}
"""

DESCRIBED = """<simulation name="s" xmlns="http://damaris.gforge.inria.fr/damaris/model">
<architecture><dedicated cores="{cores}" nodes="0"/><buffer name="b" size="1048576"/></architecture>
<data/></simulation>
"""


@pytest.mark.system
def test_the_text_is_that_of_the_call_that_failed_last(
    ran: Callable[[str], subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    for name, cores in (("many", 9), ("one", 1)):
        (tmp_path / f"{name}.xml").write_text(DESCRIBED.format(cores=cores))
    done = ran(STARTS)
    assert done.returncode == 0, done.stdout + done.stderr
    start, again = done.stdout.splitlines()
    # It told of the write that had come too early.
    assert start.startswith("-2 ")
    assert "9" in start
    assert "comes first" not in start
    # A second description took the place of the first one, under an open session.
    assert again == "-2 a session is open: damaris_stop comes first"
