"""The numbers of the document on Damaris: Tables 1 to 3 and its text, each with what it follows of.

Table 1 is computed from nodes and cores; the means of Table 2 from its totals, the mean and the
worst of Table 3 from its rows. What was measured is an input.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from wattio.models.approach import Approach, Resources, resources

from validation.common import printed
from validation.common.printed import Checked, Entry, Values, number

PUBLISHED = Path(__file__).with_name("published.toml")
SECTION = "damaris"
SITES = ("nancy", "rennes")
MEASURED, GIVEN = "measured: an input", "given: an input"
COUNTS = {"ONE": 1, "TWO": 2}

_TITLE = re.compile(r"TP|DC\((\w+)\)|DN\((\d+):1\)")


def approach_of(title: str) -> Approach:
    """The approach that the document calls so. Raises ValueError for another word."""
    found = _TITLE.fullmatch(title)
    if found is None:
        raise ValueError(f"{title} is no approach of the document")
    if found[1]:
        return Approach("dc", COUNTS[found[1]])
    return Approach("dn", int(found[2])) if found[2] else Approach("tp")


def titles(values: Values) -> list[str]:
    """The approaches in the order of Table 2."""
    marks = (key.split(".") for key in values if key.startswith(f"{SECTION}.nancy_energy."))
    return list(dict.fromkeys(parts[2] for parts in marks))


def energies_kj(values: Values) -> dict[str, float]:
    """Table 2's totals by approach."""
    return {
        title: number(values, f"{SECTION}.nancy_energy.{title}.total_kj")
        for title in titles(values)
    }


def given(values: Values, name: str) -> list[float]:
    """A list of the application's, as `output_every` (steps) or `bytes_per_output`."""
    head = f"{SECTION}.application.{name}["
    return [number(values, key) for key in values if key.startswith(head)]


def entries(values: Values) -> list[Entry]:
    """Every number of the document that the file has."""
    return [*_inputs(values), *_table_1(values), *_table_2(values), *_table_3(values)]


def _inputs(values: Values) -> list[Entry]:
    heads = (f"{SECTION}.platform.", f"{SECTION}.application.")
    found = [Entry(key, "section 2.1", text=GIVEN) for key in values if key.startswith(heads)]
    axis = "axis of a figure; the power of nodes is not in the text"
    found += [
        Entry(f"{SECTION}.text.power_axis_w[{at}]", "figure 9", "W", text=axis) for at in (0, 1)
    ]
    found.append(Entry(f"{SECTION}.text.repetitions", "section 4", text=GIVEN))
    for place, title in (("one", "DC(ONE)"), ("two", "DC(TWO)")):
        key = f"{SECTION}.text.cores_lost_percent_{place}"
        found.append(Entry(key, "section 2.2.1", "%", _lost(title), _size("nancy")))
    return found


def _size(site: str) -> tuple[str, str]:
    return (f"{SECTION}.platform.{site}.nodes", f"{SECTION}.platform.{site}.cores_per_node")


def _lost(title: str) -> Callable[..., float]:
    def percent(nodes: float, cores: float) -> float:
        used = resources(approach_of(title), int(nodes), int(cores))
        return 100 * used.dedicated_cores / cores

    return percent


PARTS: dict[str, Callable[[Resources, int], int]] = {
    "sim_cores": lambda used, _: used.compute_nodes * used.compute_cores,
    "sim_nodes": lambda used, _: used.compute_nodes,
    "io_nodes": lambda used, _: used.dedicated_nodes,
    "io_cores": lambda used, cores: (
        used.dedicated_nodes * cores + (used.nodes * used.dedicated_cores)
    ),
}
"""Columns of Table 1, from how an approach divides nodes of so many cores."""


def _table_1(values: Values) -> list[Entry]:
    found = []
    for key in values:
        if not key.startswith(f"{SECTION}.resources."):
            continue
        _, _, site, title, part = key.split(".")

        def count(nodes: float, cores: float, title: str = title, part: str = part) -> float:
            used = resources(approach_of(title), int(nodes), int(cores))
            return PARTS[part](used, int(cores))

        found.append(Entry(key, "Table 1", "", count, _size(site)))
    return found


def _table_2(values: Values) -> list[Entry]:
    nodes = _size("nancy")[0]
    found = []
    for title in titles(values):
        at = f"{SECTION}.nancy_energy.{title}"
        for name in ("total", "node_min", "node_max", "node_std"):
            found.append(Entry(f"{at}.{name}_kj", "Table 2", "kJ", text=MEASURED))
        found.append(
            Entry(
                f"{at}.node_mean_kj",
                "Table 2",
                "kJ",
                lambda total, count: total / count,
                (f"{at}.total_kj", nodes),
                why=_nodes_text(values, at),
                half=0.5,
            )
        )
    return found


def nodes_span(values: Values, at: str) -> tuple[float, float]:
    """How many nodes total and mean imply, as far as the mean's rounding leaves it open."""
    total, mean = number(values, f"{at}.total_kj"), number(values, f"{at}.node_mean_kj")
    return total / (mean + 0.5), total / (mean - 0.5)


def _nodes_text(values: Values, at: str) -> str:
    low, high = nodes_span(values, at)
    return (
        f"the total over the mean is {low:.2f} to {high:.2f} nodes: 33, not 32. What the"
        " 33rd is (the file system has six more) is not said"
    )


def _table_3(values: Values) -> list[Entry]:
    head = f"{SECTION}.model_accuracy_percent."
    keys = tuple(key for key in values if key.startswith(head))
    text = "an input: modelled and measured energies of these runs are only drawn"
    found = [Entry(key, "Table 3", "%", text=text) for key in keys]
    found.append(
        Entry(
            f"{SECTION}.text.accuracy_mean_percent",
            "section 6",
            "%",
            lambda *shares: sum(shares) / len(shares),
            keys,
        )
    )
    for site in SITES:
        found.append(
            Entry(
                f"{SECTION}.text.worst_{site}_percent",
                "sections 4.1, 4.2",
                "%",
                lambda *shares: 100 - min(shares),
                tuple(key for key in keys if key.startswith(f"{head}{site}.")),
                half=0.5 if site == "rennes" else None,
            )
        )
    return found


def published() -> Values:
    """Every published number by its key."""
    return printed.read(PUBLISHED)


def rows() -> list[Checked]:
    """Every number of the document, checked."""
    values = published()
    return printed.check(entries(values), values)
