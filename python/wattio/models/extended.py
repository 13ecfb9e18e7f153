"""The extended model: the document's, with I/O that may take longer than computing.

Three things are added to equations (1) to (4) of the document on Damaris and CM1: time
partitioning, where the simulation waits for all of the writing; dedicated resources that cannot
keep up, so that the simulation waits for the rest; and a storage that is slower for more writers.
All times are of one dump and the computing before it, in seconds; powers are of one node, in
watts. Every function takes numbers or arrays of them (one for each draw).

With I/O that takes no time, `dedicated_cores` and `dedicated_nodes` are the document's model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Number = NDArray[np.float64] | float
else:
    Number = Any


@dataclass(frozen=True)
class Period:
    """One dump and the computing before it: its length, the part spent waiting, its joules."""

    time_s: Number
    blocked_s: Number
    energy_j: Number


def compute_s(base_s: Number, cores_speedup: Number, nodes_speedup: Number) -> Number:
    """Computing without I/O: t_c = A / (f(c) g(n)), equation (2) for the steps of one dump."""
    return base_s / (cores_speedup * nodes_speedup)


def bandwidth(
    writers: int, client: Number, storage: Number, contention: Number, free_writers: Number
) -> Number:
    """B(w) = min(w b_client, B_pfs / (1 + gamma max(0, w - w0))), in bytes per second.

    Each writer gives `client` at most; the storage takes `storage`, and less for each writer
    beyond `free_writers`.
    """
    import numpy as np

    surplus = np.maximum(0.0, writers - free_writers)
    return np.minimum(writers * client, storage / (1 + contention * surplus))


def time_partitioning(
    nodes: int, compute_s: Number, io_s: Number, power_max_w: Number, blocked_share: Number
) -> Period:
    """TP: t = t_c + t_io, E = N P_max (t_c + phi t_io)."""
    active_s = compute_s + blocked_share * io_s
    return Period(compute_s + io_s, io_s, nodes * power_max_w * active_s)


def dedicated_cores(
    nodes: int,
    compute_s: Number,
    io_s: Number,
    copy_s: Number,
    power_max_w: Number,
    blocked_share: Number,
) -> Period:
    """DC: t = max(t_c, t_io) + t_copy, E = N P_max (t_c + phi (t - t_c))."""
    import numpy as np

    time_s = np.maximum(compute_s, io_s) + copy_s
    blocked_s = time_s - compute_s
    return Period(time_s, blocked_s, nodes * power_max_w * (compute_s + blocked_share * blocked_s))


def dedicated_nodes(
    compute_nodes: int,
    nodes_dedicated: int,
    compute_s: Number,
    io_s: Number,
    send_s: Number,
    power_idle_w: Number,
    power_max_w: Number,
    blocked_share: Number,
) -> Period:
    """DN: t = max(t_c, t_io) + t_send, E = n P_max (t_c + phi (t - t_c)) + dn t (P_i + P_m)/2.

    The second part is the document's equation (3).
    """
    import numpy as np

    time_s = np.maximum(compute_s, io_s) + send_s
    blocked_s = time_s - compute_s
    compute_j = compute_nodes * power_max_w * (compute_s + blocked_share * blocked_s)
    dedicated_j = nodes_dedicated * time_s * (power_idle_w + power_max_w) / 2
    return Period(time_s, blocked_s, compute_j + dedicated_j)
