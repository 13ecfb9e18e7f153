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
    runs: Sequence[Run],
    name: str,
    idle_power_w: float | None = None,
    seed: int = 1,
    discrepancy: Parameter | None = None,
) -> Calibration:
    """Fit every parameter that the runs tell of; the others get wide ranges, called assumed.

    `idle_power_w` is that of all nodes together; `discrepancy` is what is taken where no whole run
    tells it, as of another grid. Nodes and cores are the most that any run had.
    Raises InputError where the runs cannot be fitted: see `check_alike`, `fitting.computing` and
    `storage`.
    """
    check_alike(runs)
    computing = fitting.computing(runs)
    numbers, stored = fitting.storage(runs, seed)
    max_w, powered = fitting.power_max_w(runs)
    exponent = numbers.get("size_exponent", fitting.NOT_MEASURED["size_exponent"]).value
    copied, copying = fitting.handing_over(runs, "dc", exponent)
    sent, sending = fitting.handing_over(runs, "dn", exponent)
    max_w = max_w or fitting.NOT_MEASURED["power_max_w"]
    blocked, waiting = fitting.blocked_share(runs, max_w)
    made, making = fitting.making(runs, exponent)
    left, leaving = fitting.leaving(runs)
    numbers_found = (max_w, copied, sent, blocked, made, left)
    found = {one.name: one for one in numbers_found if one is not None}
    nodes, cores = largest(runs)
    if idle_power_w is not None:
        found["idle_share"] = _idle(idle_power_w / nodes, max_w)
    told = fitting.NOT_MEASURED | numbers | found | {"base_s": computing.base}
    content = _content(name, nodes, cores, told, computing)
    content["storage"]["dump"] = f"{fitting.reference_bytes(runs)!r} B"
    file = _file(content)
    differing, whole = fitting.discrepancy(runs, file.build())
    differing = differing or discrepancy
    if differing is not None:
        file = _file(content | {"model": {"discrepancy": _given(differing)}})
    fits = (computing.fit, stored, powered, copying, sending, waiting, making, leaving, whole)
    return Calibration(file, fits)


def _file(content: dict[str, Any]) -> PlatformFile:
    return document.validate(PlatformFile, Document(Path("calibration"), "", content))


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
        return _given(told[key])

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
            "size_exponent": given("size_exponent"),
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


def _given(one: Parameter) -> dict[str, Any]:
    values = {"value": one.value, "low": one.low, "high": one.high}
    unit = _UNITS.get(one.name)
    written = {n: f"{float(v)!r} {unit}" if unit else float(v) for n, v in values.items()}
    return {**written, "origin": one.origin, "how": one.how}


def _points(speedups: dict[int, Parameter]) -> dict[str, Any]:
    points = [{"count": 1, "speedup": 1.0}]
    points += [
        {"count": count, "speedup": one.value, "low": one.low, "high": one.high}
        for count, one in speedups.items()
    ]
    return {"points": points, "origin": "measured", "how": "runs without output"}
