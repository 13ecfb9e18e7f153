"""IOR and mdtest as workloads: how they are called, with programs that only look like them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType

import pytest
from pydantic import ValidationError
from wattio.clock import Instant, Span
from wattio.errors import HostError, WorkloadFailed
from wattio.workloads import invocation, ior, mdtest, mpirun
from wattio.workloads.workload import Context, Operation, Place

from workloads.hosts_fake import shared_hosts

DATA = Path(__file__).parents[1] / "data" / "outputs"

FAKE_MPIRUN = """\
import os, sys
words = sys.argv[1:]
if words == ["--version"]:
    print("mpirun (Open MPI) 4.1.4")
    sys.exit()
print("launched:", *words)
sys.stdout.flush()
start = next(i for i, word in enumerate(words) if word in ("ior", "mdtest"))
os.execvp(words[start], words[start:])
"""
FAKE_IOR = """\
import sys
words = sys.argv[1:]
access = "write" if "-w" in words else "read"
open(words[words.index("-o") + 1] + "." + access, "w").close()
print('''{{
"Version": "4.0.0",
"tests": [{{"TestID": 0, "Parameters": {{"segmentCount": 1}},
"Options": {{"tasks": {tasks}}}, "Results": [
{{"access": "%s", "bwMiB": 2.0, "blockKiB": 1024, "xferKiB": 256, "totalTime": 1.0}}]
}}]}}''' % access)
{more}
"""
PRINTS = 'print("ior ERROR: write() failed, errno 28")'
FAKE_MDTEST = """\
import sys
print(" ".join(sys.argv[1:]))
print(open({data!r}).read())
"""


def install(folder: Path, name: str, code: str) -> None:
    program = folder / name
    program.write_text(f"#!{sys.executable}\n{code}")
    program.chmod(0o755)


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH with nothing but programs that look like these."""
    folder = tmp_path / "bin"
    folder.mkdir()
    install(folder, "mpirun", FAKE_MPIRUN)
    install(folder, "ior", FAKE_IOR.format(more="", tasks=2))
    install(folder, "mdtest", FAKE_MDTEST.format(data=str(DATA / "mdtest-3.3.txt")))
    monkeypatch.setenv("PATH", str(folder))
    return folder


def context(base: Path, *hosts: str, raw: str = "raw") -> Context:
    (base / "shared").mkdir(exist_ok=True)
    (base / raw).mkdir()
    places = tuple(Place(base / "shared", host) for host in hosts)
    return Context(places, base / raw, hosts=shared_hosts())


def test_ior_writes_and_reads_apart(tmp_path: Path, programs: Path) -> None:
    options = ior.Options.model_validate(
        {"block": "1 MiB", "transfer": "256 KiB", "memory_per_node": "75%", "extra": ["-q"]}
    )
    work = ior.Work(options, tmp_path)
    work.probe()
    assert work.steps() == ("write", "read")
    where = context(tmp_path, "localhost", "localhost")
    work.prepare(where)
    spans = work.run("write", where)
    launched = (where.raw / "output.txt").read_text().split("\n")[0].split()
    begun = ["launched:", "-np", "2", "--oversubscribe", "--bind-to", "none", "ior"]
    assert launched[:7] == begun
    called = " ".join(launched[7:])
    assert "-a POSIX -t 262144 -b 1048576 -s 1 -i 1 -k -F -C -e -M 75% -q" in called
    assert "-w" in launched
    assert "-r" not in launched
    (found,) = ior.results(where.raw)
    assert (found.operation, found.phase, found.bytes) == ("write", "write", 2 << 20)
    assert (found.start_utc_ns, found.end_utc_ns) == (spans[0].start.utc_ns, spans[0].end.utc_ns)
    files = tmp_path / "shared" / "wattio-ior"
    assert [one.name for one in files.iterdir()] == ["data.write"]
    work.clean(where)
    work.clean(where)
    assert not files.exists()


def test_hosts_are_told_to_the_launcher(tmp_path: Path, programs: Path) -> None:
    options = ior.Options.model_validate(
        {"block": "1 MiB", "launcher": {"ranks_per_client": 2, "options": ["--bind-to", "core"]}}
    )
    work = ior.Work(options, tmp_path)
    install(programs, "ior", FAKE_IOR.format(more="", tasks=4))
    where = context(tmp_path, "one", "two")
    work.prepare(where)
    work.run("read", where)
    launched = (where.raw / "output.txt").read_text().split("\n")[0]
    assert "-np 4 --oversubscribe --host one:2,two:2 --bind-to core ior" in launched


