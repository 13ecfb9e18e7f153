"""Asks one SNMP agent for objects, through pysnmp, in an event loop of its own."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from wattio import clock
from wattio.clock import Instant
from wattio.errors import needed
from wattio.meters.credentials import Credentials
from wattio.meters.guard import Guard
from wattio.meters.meter import MeterAbsent, MeterLost, MeterRefused
from wattio.meters.sample import midway

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
_REFUSALS = {_NO_SUCH_NAME: "no such object", 6: "no access", 16: "not authorised"}

# Types of numbers, and after how many counts each starts again at zero.
_RANGES = {
    **dict.fromkeys(("Integer", "Integer32"), 2**31),
    **dict.fromkeys(("Counter32", "Gauge32", "Unsigned32", "TimeTicks"), 2**32),
    "Counter64": 2**64,
}


_NUMBER = re.compile(rb"\s*-?[0-9]{1,20}(\.[0-9]{0,20})?\s*")


class Count(NamedTuple):
    """What an object says: a number, and after how many counts its type starts again at zero."""

    value: float
    range: int


class Answer(NamedTuple):
    """What objects say, and when: halfway between the question and the answer."""

    counts: list[Count]
    at: Instant


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

    def get(self, oids: Sequence[str]) -> Answer:
        """What objects say, in one request. Raises MeterLost, MeterRefused."""
        with self._guard.question():
            # Retries are made here, so that the stamps are those of the request that was answered.
            for _ in range(self._agent.retries):
                try:
                    return self._ask(oids)
                except MeterLost:
                    self._begin_anew()
            return self._ask(oids)

    def close(self) -> None:
        """Let go; a request under way ends by itself first."""
        self._guard.close()

    def _release(self) -> None:
        self._loop.run_until_complete(self._close_engine())
        self._loop.close()

    def _begin_anew(self) -> None:
        """Forget an agent of version 3: one that restarts may have another identity."""
        if self._agent.version == "3":
            self._loop.run_until_complete(self._close_engine())

    async def _close_engine(self) -> None:
        if self._engine is not None:
            self._engine.close_dispatcher()
            self._engine = None
        # Its cancelled timer and closed socket want one more turn of the loop.
        await asyncio.sleep(0)

    def _ask(self, oids: Sequence[str]) -> Answer:
        from pysnmp.error import PySnmpError

        meter, before = self._agent.meter, clock.now()
        try:
            indication, status, index, pairs = self._loop.run_until_complete(self._request(oids))
        except (PySnmpError, OSError) as error:
            self._target = None
            raise MeterLost(
                f"{meter}: {self._agent.host} cannot be queried: {_why(error)}"
            ) from None
        at = midway(before, clock.now())
        if indication is not None:
            raise self._indicated(indication)
        if int(status):
            oid = oids[int(index) - 1] if 0 < int(index) <= len(oids) else ", ".join(oids)
            if int(status) in _REFUSALS:
                raise MeterRefused(f"{meter}: {oid}: {_REFUSALS[int(status)]}")
            raise MeterLost(f"{meter}: {oid}: answered with error {status.prettyPrint()}")
        if len(pairs) != len(oids):
            raise MeterLost(f"{meter}: answered {len(pairs)} of {len(oids)} objects")
        counts = [_count(meter, oid, value) for oid, (_, value) in zip(oids, pairs, strict=True)]
        return Answer(counts, at)

    def _request(self, oids: Sequence[str]) -> Coroutine[Any, Any, Any]:
        async def request() -> Any:  # noqa: ANN401 (pysnmp has no types)
            from pysnmp.hlapi.v3arch import asyncio as snmp

            agent = self._agent
            if self._engine is None:
                self._engine = snmp.SnmpEngine()
            if self._target is None:
                kind = snmp.Udp6TransportTarget if ":" in agent.host else snmp.UdpTransportTarget
                self._target = await kind.create(
                    (agent.host, agent.port), timeout=agent.timeout_s, retries=0
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
                ""
                if agent.version == "3"
                else ", or the community is wrong (agents ignore it then)"
            )
            return MeterLost(f"{place} did not answer within {wait_s:g} s{silent}")
        # An agent that was started anew counts its time from zero, and may be another engine.
        anew = errind.NotInTimeWindow | errind.UnknownEngineID | errind.EngineIDMismatch
        if isinstance(indication, anew | errind.DataMismatch | errind.ParseError):
            return MeterLost(f"{place}: {indication}")
        # What is left is about users, keys, levels of security and views.
        return MeterRefused(f"{place} refused: {indication}")


def _who(agent: Agent) -> Any:  # noqa: ANN401 (pysnmp has no types)
    """Who asks, as pysnmp wants it."""
    try:
        from pysnmp.hlapi.v3arch import asyncio as snmp
    except ImportError:
        raise MeterRefused(f"{agent.meter}: {needed('meters')}") from None
    credentials = agent.credentials
    if agent.version != "3":
        return snmp.CommunityData(credentials.community, mpModel=0 if agent.version == "1" else 1)
    if agent.privacy is not None:
        try:
            import cryptography  # noqa: F401
        except ImportError:
            raise MeterRefused(f"{agent.meter}: encryption {needed('meters')}") from None
    proof = AUTHENTICATIONS.get(agent.authentication or "")
    cipher = PRIVACIES.get(agent.privacy or "")
    return snmp.UsmUserData(
        credentials.user or "",
        authKey=credentials.password if proof else None,
        privKey=credentials.privacy_password if cipher else None,
        authProtocol=getattr(snmp, proof) if proof else snmp.USM_AUTH_NONE,
        privProtocol=getattr(snmp, cipher) if cipher else snmp.USM_PRIV_NONE,
    )


def _why(error: BaseException) -> str:
    """What the system said; pysnmp wraps it into the names of its own classes."""
    inner = error.__cause__ or error.__context__
    if isinstance(inner, OSError) and inner.strerror:
        return inner.strerror
    return str(error).split(" caused by ")[0]


def _count(meter: str, oid: str, value: Any) -> Count:  # noqa: ANN401 (pysnmp has no types)
    """A value as a number. Raises MeterRefused where there is none."""
    kind = type(value).__name__
    if kind in ("NoSuchObject", "NoSuchInstance", "EndOfMibView", "Null"):
        raise MeterAbsent(f"{meter}: {oid}: no such object")
    if kind == "OctetString":
        return Count(number_of(bytes(value), f"{meter}: {oid}"), 0)
    if kind not in _RANGES:
        raise MeterRefused(f"{meter}: {oid}: has type {kind}, not a number")
    return Count(int(value), _RANGES[kind])


def number_of(text: bytes, where: str) -> float:
    """A number that an agent writes as text, as some do. Raises MeterLost."""
    if _NUMBER.fullmatch(text):
        return float(text)
    shown = text[:40].decode("ascii", "backslashreplace")
    raise MeterLost(f'{where}: reports "{shown}", not a number')
