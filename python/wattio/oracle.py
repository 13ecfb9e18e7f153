"""The oracle: the least power found for a load that is known beforehand.

What a policy saves is read as a share of what the oracle saves. The oracle holds one setting for
each segment of the load, switches between them at no cost, keeps the latency bound, and keeps 98 %
of native's I/O and background work. "Best found": its candidates are shortlisted and confirmed by
simulation, not proved.
"""

from __future__ import annotations

import json
import math
import threading
from dataclasses import replace
from typing import Any

from wattio import _core
from wattio.errors import Cancelled, InputError, unusable
from wattio.simulation import (
    Outcome,
    Progress,
    Request,
    play,
    reading_of,
    simulate,
    specification,
)

SEARCH_SHARE = 0.9
"""Share of the work that the search takes, about; only progress bars depend on it."""

DEFAULTS: dict[str, Any] = {"plf": 0.2, "statistic": "mean", "background_floor": 0.98}
"""The oracle's settings: tolerated growth of the latency statistic ("mean" or "p99"), and the
least background work and I/O as a share of native's. `slice_s` and `trial_s` set how long a slice
of a trace and a trial of a steady load are, in seconds."""

_TRIAL_S = 1.0
_SLICE_S_MIN = 10.0
_SLICES_MAX = 60
_PLANS_MAX = 4
_TIGHTEN = 0.95


def search(
    request: Request,
    *,
    progress: Progress | None = None,
    cancelled: threading.Event | None = None,
) -> Outcome:
    """Plan each segment of the load, then play the plan; the summary carries `segments` too.

    Raises InputError for bad input and Cancelled when `cancelled` is set.
    """

    def watch(share: float) -> bool:
        if progress is not None:
            progress(SEARCH_SHARE * share)
        return cancelled is None or not cancelled.is_set()

    def watch_run(share: float) -> None:
        watch(1 + (1 / SEARCH_SHARE - 1) * share)

    options = _options(request)
    spec = json.dumps(specification(request))
    plf = options["plf"]
    for _ in range(_PLANS_MAX):
        planned = _core.oracle(spec, json.dumps(options), watch)
        if planned is None:
            raise Cancelled("stopped")
        run, plan = planned
        outcome = play(run, request, progress=watch_run, cancelled=cancelled)
        outcome.summary["segments"] = json.loads(plan)
        loss = _loss(outcome, options["statistic"], cancelled)
        if loss <= plf:
            break
        # A slice's busiest stretch need not be where latency suffers most: plan more carefully.
        options["plf"] *= _TIGHTEN * plf / loss
    return outcome


def _loss(outcome: Outcome, statistic: str, cancelled: threading.Event | None) -> float:
    """Growth of a trace's latency over native's; 0 for loads whose trials are the whole of them."""
    request = outcome.request
    if "trace" not in request.load:
        return 0.0
    native = simulate(replace(request, policy="native", settings={}), cancelled=cancelled)
    ours, theirs = (each.summary[f"latency_us_{statistic}"] for each in (outcome, native))
    return float(ours / theirs - 1) if ours is not None and theirs else 0.0


def check(settings: dict[str, Any]) -> dict[str, Any]:
    """The oracle's settings with every default filled in. Raises InputError."""
    known = {*DEFAULTS, "slice_s", "trial_s"}
    for name in settings:
        if name not in known:
            allowed = ", ".join(sorted(known))
            raise InputError(f'unknown parameter "{name}" of oracle; there are {allowed}')
    merged = {**DEFAULTS, **settings}
    if merged["statistic"] not in ("mean", "p99"):
        raise InputError(f'oracle: statistic = "{merged["statistic"]}"; allowed are mean, p99')
    for name, value in merged.items():
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if name != "statistic" and not number:
            raise InputError(f"oracle: {name} = {value!r}; allowed is a number")
        if isinstance(value, float) and not math.isfinite(value):
            raise InputError(f"oracle: {name}: {unusable(value)}")
    return merged


def _options(request: Request) -> dict[str, Any]:
    settings = check(dict(request.settings))
    slice_s = settings.get("slice_s")
    if slice_s is None:
        slice_s = _slice_s(request)
    return {
        "plf": settings["plf"],
        "statistic": settings["statistic"],
        "floor": settings["background_floor"],
        "slice_s": slice_s,
        "trial_s": settings.get("trial_s", _TRIAL_S),
    }


def _slice_s(request: Request) -> float:
    """Slices of a trace: at least ten seconds, and not more than sixty of them."""
    if "trace" not in request.load:
        return _SLICE_S_MIN
    reading = reading_of(request.load)
    info = _core.trace_info(
        str(request.load["trace"]), format=reading["format"], columns=reading["columns"]
    )
    span_s = json.loads(info)["span_s"]
    time_scale = float(request.load.get("time_scale", 1.0))
    return max(_SLICE_S_MIN, float(span_s) * time_scale / _SLICES_MAX)
