"""A real MooseFS, in both forms of network, also after its process was killed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from wattio.errors import SystemFailed
from wattio.systems import mounts, networks, servers
from wattio.systems.moosefs import Options, Storage
from wattio.systems.networks import Loopback, Namespaces
from wattio.systems.nodes import Here
from wattio.workloads import mpi_io, mpi_meta
from wattio.workloads.workload import Context, Workload

HERE = Path(__file__).parent
PROGRAMS = ("mfsmaster", "mfschunkserver", "mfsmount", "mfscli", "ip", "tc", "nsenter")
NETWORKS = ("loopback", "namespaces")

pytestmark = pytest.mark.system


def leftovers(scratch: Path) -> list[object]:
    """What there is of a MooseFS of this scratch folder: all of it lies below, or bears a mark."""
    programs = ("mfsmaster", "mfschunkserver", "mfsmount")
    mine = Storage(Options(), scratch)
    found: list[object] = [*mounts.below(scratch), *servers.running(programs, scratch)]
    for network in mine._networks:
        if isinstance(network, Loopback):
            found += [network._found()] if network._found() else []
        elif isinstance(network, Namespaces):
            names = {path.name for path in Path("/run/netns").glob(f"{network._prefix}*")}
            found += [*names, *(networks._links() & {network._bridge, network.name(1)})]
    return [*found, *scratch.glob("moosefs")]


@pytest.mark.parametrize("network", NETWORKS)
def test_it_comes_up_serves_two_clients_and_goes(
    need: Callable[..., None], tmp_path: Path, network: str
) -> None:
    need(*PROGRAMS, namespaces=network == "namespaces")
    given = {"network": network, "goal": 2, "trash_time": "0 s"}
    storage = Storage(Options.model_validate(given), tmp_path)
    try:
        storage.probe()
        storage.deploy()
        storage.start()
        storage.start()  # once more: nothing is started twice
        with pytest.raises(SystemFailed, match="is not mounted"):
            storage.verify_mount()
        first, second = storage.mount(2)
        assert storage.mount(2) == [first, second]
        storage.verify_mount()
        (first.folder / "file").write_bytes(b"seen by the other client")
        assert (second.folder / "file").read_bytes() == b"seen by the other client"
        assert copies(storage, first.folder / "file") == 2
        check_facts(storage, network)
        subprocess.run(["umount", second.folder], check=True)
        with pytest.raises(SystemFailed, match="client 2: MooseFS is not mounted"):
            storage.verify_mount()
        storage.mount(2)
        storage.verify_mount()
        storage.unmount()
        storage.unmount()
        assert mounts.below(tmp_path) == []
        assert list(first.folder.iterdir()) == []  # the folder below holds nothing
        storage.stop()
        storage.stop()
    finally:
        storage.clean()
        storage.clean()
    assert leftovers(tmp_path) == []


def copies(storage: Storage, path: Path) -> int:
    """The goal of a file, as MooseFS's own tool tells it."""
    client = storage._network.node(4)  # of the first client of two chunk servers
    return int(client.call("goal", "mfsgetgoal", str(path)).rsplit(":", 1)[1])


def check_facts(storage: Storage, network: str) -> None:
    facts = storage.describe()
    assert facts["version"].startswith("3.")
    assert len(facts["servers"]) == 2
    assert len(facts["disks"]) == 1  # both servers' folders lie on one disk
    assert facts["raw_capacity_bytes"] > 0
    assert ("leg" in facts) is (network == "namespaces")
    json.dumps(facts)


@pytest.mark.parametrize("network", NETWORKS)
def test_what_a_killed_run_left_is_removed(
    need: Callable[..., None], tmp_path: Path, network: str
) -> None:
    need(*PROGRAMS, namespaces=network == "namespaces")
    options = {"network": network, "chunk_servers": 1}
    arguments = [
        sys.executable,
        str(HERE / "leaving.py"),
        "moosefs",
        json.dumps(options),
        str(tmp_path),
    ]
    storage = Storage(Options.model_validate(options), tmp_path)
    try:
        with subprocess.Popen(arguments, stdout=subprocess.PIPE) as run:
            assert run.stdout is not None
            assert run.stdout.readline() == b"ready\n"
            run.send_signal(signal.SIGKILL)
        assert len(leftovers(tmp_path)) > 4
        # The next run deploys over it, and it is a new one: no file of the old is there.
        storage.deploy()
        assert mounts.below(tmp_path) == []
        storage.start()
        place = storage.mount(1)[0]
        storage.verify_mount()
        assert list(place.folder.iterdir()) == []
    finally:
        Storage(Options(), tmp_path).clean()  # by another one, of other options
    assert leftovers(tmp_path) == []


