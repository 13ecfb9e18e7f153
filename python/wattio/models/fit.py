"""Parameters of the extended model from measured runs, each fit with how good it is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from wattio.errors import InputError
from wattio.models import extended, posterior, scenario
from wattio.models.parameter import NORMAL_95, Parameter, central
from wattio.models.runs import Run, largest
from wattio.models.scenario import DISCREPANCY, GIB, Platform

Array = NDArray[np.float64]

ERROR_MOST = 0.10
"""A fit whose points scatter around it by more than this (relative, one deviation) is bad."""

ERROR_UNKNOWN = 0.10
"""The scatter that is assumed where there are no more points than coefficients."""

ESTIMATE = "not measured (estimate)"
"""What is said of numbers that come from an estimate of power."""

NOT_MEASURED = {
    "power_max_w": Parameter("power_max_w", 200, 50, 500, "assumed", "no run had a meter"),
    "idle_share": Parameter("idle_share", 0.5, 0.2, 0.8, "assumed", "not measured"),
    "blocked_share": Parameter("blocked_share", 0.8, 0.5, 1.0, "assumed", "not measured"),
    "asleep_share": Parameter(
        "asleep_share",
        *(0.9, 0.5, 1.0),
        "assumed",
        "writers of wattio hpcio sleep; how much less their cores draw was not measured",
        most=1.0,
    ),
    "size_exponent": Parameter(
        "size_exponent",
        *(0.5, 0.0, 1.0),
        "assumed",
        "dumps of one size do not show how their time grows with bytes",
        most=1.0,
    ),
    "copy_s_per_gib": Parameter("copy_s_per_gib", 0.5, 0.0, 5.0, "assumed", "not measured"),
    "send_s_per_gib": Parameter("send_s_per_gib", 2.0, 0.0, 20.0, "assumed", "not measured"),
}
"""Wide ranges for what the runs do not tell."""

SPEEDUP_REACH = 1000.0
"""A 95 % interval that goes beyond this multiple of its value, up or down, tells nothing."""

LEAST_SHARE = 0.01
"""Intervals of what must be above zero end at this share of the value."""

DISCREPANCY_RUNS = 3
"""Of fewer runs than this the model's discrepancy is not told."""

DRAWS = 5000


@dataclass(frozen=True)
class Fit:
    """How well runs agree with a part of the model; `scatter` is relative, None if not known."""

    what: str
    points: int
    scatter: float | None
    note: str = ""
    is_estimate: bool = False
    """Whether the points are estimates: how near they are to each other says nothing."""

    @property
    def is_good(self) -> bool:
        """Whether the points were measured, are near the fit, and enough to say so."""
        return not self.is_estimate and self.scatter is not None and self.scatter <= ERROR_MOST

    @property
    def is_bad(self) -> bool:
        """Whether the points were measured, and are too far from the fit."""
        return not self.is_estimate and self.scatter is not None and self.scatter > ERROR_MOST

    @property
    def verdict(self) -> str:
        """How good it is, in words."""
        if self.is_estimate:
            return ESTIMATE
        if self.is_good:
            return "good"
        return "BAD" if self.is_bad else "too few to say how well they fit"

    def __str__(self) -> str:
        """One line."""
        points = f"{self.points} point{'' if self.points == 1 else 's'}"
        if self.scatter is None and not self.is_estimate:
            text = f"{self.what}: {points}, {self.verdict}"
        elif self.scatter is None:
            text = f"{self.what}: {self.verdict}, {points}"
        else:
            text = f"{self.what}: {self.verdict}, {points} scatter by {100 * self.scatter:.1f} %"
        return f"{text}; {self.note}" if self.note else text


@dataclass(frozen=True)
class Computing:
    """T_base for `cells` cells, and speedups by count of cores and of nodes."""

    base: Parameter
    cells: int
    cores: dict[int, Parameter]
    nodes: dict[int, Parameter]
    fit: Fit


