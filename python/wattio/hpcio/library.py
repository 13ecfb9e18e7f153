"""libwattio_io, by its C calls: where it lies, and what its codes mean in Python."""

from __future__ import annotations

import ctypes
import functools
import json
import weakref
from collections.abc import Sequence
from ctypes import CFUNCTYPE, POINTER, byref, c_char_p, c_double, c_int, c_int64, c_size_t, c_void_p
from pathlib import Path
from typing import Any

from wattio.errors import DumpFailed, HostError, InputError

Broadcast = CFUNCTYPE(c_int, c_void_p, c_void_p, c_size_t, c_int64)
Gather = CFUNCTYPE(c_int, c_void_p, c_void_p, c_size_t, c_void_p)
Meet = CFUNCTYPE(c_int, c_void_p)
Message = CFUNCTYPE(c_int, c_void_p, c_void_p, c_size_t, c_int64)
Abort = CFUNCTYPE(None, c_void_p)


class Functions(ctypes.Structure):
    """`wattio_io_peers` of wattio_io.h: the ranks' own communication."""

    _fields_ = (
        ("context", c_void_p),
        ("rank", c_int64),
        ("size", c_int64),
        ("machine", c_int64),
        ("broadcast", Broadcast),
        ("gather", Gather),
        ("meet", Meet),
        ("send", Message),
        ("receive", Message),
        ("abort", Abort),
    )


TYPES = ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8")
"""NumPy's names of the types of elements, in the order of WATTIO_IO_INT8 and so on, from 1."""

_OK, _STEP_FAILED, _INPUT, _HOST, _TIMED_OUT = range(5)
_STEP = -1
_DEFERRED = 1
_EXTENTS = POINTER(c_int64)
_ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "open_peers": (POINTER(Functions), c_char_p, POINTER(c_void_p)),
    "is_writer": (c_void_p, POINTER(c_int)),
    "variable": (
        *(c_void_p, c_char_p, c_int64, c_int64, _EXTENTS, _EXTENTS, _EXTENTS),
        POINTER(c_int64),
    ),
    "attribute_text": (c_void_p, c_int64, c_char_p, c_char_p),
    "attribute_number": (c_void_p, c_int64, c_char_p, c_double),
    "begin_step": (c_void_p, c_int64),
    "number_step": (c_void_p, c_int64),
    "put": (c_void_p, c_int64, c_void_p, c_int),
    "allocate": (c_void_p, c_int64, POINTER(c_void_p)),
    "end_step": (c_void_p,),
    "flush": (c_void_p,),
    "is_durable": (c_void_p, c_int64, POINTER(c_int)),
    "wait_durable": (c_void_p, c_int64, c_double),
    "keep_memory": (c_void_p, POINTER(c_void_p)),
    "close": (POINTER(c_void_p), c_char_p, c_size_t, POINTER(c_size_t)),
    "damaris_read": (c_char_p, POINTER(c_void_p)),
}


def prefix() -> Path:
    """The folder below which the library, its writer, its headers and sources are installed.

    Raises HostError where this installation of wattio does not carry them.
    """
    found = Path(__file__).parents[1] / "_io"
    if not (found / "lib" / "libwattio_io.so.0").is_file():
        raise HostError(
            f"{found}: libwattio_io is missing, though wattio's package has it: reinstall wattio,"
            f" or run `make install-io PREFIX={found}` in its sources"
        )
    return found


def hdf5() -> Path | None:
    """The HDF5 that h5py brings along; None if it uses the machine's, or is not there."""
    try:
        import h5py
    except ModuleNotFoundError:
        return None

    beside = Path(h5py.__file__).parents[1] / "h5py.libs"
    return next(iter(sorted(beside.glob("libhdf5-*.so*"))), None)


@functools.cache
def _loaded() -> ctypes.CDLL:
    path = prefix() / "lib" / "libwattio_io.so.0"
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise HostError(f"{path}: cannot be loaded: {error}") from None
    for name, arguments in _ARGUMENTS.items():
        function = getattr(library, f"wattio_io_{name}")
        function.argtypes, function.restype = arguments, c_int
    for name in ("free_memory", "damaris_free"):
        function = getattr(library, f"wattio_io_{name}")
        function.argtypes, function.restype = (c_void_p,), None
    library.wattio_io_error.restype = library.wattio_io_report.restype = c_char_p
    return library


class TimedOut(Exception):  # noqa: N818 (what happened)
    """A wait has ended before what was waited for came."""


def _call(name: str, *arguments: Any) -> None:  # noqa: ANN401 (as ctypes takes them)
    """Raises InputError, HostError, DumpFailed and TimedOut with the library's words."""
    library = _loaded()
    code = getattr(library, f"wattio_io_{name}")(*arguments)
    if code == _OK:
        return
    text = library.wattio_io_error().decode(errors="replace")
    kinds = {_STEP_FAILED: DumpFailed, _INPUT: InputError, _TIMED_OUT: TimedOut}
    raise kinds.get(code, HostError)(text)


