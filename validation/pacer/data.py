"""What the comparison with the PACER document reads from a result folder of `studies/pacer`.

Ratios are formed seed by seed against the native twin and averaged over the seeds, with an interval
by Student's t; what was not run is None and never a crash.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from wattio.analysis import statistics
from wattio.analysis.statistics import Interval
from wattio.kinds.simulation.folder import SimulationFolder
from wattio.results.runs import Metrics, Recorded, Run
from wattio.simulator.policies import REFERENCE
from wattio.simulator.simulation import Outcome

PATTERNS = ("Rand_R", "Rand_W", "Seq_R", "Seq_W", "Rand_RW")
"""The access patterns of Table II, in the order of the document."""

LOW_PRESSURES = (0.03, 0.10)
"""Pressures of figures 12 and 13, typical ones: section III-A3 has under 10 % most of the time."""

PRESSURES = (0.03, 0.10, 0.20, 0.40)
"""Pressures of figures 10, 11, 14 and 15; the document says only that the highest is 40 %."""

PACER, GATING, DVFS = "PACER", "CoreAdaptor alone", "FreqAdaptor alone"
PRINTED, UNCOORDINATED = "PACER as printed", "PACER uncoordinated"
ONDEMAND, ONDEMAND_PRINTED = "ondemand", "ondemand as printed"
ORACLE = "oracle"
MLPERF = {"3D-UNET": "3D-UNET, assumed 0.30", "BERT": "BERT, assumed 0.05"}
"""The loads that stand for MLPerf Storage; their pressures are assumed."""

BACKGROUND = "background_rate_mean"
BACKGROUND_FLOOR = 0.98
"""Background work that must be done beside a saving, as a share of native's."""

Value = Callable[[Metrics], float]
BySeed = dict[tuple[int, int], float]
"""A number of each run, by seed and repetition."""


def load_name(pattern: str, pressure: float) -> str:
    """How `studies/pacer/study.toml` calls a pattern at a pressure."""
    return f"{pattern} at {pressure:.2f}"


def fixed(setting: str, share: float) -> str:
    """How the study calls a run at a fixed share of the frequency or of the cores."""
    return "fixed" if share == 1 else f"fixed {setting}={share:g}"


def plf_runs(study: Evaluation, load: str) -> list[tuple[str, float]]:
    """The runs of PACER over plf on a load, as (label, plf) with plf ascending."""
    found = []
    for label in study.labels(load):
        run = study.run(load, label)
        swept = run is not None and (run.sweep_of, run.sweep_setting) == (PACER, "plf")
        if run is not None and (swept or label == PACER):
            found.append((label, float(run.settings["plf"])))
    return sorted(found, key=lambda pair: pair[1])


