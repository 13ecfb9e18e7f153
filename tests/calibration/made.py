"""Points of a host whose coefficients are known."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping, Sequence

from wattio.calibration.points import Point

TRUE_W = {
    "rest": 60.0,
    "core": 0.9,
    "core_frequency": 0.5,
    "busy": 1.1,
    "busy_frequency": 4.0,
    "io": 0.2,
}


def power_of(point: Point, watts: Mapping[str, float]) -> float:
    return (
        watts["rest"]
        + watts["core"] * point.active
        + watts["core_frequency"] * point.active_phi
        + watts["busy"] * point.busy
        + watts["busy_frequency"] * point.busy_phi
        + watts["io"] * point.kiops
    )


def points(
    *,
    phis: Sequence[float] = (0.4, 0.7, 1.0),
    cores: Sequence[int] = (1, 4, 8),
    loads: Sequence[float] = (0.0, 0.5, 1.0),
    kiops: Sequence[float] = (0.0, 20.0),
    noise_w: float = 0.1,
    drift_w: float = 0.0,
    watts: Mapping[str, float] = TRUE_W,
    seed: int = 1,
) -> list[Point]:
    """Every combination in random order, an idle point before every fourth, normal noise."""
    drawn = random.Random(seed)
    settings = list(itertools.product(phis, cores, loads, kiops))
    drawn.shuffle(settings)
    idle = (max(phis), max(cores), 0.0, 0.0)
    steps = []
    for at, setting in enumerate(settings):
        if at % 4 == 0:
            steps.append((idle, True))
        steps.append((setting, False))
    steps.append((idle, True))
    found = []
    for number, ((phi, active, load, rate), is_idle) in enumerate(steps):
        use = min(max(load + drawn.uniform(-0.02, 0.02), 0.0), 1.0)
        start_s = 100.0 + 12.0 * number
        point = Point(
            number=number,
            is_idle=is_idle,
            frequency_hz=phi * 2e9,
            cores=active,
            load=load,
            readers=int(rate > 0),
            start_s=start_s,
            end_s=start_s + 10.0,
            active=float(active),
            active_phi=active * phi,
            busy=active * use,
            busy_phi=active * use * phi,
            kiops=rate,
            power_w=0.0,
        )
        noise = drawn.gauss(0.0, noise_w) if noise_w else 0.0
        noise += drift_w * number / (len(steps) - 1)
        found.append(Point(**{**point.__dict__, "power_w": power_of(point, watts) + noise}))
    return found
