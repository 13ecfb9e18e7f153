"""The fake trees themselves: they count, wrap, clamp and refuse as the kernel does."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fuse.hosts import processors, server
from fuse.mount import hold_at, let_run, mounted, now_s, wait_until, writes
from fuse.nodes import Counter, Node, Steps, Table, Value
from fuse.processors import CPU, cpu_list, cpu_set


def test_a_counter_is_the_integral_of_its_rates() -> None:
    counter = Counter(((0.0, 10.0), (5.0, 0.0), (7.0, 2.5)), start=3, jumps=((6.0, 100),))
    told = [counter.value(at_s) for at_s in (0.0, 4.9, 5.0, 5.9, 6.0, 7.0, 9.0)]
    assert told == [3, 52, 53, 53, 153, 153, 158]


def test_a_counter_wraps_at_its_range() -> None:
    counter = Counter(((0.0, 1.0),), start=98, range=100)
    assert [counter.value(at_s) for at_s in (1.0, 2.0, 3.0, 103.0)] == [99, 0, 1, 1]


def test_lists_of_processors_are_the_kernel_s() -> None:
    assert cpu_list({0, 1, 2, 5, 7, 8}) == "0-2,5,7-8"
    assert cpu_set("0-2,5,7-8") == {0, 1, 2, 5, 7, 8}
    assert cpu_set(cpu_list(set())) == set()


def test_texts_hold_counters_and_steps_change_them() -> None:
    counters = (Counter(((0.0, 2.0),)), Counter(((0.0, 3.0),)))
    assert Table("a {} b {}", counters).read(2.0) == "a 4 b 6"
    steps = Steps(((0.0, "on"), (1.5, "off")))
    assert [steps.read(at_s) for at_s in (0.0, 1.4, 1.5)] == ["on", "on", "off"]


def refused(node: Node, text: str) -> str:
    """The error with which a write is refused."""
    with pytest.raises(OSError, match="Errno") as raised:
        node.write(text, 0.0)
    return errno.errorcode[raised.value.errno or 0]


def test_frequency_limits_are_clamped_and_rounded() -> None:
    tree = processors(8)
    policy = f"{CPU}/cpufreq/policy0"
    top, low, speed = (
        tree[f"{policy}/scaling_{name}"] for name in ("max_freq", "min_freq", "setspeed")
    )
    assert (low.read(0), top.read(0), speed.read(0)) == ("1000000", "2600000", "<unsupported>")
    for asked, found in (("2599999", "1800000"), ("1", "800000"), ("9999999", "3000000")):
        top.write(asked, 0.0)
        assert top.read(0.0) == found
    assert refused(top, "fast") == refused(speed, "1800000") == "EINVAL"
    tree[f"{policy}/scaling_governor"].write("userspace", 0.0)
    speed.write("1000001", 0.0)
    assert speed.read(0.0) == "1800000"
    for cpu in (4, 7, 3):
        tree[f"{CPU}/cpu{cpu}/online"].write("0", 0.0)
    assert tree[f"{policy}/affected_cpus"].read(0.0) == "0"
    policy3 = tree[f"{CPU}/cpufreq/policy3/scaling_max_freq"]
    assert refused(policy3, "1800000") == "EBUSY"
    assert tree["proc/irq/41/smp_affinity_list"].read(0.0) == "0-3,5-6"
    assert not tree[f"{CPU}/cpu3/topology/core_cpus_list"].is_there()


@pytest.mark.system
def test_a_mounted_tree_is_read_and_written_like_the_kernel_s() -> None:
    with mounted({**server(), "sys/broken": Value("1", refuses=errno.EIO)}) as root:
        energy = root / "sys/class/powercap/intel-rapl:0/energy_uj"
        assert energy.read_text() == "0\n"
        hold_at(root, 10.0)
        assert energy.read_text() == "950000000\n"
        assert (root / "proc/stat").read_text().splitlines()[1] == "cpu0 300 100 0 600 0 0 0 0 0 0"
        switch = root / CPU / "cpu7/online"
        switch.write_text("0\n")
        assert (root / CPU / "online").read_text() == "0-6\n"
        # The topology goes with the processor.
        left = sorted(file.name for file in (root / CPU / "cpu7").iterdir())
        assert left == ["cpufreq", "cpuidle", "online", "power"]
        assert (root / CPU / "cpu7/cpufreq/scaling_driver").read_text() == "acpi-cpufreq\n"
        with pytest.raises(PermissionError):
            energy.write_text("0")
        with pytest.raises(OSError, match="Input/output error"):
            (root / "sys/broken").write_text("2")
        assert writes(root, f"{CPU}/cpu7/online") == ["0"]
        # Python tries again when it closes the file.
        assert set(writes(root, "sys/broken")) == {"2"}
        with pytest.raises(FileNotFoundError):
            (root / "sys/nothing").read_text()
    assert not root.exists()


@pytest.mark.system
def test_time_runs_when_it_is_let() -> None:
    with mounted(server()) as root:
        hold_at(root, 100.0)
        assert now_s(root) == 100.0
        let_run(root)
        wait_until(root, 100.02)
        energy = root / "sys/class/powercap/intel-rapl:0/energy_uj"
        with energy.open() as open_file:
            told = int(open_file.read())
            assert told >= 9_500_000_000
            # Read again, from the beginning: it is a new look.
            open_file.seek(0)
            assert int(open_file.read()) > told


@pytest.mark.system
def test_two_trees_at_once() -> None:
    with mounted(server()) as one, mounted(server()) as other:
        hold_at(one, 1.0)
        assert (now_s(one), now_s(other)) == (1.0, 0.0)


# Mounts a tree, says where, and waits to be killed.
MOUNTS = """
import sys
from fuse.hosts import processors, server
from fuse.mount import mounted
with mounted(server()) as root:
    print(root, flush=True)
    sys.stdin.read()
"""


@pytest.mark.system
def test_a_tree_goes_with_whoever_mounted_it() -> None:
    pipe = subprocess.PIPE
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    command = [sys.executable, "-c", MOUNTS]
    with subprocess.Popen(
        command, stdin=pipe, stdout=pipe, stderr=pipe, env=environment, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        root = Path(process.stdout.readline().strip())
        assert root.is_mount()
        process.kill()
        # The process behind the tree has this pipe too: it is empty once that one has ended.
        assert process.stderr.read() == ""
    assert not root.is_mount()
    root.rmdir()
