"""Mounts a tree, with a process of its own behind it.

    with mounted(tree) as root:
        hold_at(root, 10.0)
        assert (root / "sys/class/powercap/intel-rapl:0/energy_uj").read_text() == "950000000\\n"

Beside the tree's own files there are `clock` (seconds; write a number to hold it there, or "run"
to let it go on from where it is) and `writes` (a JSON array of path and text of every write that
was tried), so that programs in any language may use them. The clock stands at zero at first.

The process is another one because native code may hold the interpreter while it reads.
"""

from __future__ import annotations

import json
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from fuse.nodes import Tree

CLOCK, WRITES = "clock", "writes"
END_S = 30.0


def missing() -> str | None:
    """What this machine lacks for mounting a tree, if anything."""
    if find_spec("mfusepy") is None:
        return "needs the Python package mfusepy (uv sync)"
    if shutil.which("fusermount3") is None:
        return "needs the Debian package fuse3"
    try:
        os.close(os.open("/dev/fuse", os.O_RDWR))
    except OSError as error:
        return f"/dev/fuse: {error.strerror}"
    return None


@contextmanager
def mounted(tree: Tree) -> Iterator[Path]:
    """The folder at which the tree lies; unmounted at the end, and when this process is killed."""
    with tempfile.TemporaryDirectory(prefix="wattio-fuse-") as folder:
        root = Path(folder)
        # The process ends when its input does.
        pipe = subprocess.PIPE
        process = subprocess.Popen(
            [sys.executable, "-m", "fuse.server", folder],
            stdin=pipe,
            stdout=pipe,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
        )
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            pickle.dump(tree, process.stdin)
            process.stdin.flush()
            assert process.stdout.readline() == b"mounted\n", "the tree was not mounted"
            yield root
        finally:
            process.stdin.close()
            try:
                process.wait(END_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            process.stdout.close()
            if root.is_mount():
                subprocess.run(["fusermount3", "-u", "-z", folder], check=True)


def hold_at(root: Path, at_s: float) -> None:
    """Let the tree's time stand still at so many seconds."""
    (root / CLOCK).write_text(str(at_s))


def let_run(root: Path) -> None:
    """Let the tree's time go on with the machine's."""
    (root / CLOCK).write_text("run")


def now_s(root: Path) -> float:
    """The tree's time in seconds."""
    return float((root / CLOCK).read_text())


def wait_until(root: Path, at_s: float) -> None:
    """Look at a tree whose time runs until it is so late there."""
    deadline = time.monotonic() + END_S
    while now_s(root) < at_s:
        assert time.monotonic() < deadline, "the tree's time stands still"


def writes(root: Path, path: str) -> list[str]:
    """What was written to a file of the tree, also in vain."""
    tried: list[tuple[str, str]] = json.loads((root / WRITES).read_text())
    return [text for where, text in tried if where == path]
