"""NFS-Ganesha mounted by a kernel: Debian's own, in the guest; the server is on the host.

What the system does at its client's node is done in the guest: its own `mount`, its own looks at
what is mounted. Boots QEMU; run by `make guest` and `make test-system`.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from daemon.running import BINARY
from wattio.errors import SystemFailed
from wattio.systems import mounts, nfs_ganesha, servers
from wattio.systems.cluster import Cluster
from wattio.systems.commands import wait_until
from wattio.systems.networks import Loopback
from wattio.systems.nodes import Node

from guest.guest import Guest
from guest.node import GuestNode, guest_node

LIMIT_S = 300.0

pytestmark = [pytest.mark.system, pytest.mark.timeout(2 * LIMIT_S)]

# Those of busybox know no helpers of mounts, and no long options.
PROGRAMS = {
    "fio": "fio",
    "mount": "mount",
    "mount.nfs4": "nfs-common",
    "stat": "coreutils",
    "umount": "mount",
}
# mount(8) looks for its helpers there.
PREPARE = """
mkdir -p /sbin
cp /usr/local/bin/mount.nfs4 /sbin/mount.nfs4
cp /usr/local/bin/mount.nfs4 /sbin/umount.nfs4
"""
# What mount.nfs4 takes "tcp" by.
NAMES = {
    "/etc/netconfig": "tcp tpi_cots_ord v inet tcp - -\nudp tpi_clts v inet udp - -\n",
    "/etc/protocols": "tcp 6 TCP\nudp 17 UDP\n",
}
MIB = 1 << 20
WRITTEN_BYTES = 4 * MIB


class WithGuest(Loopback):
    """The host for the server, the guest for the client."""

    def __init__(self, mark: str, client: GuestNode) -> None:
        super().__init__(mark, None)
        self.client = client
        self.asked: Sequence[Node] = (client,)

    def machines(self) -> Sequence[Node]:
        """The guest alone while it is asked what it can do, for the host's kernel cannot mount."""
        return self.asked

    def node(self, node: int) -> Node:
        """The server is the first one."""
        return super().node(node) if node == 1 else self.client


@contextlib.contextmanager
def mounted_in_guest(storage: Cluster, network: WithGuest) -> Iterator[mounts.Mount]:
    """Bring a file system up on the host, and mount it in the guest; nothing is left of it."""
    storage._network, storage._networks = network, (network,)
    client = network.client
    try:
        storage.probe()
        network.asked = (*Loopback.machines(network), client)
        storage.deploy()
        storage.start()
        place = storage.mount(1)[0].folder
        storage.verify_mount()
        [mount] = client.mounts(place)
        yield mount
        storage.unmount()
        assert client.mounts(place) == []
        storage.stop()
    finally:
        network.asked = Loopback.machines(network)
        storage.clean()


def found(name: str, package: str) -> Path:
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"{name} needs the Debian package {package}")
    return Path(path)


def test_a_kernel_mounts_what_ganesha_serves(guest: Guest, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root")
    found("ganesha.nfsd", "nfs-ganesha")
    programs = [found(name, package) for name, package in PROGRAMS.items()]
    # Where a server has gone, a request fails after 2 s and a second try.
    options = nfs_ganesha.Options(mount_options=["soft", "timeo=20", "retrans=1"])
    storage = nfs_ganesha.Storage(options, tmp_path / "scratch")
    with guest_node(guest, programs, PREPARE, NAMES, LIMIT_S) as client:
        network = WithGuest(storage._mark, client)
        with mounted_in_guest(storage, network) as mount:
            place = mount.point
            assert (mount.file_system, mount.source) == ("nfs4", storage._source())
            assert {"vers=4.2", "proto=tcp", "soft"} <= set(mount.options)
            check_work(client, place, storage._data[0])
            check_latency(client, place, tmp_path / "root")
            assert wait_until(lambda: storage.unsettled() == 0, 10.0)
            check_death(storage, client, place)
    assert mounts.below(tmp_path) == []
    assert list((tmp_path).iterdir()) == []


def check_work(client: GuestNode, place: Path, served: Path) -> None:
    """What the guest writes lies in the folder that is served, and comes back from there."""
    work = ("--rw=write", "--bs=64k", f"--size={WRITTEN_BYTES}", "--end_fsync=1", "--verify=crc32c")
    said = client.call(
        "fio", "fio", "--name=file", f"--directory={place}", *work, "--output-format=json"
    )
    [job] = json.loads(said[said.index("{") :])["jobs"]
    assert job["error"] == 0
    assert (job["write"]["io_bytes"], job["read"]["io_bytes"]) == (WRITTEN_BYTES, WRITTEN_BYTES)
    [file] = served.iterdir()
    content = file.read_bytes()
    assert len(content) == WRITTEN_BYTES
    sum_there = client.call("sum", "sha256sum", str(place / file.name)).split()[0]
    assert sum_there == hashlib.sha256(content).hexdigest()
    client.call("directories", "mkdir", "-p", str(place / "one" / "below"))
    client.call("rename", "mv", str(place / file.name), str(place / "one" / "below" / "moved"))
    assert (served / "one" / "below" / "moved").read_bytes() == content
    client.call("remove", "rm", "-r", str(place / "one"))
    assert list(served.iterdir()) == []


def check_latency(client: GuestNode, place: Path, root: Path) -> None:
    """What the guest's kernel counted of it is a latency source of wattiod."""
    counted = client.call("counts", "sh", "-c", "cat /proc/self/mountstats")
    stat = "cpu  1 0 1 10 0 0 0 0 0 0\ncpu0 1 0 1 10 0 0 0 0 0 0\n"
    for name, text in (("proc/self/mountstats", counted), ("proc/stat", stat)):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    (root / "sys/devices/system/cpu/cpu0").mkdir(parents=True)
    config = root / "wattiod.toml"
    group = '[[group]]\nname = "all"\ncores = "0"\n'
    service = f'[service]\nlisten = "off"\nsocket = "{root}/socket"\n'

    def observed(mount: Path) -> subprocess.CompletedProcess[str]:
        latency = f'[latency]\nkind = "mountstats"\nmounts = ["{mount}"]\n'
        config.write_text(f'name = "nfs"\n{latency}{group}{service}')
        command = [str(BINARY), "--root", str(root), "observe", str(config)]
        command += ["--no-results", "--duration", "1 s"]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=LIMIT_S)

    seen = observed(place)
    # The processors of this tree stand still, which is all that is wrong with it.
    assert seen.returncode == 1
    assert "proc-stat: no tick passed" in seen.stderr
    assert "mountstats" not in seen.stderr
    refused = observed(place.parent)
    assert refused.returncode == 2
    assert f"NFS is mounted at {place}" in refused.stderr
    shutil.rmtree(root)


def check_death(storage: nfs_ganesha.Storage, client: GuestNode, place: Path) -> None:
    """A server that has gone is said, and nothing waits for it for ever."""
    daemon = storage._daemons()[0]
    [pid] = servers.running([daemon.program], daemon.folder)
    os.kill(pid, signal.SIGKILL)
    assert wait_until(lambda: not servers.running([daemon.program], daemon.folder), 10.0)
    with pytest.raises(SystemFailed, match=r"^server: ganesha\.nfsd has ended: "):
        storage.verify_mount()
    storage.abandon()
