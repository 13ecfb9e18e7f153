"""Names of meters taken apart, and shown without what must stay secret.

    SCHEME:PATH?KEY=VALUE&...
    SCHEME://USER:PASSWORD@HOST:PORT/PATH?KEY=VALUE&...

User, password, values and the paths of files are percent-decoded; other paths are taken as they are
written.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import parse_qsl, unquote, urlsplit

from wattio._core import parse_quantity
from wattio.errors import InputError

_SECRET_VALUE = re.compile(r"(?i)([?&][^=&]*(?:password|community|secret)=)[^&]*")
# The community that devices are delivered with is no secret, and worth seeing.
_KNOWN_COMMUNITY = "public"
_HIDDEN = "***"

OF_FILES = ("csv", "parquet", "estimate")
"""Schemes whose path is that of a file."""

_IN_NAMES = re.compile(r"[%#?\x00-\x1f]")
"""What a path cannot have in a name as it is."""


@dataclass(frozen=True)
class Name:
    """The parts of a meter's name; what is not there is None. `shown` has no secret in it."""

    shown: str
    user: str | None
    password: str | None
    host: str | None
    port: int | None
    path: str
    query: Mapping[str, str]

    def error(self, message: str) -> InputError:
        """An InputError that says which meter."""
        return InputError(f'meter "{self.shown}": {message}')

    def missing(self, what: str, form: str) -> InputError:
        """An InputError that says what the name needs."""
        return self.error(f"no {what} given; write {form}")

    def allow(self, keys: Sequence[str]) -> None:
        """Raise InputError for a key of the query that is none of these."""
        from wattio.files.document import nearest

        for key in self.query:
            if key not in keys:
                raise self.error(f'unknown key "{key}"; {nearest(key, keys)}')

    def seconds(self, key: str, default: float) -> float:
        """A span of time of the query, in seconds, above zero. Raises InputError."""
        if key not in self.query:
            return default
        try:
            value = parse_quantity(self.query[key], "time")
        except InputError as error:
            raise self.error(f"{key}: {error}") from None
        if not 0 < value < float("inf"):
            raise self.error(f"{key}: is {self.query[key]}; must be above 0")
        return value


def parse(name: str) -> Name:
    """Take a name apart. Raises InputError where that cannot be done."""
    shown = public_name(name)
    if "#" in name:
        raise InputError(f'meter "{shown}": holds a "#"; write it as %23')
    try:
        parts = urlsplit(name)
        port = parts.port
        query = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=True))
    except ValueError as error:
        # An empty query is no error of the user's, though it is none that can be parsed.
        if name.endswith("?"):
            return parse(name[:-1])
        # What urllib says can repeat the name, and with it the password.
        detail = (
            "its port is not a number from 1 to 65535" if "ort" in str(error) else "is malformed"
        )
        raise InputError(f'meter "{shown}": {detail}; see wattio meter list') from None
    user = unquote(parts.username) if parts.username is not None else None
    password = unquote(parts.password) if parts.password is not None else None
    path = parts.path.removeprefix("/") if parts.netloc else parts.path
    if parts.scheme in OF_FILES:
        path = unquote(path, errors="surrogateescape")
    texts = (name, user or "", password or "", path, *query, *query.values())
    if any("\0" in text for text in texts):
        raise InputError(f'meter "{shown}": holds the character NUL')
    return Name(shown, user, password, parts.hostname, port, path, query)


def of_file(scheme: str, path: str) -> str:
    """The name of a meter that is a file: what has a meaning in names is percent-encoded."""
    return f"{scheme}:{_IN_NAMES.sub(lambda found: f'%{ord(found[0]):02X}', path)}"


def public_name(name: str) -> str:
    """A name as it may be shown and stored: passwords and communities are hidden. Never raises."""
    scheme, start, rest = (
        re.split(r"(:/{0,2})", name, maxsplit=1) if ":" in name else (name, "", "")
    )
    owner, at, place = rest.rpartition("@")
    if at:
        user, colon, _ = owner.partition(":")
        versioned = re.search(r"[?&]version=3(&|$)", place) is not None
        if scheme == "snmp" and not versioned and owner != _KNOWN_COMMUNITY:
            user, colon = _HIDDEN, ""
        name = f"{scheme}{start}{user}{f':{_HIDDEN}' if colon else ''}@{place}"
    return _SECRET_VALUE.sub(rf"\g<1>{_HIDDEN}", name)
