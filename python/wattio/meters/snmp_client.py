"""Asks one SNMP agent for objects, through pysnmp, in an event loop of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from wattio.meters.credentials import Credentials
from wattio.meters.guard import Guard
from wattio.meters.meter import MeterLost, MeterRefused

AUTHENTICATIONS = {
    "md5": "USM_AUTH_HMAC96_MD5",
    "sha": "USM_AUTH_HMAC96_SHA",
    "sha224": "USM_AUTH_HMAC128_SHA224",
    "sha256": "USM_AUTH_HMAC192_SHA256",
    "sha384": "USM_AUTH_HMAC256_SHA384",
    "sha512": "USM_AUTH_HMAC384_SHA512",
}
"""How version 3 proves who asks, and pysnmp's name for it."""

PRIVACIES = {
    "des": "USM_PRIV_CBC56_DES",
    "aes": "USM_PRIV_CFB128_AES",
    "aes192": "USM_PRIV_CFB192_AES",
    "aes256": "USM_PRIV_CFB256_AES",
}
"""How version 3 encrypts, and pysnmp's name for it."""

# Statuses of an answer that say no, rather than that something went wrong (RFC 3416, section 3).
_NO_SUCH_NAME = 2
_REFUSALS = {_NO_SUCH_NAME: "it has no such object", 6: "no access", 16: "not authorised"}

_RANGES = {"Integer32": 2**31, "Counter64": 2**64}
_RANGE = 2**32


class Count(NamedTuple):
    """What an object says: a number, and after how many counts its type starts again at zero."""

    value: float
    range: int


@dataclass(frozen=True)
class Agent:
    """An agent, and how it is asked. `version` is "1", "2c" or "3"."""

    meter: str
    host: str
    port: int
    version: str
    credentials: Credentials
    authentication: str | None = None
    privacy: str | None = None
    timeout_s: float = 1.0
    retries: int = 1


class Client:
    """Asks an agent. One thread asks; `close` may come from another."""

    def __init__(self, agent: Agent) -> None:
        """Prepare to ask; nothing is sent yet. Raises MeterRefused where a library is missing."""
        self._agent = agent
        self._who = _who(agent)
        self._loop = asyncio.new_event_loop()
        self._guard = Guard(agent.meter, self._release)
        self._engine: Any = None
        self._target: Any = None

    def get(self, oids: Sequence[str]) -> list[Count]:
        """What objects say, in one request. Raises MeterLost, MeterRefused."""
        with self._guard.question():
            return self._ask(oids)

    def close(self) -> None:
        """Let go; a request under way ends by itself first."""
        self._guard.close()

    def _release(self) -> None:
        self._loop.run_until_complete(self._close_engine())
        self._loop.close()

    async def _close_engine(self) -> None:
        if self._engine is not None:
            self._engine.close_dispatcher()
        # Its cancelled timer and closed socket want one more turn of the loop.
        await asyncio.sleep(0)

    def _ask(self, oids: Sequence[str]) -> list[Count]:
        from pysnmp.error import PySnmpError

        meter = self._agent.meter
        try:
            indication, status, index, pairs = self._loop.run_until_complete(self._request(oids))
        except (PySnmpError, OSError) as error:
            self._target = None
            raise MeterLost(f"{meter}: {self._agent.host} cannot be asked: {error}") from None
        if indication is not None:
            raise self._indicated(indication)
        if int(status):
            at = oids[int(index) - 1] if 0 < int(index) <= len(oids) else ", ".join(oids)
            if int(status) in _REFUSALS:
                raise MeterRefused(f"{meter}: {at}: {_REFUSALS[int(status)]}")
            raise MeterLost(f"{meter}: {at}: answers with the error {status.prettyPrint()}")
        if len(pairs) != len(oids):
            raise MeterLost(f"{meter}: answers {len(pairs)} objects of {len(oids)}")
        return [_count(meter, oid, value) for oid, (_, value) in zip(oids, pairs, strict=True)]

    def _request(self, oids: Sequence[str]) -> Coroutine[Any, Any, Any]:
        async def request() -> Any:  # noqa: ANN401 (pysnmp has no types)
            from pysnmp.hlapi.v3arch import asyncio as snmp

            agent = self._agent
            if self._engine is None:
                self._engine = snmp.SnmpEngine()
            if self._target is None:
                kind = snmp.Udp6TransportTarget if ":" in agent.host else snmp.UdpTransportTarget
                self._target = await kind.create(
                    (agent.host, agent.port), timeout=agent.timeout_s, retries=agent.retries
                )
            return await snmp.get_cmd(
                self._engine,
                self._who,
                self._target,
                snmp.ContextData(),
                *(snmp.ObjectType(snmp.ObjectIdentity(oid)) for oid in oids),
                lookupMib=False,
            )

        return request()

    def _indicated(self, indication: Any) -> Exception:  # noqa: ANN401 (pysnmp has no types)
        """What a request that was not answered means."""
        from pysnmp.proto import errind

        agent = self._agent
        place = f"{agent.meter}: {agent.host}:{agent.port}"
        if isinstance(indication, errind.RequestTimedOut | errind.EmptyResponse):
            wait_s = agent.timeout_s * (1 + agent.retries)
            silent = (
                "" if agent.version == "3" else ", or the community is wrong: that is silence too"
            )
            return MeterLost(f"{place} did not answer within {wait_s:g} s{silent}")
        late = errind.NotInTimeWindow | errind.DataMismatch | errind.ParseError
        if isinstance(indication, late):
            return MeterLost(f"{place}: {indication}")
        # What is left is about users, keys, levels of security and views.
        return MeterRefused(f"{place} refuses: {indication}")


