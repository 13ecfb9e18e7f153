"""The container of packaging/container, started as its page says: it saves, and puts back."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from daemon.running import ALL, CPUSET, DEADLINE_S, control_group, cpus

from package import building
from package.bare_root import ENDS_S

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "packaging" / "container" / "README.md"
PLACES = {"/var/lib/wattiod": "state", "/run/wattiod": "run", "/etc/wattiod.toml": "wattiod.toml"}
NAME = f"wattiod-test-{os.getpid()}"
# Where control groups are of version 1 beside an empty version 2, crun makes none.
PODMAN = ["podman", "--runtime", "runc"]
# What this host's limits may be above of, and may not be asked for then.
LIMITS = ["--ulimit", "nofile=1024:4096", "--ulimit", "nproc=4096:4096"]

pytestmark = [
    pytest.mark.system,
    pytest.mark.alone,
    pytest.mark.timeout(2 * ENDS_S),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root may write control groups"),
    pytest.mark.skipif(not (CPUSET / "cpuset.cpus").exists(), reason="no cpuset, version 1"),
    pytest.mark.skipif(len(ALL) < 2, reason="one processor leaves nothing to take off"),
    pytest.mark.skipif(shutil.which("podman") is None, reason="needs the package podman"),
    pytest.mark.skipif(shutil.which("runc") is None, reason="needs the package runc"),
]


def podman(*words: str) -> str:
    done = subprocess.run([*PODMAN, *words], capture_output=True, text=True, timeout=DEADLINE_S)
    assert done.returncode == 0, f"{words}: {done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def image() -> Iterator[str]:
    with building.alone():
        script = [str(ROOT / "packaging" / "build" / "static.sh")]
        built = subprocess.run(
            script,
            env=os.environ | building.SHIPPED,
            check=True,
            capture_output=True,
            text=True,
            timeout=ENDS_S,
        )
    file = str(PAGE.with_name("Containerfile"))
    podman("build", "-q", "-t", NAME, "-f", file, str(ROOT / built.stdout.strip()))
    yield NAME
    podman("rmi", "-f", NAME)


def words(folder: Path) -> list[str]:
    """The page's `podman run`, with this test's names and places."""
    block = re.search(r"podman run -d ((?:.*\\\n)+.*)\n", PAGE.read_text())
    assert block
    text = block[1].replace("\\\n", " ")
    text = text.replace("--restart always", "")
    for place, ours in PLACES.items():
        text = text.replace(f"-v {place}:", f"-v {folder / ours}:")
    *options, image = text.replace("--name wattiod", f"--name {NAME}").split()
    assert image == "wattiod"
    return options


def configuration(group: Path) -> str:
    return f"""
name = "container"
[policy]
name = "fixed"
settings = {{ cores_share = 0.5 }}
[latency]
kind = "diskstats"
devices = ["{disk()}"]
[[group]]
name = "all"
cores = "{",".join(str(cpu) for cpu in sorted(ALL))}"
cgroup = "/{group.name}"
[[knob]]
kind = "cpu.cpuset"
[power]
model = "assumed"
[safety]
dwell = "0 s"
[service]
listen = "off"
"""


def disk() -> str:
    names = [line.split()[2] for line in Path("/proc/diskstats").read_text().splitlines()]
    return next(name for name in names if Path(f"/sys/block/{name}").exists())


@contextmanager
def started(folder: Path, image: str) -> Iterator[None]:
    for name in ("state", "run"):
        (folder / name).mkdir(exist_ok=True)
    try:
        podman("run", "-d", *LIMITS, *words(folder), image)
        yield
    finally:
        subprocess.run([*PODMAN, "rm", "-f", NAME], capture_output=True, timeout=DEADLINE_S)


def wait_for(group: Path, count: int) -> None:
    """Look until the group has so many processors. Fails after a minute."""
    deadline, never = time.monotonic() + DEADLINE_S, threading.Event()
    while len(cpus((group / "cpuset.cpus").read_text())) != count:
        assert time.monotonic() < deadline, podman("logs", NAME)
        never.wait(0.02)


def test_it_saves_and_puts_back_however_it_ends(tmp_path: Path, image: str) -> None:
    with control_group(f"wattio-container-{os.getpid()}") as group:
        (tmp_path / "wattiod.toml").write_text(configuration(group))
        with started(tmp_path, image):
            wait_for(group, len(ALL) // 2)
            status = podman("exec", NAME, "/wattiod", "status")
            assert "mode             run, policy fixed" in status
            podman("stop", NAME)
            assert cpus((group / "cpuset.cpus").read_text()) == ALL
        with started(tmp_path, image):
            wait_for(group, len(ALL) // 2)
            podman("kill", "--signal", "KILL", NAME)
            # By its keeper, or at the next start.
            wait_for(group, len(ALL))
        assert not (tmp_path / "state" / "snapshot.json").exists()
