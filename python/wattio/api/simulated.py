"""`wattio.simulate`: one server under one load with one policy, beside its native twin."""

from __future__ import annotations

import html
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from wattio import _core, shipped
from wattio.api import arguments
from wattio.api.tables import Table
from wattio.errors import InputError
from wattio.files.document import nearest
from wattio.files.plain import plain
from wattio.simulator import simulation
from wattio.simulator.bounds import Bound, judge, takes_bounds
from wattio.simulator.native import NativeSimulator, side_by_side
from wattio.simulator.oracle import check_bounds
from wattio.simulator.policies import BOUND_BY
from wattio.simulator.simulation import Request, Setting

PatternName = Literal["Rand_R", "Rand_W", "Seq_R", "Seq_W", "Rand_RW"]
DEFAULT_PATTERN: PatternName = "Rand_RW"
DEFAULT_PLF = 0.2
DEFAULT_PRESSURE = 0.10

_UNSAID: dict[str, Any] = {
    "pattern": DEFAULT_PATTERN,
    "open_loop": False,
    "clients": None,
    "format": None,
    "columns": None,
    "start_s": 0.0,
    "rate_scale": 1.0,
    "time_scale": 1.0,
}
"""What goes with some loads only, and how it is where nobody says it."""

_OPTIONS_OF: dict[str, set[str]] = {
    "pattern": {"pattern", "open_loop", "clients"},
    "trace": {"format", "columns", "start_s", "rate_scale", "time_scale"},
    "profile": {"open_loop", "clients"},
    "phases": {"open_loop", "clients"},
}
"""What goes with a load from each source."""

_TYPES: dict[str, Callable[[str, object], Any]] = {
    **dict.fromkeys(("trace", "profile"), arguments.path),
    **dict.fromkeys(("pattern", "format", "columns"), arguments.text),
    **dict.fromkeys(("pressure", "iops", "start_s"), arguments.number),
    **dict.fromkeys(("rate_scale", "time_scale"), arguments.number),
    "clients": arguments.whole,
    "open_loop": arguments.flag,
    "phases": arguments.listed,
}
"""What a load is said with, and what each must be."""

_PHASE_KEYS = (
    *("span_s", "pattern", "pressure", "iops"),
    *("io_bytes", "read_fraction", "random_fraction"),
)


@dataclass(frozen=True)
class Simulated:
    """What a simulated run gave, and its native twin, which met the same load at full speed.

    `summary` and `native_summary` have the names of `wattio simulate --json`, with units in them;
    `windows` and `native_windows` have a row for each latency window (see
    `wattio._core.Simulation.windows` for the columns). `bounds` says how each bound was kept.
    """

    summary: dict[str, Any]
    windows: Table
    native_summary: dict[str, Any]
    native_windows: Table
    bounds: list[dict[str, Any]]

    @property
    def saving_share(self) -> float:
        """Share of the twin's mean power that was saved: 1 - P / P_native."""
        return float(1 - self.summary["power_w_mean"] / self.native_summary["power_w_mean"])

    @property
    def bound_kept(self) -> bool | None:
        """Whether every bound was kept; None if no request was answered.

        No bound is kept by a run that answers less than 98 % of what its twin answers.
        """
        kept = [bound["kept"] for bound in self.bounds]
        return None if None in kept else all(kept)

    def __repr__(self) -> str:
        """The outcome in a line."""
        kept = {True: "kept", False: "BROKEN", None: "not to be judged"}[self.bound_kept]
        return (
            f"<{self.summary['policy']} on {self.summary['server']}:"
            f" {self.summary['power_w_mean']:.1f} W, saves {self.saving_share:.1%}, bound {kept}>"
        )

    def _repr_html_(self) -> str:
        rows = []
        for name in ("power_w_mean", "iops_mean", "latency_us_mean", "latency_us_p99"):
            theirs, ours = self.native_summary[name], self.summary[name]
            cells = ["-" if value is None else plain(value, 4) for value in (theirs, ours)]
            cells.append(f"{ours / theirs:.3f}" if ours is not None and theirs else "-")
            rows.append(f"<td>{name}</td>" + "".join(f"<td>{cell}</td>" for cell in cells))
        policy = html.escape(str(self.summary["policy"]))
        head = f"<tr><th></th><th>native</th><th>{policy}</th><th>ratio</th></tr>"
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        return f"<table><thead>{head}</thead><tbody>{body}</tbody></table>"


