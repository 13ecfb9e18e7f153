"""Where a program runs: on this machine, in a network namespace of it, or on another by ssh."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

from wattio.errors import InputError

LOCAL = "localhost"
NAMESPACE = "netns:"

_NAME = re.compile(r"^[A-Za-z0-9_][A-Za-z0-9_.:@-]*$")


@dataclass(frozen=True)
class Host:
    """A place for programs, by its name: `localhost`, `netns:NAME`, or a host that ssh knows."""

    name: str = LOCAL

    @property
    def remote(self) -> bool:
        """Whether programs are run by ssh."""
        return self.name != LOCAL and not self.name.startswith(NAMESPACE)

    def arguments(self, words: tuple[str, ...]) -> tuple[str, ...]:
        """What to run here so that these words run there."""
        if self.name == LOCAL:
            return words
        if self.name.startswith(NAMESPACE):
            namespace = self.name.removeprefix(NAMESPACE)
            # `ip netns exec` would change the mount namespace as well and hide FUSE mounts.
            return ("nsenter", f"--net=/run/netns/{namespace}", "--", *words)
        return ("ssh", "-o", "BatchMode=yes", "--", self.name, shlex.join(words))


def parse(text: str) -> Host:
    """A host by its name. Raises InputError for what is not a name."""
    name = text.removeprefix(NAMESPACE)
    # What begins with a dash would be an option to ssh and others.
    if not _NAME.match(name):
        raise InputError(
            f'"{text}" is not a host: allowed are {LOCAL}, {NAMESPACE}NAME, and names of hosts'
        )
    return Host(text)
