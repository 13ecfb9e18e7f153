"""What both models say of the document's runs: at best, at most, and of an approach left out."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from wattio.analysis.statistics import Interval
from wattio.models import advice, document, parameter, posterior, scenario
from wattio.models.advice import Objective
from wattio.models.approach import Approach, resources
from wattio.models.files import PlatformFile, read_application, read_platform
from wattio.models.posterior import Sampling
from wattio.models.scenario import Application, Platform, Prediction

from validation.io.entries import approach_of

FOLDER = Path(__file__).parents[2] / "studies" / "io-approaches"
ENERGY = Objective("energy", 1, 0)
SEED = 3

Array = NDArray[np.float64]


def ratio_bound(nodes: int, first: Approach, second: Approach) -> float:
    """The most that the document's model allows for E(first) over E(second), both of nodes.

    T of equation (2) does not rise with computing nodes unless the scalability falls by more
    than their number rises, so with more of them in the first it is the ratio of equation (3),
    which is largest at P_idle = 0.
    """
    powers = []
    for approach in (first, second):
        used = resources(approach, nodes, 1)
        powers.append(
            document.dedicated_nodes_power_w(used.compute_nodes, used.dedicated_nodes, 0.0, 1.0)
        )
    return powers[0] / powers[1]


def least_mean_error(bound: float, energies: Mapping[str, float]) -> float:
    """The least mean relative error over totals that a model with this bound can have.

    Both DN totals enter; the others can be met exactly. The error is piecewise linear in the
    second's prediction, so it is least at one of its corners.
    """
    first, second = energies["DN(15:1)"], energies["DN(7:1)"]
    corners = (second, first / bound)
    sums = [abs(e / second - 1) + abs(min(bound * e, first) / first - 1) for e in corners]
    return min(sums) / sum(title != "TP" for title in energies)


@dataclass(frozen=True)
class DocumentFit:
    """The document's model with Amdahl's forms, fitted to totals as well as it can be, in kJ."""

    energies_kj: Mapping[str, float]
    mean_error: float
    cores_sigma: float
    nodes_sigma: float
    idle_share: float


def best_fit(platform: Platform, energies: Mapping[str, float]) -> DocumentFit:
    """Scale, sigma over cores and nodes and P_idle / P_max with the least mean relative error.

    Searched on a grid over the platform's ranges of the last three; the scale, in which the error
    is piecewise linear, at its corners. Time partitioning is not in that model.
    """
    wanted = {title: kj for title, kj in energies.items() if title != "TP"}
    known = np.array(list(wanted.values()))
    best: tuple[float, Array, tuple[float, ...]] | None = None
    for point in itertools.product(*_grid(platform)):
        cores_sigma, nodes_sigma, idle_share = point
        profile = document.Profile(1.0, _amdahl(cores_sigma), _amdahl(nodes_sigma), idle_share, 1.0)
        found = [
            document.estimate(approach_of(title), profile, platform.nodes, platform.cores, 1)
            for title in wanted
        ]
        shape = np.array([one.energy_j for one in found if one is not None])
        for scale in known / shape:
            error = float(np.mean(np.abs(scale * shape / known - 1)))
            if best is None or error < best[0]:
                best = error, scale * shape, point
    if best is None:
        raise ValueError("nothing to fit to")
    return DocumentFit(dict(zip(wanted, best[1].tolist(), strict=True)), best[0], *best[2])


def _grid(platform: Platform) -> list[list[float]]:
    ranges = {one.name: one for one in platform.parameters}
    names = ("cores_sigma", "nodes_sigma", "idle_share")
    return [np.linspace(ranges[n].low, ranges[n].high, 21).tolist() for n in names]


def _amdahl(sigma: float) -> document.Scalability:
    return lambda count: 1 / (1 + sigma * (count - 1))


@dataclass(frozen=True)
class Site:
    """A cluster of the document: its file, and draws that agree with what was published of it."""

    name: str
    file: PlatformFile
    platform: Platform
    application: Application
    draws: Mapping[str, Array]
    sampling: Sampling | None

    def predict(
        self,
        title: str,
        every: int | None = None,
        output_bytes: float | None = None,
        as_run: bool = False,
    ) -> Prediction:
        """A run by the extended model; steps between dumps and bytes are the file's otherwise.

        With `as_run` the model's discrepancy is in it, as in what is measured of a run.
        """
        run = self.application
        run = replace(run, output_every=every or run.output_every)
        run = replace(run, output_bytes=output_bytes or run.output_bytes)
        found = scenario.predict(approach_of(title), self.platform, run, self.draws)
        return scenario.discrepant(found, run, self.draws, SEED) if as_run else found

    def advise(self, titles: Sequence[str], every: int) -> advice.Advice:
        """All approaches ranked by energy."""
        run = replace(self.application, output_every=every)
        chosen = [approach_of(title) for title in titles]
        return advice.of_draws(self.platform, run, ENERGY, chosen, self.draws, SEED)


def site(name: str, draws: int, left_out: str | None = None, words: bool = False) -> Site:
    """Read a cluster's file and draw.

    Nothing that is known of a left-out approach is used; with `words`, its energy is not.
    """
    file = read_platform(FOLDER / "platforms" / f"{name}.toml")
    platform = file.build()
    known = []
    for run in file.observed_runs():
        if left_out is None or run.approach != approach_of(left_out):
            known.append(run)
        elif words and run.hidden:
            known.append(replace(run, energy_j=None))
    drawn = posterior.condition(platform, known, draws, SEED)
    application = read_application(FOLDER / "cm1.toml")
    return Site(name, file, platform, application, drawn.values, drawn.sampling)


def nearest_draw(site: Site, energies: Mapping[str, float]) -> dict[str, float]:
    """Energies in kJ of the draw with the least mean relative error, of the document's four.

    As the document's model is fitted at its best, so is the extended one by this, but under what
    the text says of writing that is hidden.
    """
    drawn = {title: np.asarray(site.predict(title, every=10).energy_j) / 1e3 for title in energies}
    errors = [np.abs(drawn[title] / kj - 1) for title, kj in energies.items() if title != "TP"]
    best = int(np.mean(errors, axis=0).argmin())
    return {title: float(values[best]) for title, values in drawn.items()}


@dataclass(frozen=True)
class LeftOut:
    """An approach predicted from the others, in kJ; `with_words`: and from what the text says.

    The text says which approaches keep up with which output, without numbers.
    """

    title: str
    published_kj: float
    predicted_kj: Interval
    with_words_kj: Interval

    def is_inside(self, predicted_kj: Interval) -> bool:
        """Whether the interval holds the published value."""
        return predicted_kj.low <= self.published_kj <= predicted_kj.high


def leave_one_out(energies: Mapping[str, float], draws: int) -> list[LeftOut]:
    """Each approach of Table 2 predicted by a model that was reconciled with the other four."""
    found = []
    for title, published_kj in energies.items():
        strict, worded = (
            parameter.interval(
                site("nancy", draws, title, words).predict(title, 10, as_run=True).energy_j / 1e3
            )
            for words in (False, True)
        )
        found.append(LeftOut(title, published_kj, strict, worded))
    return found
