"""A slow core for each rank of an emulated node: a control group with a quota of processor time.

Ranks that outnumber the cores take them from each other: one that waits for a message in a spin
slows those down that it waits for. With a quota of its own each rank has the same slow core,
whatever the others do. The groups are this module's alone: nothing else on the host is changed, and
they are removed on every way out: by this process, by a guard where it was killed, or by the next
that makes groups.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from wattio.errors import HostError, InputError

LEAST = 0.01
"""The smallest share of a core that is allowed."""

PERIOD_US = 10_000
"""The quota is for so long: short, as a rank that has used it up waits for the next period."""

QUOTA_LEAST_US = 1_000
"""The kernel takes no less."""

_LEAVE_S = 10.0
"""How long ranks may take to be gone."""

_LOOK_S = 0.02
_PREFIX = "wattio-cores-"
_NAME = re.compile(rf"{_PREFIX}(?P<space>[0-9]+)-(?P<pid>[0-9]+)-(?P<start>[0-9]+)-[0-9]+")
_TEXT = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,6})?) ?%")
_made = itertools.count()

# Waits for the end of a pipe that only the process holds which makes the groups.
_GUARD = """read -r _; tries=600
while [ -d "$0" ] && [ $tries -gt 0 ]; do
    tries=$((tries - 1)); rmdir "$0"/rank-* "$0" || sleep 0.1
done"""

_NEEDED = "needed: root, or a control group with its cpu controller that this user may write to"


def parse(text: object) -> float:
    """A share of a core, as "20 %". Raises InputError."""
    found = _TEXT.fullmatch(text) if isinstance(text, str) else None
    share = float(found[1]) / 100 if found else 0.0
    if not LEAST <= share <= 1:
        raise InputError(f'{text!r} is not a share of a core; allowed: "1 %" to "100 %"')
    return share


def probe(share: float, ranks: int) -> None:
    """Raise HostError where groups cannot be made, or ranks would get more than there is."""
    find()
    cores = len(os.sched_getaffinity(0))
    if share * ranks > cores + 1e-9:
        raise HostError(
            f"core_share: {ranks} ranks of {100 * share:g} % of a core need {share * ranks:g}"
            f' cores, but this machine has {cores}; allowed: at most "{100 * cores / ranks:.6g} %"'
        )


def quota(share: float) -> tuple[int, int]:
    """Quota and period in microseconds; the period is longer where the quota would be too small."""
    period = max(PERIOD_US, round(QUOTA_LEAST_US / share))
    return round(share * period), period


@dataclass(frozen=True)
class Hierarchy:
    """Where groups can be made: the version of the kernel's interface, and the parent's folder."""

    version: int
    parent: Path

    def set_up(self, folder: Path) -> None:
        """The group around those of the ranks: before all other work, as quotas bound it."""
        if self.version == 1:
            (folder / "cpu.shares").write_text("262144")
        else:
            (folder / "cpu.weight").write_text("10000")
            (folder / "cgroup.subtree_control").write_text("+cpu")

    def bound(self, folder: Path, share: float) -> None:
        """Give a rank's group its share."""
        most, period = quota(share)
        if self.version == 1:
            (folder / "cpu.cfs_period_us").write_text(str(period))
            (folder / "cpu.cfs_quota_us").write_text(str(most))
        else:
            (folder / "cpu.max").write_text(f"{most} {period}")


def find(root: Path = Path("/")) -> Hierarchy:
    """Where this process may make groups. Raises HostError: what is missing, and what is needed."""
    mounts = list(_mounts(root))
    own = _own_groups(root)
    for kind, options, top, point in mounts:
        if kind == "cgroup" and "cpu" in options:
            parent = point / _within(own.get("cpu", "/"), top)
            return _usable(Hierarchy(1, parent if parent.is_dir() else point))
    for kind, _, top, point in mounts:
        if kind != "cgroup2":
            continue
        lowest = point / _within(own.get("", "/"), top)
        for parent in (lowest, *lowest.parents):
            if "cpu" in _words(parent / "cgroup.subtree_control"):
                return _usable(Hierarchy(2, parent))
            if parent == point:
                break
    raise HostError(f"core_share: no control group has the cpu controller; {_NEEDED}")


def _usable(found: Hierarchy) -> Hierarchy:
    # In version 2 a process moves if it may write to the nearest group above both places.
    places = (found.parent, found.parent / "cgroup.procs")
    if not all(os.access(place, os.W_OK) for place in places):
        raise HostError(f"core_share: {found.parent}: no permission to create groups; {_NEEDED}")
    return found


