"""The `power-model.toml` of a fit: what `estimate:` and `wattiod` read."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

from wattio import _core
from wattio.calibration.fit import R_SQUARED_ASKED, Fit, Fitted
from wattio.calibration.folder import Record
from wattio.errors import InputError
from wattio.files.whole import write_whole

INTERVALS = "ordinary least squares, Student's t, two-sided, cut at zero"


def assumed_io_w() -> float:
    """Watts for a thousand I/Os per second of the model that comes with wattio."""
    return float(tomllib.loads(_core.assumed_power_model())["io"]["watts"])


def text(fit: Fit, record: Record) -> str:
    """The model as TOML. Raises InputError where the format does not allow a value."""
    share = tomllib.loads(_core.assumed_power_model())["frequency_bound_share"]
    mark = "" if fit.is_good else f", POOR FIT (R^2 {fit.r_squared:.3f})"
    covers = f" (covers {', '.join(record.covers)})" if record.covers else ""
    meters = " + ".join(meter.name for meter in record.meters) + covers
    lines = [
        *_head(fit, record),
        f"name = {_string(f'{record.host}, calibrated {record.begun[:10]}{mark}')}",
        f"meter = {_string(meters)}",
        f"r_squared = {fit.r_squared!r}",
        f'frequency_max = "{record.frequency_max_hz!r} Hz"',
        "# Not determined by power: assumed.",
        f"frequency_bound_share = {share!r}",
        "",
    ]
    for name, found in fit.coefficients.items():
        if isinstance(found, Fitted):
            if found.at_bound:
                lines.append("# At its bound: without it, it would be negative.")
            interval = f"[{found.low_w!r}, {found.high_w!r}]"
            values = f'watts = {found.watts!r}, interval_w = {interval}, origin = "measured"'
        else:
            lines.append(f"# Not determined by the points: {found.why}.")
            values = f'watts = {found.watts!r}, origin = "assumed"'
        lines.append(f"{name} = {{ {values} }}")
    made = "\n".join(lines) + "\n"
    _core.PowerModel(made)
    return made


def write(path: Path, content: str) -> None:
    """Write the file, whole or not at all. Raises InputError."""
    try:
        write_whole(path, content)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}") from None


def _head(fit: Fit, record: Record) -> list[str]:
    lines = [
        f"# Fitted by wattio calibrate power to {len(fit.points)} points.",
        f"# 95 % intervals: {INTERVALS}.",
        f"# Standard deviation of the residuals: {fit.deviation_w:.3g} W.",
    ]
    if not fit.is_good:
        lines.append(
            f"# POOR FIT: R^2 is {fit.r_squared:.4f}; above {R_SQUARED_ASKED} is asked for."
        )
    if fit.drift is not None and fit.drift.matters:
        lines.append(f"# The idle points drifted by {fit.drift.watts:+.3g} W meanwhile.")
    lines += [f"# Not swept: {name}: {_line(why)}" for name, why in record.lacks.items()]
    return lines


def _string(value: str) -> str:
    """A basic string of TOML: JSON's escapes are among its own, but for surrogates."""
    return json.dumps(_line(value), ensure_ascii=False)


def _line(value: str) -> str:
    """Text from outside, without what ends a line or means something to a terminal."""
    return "".join(c if c.isprintable() else "?" for c in value)
