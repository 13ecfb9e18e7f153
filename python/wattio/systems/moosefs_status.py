"""What `mfscli` tells of a MooseFS, as text with a separator.

A line is the name of its section and fields. Versions add fields at the end; text that is not of
this form is passed over, and what cannot be read is absent.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

SEPARATOR = "|"

_ADDRESS = re.compile(r"[0-9]{1,3}(\.[0-9]{1,3}){3}")
_VERSION = re.compile(r"[0-9]+(\.[0-9]+)+.*")
_SECTION = re.compile(r"^\s*([A-Za-z ]+?)\s*:\s*\|")


@dataclass(frozen=True)
class ChunkServer:
    """A chunk server that has registered; space in bytes, as the master counts it."""

    address: str
    port: int
    version: str | None = None
    chunks: int | None = None
    used_bytes: int | None = None
    total_bytes: int | None = None


def chunk_servers(text: str) -> list[ChunkServer]:
    """The chunk servers of `mfscli -SCS`."""
    found = []
    for fields in _lines(text, "chunk servers"):
        if len(fields) < 2 or not _ADDRESS.fullmatch(fields[0]):
            continue
        port = _count(fields[1])
        if port is None:
            continue
        # Between address and counts stand fields whose number has changed: the version first.
        place = next((i for i, field in enumerate(fields) if i > 1 and _VERSION.match(field)), None)
        version = None if place is None else fields[place]
        counts = [None, None, None] if place is None else _counts(fields, place + 3)
        found.append(ChunkServer(fields[0], port, version, *counts))
    return found


def master(text: str) -> dict[str, str]:
    """What the section "master info" of `mfscli -SIN` says, by name."""
    return {
        fields[0]: fields[1]
        for fields in _lines(text, "master info")
        if len(fields) == 2 and fields[0] and fields[1] not in ("", "-")
    }


def deletes_left(text: str) -> int | None:
    """Chunks without a file that are still there, of `mfscli -SIN`; None if it does not say.

    What lies in the trash, or is sustained for a client that holds on to it, is a file still:
    servers have nothing to do with it yet. Clients hold on to what they had open for ten minutes.
    """
    classes = ("chunkclass pending deletion", "chunkclass to be removed")
    found = [
        _count(fields[1])
        for fields in _lines(text, "all chunks matrix")
        if len(fields) == 2 and fields[0].rstrip(":") in classes
    ]
    known = [count for count in found if count is not None]
    return sum(known) if known else None


def _lines(text: str, section: str) -> list[list[str]]:
    found = []
    for line in text.splitlines():
        head = _SECTION.match(line)
        if head and head[1].lower() == section:
            fields = line[head.end() :].split(SEPARATOR)
            found.append([field.strip() for field in fields])
    return found


def _counts(fields: list[str], first: int) -> list[int | None]:
    """Chunks, bytes used and bytes in all, which stand side by side."""
    some = fields[first : first + 3]
    return [_count(field) for field in some] + [None] * (3 - len(some))


def _count(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else None
