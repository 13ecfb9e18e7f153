"""Numbers as people read them."""

from __future__ import annotations

import math

from wattio.analysis.soundness import does_background

DASH = "\N{EN DASH}"


def number(value: float | None) -> str:
    """Three significant digits or all before the point, thousands apart, no power of ten."""
    if value is None:
        return DASH
    size = abs(value)
    if size >= 1000 or value == 0:
        return f"{value:,.0f}".replace(",", "\N{NARROW NO-BREAK SPACE}")
    return f"{value:.{max(0, 2 - math.floor(math.log10(size)))}f}"


LATENCY_UNITS = ((1e6, "s"), (1e3, "ms"), (1.0, "µs"))
ENERGY_UNITS = ((3.6e9, "MWh"), (3.6e6, "kWh"), (3.6e3, "Wh"), (1.0, "J"))
_SPACE = "\N{NO-BREAK SPACE}"


def latency(value_us: float | None) -> str:
    """A latency in the unit that fits: 428 µs, 2.34 ms."""
    return _fitting(value_us, LATENCY_UNITS)


def energy(value_j: float | None) -> str:
    """An energy in the unit that fits: 97.4 J, 1.89 Wh."""
    return _fitting(value_j, ENERGY_UNITS)


def quantity(value: float | None, unit: str) -> str:
    """A value of the catalog in the unit that fits: µs become ms, joules watt-hours."""
    if unit == "us":
        return latency(value)
    if unit == "J":
        return energy(value)
    return number(value) if unit in ("", "1") or value is None else f"{number(value)}{_SPACE}{unit}"


def _fitting(value: float | None, units: tuple[tuple[float, str], ...]) -> str:
    if value is None:
        return DASH
    factor, unit = next((one for one in units if abs(value) >= one[0]), units[-1])
    return f"{number(value / factor)}{_SPACE}{unit}"


def percent(share: float | None, decimals: int | None = None) -> str:
    """A share as per cent; one decimal below ten."""
    if share is None:
        return DASH
    value = 100 * share
    places = decimals if decimals is not None else (0 if abs(value - round(value)) < 1e-9 else 1)
    return f"{value:.{places}f}\N{NO-BREAK SPACE}%"


def setting(value: object) -> str:
    """The value of a setting as a study file has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def times(ratio: float | None) -> str:
    """A ratio to native."""
    return DASH if ratio is None else f"{ratio:.2f}\N{MULTIPLICATION SIGN}"


def undone(background: float | None) -> str:
    """What is left undone of a server's own work, by the share of it that is done; or nothing."""
    if background is None or does_background(background):
        return ""
    return f", with {percent(1 - background, 0)} of the background work left undone"


def bracketed(text: str, sound: bool) -> str:
    """A saving; in brackets where it was had by breaking the bound or leaving work undone."""
    return text if sound or text == DASH else f"({text})"
