"""Requests over NBD at times that are drawn beforehand, whatever the server does (an open load).

fio 3.33 has no such load over NBD: before it sleeps until the next request is due, it waits for all
that are under way (`io_u_quiesce`), so that they come in bursts as soon as the server takes longer
than the gaps, and its other mode (`io_submit_mode=offload`) fails with this engine. This client
looks at the clock and at its sockets without sleeping: it takes a core of its own, and what it
tells of latency holds no waking of a client.

Simple replies; reads and writes go over connections of their own, on each of which all answers have
the same length. Source: "The NBD protocol" (doc/proto.md), section "Transmission".
"""

from __future__ import annotations

import bisect
import struct
import threading
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wattio import clock
from wattio.errors import Cancelled, WorkloadFailed
from wattio.workloads.nbd_client import Connection, NbdError

_HEAD = np.dtype(
    [
        ("magic", ">u4"),
        ("flags", ">u2"),
        ("kind", ">u2"),
        ("handle", ">u8"),
        ("offset", ">u8"),
        ("length", ">u4"),
    ]
)
_REQUEST_MAGIC, _SIMPLE_MAGIC = 0x25609513, 0x67446698
_READ, _WRITE = 0, 1
_REPLY = struct.Struct(">IIQ")
_TAKEN_BYTES = 4 << 20
_CONTENT_BYTES = 1 << 20
_SILENCE_S = 20.0
"""How long a server may say nothing while requests are under way."""

Look = Callable[[int], None]
"""Told the time since the beginning, in nanoseconds, once in a while."""


@dataclass(frozen=True)
class OpenLoad:
    """Poisson arrivals: `requests` of `size_bytes` at `rate_per_s`, at random in `region_bytes`.

    `read_share` of them read. Reads are spread over `connections`, writes have one.
    """

    rate_per_s: float
    requests: int
    size_bytes: int
    read_share: float
    region_bytes: int
    connections: int = 1
    seed: int = 1


@dataclass(frozen=True)
class Answers:
    """For each request, in the order of their being due: nanoseconds since the beginning."""

    is_read: NDArray[np.bool_]
    due_ns: NDArray[np.int64]
    sent_ns: NDArray[np.int64]
    done_ns: NDArray[np.int64]


class _Stream:
    """The requests of one connection, all of one kind."""

    def __init__(self, uri: str, load: OpenLoad, kind: int, due_ns: NDArray[np.int64]) -> None:
        random = np.random.default_rng([load.seed, kind, len(due_ns)])
        self.due_ns: list[int] = due_ns.tolist()
        self.sent_ns = [0] * len(due_ns)
        self.done_ns = [0] * len(due_ns)
        self.sent = self.answered = self._out = self._have = 0
        self._request_bytes = _HEAD.itemsize + (load.size_bytes if kind == _WRITE else 0)
        self._reply_bytes = _REPLY.size + (load.size_bytes if kind == _READ else 0)
        self._requests = memoryview(_requests(load, kind, len(due_ns), random))
        self._taken = bytearray(max(_TAKEN_BYTES, 2 * self._reply_bytes))
        self._view = memoryview(self._taken)
        self.connection = Connection(uri)
        self._socket = self.connection.socket
        self._socket.setblocking(False)

    def send(self, now_ns: int) -> None:
        """Send what is due."""
        if self.sent < len(self.due_ns) and self.due_ns[self.sent] <= now_ns:
            upto = bisect.bisect_right(self.due_ns, now_ns, self.sent)
            self.sent_ns[self.sent : upto] = [now_ns] * (upto - self.sent)
            self.sent = upto
        end = self.sent * self._request_bytes
        if self._out < end:
            try:
                self._out += self._socket.send(self._requests[self._out : end])
            except BlockingIOError:
                return

    def take(self, now_ns: Callable[[], int]) -> int:
        """Take answers that are there; how many. Raises WorkloadFailed."""
        if self.answered == self.sent:
            return 0
        try:
            count = self._socket.recv_into(self._view[self._have :])
        except BlockingIOError:
            return 0
        if count == 0:
            raise WorkloadFailed("the server has closed the connection")
        self._have += count
        now, begin = now_ns(), 0
        while self._have - begin >= _REPLY.size:
            magic, code, handle = _REPLY.unpack_from(self._taken, begin)
            # An answer that is an error is shorter than the others.
            if magic != _SIMPLE_MAGIC or code or handle >= self.sent:
                raise WorkloadFailed(f"the server sent error {code} or an unexpected answer")
            if self._have - begin < self._reply_bytes:
                break
            self.done_ns[handle] = now
            begin += self._reply_bytes
        if begin:
            self._view[: self._have - begin] = self._view[begin : self._have]
            self._have -= begin
        taken = begin // self._reply_bytes
        self.answered += taken
        return taken

    def close(self) -> None:
        """Say goodbye."""
        self._socket.setblocking(True)
        self.connection.close()


