"""`make run` on a bare Debian: what is missing is named, brought, and the first report made."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from package import building
from package.bare_root import ENDS_S, certificates, made, release, within

ROOT = Path(__file__).parents[2]
PLAYED = ("wattio-law", "wattio-control", "wattio-model", "wattio-plant", "wattio-sim")
"""What a simulation spends its time in."""

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.timeout(2 * ENDS_S)]


@pytest.fixture
def bare(tmp_path: Path) -> Iterator[Path]:
    """A Debian that has make, and nothing else of what wattio needs."""
    with made(tmp_path / "root", ["make"]) as root:
        yield root


def copied(root: Path) -> None:
    """The files of this checkout that git knows, at /work in the root."""
    target = root / "work"
    target.mkdir()
    listed = [
        "git",
        "-C",
        str(ROOT),
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
    ]
    names = subprocess.run(listed, capture_output=True, check=True).stdout
    packed = ["tar", "-C", str(ROOT), "--null", "--files-from=-", "--ignore-failed-read", "-c"]
    files = subprocess.run(packed, input=names, capture_output=True, check=True).stdout
    subprocess.run(["tar", "-C", str(target), "-x"], input=files, check=True)


def test_a_bare_machine_comes_to_its_first_report(bare: Path) -> None:
    """As another user the line is named; as root it is run, and the report is made."""
    copied(bare)
    told = within(bare, "cd /work && setpriv --reuid=65534 --regid=65534 --clear-groups make run")
    assert told.returncode == 2
    assert "wattio needs cargo" in told.stderr
    cargo = "cargo-web" if release() in ("bookworm", "trixie") else "cargo"
    line = f"apt install make gcc ca-certificates python3-venv {cargo}"
    (needed,) = [said for said in told.stderr.splitlines() if said.startswith("wattio needs")]
    assert needed.endswith(f"; on Debian 12 and newer: {line}")
    assert "running it now" not in told.stderr

    own = certificates(bare)
    # Built quicker than by users, in the same way.
    building.hurried(bare, but=PLAYED)
    done = within(bare, "cd /work && make run", **own)
    assert done.returncode == 0, done.stderr[-3000:]
    assert f"as root on Debian, running it now: {line}" in done.stderr.splitlines()
    report = done.stdout.strip().splitlines()[-1]
    assert report.startswith("report: results/quickstart/")
    assert (bare / "work" / report.partition(": ")[2]).is_file()