def computing(runs: Sequence[Run]) -> Computing:
    """T_base and both speedups from runs without I/O, by equation (2) of Dorier et al. 2016.

    log(step / cells) = log(T_base) - log f(cores) - log g(nodes), by least squares, with one
    coefficient for each count above one: what equation (2) assumes is that cores and nodes do not
    depend on each other. Intervals are 95 %, by Student's t. Raises InputError where the runs do
    not tell the coefficients apart, or tell nothing of their size.
    """
    profiles = [run for run in runs if not run.writes and run.is_usable]
    cores = sorted({run.resources.compute_cores for run in profiles})
    nodes = sorted({run.resources.compute_nodes for run in profiles})
    if cores[:1] != [1] or nodes[:1] != [1]:
        raise InputError(
            f"runs without output have {cores} ranks per node and {nodes} nodes; needed:"
            " one rank on one node, and more of each (wattio hpcio run --output-every 0)"
        )
    columns = [np.ones(len(profiles))]
    columns += [
        np.array([float(run.resources.compute_cores == count) for run in profiles])
        for count in cores[1:]
    ]
    columns += [
        np.array([float(run.resources.compute_nodes == count) for run in profiles])
        for count in nodes[1:]
    ]
    matrix = np.column_stack(columns)
    if np.linalg.matrix_rank(matrix) < matrix.shape[1]:
        raise InputError(
            "the runs without output do not separate cores from nodes: vary one and keep the other"
        )
    cells = max(run.cells for run in profiles)
    times = np.log([run.step_s / run.cells * cells for run in profiles])
    found, reach, scatter = _regressed(matrix, times)
    if reach.max() > math.log(SPEEDUP_REACH):
        grids = len({run.cells for run in profiles})
        raise InputError(
            f"the {len(profiles)} runs without output{f', of {grids} grids,' if grids > 1 else ''}"
            f" scatter too widely to tell {matrix.shape[1]} numbers (T_base and the speedups), by"
            f" {100 * (scatter or ERROR_UNKNOWN):.0f} %: repeat them, on a quiet machine"
            f"{' and with one grid' if grids > 1 else ''}"
        )
    names = [f"cores_speedup_{count}" for count in cores[1:]]
    names += [f"nodes_speedup_{count}" for count in nodes[1:]]
    speedups = {
        name: _from_log(name, -found[at], reach[at]) for at, name in enumerate(names, start=1)
    }
    return Computing(
        base=_from_log("base_s", found[0], reach[0]),
        cells=cells,
        cores={count: speedups[f"cores_speedup_{count}"] for count in cores[1:]},
        nodes={count: speedups[f"nodes_speedup_{count}"] for count in nodes[1:]},
        fit=Fit("steps without output, by cores and nodes", len(profiles), scatter),
    )


def _regressed(matrix: Array, values: Array) -> tuple[Array, Array, float | None]:
    """Coefficients, half of their 95 % intervals, and the deviation of the residuals."""
    from scipy.stats import t

    found = np.linalg.lstsq(matrix, values, rcond=None)[0]
    residuals = values - matrix @ found
    free = len(values) - matrix.shape[1]
    scatter = math.sqrt(float(residuals @ residuals) / free) if free > 0 else None
    factor = float(t.ppf(0.975, free)) if free > 0 else NORMAL_95
    variance = np.diag(np.linalg.inv(matrix.T @ matrix))
    deviation = ERROR_UNKNOWN if scatter is None else scatter
    reach: Array = factor * deviation * np.sqrt(variance)
    return np.asarray(found, dtype=np.float64), reach, scatter


def _from_log(name: str, middle: float, reach: float) -> Parameter:
    low, value, high = (math.exp(middle + side * reach) for side in (-1, 0, 1))
    return Parameter(name, value, low, high, "measured", "runs without output")


def storage(runs: Sequence[Run], seed: int) -> tuple[dict[str, Parameter], Fit]:
    """b_client, B_pfs, gamma and w0 of `extended.bandwidth`, from times of writing.

    And p of `scenario.effective_bytes`, where dumps are of several sizes; of one size they tell
    nothing of it. Drawn by `posterior.sample` from wide ranges, with a normal likelihood in the
    logarithm of the time and its deviation unknown; values are medians, intervals 95 %. Raises
    InputError without runs that wrote.
    """
    used = [run for run in runs if run.writes and run.is_usable and run.write_s]
    if not used:
        raise InputError("no run wrote anything: the rate of the storage cannot be fitted")
    writers = np.array([run.resources.writers for run in used], dtype=float)
    sizes = np.array([run.dump_bytes for run in used], dtype=float)
    rates = sizes / np.array([run.write_s for run in used])
    reference = reference_bytes(runs)
    each = rates / writers
    most = float(writers.max())
    ranges = [
        _range("client_bytes_s", float(each.min()) / 2, float(each.max()) * 10),
        _range("storage_bytes_s", float(rates.min()) / 2, float(rates.max()) * 10),
        _range("contention", 1e-4, 10.0),
        _range("free_writers", 1.0, max(most, 2.0)),
        _range("scatter", 0.01, 3.0),
    ]

    several = len(set(sizes)) > 1
    if several:
        ranges.append(NOT_MEASURED["size_exponent"])
    # Of runs with equally many writers and bytes, the mean and what is left about it say all.
    groups = []
    for count, size in sorted(set(zip(writers, sizes, strict=True))):
        logs = np.log(rates[(writers == count) & (sizes == size)])
        groups.append((int(count), math.log(size / reference), logs.size, logs.mean(), logs.var()))

    def log_likelihood(values: dict[str, Array]) -> Array:
        total: Array = -len(used) * np.log(values["scatter"])
        for count, larger, size, mean, variance in groups:
            expected = extended.bandwidth(
                count,
                values["client_bytes_s"],
                values["storage_bytes_s"],
                values["contention"],
                values["free_writers"],
            )
            # D / t, t being D_0 (D / D_0)^p / B(w).
            power = 1 - values["size_exponent"] if several else 0.0
            squares = size * ((mean - np.log(expected) - larger * power) ** 2 + variance)
            total -= squares / values["scatter"] ** 2 / 2
        return total

    drawn = posterior.sample(ranges, log_likelihood, DRAWS, seed).values
    found = {one.name: _measured(one.name, drawn[one.name]) for one in ranges}
    counts = ", ".join(str(count) for count in sorted({count for count, *_ in groups}))
    scatter = found.pop("scatter").value if len(used) > 4 else None
    return found, Fit("rate of writing", len(used), scatter, f"by {counts} writers")