def _text(text: object, what: str) -> bytes:
    """Text as the library takes it. Raises InputError for what C would cut, or cannot be UTF-8."""
    if not isinstance(text, str) or "\0" in text:
        raise InputError(f"{what} is {text!r}; allowed: text without NUL")
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise InputError(f"{what} is not UTF-8 text: {error.reason}") from None


def check_damaris(path: Path) -> None:
    """Read a Damaris file, as programs do when they start. Raises InputError, HostError."""
    found = c_void_p()
    _call("damaris_read", bytes(path), byref(found))
    _loaded().wattio_io_damaris_free(found)


class Kept:
    """Keeps the memory of blocks where it is for as long as arrays rest on it."""

    def __init__(self, handle: c_void_p) -> None:
        """`handle` is an open session's."""
        found = c_void_p()
        _call("keep_memory", handle, byref(found))
        weakref.finalize(self, _loaded().wattio_io_free_memory, found)


class Handle:
    """An open session of the library. All calls raise InputError and HostError."""

    def __init__(self, functions: Functions, config: Path | None) -> None:
        """Open on all ranks; collective. Rank 0 names the configuration."""
        self._handle = c_void_p()
        given = None if config is None else bytes(config)
        _call("open_peers", byref(functions), given, byref(self._handle))
        # They are called until the session ends.
        self._functions = functions
        self._kept: Kept | None = None

    @property
    def is_writer(self) -> bool:
        """Whether this rank only writes."""
        found = c_int()
        _call("is_writer", self._handle, byref(found))
        return bool(found.value)

    def declare(
        self,
        name: str,
        kind: str,
        shape: Sequence[int],
        global_shape: Sequence[int] | None,
        offset: Sequence[int] | None,
    ) -> int:
        """Declare a variable, or anew; its number. `kind` is one of `TYPES`."""
        found = c_int64()
        extents = [
            None if one is None else (c_int64 * len(one))(*one)
            for one in (shape, global_shape, offset)
        ]
        which = TYPES.index(kind) + 1
        _call("variable", self._handle, name.encode(), which, len(shape), *extents, byref(found))
        return found.value

    def attribute(self, variable: int | None, name: str, value: float | str) -> None:
        """Set an attribute of a variable; of the step that has begun, without one."""
        which = _STEP if variable is None else variable
        key = _text(name, f"attribute {name!r}: its name")
        if isinstance(value, str):
            text = _text(value, f"attribute {name!r}: its value")
            _call("attribute_text", self._handle, which, key, text)
            return
        try:
            number = float(value)
        except (TypeError, ValueError, OverflowError):
            raise InputError(
                f"attribute {name!r}: {value!r} is neither a number nor text"
            ) from None
        _call("attribute_number", self._handle, which, key, number)

    def begin_step(self, step: int) -> None:
        """Begin a step."""
        _call("begin_step", self._handle, step)

    def number_step(self, step: int) -> None:
        """Give the step that has begun its number."""
        _call("number_step", self._handle, step)

    def allocate(self, variable: int, size: int) -> ctypes.Array[ctypes.c_char]:
        """The memory of a variable's block, of `size` bytes; it stays for as long as this does."""
        at = c_void_p()
        _call("allocate", self._handle, variable, byref(at))
        memory = (ctypes.c_char * size).from_address(at.value or 0)
        if self._kept is None:
            self._kept = Kept(self._handle)
        memory.kept = self._kept  # type: ignore[attr-defined]
        return memory

    def put(self, variable: int, address: int) -> None:
        """Have a variable's block copied when the step ends.

        It lies at an address of this process's memory, and stays there until then.
        """
        _call("put", self._handle, variable, address, _DEFERRED)

    def end_step(self) -> None:
        """End the step. Raises DumpFailed for steps of which no call has told."""
        _call("end_step", self._handle)

    def flush(self) -> None:
        """Wait until all is written. Raises DumpFailed for steps of which no call has told."""
        _call("flush", self._handle)

    def is_durable(self, step: int) -> bool:
        """Whether a step is whole and visible. Raises DumpFailed where it never will be."""
        found = c_int()
        _call("is_durable", self._handle, step, byref(found))
        return bool(found.value)

    def wait_durable(self, step: int, seconds: float) -> None:
        """Wait for a step; below 0, as long as it takes. Raises DumpFailed and TimedOut."""
        _call("wait_durable", self._handle, step, seconds)

    def close(self) -> tuple[dict[str, Any], str | None]:
        """Wait until all is written; the report, and what failed without having been told.

        Collective.
        """
        told = None
        self._kept = None
        try:
            _call("close", byref(self._handle), None, 0, None)
        except DumpFailed as failed:
            told = str(failed)
        report: dict[str, Any] = json.loads(_loaded().wattio_io_report())
        return report, told
