"""A generated source tree: C that compiles, headers that it includes, text, and a Makefile.

A program of its own, which runs where the client is (folder, number of files, seed, bytes of a
history): Python 3.8 and its own library are all that it needs.

The tree has the mean size and the files of a directory of the kernel that Erxleben's thesis
(chapter 6.1) compiled, less its `.git`: 14.37 KiB, 74,265 files in 4886 directories. It gives no
distributions; those here are ours. Sizes are log-normal. A directory's parent is drawn in
proportion to the directories that it has already, plus two (Agrawal et al., A five-year study of
file-system metadata, FAST 2007). A history beside it is as that `.git`: 26 files in 16 directories,
nearly all of it in one, of bytes that cannot be compressed.
"""

from __future__ import annotations

import math
import os
import random
import sys
from statistics import NormalDist
from typing import NamedTuple

MEAN_BYTES = 14.37 * 1024
FILES_OF_DIRECTORY = 74_265 / 4_886

SPREAD = 1.5
"""Standard deviation of the logarithm of sizes: half of the files are below 4.7 KiB then."""

LEAST_BYTES = 256
"""What the shortest file has: its guards, and a line."""

KINDS = "cccchhhttt"
"""Of ten files: C, headers, and text, such as documentation."""

HISTORY_FILES, HISTORY_DIRECTORIES = 26, 16
HISTORY_LEAST = 1 << 20

_INCLUDES = 6
_HISTORY_BYTES = 1024  # of each of its files but one
_BLOCK_BYTES = 1 << 16
_WORDS = ("the", "file", "is", "read", "by", "its", "node", "and", "held", "until", "written")

_MAKEFILE = """\
CC = cc
CFLAGS = -O2
objects :={objects}

all: $(objects)

$(objects): %.o: %.c
\t$(CC) $(CFLAGS) -I. -MMD -c -o $@ $<

.PHONY: all
"""

_FUNCTION = """\
/*
 * {name}() - what comes of x, which may be any number
 *
 * The caller holds no lock. Returns a number that the caller compares with what
 * it had before; where both are the same, nothing is to be done.
 */
{kind}unsigned {name}(unsigned x)
{{
\tunsigned y = x ^ {first}u;

\tif (y > {second}u)
\t\ty = (y << 3) ^ (y >> {shift});
\treturn y + {macro};
}}

"""


class Item(NamedTuple):
    """A file of the tree: its path, its kind ("c", "h", "t"), its bytes, its number."""

    path: str
    kind: str
    size: int
    number: int


class Plan(NamedTuple):
    """A tree before it is written: directories, each after its parent, files, the Makefile."""

    directories: list[str]
    items: list[Item]
    makefile: bytes

    @property
    def files(self) -> int:
        """How many files there are."""
        return len(self.items) + 1

    @property
    def bytes(self) -> int:
        """What is in them."""
        return sum(item.size for item in self.items) + len(self.makefile)


def plan(files: int, seed: int) -> Plan:
    """What a generated tree holds; the same for the same arguments, wherever it is made."""
    draw = random.Random(f"tree {seed}")  # noqa: S311 (the same each time)
    directories = _directories(max(1, round(files / FILES_OF_DIRECTORY)), draw)
    named: list[tuple[str, str, int]] = []
    for number in range(files - 1):
        # None is empty, as in what version control keeps.
        chosen = number if number < len(directories) else int(draw.random() * len(directories))
        kind = KINDS[number % len(KINDS)]
        suffix = {"c": ".c", "h": ".h", "t": ".txt"}[kind]
        named.append((f"{directories[chosen]}/f{number:06}{suffix}", kind, number))
    objects = "".join(f" \\\n\t{path[:-2]}.o" for path, kind, _ in named if kind == "c")
    makefile = _MAKEFILE.format(objects=objects).encode()
    lengths = sizes(len(named), round(files * MEAN_BYTES) - len(makefile))
    lengths.sort(key=lambda _: draw.random())
    items = [Item(path, kind, size, n) for (path, kind, n), size in zip(named, lengths)]  # noqa: B905
    return Plan(directories, items, makefile)


def _directories(count: int, draw: random.Random) -> list[str]:
    found: list[str] = []
    urn = ["", ""]  # Each directory is in it twice, and once more for each in it.
    for number in range(count):
        parent = urn[int(draw.random() * len(urn))]
        path = f"{parent}/d{number:04}".lstrip("/")
        found.append(path)
        urn += [parent, path, path]
    return found


