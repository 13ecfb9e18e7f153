"""Slow cores: where groups are made, what is written to them, how they go; and on this kernel."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hpcio.waiting import HANGS_S, until
from wattio.cli import main
from wattio.errors import HostError, InputError, WorkloadFailed
from wattio.workloads import mpi_launch, slow_cores
from wattio.workloads.hpcio import Options, launch
from wattio.workloads.ranks import HPCIO_REPORT
from wattio.workloads.workload import Context, Place

V1 = "26 24 0:24 {top} /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu,cpuacct\n"
V2 = "27 24 0:25 {top} /sys/fs/cgroup rw,relatime - cgroup2 cgroup2 rw,nsdelegate\n"
OTHER = "25 24 0:23 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"


def tree(root: Path, mounts: str, own: str) -> Path:
    """A tree with the files that this module reads."""
    of_process = root / "proc/self"
    of_process.mkdir(parents=True)
    (of_process / "mountinfo").write_text(OTHER + mounts)
    (of_process / "cgroup").write_text(own)
    (of_process / "ns").mkdir()
    (of_process / "ns/pid").touch()
    process(root, os.getpid(), "777")
    return root


def process(root: Path, pid: int, start: str) -> None:
    """A process that began then, of a name that is hard to read."""
    folder = root / "proc" / str(pid)
    folder.mkdir()
    (folder / "stat").write_text(f"{pid} (a) b) S " + "0 " * 18 + start + " 0 0\n")


def version_1(root: Path, own: str = "/", top: str = "/") -> Path:
    tree(root, V1.format(top=top), f"8:memory:/elsewhere\n3:cpu,cpuacct:{own}\n0::/\n")
    for folder in ("cpu", "cpu/job", "other"):
        (root / "sys/fs/cgroup" / folder).mkdir(parents=True)
        (root / "sys/fs/cgroup" / folder / "cgroup.procs").touch()
    return root


def version_2(root: Path, own: str, enabled: str) -> Path:
    """The user's slice has the controllers that are named, its scope has none."""
    tree(root, V2.format(top="/"), f"0::{own}\n")
    top = root / "sys/fs/cgroup"
    for folder, names in ((top, "memory"), (top / "user", enabled), (top / "user/scope", "")):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "cgroup.subtree_control").write_text(names)
        (folder / "cgroup.procs").touch()
    return root


def files(folder: Path) -> dict[str, str]:
    """The files below a folder and what is in them."""
    found = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_text() for path in found}


@pytest.mark.parametrize(
    ("own", "top", "parent"),
    [
        ("/", "/", "cpu"),
        ("/job", "/", "cpu/job"),
        ("/box/job", "/box", "cpu/job"),
        ("/box/gone", "/box", "cpu"),
        ("/outside", "/box", "cpu"),
        ("/../other", "/", "cpu"),
    ],
)
def test_version_1_makes_groups_below_its_own(
    own: str, top: str, parent: str, tmp_path: Path
) -> None:
    found = slow_cores.find(version_1(tmp_path, own, top))
    assert found == slow_cores.Hierarchy(1, tmp_path / "sys/fs/cgroup" / parent)


def test_version_2_makes_groups_where_the_controller_is_enabled(tmp_path: Path) -> None:
    found = slow_cores.find(version_2(tmp_path, "/user/scope", "memory cpu"))
    assert found == slow_cores.Hierarchy(2, tmp_path / "sys/fs/cgroup/user")


def test_without_the_controller_it_is_said_what_is_needed(tmp_path: Path) -> None:
    version_2(tmp_path, "/user/scope", "memory cpuset")
    with pytest.raises(HostError, match=r"no control group has the cpu controller; needed: root"):
        slow_cores.find(tmp_path)


def test_without_permission_it_is_said_what_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    version_2(tmp_path, "/user/scope", "cpu")
    monkeypatch.setattr(os, "access", lambda path, _: Path(path).name != "cgroup.procs")
    with pytest.raises(HostError, match="user: no permission to create groups; needed: root"):
        slow_cores.find(tmp_path)


