"""Real GlusterFS and CephFS: up, copies where they belong, a server that dies, and nothing left."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from wattio.errors import SystemFailed
from wattio.systems import cephfs, glusterfs, mounts, nfs_ganesha, servers
from wattio.systems.cluster import Cluster
from wattio.systems.commands import wait_until
from wattio.systems.networks import Loopback, Namespaces

from systems.killing import kill

HERE = Path(__file__).parent
MIB = 2**20
WRITTEN_BYTES = 16 * MIB
HOST_FOLDERS = [
    Path(name)
    for name in (
        "/run",
        "/run/gluster",
        "/run/ceph",
        "/var/lib/glusterd",
        "/var/lib/ceph",
        "/var/log/glusterfs",
        "/var/log/ceph",
        "/etc/ceph",
        "/etc/glusterfs",
    )
]

pytestmark = [pytest.mark.system, pytest.mark.timeout(120)]


@dataclass(frozen=True)
class Case:
    """A small file system: bytes that it stores for each that is written, and whom to kill."""

    module: str
    make: Callable[[Mapping[str, Any], Path], Cluster]
    options: dict[str, Any]
    stored_share: float
    victim: str
    programs: tuple[str, ...] = field(default=("ip", "tc", "nsenter"))

    def storage(self, scratch: Path, **more: object) -> Cluster:
        return self.make({**self.options, **more}, scratch)


def _gluster(options: Mapping[str, Any], scratch: Path) -> Cluster:
    return glusterfs.Storage(glusterfs.Options.model_validate(options), scratch)


def _ceph(options: Mapping[str, Any], scratch: Path) -> Cluster:
    return cephfs.Storage(cephfs.Options.model_validate(options), scratch)


SMALL_CEPH = {
    "placement_groups": 8,
    "metadata_placement_groups": 8,
    "size": "2 GiB",
    "osd_memory": "896 MiB",
}
DISPERSED = Case("glusterfs", _gluster, {"bricks": 3}, 1.5, "brick 3", ("glusterd", "nsenter"))
REPLICATED = Case(
    "glusterfs", _gluster, {"bricks": 2, "volume": "replica"}, 2.0, "server 2", ("glusterd",)
)
CEPH = Case("cephfs", _ceph, SMALL_CEPH, 2.0, "osd2", ("ceph-osd", "ceph-fuse", "ceph-mds"))


def leftovers(storage: Cluster, scratch: Path) -> list[object]:
    """What there is of it: all lies below its folder, or bears its mark."""
    found: list[object] = [*mounts.below(scratch), *servers.running(storage._programs(), scratch)]
    for network in storage._networks:
        if isinstance(network, Loopback):
            found += [network._found()] if network._found() else []
        elif isinstance(network, Namespaces):
            found += [path.name for path in Path("/run/netns").glob(f"{network._prefix}*")]
            found += [path.name for path in Path("/sys/class/net").glob(f"{network._prefix}*")]
    return [*found, *scratch.glob("*")]


@pytest.fixture(autouse=True)
def _host_is_untouched() -> Iterator[None]:
    """Nothing appears in the folders that the packages of the host use."""
    before = {folder: _names(folder) for folder in HOST_FOLDERS}
    yield
    assert {folder: _names(folder) for folder in HOST_FOLDERS} == before


def _names(folder: Path) -> set[str]:
    # Namespaces of tests that run beside this one come and go.
    found = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    return {name for name in found if name != "netns" and not name.endswith((".lock", ".pid"))}


def stored_bytes(storage: Cluster) -> list[int]:
    """What lies on each server's disk; GlusterFS has a second name for each file."""
    found = []
    for data in storage._data:
        stats = [path.lstat() for path in data.rglob("*")]
        found.append(sum({stat.st_ino: stat.st_blocks * 512 for stat in stats}.values()))
    return found


def carried_bytes(storage: Cluster) -> list[int]:
    """What each data server's leg has brought to it."""
    network = storage._network
    assert isinstance(network, Namespaces)
    names = [network.name(storage._data_node(number)) for number in storage._numbers()]
    # Of the host's end of the leg: what it sends is what the server receives.
    folder = Path("/sys/class/net")
    return [int((folder / name / "statistics/tx_bytes").read_text()) for name in names]


def grown(before: list[int], after: list[int]) -> list[int]:
    return [late - early for early, late in zip(before, after, strict=True)]


@pytest.mark.parametrize("case", [DISPERSED, CEPH], ids=lambda case: case.module)
def test_it_stores_copies_says_who_died_and_leaves_nothing(
    need: Callable[..., None], tmp_path: Path, case: Case
) -> None:
    need(*case.programs, namespaces=True)
    storage = case.storage(tmp_path, network="namespaces")

    def check(first: Path, second: Path) -> None:
        check_copies(storage, case, first, second)
        check_deletes(storage, first)
        assert storage.describe()["version"][:2] in ("10", "16")
        check_death(storage, case.victim, ".*20[0-9][0-9]-")

    check_life(storage, tmp_path, check)


