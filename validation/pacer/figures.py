"""The document's figures 10 to 15 and 17 to 19 from our data; 6, 7 and 16 have their own modules.

Each caption says which figure it stands for. The document only draws its curves; what its text
gives as a number is marked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from wattio.analysis.statistics import Interval
from wattio.report.plots import Drawn

from validation.common.bars import Bars, Mark, Panel, Series
from validation.pacer import burst, data, knobs
from validation.pacer.data import (
    DVFS,
    GATING,
    ONDEMAND,
    ONDEMAND_PRINTED,
    ORACLE,
    PACER,
    PATTERNS,
    PRESSURES,
    PRINTED,
    UNCOORDINATED,
    Evaluation,
    load_name,
)

LATENCIES = (("latency_us_mean", "mean latency"), ("latency_us_p99", "p99 latency"))
GAIN = (("iops_per_watt", "IOPS/W"),)
MEAN = "mean"
PRESSURE_AXIS = "pressure (share of the saturated rate)"

LOOKS = {
    ONDEMAND: ("#E69F00", ""),
    ONDEMAND_PRINTED: ("#F5D79E", "\\\\\\"),
    DVFS: ("#56B4E9", ""),
    GATING: ("#D55E00", "---"),
    PACER: ("#0072B2", ""),
    UNCOORDINATED: ("#7FB8D8", "///"),
    PRINTED: ("#CC79A7", "xxx"),
    ORACLE: ("#009E73", "++"),
}
"""Colour (Okabe and Ito, some lightened) and hatch of each policy: they differ in grey too."""

PLF_LOOKS = (
    ("#DCEAF5", ""),
    ("#A9CDE6", "//"),
    ("#0072B2", ""),
    ("#004C78", "\\\\"),
    ("#222222", ""),
)

ONLY_DRAWN = "The document only draws its values, so none are overlaid"
MARKED = "The document only draws its values; those that its text gives are marked"


@dataclass(frozen=True)
class Slot:
    """A figure of the document: its numbers, and ours where the runs are there."""

    numbers: str
    title: str
    drawn: Drawn | None


@dataclass(frozen=True)
class Comparison:
    """Bars of several policies over several loads: all that figures of one set of runs share."""

    across: str
    names: Sequence[str]
    """Of the groups of bars along the x axis."""
    loads: Sequence[str]
    looks: Mapping[str, tuple[str, str]]
    """Colour and hatch of each policy."""
    ratio: Callable[[str, str, str], Interval | None]
    """A metric of a load under a policy, over native's."""

    def slot(
        self,
        number: str,
        title: str,
        metrics: Sequence[tuple[str, str]],
        caption: str,
        marks: Sequence[Mark] = (),
        bound: float | None = None,
    ) -> Slot:
        """A figure with a panel for each metric; without any run it is empty.

        Marks and bound are the first metric's.
        """
        panels = []
        for place, (metric, name) in enumerate(metrics):
            series = [self._series(metric, label) for label in self.looks]
            first = place == 0
            panels.append(Panel(name, series, marks if first else (), bound if first else None))
        if not any(value for panel in panels for series in panel.series for value in series.values):
            return Slot(number, title, None)
        bars = Bars(self.names, panels, self.across, base=1, kind="policy")
        alternative = f"Bars of {' and '.join(name for _, name in metrics)} over native, by policy."
        whole = f"Stands for figure {number} of the document. {caption}"
        name, heading = f"published-figure-{number}", f"Figure {number}: {title}"
        drawn = Drawn(name, heading, whole, alternative, bars.draw(), bars.table())
        return Slot(number, title, drawn)

    def _series(self, metric: str, label: str) -> Series:
        done = [self.ratio(load, label, data.BACKGROUND) for load in self.loads]
        missed = [one is not None and one.estimate < data.BACKGROUND_FLOOR for one in done]
        values = [self.ratio(load, label, metric) for load in self.loads]
        return Series(label, *self.looks[label], values, missed)


def of_study(study: Evaluation) -> list[Slot]:
    """Every figure, in the order of the document."""
    return [
        Slot("6", knobs.TITLES["frequency_share"], knobs.frequency(study)),
        Slot("7", knobs.TITLES["cores_share"], knobs.cores(study)),
        *_plf(study),
        *_patterns(study),
        *_adaptors(study),
        Slot("16", burst.TITLE, burst.draw(study)),
        *_day(study),
        *_mlperf(study),
    ]


def _plf(study: Evaluation) -> list[Slot]:
    loads = _rand_rw_loads()
    values = sorted({plf for load in loads for _, plf in data.plf_runs(study, load)})

    def ratio(load: str, label: str, metric: str) -> Interval | None:
        runs = {f"plf {plf:g}": own for own, plf in data.plf_runs(study, load)}
        return study.ratio(load, runs[label], metric) if label in runs else None

    looks = {
        f"plf {plf:g}": look for plf, look in zip(values, PLF_LOOKS * len(values), strict=False)
    }
    what = f"PACER with Rand_RW at several plf and pressures. {MARKED}:"
    typical = "at plf 0.2 and typical pressures, taken as 3 and 10 %"
    most = f"{what} at most 15 % more mean latency {typical}. It also says that mean latency grows"
    most += " by less than plf at every value."
    gain = f"{what} 20 % of the power saved, which is 1.25 x IOPS/W, {typical}."
    at_most, gained = ([Mark(at, value, "plf 0.2") for at in (0, 1)] for value in (1.15, 1.25))
    over = Comparison(PRESSURE_AXIS, _pressures(), loads, looks, ratio)
    return [
        over.slot("10", "Latency for different plf", LATENCIES, most, at_most),
        over.slot("11", "IOPS/W for different plf", GAIN, gain, gained),
    ]


