"""What is brought up on this host, noted so that it is found again when whoever did so is killed.

A claim is a file for each system that is up: which module, with which options, on which scratch
folder. Its maker holds a lock on it, which the kernel lets go when that process is gone, however it
went: a claim that can be locked belongs to nobody, and one that cannot is left alone. All programs
that are started meanwhile bear the claim's name in their environment, as do those that these start.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from pydantic import ValidationError

from wattio.errors import HostError, InputError, SystemFailed, WattioError
from wattio.systems import devices, kinds, mounts, servers
from wattio.systems.commands import call, remove_if_empty
from wattio.systems.system import System

MARK = "WATTIO_CLAIM"
"""The variable that names the claim in the environment of programs."""

_GRACE_S = 5.0
_LOCK = ".lock"
_NAME_BYTES = 8
_OURS = (WattioError, HostError, InputError)
"""What is raised on purpose: the last two are the native module's."""


def place() -> Path:
    """The folder of claims: one of root's, and one of each other user."""
    if os.geteuid() == 0:
        return Path("/var/lib/wattio/claims")
    return Path.home() / ".local/state/wattio/claims"


def storage(module: str, options: Mapping[str, Any], scratch: Path) -> System:
    """A system by its kind. Raises ValidationError for options that it has not, InputError."""
    loaded = kinds.module_of(module)
    made: System = loaded.Storage(loaded.Options.model_validate(options), scratch)
    return made


def take_down(system: System) -> None:
    """Every step that takes a system down, whatever the others do; then the first complaint."""
    complaints: list[WattioError] = []
    for step in (system.unmount, system.stop, system.clean):
        try:
            step()
        except WattioError as error:
            complaints.append(error)
    if complaints:
        raise SystemFailed("; ".join(map(str, complaints)))


@dataclass(frozen=True)
class Claim:
    """Who brought up what: a process, for a result, a system on its scratch folder."""

    name: str
    pid: int
    result: Path
    module: str
    options: Mapping[str, Any]
    scratch: Path

    def text(self) -> str:
        """The claim as it is kept."""
        paths = {"result": str(self.result), "scratch": str(self.scratch)}
        told = {"pid": self.pid, "module": self.module, "options": self.options}
        return json.dumps(told | paths, default=str)

    def meets(self, other: Claim) -> bool:
        """Whether the scratch folders of both hold a part of each other, or they share a device."""
        one, two = self.scratch, other.scratch
        device = self.options.get("device")
        shared = device is not None and device == other.options.get("device")
        return shared or one.is_relative_to(two) or two.is_relative_to(one)

    def found(self) -> list[str]:
        """What of it there still is, in words."""
        processes = {*servers.marked(MARK, self.name), *self._own_processes()}
        counts = {
            "process": len(processes),
            "mount": len(mounts.below(self.scratch)),
            "loop device": len(devices.loops_below(self.scratch)),
            "folder": int(self.scratch.exists()),
        }
        return [
            f"{count} {noun}{('es' if noun.endswith('s') else 's') * (count != 1)}"
            for noun, count in counts.items()
            if count
        ]

    def _own_processes(self) -> list[int]:
        with contextlib.suppress(KeyError, ImportError, ValidationError, *_OURS):
            return storage(self.module, self.options, self.scratch).processes()
        return []

    def remove(self) -> None:
        """Remove all that there is of it. Raises SystemFailed for what stays, and why."""
        complaint: Exception | None = None
        try:
            if self.module not in kinds.names():
                raise SystemFailed("this wattio has no such system")
            system = storage(self.module, self.options, self.scratch)
            try:
                system.clean()
            except WattioError:
                take_down(system)
        except (ImportError, ValidationError, *_OURS, OSError) as error:
            complaint = error
        # What its module does not know of: started by a workload, or made by another version.
        servers.end_marked(MARK, self.name, _GRACE_S)
        mounts.take_away(self.scratch)
        for loop in devices.loops_below(self.scratch):
            call("loop device", "losetup", "--detach", loop)
        remove_if_empty(self.scratch)
        remove_if_empty(self.scratch.parent)
        if complaint is not None:
            words = " ".join(str(complaint).split())
            raise SystemFailed(f"{self.module} on {self.scratch}: {words}") from complaint


class Held:
    """A claim that is held; `over` is to be set once everything has been taken down."""

    def __init__(self) -> None:
        """Nothing is noted yet."""
        self.over = False
        self.trouble: str | None = None


