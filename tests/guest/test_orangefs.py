"""OrangeFS mounted by a kernel: Debian's own, in the guest; the servers are on the host.

Where somebody has installed OrangeFS (WATTIO_ORANGEFS), for no package has it. Boots QEMU.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from wattio.systems import mounts, orangefs
from wattio.systems.networks import Loopback
from wattio.systems.nodes import Node

from guest.guest import Guest
from guest.node import GuestNode, guest_node
from guest.test_nfs import LIMIT_S, WithGuest, found, mounted_in_guest

pytestmark = [pytest.mark.system, pytest.mark.timeout(2 * LIMIT_S)]

SERVERS = 3
PROGRAMS = {"mount": "mount", "stat": "coreutils", "umount": "mount"}
CLIENT = ("pvfs2-client", "pvfs2-client-core")
PREPARE = """
mkdir -p {prefix}/sbin
for program in {client}; do ln -s /usr/local/bin/$program {prefix}/sbin/$program; done
"""
WRITTEN_BYTES = 4 << 20


class WithServers(WithGuest):
    """The host for all servers, the guest for the client."""

    def node(self, node: int) -> Node:
        """Servers come first."""
        return Loopback.node(self, node) if node <= SERVERS else self.client


@pytest.mark.installed
def test_a_kernel_mounts_what_orangefs_serves(
    guest: Guest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefix = os.environ.get("WATTIO_ORANGEFS")
    if prefix is None or os.geteuid() != 0:
        pytest.skip("needs root, and WATTIO_ORANGEFS: a folder that it is installed below")
    # The guest is given the libraries of its programs, where the loader finds them here.
    monkeypatch.setenv("LD_LIBRARY_PATH", f"{prefix}/lib")
    programs = [found(name, package) for name, package in PROGRAMS.items()]
    programs += [Path(prefix, "sbin", name) for name in CLIENT]
    options = orangefs.Options(prefix=prefix, io_servers=SERVERS - 1, client="kernel")
    storage = orangefs.Storage(options, tmp_path / "scratch")
    prepare = PREPARE.format(prefix=prefix, client=" ".join(CLIENT))
    with (
        guest_node(guest, programs, prepare, {}, LIMIT_S) as client,
        mounted_in_guest(storage, WithServers(storage._mark, client)) as mount,
    ):
        assert (mount.file_system, mount.source) == ("pvfs2", storage._source())
        check_work(client, mount.point, storage._data)
    assert mounts.below(tmp_path) == []


def check_work(client: GuestNode, place: Path, data: Sequence[Path]) -> None:
    """What is written is on the servers, and the same when it is read past the cache."""
    file = str(place / "file")
    blocks = ("bs=1M", f"count={WRITTEN_BYTES >> 20}")
    client.call("source", "dd", "if=/dev/urandom", "of=/tmp/source", *blocks)
    client.call("write", "dd", "if=/tmp/source", f"of={file}", *blocks, "conv=fsync")
    client.call("cache", "sh", "-c", "echo 3 > /proc/sys/vm/drop_caches")
    sums = client.call("sums", "sha256sum", "/tmp/source", file).split()[::2]
    assert sums[0] == sums[1]
    streams = [path for folder in data for path in folder.rglob("*.bstream")]
    assert sum(path.stat().st_size for path in streams) == WRITTEN_BYTES
    # Stripes of 64 KiB, in turn: the file again.
    parts = [path.read_bytes() for path in streams if path.stat().st_size]
    assert len(parts) == SERVERS - 1
    step = 1 << 16
    woven = {
        hashlib.sha256(
            b"".join(part[at : at + step] for at in range(0, len(order[0]), step) for part in order)
        ).hexdigest()
        for order in (parts, parts[::-1])
    }
    assert sums[0] in woven
    client.call("remove", "rm", file)
