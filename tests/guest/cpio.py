"""Writes initramfs archives: the "newc" cpio format (kernel: driver-api/early-userspace).

Writing them needs neither root nor a staging folder; the programs that pack folders need both.
"""

from __future__ import annotations

import stat
from pathlib import PurePosixPath

ROOT = PurePosixPath("/")


class Archive:
    """Files, folders and links, all of root; parent folders come by themselves."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._entries = 0
        self._folders = {ROOT}

    def folder(self, path: str | PurePosixPath, mode: int = 0o755) -> None:
        """Add a folder; one that was added before stays as it is."""
        folder = ROOT / path
        if folder not in self._folders:
            self.folder(folder.parent)
            self._folders.add(folder)
            self._add(folder, stat.S_IFDIR | mode, b"")

    def file(self, path: str | PurePosixPath, content: bytes, mode: int = 0o644) -> None:
        """Add a regular file."""
        self.folder((ROOT / path).parent)
        self._add(ROOT / path, stat.S_IFREG | mode, content)

    def link(self, path: str | PurePosixPath, target: str) -> None:
        """Add a symbolic link."""
        self.folder((ROOT / path).parent)
        self._add(ROOT / path, stat.S_IFLNK | 0o777, target.encode())

    def finish(self) -> bytes:
        """The whole archive, with the entry that ends it."""
        self._add(ROOT / "TRAILER!!!", 0, b"")
        return bytes(self._bytes)

    def _add(self, path: PurePosixPath, mode: int, content: bytes) -> None:
        name = str(path.relative_to(ROOT)).encode() + b"\0"
        self._entries += 1
        user, group, links, changed = 0, 0, 1, 0
        devices = (0, 0, 0, 0)
        no_checksum = 0
        fields = (
            *(self._entries, mode, user, group, links, changed, len(content)),
            *(*devices, len(name), no_checksum),
        )
        self._bytes += b"070701" + b"".join(b"%08X" % field for field in fields) + name
        self._pad()
        self._bytes += content
        self._pad()

    def _pad(self) -> None:
        self._bytes += bytes(-len(self._bytes) % 4)
