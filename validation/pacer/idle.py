"""Table I: what the sleep states of the drives save on an idle server, by three short simulations.

The server's description is changed for them: no background work, and the drives' sleep states
removed, only Idle-0, or both. One client request a second keeps the load a valid one; it is too
little to be seen in the power.
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

from wattio.simulator import simulation
from wattio.simulator.native import NativeSimulator
from wattio.simulator.simulation import Request

STATES = ("idle0", "idle1")
"""Sleep states in the order in which a drive enters them."""

_LOAD = {"pattern": "Rand_R", "iops": 1.0}
_SPAN_S = 20.0


def powers_w(server: str) -> list[float]:
    """Mean power of the idle server with no sleep state, the first one only, and both, in watts.

    Raises InputError where the server cannot be read or has no such states.
    """
    text = simulation.server_text(server)
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for count in range(len(STATES) + 1):
            path = Path(folder) / f"{count}.toml"
            path.write_text(idle_text(text, count), encoding="utf-8")
            request = Request(str(path), "native", _LOAD, duration_s=_SPAN_S, warmup_s=1.0)
            found.append(float(NativeSimulator().simulate(request).summary["power_w_mean"]))
    return found


def savings_percent(server: str) -> dict[str, float]:
    """What each sleep state saves of the whole server's power, in per cent."""
    awake_w, *asleep_w = powers_w(server)
    pairs = zip(STATES, asleep_w, strict=True)
    return {state: 100 * (1 - power_w / awake_w) for state, power_w in pairs}


def idle_text(text: str, sleep_states: int) -> str:
    """A server description without background work and with the first sleep states only.

    Raises ValueError where the text has no list of sleep states, one on each line.
    """
    text = re.sub(r"(?m)^background_cores = .*$", "background_cores = 0.0", text)
    listed = re.search(r"(?ms)^sleep = \[\n(.*?)^\]", text)
    if listed is None:
        raise ValueError("the server description lists no sleep states of its drives")
    kept = listed.group(1).splitlines(keepends=True)[:sleep_states]
    return text[: listed.start(1)] + "".join(kept) + text[listed.end(1) :]
