"""What the command line says when something goes wrong: one line, and an exit code."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import select
import stat
import sys
import tempfile
import traceback
from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from cyclopts import CycloptsError
from cyclopts.exceptions import (
    CoercionError,
    MissingArgumentError,
    UnknownCommandError,
    UnknownOptionError,
    UnusedCliTokensError,
)

from wattio.cli import EXIT_BAD_INPUT, EXIT_PROBLEM, EXIT_STOPPED
from wattio.cli.printable import printable
from wattio.errors import Cancelled, HostError, InputError, WattioError, no_room, storage_reason

_LEADING_MINUS = re.compile(r"-(\.?\d|inf|nan)", re.IGNORECASE)
"""How a value begins that is no option, though it begins with a minus."""


_NUMBERS: dict[type | None, str] = {int: "a whole number", float: "a number"}
"""What an option or argument of a type takes, in words."""


def joined(words: Sequence[str]) -> list[str]:
    """Arguments with negative quantities bound to their options: `--span=-1 s`.

    They would be taken for an option otherwise, and what is wrong with them would not be said.
    """
    found: list[str] = []
    for at, word in enumerate(words):
        if word == "--":
            return [*found, *words[at:]]
        previous = found[-1] if found else ""
        bare = previous.startswith("--") and "=" not in previous
        if bare and _LEADING_MINUS.match(word):
            found[-1] = f"{previous}={word}"
        else:
            found.append(word)
    return found


def refuse_unknown(words: Sequence[str], commands: Iterable[str]) -> None:
    """Raise InputError where the first word is no command, or a word cannot be a name."""
    for word in words:
        if "\0" in word:
            raise InputError(f'argument "{word}": holds the character NUL')
    called = words[0] if words else "-"
    known = list(commands)
    if called.startswith("-") or called in known:
        return
    close = get_close_matches(called, known, n=1)
    hint = f'did you mean "{close[0]}"? ' if close else ""
    raise InputError(f'unknown command "{called}"; {hint}allowed: {", ".join(known)}')


def answer(error: Exception) -> int:
    """Say on standard error what went wrong; the exit code."""
    if isinstance(error, CycloptsError):
        return complain(of_arguments(error), EXIT_BAD_INPUT)
    if isinstance(error, Cancelled):
        return complain(str(error) or "stopped", EXIT_STOPPED)
    code = EXIT_PROBLEM if no_room(error) else EXIT_BAD_INPUT
    if isinstance(error, WattioError | HostError | InputError):
        return complain(str(error), code)
    if isinstance(error, BrokenPipeError) and _reader_has_left():
        # Whoever read our output has left (`wattio ... | head`); the interpreter would complain
        # about the same thing once more when it flushes.
        sys.stderr.close()
        return EXIT_PROBLEM
    if isinstance(error, OSError) and _is_of_output(error):
        return complain(f"standard output: {error.strerror}", EXIT_PROBLEM)
    if (reason := storage_reason(error)) is not None:
        # A full disk, a folder that others closed: a file of ours, and no fault to report.
        return complain(reason, code)
    return complain(_unforeseen(error), EXIT_PROBLEM)


def _reader_has_left() -> bool:
    """Whether nobody reads our output any more: a broken pipe may also be one to a child."""
    look = select.poll()
    for stream in (sys.stdout, sys.stderr):
        # Without a stream, or a file behind it, nobody can have left.
        with contextlib.suppress(AttributeError, OSError, ValueError):
            look.register(stream.fileno(), 0)
    return any(state & select.POLLERR for _, state in look.poll(0))


def _is_of_output(error: OSError) -> bool:
    """Whether it was our output that could not be written: such an error names no file."""
    if error.filename is not None:
        return False
    try:
        # Once more, of what is left to be written; without a buffer, nothing is.
        sys.stdout.flush()
        return error.errno == errno.ENOSPC and _is_full(sys.stdout.fileno())
    except OSError as again:
        if again.errno != error.errno:
            return False
        # Given up, as the interpreter would try it once more and complain in words of its own.
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, sys.stdout.fileno())
        os.close(nothing)
        return True
    except ValueError:  # closed, or no file
        return False


def _is_full(file: int) -> bool:
    """Whether nothing more can be written to a file. Raises OSError, as /dev/full does."""
    os.write(file, b"")
    return stat.S_ISREG(os.fstat(file).st_mode) and os.fstatvfs(file).f_bavail == 0


def complain(message: str, code: int) -> int:
    """One message on standard error; the code, for the caller to return."""
    sys.stderr.write(f"wattio: {printable(message)}\n")
    return code


def _unforeseen(error: Exception) -> str:
    """What is said of a fault of ours; where it came from is kept in a file."""
    said = f"{type(error).__name__}: {error}".rstrip(": ")
    text = f"internal error: {said}"
    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="wattio-fault-", suffix=".txt", delete=False, encoding="utf-8"
        ) as file:
            traceback.print_exception(error, file=file)
    except OSError:
        traceback.print_exception(error)
        return text
    return f"{text}; please report it with {file.name}, which says where"


def of_arguments(error: CycloptsError) -> str:
    """What is wrong with the arguments, in one line."""
    command = " ".join(("wattio", *(error.command_chain or ())))
    if isinstance(error, UnknownOptionError):
        return _unknown_option(error, command)
    if isinstance(error, UnusedCliTokensError) and error.unused_tokens:
        words = " ".join(f'"{word}"' for word in error.unused_tokens)
        return f"{words}: {command} takes no more arguments; see {command} --help"
    if isinstance(error, MissingArgumentError) and error.argument is not None:
        name = error.keyword or error.argument.name
        if error.argument.field_info.is_positional:
            name = name.lstrip("-").upper()
        lack = "needs a value" if error.keyword is not None else "is missing"
        return f"{command}: {name} {lack}; see {command} --help"
    if isinstance(error, CoercionError) and error.token and error.target_type in _NUMBERS:
        named = error.argument.name.lstrip("-").upper() if error.argument else command
        given = error.token.keyword or named
        return f'{given}: "{error.token.value}" is not {_NUMBERS[error.target_type]}'
    if isinstance(error, UnknownCommandError | CoercionError):
        return _lower(str(error))
    return f"{_lower(str(error))} See {command} --help"


def _unknown_option(error: UnknownOptionError, command: str) -> str:
    given = (error.token.keyword or error.token.value).split("=")[0]
    names = [name for entry in error.argument_collection if entry.parse for name in entry.names]
    # Without the dashes, which would make any two options look alike.
    bare = {name.lstrip("-"): name for name in names}
    close = get_close_matches(given.lstrip("-"), bare, n=1, cutoff=0.6)
    hint = f"did you mean {bare[close[0]]}? " if close else ""
    return f"unknown option {given}; {hint}{command} --help lists the options"


def _lower(text: str) -> str:
    text = " ".join(text.split())
    return text[:1].lower() + text[1:]
