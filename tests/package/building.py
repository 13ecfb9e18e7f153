"""Builds of packages: one at a time, and compiled in less time than what is released.

Builds share folders below `target`, and one that writes the extension while another packs it makes
a wheel that nothing can unpack.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
SHIPPED = {
    "CARGO_PROFILE_SHIPPED_LTO": "off",
    "CARGO_PROFILE_SHIPPED_CODEGEN_UNITS": "16",
    "CARGO_PROFILE_SHIPPED_OPT_LEVEL": "0",
}
"""The environment of static programs that are built sooner: their speed is not tried."""


@contextmanager
def alone() -> Iterator[None]:
    """Waits until nobody else builds packages of this tree, on any worker of the tests."""
    (ROOT / "target").mkdir(exist_ok=True)
    with (ROOT / "target" / "packages.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def hurried(above: Path, *, others: int = 0) -> None:
    """Let cargo optimise no more than tests need, in all trees below a folder.

    Crates of this tree are compiled as for its tests: those that simulate are fast. The level of
    the other projects' is `others`.
    """
    profile = tomllib.loads((ROOT / "Cargo.toml").read_text())["profile"]["dev"]
    lines = ["[profile.release]", f"opt-level = {others}"]
    for manifest in sorted(ROOT.glob("crates/*/Cargo.toml")):
        name = tomllib.loads(manifest.read_text())["package"]["name"]
        level = profile["package"].get(name, {"opt-level": 0})["opt-level"]
        lines += [f"[profile.release.package.{name}]", f"opt-level = {level}"]
    (above / ".cargo").mkdir(parents=True)
    (above / ".cargo" / "config.toml").write_text("\n".join([*lines, ""]))


def seeded(target: Path) -> None:
    """Take what this tree's release has compiled of other projects for another target folder.

    Ours is not taken: files from an archive are old, and cargo would think that it is of them.
    """
    shutil.rmtree(target, ignore_errors=True)
    ours = shutil.ignore_patterns("*wattio*", "incremental", "examples")
    built = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    shutil.copytree(built / "release", target / "release", symlinks=True, ignore=ours)
