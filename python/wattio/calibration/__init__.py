"""Calibration of the power model of a host against a power meter.

`host` says what can be swept, `design` which settings are visited in which order, `sweeping`
visits them under the loads of `loads`, `points` keeps what was seen, `fitting` makes coefficients
of it, and `model_file` writes them as a `power-model.toml`.
"""

from wattio.calibration.fit import Fit, fit
from wattio.calibration.points import Point

__all__ = ["Fit", "Point", "fit"]