def test_version_1_is_given_quotas_and_nothing_is_left(tmp_path: Path) -> None:
    version_1(tmp_path)
    top = tmp_path / "sys/fs/cgroup/cpu"
    with slow_cores.made(0.2, 2, tmp_path, remove=shutil.rmtree) as folder:
        assert folder.parent == top
        assert files(folder) == {
            "cpu.shares": "262144",
            "rank-0/cpu.cfs_period_us": "10000",
            "rank-0/cpu.cfs_quota_us": "2000",
            "rank-1/cpu.cfs_period_us": "10000",
            "rank-1/cpu.cfs_quota_us": "2000",
        }
        slow_cores.join(str(folder), 1)
        assert (folder / "rank-1/cgroup.procs").read_text() == "0"
    assert sorted(path.name for path in top.iterdir()) == ["cgroup.procs", "job"]


def test_version_2_is_given_quotas_and_nothing_is_left_after_an_error(tmp_path: Path) -> None:
    version_2(tmp_path, "/user/scope", "cpu")

    def fail() -> None:
        with slow_cores.made(0.02, 1, tmp_path, remove=shutil.rmtree) as folder:
            assert files(folder) == {
                "cgroup.subtree_control": "+cpu",
                "cpu.weight": "10000",
                "rank-0/cpu.max": "1000 50000",
            }
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    names = sorted(path.name for path in (tmp_path / "sys/fs/cgroup/user").iterdir())
    assert names == ["cgroup.procs", "cgroup.subtree_control", "scope"]


def test_groups_of_processes_that_are_gone_are_removed_at_the_next_start(tmp_path: Path) -> None:
    version_1(tmp_path)
    process(tmp_path, 5, "100")
    top = tmp_path / "sys/fs/cgroup/cpu"
    space = (tmp_path / "proc/self/ns/pid").stat().st_ino
    lives, began_anew, gone = (f"wattio-cores-{space}-{pid}-100-0" for pid in (5, 6, 7))
    elsewhere, foreign = f"wattio-cores-{space + 1}-7-100-0", "wattio-cores-of-somebody"
    process(tmp_path, 6, "101")
    for name in (lives, began_anew, gone, elsewhere, foreign):
        (top / name / "rank-0").mkdir(parents=True)
    with slow_cores.made(0.2, 1, tmp_path, remove=shutil.rmtree):
        pass
    assert sorted(path.name for path in top.iterdir()) == sorted(
        ["cgroup.procs", "job", lives, elsewhere, foreign]
    )


@pytest.mark.parametrize("text", ["20", "0 %", "0.5 %", "101 %", "twenty %", "-5 %", "", 0.2])
def test_a_share_that_is_none_is_refused(text: object) -> None:
    with pytest.raises(InputError, match='allowed: "1 %" to "100 %"'):
        slow_cores.parse(text)


def test_shares_are_read() -> None:
    assert [slow_cores.parse(text) for text in ("20 %", "12.5%", "100 %")] == [0.2, 0.125, 1.0]
    assert slow_cores.quota(1.0) == (10_000, 10_000)
    one = Options.model_validate({"ranks": 1, "core_share": "12.5 %"})
    assert one.model_dump(mode="json")["core_share"] == "12.5 %"


def test_more_than_the_machine_has_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    monkeypatch.setattr(slow_cores, "find", lambda: None)
    slow_cores.probe(0.25, 8)
    with pytest.raises(HostError, match='this machine has 2; allowed: at most "25 %"'):
        slow_cores.probe(0.251, 8)


