"""Real servers beside a daemon: from when they answer until the test ends."""

from __future__ import annotations

import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

from daemon.running import DEADLINE_S


def free_port() -> int:
    """A port that nobody listens on."""
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def running(
    command: list[str], ready: Callable[[], object], **more: object
) -> Iterator[subprocess.Popen[bytes]]:
    """A server, from when `ready` raises no OSError."""
    with subprocess.Popen(command, **more) as process:  # type: ignore[call-overload]
        try:
            deadline = time.monotonic() + DEADLINE_S
            while True:
                assert process.poll() is None, f"{command[0]} ended"
                try:
                    ready()
                    break
                except OSError:
                    assert time.monotonic() < deadline, f"{command[0]} does not answer"
                    threading.Event().wait(0.05)
            yield process
        finally:
            process.terminate()
            process.wait(DEADLINE_S)


def knock(port: int) -> Callable[[], None]:
    """Connects, and raises OSError where nobody listens."""
    return lambda: socket.create_connection(("127.0.0.1", port)).close()


def command_of(*words: str) -> bytes:
    """A command of Redis's protocol."""
    head = f"*{len(words)}\r\n"
    return (head + "".join(f"${len(word)}\r\n{word}\r\n" for word in words)).encode()


def ask_redis(port: int, *commands: tuple[str, ...]) -> None:
    """Some commands over one connection, each of which must succeed."""
    with socket.create_connection(("127.0.0.1", port)) as line, line.makefile("rwb") as stream:
        for words in commands:
            stream.write(command_of(*words))
            stream.flush()
            answer = stream.readline()
            assert answer[:1] in b"+$", answer
            if answer.startswith(b"$"):
                stream.read(int(answer[1:]) + 2)
