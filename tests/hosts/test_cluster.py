"""Hosts behind real sshds, in namespaces as nodes."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from measuring.test_running import ended, ended_usable, result, wait_for, wattio
from wattio.errors import HostLost
from wattio.hosts.host import Access, Host
from wattio.hosts.hosts import Hosts
from wattio.kinds.measurement.folder import MeasurementFolder
from wattio.systems import claims, mounts

from hosts.cluster import SSHD, Cluster, cluster

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(
        os.geteuid() != 0 or not Path(SSHD).exists() or shutil.which("fio") is None,
        reason="needs root, sshd and fio",
    ),
]

STUDY = """\
[study]
name = "trial"
kind = "measurement"
repetitions = {repetitions}
clients = [1, 4]
idle_before = "0.2 s"
idle_after = "0 s"
settle = "0 s"
repeat_invalid = 0

[hosts]
clients = "{names}"
ssh = ["-F", "{config}"]
lease = "5 s"

[[system]]
name = "disk"
kind = "mounted"
options = {{ path = "{path}", fs = "{fs}" }}

[[workload]]
name = "fio"
[[workload.options.jobs]]
name = "write"
rw = "write"
bs = "64 KiB"
size = "4 MiB"
[[workload.options.jobs]]
name = "read"
rw = "read"
bs = "64 KiB"
size = "4 MiB"

[[workload]]
name = "own"
kind = "command"
options = {{ run = ["./work.sh"], guess = "1 s" }}

[[meter]]
name = "estimate:assumed"
covers = ["host"]
period = "0.1 s"

# A busy machine is late with its samples.
[rules]
gap_intervals = 50
missing_share_max = 0.9
"""

WORK = """\
#!/bin/sh
echo "begin write" >&$WATTIO_PHASES
hostname >/dev/null
sleep 0.3
echo "end write" >&$WATTIO_PHASES
echo "result write bytes=1048576" >&$WATTIO_PHASES
"""


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("cluster"), 4) as made:
        yield made


def access(made: Cluster, lease_s: float = 20.0) -> Access:
    return Access(("-F", str(made.config)), sys.executable, lease_s)


def until(reached: Callable[[], bool], limit_s: float = 60.0) -> bool:
    deadline = time.monotonic() + limit_s
    while not reached():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def write_study(folder: Path, made: Cluster, repetitions: int = 2) -> Path:
    (folder / "mount").mkdir()
    held = mounts.holding((folder / "mount").resolve(), mounts.current())
    assert held is not None
    path = folder / "study.toml"
    text = STUDY.format(
        repetitions=repetitions,
        names=f"{made.mark}-[1-4]",
        config=made.config,
        path=folder / "mount",
        fs=held.file_system,
    )
    path.write_text(text)
    (folder / "work.sh").write_text(WORK)
    (folder / "work.sh").chmod(0o755)
    return path


def agents(made: Cluster) -> list[int]:
    """What works for us at the nodes."""
    found = []
    for number in range(1, len(made.names) + 1):
        words = ("ip", "netns", "pids", made.namespace(number))
        done = subprocess.run(words, capture_output=True, check=True)
        for word in done.stdout.split():
            try:
                said = Path(f"/proc/{int(word)}/cmdline").read_bytes()
            except OSError:
                continue
            if said.startswith((b"python", sys.executable.encode())) and b"wattio-agent" in said:
                found.append(int(word))
    return found


def test_programs_on_all_nodes_begin_at_one_moment(nodes: Cluster) -> None:
    with Hosts(nodes.names, access(nodes)) as hosts:
        hosts.each(Host.clock)
        assert all(abs(host.offset.monotonic_ns) < 10**7 for host in hosts)  # it is one kernel
        at_ns = time.monotonic_ns() + 10**9
        running = [
            host.begin(["hostname"], at_monotonic_ns=host.offset.there_ns(at_ns)) for host in hosts
        ]
        starts = [one.wait(20).start.monotonic_ns for one in running]
    # One kernel: what the offsets get wrong, and how late a process runs that waits.
    assert max(starts) - min(starts) < 0.5e9
    assert agents(nodes) == []


def test_a_host_with_another_key_is_not_trusted(nodes: Cluster, tmp_path: Path) -> None:
    config = tmp_path / "config"
    text = nodes.config.read_text().replace(f"{nodes.folder}/known", str(tmp_path / "none"))
    config.write_text(text)
    with pytest.raises(HostLost, match="Host key verification failed"):
        Host(nodes.names[0], Access(("-F", str(config)))).open()


def test_a_network_that_dies_leaves_nothing_at_the_node(nodes: Cluster, tmp_path: Path) -> None:
    setting = tmp_path / "setting"
    setting.write_text("slow")
    host = Host(nodes.names[0], access(nodes, lease_s=2.0))
    host.open()
    try:
        host.ask("hold", settings=[[str(setting), "fast"]])
        running = host.begin(["sleep", "600"])
        assert until(lambda: len(agents(nodes)) == 2)  # and its guard
        nodes.cut(1)
        assert until(lambda: agents(nodes) == [])
        assert setting.read_text() == "slow"
        with pytest.raises(HostLost):
            running.wait(60)
    finally:
        nodes.mend(1)
        host.close()
    again = Host(nodes.names[0], access(nodes))
    assert until(lambda: not _fails(again))
    again.close()


def _fails(host: Host) -> bool:
    try:
        host.open()
    except HostLost:
        return True
    return False


def test_a_study_of_four_clients_over_ssh(nodes: Cluster, tmp_path: Path) -> None:
    path = write_study(tmp_path, nodes)
    ended_usable(path, tmp_path)
    folder = MeasurementFolder(result(tmp_path))
    for item in folder.iterations():
        assert item.usable, item.verdicts
        clients = int(item.run.settings.get("clients") or 0)
        if item.run.subject == "fio":
            assert item.by_phase["read"]["bytes"][0] == clients * (4 << 20)
            record = folder.record(item.identity)
            assert len(record.hosts) == clients
            assert record.caches_dropped
        if item.run.subject == "own":
            assert item.by_phase["write"]["bytes"][0] == clients << 20
    assert list((tmp_path / "mount").iterdir()) == []
    assert agents(nodes) == []


SYSTEMS = """
[[system]]
name = "moosefs"
options = { chunk_servers = 2, goal = 2, trash_time = "0 s" }

