"""What the machine is and what it offers: facts for `machine.json` and for `wattio doctor`.

Everything is read below a root folder that is handed in, so that a copied or made-up tree of
/proc, /sys and /dev can be examined like the machine itself.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from wattio.files.small import text_if_any

_PROGRAMS = {
    "chromium": "browser tests of the report",
    "cc": "the workload compile",
    "fio": "the workload fio, and wattio peak",
    "ior": "the workload ior; mpi_io does the same without it",
    "mdtest": "the workload mdtest; mpi_meta does the same without it",
    "iperf3": "the network's part of wattio peak",
    "ipmitool": "power readings from a BMC (meters ipmi: and ipmi://)",
    "mpirun": "workloads of MPI ranks, and wattio hpcio run (with the extra hpc)",
    "make": "the workload compile",
    "mfsmount": "the system moosefs",
    "glusterd": "the system glusterfs",
    "ceph-fuse": "the system cephfs",
    "ganesha.nfsd": "the system nfs_ganesha",
    "psql": "recording a trace of PostgreSQL",
    "perf": "reading the processor's energy counters a second way",
    "cargo": "building wattio from source",
    "uv": "building wattio from source",
}


@dataclass(frozen=True)
class Finding:
    """One thing the machine has or lacks."""

    name: str
    present: bool
    detail: str
    needed_for: str


def describe(root: Path = Path("/")) -> dict[str, Any]:
    """Facts about machine and software that a result depends on, for `machine.json`."""
    return {
        "processor": processor_model(root),
        "architecture": platform.machine(),
        "cores": os.cpu_count(),
        "memory_bytes": memory_bytes(root),
        "kernel": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "wattio": version("wattio"),
        "libraries": {name: version(name) for name in ("numpy", "duckdb", "pydantic")},
        "git_commit": git_commit(Path(__file__).parent),
    }


def processor_model(root: Path) -> str | None:
    """The processor's name as the kernel gives it; None if it gives none."""
    for line in _lines(root / "proc/cpuinfo"):
        name, _, value = line.partition(":")
        if name.strip() in ("model name", "Processor", "cpu model", "Hardware"):
            return value.strip()
    return platform.processor() or None if root == Path("/") else None


def memory_bytes(root: Path) -> int | None:
    """Memory that the kernel manages, in bytes."""
    for line in _lines(root / "proc/meminfo"):
        if line.startswith("MemTotal:"):
            return int(line.split()[1]) * 1024
    return None


