"""How a meter's user and password are found: in its name, a file, or the environment.

    ?credentials=FILE        TOML of at most `user`, `password`, `community`, `privacy_password`,
                             that nobody else may read
    ?password_env=VARIABLE   the environment variable that holds the password

Names end up in study files and on screens, so a password in one is possible, but not the way.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from wattio.errors import InputError
from wattio.meters.name import Name

KEYS = ["credentials", "password_env"]
"""The keys of a name's query that this module reads."""


@dataclass(frozen=True)
class Credentials:
    """Who asks; what is not given is None. Secrets are left out of its text."""

    user: str | None = None
    password: str | None = field(default=None, repr=False)
    community: str | None = field(default=None, repr=False)
    privacy_password: str | None = field(default=None, repr=False)


def credentials_of(parts: Name, environment: Mapping[str, str] | None = None) -> Credentials:
    """Find what a name says, then its file, then the environment. Raises InputError."""
    environment = os.environ if environment is None else environment
    stored = _read(parts) if "credentials" in parts.query else {}
    password = parts.password if parts.password is not None else stored.get("password")
    variable = parts.query.get("password_env")
    if variable is not None:
        if password is not None:
            raise parts.error("has both a password and password_env; give one of them")
        if variable not in environment:
            raise parts.error(f"password_env: the environment variable {variable} is not set")
        password = environment[variable]
    return Credentials(
        user=parts.user if parts.user is not None else stored.get("user"),
        password=password,
        community=stored.get("community"),
        privacy_password=stored.get("privacy_password"),
    )


def _read(parts: Name) -> dict[str, str]:
    """The file's keys and texts. Messages hold no values: they are secret."""
    from wattio.files import document

    known = list(Credentials.__dataclass_fields__)
    path = Path(parts.query["credentials"]).expanduser()
    content = document.read(path)
    if path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise InputError(f"{path}: others may read it; keep it to yourself: chmod 600 {path}")
    for key, value in content.content.items():
        if key not in known:
            raise content.error((key,), f"unknown key; {document.nearest(key, known)}")
        if not isinstance(value, str):
            raise content.error((key,), "must be text")
    return dict(content.content)
