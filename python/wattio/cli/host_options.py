"""Options of commands that reach other machines."""

from __future__ import annotations

import shlex
from typing import Annotated

from cyclopts import Parameter

from wattio.errors import InputError

SshWords = Annotated[str, Parameter(allow_leading_hyphen=True)]
"""Options of ssh in one text, which begins as an option does."""


def ssh_words(text: str) -> tuple[str, ...]:
    """The words of `--ssh`, as a shell would part them. Raises InputError."""
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise InputError(f"--ssh: {error}") from None
