"""What one client of `compile` does: keep a source tree; copy it, build the copy, delete it.

A program of its own, which runs where the client is: Python 3.8 and its own library, cp, make and
rm are all that it needs. Its task is JSON. A step tells its phase by lines (see `phases`); what it
counts is counted when the phase has ended.

A source tree is kept in a folder as `tree`, with `whole.json`, what is in it, beside it.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import tarfile
from typing import Any

TREE, WHOLE = "tree", "whole.json"

OURS = ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES")
"""What a make that has started us leaves in the environment; ours would obey it."""


def tell(line: str) -> None:
    """A line of the protocol."""
    os.write(int(os.environ["WATTIO_PHASES"]), f"{line}\n".encode())


def run(words: list[str], folder: str | None = None) -> None:
    """Run a program; end as it does where it fails."""
    environment = {name: value for name, value in os.environ.items() if name not in OURS}
    try:
        code = subprocess.call(words, cwd=folder, env={**environment, "LC_ALL": "C"})
    except OSError as error:
        sys.exit(f"{words[0]}: {error.strerror}")
    if code:
        # It has said why.
        sys.exit(code if code > 0 else 128 - code)


def count(folder: str) -> dict[str, int]:
    """Files (and whatever else is no directory), directories below it, and bytes of files."""
    found = {"files": 0, "directories": 0, "bytes": 0}
    for parent, directories, files in os.walk(folder):
        links = [name for name in directories if os.path.islink(f"{parent}/{name}")]
        found["directories"] += len(directories) - len(links)
        found["files"] += len(files) + len(links)
        for name in files:
            status = os.lstat(f"{parent}/{name}")
            found["bytes"] += status.st_size if stat.S_ISREG(status.st_mode) else 0
    return found


def keep(task: dict[str, Any]) -> None:
    """Generate a tree or unpack it, unless it is there and whole; one program at a time."""
    folder = task["folder"]
    os.makedirs(folder, exist_ok=True)
    with open(f"{folder}/lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        whole, part = f"{folder}/{WHOLE}", f"{folder}/part"
        if os.path.exists(whole):
            return
        for left in (part, f"{part}.out", f"{folder}/{TREE}"):
            shutil.rmtree(left, ignore_errors=True)
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        try:
            make_tree(task, part)
            found = count(part)
        except BaseException:
            shutil.rmtree(part, ignore_errors=True)
            raise
        os.rename(part, f"{folder}/{TREE}")
        with open(f"{whole}.new", "w") as file:
            json.dump(found, file)
        os.rename(f"{whole}.new", whole)


def make_tree(task: dict[str, Any], part: str) -> None:
    """The tree, in a folder that is not there yet."""
    if "archive" in task:
        try:
            unpack(task["archive"], part)
            for sent in task["archive"]:
                if os.path.dirname(sent) == task["folder"]:
                    os.unlink(sent)
        except (OSError, EOFError, tarfile.TarError) as error:
            sys.exit(f"the archive cannot be unpacked: {error}")
        return
    generator = os.path.join(os.path.dirname(os.path.abspath(__file__)), "source_tree.py")
    words = [str(task[name]) for name in ("files", "seed", "history")]
    run([sys.executable, "-I", generator, part, *words])


def unpack(parts: list[str], folder: str) -> None:
    """Unpack an archive, whole or in parts, which the first one becomes.

    A folder that holds all the rest is left out. What would lie elsewhere, or is a device, ends it.
    """
    if not hasattr(tarfile, "data_filter"):
        sys.exit(
            "this Python cannot unpack safely; needed: 3.8.17, 3.9.17, 3.10.12, 3.11.4 or newer"
        )
    archive = parts[0]
    os.mkdir(folder)
    with open(archive, "ab" if len(parts) > 1 else "rb") as whole:
        for part in parts[1:]:
            with open(part, "rb") as file:
                shutil.copyfileobj(file, whole)
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    names = os.listdir(folder)
    if len(names) == 1 and os.path.isdir(f"{folder}/{names[0]}"):
        os.rename(folder, f"{folder}.out")
        os.rename(f"{folder}.out/{names[0]}", folder)
        os.rmdir(f"{folder}.out")


def phase(task: dict[str, Any], commands: list[list[str]], folder: str | None = None) -> None:
    """Run commands, and wait for the disks where that is wanted."""
    tell(f"begin {task['step']}")
    for words in commands:
        run(words, folder)
    if task["sync"]:
        # The copy's file system only; of a deleted copy, where it was.
        run(["sync", "-f", os.path.dirname(task["copy"])])
    tell(f"end {task['step']}")


def copy(task: dict[str, Any]) -> None:
    """Copy the tree as it is, and see that all of it is there."""
    phase(task, [["cp", "-r", "--", task["tree"], task["copy"]]])
    found = count(task["copy"])
    if found != task["source"]:
        sys.exit(f"the copy has {shown(found)}, its source {shown(task['source'])}")
    tell(f"result copy files={found['files']} bytes={found['bytes']}")


def build(task: dict[str, Any]) -> None:
    """Build it where it is; what was not there before is what was made."""
    for words in (["make", "--version"], ["cc", "--version"]):
        run(words)
    sys.stdout.flush()
    make = ["make", f"-j{task['jobs']}", *task["targets"]]
    phase(task, [*([task["configure"]] if task["configure"] else []), make], task["copy"])
    found, before = count(task["copy"]), task["source"]
    made = {name: max(0, found[name] - before[name]) for name in ("files", "bytes")}
    tell(f"result build files={made['files']} bytes={made['bytes']}")


def delete(task: dict[str, Any]) -> None:
    """Delete all of it, and see that it has gone; `there` are its files."""
    phase(task, [["rm", "-rf", "--one-file-system", "--", task["copy"]]])
    if os.path.lexists(task["copy"]):
        sys.exit("the copy is still there after it was deleted")
    tell(f"result delete files={task['there']}")


def shown(found: dict[str, int]) -> str:
    """What was counted, in words."""
    return f"{found['files']} files in {found['directories']} directories, {found['bytes']} B"


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    {"keep": keep, "copy": copy, "build": build, "delete": delete}[given["step"]](given)