def test_an_error_that_ior_only_prints_is_a_failure(tmp_path: Path, programs: Path) -> None:
    install(programs, "ior", FAKE_IOR.format(more=PRINTS, tasks=2))
    work = ior.Work(ior.Options.model_validate({"block": "1 MiB"}), tmp_path)
    where = context(tmp_path, "localhost")
    work.prepare(where)
    with pytest.raises(WorkloadFailed, match="ior: ior ERROR: write"):
        work.run("write", where)


def test_the_reason_is_iors_own_and_not_its_launchers(tmp_path: Path, programs: Path) -> None:
    """What ended the run was quoted from mpirun, which knows only that a rank had ended."""
    says = 'print("ERROR: no multiple")\nprint("a rank ended", file=sys.stderr)'
    install(programs, "ior", f"import sys\n{says}\nsys.exit(3)")
    work = ior.Work(ior.Options.model_validate({"block": "1 MiB"}), tmp_path)
    where = context(tmp_path, "localhost")
    work.prepare(where)
    with pytest.raises(WorkloadFailed, match=r"^ior: ERROR: no multiple$"):
        work.run("write", where)


def test_a_run_without_results_is_a_failure(tmp_path: Path, programs: Path) -> None:
    """A launcher that loses what its ranks print ends well all the same, as srun has done."""
    install(programs, "ior", 'import sys\nprint("lost", file=sys.stderr)')
    work = ior.Work(ior.Options.model_validate({"block": "1 MiB"}), tmp_path)
    where = context(tmp_path, "localhost")
    work.prepare(where)
    with pytest.raises(WorkloadFailed, match=r"^ior: holds no results of IOR.*: lost$"):
        work.run("write", where)


def test_a_launcher_of_another_mpi_is_told(tmp_path: Path, programs: Path) -> None:
    """Each rank is the only one of its own job then, and the first one's rows were taken."""
    install(programs, "ior", FAKE_IOR.format(more="", tasks=1))
    work = ior.Work(ior.Options.model_validate({"block": "1 MiB"}), tmp_path)
    where = context(tmp_path, "localhost", "localhost")
    work.prepare(where)
    with pytest.raises(WorkloadFailed, match=r"IOR ran on 1 ranks instead of 2: is .*/mpirun the"):
        work.run("write", where)


SLOW_START = """\
import sys, time
print('{"Version": "4.0.0", "tests": [{"TestID": 0, "Parameters": {"segmentCount": 1},')
print('"Options": {"tasks": 1}, "Results": [', flush=True)
time.sleep(0.15)
print('{"access": "write", "bwMiB": 10.0, "blockKiB": 1024, "xferKiB": 256,')
print('"totalTime": 0.1000', flush=True)
time.sleep(0.3)
print('}]}]}')
"""


@pytest.mark.parametrize("held", [False, True])
def test_the_phase_of_ior_is_its_own(
    tmp_path: Path, programs: Path, monkeypatch: pytest.MonkeyPatch, held: bool
) -> None:
    """The phase was the launcher's whole run: 0.12 s of I/O lay within 0.87 s of energy.

    A row comes when its access has ended; where all lines come at the end, nothing is known of it.
    """
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    code = SLOW_START.replace(", flush=True", "") if held else SLOW_START
    install(programs, "ior", code)
    work = ior.Work(ior.Options.model_validate({"block": "1 MiB"}), tmp_path)
    where = context(tmp_path, "localhost")
    work.prepare(where)
    (span,) = work.run("write", where)
    (found,) = ior.results(where.raw)
    whole = invocation.recall(where.raw).span()
    assert (found.start_utc_ns, found.end_utc_ns) == (span.start.utc_ns, span.end.utc_ns)
    assert span.start.monotonic_ns >= whole.start.monotonic_ns
    if held:
        assert span == whole
        assert found.doubts[-1].startswith("its output does not say when it worked: 0.1 s lie")
    else:
        assert span.seconds == pytest.approx(0.1)
        assert whole.end.monotonic_ns - span.end.monotonic_ns >= 0.29e9
        assert not any("does not say when it worked" in doubt for doubt in found.doubts)


def test_steps_of_before_lines_were_stamped_are_derived_as_ever(
    tmp_path: Path, programs: Path
) -> None:
    work = ior.Work(ior.Options.model_validate({"block": "1 MiB"}), tmp_path)
    where = context(tmp_path, "localhost", "localhost")
    work.prepare(where)
    work.run("write", where)
    (where.raw / "lines.jsonl").unlink()
    (found,) = ior.results(where.raw)
    assert found.start_utc_ns == invocation.recall(where.raw).span().start.utc_ns
    assert "its output does not say when it worked: 1 s lie" in found.doubts[-1]