def ask(uri: str, load: OpenLoad, look: Look, every_ns: int, cancelled: threading.Event) -> Answers:
    """Send the requests, and return when all were answered.

    `look` is called at the beginning, at the end, and about each `every_ns` in between. Raises
    WorkloadFailed, and Cancelled when `cancelled` is set.
    """
    due_ns, is_read = drawn(load)
    lane = np.where(is_read, np.cumsum(is_read) % load.connections, load.connections)
    with ExitStack() as open_ones:
        streams: dict[int, _Stream] = {}
        try:
            for number in np.unique(lane).tolist():
                kind = _WRITE if number == load.connections else _READ
                streams[number] = _Stream(uri, load, kind, due_ns[lane == number])
                open_ones.callback(streams[number].close)
            _run(list(streams.values()), look, every_ns, cancelled)
        except (OSError, NbdError) as error:
            raise WorkloadFailed(f"{uri}: {error}") from error
    sent_ns, done_ns = np.zeros_like(due_ns), np.zeros_like(due_ns)
    for number, stream in streams.items():
        sent_ns[lane == number] = stream.sent_ns
        done_ns[lane == number] = stream.done_ns
    return Answers(is_read, due_ns, sent_ns, done_ns)


def drawn(load: OpenLoad) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """When each request is due, in nanoseconds, ascending; whether it reads."""
    random = np.random.default_rng(load.seed)
    gaps_ns = random.exponential(1e9 / load.rate_per_s, load.requests)
    return np.cumsum(gaps_ns).astype(np.int64), random.random(load.requests) < load.read_share


def _run(streams: list[_Stream], look: Look, every_ns: int, cancelled: threading.Event) -> None:
    begun_ns = clock.now().monotonic_ns
    left = sum(len(stream.due_ns) for stream in streams)

    def now_ns() -> int:
        return clock.now().monotonic_ns - begun_ns

    look(0)
    look_ns, heard_ns = every_ns, 0
    while left:
        now = now_ns()
        if now >= look_ns:
            look(now)
            look_ns = now + every_ns
            if cancelled.is_set():
                raise Cancelled("stopped")
            if all(stream.answered == stream.sent for stream in streams):
                heard_ns = now
            if now - heard_ns > _SILENCE_S * 1e9:
                raise WorkloadFailed(f"no answer from the server for {_SILENCE_S:g} s")
        for stream in streams:
            stream.send(now)
            if taken := stream.take(now_ns):
                left -= taken
                heard_ns = now
    look(now_ns())


def _requests(load: OpenLoad, kind: int, count: int, random: np.random.Generator) -> bytes:
    """All requests of a connection, one after the other."""
    heads = np.zeros(count, _HEAD)
    heads["magic"], heads["kind"], heads["length"] = _REQUEST_MAGIC, kind, load.size_bytes
    heads["handle"] = np.arange(count)
    places = max(load.region_bytes // load.size_bytes, 1)
    heads["offset"] = random.integers(0, places, count) * load.size_bytes
    if kind == _READ:
        return heads.tobytes()
    whole = np.empty((count, _HEAD.itemsize + load.size_bytes), np.uint8)
    whole[:, : _HEAD.itemsize] = np.frombuffer(heads.tobytes(), np.uint8).reshape(count, -1)
    # Pieces of content that nothing can compress.
    content = random.integers(0, 256, _CONTENT_BYTES + load.size_bytes, np.uint8)
    for row, begin in enumerate(random.integers(0, _CONTENT_BYTES, count).tolist()):
        whole[row, _HEAD.itemsize :] = content[begin : begin + load.size_bytes]
    return whole.tobytes()
