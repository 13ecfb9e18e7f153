"""The power that a machine's management controller tells over Redfish (HTTPS).

`redfish://USER@HOST/` is the controller's only chassis that tells power, and
`redfish://USER@HOST/Chassis/ID` a named one. Read is the sensor that `EnvironmentMetrics` takes its
PowerWatts from, else that resource itself, else the first PowerControl of `Power`. The password
comes from `?credentials=FILE` or `?password_env=VARIABLE`. More keys: `ca=FILE` or
`fingerprint=sha256:...` for certificates that no public authority has signed, `insecure=yes` to
believe any, `period`, `lag`, `accuracy`, `timeout`.

Source: DMTF DSP0266 (Redfish specification) and DSP2046 (its resources).
"""

from __future__ import annotations

import re
from typing import NamedTuple

from wattio.meters import credentials, redfish_client
from wattio.meters.credentials import credentials_of
from wattio.meters.meter import (
    Facts,
    FoundMeter,
    Meter,
    MeterAbsent,
    MeterLost,
    MeterRefused,
    Reading,
)
from wattio.meters.name import Name, parse
from wattio.meters.redfish_client import Client, MissingResource, Peer, trust_of
from wattio.meters.redfish_documents import (
    Document,
    Kind,
    accuracy_of,
    interval_s_of,
    link_of,
    members_of,
    power_w_of,
    sensor_of,
    stamp_s_of,
)
from wattio.meters.sample import plausible

SCHEME = "redfish"
FORM = "redfish://USER@HOST[:PORT]/[Chassis/ID]?credentials=FILE[&ca=FILE]"

_KEYS = [
    *credentials.KEYS,
    *redfish_client.KEYS,
    *("period", "lag", "accuracy", "timeout"),
]
_PORT = 443
_PERIOD_S = 1.0
_TIMEOUT_S = 5.0
_CHASSIS = "/redfish/v1/Chassis"
_ID = re.compile(r"Chassis/([!-.0-~]{1,200})/?", re.ASCII)


class Source(NamedTuple):
    """A resource that tells power, and what it said when it was found."""

    kind: Kind
    path: str
    document: Document


class RedfishMeter:
    """An open resource of a controller."""

    def __init__(self, client: Client, source: Source, facts: Facts) -> None:
        """Read what was found."""
        self._client, self._source, self._facts = client, source, facts

    @property
    def facts(self) -> Facts:
        """What it says about itself."""
        return self._facts

    def read(self) -> Reading:
        """The power now; the mark is the time at which the controller read it, where it says so."""
        name, (kind, path, _) = self._facts.name, self._source
        try:
            document, at = self._client.get_stamped(path)
        except MissingResource:
            raise MeterAbsent(f"{name}: {path} no longer exists") from None
        power_w = power_w_of(kind, document)
        if power_w is None:
            raise MeterLost(f"{name}: {path} reports no power now")
        return Reading(*at, plausible(power_w, name), mark=stamp_s_of(document))

    def close(self) -> None:
        """End the session."""
        self._client.close()


def find() -> list[FoundMeter]:
    """None: networks are not searched."""
    return []


def open_meter(name: str) -> Meter:
    """Log in and look for what tells power. Raises InputError, MeterRefused, MeterLost."""
    parts = parse(name)
    parts.allow(_KEYS)
    peer, chassis = _peer(parts), _chassis(parts)
    period_s = parts.seconds("period", _PERIOD_S) if "period" in parts.query else None
    lag_s = parts.seconds("lag", _PERIOD_S) if "lag" in parts.query else None
    client = Client(peer)
    try:
        source = _source(client, peer.meter, chassis)
        interval_s = interval_s_of(source.document)
        period_s = period_s or interval_s or _PERIOD_S
        accuracy = parts.query.get("accuracy") or accuracy_of(source.document) or "unknown"
        facts = Facts(
            name=parts.shown,
            what=f"power by {source.path} at {peer.host}",
            period_s=period_s,
            accuracy_class=accuracy,
            # What is known is as old as half the interval at which it is measured.
            lag_s=(interval_s or 0.0) / 2 if lag_s is None else lag_s,
            untried="hardware, only on a server of its own tests",
        )
        return RedfishMeter(client, source, facts)
    except BaseException:
        client.close()
        raise


def _peer(parts: Name) -> Peer:
    if not parts.host:
        raise parts.missing("host", FORM)
    known = credentials_of(parts)
    if not known.user or known.password is None:
        missing = "password" if known.user else "user"
        raise parts.missing(missing, FORM)
    return Peer(
        meter=parts.shown,
        host=parts.host,
        port=parts.port or _PORT,
        user=known.user,
        password=known.password,
        trust=trust_of(parts),
        timeout_s=parts.seconds("timeout", _TIMEOUT_S),
    )


def _chassis(parts: Name) -> str | None:
    """The path of the chassis that is named."""
    if not parts.path:
        return None
    found = _ID.fullmatch(parts.path)
    if found is None:
        raise parts.error(f'"{parts.path}" is not a chassis; write it as Chassis/ID')
    return f"{_CHASSIS}/{found[1]}"


def _source(client: Client, meter: str, chassis: str | None) -> Source:
    """What tells power: of the chassis that is named, or of the only one that does."""
    try:
        paths = [chassis] if chassis else members_of(client.get(_CHASSIS))
        found = {path: source for path in paths if (source := _source_of(client, path))}
    except MissingResource as error:
        raise MeterRefused(f"{meter}: no such resource: {error}") from None
    if not found:
        what = f"{chassis} reports no power" if chassis else "no chassis reports power"
        raise MeterRefused(f"{meter}: {what}")
    if len(found) > 1:
        names = ", ".join(path.removeprefix("/redfish/v1/").rstrip("/") for path in found)
        raise MeterRefused(f"{meter}: several chassis report power; name one of {names}")
    return next(iter(found.values()))


def _source_of(client: Client, chassis: str) -> Source | None:
    """The best resource of a chassis that tells power now."""
    document = client.get(chassis)
    if (path := link_of(document, "EnvironmentMetrics")) and (metrics := _there(client, path)):
        sensor = sensor_of(metrics)
        sources: list[tuple[Kind, str | None]] = [("Sensor", sensor), ("EnvironmentMetrics", path)]
    else:
        sources = []
    sources.append(("Power", link_of(document, "Power")))
    for kind, place in sources:
        told = _there(client, place) if place else None
        if place and told and power_w_of(kind, told) is not None:
            return Source(kind, place, told)
    return None


def _there(client: Client, path: str) -> Document | None:
    try:
        return client.get(path)
    except MissingResource:
        return None
