"""Parts of a host for a tree: meters, drives, and what knobs need around them."""

from __future__ import annotations

from fuse.cpufreq import POLICY_FILES, Policy, PolicyFile, Turbo
from fuse.nodes import Constant, Counter, Link, Node, Steps, SyncSpeed, Table, Tree, Value
from fuse.processors import (
    CPU,
    Cpuset,
    Effective,
    Interrupt,
    Listed,
    Processors,
    Switch,
    Ticks,
    WhileOn,
    cpu_list,
)

RANGE_UJ = 262_143_328_850
"""After so many microjoules the energy counters of most Intel processors start at zero."""


def powercap(zone: str, name: str, energy_uj: Counter) -> Tree:
    """An energy counter: zone `intel-rapl:0`, name `package-0`."""
    folder = f"sys/class/powercap/{zone}"
    return {
        f"{folder}/name": Constant(name),
        f"{folder}/max_energy_range_uj": Constant(str(energy_uj.range or 0)),
        f"{folder}/energy_uj": energy_uj,
    }


def package(power_w: float, range_uj: int = RANGE_UJ) -> Tree:
    """A processor package that draws so much."""
    return powercap("intel-rapl:0", "package-0", Counter(((0.0, power_w * 1e6),), range=range_uj))


def hwmon(power_uw: Node, chip: str = "power_meter") -> Tree:
    """A power sensor, in microwatts."""
    folder = "sys/class/hwmon/hwmon0"
    return {f"{folder}/name": Constant(chip), f"{folder}/power1_input": power_uw}


def sensor(*power_w: tuple[float, float]) -> Tree:
    """A power sensor that shows so many watts from each time on."""
    return hwmon(Steps(tuple((at_s, str(round(watts * 1e6))) for at_s, watts in power_w)))


def disk(name: str, reads_per_s: float, latency_ms: float) -> Tree:
    """A disk under reads of 4 KiB, with the files of its power management."""
    device = f"sys/block/{name}/device"
    reads, sectors, busy_ms = (
        Counter(((0.0, reads_per_s * each),)) for each in (1.0, 8.0, latency_ms)
    )
    form = f"   8       0 {name} {{}} 0 {{}} {{}} 0 0 0 0 0 0 0 0 0 0 0 0 0"
    return {
        "proc/diskstats": Table(form, (reads, sectors, busy_ms)),
        f"{device}/power/control": Value("on"),
        f"{device}/power/autosuspend_delay_ms": Value("-1"),
        f"{device}/scsi_disk/1:0:0:0/manage_start_stop": Value("0"),
        f"{device}/scsi_disk/1:0:0:0/manage_runtime_start_stop": Value("0"),
    }


def processors(count: int, clients: float = 0.3, background: float = 0.1) -> Tree:
    """So many processors: N and N + count/2 share a core and a frequency."""
    all_of_them, half = Processors(count), count // 2
    together = {cpu: {cpu % half, cpu % half + half} for cpu in range(count)}
    tree: Tree = {
        f"{CPU}/present": Constant(cpu_list(range(count))),
        f"{CPU}/possible": Constant(cpu_list(range(count))),
        f"{CPU}/online": Listed(all_of_them),
        "sys/devices/system/node/node0/cpulist": Listed(all_of_them),
        "proc/stat": Ticks(all_of_them, clients, background),
        "proc/irq/40/smp_affinity_list": Interrupt(all_of_them, set(range(count))),
        "proc/irq/41/smp_affinity_list": Interrupt(all_of_them, {count - 1}),
    }
    for cpu, core in together.items():
        siblings = WhileOn(all_of_them, cpu, cpu_list(core))
        tree[f"{CPU}/cpu{cpu}/topology/core_cpus_list"] = siblings
        tree[f"{CPU}/cpu{cpu}/cpufreq"] = Link(f"../cpufreq/policy{cpu % half}")
        if cpu > 0:
            tree[f"{CPU}/cpu{cpu}/online"] = Switch(all_of_them, cpu)
    turbo = tree[f"{CPU}/cpufreq/boost"] = Turbo(base_khz=2_600_000)
    for number in range(half):
        steps = (800_000, 1_000_000, 1_800_000, 2_600_000, 3_000_000)
        policy = Policy(all_of_them, together[number], steps, lowest=1_000_000, highest=2_600_000)
        policy.turbo = turbo
        all_of_them.followers.append(policy)
        for name in POLICY_FILES:
            tree[f"{CPU}/cpufreq/policy{number}/{name}"] = PolicyFile(policy, name)
    all_of_them.followers += [node for node in tree.values() if isinstance(node, Interrupt)]
    tree |= _control_groups(all_of_them)
    return tree


def _control_groups(all_of_them: Processors) -> Tree:
    """Version 2: `/s.slice/etcd.service`."""
    top = "sys/fs/cgroup/s.slice"
    service = Cpuset(all_of_them)
    return {
        "proc/mounts": Constant("cgroup2 /sys/fs/cgroup cgroup2 rw 0 0"),
        f"{top}/cpuset.cpus.effective": Listed(all_of_them),
        f"{top}/etcd.service/cpuset.cpus": service,
        f"{top}/etcd.service/cpuset.cpus.effective": Effective(service),
        f"{top}/etcd.service/cpu.weight": Value("100", lowest=1, highest=10_000),
        f"{top}/etcd.service/cgroup.freeze": Value("0"),
    }


def preferences(count: int) -> Tree:
    """Biases and idle states of so many processors, and what their one socket shares."""
    tree: Tree = {"dev/cpu_dma_latency": Value("")}
    for cpu in range(count):
        folder = f"{CPU}/cpu{cpu}"
        tree[f"{folder}/power/energy_perf_bias"] = Value("6", lowest=0, highest=15)
        for state, latency_us in enumerate((0, 2, 133)):
            tree[f"{folder}/cpuidle/state{state}/latency"] = Constant(str(latency_us))
            tree[f"{folder}/cpuidle/state{state}/disable"] = Value("0")
    uncore = f"{CPU}/intel_uncore_frequency/package_00_die_00"
    tree[f"{uncore}/initial_min_freq_khz"] = Constant("800000")
    for name, khz in (("min_freq_khz", 1_800_000), ("max_freq_khz", 2_400_000)):
        tree[f"{uncore}/{name}"] = Value(str(khz), lowest=800_000, highest=2_400_000)
    zone = "sys/class/powercap/intel-rapl:0"
    tree[f"{zone}/enabled"] = Value("1")
    tree[f"{zone}/constraint_0_name"] = Constant("long_term")
    tree[f"{zone}/constraint_0_max_power_uw"] = Constant("165000000")
    tree[f"{zone}/constraint_0_power_limit_uw"] = Value("150000000", highest=165_000_000)
    return tree


def holder() -> Tree:
    """What a holder of knobs wants: which boot this is, and the lock of the host."""
    return {
        "proc/sys/kernel/random/boot_id": Constant("0d9a"),
        "run/wattiod/lock": Value(""),
    }


def server() -> Tree:
    """Eight processors, a disk, an array, an NVMe drive, a SATA host, meters."""
    return {
        **holder(),
        **processors(8),
        **preferences(8),
        **package(95.0),
        **sensor((0.0, 230.0)),
        **disk("sda", reads_per_s=1000.0, latency_ms=0.5),
        "sys/class/nvme/nvme0/power/pm_qos_latency_tolerance_us": Value("auto"),
        "sys/class/scsi_host/host0/link_power_management_policy": Value("max_performance"),
        "sys/block/md0/md/sync_speed_min": SyncSpeed(1000),
        "sys/block/md0/md/sync_speed_max": SyncSpeed(200_000),
    }