[[system]]
name = "glusterfs"
options = { bricks = 2, volume = "replica", copies = 2 }

[[system]]
name = "cephfs"
options = { osds = 2 }
"""

# Of no package: where somebody has built them, and says below which folder.
INSTALLED = """
[[system]]
name = "{name}"
options = {{ prefix = "{prefix}", {servers} = 2 }}
"""


def test_file_systems_are_brought_up_on_hosts(nodes: Cluster, tmp_path: Path) -> None:
    """Servers on two nodes, clients on the other two; nothing of it is on this machine."""
    check_on_hosts(nodes, tmp_path, SYSTEMS, {"moosefs", "glusterfs", "cephfs"})


@pytest.mark.installed
@pytest.mark.parametrize(
    ("name", "servers"), [("orangefs", "io_servers"), ("julea", "object_servers")]
)
def test_what_is_installed_is_brought_up_on_hosts(
    nodes: Cluster, tmp_path: Path, name: str, servers: str
) -> None:
    prefix = os.environ.get(f"WATTIO_{name.upper()}")
    if prefix is None:
        pytest.skip(f"WATTIO_{name.upper()} names no folder that it is installed below")
    text = INSTALLED.format(name=name, prefix=prefix, servers=servers)
    check_on_hosts(nodes, tmp_path, text, {name})


def check_on_hosts(nodes: Cluster, tmp_path: Path, systems: str, names: set[str]) -> None:
    path = write_study(tmp_path, nodes, repetitions=1)
    text = path.read_text()
    begin, end = text.index("[[system]]"), text.index("[[workload]]")
    text = text[:begin] + systems + text[end:]
    clients, servers = f"{nodes.mark}-[1-2]", f"{nodes.mark}-[3-4]"
    text = text.replace(
        f'clients = "{nodes.mark}-[1-4]"', f'clients = "{clients}"\nservers = "{servers}"'
    )
    path.write_text(text.replace("clients = [1, 4]", "clients = [2]"))
    ended_usable(path, tmp_path)
    folder = MeasurementFolder(result(tmp_path))
    for item in folder.iterations():
        assert item.usable, item.verdicts
        if item.run.subject == "fio":
            assert item.by_phase["read"]["bytes"][0] == 2 * (4 << 20)
            assert folder.record(item.identity).system["network"] == "hosts"
    assert {item.run.system for item in folder.iterations()} == names
    assert agents(nodes) == []
    # Other tests have files and servers of their own at the same time.
    for name in names:
        storage = claims.storage(name, {}, folder.path / "scratch" / name)
        place = Path("/var/tmp") / f"wattio-{storage._mark}"  # type: ignore[attr-defined]
        assert not place.exists()
        found = subprocess.run(("pgrep", "-af", str(place)), capture_output=True, check=False)
        assert not found.stdout


MPI = """
[[workload]]
name = "posix"
kind = "mpi_io"
options = { total = "8 MiB", transfer = "1 MiB" }

[[workload]]
name = "directory"
kind = "mpi_meta"
options = { items = 16 }

[[workload]]
name = "dumps"
kind = "hpcio"

