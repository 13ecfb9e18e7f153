"""All hosts of a measurement, asked side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from wattio.errors import HostLost, HostRefused
from wattio.hosts.host import Access, Host

T = TypeVar("T")

_AT_ONCE = 64


class Hosts:
    """Hosts by their names; use it with `with`, which connects and takes leave."""

    def __init__(self, names: Sequence[str], access: Access) -> None:
        """Nothing is started before it is entered."""
        self.access = access
        self._hosts = {name: Host(name, access) for name in dict.fromkeys(names)}

    def __enter__(self) -> Hosts:
        """Connect to all. Raises HostLost or HostRefused for the first that does not answer."""
        try:
            self.each(Host.open)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """End every agent; each undoes what it did."""
        self.close()

    def __getitem__(self, name: str) -> Host:
        """A host by its name."""
        return self._hosts[name]

    def __iter__(self) -> Iterator[Host]:
        """All of them."""
        return iter(self._hosts.values())

    def __len__(self) -> int:
        """How many."""
        return len(self._hosts)

    @property
    def names(self) -> list[str]:
        """Their names."""
        return list(self._hosts)

    def each(self, work: Callable[[Host], T], names: Sequence[str] | None = None) -> dict[str, T]:
        """Do something with all of them, or some, side by side. Raises the first's error."""
        chosen = [self._hosts[name] for name in (self._hosts if names is None else names)]
        if not chosen:
            return {}
        with ThreadPoolExecutor(min(_AT_ONCE, len(chosen))) as pool:
            futures = [pool.submit(work, host) for host in chosen]
        return {host.name: one.result() for host, one in zip(chosen, futures, strict=True)}

    def answers(
        self, work: Callable[[Host], T], names: Sequence[str] | None = None
    ) -> dict[str, T]:
        """Ask all of them, or some; the answers of those that have one."""

        def tried(host: Host) -> tuple[T] | None:
            try:
                return (work(host),) if host.is_open else None
            except (HostLost, HostRefused):
                return None

        return {name: one[0] for name, one in self.each(tried, names).items() if one is not None}

    def complaints(self, work: Callable[[Host], object]) -> Mapping[str, str]:
        """Do something with all of them; what those said that could not, by name."""

        def tried(host: Host) -> str | None:
            try:
                work(host)
            except (HostLost, HostRefused) as error:
                return str(error)
            return None

        return {name: said for name, said in self.each(tried).items() if said is not None}

    def reopen(self) -> Mapping[str, str]:
        """Connect again to those that were lost; why not, by the names of those that stay away."""

        def again(host: Host) -> None:
            if not host.is_open:
                host.close()
                host.open()

        return self.complaints(again)

    def close(self) -> None:
        """Take leave of all."""
        self.each(Host.close)
