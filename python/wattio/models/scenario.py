"""An application on a platform, and what the extended model says of it by approach."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from wattio.models import extended
from wattio.models.approach import Approach, Resources, resources
from wattio.models.parameter import Parameter, Values
from wattio.models.scalability import Scalability

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Number = NDArray[np.float64] | float
else:
    Number = Any

GIB = 2.0**30

DISCREPANCY = "discrepancy"
"""The parameter that says by how much runs differ from a model whose numbers are all right."""


@dataclass(frozen=True)
class Platform:
    """Nodes and storage, and how fast one application computes on them without I/O.

    `parameters` are, by name: `power_max_w` (a computing node), `idle_share` and `blocked_share`
    (P_idle and phi, both over P_max), `client_bytes_s`, `storage_bytes_s`, `contention` and
    `free_writers` (of `extended.bandwidth`), `copy_s_per_gib` (of a node's data, dedicated cores),
    `send_s_per_gib` (of what a dedicated node gets) and `base_s` (T_base: one step of
    `base_cells` cells on one core of one node). Those of the two speedups come on top, and, where
    they are known, `make_s_per_gib` (of a computing core's data), `leave_s` (of a dump) and
    `asleep_share` (of their own power that dedicated cores and nodes save; as equations (3) and (4)
    have it otherwise), `size_exponent` and `discrepancy` (`effective_bytes`, `discrepant`).
    `dump_bytes` is that of the dumps that rates and times of handing over are of.
    """

    name: str
    nodes: int
    cores: int
    application: str
    cores_speedup: Scalability
    nodes_speedup: Scalability
    numbers: tuple[Parameter, ...]
    base_cells: int | None = None
    dump_bytes: float | None = None

    @property
    def parameters(self) -> list[Parameter]:
        """Every number with its interval."""
        speedups = [*self.cores_speedup.parameters, *self.nodes_speedup.parameters]
        return [*self.numbers, *speedups]

    def with_ranks(self, nodes: int, cores: int) -> Platform:
        """The same rates and speedups, with so many nodes of so many cores."""
        return replace(self, nodes=nodes, cores=cores)


@dataclass(frozen=True)
class Application:
    """What is run: steps, a dump of so many bytes each so many of them, cells of the grid."""

    name: str
    iterations: int
    output_every: int
    output_bytes: float
    cells: int | None = None

    @property
    def dumps(self) -> int:
        """How often it writes."""
        return self.iterations // self.output_every


@dataclass(frozen=True)
class Prediction:
    """A whole run of an approach: a number, or one for each draw.

    Power is the mean of all nodes together. `blocked_s` is what the simulation waits.
    """

    approach: Approach
    resources: Resources
    time_s: Number
    blocked_s: Number
    energy_j: Number

    @property
    def power_w_mean(self) -> Number:
        """Energy over time."""
        return self.energy_j / self.time_s


def predict(
    approach: Approach, platform: Platform, application: Application, values: Values
) -> Prediction:
    """A run by the extended model, with these values of the platform's parameters.

    Steps after the last dump are computed without I/O. Raises InputError where the platform does
    not allow the approach, or has no speedup for what it leaves.
    """
    used = resources(approach, platform.nodes, platform.cores)
    step_s = step_s_of(used, platform, application, values)
    size = effective_bytes(platform, application, values)
    period = _period(approach, used, step_s * application.output_every, size, values)
    dumps = application.dumps
    time_s, energy_j = dumps * period.time_s, dumps * period.energy_j
    steps_left = application.iterations % application.output_every
    if steps_left:
        rest = _period(approach, used, steps_left * step_s, None, values)
        time_s, energy_j = time_s + rest.time_s, energy_j + rest.energy_j
    return Prediction(approach, used, time_s, dumps * period.blocked_s, energy_j)


def effective_bytes(platform: Platform, application: Application, values: Values) -> Number:
    """What a dump counts as: D_0 (D / D_0)^p, D_0 the dumps that the platform was measured with.

    A part of what a dump takes does not depend on its bytes (files are opened, ranks wait for each
    other); p is 1 where all of it does. Dumps of D_0 do not depend on p.
    """
    size, known = application.output_bytes, platform.dump_bytes
    if not size or not known or "size_exponent" not in values:
        return size
    return known * (size / known) ** values["size_exponent"]


def discrepant(
    found: Prediction, application: Application, values: Values, seed: int
) -> Prediction:
    """A prediction with the model's discrepancy: times and energy by exp(delta z), z normal.

    z is drawn anew for each approach, frequency of output and grid, as the model is wrong about
    each in a way of its own. Power stays. Without `discrepancy` the prediction stays as it is.
    """
    import zlib

    import numpy as np

    if DISCREPANCY not in values:
        return found
    delta = np.asarray(values[DISCREPANCY])
    text = f"{found.approach} {application.output_every} {application.cells}"
    stream = np.random.default_rng([seed, zlib.crc32(text.encode())])
    factor = np.exp(delta * stream.standard_normal(delta.shape))
    return replace(
        found,
        time_s=found.time_s * factor,
        blocked_s=found.blocked_s * factor,
        energy_j=found.energy_j * factor,
    )


def step_s_of(
    used: Resources, platform: Platform, application: Application, values: Values
) -> Number:
    """One step without I/O, in seconds."""
    work = 1.0
    if platform.base_cells is not None and application.cells is not None:
        work = application.cells / platform.base_cells
    return extended.compute_s(
        values["base_s"] * work,
        platform.cores_speedup.speedup(used.compute_cores, values),
        platform.nodes_speedup.speedup(used.compute_nodes, values),
    )


def _period(
    approach: Approach,
    used: Resources,
    compute_s: Number,
    dump_bytes: Number | None,
    values: Values,
) -> extended.Period:
    """Computing and, if it is not None, a dump of so many bytes."""
    v = values
    gib = 0.0 if dump_bytes is None else dump_bytes / GIB
    rate = extended.bandwidth(
        used.writers,
        v["client_bytes_s"],
        v["storage_bytes_s"],
        v["contention"],
        v["free_writers"],
    )
    io_s = gib * GIB / rate
    if dump_bytes is not None:
        each = gib / (used.compute_nodes * used.compute_cores)
        compute_s = compute_s + v.get("make_s_per_gib", 0.0) * each
        if approach.kind == "tp":
            io_s = io_s + v.get("leave_s", 0.0)
    max_w, blocked = v["power_max_w"], v["blocked_share"]
    idle_w = v["idle_share"] * max_w
    asleep = {"asleep_share": v["asleep_share"]} if "asleep_share" in v else {}
    if approach.kind == "tp":
        return extended.time_partitioning(used.nodes, compute_s, io_s, max_w, blocked)
    if approach.kind == "dc":
        copy_s = v["copy_s_per_gib"] * gib / used.nodes
        share = used.dedicated_cores / (used.compute_cores + used.dedicated_cores)
        return extended.dedicated_cores(
            used.nodes, compute_s, io_s, copy_s, idle_w, max_w, blocked, share, **asleep
        )
    send_s = v["send_s_per_gib"] * gib / used.dedicated_nodes
    return extended.dedicated_nodes(
        used.compute_nodes,
        used.dedicated_nodes,
        compute_s,
        io_s,
        send_s,
        idle_w,
        max_w,
        blocked,
        **asleep,
    )
