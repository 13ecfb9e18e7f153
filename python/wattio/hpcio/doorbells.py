"""Doorbells between processes: each waits asleep, and learns at once when its peer has died.

A client's bell is a counter of the kernel (eventfd), whose count is how many dumps there are to
see: waking a sleeper by it costs half of what a socket does. All else goes by a socket: a byte from
the writer says "look", and its end that the peer is gone. A socket that cannot be written to
because nobody has answered for long rings already. The sockets have names of Linux's abstract
kind, which leave no file, and take peers of the same user only.
"""

from __future__ import annotations

import contextlib
import functools
import os
import selectors
import socket
import struct
from collections.abc import Mapping, Sequence

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


class PeerDied(Exception):  # noqa: N818 (what happened)
    """A peer has gone without saying so."""


class Doorbell:
    """One end of a connection between a client and its writer."""

    def __init__(self, peer: socket.socket, counter: int) -> None:
        """Take over a connected socket, and the open counter that both ends share."""
        peer.settimeout(None)
        self.peer = peer
        """Whose other end shows whether there is anybody."""
        self.counter = counter
        self.count = functools.partial(os.eventfd_write, counter, 1)
        """The client tells of one more dump, without waiting."""

    def fileno(self) -> int:
        """Of the socket, for selectors."""
        return self.peer.fileno()

    def counted(self) -> int:
        """How many more dumps the client has told of. Whatever it wrote before is seen after."""
        with contextlib.suppress(BlockingIOError):
            return os.eventfd_read(self.counter)
        return 0

    def ring(self) -> None:
        """The writer says "look", without waiting. Raises PeerDied."""
        try:
            self.peer.send(LOOK, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
        except BlockingIOError:
            return
        except OSError as error:
            raise PeerDied from error

    def say(self, word: bytes) -> None:
        """Say something that must not be lost. Raises PeerDied."""
        try:
            self.peer.sendall(word, socket.MSG_NOSIGNAL)
        except OSError as error:
            raise PeerDied from error

    def wait(self) -> bytes:
        """What is said next; asleep until then. Raises PeerDied."""
        try:
            found = self.peer.recv(_CHUNK)
        except OSError as error:
            raise PeerDied from error
        if not found:
            raise PeerDied
        return found

    def close(self) -> None:
        """End the connection, and the watch."""
        with contextlib.suppress(OSError):
            self.peer.shutdown(socket.SHUT_RDWR)
        self.peer.close()
        os.close(self.counter)


class Poller:
    """A writer's wait for its clients, asleep."""

    def __init__(self, bells: Mapping[int, Doorbell]) -> None:
        """Listen to the bells of clients, by their ranks."""
        self._selector = selectors.DefaultSelector()
        for rank, bell in bells.items():
            self._selector.register(bell, selectors.EVENT_READ, (rank, False))
            self._selector.register(bell.counter, selectors.EVENT_READ, (rank, True))

    def close(self) -> None:
        """Listen no more."""
        self._selector.close()

    def wait(self) -> list[tuple[int, bool]]:
        """The ranks that can be heard, and whether by their counter or else by their socket."""
        return [key.data for key, _ in self._selector.select()]


class ClientListener:
    """Where clients connect to their writer."""

    def __init__(self) -> None:
        """Listen at a name that the kernel picks."""
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        self._socket.bind("")
        self._socket.listen(socket.SOMAXCONN)
        self._socket.settimeout(START_S)
        self.address = bytes(self._socket.getsockname())

    def admit(self, files: dict[int, tuple[Sequence[int], tuple[int, int]]]) -> dict[int, Doorbell]:
        """Wait for all clients, and give each the open files that are for it. Raises HostError.

        `files`: by the client's rank, two open files and their sizes in bytes.
        """
        found: dict[int, Doorbell] = {}
        try:
            while len(found) < len(files):
                peer, _ = self._socket.accept()
                if _user(peer) != os.geteuid():
                    peer.close()
                    continue
                peer.settimeout(START_S)
                (rank,) = _HELLO.unpack(peer.recv(_HELLO.size, socket.MSG_WAITALL))
                opened, sizes = files[rank]
                counter = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
                socket.send_fds(peer, [_SIZES.pack(*sizes)], [*opened, counter])
                found[rank] = Doorbell(peer, counter)
        except (OSError, struct.error, KeyError) as error:
            missing = sorted(set(files) - set(found))
            raise HostError(f"ranks {missing} did not reach their writer: {error}") from error
        finally:
            self._socket.close()
        return found


def connect(address: bytes, rank: int) -> tuple[Doorbell, list[tuple[int, int]]]:
    """Reach a writer; the bell, and the open files with their sizes. Raises HostError."""
    peer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    peer.settimeout(START_S)
    try:
        peer.connect(address)
        peer.sendall(_HELLO.pack(rank))
        data, (*files, counter), _, _ = socket.recv_fds(
            peer, _SIZES.size, 3, socket.MSG_CMSG_CLOEXEC
        )
        sizes = _SIZES.unpack(data)
        return Doorbell(peer, counter), list(zip(files, sizes, strict=True))
    except (OSError, struct.error, ValueError) as error:
        peer.close()
        raise HostError(f"rank {rank} cannot reach its writer: {error}") from error


def _user(peer: socket.socket) -> int:
    found = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return int(_CREDENTIALS.unpack(found)[1])