@contextlib.contextmanager
def held(result: Path, module: str, options: Mapping[str, Any], scratch: Path) -> Iterator[Held]:
    """A claim while entered. Raises SystemFailed where the scratch folder is somebody else's.

    Where claims cannot be kept, `trouble` says so: a killed run is not found again then.
    """
    name = secrets.token_hex(_NAME_BYTES)
    claim = Claim(name, os.getpid(), result.resolve(), module, options, scratch.resolve())
    kept = Held()
    before = os.environ.get(MARK)
    with contextlib.ExitStack() as stack:
        try:
            path, file = _noted(claim)
        except OSError as error:
            kept.trouble = f"{place()}: claims cannot be recorded: {error.strerror}"
        else:
            stack.enter_context(file)
            stack.callback(_forget, claim, path, kept)
        os.environ[MARK] = name
        try:
            yield kept
        finally:
            os.environ.pop(MARK)
            if before is not None:
                os.environ[MARK] = before


def _noted(claim: Claim) -> tuple[Path, IO[str]]:
    """The file of a new claim, locked; it appears when it is whole."""
    folder = place()
    with _alone(folder):
        for other, file in _all(folder):
            if file is not None:
                file.close()
            elif other.meets(claim):
                raise SystemFailed(
                    f"{claim.scratch}: process {other.pid} uses {other.module} there or on the same"
                    f" device, for {other.result}; wait until it ends, or name another (--scratch)"
                )
        partial, path = folder / f".{claim.name}", folder / f"{claim.name}.json"
        made = partial.open("w")
        try:
            fcntl.flock(made, fcntl.LOCK_EX)
            made.write(claim.text())
            made.flush()
            partial.replace(path)
        except BaseException:
            partial.unlink(missing_ok=True)
            made.close()
            raise
        return path, made


def _forget(claim: Claim, path: Path, kept: Held) -> None:
    """At the end of a claim: what workloads left running ends, too. Raises SystemFailed."""
    if kept.over:
        servers.end_marked(MARK, claim.name, _GRACE_S)
        path.unlink(missing_ok=True)


@dataclass(frozen=True)
class Left:
    """A claim that was looked at: whose process runs, what there is of it, what is wrong."""

    claim: Claim
    runs: bool
    found: tuple[str, ...] = ()
    complaint: str | None = None

    def __str__(self) -> str:
        """In one line."""
        what = f"{self.claim.module} on {self.claim.scratch}, of {self.claim.result}"
        if self.runs:
            return f"{what}: process {self.claim.pid} is still running; left alone"
        return f"{what}: {', '.join(self.found) or 'nothing is left'}"


def left(*, remove: bool) -> list[Left]:
    """Every claim of this host; those of killed processes with what was found, and is removed.

    A claim whose scratch folder a running process has, too, is left until that one ends. A claim is
    forgotten when nothing is left of it.
    """
    folder = place()
    if not folder.is_dir():
        return []
    with _alone(folder), contextlib.ExitStack() as stack:
        for partial in folder.glob(f".{'?' * 2 * _NAME_BYTES}"):
            partial.unlink(missing_ok=True)  # Its maker was killed before anything was up.
        every = list(_all(folder))
        dead = [(claim, stack.enter_context(file)) for claim, file in every if file is not None]
        alive = [claim for claim, file in every if file is None]
        seen = [Left(claim, runs=True) for claim in alive]
        for claim, _ in dead:
            if not any(claim.meets(other) for other in alive):
                seen.append(_looked_at(claim, folder, remove))
    return seen


def _looked_at(claim: Claim, folder: Path, remove: bool) -> Left:
    found = tuple(claim.found())
    complaint = None
    if remove:
        try:
            claim.remove()
            (folder / f"{claim.name}.json").unlink(missing_ok=True)
        except (WattioError, OSError) as error:
            complaint = str(error)
    return Left(claim, False, found, complaint)


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """While entered, nobody else notes or removes. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with (folder / _LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _all(folder: Path) -> Iterator[tuple[Claim, IO[str] | None]]:
    """Every claim; with its file, locked by us, where its process is gone."""
    for path in sorted(folder.glob("*.json")):
        try:
            file = path.open()
        except OSError:
            continue
        claim = _read(path.stem, file)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            if claim is not None:
                yield claim, None
            continue
        if claim is None:
            file.close()
        else:
            yield claim, file


def _read(name: str, file: IO[str]) -> Claim | None:
    """A claim; None if it is not one of ours: what it names is removed."""
    try:
        told = json.load(file)
        paths = Path(told["result"]), Path(told["scratch"])
        claim = Claim(name, int(told["pid"]), paths[0], told["module"], told["options"], paths[1])
        own = os.fstat(file.fileno()).st_uid == os.geteuid()
    except (ValueError, TypeError, KeyError, OSError, RecursionError):
        return None
    sane = isinstance(claim.module, str) and isinstance(claim.options, dict)
    below = claim.scratch.is_absolute() and claim.scratch != Path("/")
    return claim if own and sane and below else None
