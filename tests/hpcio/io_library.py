"""libwattio_io by its C calls, for tests; ranks without MPI, several of them in one process."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from ctypes import POINTER, byref, c_char_p, c_double, c_int, c_int64, c_size_t, c_void_p
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from wattio.hpcio import library
from wattio.hpcio.inspection import inspect

PREFIX = library.prefix()
"""What the package carries: `make build` builds it."""

LIBRARY = PREFIX / "lib" / "libwattio_io.so.0"
WRITER = PREFIX / "bin" / "wattio-io-writer"


def hdf5() -> str:
    """The HDF5 library that h5py brings, or the one that it was built with."""
    return str(library.hdf5() or "libhdf5.so")


OK, STEP_FAILED, INPUT, HOST, TIMED_OUT = range(5)
SYNC, DEFERRED = 0, 1
STEP = -1
KINDS = {"i1": 1, "i2": 2, "i4": 3, "i8": 4, "u1": 5, "u2": 6, "u4": 7, "u8": 8, "f4": 9, "f8": 10}

_ARGUMENTS = {
    "open": (c_char_p, c_char_p, c_int64, c_int64, POINTER(c_void_p)),
    "variable": (
        *(c_void_p, c_char_p, c_int64, c_int64, POINTER(c_int64), POINTER(c_int64)),
        *(POINTER(c_int64), POINTER(c_int64)),
    ),
    "attribute_text": (c_void_p, c_int64, c_char_p, c_char_p),
    "attribute_number": (c_void_p, c_int64, c_char_p, c_double),
    "begin_step": (c_void_p, c_int64),
    "put": (c_void_p, c_int64, c_void_p, c_int),
    "allocate": (c_void_p, c_int64, POINTER(c_void_p)),
    "commit": (c_void_p, c_int64),
    "end_step": (c_void_p,),
    "flush": (c_void_p,),
    "is_durable": (c_void_p, c_int64, POINTER(c_int)),
    "wait_durable": (c_void_p, c_int64, c_double),
    "close": (POINTER(c_void_p), c_char_p, c_size_t, POINTER(c_size_t)),
}

Array = NDArray[Any]
Configure = Callable[..., Path]
"""Writes a configuration with these keys."""


class Failed(Exception):  # noqa: N818 (what a call says)
    """A call's code and text."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class Rank:
    """A rank that has met its writer at a path."""

    def __init__(self, config: Path, meeting: Path, rank: int = 0, ranks: int = 1) -> None:
        self._library = ctypes.CDLL(str(LIBRARY))
        self._library.wattio_io_error.restype = c_char_p
        self.handle = c_void_p()
        self.ids: dict[str, int] = {}
        self._held: list[Array] = []
        os.environ["WATTIO_IO_WRITER"] = str(WRITER)
        self.call("open", bytes(config), bytes(meeting), rank, ranks, byref(self.handle))

    def call(self, name: str, *arguments: Any) -> None:  # noqa: ANN401 (of ctypes)
        function = getattr(self._library, f"wattio_io_{name}")
        function.argtypes = _ARGUMENTS[name]
        code = function(*arguments)
        if code != OK:
            raise Failed(code, self._library.wattio_io_error().decode())

    def declare(
        self,
        name: str,
        count: tuple[int, ...],
        kind: str = "f8",
        whole: tuple[int, ...] | None = None,
        offset: tuple[int, ...] | None = None,
    ) -> None:
        def extents(values: tuple[int, ...] | None) -> Any:  # noqa: ANN401 (of ctypes)
            return None if values is None else (c_int64 * len(values))(*values)

        found = c_int64()
        given = extents(count), extents(whole), extents(offset)
        self.call(
            "variable", self.handle, name.encode(), KINDS[kind], len(count), *given, byref(found)
        )
        self.ids[name] = found.value

    def attribute(self, name: str | None, key: str, value: float | str) -> None:
        which = STEP if name is None else self.ids[name]
        if isinstance(value, str):
            self.call("attribute_text", self.handle, which, key.encode(), value.encode())
        else:
            self.call("attribute_number", self.handle, which, key.encode(), value)

    def begin(self, step: int) -> None:
        self.call("begin_step", self.handle, step)

    def put(self, name: str, data: Array, mode: int = SYNC) -> None:
        self._held.append(data)
        self.call("put", self.handle, self.ids[name], data.ctypes.data, mode)

    def allocate(self, name: str, count: tuple[int, ...], kind: str = "f8") -> Array:
        at = c_void_p()
        self.call("allocate", self.handle, self.ids[name], byref(at))
        size = int(np.prod(count)) * np.dtype(kind).itemsize
        memory = (ctypes.c_char * size).from_address(at.value or 0)
        return np.frombuffer(memoryview(memory), np.dtype(kind)).reshape(count)

    def commit(self, name: str) -> None:
        self.call("commit", self.handle, self.ids[name])

    def end(self) -> None:
        try:
            self.call("end_step", self.handle)
        finally:
            self._held.clear()

    def dump(self, step: int, **fields: Array) -> None:
        """A whole step."""
        self.begin(step)
        for name, data in fields.items():
            self.put(name, data)
        self.end()

    def flush(self) -> None:
        self.call("flush", self.handle)

    def is_durable(self, step: int) -> bool:
        found = c_int()
        self.call("is_durable", self.handle, step, byref(found))
        return bool(found.value)

    def wait(self, step: int, seconds: float = -1.0) -> None:
        self.call("wait_durable", self.handle, step, seconds)

    def close(self) -> dict[str, Any]:
        text, needed = ctypes.create_string_buffer(1 << 20), c_size_t()
        self.call("close", byref(self.handle), text, len(text), byref(needed))
        found: dict[str, Any] = json.loads(text.value)
        return found

    def report(self) -> str:
        """Of this thread's last close, though it failed."""
        self._library.wattio_io_report.restype = c_char_p
        text: bytes = self._library.wattio_io_report()
        return text.decode()


