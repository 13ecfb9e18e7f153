"""The test bed itself: a guest has the knobs and meters that tests rely on, and never hangs.

Boots QEMU; run by `make guest` and `make test-system`.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from guest.guest import Guest, GuestError

pytestmark = pytest.mark.system

CPUS = 4
BMC_WATTS = 245
COMPLAINT = re.compile(r"init:|modprobe:")
GOVERNORS = ("conservative", "ondemand", "performance", "powersave", "schedutil", "userspace")

Facts = dict[str, str]


@pytest.fixture(scope="module")
def facts(guest: Guest) -> Facts:
    """What probe.sh found: one boot for all tests of what the guest has."""
    ipmitool = shutil.which("ipmitool")
    if ipmitool is None:
        pytest.skip("reading the BMC needs the Debian package ipmitool")
    probe = Path(__file__).with_name("probe.sh").read_text()
    done = guest.run([Path(ipmitool)], probe, cpus=CPUS, bmc_watts=BMC_WATTS)
    lines = (line.partition(" ") for line in done.output.splitlines())
    found = {key: value.strip() for key, _, value in lines}
    found |= {"console": done.console, "boot_s": str(done.boot_s), "total_s": str(done.total_s)}
    assert done.exit_code == 0, done.output
    return found


def test_boot_without_complaint(facts: Facts) -> None:
    complaints = [line for line in facts["console"].splitlines() if COMPLAINT.match(line)]
    assert complaints == []


def test_the_clock_is_one_whose_rate_need_not_be_measured(facts: Facts) -> None:
    assert facts["clock.source"] == "hpet"
    # A guest says how long its boot took; QEMU took longer.
    assert 0 < float(facts["boot_s"]) < float(facts["total_s"])


@pytest.mark.parametrize("cpu", range(CPUS))
def test_cpufreq_policy_of_each_processor(facts: Facts, cpu: int) -> None:
    policy = f"policy{cpu}"
    assert facts[f"{policy}.driver"] == "acpi-cpufreq"
    assert facts[f"{policy}.cpus"] == str(cpu)
    assert facts[f"{policy}.frequencies"] == "2400000 2000000 1600000 1200000"
    assert set(facts[f"{policy}.governors"].split()) == set(GOVERNORS)
    assert facts[f"{policy}.max"] == "1600000"
    assert [facts[f"{policy}.{governor}"] for governor in GOVERNORS] == list(GOVERNORS)
    assert facts[f"{policy}.current"] == "1200000"


def test_powercap_energy_advances_and_wraps(facts: Facts) -> None:
    names = ("package.before", "package.after", "package.range", "package.wrapped", "dram.between")
    before, after, top, wrapped, dram = (int(facts[name]) for name in names)
    assert (facts["package.name"], facts["dram.name"]) == ("package-0", "dram")
    # 95 W over 0.1 s, or longer where the guest was slow.
    assert after - before >= 9_500_000
    assert before // 4 <= dram <= after // 4
    assert top == after + 1_000_000
    assert wrapped < after


def test_hwmon_and_acpi_power(facts: Facts) -> None:
    assert facts["fake.power_uw"] == "95000000"
    assert facts["fake.lower_uw"] == "40000000"
    # The ACPI meter adds 1 mW to 123 W with each reading.
    assert 123_000_000 < int(facts["acpi.power_uw"]) < 124_000_000


def test_bmc_reads_power_by_dcmi(facts: Facts) -> None:
    assert facts["bmc.reading"].split(":")[1].strip() == f"{BMC_WATTS} Watts"


def test_processors_go_off_and_on(facts: Facts) -> None:
    assert (facts["cpus.first"], facts["cpus.fewest"], facts["cpus.last"]) == ("0-3", "0", "0-3")
    assert facts["cpus.policies"] == "0 1 2 3"


def test_cpuset_moves_a_running_task(facts: Facts) -> None:
    assert set(facts["cgroup.controllers"].split()) >= {"cpu", "cpuset"}
    assert (facts["task.before"], facts["task.after"], facts["task.allowed"]) == ("2", "1", "1")


def test_disk_stops_when_idle_and_starts_for_a_read(facts: Facts) -> None:
    assert facts["disk.rotational"] == "1"
    assert facts["disk.idle"] == "suspended"
    assert int(facts["disk.stops"]) >= 1
    assert facts["disk.read"] == "4096"
    assert int(facts["disk.starts"]) >= 1


def test_block_tracepoints_are_there(facts: Facts) -> None:
    assert facts["trace.event"] == "0"


def test_a_run_hands_back_output_code_and_files(guest: Guest) -> None:
    script = "cat /etc/given; echo failing >&2; nproc; exit 7"
    done = guest.run([], script, cpus=8, files={"/etc/given": "tab\there\n"})
    assert (done.exit_code, done.output) == (7, "tab\there\nfailing\n8\n")


def test_a_guest_that_hangs_is_ended(guest: Guest) -> None:
    with pytest.raises(GuestError, match="did not end within 5 s"):
        guest.run([], "sleep 1000", timeout_s=5)


def test_a_guest_that_dies_shows_its_last_words(guest: Guest) -> None:
    # stty waits until the port is empty.
    script = "echo farewell; stty -F /dev/ttyS1 raw; echo c > /proc/sysrq-trigger"
    with pytest.raises(GuestError, match=r"(?s)QEMU exited with 0.*Kernel panic.*farewell"):
        guest.run([], script)
