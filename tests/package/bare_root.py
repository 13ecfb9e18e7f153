"""The root of a bare Debian, made with mmdebstrap, and commands within it."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

ENDS_S = 1400.0
"""For one script: what compiles everything takes ten minutes where others compile, too."""

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def release() -> str:
    """The release of this machine, whose mirrors it reaches."""
    for line in Path("/etc/os-release").read_text().splitlines():
        if line.startswith("VERSION_CODENAME="):
            return line.partition("=")[2]
    pytest.skip("this machine is no Debian")


@contextmanager
def made(root: Path, packages: Sequence[str]) -> Iterator[Path]:
    """A root of this machine's release with a few packages, for as long as the context lasts."""
    if os.geteuid() != 0 or shutil.which("mmdebstrap") is None:
        pytest.skip("needs root and mmdebstrap: apt install mmdebstrap")
    name = release()
    security = f"deb http://deb.debian.org/debian-security {name}-security main"
    sources = [f"deb http://deb.debian.org/debian {name} main", security]
    options = ["--quiet", "--variant=apt", f"--include={','.join(packages)}"]
    subprocess.run(["mmdebstrap", *options, name, str(root), *sources], check=True, timeout=600)
    shutil.copy("/etc/resolv.conf", root / "etc" / "resolv.conf")
    try:
        yield root
    finally:
        shutil.rmtree(root, ignore_errors=True)


def within(root: Path, script: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a script in the root, with /proc, /dev and /sys mounted for as long as it runs."""
    mounts = f"mount -t proc proc {root}/proc"
    for name in ("dev", "sys"):
        mounts += f" && mount --rbind /{name} {root}/{name}"
    inside = f"exec chroot {root} /bin/sh -euc {shlex.quote(script)}"
    keep = {name: value for name, value in os.environ.items() if name.lower().endswith("_proxy")}
    return subprocess.run(
        ["unshare", "--mount", "--pid", "--fork", "/bin/sh", "-euc", f"{mounts}; {inside}"],
        env=keep | {"PATH": PATH, "HOME": "/root", "LANG": "C.UTF-8"} | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=ENDS_S,
    )
