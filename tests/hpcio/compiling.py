"""Building and running programs that use the library."""

from __future__ import annotations

import contextlib
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from hpcio import io_library
from hpcio.launching import environment

STEPS = [0, 10, 20, 30]
"""What the examples dump, where they are not told otherwise."""
BUILDS_S = 300.0
RUNS_S = 120.0


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


def configure(folder: Path, approach: str) -> Path:
    return io_library.configure(folder, approach=approach, ranks_per_node=2, buffer="4 MiB")


def open_files(process: Path) -> dict[Path, str]:
    """What a process, a folder of /proc, has open, by its links; it may close some meanwhile."""
    found = {}
    for one in (process / "fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            found[one] = str(one.readlink())
    return found


def processes(name: str, folder: Path) -> list[int]:
    """Those of a program whose configuration, or open files, lie below a folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            line = (path / "cmdline").read_bytes().split(b"\0")
            near = str(folder).encode() in b" ".join(line) or any(
                str(folder) in file for file in open_files(path).values()
            )
        except OSError:
            continue
        if line[0].endswith(name.encode()) and near:
            found.append(int(path.name))
    return found


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
