"""The mini-app's twins in C and Fortran: compiled by the machine's MPI, and what they print.

They compute and dump what `wattio.miniapp` does, without Python in the ranks. Programs are kept in
the user's cache, `~/.cache/wattio/miniapp`, one for each source, compiler and library.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from wattio import miniapp
from wattio.errors import HostError
from wattio.files.small import cache_folder
from wattio.hpcio import account, library
from wattio.hpcio.account import Account, DumpRecord, RankAccount
from wattio.miniapp.loop import spread
from wattio.workloads import mpi_find, mpi_launch
from wattio.workloads.mpi_find import Found
from wattio.workloads.mpi_launch import RankOptions
from wattio.workloads.ranks import HPCIO_REPORT, VERSION

Language = Literal["python", "c", "fortran"]

SOURCES = Path(miniapp.__file__).parent / "native"
BUILDS_S = 300.0
_WHAT = {"c": "C", "fortran": "Fortran"}
_INSTALL = "apt install libopenmpi-dev openmpi-bin gfortran"
# Values as in Python: no operations are fused, and sums of 64 bits wrap.
_FLAGS = ("-O2", "-ffp-contract=off")
_FORTRAN = ("-fno-range-check", "-fwrapv")


def compilers(found: Found) -> tuple[str | None, str | None]:
    """MPI's compilers of C and Fortran that belong to a launcher."""
    path = Path(found.path)
    suffix = path.name.removeprefix("mpirun") if path.name.startswith("mpirun.") else ""

    def beside(name: str) -> str | None:
        candidates = (path.with_name(name + suffix), path.with_name(name))
        return next((str(one) for one in candidates if os.access(one, os.X_OK)), None)

    return beside("mpicc"), beside("mpifort")


def launchers(language: str, options: RankOptions) -> list[Found]:
    """Launchers whose MPI has the compilers; the one that is named, or those on PATH."""
    if options.mpirun != mpi_find.ANY:
        named = mpi_find.named(options.mpirun)
        every = [] if named is None else [named]
    else:
        own = mpi_launch.launcher(options)
        every = [*mpi_find.on_path(), *([] if own is None else [own])]
    needed = 1 if language == "c" else 2
    return [one for one in every if all(compilers(one)[:needed])]


def built(language: str, options: RankOptions) -> tuple[Found, Path]:
    """The program, compiled where it has not been, and what starts it.

    Raises HostError: what is missing, or what the compiler says.
    """
    prefix, told = library.prefix(), ""
    for found in launchers(language, options):
        try:
            return found, _program(language, found, prefix)
        except HostError as error:
            told = str(error)
    raise HostError(
        told
        or f"language: no MPI with a compiler of {_WHAT[language]} was found: {_INSTALL}, or name"
        " another one's mpirun"
    )


def _program(language: str, found: Found, prefix: Path) -> Path:
    key = hashlib.sha256()
    mpicc, mpifort = compilers(found)
    for word in (language, mpicc, mpifort, prefix, *_FLAGS, *_FORTRAN):
        key.update(f"{word}\n".encode())
    for path in _sources(language, prefix):
        key.update(path.read_bytes())
    place = cache_folder() / "miniapp" / key.hexdigest()[:24]
    program = place / "miniapp"
    if not program.exists():
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=place.parent) as name:
                _compile(language, found, prefix, Path(name))
                place.mkdir(exist_ok=True)
                (Path(name) / "miniapp").replace(program)
        except OSError as error:
            told = f"{place}: the mini-app cannot be saved: {error.strerror}"
            raise HostError(told) from None
    return program


def _sources(language: str, prefix: Path) -> list[Path]:
    share = prefix / "share" / "wattio_io"
    if language == "c":
        return [SOURCES / "miniapp.c", share / "wattio_io_mpi.c"]
    modules = [share / "wattio_io.f90", share / "wattio_io_mpi.f90"]
    return [*modules, SOURCES / "miniapp.f90", share / "wattio_io_mpi.c"]


def _compile(language: str, found: Found, prefix: Path, place: Path) -> None:
    mpicc, mpifort = compilers(found)
    include = [f"-I{prefix / 'include'}", f"-I{prefix / 'share' / 'wattio_io'}"]
    link = [f"-L{prefix / 'lib'}", "-lwattio_io", f"-Wl,-rpath,{prefix / 'lib'}", "-lm"]
    sources: list[str | Path] = [*_sources(language, prefix)]
    shim = sources.pop()
    if language == "c":
        _call([str(mpicc), *_FLAGS, *include, *sources, shim, "-o", "miniapp", *link], place)
        return
    _call([str(mpicc), *_FLAGS, *include, "-c", shim, "-o", "shim.o"], place)
    line = [str(mpifort), *_FLAGS, *_FORTRAN, *sources, "shim.o", "-o", "miniapp", *link]
    _call(line, place)


