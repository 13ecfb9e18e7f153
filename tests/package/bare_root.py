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

ENDS_S = 2400.0
"""For one script: what compiles everything takes twenty minutes where others compile, too."""

CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def release() -> str:
    """The release of this machine, whose mirrors it reaches."""
    for line in Path("/etc/os-release").read_text().splitlines():
        if line.startswith("VERSION_CODENAME="):
            return line.partition("=")[2]
    pytest.skip("this machine is no Debian")


@contextmanager
def made(
    root: Path, packages: Sequence[str], name: str | None = None, *, testing: bool = False
) -> Iterator[Path]:
    """The root of a Debian with a few packages, for as long as the context lasts.

    Its release is `name`, or this machine's. Where that is `testing`, it has no security updates of
    its own, and its list may be past its date, as those of a mirror that stands still for a while
    are; signatures are checked all the same.
    """
    if os.geteuid() != 0 or shutil.which("mmdebstrap") is None:
        pytest.skip("needs root and mmdebstrap: apt install mmdebstrap")
    name = name or release()
    sources = [f"deb http://deb.debian.org/debian {name} main"]
    options = ["--quiet", "--variant=apt", f"--include={','.join(packages)}"]
    if testing:
        options.append('--aptopt=Acquire::Check-Valid-Until "false"')
    else:
        sources.append(f"deb http://deb.debian.org/debian-security {name}-security main")
    subprocess.run(["mmdebstrap", *options, name, str(root), *sources], check=True, timeout=600)
    shutil.copy("/etc/resolv.conf", root / "etc" / "resolv.conf")
    try:
        yield root
    finally:
        shutil.rmtree(root, ignore_errors=True)


def certificates(root: Path) -> dict[str, str]:
    """Settings by which pip and cargo in the root trust the certificates of this machine's network.

    They are no part of what is tried: this machine has them of its administrator, if it has any.
    """
    own = root / "etc" / "ssl" / "own"
    own.mkdir(parents=True, exist_ok=True)
    if CERTIFICATES.exists():
        shutil.copy(CERTIFICATES, own / "all.crt")
    names = ("PIP_CERT", "SSL_CERT_FILE", "CARGO_HTTP_CAINFO")
    return dict.fromkeys(names, "/etc/ssl/own/all.crt")


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
