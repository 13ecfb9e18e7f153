"""Real servers beside a daemon: from when they answer until the test ends."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from daemon.running import DEADLINE_S

POSTGRES = max(Path("/usr/lib/postgresql").glob("*/bin"), default=Path("/nowhere"))
AS_POSTGRES = ["setpriv", "--reuid", "postgres", "--regid", "postgres", "--clear-groups", "--"]


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


@contextmanager
def postgres_folder() -> Iterator[Path]:
    """A folder with a fresh cluster of PostgreSQL in `data`: tests' own are closed to its user."""
    folder = Path(tempfile.mkdtemp(prefix="postgresql-", dir="/var/tmp"))
    try:
        folder.chmod(0o755)
        data, user = folder / "data", pwd.getpwnam("postgres")
        data.mkdir()
        os.chown(data, user.pw_uid, user.pw_gid)
        command = [*AS_POSTGRES, str(POSTGRES / "initdb"), "-D", str(data), "--auth", "trust"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd="/")
        yield folder
    finally:
        shutil.rmtree(folder)


def postgres(folder: Path, statements: int = 5000) -> tuple[list[str], Callable[[], None]]:
    """The server of a cluster, which counts so many statements, listens in `data`; knocks there."""
    data = folder / "data"
    settings = {
        "listen_addresses": "",
        "unix_socket_directories": str(data),
        "shared_preload_libraries": "pg_stat_statements",
        "pg_stat_statements.max": str(statements),
    }
    command = [*AS_POSTGRES, str(POSTGRES / "postgres"), "-D", str(data)]
    for name, value in settings.items():
        command += ["-c", f"{name}={value}"]

    def ready() -> None:
        """It listens before it has recovered from a kill."""
        asking = psql(folder, "-c", "SELECT 1")
        if subprocess.run(asking, check=False, capture_output=True, timeout=DEADLINE_S).returncode:
            raise ConnectionRefusedError

    return command, ready


def psql(folder: Path, *words: str) -> list[str]:
    """A command that asks the server of a cluster."""
    return ["/usr/bin/psql", "-XAtq", "-h", f"{folder}/data", "-U", "postgres", *words]
