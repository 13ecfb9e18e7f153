"""Asks one Redfish server for resources over HTTPS, by the standard library alone."""

from __future__ import annotations

import base64
import hashlib
import http.client
import json
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from wattio import clock
from wattio.clock import Instant
from wattio.meters.guard import Guard
from wattio.meters.meter import MeterLost, MeterRefused
from wattio.meters.name import Name
from wattio.meters.sample import midway

KEYS = ["ca", "fingerprint", "insecure"]
"""The keys of a name's query that say which certificates are trusted."""

_SESSIONS = "/redfish/v1/SessionService/Sessions"
_ANSWER_BYTES_MAX = 4 * 2**20
_TOKEN = re.compile(r"[!-~]{1,4096}", re.ASCII)
_SHA256 = re.compile(r"(?:sha256:?)?((?:[0-9a-f]{2}:?){31}[0-9a-f]{2})", re.I | re.ASCII)


class MissingResource(Exception):  # noqa: N818 (what happened, not a fault)
    """The server has no such resource."""


@dataclass(frozen=True)
class Trust:
    """Which certificate is believed: by authorities, by a fingerprint, or any."""

    context: ssl.SSLContext
    fingerprint: str | None = None


@dataclass(frozen=True)
class Peer:
    """A server, and who asks."""

    meter: str
    host: str
    port: int
    user: str
    password: str = field(repr=False)
    trust: Trust
    timeout_s: float