[workload.options]
approach = "dc:1"
ranks = 8
size = "small"
steps = 4
output_every = 2
"""


def test_ranks_are_on_the_hosts(nodes: Cluster, tmp_path: Path) -> None:
    path = write_study(tmp_path, nodes, repetitions=1)
    text = path.read_text()
    begin, end = text.index("[[workload]]"), text.index("[[meter]]")
    path.write_text(text[:begin] + MPI + text[end:])
    ended_usable(path, tmp_path)
    folder = MeasurementFolder(result(tmp_path))
    found = {
        (item.run.subject, item.run.settings.get("clients")): item for item in folder.iterations()
    }
    for clients in (1, 4):
        assert found["posix", clients].by_phase["write"]["bytes"][0] == 8 << 20
        assert found["directory", clients].usable
        assert found["dumps", clients].by_phase["run"]["operations"][0] == 2
    assert list((tmp_path / "mount").iterdir()) == []


@pytest.mark.parametrize("option", ['core_share = "20 %"', 'language = "c"'])
def test_ranks_that_cannot_run_on_hosts_are_refused_before_anything_is_measured(
    nodes: Cluster, tmp_path: Path, option: str
) -> None:
    path = write_study(tmp_path, nodes, repetitions=1)
    text = path.read_text()
    begin, end = text.index("[[workload]]"), text.index("[[meter]]")
    entry = f'[[workload]]\nname = "dumps"\nkind = "hpcio"\noptions = {{ {option} }}\n'
    path.write_text(text[:begin] + entry + text[end:])
    code, _, err = ended(wattio("run", path, folder=tmp_path))
    assert code == 2
    assert "is only for ranks on this machine, but clients are on hosts" in err
    assert list((tmp_path / "mount").iterdir()) == []


COMPILE = """
[[workload]]
name = "compile"
options = { files = 20, jobs = 2, source_folder = "FOLDER" }
"""


def test_a_tree_is_built_on_the_hosts_and_kept_there_no_longer(
    nodes: Cluster, tmp_path: Path
) -> None:
    (tmp_path / "own").mkdir()
    path = write_study(tmp_path, nodes, repetitions=1)
    text = path.read_text()
    begin, end = text.index("[[workload]]"), text.index("[[meter]]")
    own = COMPILE.replace("FOLDER", str(tmp_path / "own"))
    path.write_text(text[:begin] + own + text[end:])
    ended_usable(path, tmp_path)
    folder = MeasurementFolder(result(tmp_path))
    items = [item for item in folder.iterations() if item.run.subject == "compile"]
    assert {item.run.settings["clients"] for item in items} == {1, 4}
    for item in items:
        clients = item.run.settings["clients"]
        assert item.usable, item.verdicts
        assert item.by_phase["copy"]["files"][0] == clients * 20
        assert item.by_phase["build"]["files"][0] == clients * 16
        assert item.by_phase["delete"]["files"][0] == clients * 36
    assert list((tmp_path / "mount").iterdir()) == []
    assert list((tmp_path / "own").iterdir()) == []


def test_a_study_over_ssh_that_is_killed_loses_nothing_and_leaves_nothing(
    nodes: Cluster, tmp_path: Path
) -> None:
    path = write_study(tmp_path, nodes, repetitions=3)
    process = wattio("run", path, folder=tmp_path)
    kept = 0
    for wanted in (2, 5, 8):
        folder = wait_for(tmp_path, wanted, process)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert until(lambda: agents(nodes) == [])
        assert len(folder.iterations()) >= max(wanted, kept)
        kept = len(folder.iterations())
        process = wattio("run", "--resume", folder.path, folder=tmp_path)
    code, _, err = ended(process)
    assert code == 0, err
    assert all(item.usable for item in MeasurementFolder(result(tmp_path)).iterations())
    assert list((tmp_path / "mount").iterdir()) == []


def test_a_node_that_is_lost_spoils_what_needs_it_and_the_rest_goes_on(
    nodes: Cluster, tmp_path: Path
) -> None:
    path = write_study(tmp_path, nodes)
    text = path.read_text().replace('lease = "5 s"', 'lease = "5 s"\nlost = "go on"')
    path.write_text(text)
    process = wattio("run", path, folder=tmp_path)
    wait_for(tmp_path, 1, process)
    nodes.cut(4)
    try:
        code, _, err = ended(process)
    finally:
        nodes.mend(4)
    assert code == 1, err
    folder = MeasurementFolder(result(tmp_path))
    one = [item for item in folder.iterations() if item.run.settings.get("clients") == 1]
    four = [item for item in folder.iterations() if item.run.settings.get("clients") == 4]
    assert len(one) == 4
    assert all(item.usable for item in one)
    lost = [item for item in four if not item.usable]
    assert lost
    for item in lost:
        assert any(nodes.names[3] in verdict.reason for verdict in item.verdicts), item.verdicts
    assert until(lambda: agents(nodes) == [])
