"""Loads of cores and drives, held for the time of a point."""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from wattio.calibration import core_load, disk_load
from wattio.calibration.fit import CalibrationFailed
from wattio.errors import HostError

FILE_BYTES = 256 << 20
_CHUNK_BYTES = 1 << 20
_END_S = 10.0


class Loads:
    """Busy cores, and readers of a file where there is one."""

    def __init__(self, descriptor: int | None = None) -> None:
        """`descriptor` is an open file of `FILE_BYTES`, for I/O."""
        self._descriptor = descriptor

    @contextmanager
    def held(self, load: float, cores: Sequence[int], readers: int) -> Iterator[None]:
        """Keep each core busy for a share of its time, and so many readers reading.

        Raises CalibrationFailed, at the end, where a load ended by itself.
        """
        with ExitStack() as stack:
            if load > 0:
                numbers = ",".join(map(str, cores))
                stack.enter_context(_running(core_load.__name__, [f"{load!r}", numbers], ()))
            if readers and self._descriptor is not None:
                numbers_of_file = [str(self._descriptor), str(FILE_BYTES), str(readers)]
                stack.enter_context(
                    _running(disk_load.__name__, numbers_of_file, (self._descriptor,))
                )
            yield


@contextmanager
def file_to_read(folder: Path) -> Iterator[int]:
    """A file without a name in a folder, open for reading past the page cache.

    Nothing of it remains, whatever ends this process. Raises HostError where there is no room, or
    the file system has no direct I/O.
    """
    try:
        descriptor = _made(folder)
    except OSError as error:
        raise HostError(
            f"{folder}: cannot create a file for direct I/O: {error.strerror}"
        ) from None
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _made(folder: Path) -> int:
    handle, name = tempfile.mkstemp(prefix=".wattio-calibrate-", dir=folder)
    try:
        os.close(handle)
        descriptor = os.open(name, os.O_RDWR | os.O_DIRECT)
    finally:
        Path(name).unlink()
    try:
        # Bytes that no drive can compress, at a page's boundary.
        with mmap.mmap(-1, _CHUNK_BYTES) as chunk:
            for offset in range(0, FILE_BYTES, _CHUNK_BYTES):
                chunk[:] = os.urandom(_CHUNK_BYTES)
                os.pwritev(descriptor, [chunk], offset)
        os.fsync(descriptor)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


@contextmanager
def _running(module: str, arguments: Sequence[str], descriptors: Sequence[int]) -> Iterator[None]:
    process = subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        pass_fds=descriptors,
        # A terminal's Ctrl-C is for us; the load ends when its input does.
        start_new_session=True,
    )
    try:
        yield
        if process.poll() is not None:
            words = process.communicate()[1].strip().splitlines()
            raise CalibrationFailed(f"the load ended by itself: {words[-1] if words else module}")
    finally:
        _end(process)


def _end(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    assert process.stderr is not None
    process.stdin.close()
    try:
        process.wait(_END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    process.stderr.close()