class Answer(NamedTuple):
    """What the server answered, and when: halfway between question and answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    at: Instant


def trust_of(parts: Name) -> Trust:
    """Which certificates a name trusts. Raises InputError."""
    given = [key for key in KEYS if key in parts.query]
    if len(given) > 1:
        raise parts.error(f"{' and '.join(given)}: give only one of them")
    context = ssl.create_default_context()
    if "ca" in parts.query:
        try:
            context = ssl.create_default_context(cafile=parts.query["ca"])
        except OSError as error:
            why = "holds no certificate" if isinstance(error, ssl.SSLError) else error.strerror
            raise parts.error(f"ca: {parts.query['ca']}: {why}") from None
    if "insecure" in parts.query and parts.query["insecure"] != "yes":
        raise parts.error('insecure: allowed: "yes"; leave it out to have certificates checked')
    fingerprint = None
    if "fingerprint" in parts.query:
        found = _SHA256.fullmatch(parts.query["fingerprint"])
        if found is None:
            raise parts.error("fingerprint: must be sha256: and 64 hexadecimal digits")
        fingerprint = found[1].replace(":", "").lower()
    if "insecure" in parts.query or fingerprint is not None:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return Trust(context, fingerprint)


class Client:
    """Asks a server. One thread asks; `close` may come from another."""

    def __init__(self, peer: Peer) -> None:
        """Prepare to ask; nothing is sent yet."""
        self._peer = peer
        self._guard = Guard(peer.meter, self._release)
        self._connection: http.client.HTTPSConnection | None = None
        self._authority: dict[str, str] = {}
        self._session: str | None = None

    def get(self, path: str) -> dict[str, Any]:
        """A resource. Raises MissingResource, MeterLost, MeterRefused."""
        return self.get_stamped(path)[0]

    def get_stamped(self, path: str) -> tuple[dict[str, Any], Instant]:
        """A resource, and when it was told. Raises MissingResource, MeterLost, MeterRefused."""
        with self._guard.question():
            if not self._authority:
                self._log_in()
            answer = self._exchange("GET", path)
            if answer.status == 401 and "X-Auth-Token" in self._authority:
                # Sessions end by themselves after a while.
                self._log_in()
                answer = self._exchange("GET", path)
            return self._document(path, answer), answer.at

    def close(self) -> None:
        """Let go; a question under way ends by itself first."""
        self._guard.close()

    def _release(self) -> None:
        # Controllers have few sessions, and keep those that nobody ends.
        try:
            if self._session is not None:
                self._exchange("DELETE", self._session)
        except (MeterLost, MeterRefused):
            pass
        finally:
            self._drop()

    def _log_in(self) -> None:
        peer = self._peer
        self._authority, self._session = {}, None
        body = json.dumps({"UserName": peer.user, "Password": peer.password}).encode()
        answer = self._exchange("POST", _SESSIONS, body)
        token = answer.headers.get("x-auth-token", "")
        if answer.status in (200, 201) and _TOKEN.fullmatch(token):
            self._authority = {"X-Auth-Token": token}
            place = urlsplit(answer.headers.get("location", "")).path
            self._session = place if _TOKEN.fullmatch(place) else None
        elif answer.status in (404, 405, 501):
            pair = base64.b64encode(f"{peer.user}:{peer.password}".encode()).decode()
            self._authority = {"Authorization": f"Basic {pair}"}
        elif b"SessionLimitExceeded" in answer.body or answer.status >= 500:
            raise MeterLost(f"{peer.meter}: grants no session now (HTTP {answer.status})")
        else:
            raise MeterRefused(
                f"{peer.meter}: refused the login of {peer.user} (HTTP {answer.status}): "
                "wrong user or password"
            )

    def _document(self, path: str, answer: Answer) -> dict[str, Any]:
        meter, status = self._peer.meter, answer.status
        if status == 404:
            raise MissingResource(path)
        if status in (401, 403):
            raise MeterRefused(
                f"{meter}: {path}: HTTP {status}: wrong user or password, or no right to read this"
            )
        if 300 <= status < 500 and status not in (408, 429):
            raise MeterRefused(f"{meter}: {path}: HTTP {status}")
        if status != 200:
            raise MeterLost(f"{meter}: {path}: HTTP {status}")
        try:
            document = json.loads(answer.body)
        except (ValueError, RecursionError):
            document = None
        if not isinstance(document, dict):
            raise MeterLost(f"{meter}: {path}: the answer is not a JSON object")
        return document

    def _exchange(self, method: str, path: str, body: bytes | None = None) -> Answer:
        """One request and its answer; once more where a kept connection had been closed."""
        kept = self._connection is not None
        try:
            return self._exchange_once(method, path, body)
        except (http.client.HTTPException, ConnectionError) as error:
            self._drop()
            if not kept:
                raise self._lost(error) from None
        except OSError as error:
            self._drop()
            raise self._lost(error) from None
        try:
            return self._exchange_once(method, path, body)
        except (http.client.HTTPException, OSError) as error:
            self._drop()
            raise self._lost(error) from None

    def _exchange_once(self, method: str, path: str, body: bytes | None) -> Answer:
        connection = self._connected()
        headers = {"Accept": "application/json", "OData-Version": "4.0", **self._authority}
        if body is not None:
            headers["Content-Type"] = "application/json"
        before = clock.now()
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        text = response.read(_ANSWER_BYTES_MAX + 1)
        if len(text) > _ANSWER_BYTES_MAX:
            raise http.client.HTTPException("the answer is too long")
        known = {key.lower(): value for key, value in response.getheaders()}
        return Answer(response.status, known, text, midway(before, clock.now()))

    def _connected(self) -> http.client.HTTPSConnection:
        if self._connection is not None:
            return self._connection
        peer = self._peer
        connection = http.client.HTTPSConnection(
            peer.host, peer.port, timeout=peer.timeout_s, context=peer.trust.context
        )
        try:
            connection.connect()
        except ssl.SSLCertVerificationError as error:
            raise MeterRefused(
                f"{peer.meter}: its certificate is not trusted: {error.verify_message}; "
                f"compare its fingerprint {self._seen()} with the machine's own and add "
                "?fingerprint=, or the authority's certificate by ?ca=FILE"
            ) from None
        wanted = peer.trust.fingerprint
        if wanted is not None and (seen := _sha256(connection.sock)) != wanted:
            connection.close()
            raise MeterRefused(f"{peer.meter}: its certificate has a different fingerprint: {seen}")
        self._connection = connection
        return connection

    def _seen(self) -> str:
        """The fingerprint of the certificate that was not trusted; nothing else is sent."""
        peer = self._peer
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        probe = http.client.HTTPSConnection(
            peer.host, peer.port, timeout=peer.timeout_s, context=context
        )
        try:
            probe.connect()
            return f"sha256:{_sha256(probe.sock)}"
        except OSError:
            return "(not seen)"
        finally:
            probe.close()

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _lost(self, error: Exception) -> MeterLost:
        peer = self._peer
        if isinstance(error, TimeoutError):
            return MeterLost(f"{peer.meter}: did not answer within {peer.timeout_s:g} s")
        words = getattr(error, "strerror", None) or str(error) or type(error).__name__
        return MeterLost(f"{peer.meter}: {peer.host}:{peer.port}: {words}")


def _sha256(socket: Any) -> str:  # noqa: ANN401 (http.client does not say that it is encrypted)
    """The fingerprint of the certificate at the other end."""
    return hashlib.sha256(socket.getpeercert(binary_form=True) or b"").hexdigest()
