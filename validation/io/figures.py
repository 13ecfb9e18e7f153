"""Figures that stand for those of the document, drawn from both models' predictions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from wattio.analysis.statistics import Interval
from wattio.models import parameter
from wattio.models.scenario import Prediction
from wattio.report.plots import Drawn

from validation.common.bars import Bars, Mark, Panel, Series
from validation.io.entries import given, published
from validation.io.models import DocumentFit, LeftOut, Site

TITLES = ("TP", "DC(ONE)", "DC(TWO)", "DN(15:1)", "DN(7:1)")
EXTENDED, DOCUMENT, LEFT_OUT = (
    "extended model",
    "document's model, at best",
    "extended model, this one left out",
)
REFERENCE = "DC(ONE)"
"""The document's best on Rennes."""

LOOKS = (("#0072B2", ""), ("#E69F00", "////"), ("#009E73", "++"), ("#CC79A7", "xxxx"))
"""Colour and hatch of the series of a figure, in their order."""

NOT_IN_TEXT = "The document only draws its values: they are not in the text."

Reading = Callable[[Prediction], NDArray[np.float64]]


def of_study(
    energies: Mapping[str, float],
    fit: DocumentFit,
    left_out: Sequence[LeftOut],
    nancy: Site,
    rennes: Site,
) -> list[Drawn]:
    """All figures, in the document's order."""
    return [
        _totals(energies, fit, left_out, nancy),
        _frequencies(energies, nancy),
        _sizes(energies, nancy),
        _rennes(rennes),
        _both(nancy, rennes),
        _speedups(rennes),
        _validation(rennes, nancy),
    ]


def energy_kj(one: Prediction) -> NDArray[np.float64]:
    """Energy of all nodes, in kJ."""
    return np.asarray(one.energy_j) / 1e3


def time_s(one: Prediction) -> NDArray[np.float64]:
    """Length of the run, in seconds."""
    return np.asarray(one.time_s)


def power_kw(one: Prediction) -> NDArray[np.float64]:
    """Mean power of all nodes, in kW."""
    return np.asarray(one.power_w_mean) / 1e3


def _series(
    place: int, label: str, site: Site, reading: Reading, every: int, size: float | None = None
) -> Series:
    values = [parameter.interval(reading(site.predict(title, every, size))) for title in TITLES]
    return Series(label, *LOOKS[place], values)


def _marks(energies: Mapping[str, float], series: str) -> tuple[Mark, ...]:
    return tuple(Mark(at, energies[title], series) for at, title in enumerate(TITLES))


def _exact(value: float | None) -> Interval | None:
    return None if value is None else Interval(value, value, value, 1.0)


def _totals(
    energies: Mapping[str, float], fit: DocumentFit, left_out: Sequence[LeftOut], site: Site
) -> Drawn:
    others = {one.title: one.predicted_kj for one in left_out}
    energy = [
        _series(0, EXTENDED, site, energy_kj, 10),
        Series(LEFT_OUT, *LOOKS[1], [others[title] for title in TITLES]),
        Series(DOCUMENT, *LOOKS[2], [_exact(fit.energies_kj.get(title)) for title in TITLES]),
    ]
    panels = [
        Panel("energy (kJ)", energy, _marks(energies, EXTENDED)),
        Panel("time (s)", [_series(0, EXTENDED, site, time_s, 10)]),
        Panel("power (kW)", [_series(0, EXTENDED, site, power_kw, 10)]),
    ]
    caption = (
        "Stands for figure 2: Nancy, output every 10 steps. Energies are Table 2's; times and power"
        " are only drawn in the document. The extended model was reconciled with Table 2, so its"
        " energies are no evidence; those of an approach left out are. Times and power have wide"
        " intervals as the power of a node is not published."
    )
    return _drawn("figure-2", "Figure 2: by approach, Nancy", caption, TITLES, panels)


def _frequencies(energies: Mapping[str, float], site: Site) -> Drawn:
    series = [
        _series(place, f"output every {every} steps", site, energy_kj, every)
        for place, every in enumerate((10, 20, 30))
    ]
    panel = Panel("energy (kJ)", series, _marks(energies, series[0].label))
    caption = (
        "Stands for figure 3: Nancy, by frequency of output. Published are the totals every 10"
        " steps; the others are only drawn. That writing is hidden every 20 steps was given to the"
        " model, in the text's words."
    )
    return _drawn("figure-3", "Figure 3: by frequency of output, Nancy", caption, TITLES, [panel])


