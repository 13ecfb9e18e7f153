"""The commands of docs/target.md, run as they stand there: from a volume to a client with TLS."""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import docs_rust
import pytest
from ports import free_port

BINARY = Path(__file__).parents[2] / "target" / "debug" / "wattio-target"
NEEDED = {"nbdinfo": "libnbd-bin", "fio": "fio", "qemu-img": "qemu-utils", "openssl": "openssl"}
PATIENCE_S = 60

pytestmark = pytest.mark.system


def block(language: str, word: str) -> str:
    """The one fenced block of the guide that has a word."""
    text = docs_rust.GUIDES["target-config"].read_text(encoding="utf-8")
    blocks = re.findall(r"(?ms)^```(\w*)\n(.*?)^```$", text)
    (found,) = (str(one) for kind, one in blocks if kind == language and word in one)
    return found


def run(script: str, folder: Path) -> str:
    """What a script prints, both ways; the test fails where a command of it does."""
    for name, package in NEEDED.items():
        if shutil.which(name) is None:
            pytest.skip(f"no {name}: apt install {package}")
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=250,
    )
    assert done.returncode == 0, f"{script}\n{done.stdout[-3000:]}"
    return done.stdout


@contextmanager
def served(arguments: list[str], control: Path) -> Iterator[None]:
    """The target, from when its control socket is there; it has to end well."""
    with subprocess.Popen([str(BINARY), "serve", *arguments], cwd=control.parent) as target:
        until = time.monotonic() + PATIENCE_S
        while not control.exists():
            assert target.poll() is None
            assert time.monotonic() < until
        try:
            yield
        finally:
            target.terminate()
            assert target.wait(PATIENCE_S) == 0


def test_the_first_commands_make_serve_try_and_check_a_volume(tmp_path: Path) -> None:
    """As they stand, but for the build, the place of the socket, and how much fio writes."""
    lines = block("", "cargo build").replace("target/release/wattio-target", str(BINARY))
    lines = lines.replace("/tmp/n.sock", f"{tmp_path}/n.sock").replace("--size=512m", "--size=8m")
    build, create, serve, *clients, check = lines.replace("\\\n", " ").splitlines()
    assert build.startswith("cargo build")
    assert serve.endswith(" &")
    run(create, tmp_path)
    serving = [*serve.removesuffix("&").split()[2:], "--control", f"{tmp_path}/control"]
    with served(serving, tmp_path / "control"):
        told = run("\n".join(clients), tmp_path)
    assert "export-size: 1073741824" in told
    assert "err= 0" in told
    assert run(check, tmp_path).endswith("ok\n")


def test_a_client_with_a_certificate_is_let_in_and_no_other(tmp_path: Path) -> None:
    """Certificates, configuration and clients as they stand, but for places and the port."""
    run(block("", "-subj '/CN=storage authority'"), tmp_path)
    run(f"{BINARY} create disk.vol --size 8MiB --segment-size 1MiB", tmp_path)
    port = str(free_port())
    text = block("toml", "[tls]").replace("/etc/wattio-target/", f"{tmp_path}/tls/")
    text = text.replace("/var/lib/wattio-target/", f"{tmp_path}/").replace("10809", port)
    config = tmp_path / "target.toml"
    service = f'service = {{ listen = "off", socket = "{tmp_path}/control" }}\n'
    config.write_text(service + text)
    clients = block("", "nbds://").replace("10809", port)
    clients = clients.replace("//localhost/", f"//localhost:{port}/")
    with served([str(config)], tmp_path / "control"):
        told = run(clients, tmp_path)
        assert "newstyle-fixed with TLS" in told
        assert "virtual size: 8 MiB" in told
        (tmp_path / "none").mkdir()
        shutil.copy(tmp_path / "tls" / "ca-cert.pem", tmp_path / "none")
        for uri in (
            f"nbd://localhost:{port}/disk",
            f"nbds://localhost:{port}/disk?tls-certificates={tmp_path}/none",
        ):
            asked = subprocess.run(["nbdinfo", uri], capture_output=True, check=False)
            assert asked.returncode == 1, uri