def git_commit(folder: Path) -> str | None:
    """The commit of the source tree that wattio runs from; None if it does not run from one."""
    command = ["git", "-C", str(folder), "describe", "--always", "--dirty", "--abbrev=40"]
    command += ["--exclude", "*"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def examine(root: Path = Path("/")) -> list[Finding]:
    """Look at everything that some part of wattio can use, in a fixed order."""
    here = root == Path("/")
    findings = [_processor(root), _frequency(root), _rapl(root), _hwmon(root)]
    findings += _control_groups(root)
    findings += [_tracepoints(root), _io_uring(root), _fuse(root)]
    if here:
        is_root = os.geteuid() == 0
        who = "root" if is_root else f"user {os.geteuid()}"
        need = "recording traces, setting frequencies and core sets"
        findings.append(Finding("root", is_root, who, need))
        findings += [_program(name, need) for name, need in _PROGRAMS.items()]
    return findings


def _processor(root: Path) -> Finding:
    count = sum(line.startswith("processor") for line in _lines(root / "proc/cpuinfo"))
    model = processor_model(root) or "unknown model"
    detail = f"{count} x {model}" if count else "no /proc/cpuinfo"
    return Finding("processor", count > 0, detail, "everything; simulations run one per core")


def _frequency(root: Path) -> Finding:
    policies = _glob(root / "sys/devices/system/cpu/cpufreq", "policy*")
    need = "governing core frequency on this machine"
    if not policies:
        return Finding("cpufreq", False, "no cpufreq policies in /sys", need)
    first = policies[0]
    driver = text_if_any(first / "scaling_driver") or "unknown driver"
    low, high = (text_if_any(first / f"cpuinfo_{end}_freq") for end in ("min", "max"))
    span = f", {int(low) / 1e6:.2f} to {int(high) / 1e6:.2f} GHz" if low and high else ""
    return Finding("cpufreq", True, f"{len(policies)} policies, {driver}{span}", need)


def _rapl(root: Path) -> Finding:
    zones, unreadable = [], 0
    for zone in _glob(root / "sys/class/powercap", "*:*"):
        name = text_if_any(zone / "name")
        if name:
            zones.append(name)
            unreadable += text_if_any(zone / "energy_uj") is None
    need = "measuring energy of processor and memory (meter rapl:)"
    if not zones:
        return Finding("RAPL powercap zones", False, "none in /sys/class/powercap", need)
    detail = ", ".join(zones) + (f"; {unreadable} not readable" if unreadable else "")
    return Finding("RAPL powercap zones", unreadable < len(zones), detail, need)


def _hwmon(root: Path) -> Finding:
    inputs = []
    for device in _glob(root / "sys/class/hwmon", "hwmon*"):
        sensors = [*_glob(device, "power*_input"), *_glob(device, "power*_average")]
        chip = text_if_any(device / "name") or device.name
        inputs += [f"{chip}/{sensor.name}" for sensor in sensors]
    detail = ", ".join(inputs) or "no power sensor in /sys/class/hwmon"
    return Finding("hwmon power inputs", bool(inputs), detail, "measuring power (meter hwmon:)")


def _control_groups(root: Path) -> Iterator[Finding]:
    unified = text_if_any(root / "sys/fs/cgroup/cgroup.controllers")
    if unified is not None:
        kind, controllers = "version 2", unified.split()
    else:
        controllers = [folder.name for folder in _glob(root / "sys/fs/cgroup", "*")]
        kind = "version 1" if controllers else "not mounted"
    need = "confining a storage service to some cores"
    yield Finding("control groups", bool(controllers), kind, need)
    found = "cpuset" in controllers
    yield Finding("cpuset", found, "available" if found else "not available", need)


def _tracepoints(root: Path) -> Finding:
    need = "wattio trace record; latency seen from the kernel"
    for place in ("sys/kernel/tracing", "sys/kernel/debug/tracing"):
        if (root / place / "events/block/block_rq_complete").is_dir():
            return Finding("block tracepoints", True, f"in /{place}", need)
    if any(line.split()[-1:] == ["tracefs"] for line in _lines(root / "proc/filesystems")):
        detail = "tracefs can be mounted; wattio trace record does so itself, as root"
        return Finding("block tracepoints", True, detail, need)
    return Finding("block tracepoints", False, "this kernel has no tracefs", need)


def _io_uring(root: Path) -> Finding:
    need = "the storage target"
    disabled = text_if_any(root / "proc/sys/kernel/io_uring_disabled")
    if disabled is None:
        present = any(" io_uring_setup" in line for line in _lines(root / "proc/kallsyms"))
        return Finding("io_uring", present, "in the kernel" if present else "not found", need)
    words = {"0": "allowed to all", "1": "allowed to privileged users", "2": "switched off"}
    return Finding("io_uring", disabled != "2", words.get(disabled, disabled), need)


def _fuse(root: Path) -> Finding:
    present = (root / "dev/fuse").exists()
    detail = "/dev/fuse" if present else "no /dev/fuse"
    return Finding("FUSE", present, detail, "made-up sysfs trees in system tests")


def _program(name: str, needed_for: str) -> Finding:
    path = shutil.which(name) or shutil.which(name, path=_own_programs())
    if path is None:
        return Finding(name, False, "not on PATH", needed_for)
    detail = path
    if name in ("cargo", "uv"):
        try:
            done = subprocess.run(
                [path, "--version"], capture_output=True, text=True, timeout=10, check=False
            )
            detail = done.stdout.strip() or path
        except (OSError, subprocess.TimeoutExpired):
            pass
    return Finding(name, True, detail, needed_for)


def _own_programs() -> str:
    """Folders that need not be on PATH: this Python's programs, and a source tree's own uv."""
    tree = Path(__file__).resolve().parents[3]
    return os.pathsep.join(map(str, (Path(sys.executable).parent, tree / ".tools/uv/bin")))


def _glob(folder: Path, pattern: str) -> list[Path]:
    return sorted(folder.glob(pattern)) if folder.is_dir() else []


def _lines(path: Path) -> list[str]:
    return (text_if_any(path) or "").splitlines()
