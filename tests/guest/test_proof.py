"""`wattiod` in a guest beside two real servers under load, with faults at random moments.

What `tests/daemon/test_proof.py` shows of control groups and masks on this machine, for what it has
not: cpufreq, hot-plug, and a clock that may be set. Redis and nginx have two processors each, of
which the daemon leaves one, at half of the frequency. Whatever goes wrong, they have both at full
speed until it is over, and nothing is left behind. `WATTIO_PROOF_S` says how long,
`WATTIO_SEED` which faults.

Boots QEMU; run by `make guest` and `make test-system`.
"""

from __future__ import annotations

import itertools
import os
import random
import re
import shutil
import tarfile
from collections import defaultdict
from pathlib import Path

import pytest
from daemon.proof import SEED, SPAN_S, Took, tell
from daemon.records import check_records
from daemon.running import BINARY

from guest.guest import Guest

SCRIPT = Path(__file__).with_name("proof.sh")
LIMIT_S = 4 * SPAN_S + 600.0
RECORDS_BYTES = 64 << 20
SERVERS = {"redis-server": "redis-server", "nginx": "nginx-light"}
LIMIT_US = {"redis": 100.0, "nginx": 1000.0}
"""Some windows are above it and most are not."""

pytestmark = [
    pytest.mark.system,
    pytest.mark.alone,
    pytest.mark.timeout(LIMIT_S + 60.0),
    pytest.mark.skipif(not BINARY.exists(), reason="make daemon builds it"),
    *(
        pytest.mark.skipif(shutil.which(name) is None, reason=f"needs the package {package}")
        for name, package in SERVERS.items()
    ),
]


def application(name: str, cores: str, latency: str) -> str:
    """Half of its processors at half of the frequency, by a law that never waits; the bound is
    absolute, so always known."""
    return f"""
[[application]]
name = "{name}"
latency = {{ {latency} }}
[application.policy]
name = "fixed"
settings = {{ cores_share = 0.5, frequency_share = 0.5 }}
bounds = ["mean {LIMIT_US[name]} us run"]
[[application.group]]
name = "{name}"
cores = "{cores}"
"""


CONFIGURATION = f"""
name = "proof"
{application("redis", "0-1", 'kind = "redis"')}
{application("nginx", "2-3", 'kind = "log", path = "/run/latency.log", after = "rt="')}
[[knob]]
kind = "cpu.frequency"
[[knob]]
kind = "cpu.online"
accept_hotplug = true
[power]
model = "assumed"
[safety]
dwell = "0 s"
stale_after_windows = 6.0
flaps_max = 100000
errors_max = 100000
[service]
listen = "off"
socket = "/run/wattiod/socket"
state = "/run/wattiod/state"
"""

NGINX = """
daemon off;
user root;
pid /run/nginx.pid;
error_log /run/errors;
events { }
http {
    log_format latency 'rt=$request_time';
    access_log /run/latency.log latency;
    server { listen 127.0.0.1:8080; location / { return 200 "ok"; } }
}
"""


def faults(script: str, dice: random.Random) -> tuple[int, str]:
    """How many there are; and their order with what is drawn for each, for longer than it takes."""
    of_script = script.partition("# Faults.")[2]
    names = re.findall(r"^(\w+)\(\)", of_script, re.MULTILINE)
    rounds = 2 + int(SPAN_S / len(names))
    order = itertools.chain.from_iterable(dice.sample(names, len(names)) for _ in range(rounds))
    pauses_us = (10_000, 20_000, 100_000)
    lines = (
        f"{number} {name} {dice.choice(pauses_us)} {dice.randrange(1 << 15)}\n"
        for number, name in enumerate(order)
    )
    return len(names), "".join(lines)


def test_whatever_goes_wrong_the_servers_have_full_speed_until_it_is_over(
    guest: Guest, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = SCRIPT.read_text()
    count, order = faults(script, random.Random(f"{SEED} guest"))
    files = {
        "/etc/wattiod.toml": CONFIGURATION,
        "/etc/nginx.conf": NGINX,
        "/etc/passwd": "root:x:0:0:root:/root:/bin/sh\n",
        "/etc/group": "root:x:0:\n",
        "/root/faults": order,
    }
    records = tmp_path / "records.tar"
    records.touch()
    os.truncate(records, RECORDS_BYTES)
    disk = ["-drive", f"file={records},format=raw,if=none,id=records"]
    disk += ["-device", "virtio-blk-pci,drive=records"]
    programs = [BINARY, *(Path(shutil.which(name) or name) for name in SERVERS)]
    script = f"SPAN_S={SPAN_S:.0f}\nFAULTS={count}\n{script}"
    done = guest.run(programs, script, files=files, devices=disk, timeout_s=LIMIT_S)
    assert done.exit_code == 0, done.output
    took: defaultdict[str, Took] = defaultdict(Took)
    for name, what, hundredths in re.findall(r"^took (\w+) (\w+) (\d+)$", done.output, re.M):
        times_s = {"full": took[name].full_s, "back": took[name].back_s}
        times_s[what].append(int(hundredths) / 100)
    assert len(took) == 1 + count, done.output
    assert "\nleft lock \n" in done.output, done.output
    with tarfile.open(records) as archive:
        archive.extractall(tmp_path, filter="data")
    full = {"cores": [2], "frequency_hz": [2.4e9]}
    accounted = [
        check_records(tmp_path / f"proof-{name}", full, limit_us)
        for name, limit_us in LIMIT_US.items()
    ]
    [over] = re.findall(r"^over (\d+)$", done.output, re.M)
    tell(capsys, f"cpufreq and hot-plug, {int(over) / 100:.0f} s of the guest", took, *accounted)
