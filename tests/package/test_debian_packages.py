"""The Debian packages, installed in a bare root, used, removed and purged."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from package import building
from package.bare_root import ENDS_S, made, within

ROOT = Path(__file__).parents[2]

VOLUME = "/var/lib/wattio-target/disk.vol"
TARGET = "runuser -u wattio-target -- wattio-target"

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.timeout(2 * ENDS_S)]


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A Debian with man and bash-completion, and the packages at /packages."""
    folder = tmp_path_factory.mktemp("debian")
    root, dist = folder / "root", folder / "dist"
    with building.alone():
        subprocess.run(
            ["make", "package", f"DIST={dist}", f"WHEEL_PROFILE={building.PROFILE}"],
            cwd=ROOT,
            env=os.environ | building.SHIPPED,
            check=True,
            capture_output=True,
            timeout=ENDS_S,
        )
    with made(root, ["man-db", "bash-completion"]) as bare:
        (bare / "packages").mkdir()
        for file in dist.glob("*.deb"):
            shutil.copy(file, bare / "packages")
        yield bare


def done(root: Path, script: str) -> str:
    """What a script prints in the root; the test fails where it does."""
    ended = within(root, script, DEBIAN_FRONTEND="noninteractive")
    assert ended.returncode == 0, f"{script}\n{ended.stdout[-2000:]}\n{ended.stderr[-2000:]}"
    return ended.stdout


def test_the_packages_come_and_go_without_a_trace(bare: Path) -> None:
    """All are used once; purged, they leave no file behind."""
    done(bare, "apt-get update -qq && apt-get install -y -qq /packages/*.deb")

    # The daemon: there, right, not enabled; its configuration is the administrator's.
    assert done(bare, "wattiod --version").startswith("wattiod ")
    assert done(bare, "wattiod check /etc/wattiod.toml").endswith("ok\n")
    assert done(bare, "dpkg-query -W -f='${Conffiles}' wattiod").startswith(" /etc/wattiod.toml ")
    unit = done(bare, "cat /usr/lib/systemd/system/wattiod.service")
    assert "ExecStart=/usr/sbin/wattiod run /etc/wattiod.toml" in unit
    assert "/usr/local" not in unit
    guides = bare / "usr/share/doc/wattiod"
    assert "`cool_down_max`" in (guides / "wattiod-keys.md").read_text()
    drop_ins = guides / "examples/wattiod.service.d"
    assert "/usr/sbin/wattiod observe" in (drop_ins / "stages.conf").read_text()
    assert not [file for file in drop_ins.iterdir() if "/usr/local" in file.read_text()]
    assert not list((bare / "etc/systemd/system").glob("**/wattiod*"))

    # The target: the same, and a user to whom its volumes belong.
    assert done(bare, "wattio-target --version").startswith("wattio-target ")
    assert "ok" in done(bare, "wattio-target check /etc/wattio-target.toml")
    for unit in ("service", "socket"):
        text = done(bare, f"cat /usr/lib/systemd/system/wattio-target.{unit}")
        assert "/usr/local" not in text
    assert done(bare, "stat -c %U:%a /var/lib/wattio-target").strip() == "wattio-target:750"
    done(bare, f"{TARGET} create {VOLUME} --size 8MiB --segment-size 1MiB")
    assert done(bare, f"{TARGET} check {VOLUME}").endswith("ok\n")

    # The command: simulates and reports, as a user who may not write where it lies.
    asnobody = "cd /tmp && setpriv --reuid=65534 --regid=65534 --clear-groups env HOME=/tmp"
    assert done(bare, f"{asnobody} wattio --version").strip()
    told = done(bare, f"{asnobody} wattio simulate --trace pgbench --policy ondemand --json")
    assert "relative_to_native" in told
    done(bare, f"{asnobody} wattio new study mine && {asnobody} wattio check mine")

    # Manual pages and completion.
    for name, section, word in (
        ("wattio", 1, "simulate"),
        ("wattiod", 8, "observe"),
        ("wattio-target", 8, "scrub"),
    ):
        assert word in done(bare, f"zcat /usr/share/man/man{section}/{name}.{section}.gz")
        done(bare, f"bash -n /usr/share/bash-completion/completions/{name}")

    # Changed configuration survives removal, not purging.
    done(bare, "echo '# mine' >> /etc/wattiod.toml && apt-get remove -y -qq wattio wattiod")
    assert (bare / "etc/wattiod.toml").is_file()
    done(bare, "echo '# mine' >> /etc/wattio-target.toml && apt-get remove -y -qq wattio-target")
    assert (bare / "etc/wattio-target.toml").is_file()
    assert not (bare / "usr/lib/wattio").exists()
    # Nor do volumes go with their program.
    done(bare, "apt-get purge -y -qq wattiod wattio-target && apt-get autoremove -y -qq --purge")
    assert not (bare / "etc/wattio-target.toml").exists()
    assert (bare / VOLUME.removeprefix("/")).stat().st_size > 8 << 20
    done(bare, f"rm {VOLUME} && rmdir {Path(VOLUME).parent}")
    left = [path for name in ("etc", "usr", "var") for path in (bare / name).rglob("*wattio*")]
    assert left == []


def test_purging_keeps_what_a_killed_daemon_has_not_put_back(bare: Path) -> None:
    """The snapshot alone knows the old values; `restore` fails here, as there is no such host."""
    done(bare, "apt-get install -y -qq /packages/wattiod_*.deb")
    snapshot = bare / "var/lib/wattiod/snapshot.json"
    snapshot.parent.mkdir(parents=True)
    snapshot.write_text("{}")
    ended = within(bare, "apt-get purge -y -qq wattiod", DEBIAN_FRONTEND="noninteractive")
    assert ended.returncode == 0
    assert snapshot.is_file()
    assert "is kept: it says what to put back" in ended.stdout + ended.stderr
