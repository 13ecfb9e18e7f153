"""A place of our own in the kernel's tracing file system.

Everything happens in an instance `wattio-<pid>`, so no control of the host's tracing is touched,
and the instance is removed on every way out. After `kill -9` the instance stays (without a
process, it only holds its buffer); the next recording removes it.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

PREFIX = "wattio-"
_MOUNT_PREFIX = "wattio-tracefs-"
_MOUNTED_AT = re.compile(r"\A\S+ (\S+) tracefs ", re.ASCII)


class TracefsError(Exception):
    """The kernel's tracing cannot be used; says what is needed."""


@contextlib.contextmanager
def tracefs(mounts: Path = Path("/proc/mounts")) -> Iterator[Path]:
    """The root of tracefs: where it is mounted, else mounted for us alone.

    Our own mount is detached from the tree at once and lives on as an open folder only, so the
    kernel takes it away when the process ends, however it ends. Raises TracefsError.
    """
    for line in mounts.read_text().splitlines():
        mounted = _MOUNTED_AT.match(line)
        # Another recorder's mount is there for a moment only.
        if mounted and Path(mounted[1]).name.startswith(_MOUNT_PREFIX):
            continue
        if mounted and (root := Path(mounted[1])).joinpath("instances").is_dir():
            yield root
            return
    descriptor = _mount_detached()
    try:
        yield Path(f"/proc/self/fd/{descriptor}")
    finally:
        os.close(descriptor)


def _mount_detached() -> int:
    folder = tempfile.mkdtemp(prefix=_MOUNT_PREFIX)
    try:
        _call("mount", "-t", "tracefs", "nodev", folder)
        try:
            return os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        finally:
            _call("umount", "--lazy", folder)
    finally:
        Path(folder).rmdir()


def _call(*command: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise TracefsError(f"{command[0]} cannot be started: {error}") from error
    if done.returncode:
        raise TracefsError(
            f"`{' '.join(command)}` failed: {done.stderr.strip()}; recording needs a kernel with"
            " CONFIG_TRACING and the right to mount tracefs"
        )


class Instance:
    """One tracing instance with one event, filtered in the kernel."""

    def __init__(self, root: Path) -> None:
        """Make the instance below `root`. Raises TracefsError."""
        remove_stale(root)
        self.path = root / "instances" / f"{PREFIX}{os.getpid()}"
        try:
            self.path.mkdir()
        except OSError as error:
            raise TracefsError(f"a tracing instance cannot be created: {error}") from error

    def __enter__(self) -> Instance:
        """Itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Remove it, whatever happened."""
        self.remove()

    def write(self, control: str, value: str) -> None:
        """Set a control of the instance. Raises TracefsError."""
        try:
            _set(self.path / control, value)
        except OSError as error:
            raise TracefsError(f"{control} cannot be set to {value!r}: {error.strerror}") from error

    def start(self, event: str, condition: str, buffer_kib_per_cpu: int) -> int:
        """Record `event` where `condition` holds; the descriptor of its text. Raises TracefsError.

        The caller closes the descriptor before the instance can be removed.
        """
        self.write("tracing_on", "0")
        self.write("trace_clock", "mono")
        self.write("buffer_size_kb", str(buffer_kib_per_cpu))
        self.write(f"events/{event}/filter", condition)
        pipe = os.open(self.path / "trace_pipe", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            self.write(f"events/{event}/enable", "1")
            self.write("tracing_on", "1")
        except BaseException:
            os.close(pipe)
            raise
        return pipe

    def stop(self) -> None:
        """Record no more; what was recorded can still be read."""
        self.write("tracing_on", "0")

    def dropped(self) -> int:
        """Events that were lost in the per-CPU buffers so far."""
        stats = (file.read_text() for file in self.path.glob("per_cpu/cpu*/stats"))
        return sum(dropped_in(text) for text in stats)

    def remove(self) -> None:
        """Remove the instance with its buffers.

        If somebody else has opened it, it stays until the next recording: no reason to lose this.
        """
        with contextlib.suppress(OSError):
            _remove(self.path)


def dropped_in(stats: str) -> int:
    """Lost events in the text of a `per_cpu/cpu*/stats` file."""
    counts = re.findall(
        r"^(?:overrun|commit overrun|dropped events): (\d+)$", stats, re.ASCII | re.MULTILINE
    )
    return sum(map(int, counts))


def remove_stale(root: Path, proc: Path = Path("/proc")) -> None:
    """Remove instances whose process is gone (it was killed)."""
    for path in root.glob(f"instances/{PREFIX}*"):
        # A daemon numbers its own: wattio-<pid>-<n>.
        owner = path.name.removeprefix(PREFIX).partition("-")[0]
        if owner == str(os.getpid()) or not (proc / owner).exists():
            with contextlib.suppress(OSError):
                _remove(path)


def _remove(path: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        # An enabled event keeps its instance busy on some kernels.
        with contextlib.suppress(OSError):
            _set(path / "tracing_on", "0")
            _set(path / "events/enable", "0")
        path.rmdir()


def _set(control: Path, value: str) -> None:
    """Write to a control that is there; a kernel's control is never made by writing."""
    descriptor = os.open(control, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, value.encode())
    finally:
        os.close(descriptor)
