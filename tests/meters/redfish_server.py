"""A Redfish server over HTTPS with sessions, in a thread, that does wrong when it is told to."""

from __future__ import annotations

import base64
import hashlib
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import trustme

SESSIONS = "/redfish/v1/SessionService/Sessions"
USER, PASSWORD = "wattio", "lightning"
METRICS, POWER = "/redfish/v1/Chassis/1/EnvironmentMetrics", "/redfish/v1/Chassis/1/Power"
SENSOR = "/redfish/v1/Chassis/1/Sensors/TotalPower"


def linked(path: str) -> dict[str, str]:
    return {"@odata.id": path}


def chassis(name: str, *resources: str) -> dict[str, Any]:
    path = f"/redfish/v1/Chassis/{name}"
    return {"Id": name, **{resource: linked(f"{path}/{resource}") for resource in resources}}


def collection(*names: str) -> dict[str, Any]:
    return {"Members": [linked(f"/redfish/v1/Chassis/{name}") for name in names]}


@dataclass
class Served:
    """What the server knows and does; tests change it while it runs."""

    folder: Path
    resources: dict[str, Any] = field(default_factory=dict)
    has_sessions: bool = True
    login_status: int | None = None
    status: int | None = None
    body: bytes | None = None
    hangs: threading.Event = field(default_factory=threading.Event)
    tokens: set[str] = field(default_factory=set)
    logins: int = 0
    asked: list[str] = field(default_factory=list)
    port: int = 0
    fingerprint: str = ""

    @property
    def ca(self) -> Path:
        return self.folder / "ca.pem"

    def name(
        self,
        path: str = "",
        user: str = USER,
        password: str = PASSWORD,
        trust: str | None = None,
        query: str = "",
    ) -> str:
        """The name of its meter, with the password in a file."""
        secrets = self.folder / "credentials.toml"
        secrets.touch(mode=0o600)
        secrets.write_text(f'password = "{password}"\n')
        trust = f"&ca={self.ca}" if trust is None else trust
        place = f"redfish://{user}@localhost:{self.port}/{path}"
        return f"{place}?credentials={secrets}{trust}{query}"


class Handler(BaseHTTPRequestHandler):
    """Answers for a `Served`."""

    protocol_version = "HTTP/1.1"
    served: Served

    def _say(self, status: int, content: object = None, **headers: str) -> None:
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _knows(self) -> bool:
        pair = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        basic = not self.served.has_sessions
        known = self.headers.get("X-Auth-Token") in self.served.tokens
        return known or (basic and self.headers.get("Authorization") == f"Basic {pair}")

    def do_POST(self) -> None:
        served = self.served
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not served.has_sessions:
            self._say(404)
        elif served.login_status is not None:
            self._say(served.login_status, {"error": {}})
        elif asked != {"UserName": USER, "Password": PASSWORD}:
            self._say(401)
        else:
            served.logins += 1
            token = f"token-{served.logins}"
            served.tokens.add(token)
            self._say(201, {}, X_Auth_Token=token, Location=f"{SESSIONS}/{served.logins}")

    def do_GET(self) -> None:
        served = self.served
        served.asked.append(self.path)
        if served.hangs.is_set():
            # Says nothing, until the other end gives up.
            self.rfile.read(1)
        elif not self._knows():
            self._say(401)
        elif served.status is not None or served.body is not None:
            self._say(served.status or 200, served.body or b"")
        elif self.path in served.resources:
            self._say(200, served.resources[self.path])
        else:
            self._say(404, {"error": {}})

    def do_DELETE(self) -> None:
        self.served.tokens.discard(self.headers.get("X-Auth-Token", ""))
        self._say(204, b"")

    def log_message(self, *_: object) -> None:
        """Nothing."""


class Server(ThreadingHTTPServer):
    """Does not mind clients that hang up."""

    daemon_threads = True
    block_on_close = False

    def handle_error(self, *_: object) -> None:
        """Nothing."""

    def get_request(self) -> tuple[Any, Any]:
        # A handshake that fails ends its connection, not the server.
        connection, address = super().get_request()
        connection.settimeout(10)
        return connection, address


def rack() -> dict[str, Any]:
    """A chassis whose metrics come from a sensor, with the older resource beside it."""
    return {
        "/redfish/v1/Chassis": collection("1", "Fans"),
        "/redfish/v1/Chassis/1": chassis("1", "EnvironmentMetrics", "Power"),
        "/redfish/v1/Chassis/Fans": chassis("Fans"),
        METRICS: {"PowerWatts": {"Reading": 374.5, "DataSourceUri": SENSOR}},
        SENSOR: {
            "Reading": 375.25,
            "ReadingUnits": "W",
            "ReadingTime": "2026-11-20T19:14:05Z",
            "SensingInterval": "PT3S",
            "Accuracy": 1.5,
        },
        POWER: {"PowerControl": [{"PowerConsumedWatts": 370}, {"PowerConsumedWatts": 120}]},
    }


@contextmanager
def served_redfish(folder: Path) -> Iterator[Served]:
    """Serve `rack()`; `folder` is for certificates and passwords."""
    authority = trustme.CA()
    certificate = authority.issue_cert("localhost")
    served = Served(folder, rack())
    authority.cert_pem.write_to_path(served.ca)
    der = ssl.PEM_cert_to_DER_cert(certificate.cert_chain_pems[0].bytes().decode())
    served.fingerprint = hashlib.sha256(der).hexdigest()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(context)
    handler = type("Bound", (Handler,), {"served": served})
    server = Server(("127.0.0.1", 0), handler)
    # The handshake is made by the thread of each connection, when it first reads.
    server.socket = context.wrap_socket(
        server.socket, server_side=True, do_handshake_on_connect=False
    )
    served.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield served
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
