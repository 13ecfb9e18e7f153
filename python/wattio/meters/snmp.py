"""Rack PDUs, and whatever else says its power or energy over SNMP.

    snmp://COMMUNITY@HOST[:PORT]/OID?unit=W&scale=0.1
    snmp://COMMUNITY@HOST[:PORT]/PROFILE?outlet=3

Profiles are in `snmp_profiles.toml`. More keys: `mark` (an object that moves on with every
measurement), `quantity=energy`, `device` (of a daisy chain), `period`, `lag`, `accuracy`,
`timeout`, `version` (1, 2c or 3), and for version 3 `auth`, `privacy` and `credentials`.
"""

from __future__ import annotations

from dataclasses import replace

from wattio.meters import credentials, snmp_profile
from wattio.meters.credentials import Credentials, credentials_of
from wattio.meters.meter import Facts, FoundMeter, Meter, MeterLost, Reading
from wattio.meters.name import Name, parse
from wattio.meters.sample import EnergyCounter, plausible
from wattio.meters.snmp_client import AUTHENTICATIONS, PRIVACIES, Agent, Client
from wattio.meters.snmp_profile import Target, target_of

SCHEME = "snmp"
FORM = (
    "snmp://COMMUNITY@HOST[:PORT]/PROFILE[?outlet=3] or .../OID?unit=W[&scale=0.1]; "
    "profiles: apc-rpdu2, eaton-epdu, raritan-px2"
)

_KEYS = [
    *snmp_profile.KEYS,
    *credentials.KEYS,
    *("period", "lag", "accuracy", "timeout", "version", "auth", "privacy"),
]
_PORT = 161
_PERIOD_S = 1.0
_TIMEOUT_S = 1.0
_VERSIONS = ["1", "2c", "3"]
# What agents say where they have no reading: all ones, in 31 and 32 bits.
_NO_READING = (2**31 - 1, 2**32 - 1)
# A counter of coarser steps stands still between readings though it lives.
_MARK_STEP_J_MAX = 1.0
_DIGITS_MAX = 9


class SnmpMeter:
    """An open object of an agent."""

    def __init__(self, client: Client, target: Target, facts: Facts) -> None:
        """Ask for the first time. Raises MeterRefused, MeterLost."""
        self._client, self._target = client, target
        self._oids = [target.oid] + ([target.mark] if target.mark else [])
        self._counter: EnergyCounter | None = None
        count = client.get(self._oids).counts[0]
        # How many digits an agent writes as text is not known.
        self._facts = facts if count.range else replace(facts, resolution_w=None)

    @property
    def facts(self) -> Facts:
        """What it says about itself."""
        return self._facts

    def read(self) -> Reading:
        """Power, or energy and the mean power since the reading before."""
        (count, *marks), at = self._client.get(self._oids)
        mark = marks[0].value if marks else None
        name, per_count = self._facts.name, self._target.per_count
        if self._target.unit == "W":
            if count.value in _NO_READING:
                raise MeterLost(f"{name}: reports {count.value:.0f}, which means no reading")
            return Reading(*at, plausible(count.value * per_count, name), mark=mark)
        if count.value < 0 or count.value != int(count.value):
            raise MeterLost(f"{name}: reports {count.value:g}, which is not a count of energy")
        if self._counter is None:
            self._counter = EnergyCounter(name, per_count, count.range)
        power_w, energy_j = self._counter.take(int(count.value), at)
        if mark is None and per_count <= _MARK_STEP_J_MAX:
            mark = energy_j
        return Reading(*at, power_w, energy_j, mark)

    def close(self) -> None:
        """Let go of it."""
        self._client.close()


def find() -> list[FoundMeter]:
    """None: networks are not searched."""
    return []


def open_meter(name: str) -> Meter:
    """Open an object of an agent. Raises InputError, MeterRefused, MeterLost."""
    parts = parse(name)
    parts.allow(_KEYS)
    agent, target = _agent(parts), target_of(parts)
    facts = _facts(parts, target)
    client = Client(agent)
    try:
        if target.digits is not None:
            target = _with_digits(target, client)
            facts = _facts(parts, target)
        return SnmpMeter(client, target, facts)
    except BaseException:
        client.close()
        raise


def _with_digits(target: Target, client: Client) -> Target:
    """The target with the scale that the agent itself states."""
    digits = client.get([target.digits or ""]).counts[0].value
    if not 0 <= digits <= _DIGITS_MAX:
        raise MeterLost(
            f"{target.digits}: reports {digits:g} decimal digits; allowed: 0 to {_DIGITS_MAX}"
        )
    return replace(target, per_count=target.per_count / 10 ** int(digits))


def _facts(parts: Name, target: Target) -> Facts:
    period_s = parts.seconds("period", _PERIOD_S)
    energy = target.unit == "J"
    resolution_w = target.per_count / period_s if energy else target.per_count
    return Facts(
        name=parts.shown,
        what=f"{target.what}, at {parts.host}",
        period_s=period_s,
        resolution_w=resolution_w,
        accuracy_class=parts.query.get("accuracy", "unknown"),
        lag_s=parts.seconds("lag", 0.0),
        counts_energy=energy,
        untried=target.untried,
    )


def _agent(parts: Name) -> Agent:
    if not parts.host:
        raise parts.missing("host", FORM)
    version = parts.query.get("version", "2c")
    if version not in _VERSIONS:
        raise parts.error(f'version: "{version}" is not known; allowed: {", ".join(_VERSIONS)}')
    known = credentials_of(parts)
    authentication, privacy = (
        _versioned_credentials(parts, known) if version == "3" else _no_keys(parts)
    )
    if version != "3":
        known = _community(parts, known)
    return Agent(
        meter=parts.shown,
        host=parts.host,
        port=parts.port or _PORT,
        version=version,
        credentials=known,
        authentication=authentication,
        privacy=privacy,
        timeout_s=parts.seconds("timeout", _TIMEOUT_S),
    )


def _no_keys(parts: Name) -> tuple[None, None]:
    for key in ("auth", "privacy", "password_env"):
        if key in parts.query:
            raise parts.error(f"{key}: needs version=3")
    return None, None


def _community(parts: Name, known: Credentials) -> Credentials:
    """In versions 1 and 2c, what stands before the @ is the community."""
    if parts.password is not None:
        raise parts.error("a community has no password; passwords need version=3")
    community = parts.user or known.community
    if not community:
        raise parts.error("needs a community before the @, or one in ?credentials=FILE")
    return Credentials(community=community)


def _versioned_credentials(parts: Name, known: Credentials) -> tuple[str | None, str | None]:
    """How version 3 proves who asks and encrypts, checked against the passwords at hand."""
    from wattio.files.document import nearest

    methods = []
    for key, allowed in (("auth", AUTHENTICATIONS), ("privacy", PRIVACIES)):
        method = parts.query.get(key)
        if method is not None and method not in allowed:
            raise parts.error(f'{key}: "{method}" is not known; {nearest(method, list(allowed))}')
        methods.append(method)
    authentication, privacy = methods
    if not known.user:
        raise parts.error("version 3 needs a user before the @, or one in ?credentials=FILE")
    if privacy and not authentication:
        raise parts.error("privacy: needs auth= too")
    for method, key, word in (
        (authentication, "password", known.password),
        (privacy, "privacy_password", known.privacy_password),
    ):
        # Shorter ones are not allowed (RFC 3414, section 11.2).
        if method and (word is None or len(word) < 8):
            raise parts.error(f"needs a {key} of 8 characters or more, in ?credentials=FILE")
    return authentication, privacy