def _call(line: list[str | Path], place: Path) -> None:
    words = [str(word) for word in line]
    try:
        done = subprocess.run(
            words, cwd=place, capture_output=True, text=True, timeout=BUILDS_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise HostError(f"{words[0]}: did not end within {BUILDS_S:g} s") from None
    if done.returncode:
        said = [one.strip() for one in done.stderr.splitlines() if "rror" in one]
        raise HostError(f"{words[0]}: {said[0] if said else done.stderr[-200:].strip()}")


class Printed(BaseModel):
    """What a twin prints: lists are of each computing rank's steps, or dumps."""

    model_config = ConfigDict(frozen=True, strict=True)

    wattio_twin: int
    host: str
    boot: str
    mpi: str
    arrangement: list[int]
    model_step_s: float
    start: list[int]
    computed: list[int]
    end: list[int]
    step_s: list[list[float]]
    dump_s: list[list[float]]
    blocked_s: list[list[float]]
    cpu_s: list[list[float]]
    before: dict[str, float | str]
    after: dict[str, float | str]
    report: dict[str, Any]
    told: dict[str, Any]


def as_report(printed: Printed) -> dict[str, Any]:
    """What a rank of Python would have printed. Raises KeyError, TypeError for what is not that."""
    plan, domain = printed.told["plan"], printed.told["domain"]
    every = plan["output_every"]
    steps = list(range(every, plan["steps"] + 1, every)) if every else []
    ranks = list(_ranks(printed, steps))
    whole = Account(printed.report["approach"], ranks)
    computing = [rank for rank in ranks if rank.role == "compute"]
    slowest = [max(times) for times in zip(*printed.blocked_s, strict=True)]

    def flat(lists: list[list[float]]) -> list[float]:
        return [one for own in lists for one in own]

    def checked(sums: dict[str, float | str]) -> dict[str, Any]:
        return {**sums, "fingerprint": int(str(sums["fingerprint"]), 16)}

    return {
        HPCIO_REPORT: VERSION,
        **{key: getattr(printed, key) for key in ("host", "boot", "mpi", "model_step_s")},
        **{key: getattr(printed, key) for key in ("arrangement", "start", "computed", "end")},
        "plan": plan,
        "domain": domain,
        "ranks": len(ranks),
        "computing": len(computing),
        "dumps": len(steps),
        "synced": printed.told["synced"],
        "dump_bytes": printed.told["dump_bytes"],
        "step_s": spread(flat(printed.step_s)),
        "dump_s": spread(flat(printed.dump_s)),
        "blocked_s": spread(flat(printed.blocked_s)),
        "blocked_s_slowest": spread(slowest),
        "cpu_s_computing": sum(flat(printed.cpu_s)),
        "cpu_s_writing": whole.cpu_s("writer"),
        "checks": {"before": checked(printed.before), "after": checked(printed.after)},
        "account": whole.as_json(),
    }


def _ranks(printed: Printed, steps: list[int]) -> Iterator[RankAccount]:
    """The ranks' accounts. A writer tells of all its dumps together: each has the mean."""
    entries = printed.report["ranks"]
    per_node = printed.told["ranks_per_node"] or len(entries)
    reasons = {
        step: text for one in entries if one["writer"] for step, text in one["writer"]["failed"]
    }
    computing = 0
    for entry in entries:
        rank, computed, writer = entry["rank"], entry["compute"], entry["writer"]
        own = RankAccount(rank, rank // per_node, "writer" if computed is None else "compute")
        if computed is not None:
            size = computed["bytes"] // max(1, len(steps))
            times = zip(steps, printed.blocked_s[computing], strict=True)
            own.dumps = [DumpRecord(step, bytes=size, blocked_s=s) for step, s in times]
            own.cpu_s = sum(printed.cpu_s[computing])
            computing += 1
        if writer is not None:
            lost = {*writer["dropped"], *(step for step, _ in writer["failed"])}
            written = max(1, writer["written"])
            mean = {"bytes": writer["bytes"] // written, "write_s": writer["write_s"] / written}
            kept = [{"step": step, **mean} for step in steps if step not in lost]
            entry = {**entry, "writer": {**writer, "dumps": kept}}
        account.settle(own, entry, reasons)
        yield own
