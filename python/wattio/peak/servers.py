"""The other end of the network: an iperf3 server that runs already, or one of our own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from wattio.errors import Cancelled, HostError, InputError, WorkloadFailed
from wattio.peak import hosts, network
from wattio.peak.hosts import LOCAL, NAMESPACE, Host
from wattio.peak.programs import Programs
from wattio.workloads import processes

LOOPBACK = "loopback"
START_S = 10.0
"""How long our own server may take to listen."""

_LOOK_S = 0.02


@dataclass(frozen=True)
class Server:
    """An end of the network by its name: `loopback`, `netns:NAME`, or a host with `iperf3 -s`."""

    name: str
    host: Host
    own: bool
    port: int = network.PORT


def parse(text: str) -> Server:
    """A server from its name, with a port behind a colon. Raises InputError for what is none."""
    name, port = _split_port(text)
    if name == LOOPBACK:
        return Server(name, Host(LOCAL), own=True, port=port)
    return Server(name, hosts.parse(name), own=name.startswith(NAMESPACE), port=port)


def _split_port(text: str) -> tuple[str, int]:
    name, colon, port = text.rpartition(":")
    # One colon is a port's, more are an IPv6 address.
    if not colon or ":" in name.removeprefix(NAMESPACE) or name + colon == NAMESPACE:
        return text, network.PORT
    if not port.isascii() or not port.isdigit() or not 0 < int(port[:6]) < 65536:
        raise InputError(f'"{text}": "{port}" is not a port; allowed: 1 to 65535')
    return name, int(port)


@contextmanager
def serving(server: Server, programs: Programs) -> Iterator[tuple[str, int]]:
    """Address and port of a server; one of our own runs as long as the `with` block.

    Raises WorkloadFailed where it does not come up, Cancelled where the work is stopped meanwhile.
    """
    if not server.own:
        yield server.host.name.rpartition("@")[2], server.port
        return
    if server.name == LOOPBACK:
        address = "127.0.0.1"
    else:
        address = network.first_address(programs.say(server.host, network.addresses()))
    ours = _Own(server, programs)
    try:
        ours.wait(programs.cancelled, time.monotonic)
        yield address, server.port
    finally:
        ours.end()


class _Own:
    """Our server, run by a thread that waits for it to end."""

    def __init__(self, server: Server, programs: Programs) -> None:
        self._program = programs.program(server.host, network.server(server.port))
        self._name = server.name
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            processes.run_all([self._program], self._stop)
        except (Cancelled, WorkloadFailed, HostError):
            return  # told to end, or failed: `wait` and the client's own error say what is wrong

    def wait(self, cancelled: threading.Event, now_s: Callable[[], float]) -> None:
        deadline_s = now_s() + START_S
        while not self._listens():
            if not self._thread.is_alive() or now_s() > deadline_s:
                said = processes.last_words(self._program.err, self._program.out)
                raise WorkloadFailed(f"iperf3's server on {self._name} did not start: {said}")
            if cancelled.wait(_LOOK_S):
                raise Cancelled("iperf3 was stopped")

    def _listens(self) -> bool:
        out = self._program.out
        return out.exists() and network.LISTENING in out.read_text("utf-8", errors="replace")

    def end(self) -> None:
        self._stop.set()
        self._thread.join()