def close_all(ranks: list[Rank]) -> None:
    """Close as ranks of a job do: side by side."""
    threads = [threading.Thread(target=one.close) for one in ranks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def configure(folder: Path, **keys: object) -> Path:
    """A configuration of dedicated cores whose dumps go to `folder/dumps`."""
    settings = {"approach": "dc", "output": str(folder / "dumps"), "hdf5": hdf5(), **keys}
    path = folder / "hpcio.toml"
    lines = (f"{key} = {json.dumps(value)}" for key, value in settings.items())
    path.write_text("\n".join(["[hpcio]", *lines, ""]))
    return path


def serve(
    config: Path, meeting: Path, ranks: int, before: Sequence[str] = ()
) -> subprocess.Popen[str]:
    """A writer that the test starts by itself, listening when this comes back.

    `before` are words of a program that runs it.
    """
    line = [
        *before,
        str(WRITER),
        "serve",
        "--config",
        str(config),
        "--ranks",
        str(ranks),
        str(meeting),
    ]
    process = subprocess.Popen(line, text=True)
    while not meeting.exists():
        assert process.poll() is None, "the writer has ended"
    return process


def child(code: str, *arguments: object, quiet: bool = False) -> subprocess.Popen[str]:
    """A rank in a process of its own: Python code in which `Rank` and `np` are known."""
    begin = "import os, sys\nimport numpy as np\nfrom pathlib import Path\n"
    begin += "from hpcio.io_library import *\n"
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    line = [sys.executable, "-c", begin + code, *map(str, arguments)]
    told = subprocess.DEVNULL if quiet else None
    return subprocess.Popen(line, text=True, stdout=subprocess.PIPE, stderr=told, env=environment)


def found(output: Path) -> dict[int, list[str]]:
    """What is wrong with each dump, by its step; those that are not whole are told so, too."""
    return {
        dump.step: [*dump.problems, *([] if dump.whole else ["partial"])]
        for dump in inspect(output)
    }
