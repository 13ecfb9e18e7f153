"""Ports for servers that tests start."""

from __future__ import annotations

import socket


def free_port() -> int:
    """A port of this machine that nobody listens on, and that nobody is given for a minute.

    The server whose it is has to set SO_REUSEADDR, as nearly all do: so it may listen where a
    connection has just ended, and the kernel chooses no such port for anybody else.
    """
    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        port: int = listening.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)):
            # Who ends a connection first keeps its port for a minute.
            listening.accept()[0].close()
    return port