def told(start_s: float, end_s: float) -> Span:
    ends = (Instant(round(at * 1e9), round(at * 1e9)) for at in (start_s, end_s))
    return Span("x", *ends)


def done(*seconds: float | None) -> list[Operation]:
    return [Operation("x", "x", one) for one in seconds]


@pytest.mark.parametrize(
    ("ready_s", "own", "work", "start_s", "doubt"),
    [
        (5.0, told(5.0, 6.0), done(0.5, 0.5), 5.0, ""),
        (5.0, told(5.0, 6.0), done(0.9, 0.105), 4.995, ""),  # the lines are late by some ms
        (5.0, told(5.0, 6.0), done(0.4, 0.4), 5.0, "its operations took 0.8 s of the 1 s"),
        (5.0, told(5.0, 6.0), done(0.4, None), 5.0, ""),
        (5.9, told(5.9, 6.0), done(1.0), 0.0, "1 s lie somewhere within the 10 s"),
        (5.5, told(5.0, 6.0), done(1.0), 0.0, "1 s lie somewhere within the 10 s"),
        (None, None, done(1.0), 0.0, "1 s lie somewhere within the 10 s"),
    ],
)
def test_what_lines_tell_of_a_phase(
    ready_s: float | None, own: Span | None, work: list[Operation], start_s: float, doubt: str
) -> None:
    ready = None if ready_s is None else told(ready_s, ready_s).start
    found, said = mpirun.phase(told(0.0, 10.0), ready, own, work)
    assert found.start.monotonic_ns / 1e9 == pytest.approx(start_s)
    assert doubt in said
    assert bool(doubt) == bool(said)


def test_mdtest_runs_its_phases_apart(tmp_path: Path, programs: Path) -> None:
    work = mdtest.Work(mdtest.Options(items=100), tmp_path)
    work.probe()
    assert work.steps() == ("create", "stat", "read", "remove")
    assert mdtest.Work(mdtest.Options(items=1, bytes=None), tmp_path).steps() == (
        "create",
        "stat",
        "remove",
    )
    for step, flag in (("create", "-C"), ("stat", "-T"), ("read", "-E"), ("remove", "-r")):
        where = context(tmp_path, "localhost", "localhost", raw=step)
        work.prepare(where)
        spans = work.run(step, where)
        called = (where.raw / "output.txt").read_text().split("\n")[1]
        folder = tmp_path / "shared" / "wattio-mdtest"
        expected = f"-n 100 -b 1 -z 0 -i 1 -N 1 -w 1024 -e 1024 {flag} -d {folder}"
        assert called == expected
        found = mdtest.results(where.raw)
        assert {one.phase for one in found} == {step}
        assert found[0].start_utc_ns == spans[0].start.utc_ns


