"""How many bytes a TCP connection carries in a while: `serve ADDRESS` or `send ADDRESS SECONDS`."""

from __future__ import annotations

import socket
import sys
import time

PORT = 19999


def serve(address: str) -> None:
    with socket.create_server((address, PORT)) as listener:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        connection, _ = listener.accept()
        received = 0
        with connection:
            while chunk := connection.recv(1 << 20):
                received += len(chunk)
        sys.stdout.write(f"{received}\n")


def send(address: str, seconds: float) -> None:
    chunk = bytes(1 << 18)
    with socket.create_connection((address, PORT)) as connection:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            connection.sendall(chunk)


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(sys.argv[2])
    else:
        send(sys.argv[2], float(sys.argv[3]))
