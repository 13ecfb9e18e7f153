"""Linux' own file systems on a disk of the storage target, which is ended in the midst of work.

Boots QEMU; run by `make guest` and `make test-system`.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from guest.guest import Guest
from guest.image import Content
from guest.target import HOST, served

pytestmark = [pytest.mark.system, pytest.mark.timeout(700)]

HERE = Path(__file__).parent
# The smallest that mkfs.xfs makes is 300 MiB.
SIZE = "320MiB"
# How far the work is when the target is ended, in lines of all manifests together.
LINES_BEFORE = (60, 300)
PROGRAMS = {
    "ext4": (("mkfs.ext4", "e2fsprogs"), ("fsck.ext4", "e2fsprogs")),
    "xfs": (("mkfs.xfs", "xfsprogs"), ("xfs_repair", "xfsprogs")),
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program that works on files."""
    built = tmp_path_factory.mktemp("files") / "files"
    source = HERE / "files.c"
    subprocess.run(
        ("gcc", "-Wall", "-Wextra", "-Werror", "-O2", "-static", "-o", built, source), check=True
    )
    return built


def programs(filesystem: str) -> list[Path]:
    found = []
    for name, package in (("nbd-client", "nbd-client"), *PROGRAMS[filesystem]):
        path = shutil.which(name)
        if path is None:
            pytest.skip(f"{name} needs the Debian package {package}")
        found.append(Path(path))
    return found


def disk(guest: Guest, files: Path, client: str, filesystem: str, *options: str) -> str:
    """What disk.sh says of a disk that is ended three times in the midst of work."""
    with served(SIZE, *options) as (target, ears):
        words = {
            **{"CLIENT": client, "FILESYSTEM": filesystem, "HOST": HOST},
            **{"PORT": target.port, "EARS": ears},
            "LINES_BEFORE": "'" + " ".join(map(str, LINES_BEFORE)) + "'",
        }
        script = "".join(f"{name}={value}\n" for name, value in words.items())
        script += (HERE / "disk.sh").read_text()
        devices = ["-netdev", "user,id=net", "-device", "virtio-net-pci,netdev=net,romfile="]
        if client == "qemu":
            node = f"driver=nbd,node-name=disk,server.type=unix,server.path={target.socket}"
            devices += ["-blockdev", f"{node},reconnect-delay=120,discard=unmap"]
            devices += ["-device", "virtio-blk-pci,drive=disk"]
        etc: dict[str, Content] = {"/etc/mtab": "", "/etc/mke2fs.conf": Path("/etc/mke2fs.conf")}
        done = guest.run(
            [files, *programs(filesystem)], script, files=etc, devices=devices, timeout_s=600.0
        )
        assert done.exit_code == 0, done.output + "".join(target.log[-20:])
        return done.output


def check(output: str) -> None:
    """All rounds were gone through, and what was looked at was worth it."""
    rounds = re.findall(r"^round (\S+)$", output, re.MULTILINE)
    assert rounds == [*map(str, range(1, len(LINES_BEFORE) + 1)), "plain"]
    sure = re.findall(r"^looked looked sure (\d+) .* lost 0$", output, re.MULTILINE)
    assert sum(map(int, sure)) > 400, output
    trims = re.search(r"^trims (\d+)$", output, re.MULTILINE)
    assert trims is not None
    assert int(trims[1]) >= len(LINES_BEFORE), output


@pytest.mark.parametrize("filesystem", PROGRAMS)
def test_a_kill_costs_nothing_that_was_synced(guest: Guest, files: Path, filesystem: str) -> None:
    """The kernel's client: to the file system, the target's kill is a loss of power."""
    check(disk(guest, files, "kernel", filesystem))


def test_a_restart_goes_unnoticed(guest: Guest, files: Path) -> None:
    """QEMU's client waits for a target that was told to end: nothing fails, all is there."""
    check(disk(guest, files, "qemu", "ext4"))
