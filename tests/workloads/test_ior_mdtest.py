"""IOR and mdtest as workloads: how they are called, with programs that only look like them."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from pydantic import ValidationError
from wattio.errors import HostError, WorkloadFailed
from wattio.workloads import ior, mdtest
from wattio.workloads.workload import Context, Place

DATA = Path(__file__).parents[1] / "data" / "outputs"

FAKE_MPIRUN = """\
import os, sys
words = sys.argv[1:]
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
"tests": [{{"Parameters": {{"segmentCount": 1}}, "Options": {{"tasks": 2}}, "Results": [
{{"access": "%s", "bwMiB": 2.0, "blockKiB": 1024, "xferKiB": 256, "totalTime": 1.0}}]
}}]}}''' % access)
{more}
"""
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
    install(folder, "ior", FAKE_IOR.format(more=""))
    install(folder, "mdtest", FAKE_MDTEST.format(data=str(DATA / "mdtest-3.3.txt")))
    monkeypatch.setenv("PATH", str(folder))
    return folder


def context(base: Path, *hosts: str, raw: str = "raw") -> Context:
    (base / "shared").mkdir(exist_ok=True)
    (base / raw).mkdir()
    return Context(tuple(Place(base / "shared", host) for host in hosts), base / raw)


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
    assert launched[:4] == ["launched:", "-np", "2", "ior"]
    called = " ".join(launched[4:])
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
    where = context(tmp_path, "one", "two")
    work.prepare(where)
    work.run("read", where)
    launched = (where.raw / "output.txt").read_text().split("\n")[0]
    assert "-np 4 --host one:2,two:2 --bind-to core ior" in launched


def test_an_error_that_ior_only_prints_is_a_failure(tmp_path: Path, programs: Path) -> None:
    install(programs, "ior", FAKE_IOR.format(more='print("ior ERROR: write() failed, errno 28")'))
    work = ior.Work(ior.Options.model_validate({"block": "1 MiB"}), tmp_path)
    where = context(tmp_path, "localhost")
    work.prepare(where)
    with pytest.raises(WorkloadFailed, match="ior: ior ERROR: write"):
        work.run("write", where)


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
    with pytest.raises(ValidationError):
        ior.Options.model_validate({"block": "1 MiB", "memory_per_node": "much"})
    work = ior.Work(ior.Options.model_validate({"block": "1 GB"}), tmp_path)
    assert work.seconds_guess(2) == 40.0
    assert json.dumps(work.describe())
    assert json.dumps(mdtest.Work(mdtest.Options(items=1), tmp_path).describe())
