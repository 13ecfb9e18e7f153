"""What estimated metrics may be: from the ends of each part of an iteration's energy."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from wattio.analysis.modelled import BY, HIGH, LOW, MEASURED
from wattio.analysis.ranged import RangedTest
from wattio.report import comparison
from wattio.results import compare, modelled_values
from wattio.results.compare import of_means
from wattio.results.runs import Metrics
from wattio.results.summary import Estimate, estimates

SECONDS, TAKEN_W = 10.0, 5.0


def iteration(
    rest_j: float, busy_j: float, model: float = 7.0, measured_j: float | None = None
) -> Metrics:
    """An iteration of 10 s; each part may be half or double."""
    energy_j = rest_j + busy_j + (measured_j or 0.0)
    net_j = energy_j - TAKEN_W * SECONDS
    values = {
        "energy_j": (energy_j, "J"),
        "energy_j_net": (net_j, "J"),
        "power_w_mean": (energy_j / SECONDS, "W"),
        "mib_per_joule": (300 / energy_j, "MiB/J"),
        "mib_per_joule_net": (300 / net_j, "MiB/J"),
        "edp_w2": (energy_j * SECONDS**2, "J s^2"),
        "power_w_p50": (energy_j / SECONDS, "W"),
    }
    found: Metrics = {f"estimated_{name}": value for name, value in values.items()}
    found |= {"seconds": (SECONDS, "s"), BY: (model, "1")}
    for name, part_j in (("rest", rest_j), ("busy", busy_j)):
        found |= {f"{LOW}{name}": (part_j / 2, "J"), f"{HIGH}{name}": (2 * part_j, "J")}
    return found | ({MEASURED: (measured_j, "J")} if measured_j is not None else {})


def corners(name: str, *parts: Metrics) -> list[Any]:
    found = modelled_values.ranged(name, parts)
    assert found is not None
    return [pytest.approx(corner) for corner in found.corners]


def test_energies_are_summed_at_each_corner() -> None:
    one, other = iteration(100.0, 40.0), iteration(200.0, 20.0)
    # Of busy and rest: both low, rest high, busy high, both high.
    expected = [(70, 110), (220, 410), (130, 140), (280, 440)]
    assert corners("estimated_energy_j", one, other) == expected
    tenth = [tuple(each / SECONDS for each in pair) for pair in expected]
    assert corners("estimated_power_w_mean", one, other) == tenth
    assert corners("estimated_mib_per_joule", one) == [(300 / pair[0],) for pair in expected]
    assert corners("estimated_edp_w2", one) == [(100 * pair[0],) for pair in expected]


def test_what_is_taken_off_and_what_was_measured_have_no_range() -> None:
    one = iteration(100.0, 40.0, measured_j=60.0)
    expected = [(70 + 60,), (220 + 60,), (130 + 60,), (280 + 60,)]
    assert corners("estimated_energy_j", one) == expected
    less = [(pair[0] - TAKEN_W * SECONDS,) for pair in expected]
    assert corners("estimated_energy_j_net", one) == less
    assert corners("estimated_mib_per_joule_net", one) == [(300 / pair[0],) for pair in less]


@pytest.mark.parametrize("name", ["seconds", "energy_j", "estimated_power_w_p50", "a.seconds"])
def test_what_no_model_is_in_has_no_range(name: str) -> None:
    assert modelled_values.ranged(name, [iteration(100.0, 40.0)]) is None


def test_an_estimate_of_unknown_range_has_none() -> None:
    known = iteration(100.0, 40.0)
    unknown = {name: value for name, value in known.items() if name != BY}
    assert modelled_values.ranged("estimated_energy_j", [known, unknown]) is None


def test_a_small_difference_is_never_told_as_none() -> None:
    """0.0 % lower was called better, and so was 0.01 %: certain, but nothing hangs on it."""

    def side(watts: float) -> Estimate:
        return estimates([{"power_w_mean": (watts + d, "W")} for d in (-1e-4, 0.0, 1e-4)])[
            "power_w_mean"
        ]

    names = ("law", "law", "", "power_w_mean")
    (found,) = compare.corrected([of_means(names, side(100.0), side(99.99), "seeds")])
    assert found.beyond_noise
    told = "Beyond noise, but by less than 0.1 %: mean power 0.01 % lower."
    assert compare.sentence([found]) == told
    assert comparison._KINDS[comparison._kind(found)][0] == "below 0.1 %, beyond noise"
    (found,) = compare.corrected([of_means(names, side(100.0), side(99.9), "seeds")])
    assert compare.sentence([found]) == "Beyond noise: mean power 0.1 % lower (better)."
    both = [replace(found, metric="latency_us_mean", ratio=1.00002), found]
    assert compare.sentence(both) == (
        "Beyond noise: mean power 0.1 % lower (better)."
        " Also beyond noise, but by less than 0.1 %: mean latency 0.002 % higher."
    )


def test_values_that_are_all_the_same_do_not_say_what_would_be_seen() -> None:
    """The table said that any difference would be: seen from 0 %."""
    side = estimates([{"power_w_mean": (100.0, "W")}] * 3)["power_w_mean"]
    names = ("law", "law", "", "power_w_mean")
    (found,) = compare.corrected([of_means(names, side, side, "seeds")])
    assert found.detectable_share is None
    assert compare.sentence([found]) == "Nothing differs beyond noise."


def test_compare_says_that_the_estimate_cannot_tell() -> None:
    """Less of the machine and more of its cores, against more of it and less of them."""

    def ratio(left: list[Metrics], right: list[Metrics], name: str) -> compare.Ratio:
        full = f"estimated_{name}"
        sides = estimates(left)[full], estimates(right)[full]
        names = ("tp", "dc:1", "run", name)
        found = of_means(names, *sides, "repetitions", estimated=True)
        return compare.corrected([found])[0]

    slow = [iteration(480.0 + d, 60.0) for d in (-1, 0, 1)]
    busy = [iteration(420.0 + d, 90.0) for d in (-1, 0, 1)]
    less = [iteration(420.0 + d, 50.0) for d in (-1, 0, 1)]
    open_one = ratio(slow, busy, "energy_j")
    assert isinstance(open_one.tested, RangedTest)
    assert not open_one.beyond_noise
    said = compare.sentence([open_one])
    assert "The estimate cannot tell the two apart by energy: with its coefficients" in said
    assert "the second has 0.89 to 1.08 times the energy of the first" in said
    assert open_one.detectable_share is None
    clear = ratio(slow, less, "energy_j")
    assert clear.beyond_noise
    assert "estimate cannot tell" not in compare.sentence([clear])
    assert ratio(slow, less, "mib_per_joule").beyond_noise
    # Another machine, or model: the same joules tell nothing.
    elsewhere = ratio(slow, [one | {BY: (8.0, "1")} for one in less], "energy_j")
    assert elsewhere.untold is not None
    alone = ratio(slow[:1], busy[:1], "energy_j")
    assert "One repetition" in compare.sentence([alone])
    assert "The estimate cannot tell" in compare.sentence([alone])
