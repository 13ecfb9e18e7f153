"""Builds of packages: one at a time, and compiled in less time than what is released.

Builds share folders below `target`, and one that writes the extension while another packs it makes
a wheel that nothing can unpack.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tomllib
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
SHIPPED = {
    "CARGO_PROFILE_SHIPPED_LTO": "off",
    "CARGO_PROFILE_SHIPPED_CODEGEN_UNITS": "16",
    "CARGO_PROFILE_SHIPPED_OPT_LEVEL": "0",
}
"""The environment of static programs that are built sooner: their speed is not tried."""
PROFILE = "dev"
"""The profile of wheels that are built sooner: compiled as tests are."""
LIKE_TESTS = f"build-args=--profile {PROFILE}"
"""The setting of such builds."""


@contextmanager
def alone() -> Iterator[None]:
    """Waits until nobody else builds packages of this tree, on any worker of the tests."""
    (ROOT / "target").mkdir(exist_ok=True)
    with (ROOT / "target" / "packages.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def hurried(above: Path, *, but: Collection[str] = ()) -> None:
    """Let cargo optimise none of our crates in the trees below a folder, `but` these."""
    manifests = sorted(ROOT.glob("crates/*/Cargo.toml"))
    names = [tomllib.loads(manifest.read_text())["package"]["name"] for manifest in manifests]
    (above / ".cargo").mkdir(parents=True)
    plain = [name for name in names if name not in but]
    tables = [f"[profile.dev.package.{name}]\nopt-level = 0\n" for name in plain]
    (above / ".cargo" / "config.toml").write_text("".join(tables))


def seeded(target: Path) -> None:
    """Take what the tests of this tree have compiled of other projects for another target folder.

    Ours is not taken: files from an archive are old, and cargo would think that it is of them.
    """
    shutil.rmtree(target, ignore_errors=True)
    built = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    shutil.copytree(built / "debug", target / "debug", symlinks=True, ignore=_left)


def _left(folder: str, names: list[str]) -> set[str]:
    left = {name for name in names if "wattio" in name or name in ("incremental", "examples")}
    if Path(folder).name == "deps":
        # Programs, among them the tests of every crate.
        left |= {name for name in names if not name.startswith("lib")}
    return left