def test_what_is_missing_is_told(
    tmp_path: Path, programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(HostError, match=r"ior is not installed.*no package registry.*use mpi_io"):
        ior.Work(ior.Options.model_validate({"block": "1 MiB"}), tmp_path).probe()
    with pytest.raises(HostError, match=r"mdtest is not installed.*use mpi_meta"):
        mdtest.Work(mdtest.Options(items=1), tmp_path).probe()
    install(tmp_path, "ior", "")
    with pytest.raises(HostError, match=r"mpirun is not installed.*openmpi-bin"):
        ior.Work(ior.Options.model_validate({"block": "1 MiB"}), tmp_path).probe()


def test_clients_with_folders_of_their_own_are_refused(tmp_path: Path) -> None:
    places = (Place(tmp_path / "a"), Place(tmp_path / "b"))
    work = ior.Work(ior.Options.model_validate({"block": "1 MiB"}), tmp_path)
    with pytest.raises(WorkloadFailed, match="takes one path for all clients"):
        work.prepare(Context(places, tmp_path))


def test_options_and_facts_are_plain(tmp_path: Path, programs: Path) -> None:
    work = ior.Work(ior.Options.model_validate({"block": "1 GB"}), tmp_path)
    assert work.seconds_guess(2) == 40.0
    assert json.dumps(work.describe())
    assert json.dumps(mdtest.Work(mdtest.Options(items=1), tmp_path).describe())


@pytest.mark.parametrize(
    ("memory", "hosts", "words"),
    [
        ("75%", ["localhost"], "-M 75%"),
        ("75 %", ["localhost"], "-M 75%"),
        ("2g", ["localhost"], f"-O memoryPerTask={1 << 30}"),
        ("256m", ["one", "two"], f"-O memoryPerTask={128 << 20}"),
        ("2 GiB", ["one", "two", "one"], f"-O memoryPerTask={(1 << 30) // 2}"),
    ],
)
def test_memory_is_told_in_a_form_that_ior_takes(
    tmp_path: Path, programs: Path, memory: str, hosts: list[str], words: str
) -> None:
    """IOR's -M takes shares only: of "2g" it took 2 %, at "256m" it ended."""
    install(programs, "ior", FAKE_IOR.format(more="", tasks=2 * len(hosts)))
    options = {"block": "1 MiB", "memory_per_node": memory, "launcher": {"ranks_per_client": 2}}
    work = ior.Work(ior.Options.model_validate(options), tmp_path)
    where = context(tmp_path, *hosts)
    work.prepare(where)
    work.run("write", where)
    assert f" {words} " in (where.raw / "output.txt").read_text().split("\n")[0]


@pytest.mark.parametrize("memory", ["much", "101%", "2", "-1 GiB", "0 GiB", "", "2 g", "1e400 GiB"])
def test_memory_that_ior_cannot_hold_is_refused(memory: str) -> None:
    with pytest.raises(ValidationError, match='allowed: a share such as "75%", or a size such as'):
        ior.Options.model_validate({"block": "1 MiB", "memory_per_node": memory})


def arguments(work: mpirun.Benchmark) -> str:
    return " ".join(work._arguments())


@pytest.mark.parametrize(
    ("options", "given"),
    [
        # The thesis, figure A.6: one shared file by MPI-IO, and a file of each rank by POSIX.
        (
            {
                **{"api": "MPIIO", "block": "36 GiB", "memory_per_node": "85%"},
                **{"file_per_process": False, "fsync": False},
            },
            "-a MPIIO -t 4194304 -b 38654705664 -s 1 -i 1 -k -C -M 85%",
        ),
        (
            {"api": "POSIX", "block": "9 GiB", "memory_per_node": "85%"},
            "-a POSIX -t 4194304 -b 9663676416 -s 1 -i 1 -k -F -C -e -M 85%",
        ),
        (
            {"block": "8 MiB", "shift": "random", "shift_by": 2, "random_offsets": True},
            "-a POSIX -t 4194304 -b 8388608 -s 1 -i 1 -k -F -e -Z -z -Q 2",
        ),
        (
            {"api": "MPIIO", "block": "8 MiB", "collective": True, "shift": False},
            "-a MPIIO -t 4194304 -b 8388608 -s 1 -i 1 -k -F -e -c",
        ),
    ],
)
def test_ior_is_called_with_what_was_asked_for(
    tmp_path: Path, options: dict[str, object], given: str
) -> None:
    work = ior.Work(ior.Options.model_validate(options), tmp_path)
    assert arguments(work) == f"{given} -O summaryFormat=JSON"


@pytest.mark.parametrize(
    ("options", "given"),
    [
        # The thesis, figure A.5, for one host: the tree, and the large directory (which were two).
        (
            {"items_per_directory": 1200, "branches": 2, "depth": 4},
            "-I 1200 -b 2 -z 4 -i 1 -N 1 -w 1024 -e 1024",
        ),
        (
            {"items": 50000, "branches": 1, "depth": 1},
            "-n 50000 -b 1 -z 1 -i 1 -N 1 -w 1024 -e 1024",
        ),
        (
            {"items": 10, "bytes": "4 KiB", "read_bytes": "1 KiB", "unique_folders": True},
            "-n 10 -b 1 -z 0 -i 1 -N 1 -w 4096 -e 1024 -u",
        ),
    ],
)
def test_mdtest_is_called_with_what_was_asked_for(
    tmp_path: Path, options: dict[str, object], given: str
) -> None:
    work = mdtest.Work(mdtest.Options.model_validate(options), tmp_path)
    assert arguments(work) == given


def test_items_of_a_tree_are_those_of_its_directories() -> None:
    tree = mdtest.Options(items_per_directory=600, branches=2, depth=4)
    assert tree.items_of_rank == 600 * (1 + 2 + 4 + 8 + 16)


@pytest.mark.parametrize(
    ("module", "options", "said"),
    [
        (ior, {"block": "1 MiB", "collective": True}, 'collective is for api = "MPIIO"'),
        (ior, {"block": "1 MiB", "shift": False, "shift_by": 2}, "shift_by is for shift"),
        (mdtest, {}, "either items .* or items_per_directory"),
        (mdtest, {"items": 1, "items_per_directory": 1}, "either items .* or items_per_directory"),
        (mdtest, {"items": 1, "read_bytes": "2 KiB"}, "read_bytes must not be above bytes"),
    ],
)
def test_options_that_do_not_agree_are_refused(
    module: ModuleType, options: dict[str, object], said: str
) -> None:
    with pytest.raises(ValidationError, match=said):
        module.Options.model_validate(options)
