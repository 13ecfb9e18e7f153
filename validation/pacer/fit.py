"""Fit the background work of the PACER document's server: the one constant that figure 7 decides.

    python -m validation.pacer.fit [--json]

The document says that background work is continuous (section III-A2) and not how much there is. It
says of figure 7 that latency begins to rise when fewer than 63 % of the cores are active, at 10 %
pressure: with more background work that point comes earlier. So the background work is sought with
which the mean latency at that many cores, gated by hand and with no law at work, is just what the
page calls risen. Prints what is found beside what the description says, and what other readings of
"minimal latency impact" would give; changes nothing. Takes about five minutes on two cores.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
import tomllib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from wattio.errors import InputError
from wattio.simulator import simulation
from wattio.simulator.native import NativeSimulator
from wattio.simulator.simulation import Request

from validation.pacer.knobs import KNEE

SERVER = "dorado6000"

KNEE_SHARE = 0.625
"""60 of 96 cores: the number nearest to 63 % that all groups can be cut to in proportion."""

PRESSURE = 0.10
SEEDS = (1, 2, 3, 4, 5)
MINIMAL = (1.01, 1.05)
"""Other mean latencies over native that "minimal latency impact" may stand for."""

RANGE = (20.0, 60.0)
"""Where the background work is sought, in cores' worth of work."""

DECIMALS = 1
JOBS = 2

BAD_INPUT = 2

Measure = Callable[[float], float]
"""Mean latency over native at the gated cores, for an amount of background work."""


@dataclass(frozen=True)
class Fit:
    """What was found: the cores' worth of background work for each latency over native."""

    described: float
    fitted: float
    readings: dict[float, float]


def with_background(text: str, cores: float) -> str:
    """A server description with this much background work, shared by the groups as their cores are.

    Raises ValueError where a group has no line of its own for it.
    """
    groups = tomllib.loads(text)["group"]
    total = sum(group["cores"] for group in groups)
    parts = iter([cores * group["cores"] / total for group in groups])
    line = re.compile(r"(?m)^background_cores = .*$")
    if len(line.findall(text)) != len(groups):
        raise ValueError("the server description does not say the background work of each group")
    return line.sub(lambda _: f"background_cores = {next(parts):.6f}", text)


def described_background(text: str) -> float:
    """How many cores' worth of background work a server description has."""
    return float(sum(group["background_cores"] for group in tomllib.loads(text)["group"]))


def latency_over_native(
    text: str, cores_share: float, seeds: Sequence[int], span_s: float = 20.0
) -> float:
    """Mean latency with a share of the cores over that with all, Rand_RW at 10 % pressure."""
    load = {"pattern": "Rand_RW", "pressure": PRESSURE}
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(JOBS) as threads:
        path = Path(folder) / "server.toml"
        path.write_text(text, encoding="utf-8")

        def mean_us(run: tuple[int, float]) -> float:
            seed, share = run
            settings = {"cores_share": share}
            request = Request(str(path), "fixed", load, settings, span_s, seed=seed)
            return float(NativeSimulator().simulate(request).summary["latency_us_mean"])

        runs = [(seed, share) for seed in seeds for share in (cores_share, 1.0)]
        means_us = list(threads.map(mean_us, runs))
    return fmean(gated / whole for gated, whole in zip(means_us[::2], means_us[1::2], strict=True))


def solve(measure: Measure, wanted: float) -> float:
    """The background work with which the measure is as wanted, by halving; it rises with the work.

    Rounded to DECIMALS. Raises ValueError where the range does not hold it.
    """
    low, high = RANGE
    if not measure(low) < wanted <= measure(high):
        raise ValueError(f"no background work from {low:g} to {high:g} cores gives {wanted:g} x")
    while high - low > 0.5 * 10**-DECIMALS:
        middle = (low + high) / 2
        if measure(middle) < wanted:
            low = middle
        else:
            high = middle
    return round((low + high) / 2, DECIMALS)


def fit(text: str, seeds: Sequence[int] = SEEDS) -> Fit:
    """Fit the background work of a server description, and tell what other readings give."""
    known: dict[float, float] = {}

    def measure(cores: float) -> float:
        if cores not in known:
            known[cores] = latency_over_native(with_background(text, cores), KNEE_SHARE, seeds)
        return known[cores]

    readings = {wanted: solve(measure, wanted) for wanted in (KNEE, *MINIMAL)}
    return Fit(described_background(text), readings[KNEE], readings)


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return its exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m validation.pacer.fit",
        description="Fit the background work of the PACER document's server to figure 7.",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object instead")
    given = parser.parse_args(arguments)
    try:
        found = fit(simulation.server_text(SERVER))
    except (InputError, ValueError) as error:
        sys.stderr.write(f"error: {error}\n")
        return BAD_INPUT
    if given.json:
        readings = [
            {"latency_over_native": wanted, "background_cores": cores}
            for wanted, cores in sorted(found.readings.items())
        ]
        told = {"described": found.described, "fitted": found.fitted}
        text = json.dumps({**told, "readings": readings})
    else:
        lines = [
            f"{cores:.1f} cores' worth of background work give {wanted:g} x mean latency at"
            f" {100 * KNEE_SHARE:g} % of the cores"
            for wanted, cores in sorted(found.readings.items())
        ]
        told_of = f"fitted: {found.fitted:.1f}; {SERVER} has {found.described:.1f}"
        text = "\n".join([*lines, told_of])
    sys.stdout.write(text + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
