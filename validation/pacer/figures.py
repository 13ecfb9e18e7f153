"""The document's figures 10 to 15 and 17 to 19 from our data; 6, 7 and 16 have their own modules.

Each caption says which figure it stands for. The document only draws its curves; what its text
gives as a number is marked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from wattio.analysis.statistics import Interval
from wattio.report.drawing import Drawn

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
class Groups:
    """What stands along the x axis: names of the groups, and the load of each."""

    across: str
    names: Sequence[str]
    loads: Sequence[str]


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
    groups = _rand_rw()
    values = sorted({plf for load in groups.loads for _, plf in data.plf_runs(study, load)})

    def ratio(load: str, label: str, metric: str) -> Interval | None:
        runs = {f"plf {plf:g}": own for own, plf in data.plf_runs(study, load)}
        return study.ratio(load, runs[label], metric) if label in runs else None

    looks = {
        f"plf {plf:g}": look for plf, look in zip(values, PLF_LOOKS * len(values), strict=False)
    }
    what = "PACER with Rand_RW at several plf and pressures."
    says = "mean latency grows by less than plf at every value."
    at_most = tuple(Mark(group, 1.15, "plf 0.2") for group in (0, 1))
    gained = tuple(Mark(group, 1.25, "plf 0.2") for group in (0, 1))
    typical = "at plf 0.2 and typical pressures, taken as 3 and 10 %"
    return [
        _slot(
            "10",
            "Latency for different plf",
            groups,
            looks,
            LATENCIES,
            ratio,
            f"{what} {MARKED}: at most 15 % more mean latency {typical}. It also says that {says}",
            {"latency_us_mean": at_most},
        ),
        _slot(
            "11",
            "IOPS/W for different plf",
            groups,
            looks,
            GAIN,
            ratio,
            f"{what} {MARKED}: 20 % of the power saved, which is 1.25 x IOPS/W, {typical}.",
            {"iops_per_watt": gained},
        ),
    ]


def _patterns(study: Evaluation) -> list[Slot]:
    places = [(p, pattern) for p in data.LOW_PRESSURES for pattern in (*PATTERNS, MEAN)]
    names = [f"{pattern}\n{100 * p:.0f} %" for p, pattern in places]
    groups = Groups("access pattern and pressure", names, [load_name(x, p) for p, x in places])
    looks = _looks(ONDEMAND, PACER)

    def ratio(load: str, label: str, metric: str) -> Interval | None:
        for pressure in data.LOW_PRESSURES:
            if load == load_name(MEAN, pressure):
                return study.geometric_mean(pressure, label, metric)
        return study.ratio(load, label, metric)

    means = [place for place, (_, pattern) in enumerate(places) if pattern == MEAN]
    marks = [Mark(at, x, own) for at in means for x, own in ((1.18, PACER), (1.02, ONDEMAND))]
    what = "Access patterns of Table II; the document does not name its pressures, ours are 3 and"
    what += " 10 %."
    return [
        _slot(
            "12",
            "Latency by access pattern",
            groups,
            looks,
            LATENCIES,
            ratio,
            f"{what} {ONLY_DRAWN}; its text says that PACER stays within plf on all of them.",
            bound=1 + study.plf,
        ),
        _slot(
            "13",
            "IOPS/W by access pattern",
            groups,
            looks,
            GAIN,
            ratio,
            f"{what} {MARKED}: the geometric means over the patterns, to which ours are fitted.",
            {"iops_per_watt": tuple(marks)},
        ),
    ]


def _adaptors(study: Evaluation) -> list[Slot]:
    labels = (ONDEMAND, ONDEMAND_PRINTED, DVFS, GATING, PACER, UNCOORDINATED, PRINTED, ORACLE)
    groups, looks = _rand_rw(), _looks(*labels)
    what = "Adaptors one by one and together, Rand_RW. The document has ondemand, FreqAdaptor,"
    what += (
        " CoreAdaptor and PACER; the other bars are ours. Bars with a cross leave background work"
    )
    what += " undone, so that their gain is not comparable."
    bound = 1 + study.plf
    ratio = study.ratio
    return [
        _slot(
            "14",
            "Latency by power-saving method",
            groups,
            looks,
            LATENCIES,
            ratio,
            f"{what} {ONLY_DRAWN}.",
            bound=bound,
        ),
        _slot(
            "15",
            "IOPS/W by power-saving method",
            groups,
            looks,
            GAIN,
            ratio,
            f"{what} {MARKED}: ondemand's 1.02 x, for which no pressure is named (here at 10 %).",
            {"iops_per_watt": (Mark(1, 1.02, ONDEMAND),)},
        ),
    ]


def _day(study: Evaluation) -> list[Slot]:
    groups = Groups("load", ["a day of the document's shape"], ["day"])
    looks = _looks(ONDEMAND, ONDEMAND_PRINTED, PACER, UNCOORDINATED, PRINTED, ORACLE)
    what = "A day under 10 % pressure for 95 % of the time; the document's trace is not public."
    ratio = study.ratio
    return [
        _slot(
            "17",
            "Latency on a real-world load",
            groups,
            looks,
            LATENCIES,
            ratio,
            f"{what} {MARKED}.",
            {"latency_us_mean": (Mark(0, 1.26, ONDEMAND), Mark(0, 1.19, PACER))},
            1 + study.plf,
        ),
        _slot(
            "18",
            "IOPS/W on a real-world load",
            groups,
            looks,
            GAIN,
            ratio,
            f"{what} {MARKED}.",
            {"iops_per_watt": (Mark(0, 1.02, ONDEMAND), Mark(0, 1.23, PACER))},
        ),
    ]


def _mlperf(study: Evaluation) -> list[Slot]:
    groups = Groups("benchmark, at an ASSUMED pressure", list(data.MLPERF), [*data.MLPERF.values()])
    text = "MLPerf Storage as sequential reads at an ASSUMED pressure (30 % for 3D-UNET, 5 % for"
    text += f" BERT): agreement means little. {MARKED}: power below native, here as a ratio."
    saved = {(0, ONDEMAND): 2.0, (0, PACER): 13.0, (1, ONDEMAND): 2.5, (1, PACER): 22.0}
    marks = tuple(
        Mark(group, 1 - percent / 100, label) for (group, label), percent in saved.items()
    )
    metrics = (("power_w_mean", "power"),)
    looks = _looks(ONDEMAND, PACER)
    title = "Power under MLPerf Storage"
    by_metric = {"power_w_mean": marks}
    return [_slot("19", title, groups, looks, metrics, study.ratio, text, by_metric)]


def _slot(
    number: str,
    title: str,
    groups: Groups,
    looks: dict[str, tuple[str, str]],
    metrics: Sequence[tuple[str, str]],
    ratio: Callable[[str, str, str], Interval | None],
    caption: str,
    marks: dict[str, tuple[Mark, ...]] | None = None,
    bound: float | None = None,
) -> Slot:
    """A figure of grouped bars, one panel for each metric; without any run it is empty."""
    panels = []
    for metric, name in metrics:
        series = [
            Series(
                label,
                *look,
                [ratio(load, label, metric) for load in groups.loads],
                [_floor_missed(ratio(load, label, data.BACKGROUND)) for load in groups.loads],
            )
            for label, look in looks.items()
        ]
        limit = bound if metric == "latency_us_mean" else None
        panels.append(Panel(name, series, (marks or {}).get(metric, ()), limit))
    if not any(value for panel in panels for series in panel.series for value in series.values):
        return Slot(number, title, None)
    bars = Bars(groups.names, panels, groups.across, base=1, kind="policy")
    alternative = f"Bars of {' and '.join(name for _, name in metrics)} over native, by policy."
    whole = f"Stands for figure {number} of the document. {caption}"
    heading = f"Figure {number}: {title}"
    return Slot(
        number,
        title,
        Drawn(f"published-figure-{number}", heading, whole, alternative, bars.draw(), bars.table()),
    )


def _floor_missed(done: Interval | None) -> bool:
    return done is not None and done.estimate < data.BACKGROUND_FLOOR


def _rand_rw() -> Groups:
    names = [f"{100 * pressure:.0f} %" for pressure in PRESSURES]
    return Groups(PRESSURE_AXIS, names, [load_name("Rand_RW", p) for p in PRESSURES])


def _looks(*labels: str) -> dict[str, tuple[str, str]]:
    return {label: LOOKS[label] for label in labels}
