"""Programs that bring a storage system up and down: run to their end, without a shell."""

from __future__ import annotations

import contextlib
import logging
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO

from wattio.errors import HostError, SystemFailed

TIMEOUT_S = 120.0
"""How long one of these programs may take."""

_log = logging.getLogger(__name__)

_TAIL_LINES = 5
_POLL_S = 0.05


def call(part: str, *arguments: str, timeout_s: float = TIMEOUT_S) -> str:
    """Run a program; what it said. Raises SystemFailed with the part's name and its last words."""
    _log.debug("runs %s", shlex.join(arguments))
    # Into a file: a server that goes into the background keeps the end of a pipe open.
    with tempfile.TemporaryFile() as said:
        try:
            code = subprocess.run(
                arguments,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
                timeout=timeout_s,
                check=False,
            ).returncode
        except OSError as error:
            raise SystemFailed(f"{part}: {arguments[0]} cannot be started: {error}") from error
        except subprocess.TimeoutExpired as error:
            words = f"did not end within {timeout_s:g} s: {last_words(_all(said))}"
            raise SystemFailed(f"{part}: {arguments[0]} {words}") from error
        if code != 0:
            words = f"failed (exit code {code}): {last_words(_all(said))}"
            raise SystemFailed(f"{part}: {arguments[0]} {words}")
        return _all(said)


def answer(*arguments: str, timeout_s: float = 10.0) -> str | None:
    """What a program says; None if it fails, is missing or says nothing."""
    try:
        return call("", *arguments, timeout_s=timeout_s).strip() or None
    except SystemFailed:
        return None


def need(programs: Mapping[str, str]) -> None:
    """Raise HostError that names each program that is missing and the package that has it."""
    missing = {name: package for name, package in programs.items() if shutil.which(name) is None}
    if missing:
        raise HostError(lack(missing))


def lack(missing: Mapping[str, str]) -> str:
    """What is missing, and how to get it; a program of no package has an empty name for it."""
    built = [name for name, package in missing.items() if not package]
    packed = [name for name in missing if name not in built]
    words = []
    if packed:
        packages = sorted({missing[name] for name in packed})
        words.append(f"missing: {', '.join(packed)}; on Debian: apt install {' '.join(packages)}")
    if built:
        words.append(
            f"missing: {', '.join(built)}; not packaged by Debian: set prefix to where they are"
            " installed"
        )
    return "; ".join(words)


def wait_until(
    reached: Callable[[], bool],
    limit_s: float,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> bool:
    """Ask again and again until something is reached; whether it was within the limit."""
    deadline = clock() + limit_s
    while not reached():
        if clock() >= deadline:
            return False
        sleep(_POLL_S)
    return True


def remove_if_empty(folder: Path) -> None:
    """Remove a folder that is there and holds nothing."""
    with contextlib.suppress(OSError):
        folder.rmdir()


def _all(said: IO[bytes]) -> str:
    said.seek(0)
    return said.read().decode(errors="replace")


def together(calls: Sequence[Callable[[], object]]) -> None:
    """Make calls side by side, each of which waits for a program; the first complaint is raised."""
    with ThreadPoolExecutor(max_workers=8) as pool:
        for call_made in [pool.submit(one) for one in calls]:
            call_made.result()


def last_words(text: str, count: int = _TAIL_LINES) -> str:
    """The last lines of what a program said, in one."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    words = " / ".join(lines[-count:])
    return "".join(c if c.isprintable() else " " for c in words) or "no output"