def _patterns(study: Evaluation) -> list[Slot]:
    places = [(p, pattern) for p in data.LOW_PRESSURES for pattern in (*PATTERNS, MEAN)]
    names = [f"{pattern}\n{100 * p:.0f} %" for p, pattern in places]
    loads = [load_name(pattern, p) for p, pattern in places]

    def ratio(load: str, label: str, metric: str) -> Interval | None:
        for pressure in data.LOW_PRESSURES:
            if load == load_name(MEAN, pressure):
                return study.geometric_mean(pressure, label, metric)
        return study.ratio(load, label, metric)

    means = [place for place, (_, pattern) in enumerate(places) if pattern == MEAN]
    marks = [Mark(at, x, own) for at in means for x, own in ((1.18, PACER), (1.02, ONDEMAND))]
    what = "Access patterns of Table II; the document does not name its pressures, ours are 3 and"
    what += " 10 %."
    within = f"{what} {ONLY_DRAWN}; its text says that PACER stays within plf on all of them."
    fitted = f"{what} {MARKED}: the geometric means over the patterns, to which ours are fitted."
    looks = _looks(ONDEMAND, PACER)
    over = Comparison("access pattern and pressure", names, loads, looks, ratio)
    return [
        over.slot("12", "Latency by access pattern", LATENCIES, within, bound=1 + study.plf),
        over.slot("13", "IOPS/W by access pattern", GAIN, fitted, marks),
    ]


def _adaptors(study: Evaluation) -> list[Slot]:
    labels = (ONDEMAND, ONDEMAND_PRINTED, DVFS, GATING, PACER, UNCOORDINATED, PRINTED, ORACLE)
    what = "Adaptors one by one and together, Rand_RW. The document has ondemand, FreqAdaptor,"
    what += " CoreAdaptor and PACER; the other bars are ours. Bars with a cross leave background"
    what += " work undone, so that their gain is not comparable."
    gain = f"{what} {MARKED}: ondemand's 1.02 x, for which no pressure is named (here at 10 %)."
    latency = f"{what} {ONLY_DRAWN}."
    loads, looks = _rand_rw_loads(), _looks(*labels)
    over = Comparison(PRESSURE_AXIS, _pressures(), loads, looks, study.ratio)
    return [
        over.slot("14", "Latency by power-saving method", LATENCIES, latency, (), 1 + study.plf),
        over.slot("15", "IOPS/W by power-saving method", GAIN, gain, [Mark(1, 1.02, ONDEMAND)]),
    ]


def _day(study: Evaluation) -> list[Slot]:
    what = "A day under 10 % pressure for 95 % of the time; the document's trace is not public."
    what += f" {MARKED}."
    looks = _looks(ONDEMAND, ONDEMAND_PRINTED, PACER, UNCOORDINATED, PRINTED, ORACLE)
    over = Comparison("load", ["a day of the document's shape"], ["day"], looks, study.ratio)
    latency = [Mark(0, 1.26, ONDEMAND), Mark(0, 1.19, PACER)]
    gain = [Mark(0, 1.02, ONDEMAND), Mark(0, 1.23, PACER)]
    return [
        over.slot("17", "Latency on a real-world load", LATENCIES, what, latency, 1 + study.plf),
        over.slot("18", "IOPS/W on a real-world load", GAIN, what, gain),
    ]


def _mlperf(study: Evaluation) -> list[Slot]:
    text = "MLPerf Storage as sequential reads at an ASSUMED pressure (30 % for 3D-UNET, 5 % for"
    text += f" BERT): agreement means little. {MARKED}: power below native, here as a ratio."
    saved = {(0, ONDEMAND): 2.0, (0, PACER): 13.0, (1, ONDEMAND): 2.5, (1, PACER): 22.0}
    marks = [Mark(group, 1 - percent / 100, label) for (group, label), percent in saved.items()]
    names, loads = list(data.MLPERF), [*data.MLPERF.values()]
    looks, across = _looks(ONDEMAND, PACER), "benchmark, at an ASSUMED pressure"
    over = Comparison(across, names, loads, looks, study.ratio)
    title = "Power under MLPerf Storage"
    return [over.slot("19", title, (("power_w_mean", "power"),), text, marks)]


def _pressures() -> list[str]:
    return [f"{100 * pressure:.0f} %" for pressure in PRESSURES]


def _rand_rw_loads() -> list[str]:
    return [load_name("Rand_RW", pressure) for pressure in PRESSURES]


def _looks(*labels: str) -> dict[str, tuple[str, str]]:
    return {label: LOOKS[label] for label in labels}