def _sizes(energies: Mapping[str, float], site: Site) -> Drawn:
    sizes = given(published(), "bytes_per_output")

    def series(reading: Reading) -> list[Series]:
        return [
            _series(place, f"{size / 1e6:.0f} MB", site, reading, 10, size)
            for place, size in enumerate(sizes)
        ]

    energy = series(energy_kj)
    panels = [
        Panel("energy (kJ)", energy, _marks(energies, energy[0].label)),
        Panel("time (s)", series(time_s)),
    ]
    caption = (
        "Stands for figure 4: Nancy, by data of a dump, output every 10 steps. The text does not"
        " say how often those runs wrote, and gives no numbers. That less data costs dedicated"
        " cores more energy (they poll) is in neither model."
    )
    return _drawn("figure-4", "Figure 4: by amount of data, Nancy", caption, TITLES, panels)


def _rennes(site: Site) -> Drawn:
    readings = (("energy", energy_kj), ("time", time_s), ("power", power_kw))
    panels = [Panel("energy (kJ)", [_series(0, EXTENDED, site, energy_kj, 10)])]
    panels += [
        Panel(f"{name}, over {REFERENCE}'s", [_over_reference(site, reading)])
        for name, reading in readings
    ]
    caption = (
        f"Stands for figure 5: Rennes, output every 10 steps. {NOT_IN_TEXT} T_base is published;"
        " power, scalability and rates of storage are assumed, hence the intervals. Much of them is"
        f" common to all bars; over {REFERENCE}'s, draw by draw, it falls out."
    )
    return _drawn("figure-5", "Figure 5: by approach, Rennes", caption, TITLES, panels)


def _over_reference(site: Site, reading: Reading) -> Series:
    least = reading(site.predict(REFERENCE, 10))
    values = [parameter.interval(reading(site.predict(title, 10)) / least) for title in TITLES]
    return Series(EXTENDED, *LOOKS[0], values)


def _both(nancy: Site, rennes: Site) -> Drawn:
    def rate(one: Prediction) -> NDArray[np.float64]:
        return nancy.application.iterations / np.asarray(one.time_s)

    readings = (("energy (kJ)", energy_kj), ("power (kW)", power_kw), ("steps per second", rate))
    panels = [
        Panel(
            name,
            [_series(0, "Nancy", nancy, reading, 10), _series(1, "Rennes", rennes, reading, 10)],
        )
        for name, reading in readings
    ]
    caption = (
        "Stands for figures 6 and 7: both clusters, output every 10 steps, by the extended model."
        f" {NOT_IN_TEXT}"
    )
    return _drawn("figure-6-7", "Figures 6 and 7: both clusters", caption, TITLES, panels)


def _speedups(site: Site) -> Drawn:
    platform = site.platform
    kinds = (("cores", platform.cores_speedup, 24), ("nodes", platform.nodes_speedup, 16))
    values = []
    names = []
    for what, scalability, most in kinds:
        for count in (most // 4, most // 2, most):
            found = scalability.speedup(count, site.draws)
            values.append(parameter.interval(np.asarray(found) / count))
            names.append(f"{count} {what}")
    series = [Series("assumed for Rennes", *LOOKS[3], values)]
    caption = (
        "Stands for figure 8: S(k), the speedup over the number of cores or nodes. "
        f"{NOT_IN_TEXT} Its text says: better than linear on 2 to 12 cores (an Amdahl form cannot"
        " be), sublinear beyond 16 cores and on any number of nodes; T_base = 18.1 s. Only 22 to 24"
        " cores enter the predictions. A measured table can be given instead of the form."
    )
    title = "Figure 8: scalability, Rennes"
    return _drawn("figure-8", title, caption, names, [Panel("S(k)", series)])


def _validation(rennes: Site, nancy: Site) -> Drawn:
    panels = [
        Panel(
            f"energy (kJ), {name}",
            [
                _series(0, "output every 30 steps", site, energy_kj, 30),
                _series(1, "output every 10 steps", site, energy_kj, 10),
            ],
        )
        for name, site in (("Rennes", rennes), ("Nancy", nancy))
    ]
    caption = (
        "Stands for figures 10 and 11, the document's validation: energies measured and modelled"
        " are only drawn, Table 3 has their deviations. Figure 10's runs wrote every 30 steps;"
        " figure 11's text names DN(15:1) the best on Nancy, which here is so with output every 20"
        " or 30 steps, not 10."
    )
    title = "Figures 10 and 11: the document's validation"
    return _drawn("figure-10-11", title, caption, TITLES, panels)


def _drawn(
    name: str, title: str, caption: str, groups: Sequence[str], panels: Sequence[Panel]
) -> Drawn:
    bars = Bars(groups, panels, "I/O approach", absent="not modelled")
    quantities = " and ".join(panel.quantity for panel in panels)
    alternative = f"Bars of {quantities} by approach."
    return Drawn(name, title, caption, alternative, bars.draw(), bars.table())
