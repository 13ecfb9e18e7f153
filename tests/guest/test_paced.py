"""The law paces the check of a real array: source and knob over md's own files in a guest.

Boots QEMU; run by `make guest` and `make test-system`.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from daemon.running import BINARY

from guest.guest import Guest
from guest.test_wattiod import MEASURE

pytestmark = [pytest.mark.system, pytest.mark.alone]

CONFIGURATION = """
name = "guest"
[latency]
kind = "exec"
command = ["/root/measure"]
user = "root"
[background]
kind = "md"
devices = ["md0"]
[[group]]
name = "server"
cores = "0-1"
[[knob]]
kind = "background"
md = ["md0"]
[service]
listen = "off"
socket = "/run/wattiod/socket"
state = "/run/wattiod/state"
"""


def test_the_check_of_an_array_is_paced_and_let_go(guest: Guest) -> None:
    files = {
        "/etc/wattiod.toml": CONFIGURATION,
        "/root/measure.sh": MEASURE,
        "/etc/passwd": "root:x:0:0:root:/root:/bin/sh\n",
    }
    script = Path(__file__).with_name("paced.sh").read_text()
    script = "cp /root/measure.sh /root/measure; chmod 755 /root/measure\n" + script
    done = guest.run([BINARY], script, cpus=2, files=files)
    assert done.exit_code == 0, done.output
    lines = (line.partition(" ") for line in done.output.splitlines())
    facts = {key: value.strip() for key, _, value in lines}
    assert facts["degraded"] == "0"
    slowed = json.loads(facts["slowed.status"])
    assert slowed["state"] == "stable"
    assert 200 <= int(facts["slowed.limit"]) < 400
    assert 0.5 <= slowed["background_pace"] < 1.0
    assert facts["run.exit"] == "0"
    assert facts["stopped.limit"] == "400 (local)"
    assert facts["stopped.least"] == "50 (local)"