def _mounts(root: Path) -> Iterator[tuple[str, list[str], str, Path]]:
    """Of control groups: kind, options, the group at the top, and where that is."""
    for line in _lines(root / "proc/self/mountinfo"):
        before, _, after = line.partition(" - ")
        fields, rest = before.split(), after.split()
        if len(fields) >= 5 and len(rest) >= 3 and rest[0] in ("cgroup", "cgroup2"):
            yield rest[0], rest[2].split(","), fields[3], root / fields[4].lstrip("/")


def _own_groups(root: Path) -> dict[str, str]:
    """The paths of this process's groups by controller; that of version 2 has none."""
    found = {}
    for line in _lines(root / "proc/self/cgroup"):
        _, names, path = line.split(":", 2)
        found.update(dict.fromkeys(names.split(","), path))
    return found


def _within(path: str, top: str) -> Path:
    """A group's path below the one at the mount's top; the top itself where it is elsewhere."""
    found = Path(path)
    if ".." in found.parts:
        # Above what this name space of groups shows.
        return Path()
    return found.relative_to(top) if found.is_relative_to(top) else Path()


@contextlib.contextmanager
def made(
    share: float,
    ranks: int,
    root: Path = Path("/"),
    remove: Callable[[Path], None] = Path.rmdir,
) -> Iterator[Path]:
    """A folder of groups, one for each rank, while entered. Raises HostError.

    `root` and `remove` are for trees that are not the kernel's: there a group is empty of files
    when it is removed.
    """
    hierarchy = find(root)
    sweep(hierarchy.parent, root, remove)
    name = f"{_PREFIX}{_space(root)}-{os.getpid()}-{_start(os.getpid(), root)}-{next(_made)}"
    folder = hierarchy.parent / name
    with _guarded(folder):
        try:
            _make(hierarchy, folder, share, ranks)
            yield folder
        finally:
            _leave(folder, remove)


def _make(hierarchy: Hierarchy, folder: Path, share: float, ranks: int) -> None:
    try:
        folder.mkdir()
        hierarchy.set_up(folder)
        for rank in range(ranks):
            group = folder / _group(rank)
            group.mkdir()
            hierarchy.bound(group, share)
    except OSError as error:
        raise HostError(f"core_share: {folder}: {error.strerror}; {_NEEDED}") from error


def join(folder: str, rank: int) -> None:
    """Move this process, with all its threads, to the group of its rank."""
    (Path(folder) / _group(rank) / "cgroup.procs").write_text("0")


def sweep(parent: Path, root: Path, remove: Callable[[Path], None]) -> None:
    """Remove groups of processes that are gone; those with ranks in them stay."""
    for folder in parent.glob(f"{_PREFIX}*"):
        name = _NAME.fullmatch(folder.name)
        if name is None or name["space"] != _space(root):
            continue
        if _start(int(name["pid"]), root) != name["start"]:
            _try_remove(folder, remove)


def sweep_dead() -> None:
    """Remove groups of processes that are gone, where this process may make groups at all."""
    with contextlib.suppress(HostError):
        sweep(find().parent, Path("/"), Path.rmdir)


@contextlib.contextmanager
def _guarded(folder: Path) -> Iterator[None]:
    """While entered, groups are removed soon after this process is killed."""
    guard = subprocess.Popen(
        ["/bin/sh", "-c", _GUARD, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield
    finally:
        if folder.exists():
            # Ranks that do not go: it keeps trying.
            assert guard.stdin is not None
            guard.stdin.close()
        else:
            guard.kill()
            guard.communicate()


def _leave(folder: Path, remove: Callable[[Path], None]) -> None:
    deadline = time.monotonic() + _LEAVE_S
    while folder.exists() and not _try_remove(folder, remove) and time.monotonic() < deadline:
        time.sleep(_LOOK_S)


def _try_remove(folder: Path, remove: Callable[[Path], None]) -> bool:
    """Whether the groups are gone: the kernel removes none with processes in it."""
    try:
        for group in folder.glob("rank-*"):
            remove(group)
        remove(folder)
    except OSError:
        return not folder.exists()
    return True


def _group(rank: int) -> str:
    return f"rank-{rank}"


def _space(root: Path) -> str:
    """The name space of this process's numbers: other containers may share the groups."""
    return str((root / "proc/self/ns/pid").stat().st_ino)


def _start(pid: int, root: Path) -> str | None:
    """When a process began, in ticks; None if there is none."""
    try:
        text = (root / f"proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The name, in parentheses, may hold anything.
    return text.rpartition(")")[2].split()[19]


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []


def _words(path: Path) -> list[str]:
    return " ".join(_lines(path)).split()