def _range(name: str, low: float, high: float) -> Parameter:
    return Parameter(name, math.sqrt(low * high), low, high, "assumed")


def _measured(name: str, drawn: Array) -> Parameter:
    low, value, high = (float(end) for end in np.quantile(drawn, [0.025, 0.5, 0.975]))
    return Parameter(name, value, low, high, "measured", "time of each dump's slowest writer")


def reference_bytes(runs: Sequence[Run]) -> float:
    """D_0 of `scenario.effective_bytes`: the largest dump."""
    return float(max(run.dump_bytes for run in runs if run.writes))


def _counted(run: Run, reference: float, exponent: float) -> float:
    """What a run's dumps count as, in bytes: `scenario.effective_bytes`."""
    share: float = (run.dump_bytes / reference) ** exponent
    return reference * share


def handing_over(
    runs: Sequence[Run], kind: str, exponent: float = 1.0
) -> tuple[Parameter | None, Fit]:
    """Seconds for a GiB that dedicated cores (`dc`) or nodes (`dn`) hold a simulation up.

    Dumps count as `scenario.effective_bytes` has it, with this exponent. From runs that never
    waited for room in the buffer. None if there is none.
    """
    name = "copy_s_per_gib" if kind == "dc" else "send_s_per_gib"
    what = f"handing over to dedicated {'cores' if kind == 'dc' else 'nodes'}"
    found = []
    for run in runs:
        if run.approach.kind == kind and run.writes and run.is_usable and not run.stalls:
            parts = run.nodes if kind == "dc" else run.resources.dedicated_nodes
            if run.blocked_s is not None and run.dump_bytes:
                size = _counted(run, reference_bytes(runs), exponent)
                found.append(run.blocked_s / (size / parts / GIB))
    if not found:
        return None, Fit(what, 0, None)
    return _mean(name, found, "blocked time of each dump's slowest rank"), _scatter(what, found)


def making(runs: Sequence[Run], exponent: float = 1.0) -> tuple[Parameter | None, Fit]:
    """Seconds that a computing rank takes to make a GiB of a dump's variables.

    Dumps count as in `handing_over`.
    """
    what = "making a dump's variables"
    found = []
    for run in runs:
        if run.writes and run.is_usable and run.make_s is not None and run.dump_bytes:
            ranks = run.resources.compute_nodes * run.resources.compute_cores
            size = _counted(run, reference_bytes(runs), exponent)
            found.append(run.make_s / (size / ranks / GIB))
    if not found:
        return None, Fit(what, 0, None)
    how = "time in dumps without waiting"
    return _mean("make_s_per_gib", found, how), _scatter(what, found)


def leaving(runs: Sequence[Run]) -> tuple[Parameter | None, Fit]:
    """Seconds that time partitioning waits for a dump, beside the writing of the slowest rank."""
    what = "leaving a dump together"
    found = [
        max(0.0, run.blocked_s - run.write_s)
        for run in runs
        if run.approach.kind == "tp" and run.writes and run.is_usable
        if run.blocked_s is not None and run.write_s is not None
    ]
    if not any(found):
        return None, Fit(what, 0, None)
    how = "blocked time of each dump's slowest rank less the slowest's writing"
    return _mean("leave_s", found, how), _scatter(what, found)