class Evaluation:
    """A result folder of the study, read once."""

    def __init__(self, path: Path) -> None:
        """Open a result folder. Raises ResultError where it is none."""
        self.folder = SimulationFolder(path)
        self.iterations = self.folder.iterations()
        self.inputs = self.folder.inputs()
        self.plf = float(self.folder.resolved()["study"]["plf"])
        self._groups: dict[tuple[str, str], dict[tuple[int, int], Recorded]] = {}
        for item in self.iterations:
            if item.usable:
                group = self._groups.setdefault((item.run.subject, item.run.condition), {})
                group[item.seed, item.repetition] = item

    @property
    def server_name(self) -> str:
        """The server of the study, as the study names it."""
        return str(next(iter(self.inputs["servers"])))

    @property
    def server(self) -> Mapping[str, Any]:
        """The description of the server, resolved."""
        description: Mapping[str, Any] = self.inputs["servers"][self.server_name]
        return description

    def loads(self, label: str) -> list[str]:
        """Loads that were run under a policy, in the order of the study."""
        return [load for load, own in self._groups if own == label]

    def labels(self, load: str) -> list[str]:
        """Policies that were run on a load, in the order of the study."""
        return [label for own, label in self._groups if own == load]

    def run(self, load: str, label: str) -> Run | None:
        """The run of a load under a policy; None where it was not run."""
        group = self._groups.get((load, label))
        return next(iter(group.values())).run if group else None

    def policy_setting(self, label: str, name: str) -> float | None:
        """A setting of a policy as it was run; None where the policy was not run."""
        for (_, own), group in self._groups.items():
            if own == label:
                value = next(iter(group.values())).run.settings.get(name)
                return None if value is None else float(value)
        return None

    def samples(self, load: str, label: str, value: str | Value) -> list[float]:
        """A metric, or a function of the metrics, of each seed; empty where it was not run."""
        found = []
        for item in self._groups.get((load, label), {}).values():
            one = _value(item.metrics, value)
            if one is not None:
                found.append(one)
        return found

    def by_seed(self, load: str, label: str, value: str | Value) -> BySeed:
        """The same over the native twin's, by seed and repetition."""
        twins = self._groups.get((load, REFERENCE), {})
        found = {}
        for key, item in sorted(self._groups.get((load, label), {}).items()):
            if key in twins:
                ours, theirs = _value(item.metrics, value), _value(twins[key].metrics, value)
                if ours is not None and theirs:
                    found[key] = ours / theirs
        return found

    def ratios(self, load: str, label: str, value: str | Value) -> list[float]:
        """The same without the seeds."""
        return list(self.by_seed(load, label, value).values())

    def mean(self, load: str, label: str, value: str | Value) -> Interval | None:
        """Mean over the seeds with its interval; None where it was not run."""
        return interval(self.samples(load, label, value))

    def ratio(self, load: str, label: str, value: str | Value) -> Interval | None:
        """Mean ratio to native with its interval; None where it was not run."""
        return interval(self.ratios(load, label, value))

    def saving_percent(self, load: str, label: str) -> Interval | None:
        """Power saved against native, in per cent."""
        return interval([100 * (1 - r) for r in self.ratios(load, label, "power_w_mean")])

    def captured_percent(self, load: str, label: str) -> Interval | None:
        """Share of the oracle's saving that a policy captures, in per cent, seed by seed."""
        powers = together(
            self.by_seed(load, label, "power_w_mean"), self.by_seed(load, ORACLE, "power_w_mean")
        )
        return interval([100 * (1 - own) / (1 - best) for own, best in powers if best < 0.999])

    def geometric_means(self, pressure: float, label: str, value: str) -> BySeed:
        """Geometric mean of ratios to native over the patterns of Table II, by seed."""
        columns = [self.by_seed(load_name(p, pressure), label, value) for p in PATTERNS]
        keys = [key for key in columns[0] if all(key in column for column in columns)]
        means = [statistics.geometric_mean(seeds) for seeds in together(*columns)]
        return dict(zip(keys, means, strict=True))

    def geometric_mean(self, pressure: float, label: str, value: str) -> Interval | None:
        """The same with its interval; None where a pattern was not run."""
        return interval([*self.geometric_means(pressure, label, value).values()])

    def background_done(self, load: str, label: str) -> Interval | None:
        """Background work done over native's, which no saving may go below the floor of.

        None where it was not run, and where native itself is too busy to do what becomes due: then
        there is nothing to hold a policy against.
        """
        due = sum(group["background_cores"] for group in self.server["group"])
        native = self.mean(load, REFERENCE, BACKGROUND)
        if native is None or native.estimate < BACKGROUND_FLOOR * due:
            return None
        return interval(self.background_ratios(load, label))

    def background_ratios(self, load: str, label: str) -> list[float]:
        """Background work done over native's, of each seed."""
        return self.ratios(load, label, BACKGROUND)

    def outcomes(self, load: str, label: str) -> list[Outcome]:
        """The windows and histograms of each seed."""
        group = self._groups.get((load, label), {})
        return [self.folder.read_outcome(item) for item in group.values()]


def together(*columns: BySeed) -> list[tuple[float, ...]]:
    """The numbers of several runs with the same seed, for the seeds that all of them have."""
    shared = [key for key in columns[0] if all(key in column for column in columns)]
    return [tuple(column[key] for column in columns) for key in shared]


def interval(values: list[float]) -> Interval | None:
    """Mean with a 95 % interval by Student's t, of no width for one value; None for no value."""
    if not values:
        return None
    return statistics.mean_interval(values) or Interval(values[0], values[0], values[0], 0.95)


def _value(metrics: Metrics, value: str | Value) -> float | None:
    if isinstance(value, str):
        return metrics[value][0] if value in metrics else None
    try:
        return value(metrics)
    except KeyError:
        return None


def core_and_drive_percent(metrics: Metrics) -> float:
    """Share of processors and drives in the server's energy, in per cent."""
    parts = metrics["energy_cores_j"][0] + metrics["energy_drives_j"][0]
    return 100 * parts / metrics["energy_j"][0]
