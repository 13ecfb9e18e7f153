"""Dumps by libwattio_io from C: what a rank is blocked for, and what the library costs it.

Blocked time is wall time of one rank whose writer is on the same machine, against a plain copy of
the same memory in the same run. Files go to memory, as nobody waits for a disk. Whole applications
(`io_app.py`) of one computing rank are timed in turn with peers, those that are installed: ADIOS2's
BP5 engine, told to write beside the program (`pip install adios2`); h5py with a file of each
process and dump; parallel HDF5 by Debian's Python (`apt install python3-h5py-mpi python3-mpi4py`).
What publishing a dump of many writers takes is `io_publishing.py`'s.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib import util
from pathlib import Path
from statistics import median
from typing import IO

import h5py
import io_publishing
import numpy as np
from dumping import ENVIRONMENT, MEMORY, rate
from timing import BenchError, Goal, Line
from wattio.workloads import mpi_launch

MIB = 32
COPIED, PLACED = 4, 48
"""Variables of a dump that is copied, as the peers' were measured, and of one in place."""
DUMPS = 15
COPY_RATIO_MAX = 1.1
PLACE_S_MAX = 5e-5
OPEN_S_MAX = 0.05
PRIVATE_KIB_MAX = 2048
SPAN_S = 10.0
APP_DUMPS = {1: 200, 4: 100, 16: 30, 64: 8, 128: 6}
"""Dumps of a whole application, by their mebibytes: it lasts about a second."""
ROUNDS = 5
NAMES = {
    "alone": "without output",
    "dc": "dc:1",
    "tp": "tp",
    "bp5": "ADIOS2 BP5, AsyncWrite",
    "h5py": "h5py, a file for each process",
    "phdf5": "parallel HDF5",
}
"""Schemes of a whole application, as they are told."""

_DEBIAN = ("/usr/bin/python3", "-I")
"""Debian's Python with its own modules."""

_ROOT = Path(__file__).parents[1]
_BUILT = _ROOT / "target" / "release"


def lines() -> Iterator[Line]:
    """Run the benchmark. Raises BenchError."""
    _run(["cargo", "build", "--release", "--locked", "--quiet", "-p", "wattio-io"])
    _run(["cargo", "build", "--release", "--locked", "--quiet", "-p", "wattio-io-writer"])
    with tempfile.TemporaryDirectory(dir=MEMORY) as name:
        room = Path(name)
        found, switches = _measure(room, COPIED)
        in_place, _ = _measure(room, PLACED)
        peer = _adios2(room) if util.find_spec("adios2") else None
        whole = _applications(room)
        publishing = list(io_publishing.lines(_BUILT, room))
    copied, put, _ = (list(column) for column in zip(*found["dump"], strict=True))
    _, put_many, placed = (list(column) for column in zip(*in_place["dump"], strict=True))
    yield Line(
        "io-copy",
        "MiB",
        "memcpy",
        rate(copied, MIB),
        rate(put, MIB),
        Goal("ratio", 1 / COPY_RATIO_MAX),
        f"blocked time from C of a dump of {MIB} MiB in {COPIED} variables that is copied: at"
        f" most {COPY_RATIO_MAX:g} times a copy of the same memory",
    )
    yield Line(
        "io-place",
        "dumps",
        "copied",
        rate(put_many, 1),
        rate(placed, 1),
        Goal("ours", 1 / PLACE_S_MAX),
        f"the same in {PLACED} variables, each filled in place between its calls: under"
        f" {1e3 * PLACE_S_MAX:g} ms in all",
    )
    if peer is not None:
        yield Line(
            "io-bp5",
            "dumps",
            "ADIOS2 BP5, AsyncWrite",
            rate(peer, 1),
            rate(put[: len(peer)], 1),
            Goal("ratio", 1.0),
            "a dump that is copied against BP5 writing beside the program, blocked time",
        )
    yield from _whole(whole)
    yield from publishing
    private = median(one[1] for one in found["open"])
    if private > PRIVATE_KIB_MAX:
        raise BenchError(f"io: a rank holds {private:g} KiB of its own, over {PRIVATE_KIB_MAX}")
    if switches:
        raise BenchError(f"io: an idle writer was woken {switches} times in {SPAN_S:g} s")
    yield Line(
        "io-open",
        "opens",
        "Python's start",
        rate(_python_starts(), 1),
        rate([one[0] for one in found["open"]], 1),
        Goal("ours", 1 / OPEN_S_MAX),
        f"opening a session, its writer's start in it: under {1e3 * OPEN_S_MAX:g} ms; a rank holds"
        f" {private:g} KiB of its own for the library (at most {PRIVATE_KIB_MAX}), and its idle"
        f" writer was woken {switches} times in {SPAN_S:g} s",
    )