def _who(agent: Agent) -> Any:  # noqa: ANN401 (pysnmp has no types)
    """Who asks, as pysnmp wants it."""
    from pysnmp.hlapi.v3arch import asyncio as snmp

    credentials = agent.credentials
    if agent.version != "3":
        return snmp.CommunityData(credentials.community, mpModel=0 if agent.version == "1" else 1)
    if agent.privacy is not None:
        try:
            import cryptography  # noqa: F401
        except ImportError:
            raise MeterRefused(
                f"{agent.meter}: encryption needs the Python package cryptography "
                "(pip install wattio[snmp])"
            ) from None
    proof = AUTHENTICATIONS.get(agent.authentication or "")
    cipher = PRIVACIES.get(agent.privacy or "")
    return snmp.UsmUserData(
        credentials.user or "",
        authKey=credentials.password if proof else None,
        privKey=credentials.privacy_password if cipher else None,
        authProtocol=getattr(snmp, proof) if proof else snmp.USM_AUTH_NONE,
        privProtocol=getattr(snmp, cipher) if cipher else snmp.USM_PRIV_NONE,
    )


def _count(meter: str, oid: str, value: Any) -> Count:  # noqa: ANN401 (pysnmp has no types)
    """A value as a number. Raises MeterRefused where there is none."""
    kind = type(value).__name__
    if kind in ("NoSuchObject", "NoSuchInstance", "EndOfMibView", "Null"):
        raise MeterRefused(f"{meter}: it has no object {oid}")
    if kind == "OctetString":
        return Count(number_of(bytes(value), f"{meter}: {oid}"), 0)
    try:
        return Count(int(value), _RANGES.get(kind, _RANGE))
    except (TypeError, ValueError):
        raise MeterRefused(f"{meter}: {oid} is of the type {kind}, not a number") from None


def number_of(text: bytes, where: str) -> float:
    """A number that an agent writes as text, as some do. Raises MeterLost."""
    try:
        return float(text.decode("ascii").strip())
    except ValueError:
        shown = text[:40].decode("ascii", "backslashreplace")
        raise MeterLost(f'{where} says "{shown}", not a number') from None