def check_life(storage: Cluster, tmp_path: Path, check: Callable[[Path, Path], None]) -> None:
    """Up, mounted for two clients whose folders are checked until a server dies, and away again."""
    try:
        storage.probe()
        storage.deploy()
        storage.start()
        storage.start()  # once more: nothing is started or made twice
        with pytest.raises(SystemFailed, match="is not mounted"):
            storage.verify_mount()
        first, second = storage.mount(2)
        assert storage.mount(2) == [first, second]
        storage.verify_mount()
        json.dumps(storage.describe())
        check(first.folder, second.folder)
        storage.abandon()
        with pytest.raises(OSError, match=r"."):
            os.listdir(first.folder)  # noqa: PTH208 (fails, and does not wait)
        storage.unmount()
        storage.unmount()
        assert mounts.below(tmp_path) == []
        assert list(first.folder.iterdir()) == []  # the folder below holds nothing
        storage.stop()
        storage.stop()
    finally:
        storage.clean()
        storage.clean()
    assert leftovers(storage, tmp_path) == []


def check_copies(storage: Cluster, case: Case, first: Path, second: Path) -> None:
    """What is written comes back at another client, and is on the disks as often as it should."""
    stored, carried = stored_bytes(storage), carried_bytes(storage)
    content = os.urandom(WRITTEN_BYTES)
    with (first / "file").open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    wanted = case.stored_share * WRITTEN_BYTES
    stored = grown(stored, stored_bytes(storage))
    carried = grown(carried, carried_bytes(storage))
    # Servers note more than what is written, and the legs carry headers: none less, few more.
    assert wanted <= sum(stored) <= 1.3 * wanted
    assert wanted <= sum(carried) <= 1.3 * wanted
    # All servers have a share: two have all each, three of 2+1 have half each.
    assert min(carried) >= 0.9 * wanted / len(carried)
    assert (second / "file").read_bytes() == content


def check_deletes(storage: Cluster, folder: Path) -> None:
    """Deletes are seen while servers still have to do them, and it is seen that they are done."""

    def seen() -> bool:
        for number in range(50):
            (folder / str(number)).write_bytes(b"x" * 1024)
        for path in list(folder.iterdir()):
            path.unlink()
        # Directories go by another way than files.
        (folder / "one" / "below").mkdir(parents=True)
        shutil.rmtree(folder / "one")
        return bool(storage.deletes_left())

    # Servers may be done with them before they are asked.
    assert any(seen() for _ in range(20))
    assert wait_until(lambda: storage.unsettled() == 0, 60.0)


def check_death(storage: Cluster, part: str, words: str = "") -> None:
    """A server that dies is named, with its last words."""
    daemon = next(one for one in storage._daemons() if one.part == part)
    kill(daemon.program, daemon.folder)
    with pytest.raises(SystemFailed, match=f"^{part}: {daemon.program} has ended: {words}"):
        storage.verify_mount()


@pytest.mark.parametrize("case", [REPLICATED, CEPH], ids=lambda case: case.module)
def test_what_a_killed_run_left_is_removed(
    need: Callable[..., None], tmp_path: Path, case: Case
) -> None:
    need(*case.programs, namespaces=True)
    options = {**case.options, "network": "namespaces"}
    program = [sys.executable, str(HERE / "leaving.py"), case.module]
    storage = case.storage(tmp_path)
    try:
        with subprocess.Popen(
            [*program, json.dumps(options), str(tmp_path)], stdout=subprocess.PIPE
        ) as run:
            assert run.stdout is not None
            assert run.stdout.readline() == b"ready\n"
            run.send_signal(signal.SIGKILL)
        assert len(leftovers(storage, tmp_path)) > 8
    finally:
        storage.clean()  # by another one, of another network
    assert leftovers(storage, tmp_path) == []


def test_two_run_side_by_side(need: Callable[..., None], tmp_path: Path) -> None:
    need(*DISPERSED.programs)
    case = Case("glusterfs", _gluster, {"bricks": 2, "volume": "distribute"}, 1.0, "")
    both = [case.storage(tmp_path / name) for name in ("a", "b")]
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
    for storage, name in zip(both, ("a", "b"), strict=True):
        assert leftovers(storage, tmp_path / name) == []


def test_a_server_of_nfs_serves_and_goes(need: Callable[..., None], tmp_path: Path) -> None:
    """By a client that needs no kernel: many kernels of test machines have none for NFS."""
    need("ganesha.nfsd", "nfs-cp", "nfs-cat", namespaces=True)
    options = nfs_ganesha.Options(network="namespaces")
    storage = nfs_ganesha.Storage(options, tmp_path)
    try:
        storage.deploy()
        storage.start()
        storage.start()
        storage._network.add(storage._client_node(1))
        client = storage._client(1)
        place = f"nfs://{storage._network.address(1)}{nfs_ganesha.EXPORT}/file?version=4"
        (tmp_path / "sent").write_text("over the network")
        client.call("client 1", "nfs-cp", str(tmp_path / "sent"), place)
        assert client.call("client 1", "nfs-cat", place) == "over the network"
        assert (storage._data[0] / "file").read_text() == "over the network"
        assert storage.describe()["server_version"] is not None
        daemon = storage._daemons()[0]
        kill(daemon.program, daemon.folder)
        with pytest.raises(SystemFailed, match=r"^server: ganesha\.nfsd has ended: .*nfs-ganesha"):
            storage._check_daemons()
    finally:
        storage.clean()
    (tmp_path / "sent").unlink()
    assert leftovers(storage, tmp_path) == []
