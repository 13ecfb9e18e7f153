"""The local system: folders without root, and file systems of its own with it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from wattio.errors import HostError, SystemFailed
from wattio.systems import claims, mounts
from wattio.systems.local import Options, Storage


def options(**given: object) -> Options:
    return Options.model_validate(given)


def test_a_folder_goes_through_all_steps_twice(tmp_path: Path) -> None:
    storage = Storage(options(path=str(tmp_path)), tmp_path / "scratch")
    for _ in range(2):
        storage.probe()
        storage.deploy()
        storage.start()
        places = storage.mount(3)
        storage.verify_mount()
        facts = storage.describe()
        assert len(places) == 3
        assert len(set(places)) == 1
        assert places[0].folder.is_relative_to(tmp_path)
        (places[0].folder / "file").write_text("data")
        assert facts["raw_capacity_bytes"] > 0
        assert facts["file_system"]
        assert facts["mount_options"]
        for _ in range(2):
            storage.unmount()
            storage.stop()
            storage.clean()
        assert not places[0].folder.exists()


def test_two_runs_in_one_folder_do_not_meet(tmp_path: Path) -> None:
    runs = [Storage(options(path=str(tmp_path)), tmp_path / name) for name in ("a", "b")]
    first, second = (run.mount(1)[0].folder for run in runs)
    assert first != second
    runs[0].clean()
    assert second.is_dir()


def test_without_options_it_works_in_the_scratch_folder(tmp_path: Path) -> None:
    storage = Storage(options(), tmp_path / "scratch")
    assert storage.mount(1)[0].folder.is_relative_to(tmp_path / "scratch")


def test_a_folder_that_is_missing_is_told(tmp_path: Path) -> None:
    with pytest.raises(HostError, match="is not a folder; create it"):
        Storage(options(path=str(tmp_path / "no")), tmp_path).probe()


def test_a_folder_on_another_file_system_is_refused(tmp_path: Path) -> None:
    mount = mounts.holding(tmp_path, mounts.current())
    assert mount is not None
    other = "xfs" if mount.file_system == "ext4" else "ext4"
    storage = Storage(options(path=str(tmp_path), fs=other), tmp_path / "scratch")
    storage.mount(1)
    with pytest.raises(SystemFailed, match=f"is on {mount.file_system}, not on {other}"):
        storage.verify_mount()


def test_a_work_folder_that_has_gone_is_told(tmp_path: Path) -> None:
    storage = Storage(options(path=str(tmp_path)), tmp_path / "scratch")
    shutil.rmtree(storage.mount(1)[0].folder)
    with pytest.raises(SystemFailed, match="not found"):
        storage.verify_mount()


def test_in_a_chroot_a_folder_is_measured_and_what_it_is_on_is_not_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a chroot whose root is no mount, every folder was said not to be there.

    The kernel lists only mounts that can be reached from the root, so no entry holds the folder.
    """
    reached = tmp_path / "mountinfo"
    reached.write_text("22 28 0:21 / /proc rw,nosuid - proc proc rw\n")
    monkeypatch.setattr(mounts, "MOUNTINFO", reached)
    storage = Storage(options(path=str(tmp_path)), tmp_path / "scratch")
    storage.mount(1)
    storage.verify_mount()
    facts = storage.describe()
    assert "file_system" not in facts
    assert "lists no mount that holds the folder" in facts["unknown"]
    assert facts["raw_capacity_bytes"] > 0
    storage.clean()
    asked = Storage(options(path=str(tmp_path), fs="xfs"), tmp_path / "scratch")
    asked.mount(1)
    with pytest.raises(SystemFailed, match="its file system is not known"):
        asked.verify_mount()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"path": "/data", "device": "/dev/sdb"}, "give either path or device"),
        ({"path": "/data", "size": "1 GiB"}, "give either path or size"),
        ({"path": "data"}, "must be absolute"),
        ({"device": "sdb"}, "must be absolute"),
        ({"path": "/data", "mount_options": ["noatime"]}, "for a device or an image"),
        ({"size": "64 MiB", "fs": "xfs"}, "xfs needs at least 300 MiB"),
    ],
)
def test_options_that_do_not_agree_are_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        options(**given)


@pytest.mark.parametrize("content", ["not ours", ""])
def test_an_image_that_was_not_made_here_outlives_a_refusal(tmp_path: Path, content: str) -> None:
    """`deploy` refused it, as what is in it would be lost, and taking down then removed it."""
    if shutil.which("wipefs") is None:
        pytest.skip("wipefs is not installed")
    image = tmp_path / "image"
    image.write_text(content)
    storage = Storage(options(device=str(image), size="64 MiB"), tmp_path / "scratch")
    if content:
        with pytest.raises(HostError, match="holds data, which would be lost"):
            storage.deploy()
    claims.take_down(storage)
    assert image.read_text() == content


# With root and loop devices.


def lack() -> str | None:
    if os.geteuid() != 0:
        return "mounting needs root"
    missing = [name for name in ("losetup", "mkfs.ext4", "mkfs.xfs") if not shutil.which(name)]
    if missing:
        return f"{missing[0]} is not installed"
    return None if Path("/dev/loop-control").exists() else "this kernel has no loop devices"


@pytest.fixture
def scratch(tmp_path: Path) -> Iterator[Path]:
    if reason := lack():
        pytest.skip(reason)
    yield tmp_path / "scratch"
    mounts.take_away(tmp_path)


