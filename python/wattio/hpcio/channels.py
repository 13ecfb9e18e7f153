"""Connections between nodes: small messages whose receiver waits asleep; data go by MPI.

A message is JSON with its length before it. Only peers that know the program's token are let in,
and where all of them are on one machine, nobody else can reach the port.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import selectors
import socket
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from wattio.errors import HostError
from wattio.hpcio.doorbells import START_S, PeerDied

MESSAGE_BYTES_MAX = 1 << 24
_HELLO_BYTES_MAX = 256
_HELLO_S = 10.0
"""How long whoever connects may take to say the token."""

_LENGTH = struct.Struct("<I")


@dataclass(frozen=True)
class Address:
    """Where a writer listens."""

    host: str
    port: int
    token: str


class Channel:
    """One end of a connection."""

    def __init__(self, peer: socket.socket) -> None:
        """Take over a connected socket."""
        peer.settimeout(None)
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self.peer = peer
        """Whose other end shows whether there is anybody."""

    def fileno(self) -> int:
        """For selectors."""
        return self.peer.fileno()

    def send(self, **message: Any) -> None:  # noqa: ANN401 (JSON)
        """Send a message. Raises PeerDied."""
        text = json.dumps(message).encode()
        try:
            self.peer.sendall(_LENGTH.pack(len(text)) + text)
        except OSError as error:
            raise PeerDied from error

    def receive(self, bytes_max: int = MESSAGE_BYTES_MAX) -> dict[str, Any]:
        """The next message; asleep until it comes. Raises PeerDied, also for broken ones."""
        try:
            (length,) = _LENGTH.unpack(self._exactly(_LENGTH.size))
            if length > bytes_max:
                raise PeerDied
            message = json.loads(self._exactly(length))
        except (OSError, ValueError, RecursionError) as error:
            raise PeerDied from error
        if not isinstance(message, dict):
            raise PeerDied
        return message

    def close(self) -> None:
        """End the connection, and the watch."""
        with contextlib.suppress(OSError):
            self.peer.shutdown(socket.SHUT_RDWR)
        self.peer.close()

    def _exactly(self, size: int) -> bytes:
        found = bytearray()
        while len(found) < size:
            part = self.peer.recv(size - len(found))
            if not part:
                raise PeerDied
            found += part
        return bytes(found)


class Port:
    """Where a writer's clients connect."""

    def __init__(self, machine: str, *, only_here: bool) -> None:
        """Listen, on the loopback device alone if all clients are on this machine."""
        self._socket = socket.create_server(("127.0.0.1" if only_here else "", 0))
        self._socket.settimeout(START_S)
        self.address = Address(
            "127.0.0.1" if only_here else machine,
            self._socket.getsockname()[1],
            secrets.token_hex(16),
        )

    def admit(self, ranks: Sequence[int]) -> dict[int, Channel]:
        """Wait for all clients. Raises HostError."""
        found: dict[int, Channel] = {}
        try:
            while len(found) < len(ranks):
                peer, _ = self._socket.accept()
                channel = Channel(peer)
                peer.settimeout(_HELLO_S)
                rank = self._rank(channel)
                if rank not in ranks:
                    channel.close()
                    continue
                peer.settimeout(None)
                found[rank] = channel
        except OSError as error:
            missing = sorted(set(ranks) - set(found))
            raise HostError(f"ranks {missing} did not reach their writer: {error}") from error
        finally:
            self._socket.close()
        return found

    def _rank(self, channel: Channel) -> int:
        """The rank that has connected; -1 for a stranger."""
        try:
            hello = channel.receive(_HELLO_BYTES_MAX)
        except PeerDied:
            return -1
        token = str(hello.get("token")).encode(errors="replace")
        known = secrets.compare_digest(token, self.address.token.encode())
        rank = hello.get("rank")
        return rank if known and isinstance(rank, int) else -1


def connect(address: Address, rank: int) -> Channel:
    """Reach a writer. Raises HostError."""
    try:
        peer = socket.create_connection((address.host, address.port), START_S)
        channel = Channel(peer)
        channel.send(rank=rank, token=address.token)
    except (OSError, PeerDied) as error:
        raise HostError(
            f"rank {rank} cannot reach its writer at {address.host}:{address.port}: {error}"
        ) from error
    return channel


class ConnectionPoller:
    """Sleep until one of several connections has something, or another thread wakes it."""

    def __init__(self) -> None:
        """Watch nothing but the other thread."""
        self._selector = selectors.DefaultSelector()
        self._wake, self._woken = socket.socketpair()
        self._wake.setblocking(False)
        self._selector.register(self._woken, selectors.EVENT_READ, None)

    def watch(self, channel: Channel, rank: int) -> None:
        """Watch a connection."""
        self._selector.register(channel, selectors.EVENT_READ, rank)

    def forget(self, channel: Channel) -> None:
        """Watch it no more."""
        self._selector.unregister(channel)

    def close(self) -> None:
        """Watch nothing any more."""
        self._selector.close()
        self._wake.close()
        self._woken.close()

    def wake(self) -> None:
        """End the wait; called by another thread."""
        try:
            self._wake.send(b"w")
        except BlockingIOError:
            return

    def wait(self) -> list[int]:
        """The ranks from which something has come; empty where the other thread has called."""
        found = []
        for key, _ in self._selector.select():
            if key.data is None:
                self._woken.recv(4096)
            else:
                found.append(int(key.data))
        return found
