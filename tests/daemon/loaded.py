"""Real servers in one control group: clients who work them, and their latency told by sources that
can be broken."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Protocol

from ports import free_port

from daemon.running import DEADLINE_S
from daemon.servers import ask_redis, knock, postgres, psql, running

METRIC = "etcd_disk_wal_fsync_duration_seconds"
GARBAGE = bytes(range(256)) * 40
ANSWERED_S = 5.0
"""What a client waits for an answer."""


class Source(Protocol):
    """Where the daemon reads a server's latency, and what breaks it."""

    server: str
    """The server that it tells of."""
    latency: str
    """The configuration's `[latency]`."""
    limit_us: float
    """Some windows are above it and most are not."""

    def hang(self) -> None:
        """Say nothing from now on."""

    def garble(self) -> None:
        """Say what means nothing."""

    def mend(self) -> None:
        """Say what is."""


class Page:
    """etcd's page, or what it answers when it is broken."""

    server = "etcd"
    limit_us = 5_000.0

    def __init__(self, url: str) -> None:
        self._broken: Callable[[BaseHTTPRequestHandler], None] | None = None
        self._mended = threading.Event()
        page = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if page._broken is not None:
                    page._broken(self)
                    return
                with urllib.request.urlopen(f"{url}/metrics", timeout=5) as answer:
                    body = answer.read()
                self.send_response(200)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.handle_error = lambda *_: None  # type: ignore[method-assign]
        place = f"http://127.0.0.1:{self._server.server_address[1]}/metrics"
        self.latency = f'kind = "prometheus"\nurl = "{place}"\nmetric = "{METRIC}"'

    def hang(self) -> None:
        def silence(_: BaseHTTPRequestHandler) -> None:
            self._mended.wait(DEADLINE_S)

        self._mended.clear()
        self._broken = silence

    def garble(self) -> None:
        def garbage(handler: BaseHTTPRequestHandler) -> None:
            handler.send_response(200)
            handler.end_headers()
            handler.wfile.write(GARBAGE)

        self._broken = garbage

    def mend(self) -> None:
        self._broken = None
        self._mended.set()

    def __enter__(self) -> Page:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.mend()
        self._server.shutdown()
        self._server.server_close()


class Statements:
    """What PostgreSQL counts of its statements, by psql, whose lines can be held back."""

    server = "postgresql"
    limit_us = 500.0

    def __init__(self, folder: Path, query: Path) -> None:
        self._mood = folder / "mood"
        self._garbage = folder / "garbage"
        self.script = folder / "told"
        asking = " ".join(psql(folder, "-f", str(query)))
        self.script.write_text(f"""#!/bin/sh
{asking} | while read -r line; do
    case "$(cat {self._mood})" in
        hang) ;;
        garble) cat {self._garbage} ;;
        *) echo "$line" ;;
    esac
done
""")
        self.script.chmod(0o755)
        self.latency = f'kind = "exec"\ncommand = ["{self.script}"]\nuser = "postgres"'

    def __enter__(self) -> Statements:
        self._garbage.write_bytes(GARBAGE)
        self.mend()
        return self

    def __exit__(self, *_: object) -> None:
        self.mend()

    def hang(self) -> None:
        self._mood.write_text("hang")

    def garble(self) -> None:
        self._mood.write_text("garble")

    def mend(self) -> None:
        self._mood.write_text("")


class Clients:
    """Clients of each server, who work as hard as they are told and live through its death."""

    def __init__(self, asks: list[Callable[[], object]]) -> None:
        self.pause_s = 0.02
        self._end = threading.Event()
        self._threads = [threading.Thread(target=self._work, args=(ask,)) for ask in asks]

    def _work(self, ask: Callable[[], object]) -> None:
        while not self._end.wait(self.pause_s):
            with suppress(OSError, AssertionError, ValueError):
                ask()

    def __enter__(self) -> Clients:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        for thread in self._threads:
            thread.join()


