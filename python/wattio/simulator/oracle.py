"""The oracle: the least power found for a load that is known beforehand.

What a policy saves is read as a share of what the oracle saves. The oracle chooses a setting for
each half second of the load, switches at no cost, keeps its bounds on latency over the whole run,
and keeps 98 % of native's I/O and background work, which it may do in batches. It plays every
policy, too: what a policy does in a slot may be chosen for it, and where a policy that keeps the
same promises saves more than anything else, its run is the answer. So no policy with its default
settings saves more than the oracle within the same promises.

"Best found": its settings are shortlisted by analysis and confirmed by simulation, not proved. Its
`tolerance_share` is how far the best found stays behind what its slots would give if none of them
cared for the one before, as a share of native's energy.
"""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Collection
from typing import Any

from wattio import _core
from wattio.errors import Cancelled, InputError, unusable
from wattio.files.document import nearest
from wattio.simulator.simulation import Outcome, Progress, Request, play, specification

SEARCH_SHARE = 0.97
"""Share of the work that the search takes, about; only progress bars depend on it."""

DEFAULTS: dict[str, Any] = {"plf": 0.2, "statistic": "mean", "background_floor": 0.98}
"""The oracle's settings: tolerated growth of the latency statistic ("mean", "p99" or another
quantile) over the run, and the least background work and I/O as a share of native's."""

OPTIONAL = ("slice_s", "trial_s", "background_delay_s")
"""Settings without a default here: length of a slot in seconds (0.5; longer where there would be
more than 16,384 of them), how long a setting is tried in a steady phase of a load that is too
large to be simulated whole each time (2), and how long background work may wait (as long as the
server remembers it)."""

BOUNDS_MAX = _core.ORACLE_BOUNDS_MAX
"""The most bounds that it keeps at once."""

_SLICE_S = 0.5
_TRIAL_S = 2.0


def search(
    request: Request,
    *,
    progress: Progress | None = None,
    cancelled: threading.Event | None = None,
) -> Outcome:
    """Plan the load slot by slot, then play the plan.

    The request's bounds are kept; where it has none, the statistic and plf of its settings. The
    summary carries the plan's `segments` and under `search` its other keys (see
    `wattio._core.oracle`). Raises InputError for bad input and Cancelled when `cancelled` is set.
    """

    def watch(share: float) -> bool:
        if progress is not None:
            progress(SEARCH_SHARE * share)
        return cancelled is None or not cancelled.is_set()

    def watch_run(share: float) -> None:
        if progress is not None:
            progress(SEARCH_SHARE + (1.0 - SEARCH_SHARE) * share)

    check_bounds(request.bounds)
    options = _options(request)
    planned = _core.oracle(
        json.dumps(specification(request, cancelled)), json.dumps(options), watch
    )
    if planned is None:
        raise Cancelled("stopped")
    run, text = planned
    outcome = play(run, request, progress=watch_run, cancelled=cancelled)
    plan = json.loads(text)
    outcome.summary["segments"] = plan.pop("segments")
    outcome.summary["search"] = plan
    return outcome


def bound_of(settings: dict[str, Any]) -> str:
    """The bound that the oracle's settings name."""
    return f"{settings['statistic']} {settings['plf']!r} run"


def check_bounds(bounds: Collection[object]) -> None:
    """Whether it can keep so many bounds. Raises InputError."""
    if len(bounds) > BOUNDS_MAX:
        raise InputError(f"the oracle keeps at most {BOUNDS_MAX} bounds; there are {len(bounds)}")


def check(settings: dict[str, Any]) -> dict[str, Any]:
    """The oracle's settings with every default filled in. Raises InputError."""
    for name in settings:
        if name not in DEFAULTS and name not in OPTIONAL:
            known = sorted([*DEFAULTS, *OPTIONAL])
            raise InputError(f'unknown parameter "{name}" of oracle; {nearest(name, known)}')
    merged = {**DEFAULTS, **settings}
    for name, value in merged.items():
        if name == "statistic":
            continue
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise InputError(f"oracle: {name} = {value!r}; allowed is a number")
        if not math.isfinite(value):
            raise InputError(f"oracle: {name}: {unusable(float(value))}")
    try:
        _core.check_bound(bound_of(merged))
    except InputError as error:
        raise InputError(f"oracle: {error}") from error
    return merged


def _options(request: Request) -> dict[str, Any]:
    settings = check(dict(request.settings))
    return {
        "bounds": list(request.bounds) or [bound_of(settings)],
        "floor": settings["background_floor"],
        "slice_s": settings.get("slice_s", _SLICE_S),
        "trial_s": settings.get("trial_s", _TRIAL_S),
        "background_delay_s": settings.get("background_delay_s"),
    }
