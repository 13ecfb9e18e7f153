"""What `wattio run --dry-run` says of simulations and fleets: how many runs, and how long."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.table import Table

from wattio.cli import output
from wattio.cli.progress import weight_of
from wattio.errors import Cancelled, InputError
from wattio.kinds.fleet.plan import Batch, FleetPlan
from wattio.kinds.simulation.plan import SimulationPlan
from wattio.results.plan import Iteration
from wattio.simulator import traces
from wattio.simulator.native import Simulator
from wattio.simulator.policies import REFERENCE
from wattio.simulator.simulation import Request, reading_of

TRIAL_S = 1.0
"""Simulated time of the trial that the guess rests on."""

TRIALS = 3
"""How often it is tried: one that takes milliseconds may wait as long for a core."""


def of_simulation(
    plan: SimulationPlan,
    left: Sequence[Iteration[Request]],
    jobs: int,
    simulator: Simulator,
    as_json: bool,
) -> int:
    """Print what would be simulated; each load is tried for a moment, without any policy."""
    first = {item.run.subject: item for item in reversed(left)}
    with output.busy("trying each load for a moment"):
        pace = {name: _pace(item.request, simulator) for name, item in first.items()}
    spans = {name: _span_s(item.request, plan.loads[name]) for name, item in first.items()}
    seconds = []
    for item in left:
        factor, span_s = pace[item.run.subject], spans[item.run.subject]
        known = factor is not None and span_s is not None
        seconds.append(factor * span_s * weight_of(item) if known else None)  # type: ignore[operator]
    return _show(plan.name, "run", left, seconds, jobs, as_json)


def _pace(request: Request, simulator: Simulator) -> float | None:
    """Seconds that a simulated second takes; None if a moment of the load cannot be tried."""
    trial = replace(request, policy=REFERENCE, settings={}, duration_s=TRIAL_S, warmup_s=0.0)

    def tried() -> object:
        return simulator.simulate(trial)

    return _least_time(tried, TRIAL_S)


def _least_time(tried: Callable[[], object], span_s: float) -> float | None:
    """The least of several times; the first reads files, and finds what saturates the server."""
    try:
        tried()
        taken_s = []
        for _ in range(TRIALS):
            begun_s = time.monotonic()
            tried()
            taken_s.append(time.monotonic() - begun_s)
    except (InputError, Cancelled):
        return None
    return min(taken_s) / span_s


def _span_s(request: Request, facts: Mapping[str, Any]) -> float | None:
    """Simulated time of a run, with what comes before it; None if nothing tells."""
    span_s = request.duration_s
    if span_s is None and "trace" in request.load:
        found = traces.of_load(Path(request.load["trace"]), **reading_of(request.load))
        span_s = found["span_s"] * request.load.get("time_scale", 1.0)
    if span_s is None and "profile" in facts:
        span_s = facts["profile"]["simulated_s"]
    if span_s is None and "phases" in request.load:
        span_s = sum(phase["span_s"] for phase in request.load["phases"])
    return None if span_s is None else span_s + request.warmup_s


def of_fleet(
    plan: FleetPlan,
    left: Sequence[Batch],
    jobs: int,
    simulate: Callable[[Any], object],
    as_json: bool,
) -> int:
    """Print what would be run; one server is tried under each policy."""
    first = {item.run.condition: item for item in reversed(left)}
    with output.busy("trying one server under each policy"):
        pace = {name: _server_s(item, simulate) for name, item in first.items()}
    seconds = []
    for item in left:
        each_s = pace[item.run.condition]
        seconds.append(None if each_s is None else each_s * len(item.request.members))
    return _show(plan.name, "batch", left, seconds, jobs, as_json)


def _server_s(batch: Batch, simulate: Callable[[Any], object]) -> float | None:
    one = replace(batch.request, members=batch.request.members[:1])
    return _least_time(lambda: simulate(one), 1.0)


def _show(
    name: str,
    noun: str,
    left: Sequence[Iteration[Any]],
    seconds: Sequence[float | None],
    jobs: int,
    as_json: bool,
) -> int:
    known = [value for value in seconds if value is not None]
    guess_s = sum(known) / min(jobs, max(len(left), 1)) if len(known) == len(left) else None
    subjects = {item.run.subject: None for item in left}
    policies = {item.run.condition: None for item in left}
    seeds = sorted({item.seed for item in left})
    if as_json:
        output.print_json(
            {
                "study": name,
                "runs": len(left),
                "loads": list(subjects),
                "policies": list(policies),
                "seeds": len(seeds),
                "jobs": jobs,
                "seconds_guess": guess_s,
            }
        )
        return 0
    if not left:
        output.console().print(f"{name}: nothing is left to run; every {noun} is done")
        return 0
    table = Table(box=None)
    several = f"{noun}es" if noun == "batch" else f"{noun}s"
    for column in ("load", several, "about"):
        table.add_column(column, justify="left" if column == "load" else "right")
    for subject in subjects:
        own = [at for at, item in enumerate(left) if item.run.subject == subject]
        table.add_row(subject, str(len(own)), _told(_sum(seconds[at] for at in own)))
    console = output.console()
    console.print(table)
    console.print(f"policies: {', '.join(policies)}", highlight=False, soft_wrap=True)
    text = f"{len(left)} {noun if len(left) == 1 else several}; with {jobs} at a time about"
    told = "an unknown time" if guess_s is None else f"{_told(guess_s)}, by a trial"
    console.print(f"{text} {told}", highlight=False, soft_wrap=True)
    return 0


def _sum(values: Iterable[float | None]) -> float | None:
    found = list(values)
    known = [value for value in found if value is not None]
    return sum(known) if len(known) == len(found) else None


def _told(seconds: float | None) -> str:
    if seconds is None:
        return output.ABSENT
    for limit_s, unit_s, unit in ((7200, 3600, "h"), (120, 60, "min")):
        if seconds >= limit_s:
            return f"{seconds / unit_s:.1f} {unit}"
    return f"{max(seconds, 1):.0f} s"