def loops(image: Path) -> str:
    arguments = ["losetup", "--associated", str(image), "--noheadings"]
    return subprocess.run(arguments, capture_output=True, check=True, text=True).stdout


@pytest.mark.system
@pytest.mark.parametrize("fs", ["ext4", "xfs"])
def test_an_image_is_formatted_mounted_and_removed(scratch: Path, fs: str) -> None:
    given = options(size="320 MiB", fs=fs, mount_options=["noatime"])
    storage = Storage(given, scratch)
    storage.probe()
    storage.deploy()
    storage.start()
    place = storage.mount(2)[0]
    assert storage.mount(2)[0] == place  # once more
    storage.verify_mount()
    facts = storage.describe()
    assert facts["file_system"] == fs
    assert "noatime" in facts["mount_options"]
    assert facts["device"].startswith("loop")
    assert facts["raw_capacity_bytes"] == 320 << 20
    assert 0 < facts["free_bytes"] < 320 << 20
    for _ in range(2):
        storage.unmount()
        with pytest.raises(SystemFailed):
            storage.verify_mount()
        storage.stop()
        storage.clean()
    assert not (scratch / "image").exists()
    assert loops(scratch / "image") == ""


@pytest.mark.system
def test_what_a_dead_run_left_mounted_is_taken_away(scratch: Path) -> None:
    given = options(size="64 MiB")
    dead = Storage(given, scratch)
    dead.deploy()
    place = dead.mount(1)[0]
    (place.folder / "old").write_text("data")
    # The run died here; the next one has the same scratch folder and nothing else.
    storage = Storage(given, scratch)
    storage.probe()
    storage.deploy()
    assert not (storage.mount(1)[0].folder / "old").exists()
    Storage(given, scratch).clean()
    assert mounts.below(scratch) == []
    assert loops(scratch / "image") == ""


@pytest.mark.system
def test_what_others_have_on_a_device_is_not_lost(scratch: Path, tmp_path: Path) -> None:
    image = tmp_path / "image"
    storage = Storage(options(device=str(image), size="64 MiB"), scratch)
    image.write_text("not ours")
    with pytest.raises(HostError, match="holds data, which would be lost"):
        storage.probe()
    with image.open("wb") as file:
        file.truncate(64 << 20)
    subprocess.run(["mkfs.ext4", "-q", "-F", "-L", "photos", str(image)], check=True)
    with pytest.raises(HostError, match="holds ext4, which would be lost"):
        storage.probe()
    Storage(options(device=str(image), size="64 MiB", overwrite=True), scratch).deploy()
    storage.probe()  # now it is ours


@pytest.mark.system
def test_what_others_have_on_an_image_keeps_its_loop_device(scratch: Path, tmp_path: Path) -> None:
    """It was detached under its user, before anything was refused and after."""
    image = tmp_path / "image"
    with image.open("wb") as file:
        file.truncate(64 << 20)
    subprocess.run(["mkfs.ext4", "-q", "-F", "-L", "photos", str(image)], check=True)
    attach = ["losetup", "--find", "--show", str(image)]
    loop = subprocess.run(attach, capture_output=True, check=True, text=True).stdout.strip()
    try:
        storage = Storage(options(device=str(image), size="64 MiB"), scratch)
        with pytest.raises(HostError, match="holds ext4, which would be lost"):
            storage.deploy()
        claims.take_down(storage)
        assert loops(image).startswith(f"{loop}:")
        assert image.stat().st_size == 64 << 20
    finally:
        subprocess.run(["losetup", "--detach", loop], check=False)


@pytest.mark.system
def test_a_device_in_use_is_refused(scratch: Path, tmp_path: Path) -> None:
    first = Storage(options(size="64 MiB"), scratch)
    first.deploy()
    first.mount(1)
    try:
        name = loops(scratch / "image").split(":")[0]
        for device, size in ((name, None), (str(scratch / "image"), "64 MiB")):
            given = options(device=device) if size is None else options(device=device, size=size)
            with pytest.raises(HostError, match=r"is mounted on .*; unmount it first"):
                Storage(given, tmp_path / "other").deploy()
    finally:
        first.clean()


@pytest.mark.system
def test_a_device_that_a_dead_run_has_mounted_is_free_again(scratch: Path, tmp_path: Path) -> None:
    given = options(device=str(tmp_path / "image"), size="64 MiB")
    dead = Storage(given, scratch)
    dead.deploy()
    dead.mount(1)
    # A plan is looked through before the scratch folder is known.
    Storage(given, tmp_path / "elsewhere").probe()
    with pytest.raises(HostError, match="unmount it first"):
        Storage(given, tmp_path / "elsewhere").deploy()
    again = Storage(given, scratch)
    again.deploy()
    again.clean()


@pytest.mark.system
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"device": "/dev/nosuchdisk"}, "is not a block device of this machine"),
        ({"device": "/tmp/nosuchimage"}, "an image file needs a size"),
        ({"device": "/tmp", "size": "64 MiB"}, "neither a block device nor a file"),
    ],
)
def test_devices_that_are_none_are_told(scratch: Path, given: dict[str, Any], message: str) -> None:
    with pytest.raises(HostError, match=message):
        Storage(options(**given), scratch).probe()
