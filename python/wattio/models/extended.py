"""The extended model: that of Dorier et al. 2016, with I/O that may take longer than computing.

Five things are added to equations (1) to (4) of Dorier et al. 2016: time
partitioning, where the simulation waits for all of the writing; dedicated resources that cannot
keep up, so that the simulation waits for the rest; a storage that is slower for more writers;
dedicated resources that sleep; and what a dump takes of the simulation itself, which is computing
(t_c below has it in it): making its variables.
All times are of one dump and the computing before it, in seconds; powers are of one node, in
watts. Every function takes numbers or arrays of them (one for each draw).

With I/O that takes no time, `dedicated_cores` and `dedicated_nodes` are their model.
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
    power_idle_w: Number,
    power_max_w: Number,
    blocked_share: Number,
    dedicated_share: float,
    asleep_share: Number = 0.0,
) -> Period:
    """DC: t = max(t_c, t_io) + t_copy, E = N [(P_max - alpha d (P_max - P_idle)) t_c + phi P_max ..

    .. (t - t_c)], d the share of a node's cores that are dedicated, alpha (`asleep_share`) the part
    of their own power that they save as they sleep. Equation (4) of theirs is alpha = 0.
    """
    import numpy as np

    time_s = np.maximum(compute_s, io_s) + copy_s
    blocked_s = time_s - compute_s
    saved_w = asleep_share * dedicated_share * (power_max_w - power_idle_w)
    active_j = (power_max_w - saved_w) * compute_s
    return Period(time_s, blocked_s, nodes * (active_j + blocked_share * power_max_w * blocked_s))


def dedicated_nodes(
    compute_nodes: int,
    nodes_dedicated: int,
    compute_s: Number,
    io_s: Number,
    send_s: Number,
    power_idle_w: Number,
    power_max_w: Number,
    blocked_share: Number,
    asleep_share: Number = 0.5,
) -> Period:
    """DN: t = max(t_c, t_io) + t_send, E = n P_max (t_c + phi (t - t_c)) + dn t (P_max - alpha ..

    .. (P_max - P_idle)), alpha as in `dedicated_cores`. Their equation (3) has the mean
    of both powers: alpha = 1/2.
    """
    import numpy as np

    time_s = np.maximum(compute_s, io_s) + send_s
    blocked_s = time_s - compute_s
    compute_j = compute_nodes * power_max_w * (compute_s + blocked_share * blocked_s)
    dedicated_w = power_max_w - asleep_share * (power_max_w - power_idle_w)
    dedicated_j = nodes_dedicated * time_s * dedicated_w
    return Period(time_s, blocked_s, compute_j + dedicated_j)