def _run(line: list[str | Path]) -> None:
    done = subprocess.run(line, cwd=_ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BenchError(f"io: {done.stderr[-500:]}")


def _measure(room: Path, variables: int) -> tuple[dict[str, list[tuple[float, ...]]], int]:
    """What ranks print, by the first word of each line; how often the writer woke while idle."""
    beside = Path(h5py.__file__).parents[1] / "h5py.libs"
    own = sorted(beside.glob("libhdf5-*.so*"))
    library = f'hdf5 = "{own[0]}"\n' if own else ""
    config = room / "hpcio.toml"
    config.write_text(
        f'[hpcio]\napproach = "dc"\nbuffer = "{3 * MIB} MiB"\nchecksum = false\n'
        f'existing = "overwrite"\noutput = "{room / "dumps"}"\n{library}'
        f'program = "{_BUILT / "wattio-io-writer"}"\n'
    )
    program = room / f"io_ranks{variables}"
    source = _ROOT / "benches" / "io_ranks.c"
    flags = ["-std=gnu11", "-O2", f"-I{_ROOT / 'crates/io/include'}"]
    _run(["cc", *flags, source, "-o", program, _BUILT / "libwattio_io.so"])
    name = room / "libwattio_io.so.0"
    name.unlink(missing_ok=True)
    name.symlink_to(_BUILT / "libwattio_io.so")
    found: dict[str, list[tuple[float, ...]]] = {"open": [], "dump": []}
    switches = 0
    for number in range(3):
        meeting = room / f"socket{variables}-{number}"
        line = [str(program), str(config), str(meeting), str(MIB), str(variables), str(DUMPS)]
        rank = subprocess.Popen(
            line,
            env={"LD_LIBRARY_PATH": str(room)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert rank.stdout is not None
        for _ in range(1 + DUMPS):
            word, *numbers = _line(rank.stdout).split()
            found[word].append(tuple(map(float, numbers)))
        if number == 0 and variables == COPIED:
            writer = _child(rank.pid)
            time.sleep(0.5)
            before = _switches(writer)
            time.sleep(SPAN_S)
            switches = _switches(writer) - before
        rank.communicate(timeout=60)
        if rank.returncode:
            raise BenchError(f"io: a rank ended with {rank.returncode}")
    return found, switches


def _line(stream: IO[str]) -> str:
    found = stream.readline()
    if not found:
        raise BenchError("io: a rank has ended")
    return found


def _child(parent: int) -> int:
    text = Path(f"/proc/{parent}/task/{parent}/children").read_text()
    return int(text.split()[0])


def _switches(process: int) -> int:
    """How often a process went to sleep of its own accord, its threads together."""
    total = 0
    for status in Path(f"/proc/{process}/task").glob("*/status"):
        for line in status.read_text().splitlines():
            if line.startswith("voluntary_ctxt_switches:"):
                total += int(line.split()[1])
    return total


def _python_starts() -> list[float]:
    found = []
    for _ in range(3):
        began_s = time.perf_counter()
        subprocess.run([sys.executable, "-c", "import mpi4py, h5py"], check=True)
        found.append(time.perf_counter() - began_s)
    return found


def _applications(room: Path) -> dict[str, dict[int, list[float]]]:
    """Seconds of a whole application by each scheme that is installed here, and size."""
    one = [sys.executable]
    launcher = mpi_launch.launcher(mpi_launch.RankOptions())
    if launcher is None:
        raise BenchError("io: there is no mpirun")
    ranks = [launcher.path, "--oversubscribe", "--bind-to", "none", "-np"]
    python = [sys.executable, "-m", "mpi4py"]
    lines = {"alone": one, "dc": [*ranks, "2", *python], "tp": [*ranks, "1", *python], "h5py": one}
    if util.find_spec("adios2"):
        lines["bp5"] = one
    parallel = ["mpirun.openmpi", "--bind-to", "none", "-np", "1", *_DEBIAN]
    if _has_parallel_hdf5():
        lines["phdf5"] = parallel
    found: dict[str, dict[int, list[float]]] = {name: {} for name in lines}
    for seed in range(ROUNDS):
        for name in np.random.default_rng(seed).permutation(list(lines)).tolist():
            output = room / f"app-{name}"
            output.mkdir()
            task = {"scheme": name, "dumps": list(APP_DUMPS.items()), "seed": seed}
            words = [
                str(_ROOT / "benches" / "io_app.py"),
                json.dumps({**task, "output": str(output)}),
            ]
            done = subprocess.run(
                [*lines[name], *words],
                env={**os.environ, **ENVIRONMENT},
                capture_output=True,
                text=True,
                check=False,
                timeout=300,
            )
            if done.returncode:
                raise BenchError(f"io: {name}: {done.stderr[-500:]}")
            for size, seconds in json.loads(done.stdout).items():
                found[name].setdefault(int(size), []).append(seconds)
            shutil.rmtree(output)
    return found


def _has_parallel_hdf5() -> bool:
    asked = "import h5py, mpi4py; raise SystemExit(not h5py.get_config().mpi)"
    line = [*_DEBIAN, "-c", asked]
    # It takes its parallel side under mpirun, or so.
    environment = {**os.environ, "H5PY_ALWAYS_USE_MPI": "1"}
    try:
        done = subprocess.run(line, env=environment, capture_output=True, check=False)
        return not done.returncode
    except OSError:
        return False


def _whole(found: dict[str, dict[int, list[float]]]) -> Iterator[Line]:
    """Whole applications: dedicated cores against BP5, or h5py where that is not installed."""
    peer = "bp5" if "bp5" in found else "h5py"
    absent = [NAMES[name] for name in NAMES if name not in found]
    for size, dumps in APP_DUMPS.items():
        told = [
            f"{NAMES[name]} {median(found[name][size]):.3g} s" for name in NAMES if name in found
        ]
        said = f"{dumps} dumps of {size} MiB, from the first step to the last file: "
        lacking = f"; not installed: {', '.join(absent)}" if absent else ""
        yield Line(
            f"io-app-{size}",
            "runs",
            NAMES[peer],
            rate(found[peer][size], 1),
            rate(found["dc"][size], 1),
            Goal("ratio", 1.0) if peer == "bp5" else None,
            said + ", ".join(told) + lacking,
        )


def _adios2(room: Path) -> list[float]:
    """Blocked time of dumps by BP5 that writes beside the program."""
    program = (
        "import sys, time, numpy as np, adios2\n"
        f"each = {MIB} * (1 << 20) // {COPIED} // 8\n"
        f"field = np.arange(each * {COPIED}, dtype='f8').reshape({COPIED}, each)\n"
        "io = adios2.Adios().declare_io('bench')\n"
        "io.set_engine('BP5')\n"
        "io.set_parameters({'AsyncWrite': 'On', 'BufferChunkSize': str(64 << 20),"
        " 'InitialBufferSize': str(64 << 20), 'StatsLevel': '0'})\n"
        f"names = [io.define_variable(f'v{{at}}', field[0], [each], [0], [each])"
        f" for at in range({COPIED})]\n"
        "engine = io.open(sys.argv[1], adios2.bindings.Mode.Write)\n"
        f"for dump in range({DUMPS}):\n"
        "    field += 1\n"
        "    began = time.perf_counter()\n"
        "    engine.begin_step()\n"
        "    for at, one in enumerate(names):\n"
        "        engine.put(one, field[at], adios2.bindings.Mode.Deferred)\n"
        "    engine.end_step()\n"
        "    print(time.perf_counter() - began)\n"
        "    time.sleep(0.3)\n"
        "engine.close()\n"
    )
    line = [sys.executable, "-c", program, str(room / "bench.bp")]
    done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=120)
    if done.returncode:
        raise BenchError(f"io: adios2: {done.stderr[-500:]}")
    # The first one makes what the others use again.
    return [float(one) for one in done.stdout.split()][1:]
