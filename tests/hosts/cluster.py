"""Nodes as namespaces with a name and an sshd each: as near to a cluster as one machine comes."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SSHD = "/usr/sbin/sshd"
_RATE = "1gbit"


def _run(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True, timeout=60)


@dataclass(frozen=True)
class Cluster:
    """Nodes, and how to reach them."""

    mark: str
    names: list[str]
    config: Path
    folder: Path

    def namespace(self, number: int) -> str:
        return f"w{self.mark}n{number}"

    def resolver(self, number: int) -> Path:
        """Files that take the place of this machine's in /etc at a node."""
        return Path("/etc/netns") / self.namespace(number)

    def cut(self, number: int) -> None:
        """The network of a node dies: nothing comes and nothing goes."""
        _run("ip", "link", "set", self.namespace(number), "down")

    def mend(self, number: int) -> None:
        """The network is back."""
        _run("ip", "link", "set", self.namespace(number), "up")


@contextlib.contextmanager
def cluster(folder: Path, nodes: int) -> Iterator[Cluster]:
    """Namespaces with addresses, legs of 1 Gbit/s and an sshd each; nothing is left of them."""
    mark = uuid.uuid4().hex[:5]
    subnet = f"10.{80 + os.getpid() % 100}.{int(mark[:2], 16)}"
    names = [f"{mark}-{number}" for number in range(1, nodes + 1)]
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    config = folder / "ssh_config"
    made = Cluster(mark, names, config, folder)
    bridge = f"w{mark}b"
    daemons: list[subprocess.Popen[bytes]] = []
    Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    try:
        _run("ip", "link", "add", bridge, "type", "bridge")
        _run("ip", "address", "add", f"{subnet}.254/24", "dev", bridge)
        _run("ip", "link", "set", bridge, "up")
        for key in ("client", "host"):
            _run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / key))
        known, text = [], []
        public = " ".join((folder / "host.pub").read_text().split()[:2])
        for number, name in enumerate(names, start=1):
            space, address = made.namespace(number), f"{subnet}.{number}"
            _run("ip", "netns", "add", space)
            _run("ip", "link", "add", space, "type", "veth", "peer", "name", "e0", "netns", space)
            _run("ip", "link", "set", space, "master", bridge, "up")
            _run("ip", "-netns", space, "address", "add", f"{address}/24", "dev", "e0")
            for link in ("e0", "lo"):
                _run("ip", "-netns", space, "link", "set", link, "up")
            limit = ("root", "tbf", "rate", _RATE, "burst", "500kb", "latency", "50ms")
            _run("tc", "qdisc", "replace", "dev", space, *limit)
            _run("tc", "-netns", space, "qdisc", "replace", "dev", "e0", *limit)
            known.append(f"{name},{address} {public}\n")
            text.append(f"Host {name}\n  HostName {address}\n")
            made.resolver(number).mkdir(parents=True)
            hosts = "".join(f"{subnet}.{at}\t{one}\n" for at, one in enumerate(names, start=1))
            (made.resolver(number) / "hosts").write_text(f"127.0.0.1\tlocalhost\n{hosts}")
            daemons.append(_sshd(folder, space, name, address))
        (folder / "known").write_text("".join(known))
        text.append(
            f"Host *\n  User root\n  IdentityFile {folder}/client\n  IdentitiesOnly yes\n"
            f"  UserKnownHostsFile {folder}/known\n  GlobalKnownHostsFile /dev/null\n"
        )
        config.write_text("".join(text))
        for name in names:
            _wait(made, name)
        yield made
    finally:
        for daemon in daemons:
            daemon.kill()
            daemon.wait()
        for number in range(1, nodes + 1):
            space = made.namespace(number)
            for pid in _processes(space):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, 9)
            shutil.rmtree(made.resolver(number), ignore_errors=True)
            for words in (("link", "del", space), ("netns", "del", space)):
                subprocess.run(("ip", *words), capture_output=True, check=False, timeout=60)
        subprocess.run(("ip", "link", "del", bridge), capture_output=True, check=False, timeout=60)


def _sshd(folder: Path, space: str, name: str, address: str) -> subprocess.Popen[bytes]:
    options = {
        "ListenAddress": address,
        "HostKey": str(folder / "host"),
        "AuthorizedKeysFile": str(folder / "client.pub"),
        "PermitRootLogin": "yes",
        "StrictModes": "no",
        "UsePAM": "no",
        "PidFile": "none",
        "MaxStartups": "200",
    }
    words = [word for key, value in options.items() for word in ("-o", f"{key}={value}")]
    named = ("unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"', name)
    return subprocess.Popen(
        ["ip", "netns", "exec", space, *named, SSHD, "-D", "-e", "-f", "/dev/null", *words],
        stderr=(folder / f"{space}.log").open("wb"),
    )


def _wait(made: Cluster, name: str) -> None:
    deadline = time.monotonic() + 30
    words = ("ssh", "-F", str(made.config), "-o", "BatchMode=yes", name, "true")
    while (done := subprocess.run(words, capture_output=True, check=False)).returncode != 0:
        assert time.monotonic() < deadline, done.stderr.decode()
        time.sleep(0.1)


def _processes(space: str) -> list[int]:
    done = subprocess.run(("ip", "netns", "pids", space), capture_output=True, check=False)
    return [int(word) for word in done.stdout.split()]