def blocked_share(runs: Sequence[Run], power_max_w: Parameter) -> tuple[Parameter | None, Fit]:
    """phi, the power while waiting over P_max, from time partitioning's mean power.

    An estimate of power does not know of waiting, and so does not count, here or in P_max.
    """
    found = []
    is_known = power_max_w.origin == "measured"
    metered = [run for run in runs if run.power_w and not run.is_estimate and is_known]
    for run in metered:
        computed_s = run.steps * run.step_s
        waited_s = run.time_s - computed_s
        usable = run.approach.kind == "tp" and run.writes and run.is_usable
        if usable and waited_s > 0.1 * run.time_s:
            busy_s = (run.power_w or 0.0) * run.time_s / (run.nodes * power_max_w.value)
            found.append(min(1.0, max(0.0, (busy_s - computed_s) / waited_s)))
    what = "power while waiting"
    if not found:
        return None, Fit(what, 0, None)
    share = _mean("blocked_share", found, "mean power of time partitioning", most=1.0)
    return share, _scatter(what, found)


def discrepancy(runs: Sequence[Run], platform: Platform) -> tuple[Parameter | None, Fit]:
    """By how much whole runs differ from what the model says with all numbers fitted to them.

    Of those on the grid that the profile of computing is of. The numbers are fitted to parts of
    runs (steps, writing, waiting), not to their times, so that these times test what the model
    makes of the parts; the interval is that of a deviation by chi-squared.
    None for fewer than three runs.
    """
    from scipy.stats import chi2

    what = "whole runs that were fitted to"
    values = central(platform.parameters)
    used = [
        run for run in runs if run.writes and run.is_usable and run.cells == platform.base_cells
    ]
    squares = 0.0
    for run in used:
        here = platform.with_ranks(run.nodes, run.cores)
        found = scenario.predict(run.approach, here, run.application, values)
        squares += math.log(run.time_s / float(found.time_s)) ** 2
    count = len(used)
    if count < DISCREPANCY_RUNS:
        return None, Fit(what, count, None)
    low, value, high = (
        math.sqrt(squares / by) for by in (chi2.ppf(0.975, count), count, chi2.ppf(0.025, count))
    )
    how = "times of whole runs against what the model says of them"
    return Parameter(DISCREPANCY, value, low, high, "measured", how), Fit(what, count, value)


def power_max_w(runs: Sequence[Run]) -> tuple[Parameter | None, Fit]:
    """P_max of a node: the mean power of runs without I/O on all nodes and cores of the platform.

    Runs on fewer nodes are left out, as emulated nodes share the power of one machine, and runs
    with dedicated ranks, which sleep. Estimates repeat themselves, whether they are right or not:
    how near they are to each other says nothing of power, so the range is that of an assumption.
    """
    metered = [run for run in runs if not run.writes and run.power_w is not None]
    computing = [run for run in metered if run.approach.kind == "tp"]
    full = [run for run in computing if (run.nodes, run.cores) == largest(runs)]
    found = [(run.power_w or 0.0) / run.nodes for run in full]
    what = "power of a computing node"
    if not found:
        return None, Fit(what, 0, None)
    is_estimate = any(run.is_estimate for run in full)
    how = "mean power of runs without output"
    one, fit = _mean("power_max_w", found, how), _scatter(what, found)
    if not is_estimate:
        return one, fit
    middle, assumed = one.value, NOT_MEASURED["power_max_w"]
    low, high = (middle * end / assumed.value for end in (assumed.low, assumed.high))
    how = f"{ESTIMATE}: {how}; its range is as wide as with no power at all"
    one = Parameter(one.name, middle, low, high, "assumed", how)
    return one, replace(fit, is_estimate=True)


def _mean(name: str, values: Sequence[float], how: str, most: float = math.inf) -> Parameter:
    """The mean with its 95 % interval by Student's t; of a single value, 10 % on either side."""
    from scipy.stats import t

    middle = float(np.mean(values))
    if len(values) > 1:
        deviation = float(np.std(values, ddof=1)) / math.sqrt(len(values))
        reach = float(t.ppf(0.975, len(values) - 1)) * deviation
    else:
        reach = NORMAL_95 * ERROR_UNKNOWN * middle
    low, high = max(LEAST_SHARE * middle, middle - reach), min(most, middle + reach)
    return Parameter(name, middle, low, high, "measured", how, most=most)


def _scatter(what: str, values: Sequence[float]) -> Fit:
    middle = float(np.mean(values))
    known = len(values) > 1 and middle > 0
    return Fit(what, len(values), float(np.std(values, ddof=1)) / middle if known else None)
