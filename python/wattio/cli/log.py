"""`--verbose`: what is read, run, opened and made, on standard error, by Python's logging.

Under systemd each line has the priority that the journal knows (`sd-daemon(3)`).
"""

from __future__ import annotations

import logging
import os
import sys

FLAG = "--verbose"

_PRIORITIES = {logging.DEBUG: 7, logging.INFO: 6, logging.WARNING: 4, logging.ERROR: 3}


class _Line(logging.Formatter):
    """A line that no name chosen by others can break or colour."""

    def __init__(self, *, journal: bool) -> None:
        super().__init__(
            "%(name)s: %(message)s" if journal else "%(asctime)s %(name)s: %(message)s"
        )
        self._journal = journal

    def format(self, record: logging.LogRecord) -> str:
        """The record on one line."""
        text = "".join(c if c.isprintable() else " " for c in super().format(record))
        priority = _PRIORITIES.get(record.levelno, 6)
        return f"<{priority}>{text}" if self._journal else text


def taken_from(words: list[str]) -> list[str]:
    """The words of a command line without `--verbose`, which begins logging where it is there."""
    end = words.index("--") if "--" in words else len(words)
    if FLAG not in words[:end]:
        return words
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Line(journal="JOURNAL_STREAM" in os.environ))
    logger = logging.getLogger("wattio")
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    return [word for word in words[:end] if word != FLAG] + words[end:]
