"""What a storage system under test is: the shape that every one has.

    class Options(Strict)            # pydantic; what a study file may say
    class Storage                    # implements System; Storage(options, scratch)

The runner calls `probe`, `deploy`, `start`, `mount`, `verify_mount`, `describe`, and on every way
out `unmount`, `stop`, `clean`, each of which may be called again, and after a half-done step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Protocol, runtime_checkable

from wattio.hosts.hosts import Hosts
from wattio.workloads.workload import Place


class System(Protocol):
    """A storage system, with its options and a scratch folder of its own."""

    def probe(self) -> None:
        """Raise HostError where a program, a device or a right is missing: which, how to get it."""

    def deploy(self) -> None:
        """Write configuration and make folders; nothing runs yet."""

    def start(self) -> None:
        """Start the servers; wait until they serve. Raises SystemFailed with their last words."""

    def mount(self, clients: int) -> Sequence[Place]:
        """Mount it for each client; the places that the clients work in."""

    def verify_mount(self) -> None:
        """Raise SystemFailed where a place is not on this system.

        A failed mount is silent: writes land in the folder below it.
        """

    def describe(self) -> dict[str, Any]:
        """Facts in plain data: versions, file system, mount options, scheduler, replication.

        `raw_capacity_bytes` is the capacity of all data devices, where it is known.
        """

    def processes(self) -> list[int]:
        """Numbers of its servers and mounts on this host: what they do is not that of others."""

    def unmount(self) -> None:
        """Take every mount away."""

    def stop(self) -> None:
        """Stop the servers."""

    def clean(self) -> None:
        """Remove what `deploy` and the clients made."""


@runtime_checkable
class TakesHosts(Protocol):
    """A system whose clients are on other machines, and perhaps its servers."""

    def take(self, hosts: Hosts, clients: Sequence[str], servers: Sequence[str]) -> System:
        """Told first: which hosts there are, by name. The system to use there, mostly itself.

        Raises HostError where it cannot be brought up on these.
        """


@runtime_checkable
class Accounts(Protocol):
    """A system that can tell what its servers take of the processors."""

    def processor_time_s(self) -> float:
        """User and system time of its servers since they were started. Raises SystemFailed."""


@runtime_checkable
class Deletes(Protocol):
    """A system whose servers go on deleting after they have said that something is deleted."""

    @property
    def deletes(self) -> Literal["charged", "waited", "left"]:
        """Whether what is left when a step has ended belongs to its last phase, or to none."""

    def deletes_left(self) -> int | None:
        """How much of what was deleted is still there; None if nobody says."""

    def unsettled(self) -> int | None:
        """The same, with all else that servers do by themselves, such as healing."""


@runtime_checkable
class Falls(Protocol):
    """A system of several servers, one of which may end while others go on."""

    def abandon(self) -> None:
        """Have what works on its mounts fail, where it would wait for ever."""


@runtime_checkable
class Tells(Protocol):
    """A system whose server can be asked how it stands while it serves."""

    @property
    def status_period_s(self) -> float:
        """How often to ask while a step runs, beside its beginning and end; 0 for not at all."""

    def status(self) -> dict[str, Any] | None:
        """What the server says of itself, as it said it; None for one that says nothing.

        Raises SystemFailed where one that should answer does not.
        """
