"""What hosts offer a measurement, and what they lack."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from wattio.errors import HostLost, HostRefused
from wattio.hosts.host import Access, Host
from wattio.hosts.hosts import Hosts

PROGRAMS = ("fio", "make", "cc", "mpirun", "ior", "mdtest")
"""What workloads run on clients' hosts, where they run it."""

OFF_S_MAX = 0.05
"""What a study's rules allow clocks to be off by, if they say nothing else."""


@dataclass(frozen=True)
class Examined:
    """A host that was looked at; `failure` is why it could not be."""

    name: str
    failure: str | None = None
    facts: Mapping[str, Any] | None = None
    clock_off_s: float | None = None
    clock_error_s: float | None = None
    programs: Mapping[str, str | None] | None = None

    @property
    def complaints(self) -> list[str]:
        """What stands in the way of measuring there."""
        if self.failure is not None or self.facts is None:
            return [self.failure or "not examined"]
        found = []
        if self.clock_off_s is not None and abs(self.clock_off_s) > OFF_S_MAX:
            found.append(f"its clock is off by {self.clock_off_s:.3g} s: synchronize it by NTP")
        if not self.facts["is_root"]:
            found.append("not root: caches stay, and no settings are changed")
        return found

    def as_dict(self) -> dict[str, Any]:
        """As plain data, with the complaints."""
        return {**asdict(self), "complaints": self.complaints}


def examine(names: Sequence[str], access: Access) -> list[Examined]:
    """Look at hosts, side by side; none of them fails the others."""
    hosts = Hosts(names, access)

    def look(host: Host) -> Examined:
        try:
            host.open()
            offset = host.clock()
            programs = host.ask("which", names=list(PROGRAMS))
        except (HostLost, HostRefused) as error:
            return Examined(host.name, failure=str(error).removeprefix(f"{host.name}: "))
        finally:
            host.close()
        off_s, error_s = offset.utc_ns / 1e9, offset.error_ns / 1e9
        return Examined(host.name, None, dict(host.facts), off_s, error_s, programs)

    return list(hosts.each(look).values())