class Session:
    """A client's session of psql, begun again where the server ended it."""

    def __init__(self, folder: Path) -> None:
        self._command = psql(folder)
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def ask(self, statement: str) -> None:
        """Sends a statement that returns one row, and waits for it. Raises OSError without one."""
        if self._process is None:
            pipe, quiet = subprocess.PIPE, subprocess.DEVNULL
            self._process = subprocess.Popen(
                self._command, stdin=pipe, stdout=pipe, stderr=quiet, bufsize=0
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        # psql tells an error elsewhere and goes on, also without a connection; so that a line comes
        # either way, it says one of its own, too.
        with suppress(BrokenPipeError):
            self._process.stdin.write(statement.encode() + b"\n\\echo\n")
        answered, _, _ = select.select([self._process.stdout], [], [], ANSWERED_S)
        if not answered or self._process.stdout.readline() in (b"", b"\n"):
            self.__exit__()
            raise ConnectionError("the server did not answer")
        self._process.stdout.readline()


@dataclass
class Server:
    """A server in a control group, that is killed and started again."""

    group: Path
    command: list[str]
    ready: Callable[[], object]

    def __post_init__(self) -> None:
        self._running = ExitStack()
        self.pid = 0

    def __enter__(self) -> Server:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> None:
        """Start it, in the group from the start; ends when it answers."""
        shell = ["sh", "-c", f'echo $$ >"{self.group}/cgroup.procs" && exec "$@"', "sh"]
        quiet = subprocess.DEVNULL
        server = running([*shell, *self.command], self.ready, stdout=quiet, stderr=quiet, cwd="/")
        self.pid = self._running.enter_context(server).pid

    def kill(self) -> None:
        """End all its processes at once."""
        self.signal(signal.SIGKILL)
        self._running.close()

    def signal(self, number: signal.Signals) -> None:
        """To all its processes, the first one first: it starts no others then."""
        for pid in (self.pid, *self.children()):
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def children(self) -> list[int]:
        """The processes that the first one started."""
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children")
        return [int(pid) for pid in children.read_text().split()]


@dataclass
class Loaded:
    """The servers by their names, and their clients."""

    etcd_url: str
    servers: dict[str, Server]
    clients: Clients


@contextmanager
def loaded(group: Path, folder: Path, cluster: Path) -> Iterator[Loaded]:
    """etcd, PostgreSQL, Redis and nginx under the load of their clients."""
    ports = [free_port() for _ in range(4)]
    url, peer = (f"http://127.0.0.1:{port}" for port in ports[:2])
    etcd = ["etcd", "--data-dir", f"{folder}/etcd", "--log-level", "error"]
    etcd += ["--listen-client-urls", url, "--advertise-client-urls", url]
    etcd += ["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer]
    etcd += ["--initial-cluster", f"default={peer}"]
    redis = ["redis-server", "--port", str(ports[2]), "--save", "", "--dir", str(folder)]
    config = folder / "nginx.conf"
    config.write_text(f"""
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/errors;
events {{ }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    server {{ listen 127.0.0.1:{ports[3]}; location / {{ return 200 "ok"; }} }}
}}
""")
    nginx = ["nginx", "-e", f"{folder}/errors", "-c", str(config)]

    def get(place: str, body: bytes | None = None) -> bytes:
        with urllib.request.urlopen(place, body, timeout=5) as answer:
            read: bytes = answer.read()
            return read

    put = json.dumps({"key": "a2V5", "value": "dmFsdWU="}).encode()
    commands = [("SET", "key", "x" * 4096), ("GET", "key")] * 10
    with (
        Server(group, etcd, lambda: get(f"{url}/version")) as first,
        Server(group, *postgres(cluster)) as second,
        Server(group, redis, knock(ports[2])) as third,
        Server(group, nginx, knock(ports[3])) as fourth,
        Session(cluster) as session,
    ):
        subprocess.run(psql(cluster, "-c", TABLE), check=True)
        asks: list[Callable[[], object]] = [
            lambda: get(f"{url}/v3/kv/put", put),
            lambda: get(f"{url}/v3/kv/put", put),
            lambda: session.ask(STATEMENT),
            lambda: ask_redis(ports[2], *commands),
            lambda: get(f"http://127.0.0.1:{ports[3]}/"),
        ]
        servers = {"etcd": first, "postgresql": second, "redis": third, "nginx": fourth}
        with Clients(asks) as clients:
            yield Loaded(url, servers, clients)


TABLE = (
    "CREATE EXTENSION IF NOT EXISTS pg_stat_statements;"
    "CREATE TABLE IF NOT EXISTS entries (key integer PRIMARY KEY, value text)"
)
STATEMENT = (
    "INSERT INTO entries SELECT random() * 1000, repeat('x', 1000)"
    " ON CONFLICT (key) DO UPDATE SET value = excluded.value RETURNING 1;"
)