def test_two_run_side_by_side(need: Callable[..., None], tmp_path: Path) -> None:
    need(*PROGRAMS)
    both = [Storage(Options(chunk_servers=1), tmp_path / name) for name in ("a", "b")]
    try:
        for storage in both:
            storage.deploy()
            storage.start()
        first, second = (storage.mount(1)[0].folder for storage in both)
        (first / "file").write_text("only here")
        assert list(second.iterdir()) == []
        both[0].clean()
        both[1].verify_mount()
    finally:
        for storage in both:
            storage.clean()
    assert leftovers(tmp_path / "a") == leftovers(tmp_path / "b") == []


def test_an_address_that_is_taken_is_told(need: Callable[..., None]) -> None:
    need("ip")
    first, second = (Loopback(mark, "10.77.254.0/24") for mark in ("tadd1", "tadd2"))
    try:
        first.up()
        first.up()
        with pytest.raises(SystemFailed, match=r"10.77.254.1/24 is in use on this host"):
            second.up()
        assert first.address(1) == first.address(2) == "10.77.254.1"
    finally:
        for network in (first, second):
            network.down()
            network.down()
    with pytest.raises(SystemFailed, match="is gone"):
        first.subnet()


def test_a_server_that_does_not_start_says_why(need: Callable[..., None], tmp_path: Path) -> None:
    need(*PROGRAMS)
    storage = Storage(Options(chunk_servers=1), tmp_path)
    try:
        storage.deploy()
        (tmp_path / "moosefs" / "master" / "data" / "metadata.mfs").write_bytes(b"damaged")
        with pytest.raises(SystemFailed, match=r"master: .*mfsmaster failed .*metadata"):
            storage.start()
    finally:
        storage.clean()


def received(network: Namespaces | None, seconds: float) -> int:
    """Bytes that go from a second node to a first one, or over plain loopback."""
    address = network.address(1) if network else "127.0.0.1"
    nodes = [network.node(1), network.node(2)] if network else [Here(), Here()]
    inside = [node.enter for node in nodes if isinstance(node, Here)]
    program = (sys.executable, str(HERE / "transfer.py"))
    serve = [*inside[0], *program, "serve", address]
    with subprocess.Popen(serve, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        assert server.stdout.readline() == "ready\n"
        subprocess.run([*inside[1], *program, "send", address, str(seconds)], check=True)
        return int(server.stdout.readline())


def test_a_leg_limits_the_rate(need: Callable[..., None]) -> None:
    need("ip", "tc", "nsenter", namespaces=True)
    carried = []
    for mark, rate in (("tleg1", 1e9), ("tleg2", 1e8)):
        network = Namespaces(mark, None, rate)
        try:
            network.up()
            network.add(1)
            network.add(2)
            network.add(2)
            carried.append(received(network, 1.0))
        finally:
            network.down()
            network.down()
    free = received(None, 1.0)
    gigabit, tenth = carried
    assert gigabit < free / 1.5
    assert 3 < gigabit / tenth < 30


@pytest.mark.parametrize("network", NETWORKS)
def test_mpi_ranks_work_through_their_own_mounts(
    need: Callable[..., None], tmp_path: Path, network: str
) -> None:
    need(*PROGRAMS, namespaces=network == "namespaces")
    storage = Storage(Options.model_validate({"network": network}), tmp_path / "scratch")
    sizes = {"total": "16 MiB", "transfer": "1 MiB"}
    works: list[tuple[ModuleType, Workload]] = [
        (mpi_io, mpi_io.Work(mpi_io.Options.model_validate({**sizes, "api": api}), tmp_path))
        for api in ("posix", "mpiio")
    ]
    small = mpi_meta.Options(items=20, shape="tree", depth=1)
    works.append((mpi_meta, mpi_meta.Work(small, tmp_path)))
    try:
        storage.deploy()
        storage.start()
        places = tuple(storage.mount(2))
        storage.verify_mount()
        for module, work in works:
            context = Context(places, tmp_path)
            work.prepare(context)
            for step in work.steps():
                spans = work.run(step, context)
                found = module.results(tmp_path)
                assert [span.name for span in spans] == [one.phase for one in found]
                assert all(one.seconds and one.operations for one in found)
                assert not any("share a host" in doubt for one in found for doubt in one.doubts)
            work.clean(context)
            assert list(places[1].folder.iterdir()) == []
    finally:
        storage.clean()
