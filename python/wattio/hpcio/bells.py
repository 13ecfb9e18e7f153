"""Sockets as doorbells: a process waits asleep, and learns at once when its peer has died.

A byte says "look"; what there is to see lies elsewhere. A bell that cannot be rung because nobody
has answered for long rings already. The sockets have names of Linux's abstract kind, which leave
no file, and take peers of the same user only.
"""

from __future__ import annotations

import os
import selectors
import socket
import struct
from collections.abc import Sequence

from wattio.errors import HostError

LOOK = b"l"
CLOSE = b"c"
ENDED = b"e"

START_S = 60.0
"""How long processes that start together may wait for each other."""

_CHUNK = 4096
_HELLO = struct.Struct("<i")
_SIZES = struct.Struct("<qq")
_CREDENTIALS = struct.Struct("3i")


class Died(Exception):  # noqa: N818 (what happened)
    """A peer has gone without saying so."""


class Bell:
    """One end of a connection between a client and its writer."""

    def __init__(self, peer: socket.socket) -> None:
        """Take over a connected socket."""
        peer.settimeout(None)
        self._socket = peer

    def fileno(self) -> int:
        """For selectors."""
        return self._socket.fileno()

    def ring(self) -> None:
        """Say "look", without waiting. Raises Died."""
        try:
            self._socket.send(LOOK, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
        except BlockingIOError:
            return
        except OSError as error:
            raise Died from error

    def say(self, word: bytes) -> None:
        """Say something that must not be lost. Raises Died."""
        try:
            self._socket.sendall(word, socket.MSG_NOSIGNAL)
        except OSError as error:
            raise Died from error

    def wait(self) -> bytes:
        """What is said next; asleep until then. Raises Died."""
        try:
            found = self._socket.recv(_CHUNK)
        except OSError as error:
            raise Died from error
        if not found:
            raise Died
        return found


class Door:
    """Where clients knock."""

    def __init__(self) -> None:
        """Listen at a name that the kernel picks."""
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        self._socket.bind("")
        self._socket.listen(socket.SOMAXCONN)
        self._socket.settimeout(START_S)
        self.address = bytes(self._socket.getsockname())

    def admit(self, files: dict[int, tuple[Sequence[int], tuple[int, int]]]) -> dict[int, Bell]:
        """Wait for all clients, and give each the open files that are for it. Raises HostError.

        `files`: by the client's rank, two open files and their sizes in bytes.
        """
        found: dict[int, Bell] = {}
        try:
            while len(found) < len(files):
                peer, _ = self._socket.accept()
                if _user(peer) != os.geteuid():
                    peer.close()
                    continue
                peer.settimeout(START_S)
                (rank,) = _HELLO.unpack(peer.recv(_HELLO.size, socket.MSG_WAITALL))
                opened, sizes = files[rank]
                socket.send_fds(peer, [_SIZES.pack(*sizes)], list(opened))
                found[rank] = Bell(peer)
        except (OSError, struct.error, KeyError) as error:
            missing = sorted(set(files) - set(found))
            raise HostError(f"ranks {missing} did not reach their writer: {error}") from error
        finally:
            self._socket.close()
        return found


def knock(address: bytes, rank: int) -> tuple[Bell, list[tuple[int, int]]]:
    """Reach a writer; the bell, and the open files with their sizes. Raises HostError."""
    peer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    peer.settimeout(START_S)
    try:
        peer.connect(address)
        peer.sendall(_HELLO.pack(rank))
        data, files, _, _ = socket.recv_fds(peer, _SIZES.size, 2)
        sizes = _SIZES.unpack(data)
        return Bell(peer), list(zip(files, sizes, strict=True))
    except (OSError, struct.error, ValueError) as error:
        peer.close()
        raise HostError(f"rank {rank} cannot reach its writer: {error}") from error


def first_of(bells: Sequence[Bell]) -> list[Bell]:
    """Those of which something can be heard; asleep until there is one."""
    with selectors.DefaultSelector() as selector:
        for bell in bells:
            selector.register(bell, selectors.EVENT_READ, bell)
        return [key.data for key, _ in selector.select()]


def _user(peer: socket.socket) -> int:
    found = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return int(_CREDENTIALS.unpack(found)[1])
