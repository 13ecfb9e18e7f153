"""A server of NBD in threads, one for each connection: as small as can be."""

from __future__ import annotations

import contextlib
import itertools
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

Handler = Callable[[socket.socket], None]


@contextlib.contextmanager
def listening(path: Path, handler: Handler) -> Iterator[str]:
    """Serve connections by a handler; yields the URI of the export with no name."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()

        threads = []

        def one(connection: socket.socket) -> None:
            with connection, contextlib.suppress(OSError, struct.error):
                handler(connection)

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                threads.append(threading.Thread(target=one, args=(connection,), daemon=True))
                threads[-1].start()

        threads.append(threading.Thread(target=serve, daemon=True))
        threads[0].start()
        yield f"nbd+unix:///?socket={path}"
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
    for thread in threads:
        thread.join()


def serving(
    disk: bytes, export: str = "", piece: int = 1 << 20, answers: int | None = None
) -> Handler:
    """A handler that serves a disk, in pieces; offsets from its end on are an error.

    What is written is not kept. After so many `answers` it gives none any more, and waits for the
    client to leave.
    """

    def handle(connection: socket.socket) -> None:
        connection.sendall(b"NBDMAGICIHAVEOPT" + struct.pack(">H", 3))
        taken(connection, 4)
        _, option, length = struct.unpack(">QII", taken(connection, 16))
        data = taken(connection, length)
        head = struct.pack(">QI", 0x3E889045565A9, option)
        (size,) = struct.unpack(">I", data[:4])
        if data[4 : 4 + size].decode() != export:
            connection.sendall(head + struct.pack(">II", (1 << 31) + 6, 4) + b"none")
            return
        info = struct.pack(">HQH", 0, len(disk), 1)
        # Others than the export's size may come first.
        connection.sendall(head + struct.pack(">IIHI", 3, 6, 3, 4096))
        connection.sendall(head + struct.pack(">II", 3, len(info)) + info)
        connection.sendall(head + struct.pack(">II", 1, 0))
        for number in itertools.count():
            if number == answers:
                while connection.recv(4096):
                    pass
                return
            _, _, kind, handle, offset, size = struct.unpack(">IHHQQI", taken(connection, 28))
            if kind == 2:
                return
            if kind == 1:
                # What is written is taken, and not kept.
                taken(connection, size)
            code = 0 if offset + size <= len(disk) else 22
            connection.sendall(struct.pack(">IIQ", 0x67446698, code, handle))
            if code == 0 and kind == 0:
                for start in range(offset, offset + size, piece):
                    connection.sendall(disk[start : min(start + piece, offset + size)])

    return handle


def taken(connection: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        part = connection.recv(size - len(found))
        if not part:
            raise ConnectionError
        found += part
    return found
