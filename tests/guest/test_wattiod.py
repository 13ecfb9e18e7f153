"""`wattiod` and the conformance of its knobs in a guest: cpufreq, cgroup version 2, powercap, a
disk that stops, hot-plug of three processors.

Boots QEMU; run by `make guest` and `make test-system`.
"""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
from daemon.running import BINARY

from guest.guest import Guest

pytestmark = pytest.mark.system

ROOT = Path(__file__).parents[2]
CPUS = 4
# What fake_power draws unless it is told otherwise.
PACKAGE_W = 95.0

CONFIGURATION = """
name = "guest"
[policy]
name = "fixed"
settings = { cores_share = 0.5, frequency_share = 0.5 }
[latency]
kind = "exec"
command = ["/root/measure"]
user = "root"
[cpu]
kind = "proc-stat"
[[group]]
name = "server"
cores = "0-3"
cgroup = "/server"
[[knob]]
kind = "cpu.cpuset"
[[knob]]
kind = "cpu.frequency"
[[knob]]
kind = "cpu.online"
accept_hotplug = true
[power]
meter = "rapl:package-0"
model = "assumed"
[service]
listen = "off"
socket = "/run/wattiod/socket"
state = "/run/wattiod/state"
keeper = false
"""
KEPT = CONFIGURATION.replace("keeper = false", "keeper = true")

# The same, turning the frequency alone.
UNPLUGGED = CONFIGURATION
for knob in ('kind = "cpu.cpuset"', 'kind = "cpu.online"\naccept_hotplug = true'):
    UNPLUGGED = UNPLUGGED.replace(f"[[knob]]\n{knob}\n", "")

# The same, at a frequency that heat can limit further.
HEATED = UNPLUGGED.replace("frequency_share = 0.5", "frequency_share = 0.8")

# Ten requests of 300 us each tenth of a second.
MEASURE = """#!/bin/sh
while usleep 100000; do echo '{"requests": 10, "latency_us_mean": 300.0}'; done
"""


def conformance() -> Path:
    """The program of `wattio-host`'s tests of knobs."""
    command = ["cargo", "test", "--no-run", "--locked", "--message-format=json", "--workspace"]
    command += ["--test", "conformance_knobs"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)
    found = [json.loads(line).get("executable") for line in done.stdout.splitlines()]
    return Path(next(program for program in reversed(found) if program))


@pytest.fixture(scope="module")
def facts(guest: Guest) -> dict[str, str]:
    """What governed.sh found: one boot for all tests of the daemon."""
    files = {
        "/etc/wattiod.toml": CONFIGURATION,
        "/root/kept.toml": KEPT,
        "/root/unplugged.toml": UNPLUGGED,
        "/root/heated.toml": HEATED,
        "/root/measure.sh": MEASURE,
        "/etc/passwd": "root:x:0:0:root:/root:/bin/sh\n",
    }
    script = Path(__file__).with_name("governed.sh").read_text()
    script = "cp /root/measure.sh /root/measure; chmod 755 /root/measure\n" + script
    done = guest.run([BINARY], script, cpus=CPUS, files=files)
    assert done.exit_code == 0, done.output
    lines = (line.partition(" ") for line in done.output.splitlines())
    return {key: value.strip() for key, _, value in lines}


def state(facts: dict[str, str], moment: str) -> dict[str, str]:
    """What the knobs stood at, at one moment."""
    start = f"{moment}."
    return {key.removeprefix(start): facts[key] for key in facts if key.startswith(start)}


def test_doctor_finds_what_the_guest_has(facts: dict[str, str]) -> None:
    assert facts["doctor"] == "right"
    for part in ("acpi-cpufreq", "version 2", "rapl:package-0", "hwmon:fake_power/power1"):
        assert part in facts["doctor.text"], facts["doctor.text"]


def test_every_knob_is_turned(facts: dict[str, str]) -> None:
    governed = state(facts, "governed")
    assert governed["online"] == "0-1"
    assert governed["cpuset"] == "0-1"
    assert governed["frequency0"] == governed["frequency1"] == "1200000"
    assert governed["snapshot"]


def test_the_meter_is_read(facts: dict[str, str]) -> None:
    power = json.loads(facts["status"])["power"]
    assert power["meter"] == "rapl:package-0"
    assert power["measured_w"] == pytest.approx(PACKAGE_W, rel=0.2)
    assert power["estimated_w"] < power["estimated_full_speed_w"]


@pytest.mark.parametrize("moment", ["ended", "restored", "kept.aborted", "kept.stopped"])
def test_everything_is_put_back(facts: dict[str, str], moment: str) -> None:
    assert facts["run.exit"] == facts["restore.exit"] == "0"
    assert state(facts, moment) == state(facts, "before")


def test_a_kill_leaves_a_snapshot_and_the_knobs_where_they_were(facts: dict[str, str]) -> None:
    killed = state(facts, "killed")
    assert killed["snapshot"]
    assert killed["online"] == "0-1"
    assert "scaling_max_freq" in facts["restore.text"]


def test_a_processor_that_somebody_took_off_gets_its_limit_back_later(
    facts: dict[str, str],
) -> None:
    """It came back at the limit of a daemon that had long ended, and nobody had said so."""
    told = state(facts, "unplugged")
    assert told["exit"] == "1"
    assert "processor 3 is off, and keeps this limit when it comes back" in told["log"]
    assert told["back"] == "1200000"
    assert told["restore.exit"] == "0"
    assert told["after"] == told["before"]


@pytest.mark.parametrize("end", ["cooled", "hot", "killed"])
def test_heat_that_limits_a_frequency_is_not_somebody_elses_write(
    facts: dict[str, str], end: str
) -> None:
    """The limit was left alone from then on, and stayed when the host had cooled down."""
    heated = state(facts, f"heated.{end}")
    assert heated["hot"] == "1600000"
    assert heated["exit"] == "0"
    assert "somebody else" not in heated["log"]
    assert "read back" not in heated["log"]
    assert heated["after"] == "2400000"
    if end == "cooled":
        assert heated["later"] == "2000000"


def test_knobs_conform_in_the_guest(guest: Guest) -> None:
    """The body of conformance that every knob passes on folders passes on a real kernel's files."""
    program = conformance()
    # The guest's control groups are of version 2; what is left out is of version 1 alone, and runs
    # on this machine.
    version_1 = "--skip a_cpuset_whose_parent_was_narrowed_gets_what_is_left"
    options = f"--test-threads=1 --nocapture --include-ignored {version_1}"
    script = f"{program.name} conformance::here {options}"
    done = guest.run([program], script, cpus=CPUS, timeout_s=480.0)
    assert done.exit_code == 0, done.output
    skipped = re.findall(r"skipped: .*", done.output)
    assert skipped == [], "the guest has all that these knobs need"
    assert " 0 passed" not in done.output