def test_a_host_without_groups_is_refused_before_anything_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse() -> None:
        raise HostError("core_share: needed: root")

    monkeypatch.setattr(slow_cores, "find", refuse)
    with pytest.raises(SystemExit) as ended:
        main(["hpcio", "run", "--core-share", "20 %", "--out", str(tmp_path / "out")])
    assert ended.value.code == 2
    assert "needed: root" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_groups_that_cannot_be_made_any_more_fail_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise HostError("core_share: they have gone")

    monkeypatch.setattr(slow_cores, "find", refuse)
    options = Options.model_validate({"size": "tiny", "core_share": "20 %"})
    with pytest.raises(WorkloadFailed, match="run: core_share: they have gone"):
        launch(options, tmp_path / "dumps", Context((Place(tmp_path),), tmp_path))


def groups() -> list[Path]:
    """Those that are there on this machine."""
    return list(slow_cores.find().parent.glob("wattio-cores-*"))


def most_cpu_s(wall_s: float) -> float:
    """What a rank with 15 % of a core can have had of it.

    It is stopped at ticks only, and then pays back what it had too much: later, where ticks come
    late. Half more, and not the several times that a whole core would give.
    """
    return 1.5 * 0.15 * (wall_s + 0.1)


@pytest.mark.system
def test_ranks_get_their_share_and_no_more(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["hpcio", "run", "--core-share", "15 %", "--ranks", "4", "--ranks-per-node", "2"]
    words += ["--approach", "dc:1", "--steps", "40", "--output-every", "10", "--size", "tiny"]
    with pytest.raises(SystemExit) as ended:
        main([*words, "--json", "--no-sync", "--out", str(tmp_path / "out")])
    assert ended.value.code == 0
    told = json.loads(capsys.readouterr().out)
    assert told["core_share"] == 0.15
    assert told["cpu_s_computing"] <= most_cpu_s(told["wall_s"]) * told["ranks_computing"]
    assert not groups()


@pytest.mark.system
def test_ranks_that_only_write_get_their_share_and_no_more(tmp_path: Path) -> None:
    # About as much to write as such a core can, so that whoever has a faster one shows.
    words = ["hpcio", "run", "--core-share", "15 %", "--ranks", "4", "--ranks-per-node", "2"]
    words += ["--approach", "dc:1", "--steps", "40", "--output-every", "1", "--size", "tiny"]
    words += ["--compression", "gzip:9", "--buffer", "100 KiB", "--no-sync"]
    with pytest.raises(SystemExit) as ended:
        main([*words, "--json", "--out", str(tmp_path / "out")])
    assert ended.value.code == 0
    lines = (tmp_path / "out/run" / mpi_launch.OUTPUT).read_text().splitlines()
    [report] = [line for line in lines if line.startswith(f'{{"{HPCIO_REPORT}"')]
    ranks = json.loads(report)["account"]["ranks"]
    writers = [rank for rank in ranks if rank["role"] == "writer"]
    assert len(writers) == 2
    for rank in writers:
        assert 0 < rank["cpu_s"] <= most_cpu_s(rank["wall_s"])


@contextmanager
def endless(out: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A run without end whose ranks have slow cores: one that computes, and one that writes."""
    words = ["hpcio", "run", "--size", "tiny", "--steps", "10000000", "--output-every", "0"]
    words += ["--approach", "dc:1", "--core-share", "20 %", "--out", str(out)]
    process = subprocess.Popen(
        [sys.executable, "-m", "wattio.cli", *words], stderr=subprocess.DEVNULL
    )
    try:
        until(lambda: sum(map(len, members())) == 2)
        yield process
    finally:
        process.kill()
        process.communicate()


def members() -> list[list[str]]:
    """Processes in each group."""
    paths = [path for group in groups() for path in group.glob("rank-*/cgroup.procs")]
    return [path.read_text().split() for path in paths]


@pytest.mark.system
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_groups_are_gone_after_a_signal(number: signal.Signals, tmp_path: Path) -> None:
    with endless(tmp_path / "out") as process:
        process.send_signal(number)
        process.communicate(timeout=HANGS_S)
        until(lambda: not groups())
