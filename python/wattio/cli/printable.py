"""Text from outside, made fit for a terminal."""

from __future__ import annotations

_KEPT = frozenset("\n\t")
"""Ends of lines and tabulators, which messages and tables hold on purpose."""


def printable(text: str) -> str:
    """Text in which nothing steers a terminal: what cannot be printed stands as `\\x1b`.

    File names, files' contents, and what meters and servers answer may hold anything: escape
    sequences that clear the screen or change its title, marks that turn the direction of writing,
    bytes that are no text (lone surrogates).
    """
    if text.isprintable():
        return text
    return "".join(c if c in _KEPT or c.isprintable() else _escaped(c) for c in text)


def _escaped(character: str) -> str:
    code = ord(character)
    if character.isspace() and code > 0x7F:  # A space of another width.
        return character
    if 0xDC80 <= code <= 0xDCFF:  # A byte of a file name that is no UTF-8.
        return f"\\x{code - 0xDC00:02x}"
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
