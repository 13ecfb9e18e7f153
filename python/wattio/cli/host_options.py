"""Options of commands that reach other machines."""

from __future__ import annotations

import shlex

from wattio.errors import InputError


def ssh_words(text: str) -> tuple[str, ...]:
    """The words of `--ssh`, as a shell would part them. Raises InputError."""
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise InputError(f"--ssh: {error}") from None
