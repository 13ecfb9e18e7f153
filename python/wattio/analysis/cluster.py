"""What a storage cluster did in one phase of a run, as it is held against its theoretical peak."""

from __future__ import annotations

from dataclasses import dataclass

from wattio.analysis.peak import Quantity


@dataclass(frozen=True)
class Achieved:
    """Rates of one phase of one run, over its repetitions, with what is known of its parts.

    `rates` are in MiB/s or I/Os per second, as the quantity says; `powers_w` are of the same
    repetitions, or empty where power is not known. For each byte of a client, `stored_share` bytes
    come to the servers (copies, parity) and `client_share` leave the client. `server_cores` is how
    many cores the servers kept busy and `cores` how many they have; None if that is not known.
    Without rates it stands for a cluster at its peak.
    """

    run: str
    subject: str
    system: str
    phase: str
    clients: int
    quantity: Quantity
    rates: tuple[float, ...] = ()
    powers_w: tuple[float, ...] = ()
    estimated: bool = False
    stored_share: float = 1.0
    client_share: float = 1.0
    server_cores: float | None = None
    cores: int | None = None

    @property
    def name(self) -> str:
        """How it is called."""
        return f"{self.run}: {self.phase}" if self.phase else self.run
