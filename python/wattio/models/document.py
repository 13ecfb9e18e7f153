"""The model of Dorier et al. 2016 as it stands: equations (1) to (4).

It assumes that writing is hidden behind computing, and leaves time partitioning out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from wattio.models.approach import Approach, Resources, resources

Scalability = Callable[[int], float]
"""S(k): the speedup on k cores or nodes over k; 1 is perfect. Section 3.2.1."""


@dataclass(frozen=True)
class Profile:
    """What section 3.3 measures of an application (T_base in s, S) and of a node (P in W)."""

    base_s: float
    cores_scalability: Scalability
    nodes_scalability: Scalability
    power_idle_w: float
    power_max_w: float


def time_s(
    iterations: int,
    base_s: float,
    cores: int,
    cores_scalability: float,
    nodes: int,
    nodes_scalability: float,
) -> float:
    """Equation (2), in seconds: n_iter T_base / ((cores S_cores) (nodes S_nodes)).

    In print n_iter is missing, though the text before the equation names it.
    """
    return iterations * base_s / ((cores * cores_scalability) * (nodes * nodes_scalability))


def dedicated_nodes_power_w(
    compute_nodes: int, dedicated_nodes: int, power_idle_w: float, power_max_w: float
) -> float:
    """Equation (3), in watts per node: a dedicated node draws the mean of idle and most."""
    compute_w = compute_nodes * power_max_w
    dedicated_w = dedicated_nodes * (power_idle_w + power_max_w) / 2
    return (compute_w + dedicated_w) / (compute_nodes + dedicated_nodes)


def dedicated_cores_power_w(power_max_w: float) -> float:
    """Equation (4), in watts per node: dedicated cores wait in a loop that keeps them busy."""
    return power_max_w


def energy_j(nodes: int, time_s: float, power_w: float) -> float:
    """Equation (1), in joules, for all nodes; P_sim of (3) and (4) is per node."""
    return nodes * time_s * power_w


@dataclass(frozen=True)
class Estimate:
    """What the model says of a run: seconds, watts per node, joules of all nodes."""

    time_s: float
    power_w: float
    energy_j: float


def estimate(
    approach: Approach, profile: Profile, nodes: int, cores: int, iterations: int
) -> Estimate | None:
    """Time, power and energy of an approach on so many nodes; None for time partitioning.

    Raises InputError where the nodes do not allow the approach.
    """
    if approach.kind == "tp":
        return None
    used = resources(approach, nodes, cores)
    seconds = time_s(
        iterations,
        profile.base_s,
        used.compute_cores,
        profile.cores_scalability(used.compute_cores),
        used.compute_nodes,
        profile.nodes_scalability(used.compute_nodes),
    )
    watts = _power_w(used, profile)
    return Estimate(seconds, watts, energy_j(used.nodes, seconds, watts))


def _power_w(used: Resources, profile: Profile) -> float:
    if used.dedicated_nodes == 0:
        return dedicated_cores_power_w(profile.power_max_w)
    return dedicated_nodes_power_w(
        used.compute_nodes, used.dedicated_nodes, profile.power_idle_w, profile.power_max_w
    )
