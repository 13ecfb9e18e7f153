"""Launchers of MPI ranks, each by its own options: one module for each, all of one shape.

    NAME, GET                        # what it is called; how to get it
    LIBRARIES                        # the names of its MPI's library, where it belongs to one
    def knows(version)               # whether it is the one that answers --version like this
    def serves(libraries)            # whether a program with these libraries is one for it
    def arguments(job)               # the words before the program's own
    def environment(job)             # variables that it reads
    def keeps_in(folder)             # variables that have it keep its own files in a folder

The study's own options come last, and what they set is left to them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

LOCAL = "localhost"


@dataclass(frozen=True)
class Job:
    """What a launcher is asked for.

    `hosts` are the ranks of each host, in the order in which they are numbered; it is empty where
    all are on this machine, whose name is `here`. `reach` are the words of the ssh that reaches
    hosts, where it is not the usual one. `carried` are variables that ranks on other hosts need.
    `folder` is for files of the launcher. `yields`: ranks that wait leave the core to others, and
    do not look for fast networks where they are on one host. `as_root`: root starts them.
    """

    ranks: int
    folder: Path
    hosts: Mapping[str, int] = field(default_factory=dict)
    given: Sequence[str] = ()
    carried: Sequence[str] = ()
    here: str = LOCAL
    reach: Sequence[str] = ()
    yields: bool = False
    as_root: bool = False

    def unless_given(self, *words: str) -> list[str]:
        """An option with its value, unless the study sets it."""
        name = words[0].partition("=")[0]
        given = any(one.partition("=")[0] == name for one in self.given)
        return [] if given else list(words)


class Launcher(Protocol):
    """What a module of this package is."""

    @property
    def NAME(self) -> str:  # noqa: N802 (a constant of a module)
        """What people call it."""

    @property
    def GET(self) -> str:  # noqa: N802 (a constant of a module)
        """How to get it."""

    @property
    def LIBRARIES(self) -> tuple[str, ...]:  # noqa: N802 (a constant of a module)
        """Names of the library of its MPI; none where it starts more than one."""

    def knows(self, version: str) -> bool:
        """Whether it is the one that says this about its version."""

    def serves(self, libraries: str) -> bool:
        """Whether programs that load these libraries (as `ldd` prints them) are for it."""

    def arguments(self, job: Job) -> list[str]:
        """The words between the launcher and the program."""

    def environment(self, job: Job) -> dict[str, str]:
        """Variables that it, or its MPI, reads."""

    def keeps_in(self, folder: Path) -> dict[str, str]:
        """Variables that have it keep files of its own in a folder."""
