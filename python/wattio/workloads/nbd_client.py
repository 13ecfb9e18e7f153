"""A client of NBD that does just what workloads need: connect, read, disconnect.

Fixed newstyle handshake with NBD_OPT_GO and simple replies; no TLS, no structured replies. Source:
"The NBD protocol" (doc/proto.md of the NBD project), sections "Fixed newstyle negotiation" and
"Transmission"; URIs by its doc/uri.md.
"""

from __future__ import annotations

import contextlib
import socket
import struct
from pathlib import Path
from types import TracebackType
from urllib.parse import parse_qs, unquote, urlsplit

from wattio import clock

TIMEOUT_S = 30.0
"""How long a server may take for an answer."""

_WATCH_S = 1.0
_PORT = 10809
_MAGIC, _OPTION_MAGIC = b"NBDMAGIC", b"IHAVEOPT"
_REPLY_MAGIC = 0x3E889045565A9
_REQUEST_MAGIC, _SIMPLE_MAGIC = 0x25609513, 0x67446698
_FIXED_NEWSTYLE, _NO_ZEROES = 1, 2
_GO, _ACK, _INFO, _ERROR, _EXPORT = 7, 1, 3, 1 << 31, 0
_READ, _DISCONNECT = 0, 2
_REPLY_BYTES_MOST = 1 << 16


class NbdError(ConnectionError):
    """A server that cannot be reached, refuses, or does not speak the protocol."""


class Connection:
    """A connection to an export. Raises NbdError where there is none to be had."""

    def __init__(self, uri: str) -> None:
        """`nbd+unix:///EXPORT?socket=PATH` or `nbd://HOST:PORT/EXPORT`."""
        self._uri = uri
        address, export = parse(uri)
        try:
            self._socket = _connected(address)
        except OSError as error:
            raise NbdError(f"{uri}: {error.strerror or error}") from error
        self._handle = 0
        try:
            self.size_bytes = self._negotiate(export.encode())
        except BaseException:
            self._socket.close()
            raise

    def __enter__(self) -> Connection:
        """Itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Say goodbye, and close."""
        self.close()

    @property
    def socket(self) -> socket.socket:
        """The connected socket, for who sends and takes requests of its own."""
        return self._socket

    def close(self) -> None:
        """Say goodbye, and close; a server that has gone does not matter."""
        with contextlib.suppress(OSError):
            self._request(_DISCONNECT, 0, 0)
        self._socket.close()

    def read_into(self, offset: int, target: memoryview) -> None:
        """Read as many bytes as `target` has, from `offset` on. Raises NbdError."""
        try:
            self._request(_READ, offset, len(target))
            magic, code, handle = struct.unpack(">IIQ", self._take(16))
            if magic != _SIMPLE_MAGIC or handle != self._handle:
                raise NbdError(f"{self._uri}: unexpected answer")
            if code:
                raise NbdError(f"{self._uri}: read of {len(target)} B at {offset}: error {code}")
            self._fill(target)
        except OSError as error:
            raise self._told(error) from error

    def _request(self, kind: int, offset: int, size: int) -> None:
        self._handle += 1
        head = struct.pack(">IHHQQI", _REQUEST_MAGIC, 0, kind, self._handle, offset, size)
        self._socket.sendall(head)

    def _negotiate(self, export: bytes) -> int:
        """The size of the export in bytes; the connection transmits from then on."""
        try:
            magic, option_magic, flags = struct.unpack(">8s8sH", self._take(18))
            if (magic, option_magic) != (_MAGIC, _OPTION_MAGIC) or not flags & _FIXED_NEWSTYLE:
                raise NbdError(f"{self._uri}: is not an NBD server with fixed newstyle handshake")
            wanted = struct.pack(">I", len(export)) + export + struct.pack(">H", 0)
            self._socket.sendall(
                struct.pack(">I", flags & (_FIXED_NEWSTYLE | _NO_ZEROES))
                + struct.pack(">8sII", _OPTION_MAGIC, _GO, len(wanted))
                + wanted
            )
            return self._answered(export)
        except OSError as error:
            raise self._told(error) from error

    def _answered(self, export: bytes) -> int:
        size: int | None = None
        while True:
            magic, _, kind, length = struct.unpack(">QIII", self._take(20))
            if magic != _REPLY_MAGIC or length > _REPLY_BYTES_MOST:
                raise NbdError(f"{self._uri}: invalid answer to the handshake")
            told = self._take(length)
            if kind & _ERROR:
                words = told.decode(errors="replace") or f"error {kind & ~_ERROR}"
                raise NbdError(f'{self._uri}: export "{export.decode()}" is refused: {words}')
            if kind == _INFO and length >= 12 and struct.unpack(">H", told[:2])[0] == _EXPORT:
                size = struct.unpack(">Q", told[2:10])[0]
            if kind == _ACK:
                if size is None:
                    raise NbdError(f"{self._uri}: did not report the size of the export")
                return size

    def _told(self, error: OSError) -> NbdError:
        return error if isinstance(error, NbdError) else NbdError(f"{self._uri}: {error}")

    def _take(self, size: int) -> bytes:
        taken = bytearray(size)
        self._fill(memoryview(taken))
        return bytes(taken)

    def _fill(self, target: memoryview) -> None:
        while target:
            count = self._socket.recv_into(target)
            if count == 0:
                raise NbdError(f"{self._uri}: the server has closed the connection")
            target = target[count:]


def parse(uri: str) -> tuple[str | tuple[str, int], str]:
    """The address (a socket's path, or host and port) and the export. Raises NbdError."""
    try:
        parts = urlsplit(uri)
        export = unquote(parts.path.removeprefix("/"))
        if parts.scheme == "nbd+unix":
            return parse_qs(parts.query)["socket"][0], export
        if parts.scheme == "nbd" and parts.hostname:
            return (parts.hostname, parts.port or _PORT), export
    except (ValueError, KeyError):
        pass
    raise NbdError(f'"{uri}" is not nbd+unix:///EXPORT?socket=PATH or nbd://HOST:PORT/EXPORT')


class Watch:
    """Says what is wrong once nobody listens at a server's socket any more.

    It looks into the kernel's list of sockets and not at the server, which is measured meanwhile;
    once a second. Of servers elsewhere it says nothing.
    """

    def __init__(self, uri: str, listed: Path = Path("/proc/net/unix")) -> None:
        """`listed` is the kernel's list. Raises NbdError for what is no address."""
        address, _ = parse(uri)
        self._path = None if isinstance(address, tuple) else address
        self._listed = listed
        self._next_s = 0.0

    def __call__(self, pid: int) -> str | None:
        """What is wrong, for `processes.Program`; the client's number is not looked at."""
        now_s = clock.now().monotonic_ns / 1e9
        if self._path is None or now_s < self._next_s:
            return None
        self._next_s = now_s + _WATCH_S
        try:
            lines = self._listed.read_text(errors="replace").splitlines()
        except OSError:
            return None
        if any(line.endswith(f" {self._path}") for line in lines):
            return None
        return f"waits for a server that is gone ({self._path})"


def _connected(address: str | tuple[str, int]) -> socket.socket:
    if isinstance(address, tuple):
        return socket.create_connection(address, TIMEOUT_S)
    made = socket.socket(socket.AF_UNIX)
    made.settimeout(TIMEOUT_S)
    try:
        made.connect(address)
    except OSError:
        made.close()
        raise
    return made
