"""The power model of a calibrated host in a server description.

The model (`power-model.toml`, written by `wattio calibrate power`) says

    P = rest + n (core + core_frequency phi) + b (busy + busy_frequency phi) + io k,

a description says what a core draws that sleeps and one that runs. With phi the frequency over the
model's highest, both are linear, so the cores' figures carry over exactly:

    sleeping: core + core_frequency phi
    running:  core + busy + (core_frequency + busy_frequency) phi

A core that polls is busy to the kernel, which the model was fitted by, so it draws what a running
one does. The description's table of voltages goes: the model is linear in the frequency.

`rest` and `io` stay out. They hold the drives, of which the description has its own power, and the
model cannot tell them from the fans; `frequency_bound_share` is assumed in every model.
"""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wattio import _core
from wattio.errors import InputError
from wattio.files import toml_text
from wattio.files.document import another_kind_of, text_of
from wattio.files.plain import plain

_TERMS = ("core", "core_frequency", "busy", "busy_frequency")
_ABOVE = 1.001
"""A frequency this much higher than the model's is beyond it; less is how it was rounded."""


@dataclass(frozen=True)
class Applied:
    """A server description (TOML) with a model's core power, and what was taken and kept."""

    text: str
    facts: dict[str, Any]


def apply(server: str, model: Path) -> Applied:
    """Replace the core power of a server description (TOML text) by a model's.

    `facts` holds `file`, `name` and `is_measured` of the model; `cores`, the watts now in use
    (`idle_w`, `idle_frequency_w`: a sleeping core and what the highest frequency adds, absent where
    cores poll; `running_w`, `running_frequency_w`); `not_measured`, the terms of them that were not
    fitted; `rest_w` and `io_w`, which were not taken; and `frequency_beyond_hz`, the description's
    highest frequency where the model was not fitted as high, else None.

    Raises InputError that names the model's file and key.
    """
    found = _read(model)
    content = tomllib.loads(server)
    cores = content["cores"]
    highest_hz = _core.parse_quantity(cores["frequency_max"], "frequency")
    stretch = highest_hz / found["frequency_max_hz"]
    core, core_phi, busy, busy_phi = (found[name]["watts"] for name in _TERMS)
    watts = {"running_w": core + busy, "running_frequency_w": (core_phi + busy_phi) * stretch}
    for key in ("voltage", "idle_power", "idle_frequency_power"):
        cores.pop(key, None)
    if cores["idle"] == "c-states":
        watts |= {"idle_w": core, "idle_frequency_w": core_phi * stretch}
        cores["idle_power"] = _text(core)
        cores["idle_frequency_power"] = _text(core_phi * stretch)
    cores["static_power"] = _text(watts["running_w"])
    cores["dynamic_power"] = _text(watts["running_frequency_w"])
    assumption = f"core power of the power model {found['name']!r}"
    content["assumptions"] = [*content["assumptions"], assumption]
    text = toml_text.dump(content)
    _core.check_server(text)
    measured = [name for name in _TERMS if found[name]["origin"] == "measured"]
    return Applied(
        text,
        {
            "file": str(model),
            "name": found["name"],
            "is_measured": len(measured) == len(_TERMS),
            "cores": watts,
            "not_measured": [name for name in _TERMS if name not in measured],
            "rest_w": found["rest"]["watts"],
            "io_w": found["io"]["watts"],
            "frequency_beyond_hz": highest_hz if stretch > _ABOVE else None,
            "frequency_max_hz": found["frequency_max_hz"],
        },
    )


def sentences(facts: dict[str, Any]) -> list[str]:
    """What was taken of a model and what was not, for people; `facts` are those of `apply`."""
    cores = facts["cores"]
    running = f"{plain(cores['running_w'])} W + {plain(cores['running_frequency_w'])} W"
    lines = [
        f"core power of {facts['file']} ({facts['name']}): running {running} at full frequency"
    ]
    if "idle_w" in cores:
        lines[0] += f", idle {plain(cores['idle_w'])} W + {plain(cores['idle_frequency_w'])} W"
    else:
        lines[0] += ", idle the same, since the cores poll"
    if facts["not_measured"]:
        terms = ", ".join(facts["not_measured"])
        lines.append(
            f"not measured in it: {terms}; what a sweep cannot tell apart counts in another term, "
            "perhaps in rest"
        )
    if (beyond := facts["frequency_beyond_hz"]) is not None:
        lines.append(
            f"extrapolated: the server goes to {beyond / 1e9:g} GHz, the model only to "
            f"{facts['frequency_max_hz'] / 1e9:g} GHz"
        )
    lines.append(
        "kept of the description: the drives and the rest; the model cannot tell one from the other"
        f" (its rest {plain(facts['rest_w'])} W and {plain(facts['io_w'])} W for 1000 I/Os a second"
        " are not used)"
    )
    return lines


def _read(path: Path) -> dict[str, Any]:
    text = text_of(path)
    try:
        facts: dict[str, Any] = json.loads(_core.PowerModel(text).facts())
    except InputError as error:
        raise InputError(f"{path}: {another_kind_of(text, 'core_frequency') or error}") from None
    return facts


def _text(watts: float) -> str:
    return f"{watts!r} W"
