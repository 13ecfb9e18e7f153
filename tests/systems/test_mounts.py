"""Mounts and devices, as the kernel's files tell them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wattio.errors import HostError, SystemFailed
from wattio.systems import commands, devices, mounts

MOUNTINFO = """\
25 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw,discard
43 25 7:0 / /srv/my\\040disk rw,noatime - xfs /dev/loop0 rw,inode64,noquota
44 25 0:50 / /srv/my\\040disk/deep rw - fuse.mfs mfs#10.77.0.1:19421 rw,allow_other
45 25 254:0 /sub /srv rw shared:2 master:1 - ext4 /dev/vda rw
"""


def test_mounts_are_read() -> None:
    found = mounts.parse(MOUNTINFO)
    assert [mount.point for mount in found] == [
        Path(text) for text in ("/", "/srv/my disk", "/srv/my disk/deep", "/srv")
    ]
    assert found[1].options == ("rw", "noatime", "inode64", "noquota")
    assert (found[2].file_system, found[2].source) == ("fuse.mfs", "mfs#10.77.0.1:19421")


@pytest.mark.parametrize(
    ("path", "file_system"),
    [
        ("/home", "ext4"),
        ("/srv/my disk/file", "xfs"),
        ("/srv/my disk/deep/a/b", "fuse.mfs"),
        ("/srv/my disks", "ext4"),
    ],
)
def test_the_deepest_mount_holds_a_path(path: str, file_system: str) -> None:
    mount = mounts.holding(Path(path), mounts.parse(MOUNTINFO))
    assert mount is not None
    assert mount.file_system == file_system


def test_of_two_mounts_at_one_place_the_last_counts() -> None:
    again = MOUNTINFO + "46 43 7:1 / /srv/my\\040disk rw - ext4 /dev/loop1 rw\n"
    mount = mounts.holding(Path("/srv/my disk"), mounts.parse(again))
    assert mount is not None
    assert mount.source == "/dev/loop1"


@given(st.text())
def test_no_mountinfo_breaks_the_reader(text: str) -> None:
    mounts.parse(text)


@given(st.text())
def test_no_list_of_schedulers_breaks_the_reader(text: str) -> None:
    devices.chosen(text)


def test_a_disk_is_described_from_sysfs(tmp_path: Path) -> None:
    disk = tmp_path / "devices" / "sda"
    for name, text in {
        "device/model": "ST4000VN008\n",
        "queue/scheduler": "mq-deadline kyber [bfq] none\n",
        "queue/rotational": "1\n",
        "size": "7814037168\n",
        "sda1/partition": "1\n",
    }.items():
        (disk / name).parent.mkdir(parents=True, exist_ok=True)
        (disk / name).write_text(text)
    numbers = tmp_path / "dev" / "block"
    numbers.mkdir(parents=True)
    (numbers / "8:0").symlink_to(disk)
    (numbers / "8:1").symlink_to(disk / "sda1")
    for number in ("8:0", "8:1"):
        found = devices.whole_disk(number, tmp_path)
        assert found is not None
        assert devices.disk_facts(found) == {
            "device": "sda",
            "model": "ST4000VN008",
            "scheduler": "bfq",
            "rotational": True,
            "raw_capacity_bytes": 4_000_787_030_016,
        }
    assert devices.whole_disk("8:2", tmp_path) is None


def test_a_failed_program_is_told_with_its_last_words() -> None:
    with pytest.raises(SystemFailed, match=r"^making: sh failed \(exit code 3\): no room$"):
        commands.call("making", "sh", "-c", "echo no room; exit 3")
    with pytest.raises(SystemFailed, match=r"nonexistent-tool cannot be started"):
        commands.call("making", "nonexistent-tool")
    assert commands.answer("sh", "-c", "echo no; exit 1") is None


def test_missing_programs_are_told_with_their_packages() -> None:
    with pytest.raises(HostError, match=r"missing: no-such-tool; on Debian: apt install tools"):
        commands.need({"sh": "dash", "no-such-tool": "tools"})


def test_waiting_ends_at_its_deadline() -> None:
    times = iter(range(100))
    looks: list[float] = []

    def never() -> bool:
        looks.append(0)
        return False

    assert not commands.wait_until(
        never, 5.0, clock=lambda: float(next(times)), sleep=lambda _: None
    )
    assert len(looks) == 5
    assert commands.wait_until(lambda: True, 0.0, sleep=lambda _: None)
