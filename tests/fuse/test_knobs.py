"""Held knobs on a kernel that clamps, refuses, forgets, and is turned by others."""

from __future__ import annotations

import errno
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from wattio import _core
from wattio.errors import HostError

from fuse.hosts import server
from fuse.mount import hold_at, mounted, writes
from fuse.nodes import Value
from fuse.processors import CPU

pytestmark = pytest.mark.system

LIMIT = f"{CPU}/cpufreq/policy0/scaling_max_freq"
OTHER = f"{CPU}/cpufreq/policy1/scaling_max_freq"
ONLINE = f"{CPU}/cpu3/online"
CPUSET = "sys/fs/cgroup/s.slice/etcd.service/cpuset.cpus"
SUSPEND = "sys/block/sda/device/power/control"
SYNC = "sys/block/md0/md/sync_speed_max"
REFUSES = "sys/class/nvme/nvme1/power/pm_qos_latency_tolerance_us"
FORGETS = "sys/class/nvme/nvme2/power/pm_qos_latency_tolerance_us"
STIFFENS = "sys/class/nvme/nvme3/power/pm_qos_latency_tolerance_us"
STIFFENS_AT_S = 10.0

TURNED = {
    f"file:/{LIMIT}": "1800000",
    f"file:/{ONLINE}": "0",
    f"cpuset:/{CPUSET}": "0-1",
    f"file:/{SUSPEND}": "auto",
    f"file:/{SYNC}": "5000",
}

# Turns what it is told, says so, and waits to be killed.
HOLDER = """
import sys
from wattio import _core
root, snapshot, *pairs = sys.argv[1:]
knobs = _core.HeldKnobs(root, snapshot)
for address, value in zip(pairs[::2], pairs[1::2], strict=True):
    knobs.write(address, value)
sys.stdout.write("held\\n")
sys.stdout.flush()
sys.stdin.read()
"""


@pytest.fixture
def root() -> Iterator[Path]:
    tree = server()
    tree[REFUSES] = Value("auto", refuses=errno.EOPNOTSUPP)
    tree[FORGETS] = Value("auto", forgets=True)
    tree[STIFFENS] = Value("auto", refuses=errno.EIO, refuses_from_s=STIFFENS_AT_S)
    with mounted(tree) as root:
        yield root


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    return tmp_path / "state" / "snapshot.json"


def held(root: Path, snapshot: Path) -> _core.HeldKnobs:
    return _core.HeldKnobs(str(root), str(snapshot))


def values(root: Path) -> dict[str, str]:
    """What every turned place holds."""
    paths = (address.partition(":/")[2] for address in TURNED)
    return {path: (root / path).read_text().strip() for path in paths}


def test_what_was_turned_is_read_back_and_put_back(root: Path, snapshot: Path) -> None:
    before = values(root)
    with held(root, snapshot) as knobs:
        for address, value in TURNED.items():
            knobs.write(address, value)
            assert knobs.read(address) == value
        assert snapshot.exists()
        assert knobs.read(f"file:/{CPU}/online") == "0-2,4-7"
        assert set(knobs.restore()) == set(TURNED)
    assert values(root) == before
    assert not snapshot.exists()
    assert writes(root, LIMIT) == ["1800000", "2600000"]
    # It follows the system's speed again, and was not given one that looks the same.
    assert writes(root, SYNC) == ["5000", "system"]


def test_the_old_value_is_kept_before_the_first_write(root: Path, snapshot: Path) -> None:
    with held(root, snapshot) as knobs:
        knobs.write(f"file:/{LIMIT}", "1800000")
        knobs.write(f"file:/{LIMIT}", "1000000")
        assert '"2600000"' in snapshot.read_text()
        assert '"1800000"' not in snapshot.read_text()
    assert writes(root, LIMIT) == ["1800000", "1000000", "2600000"]


def test_what_the_kernel_clamps_is_told(root: Path, snapshot: Path) -> None:
    with (
        held(root, snapshot) as knobs,
        pytest.raises(HostError, match='"900000" was written, but "800000" was read back'),
    ):
        knobs.write(f"file:/{LIMIT}", "900000")
    assert (root / LIMIT).read_text() == "2600000\n"


