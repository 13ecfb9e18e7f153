"""Builds the package by maturin; in it are libwattio_io and its writer, as by `make install-io`.

They lie in `wattio/_io`: Python's ranks load them from there, and programs in C and Fortran may be
built against them (`wattio hpcio prefix`).
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import maturin
from maturin import (
    build_sdist,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

ROOT = Path(__file__).resolve().parents[2]
CARRIED = ROOT / "python" / "wattio" / "_io"


def build_wheel(
    wheel_directory: str,
    config_settings: dict[str, Any] | None = None,
    metadata_directory: str | None = None,
) -> str:
    """As PEP 517 has it."""
    install_io(_profile(config_settings, "release"))
    name: str = maturin.build_wheel(wheel_directory, config_settings, metadata_directory)
    return name


def build_editable(
    wheel_directory: str,
    config_settings: dict[str, Any] | None = None,
    metadata_directory: str | None = None,
) -> str:
    """As PEP 660 has it; the module and the library share what `cargo test` compiles."""
    install_io(_profile(config_settings, "dev"))
    name: str = maturin.build_editable(wheel_directory, config_settings, metadata_directory)
    return name


def install_io(profile: str) -> None:
    """Build the library and its writer by one of Cargo's profiles, for the package to carry."""
    line = ["cargo", "build", "--quiet", "-p", "wattio-io", "-p", "wattio-io-writer"]
    subprocess.run([*line, "--profile", profile], cwd=ROOT, check=True)
    folder = {"dev": "debug"}.get(profile, profile)
    built = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / folder
    # What is as it was stays, for those that use it now.
    new = CARRIED.with_name("_io.new")
    shutil.rmtree(new, ignore_errors=True)
    script = ROOT / "packaging" / "install-io.sh"
    subprocess.run(["bash", script, str(built.absolute()), str(new)], check=True)
    if _files(new) == _files(CARRIED):
        shutil.rmtree(new)
        return
    shutil.rmtree(CARRIED, ignore_errors=True)
    new.rename(CARRIED)


def _profile(settings: dict[str, Any] | None, default: str) -> str:
    """The profile of Cargo that maturin is asked for, as in `build-args="--profile dev"`."""
    asked = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    asked.add_argument("--profile", default=default)
    arguments = shlex.split((settings or {}).get("build-args", ""))
    profile: str = asked.parse_known_args(arguments)[0].profile
    return profile


def _files(folder: Path) -> dict[str, bytes]:
    found = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}