def simulate(
    server: str | os.PathLike[str] = "small",
    *,
    policy: str = "pacer",
    settings: Mapping[str, Setting] | None = None,
    plf: float | None = None,
    bounds: Sequence[str] = (),
    pattern: PatternName = DEFAULT_PATTERN,
    pressure: float | None = None,
    iops: float | None = None,
    open_loop: bool = False,
    clients: int | None = None,
    trace: str | os.PathLike[str] | None = None,
    format: str | None = None,
    columns: str | None = None,
    rate_scale: float = 1.0,
    time_scale: float = 1.0,
    start_s: float = 0.0,
    profile: str | os.PathLike[str] | None = None,
    phases: Sequence[Mapping[str, Any]] | None = None,
    duration_s: float | None = None,
    warmup_s: float | None = None,
    seed: int = 1,
    power_model: str | os.PathLike[str] | None = None,
) -> Simulated:
    """Simulate one server under one load with one policy, beside a native twin.

    The load is one of: `pattern` at a `pressure` (share of the rate that saturates the server,
    above 0 to 1; 0.10 where no load is given) or at `iops`; a `trace` (a file, or "pgbench", which
    comes with wattio; of another form with `format` or `columns`, as `wattio simulate` takes them);
    a day `profile`; `phases` such as `[{"span_s": 20.0, "pattern": "Rand_RW", "pressure": 0.03}]`.
    What says nothing of the load that was chosen, such as `clients` of a trace, is refused.

    The promise is `plf` (mean latency of at most 1 + plf times the twin's, over the run; 0.2 where
    nothing is said) or `bounds` such as `["p99 2 ms window"]`.

    `server` is a built-in name (small, dorado6000) or the path of a description. Times are in
    simulated seconds; a pattern without `duration_s` is played for 60 s, and 10 s before it are not
    counted unless `warmup_s` says otherwise. One seed is one result.

    Raises InputError for what cannot be used.
    """
    if bounds and plf is not None:
        raise InputError('bounds and plf exclude each other: plf=0.2 is the bound "mean 20% run"')
    if isinstance(bounds, str):
        raise InputError(f'bounds="{bounds}": must be a list, as in bounds=["{bounds}"]')
    seed = arguments.whole("seed", seed)
    if not 0 <= seed < 2**64:
        raise InputError(f"seed={seed}: allowed is 0 to {2**64 - 1}")
    sources: dict[str, Any] = {"trace": trace, "profile": profile, "phases": phases}
    sources |= {"pressure": pressure, "iops": iops}
    given = _typed({name: value for name, value in sources.items() if value is not None})
    if len(given) > 1:
        raise InputError(f"{' and '.join(given)} exclude each other: a run has one load")
    options: dict[str, Any] = {"pattern": pattern, "open_loop": open_loop, "clients": clients}
    options |= {"format": format, "columns": columns, "start_s": start_s}
    options |= {"rate_scale": rate_scale, "time_scale": time_scale}
    load = _load(given, _typed(options))
    told = {} if settings is None else arguments.table("settings", settings)
    if plf is not None and takes_bounds(arguments.text("policy", policy)):
        told["plf"] = arguments.number("plf", plf)
    promised = Bound.several(
        [arguments.text("a bound", bound) for bound in arguments.listed("bounds", bounds)]
    )
    if policy == BOUND_BY:
        check_bounds(promised)
    request = Request(
        server=arguments.path("server", server),
        policy=arguments.text("policy", policy),
        load=load,
        settings=told,
        duration_s=None if duration_s is None else arguments.number("duration_s", duration_s),
        warmup_s=(
            arguments.number("warmup_s", warmup_s)
            if warmup_s is not None
            else (0.0 if trace is not None else 10.0)
        ),
        seed=seed,
        power_model=None if power_model is None else arguments.path("power_model", power_model),
        bounds=tuple(bound.text for bound in promised),
    )
    NativeSimulator().settings(policy, told)
    twin = replace(request, policy="native", settings={}, bounds=())
    outcome, native = side_by_side([request, twin])
    tolerance = float(told.get("plf", DEFAULT_PLF))
    judged = [judge(b, outcome, native) for b in promised or (Bound.of_plf(tolerance),)]
    related = simulation.relate(outcome, native, None if promised else tolerance)
    return Simulated(
        {**outcome.summary, **related, "bounds": judged},
        Table(outcome.windows),
        native.summary,
        Table(native.windows),
        judged,
    )


def _typed(given: Mapping[str, Any]) -> dict[str, Any]:
    """What says the load, each of the type that it has. Raises InputError."""
    unsaid = {name for name, value in _UNSAID.items() if value is None}
    return {
        name: None if value is None and name in unsaid else _TYPES[name](name, value)
        for name, value in given.items()
    }


def _load(given: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """The load of a request, from the one thing that says what it is, and what goes with it."""
    source = next(iter(given), "pattern")
    own = _OPTIONS_OF.get(source, _OPTIONS_OF["pattern"])
    said = {name: options[name] for name, value in _UNSAID.items() if options[name] != value}
    for name in said:
        if name not in own:
            raise InputError(f"{name} cannot be used with {source}")
    if source == "trace":
        _core.check_trace_reading(options["format"], options["columns"])
        return {"trace": str(shipped.located(given["trace"])), **said}
    who = {"open": options["open_loop"]}
    if options["clients"] is not None:
        who["clients"] = options["clients"]
    if source == "profile":
        return who | {"profile": str(shipped.located(given["profile"]))}
    if source == "phases":
        return who | {"phases": [_phase(at, each) for at, each in enumerate(given["phases"], 1)]}
    return who | {"pattern": options["pattern"]} | (dict(given) or {"pressure": DEFAULT_PRESSURE})


def _phase(at: int, phase: Mapping[str, Any]) -> dict[str, Any]:
    """A phase as it was given. Raises InputError for keys that it cannot have, or lacks."""
    if not isinstance(phase, Mapping):
        raise InputError(f"phases[{at}]: {phase!r}: must be a table, with {', '.join(_PHASE_KEYS)}")
    own = arguments.table(f"phases[{at}]", phase)
    for key in own:
        if key not in _PHASE_KEYS:
            raise InputError(f'phases[{at}]: unknown key "{key}"; {nearest(key, _PHASE_KEYS)}')
    for key in ("span_s", "pattern"):
        if key not in own:
            raise InputError(f"phases[{at}]: {key} is required")
    return own