def test_refused_writes_are_told_and_leave_nothing(root: Path, snapshot: Path) -> None:
    with held(root, snapshot) as knobs:
        with pytest.raises(HostError, match=r"(?i)does not take .*not supported"):
            knobs.write(f"file:/{REFUSES}", "50000")
        with pytest.raises(HostError, match=r"(?i)does not take .*invalid argument"):
            knobs.write(f"file:/{LIMIT}", "fast")
        assert knobs.restore() == []
    assert writes(root, REFUSES) == ["50000"]


def test_forgotten_writes_are_noticed(root: Path, snapshot: Path) -> None:
    with (
        held(root, snapshot) as knobs,
        pytest.raises(HostError, match='"50000" was written, but "auto" was read back'),
    ):
        knobs.write(f"file:/{FORGETS}", "50000")


def test_the_files_of_processors_that_are_off_are_busy(root: Path, snapshot: Path) -> None:
    busy = f"file:/{CPU}/cpufreq/policy3/scaling_max_freq"
    before = values(root)
    with held(root, snapshot) as knobs:
        knobs.write(busy, "1000000")
        for cpu in (3, 7):
            knobs.write(f"file:/{CPU}/cpu{cpu}/online", "0")
        with pytest.raises(HostError, match="processor 3 is off"):
            knobs.write(busy, "1800000")
    # What was saved first is refused while the processors are off, and comes back all the same.
    assert values(root) == before
    assert (root / busy.partition(":/")[2]).read_text() == "2600000\n"


def test_what_somebody_else_changed_is_left_to_them(root: Path, snapshot: Path) -> None:
    with held(root, snapshot) as knobs:
        knobs.write(f"file:/{LIMIT}", "1800000")
        knobs.write(f"file:/{OTHER}", "1800000")
        (root / LIMIT).write_text("1000000")
        with pytest.raises(HostError, match="somebody else"):
            knobs.write(f"file:/{LIMIT}", "800000")
        assert knobs.restore() == [f"file:/{OTHER}"]
    assert (root / LIMIT).read_text() == "1000000\n"
    assert writes(root, LIMIT) == ["1800000", "1000000"]


def test_one_holder_at_a_time(root: Path, tmp_path: Path, snapshot: Path) -> None:
    with held(root, snapshot):
        for other in (snapshot, tmp_path / "elsewhere" / "snapshot.json"):
            with pytest.raises(HostError, match="another wattio acts on this host"):
                held(root, other)


def kill_a_holder(root: Path, snapshot: Path, turned: dict[str, str]) -> None:
    """Start a process that turns knobs, and kill it while it holds them."""
    pairs = [text for pair in turned.items() for text in pair]
    command = [sys.executable, "-c", HOLDER, str(root), str(snapshot), *pairs]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        process.kill()
    assert process.returncode == -signal.SIGKILL


def test_a_killed_holder_s_knobs_are_put_back_by_the_next(root: Path, snapshot: Path) -> None:
    before = values(root)
    kill_a_holder(root, snapshot, TURNED)
    turned = {address.partition(":/")[2]: value for address, value in TURNED.items()}
    assert values(root) == {**turned, SYNC: "5000 (local)"}
    with held(root, snapshot) as knobs:
        assert set(knobs.restored_at_open) == set(TURNED)
        assert values(root) == before
    assert not snapshot.exists()


def test_what_refuses_to_be_put_back_keeps_nothing_else_from_it(root: Path, snapshot: Path) -> None:
    before = values(root)
    kill_a_holder(root, snapshot, {**TURNED, f"file:/{STIFFENS}": "50000"})
    hold_at(root, STIFFENS_AT_S)
    mend = f"by hand: echo auto > /{STIFFENS}"
    with pytest.raises(HostError, match=rf"not restored: .*Input/output error.*{mend}"):
        held(root, snapshot)
    assert values(root) == before
    # Its old value is kept until it can be put back.
    assert '"auto"' in snapshot.read_text()
    hold_at(root, 0.0)
    with held(root, snapshot) as knobs:
        assert knobs.restored_at_open == [f"file:/{STIFFENS}"]
    assert (root / STIFFENS).read_text() == "auto\n"
