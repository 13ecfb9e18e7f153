"""`wattio doctor` on made-up trees of /proc, /sys and /dev."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from wattio import cli
from wattio.results import machine


def tree(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


FULL = {
    "proc/cpuinfo": "processor\t: 0\nmodel name\t: Test CPU\nprocessor\t: 1\n",
    "proc/meminfo": "MemTotal:       16 kB\n",
    "proc/sys/kernel/io_uring_disabled": "1\n",
    "sys/devices/system/cpu/cpufreq/policy0/scaling_driver": "acpi-cpufreq\n",
    "sys/devices/system/cpu/cpufreq/policy0/cpuinfo_min_freq": "800000\n",
    "sys/devices/system/cpu/cpufreq/policy0/cpuinfo_max_freq": "2600000\n",
    "sys/class/powercap/intel-rapl:0/name": "package-0\n",
    "sys/class/powercap/intel-rapl:0/energy_uj": "12\n",
    "sys/class/powercap/intel-rapl:0:0/name": "dram\n",
    "sys/class/hwmon/hwmon0/name": "acpitz\n",
    "sys/class/hwmon/hwmon1/name": "power_meter\n",
    "sys/class/hwmon/hwmon1/power1_average": "120000000\n",
    "sys/fs/cgroup/cgroup.controllers": "cpuset cpu io\n",
    "sys/kernel/tracing/events/block/block_rq_complete/id": "1\n",
    "dev/fuse": "",
}


def found(root: Path) -> dict[str, machine.Finding]:
    return {finding.name: finding for finding in machine.examine(root)}


def test_a_machine_that_has_everything(tmp_path: Path) -> None:
    findings = found(tree(tmp_path, FULL))
    assert all(finding.present for finding in findings.values())
    details = {name: finding.detail for name, finding in findings.items()}
    assert details["processor"] == "2 x Test CPU"
    assert details["cpufreq"] == "1 policies, acpi-cpufreq, 0.80 to 2.60 GHz"
    assert details["RAPL powercap zones"] == "package-0, dram; 1 not readable"
    assert details["hwmon power inputs"] == "power_meter/power1_average"
    assert details["control groups"] == "version 2"
    assert details["io_uring"] == "allowed to privileged users"


def test_a_machine_that_has_nothing(tmp_path: Path) -> None:
    findings = found(tmp_path)
    assert not any(finding.present for finding in findings.values())
    assert all(finding.needed_for for finding in findings.values())


def test_version_1_control_groups(tmp_path: Path) -> None:
    (tmp_path / "sys/fs/cgroup/cpuset").mkdir(parents=True)
    findings = found(tmp_path)
    assert findings["control groups"].detail == "version 1"
    assert findings["cpuset"].present


def test_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(["doctor", "--root", str(tree(tmp_path, FULL)), "--json"])
    assert caught.value.code == 0
    findings = json.loads(capsys.readouterr().out)["findings"]
    assert {"name", "present", "detail", "needed_for"} == set(findings[0])


def test_this_machine() -> None:
    findings = found(Path("/"))
    assert findings["processor"].present
    assert "root" in findings
    # The extra brings mpi4py and h5py, and no MPI.
    assert findings["mpirun"].needed_for.endswith("(with the extra hpc)")


def test_programs_of_the_tree_are_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """mpirun stands beside this Python, uv under .tools; `no` was said of both."""
    beside = tmp_path / "mpirun"
    beside.write_text("#!/bin/sh\n")
    beside.chmod(0o755)
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    assert found(Path("/"))["mpirun"].detail == str(beside)
