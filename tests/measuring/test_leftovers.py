"""A campaign that is killed with SIGKILL and not resumed: nothing of it stays on the host."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest
from wattio.errors import HostError
from wattio.systems import devices, moosefs, mounts
from wattio.systems.networks import NAMESPACES

from measuring.test_running import ASSUMED_METER, ended, study, wattio

STUDY = (
    """\
[study]
name = "trial"
kind = "measurement"
repetitions = 1
idle_before = "0 s"
idle_after = "0 s"
settle = "0 s"
drop_caches = false

[[system]]
name = "{system}"
options = {options}

[[workload]]
name = "serves"
kind = "command"
options = {{ run = ["./work.sh"], guess = "1 s" }}

"""
    + ASSUMED_METER
)

SERVES = """\
#!/bin/sh
setsid sleep 600 > /dev/null 2>&1 &
echo $! > {folder}/server
sleep {seconds}
kill $!
"""

MOOSEFS = ("moosefs", '{ chunk_servers = 1, network = "namespaces" }')
IMAGE = ("local", '{ size = "32 MiB" }')
PLAIN = ("local", "{}")


def lacking() -> str | None:
    """What this machine lacks for these tests, if anything."""
    if os.geteuid() != 0:
        return "needs root for namespaces, mounts and loop devices"
    try:
        options = moosefs.Options(network="namespaces")
        moosefs.Storage(options, Path("/nonexistent")).probe()
    except HostError as error:
        return str(error)
    return None


pytestmark = [
    pytest.mark.system,
    # What killed runs have left is removed by whichever run comes next, of other tests, too.
    pytest.mark.alone,
    pytest.mark.skipif(lacking() is not None, reason=lacking() or ""),
]


def campaign(folder: Path, system: tuple[str, str], seconds: int = 600) -> subprocess.Popen[str]:
    """A campaign whose workload has begun, with a server that leaves its session."""
    folder.mkdir()
    text = STUDY.format(system=system[0], options=system[1])
    study(folder, text, SERVES.format(folder=folder, seconds=seconds))
    process = wattio("run", "study.toml", "--no-report", folder=folder)
    end_s = time.monotonic() + 90
    while not (folder / "server").exists() or not (folder / "server").read_text().strip():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end_s, "it takes too long"
        threading.Event().wait(0.02)
    return process


def there(folder: Path) -> dict[str, set[str]]:
    """What a campaign in a folder has on this host."""
    server = int((folder / "server").read_text())
    found = {"processes": set(), "mounts": set(), "loops": set()}  # type: dict[str, set[str]]
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if str(folder / "results") in command or (int(entry.name) == server and command):
            found["processes"].add(command.split()[0].rpartition("/")[2])
    found["mounts"] = {mount.file_system for mount in mounts.below(folder)}
    found["loops"] = set(devices.loops_below(folder))
    return {what: names for what, names in found.items() if names}


def spaces(folder: Path) -> set[Path]:
    """The network namespaces of a campaign; other tests have theirs at the same time."""
    (result,) = (folder / "results").glob("*/*")
    options = moosefs.Options(network="namespaces")
    mark = moosefs.Storage(options, result / "scratch" / MOOSEFS[0])._mark
    return set(NAMESPACES.glob(f"w{mark}n*"))


@pytest.mark.parametrize("way", ["run", "clean"])
def test_what_a_killed_campaign_left_is_gone_and_another_goes_on(tmp_path: Path, way: str) -> None:
    """Killed and run anew, daemons, four namespaces and a mount stayed until somebody saw them."""
    image = campaign(tmp_path / "image", IMAGE)
    killed = campaign(tmp_path / "killed", MOOSEFS)
    alive = campaign(tmp_path / "alive", MOOSEFS)
    runs = there(tmp_path / "alive")
    try:
        for one in (image, killed):
            one.kill()
            ended(one)
        left = there(tmp_path / "killed")
        assert {"mfsmaster", "mfschunkserver", "mfsmount", "sleep"} <= left["processes"]
        assert left["mounts"] <= set(moosefs.Storage.file_systems)
        assert left["mounts"]
        assert set(there(tmp_path / "image")) == {"processes", "mounts", "loops"}
        assert len(spaces(tmp_path / "killed")) == len(spaces(tmp_path / "alive")) == 3
        if way == "run":
            anew = campaign(tmp_path / "anew", PLAIN, seconds=0)
            code, _, err = ended(anew)
            assert code == 0, err
            assert err.count("left by a killed run: ") == 2
        else:
            code, out, err = ended(wattio("clean", "--json", folder=tmp_path))
            assert code == 0, err
            told = json.loads(out)["systems"]
            removed = [one for one in told if one["removed"]]
            assert {one["module"] for one in removed} == {"local", "moosefs"}
            (left_alone,) = [one for one in told if one["pid"] == alive.pid]
            assert left_alone["runs"]
        for name in ("killed", "image"):
            assert there(tmp_path / name) == {}
        assert spaces(tmp_path / "killed") == set()
        assert len(spaces(tmp_path / "alive")) == 3
        assert there(tmp_path / "alive") == runs
    finally:
        alive.send_signal(signal.SIGINT)
        code, _, err = ended(alive)
    assert code == 130, err
    assert there(tmp_path / "alive") == {}
    assert spaces(tmp_path / "alive") == set()