def sizes(count: int, total: int) -> list[int]:
    """Quantiles of a log-normal distribution, none below the least, of so many bytes together."""
    normal = NormalDist()
    raw = [math.exp(SPREAD * normal.inv_cdf((place + 0.5) / count)) for place in range(count)]
    low, high = 0.0, float(total)
    for _ in range(80):
        middle = (low + high) / 2
        if sum(max(LEAST_BYTES, int(middle * one)) for one in raw) > total:
            high = middle
        else:
            low = middle
    found = [max(LEAST_BYTES, int(low * one)) for one in raw]
    found[-1] += max(0, total - sum(found))
    return found


def content(item: Item, made: Plan, seed: int) -> bytes:
    """What a file says, of just its size."""
    draw = random.Random(f"file {seed} {item.number}")  # noqa: S311
    if item.kind == "t":
        return _prose(item.size, draw)
    parts = [f"#ifndef H{item.number}\n#define H{item.number} {item.number}u\n"]
    after = "#endif\n" if item.kind == "h" else ""
    if item.kind == "c":
        parts = [f"#define H{item.number} {item.number}u\n"]
    left = item.size - len(parts[0]) - len(after)
    for _ in range(_INCLUDES if item.kind == "c" else 1):
        chosen = _header(made.items, item, draw)
        line = "" if chosen is None else f'#include "{chosen.path}"\n'
        if len(line) < left:
            parts.append(line)
            left -= len(line)
    count = 0
    while True:
        text = _FUNCTION.format(
            kind="static inline " if item.kind == "h" else "",
            name=f"f{item.number}_{count}",
            first=draw.getrandbits(32),
            second=draw.getrandbits(32),
            shift=1 + count % 13,
            macro=f"H{item.number}",
        )
        if len(text) > left:
            break
        parts.append(text)
        left -= len(text)
        count += 1
    return ("".join([*parts, _remark(left), after])).encode()


def _header(items: list[Item], item: Item, draw: random.Random) -> Item | None:
    """A header to include; one that comes before, where a header includes it."""
    per, first = len(KINDS), KINDS.index("h")
    known = KINDS.count("h")
    limit = len(items) if item.kind == "c" else item.number
    whole, rest = divmod(limit, per)
    count = whole * known + min(known, max(0, rest - first))
    if not count:
        return None
    group, place = divmod(int(draw.random() * count), known)
    return items[group * per + first + place]


def _remark(left: int) -> str:
    """So many bytes that mean nothing to a compiler."""
    return "\n" * left if left < 8 else "/* " + "." * (left - 7) + " */\n"


_blocks: list[bytes] = []


def _prose(size: int, draw: random.Random) -> bytes:
    """Words in lines, from somewhere in a text that is made once."""
    if not _blocks:
        words = random.Random("words")  # noqa: S311
        text: list[str] = []
        while len(text) * 5 < _BLOCK_BYTES:
            text.append(_WORDS[int(words.random() * len(_WORDS))])
            text.append("\n" if len(text) % 30 == 29 else " ")
        _blocks.append("".join(text).encode())
    block = _blocks[0]
    start = int(draw.random() * len(block))
    return (block[start:] + block * (size // len(block) + 1))[:size]


def history(folder: str, size: int, seed: int) -> None:
    """Write a history of so many bytes into a folder that is not there yet."""
    draw = random.Random(f"history {seed}")  # noqa: S311
    os.mkdir(folder)
    folders = [folder] + [f"{folder}/d{number:02}" for number in range(1, HISTORY_DIRECTORIES)]
    for path in folders[1:]:
        os.mkdir(path)
    for number in range(HISTORY_FILES):
        left = _HISTORY_BYTES if number else size - (HISTORY_FILES - 1) * _HISTORY_BYTES
        with open(f"{folders[number % len(folders)]}/pack{number:02}", "wb") as file:
            while left > 0:
                length = min(left, HISTORY_LEAST)
                file.write(draw.getrandbits(8 * length).to_bytes(length, "little"))
                left -= length


def generate(folder: str, files: int, seed: int, history_bytes: int = 0) -> None:
    """Write a tree into a folder that is not there yet, with a history if it has bytes."""
    made = plan(files, seed)
    os.mkdir(folder)
    for path in made.directories:
        os.mkdir(f"{folder}/{path}")
    for item in made.items:
        with open(f"{folder}/{item.path}", "wb") as file:
            file.write(content(item, made, seed))
    with open(f"{folder}/Makefile", "wb") as file:
        file.write(made.makefile)
    if history_bytes:
        history(f"{folder}/.git", history_bytes, seed)


if __name__ == "__main__":
    try:
        generate(sys.argv[1], *map(int, sys.argv[2:]))
    except OSError as error:
        sys.exit(f"the source tree cannot be written: {error}")
