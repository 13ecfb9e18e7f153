"""A platform file from measured runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wattio.errors import InputError
from wattio.files import document
from wattio.files.document import Document
from wattio.models import fit as fitting
from wattio.models.files import PlatformFile
from wattio.models.fit import Computing, Fit
from wattio.models.parameter import Parameter
from wattio.models.runs import APPLICATION, WRITING_OPTIONS, Run, largest

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
    "copy_s_per_gib": Parameter("copy_s_per_gib", 0.5, 0.0, 5.0, "assumed", "not measured"),
    "send_s_per_gib": Parameter("send_s_per_gib", 2.0, 0.0, 20.0, "assumed", "not measured"),
}
"""Wide ranges for what the runs do not tell."""

_UNITS = {
    "base_s": "s",
    "power_max_w": "W",
    "client_bytes_s": "B/s",
    "storage_bytes_s": "B/s",
    "copy_s_per_gib": "s",
    "send_s_per_gib": "s",
    "make_s_per_gib": "s",
    "leave_s": "s",
}


_IF_KNOWN = {"make_per_gib": "make_s_per_gib", "leave": "leave_s"}


@dataclass(frozen=True)
class Calibration:
    """A platform, and how good each of its fits is."""

    file: PlatformFile
    fits: tuple[Fit, ...]

    @property
    def is_good(self) -> bool:
        """Whether no fit is bad; those of too few points, and of estimates, do not count."""
        return not any(fit.is_bad for fit in self.fits)


def calibrate(
    runs: Sequence[Run], name: str, idle_power_w: float | None = None, seed: int = 1
) -> Calibration:
    """Fit every parameter that the runs tell of; the others get wide ranges, called assumed.

    `idle_power_w` is that of all nodes together. Nodes and cores are the most that any run had.
    Raises InputError where the runs cannot be fitted: see `check_alike`, `fitting.computing` and
    `storage`.
    """
    check_alike(runs)
    computing = fitting.computing(runs)
    numbers, stored = fitting.storage(runs, seed)
    max_w, powered = fitting.power_max_w(runs)
    copied, copying = fitting.handing_over(runs, "dc")
    sent, sending = fitting.handing_over(runs, "dn")
    max_w = max_w or NOT_MEASURED["power_max_w"]
    blocked, waiting = fitting.blocked_share(runs, max_w)
    made, making = fitting.making(runs)
    left, leaving = fitting.leaving(runs)
    numbers_found = (max_w, copied, sent, blocked, made, left)
    found = {one.name: one for one in numbers_found if one is not None}
    nodes, cores = largest(runs)
    if idle_power_w is not None:
        found["idle_share"] = _idle(idle_power_w / nodes, max_w)
    told = NOT_MEASURED | numbers | found | {"base_s": computing.base}
    content = _content(name, nodes, cores, told, computing)
    given = Document(Path("calibration"), "", content)
    fits = (computing.fit, stored, powered, copying, sending, waiting, making, leaving)
    return Calibration(document.validate(PlatformFile, given), fits)


def check_alike(runs: Sequence[Run]) -> None:
    """Raise InputError for runs on cores of different speeds, or that write in different ways.

    What a result does not tell, as those of older versions, is taken to be as with the others. How
    a run would write does not matter where it does not.
    """
    shares = {run.core_share for run in runs}
    if len(shares) > 1:
        told = ", ".join(sorted("none" if one is None else f"{100 * one:g} %" for one in shares))
        raise InputError(f"runs of different --core-share ({told}) are not one platform")
    for name in WRITING_OPTIONS:
        found = {getattr(run, name) for run in runs if run.writes} - {None}
        if len(found) > 1:
            told = ", ".join(sorted(str(one).lower() for one in found))
            raise InputError(f"runs of different --{name} ({told}) are not one platform")


def _idle(idle_w: float, max_w: Parameter) -> Parameter:
    low, value, high = (min(1.0, idle_w / end) for end in (max_w.high, max_w.value, max_w.low))
    how = "the given power of idle nodes over that of computing ones"
    if max_w.origin != "measured":
        how += f", which is: {max_w.how}"
    return Parameter("idle_share", value, low, high, max_w.origin, how, most=1.0)


def _content(
    name: str, nodes: int, cores: int, told: dict[str, Parameter], computing: Computing
) -> dict[str, Any]:
    """A platform file as plain data."""

    def given(key: str) -> dict[str, Any]:
        one = told[key]
        values = {"value": one.value, "low": one.low, "high": one.high}
        unit = _UNITS.get(key)
        written = {n: f"{float(v)!r} {unit}" if unit else float(v) for n, v in values.items()}
        return {**written, "origin": one.origin, "how": one.how}

    return {
        "platform": {"name": name, "nodes": nodes, "cores_per_node": cores},
        "power": {
            "max": given("power_max_w"),
            "idle_share": given("idle_share"),
            "blocked_share": given("blocked_share"),
            "asleep_share": given("asleep_share"),
        },
        "storage": {
            "client": given("client_bytes_s"),
            "total": given("storage_bytes_s"),
            "contention": given("contention"),
            "free_writers": given("free_writers"),
        },
        "transfer": {
            "copy_per_gib": given("copy_s_per_gib"),
            "send_per_gib": given("send_s_per_gib"),
            **{key: given(name) for key, name in _IF_KNOWN.items() if name in told},
        },
        "compute": {
            "application": APPLICATION,
            "base": given("base_s"),
            "cells": computing.cells,
            "cores": _points(computing.cores),
            "nodes": _points(computing.nodes),
        },
    }


def _points(speedups: dict[int, Parameter]) -> dict[str, Any]:
    points = [{"count": 1, "speedup": 1.0}]
    points += [
        {"count": count, "speedup": one.value, "low": one.low, "high": one.high}
        for count, one in speedups.items()
    ]
    return {"points": points, "origin": "measured", "how": "runs without output"}
