"""The process behind a mounted tree: `python -m fuse.server FOLDER < PICKLED_TREE`.

It says "mounted" when it is, and ends and unmounts when its input ends.
"""

from __future__ import annotations

import errno
import json
import pickle
import stat
import subprocess
import sys
import threading
import time
from pathlib import PurePosixPath
from typing import Any

import mfusepy

from fuse.mount import CLOCK, WRITES
from fuse.nodes import Link, Node, Tree, refusal

# As sysfs says of every file: its size is not known before it is read.
SIZE = 4096


class Clock(Node):
    """The tree's time in seconds: stands still, or goes on with the machine's."""

    writable = True

    def __init__(self) -> None:
        self._held_s = 0.0
        self._since_s: float | None = None

    def now_s(self) -> float:
        """The time."""
        gone_s = 0.0 if self._since_s is None else time.monotonic() - self._since_s
        return self._held_s + gone_s

    def read(self, at_s: float) -> str:
        return str(at_s)

    def write(self, text: str, at_s: float) -> None:
        if text == "run":
            self._held_s, self._since_s = at_s, time.monotonic()
        else:
            self._held_s, self._since_s = float(text), None


class Record(Node):
    """Every write that was tried: path and text."""

    def __init__(self) -> None:
        self.tried: list[tuple[str, str]] = []

    def read(self, at_s: float) -> str:
        return json.dumps(self.tried)


class Served:
    """What libfuse asks for. It asks in one thread, so nothing is locked."""

    use_ns = True

    def __init__(self, tree: Tree) -> None:
        self._clock, self._record = Clock(), Record()
        self._tree: Tree = {**tree, CLOCK: self._clock, WRITES: self._record}
        # The files below each folder, with the name that leads to them there.
        self._below: dict[str, list[tuple[str, Node]]] = {}
        for path, node in self._tree.items():
            place = PurePosixPath("/", path)
            for folder in place.parents:
                name = place.relative_to(folder).parts[0]
                self._below.setdefault(str(folder), []).append((name, node))
        self._open: dict[int, bytes | None] = {}
        self._handles = 0

    def init(self, path: str) -> None:
        sys.stdout.write("mounted\n")
        sys.stdout.flush()

    def _node(self, path: str) -> Node:
        node = self._tree.get(path.lstrip("/"))
        if node is None or not node.is_there():
            raise refusal(errno.ENOENT)
        return node

    def getattr(self, path: str, handle: int | None = None) -> dict[str, int]:
        if any(node.is_there() for _, node in self._below.get(path, ())):
            return {"st_mode": stat.S_IFDIR | 0o755, "st_nlink": 2}
        node = self._node(path)
        if isinstance(node, Link):
            return {"st_mode": stat.S_IFLNK | 0o777, "st_nlink": 1, "st_size": len(node.text)}
        mode = 0o644 if node.writable else 0o444
        return {"st_mode": stat.S_IFREG | mode, "st_nlink": 1, "st_size": SIZE}

    def readlink(self, path: str) -> str:
        node = self._node(path)
        if not isinstance(node, Link):
            raise refusal(errno.EINVAL)
        return node.text

    def readdir(self, path: str, handle: int) -> list[str]:
        inner = {name for name, node in self._below.get(path, ()) if node.is_there()}
        return [".", "..", *sorted(inner)]

    def open(self, path: str, flags: int) -> int:
        if flags & 0o3 and not self._node(path).writable:
            raise refusal(errno.EACCES)
        self._handles += 1
        self._open[self._handles] = None
        return self._handles

    def release(self, path: str, handle: int) -> int:
        self._open.pop(handle, None)
        return 0

    def truncate(self, path: str, length: int, handle: int | None = None) -> int:
        # Opening for writing truncates, which files of the kernel do not mind.
        return 0

    def read(self, path: str, size: int, offset: int, handle: int) -> bytes:
        # What follows the beginning is of the same moment: a number is not torn.
        if offset == 0 or (text := self._open.get(handle)) is None:
            text = f"{self._node(path).read(self._clock.now_s())}\n".encode()
            self._open[handle] = text
        return text[offset : offset + size]

    def write(self, path: str, data: bytes, offset: int, handle: int) -> int:
        node, text = self._node(path), data.decode().rstrip("\n")
        if node is not self._clock:
            self._record.tried.append((path.lstrip("/"), text))
        node.write(text, self._clock.now_s())
        return len(data)


def _unmount_after_input(folder: str) -> None:
    """Unmount, which ends libfuse's loop, once there is nothing more to read."""
    sys.stdin.buffer.read()
    subprocess.run(["fusermount3", "-u", "-z", folder], check=True)


def main() -> None:
    """Serve until the input ends."""
    folder = sys.argv[1]
    tree: Tree = pickle.load(sys.stdin.buffer)
    threading.Thread(target=_unmount_after_input, args=[folder], daemon=True).start()
    options: dict[str, Any] = {"foreground": True, "nothreads": True, "direct_io": True}
    # Every look asks here: files come and go, and what they say changes.
    fresh = {"attr_timeout": 0, "entry_timeout": 0, "negative_timeout": 0}
    mfusepy.FUSE(Served(tree), folder, fsname="wattio-tests", **options, **fresh)


if __name__ == "__main__":
    main()
