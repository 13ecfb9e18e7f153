"""What won: a winner is named only where the interval of its ratio to every rival is not 1."""

from __future__ import annotations

import csv
import io
import re

import numpy as np
import pytest
from wattio.analysis import statistics
from wattio.analysis.price import Price
from wattio.analysis.ranged import Ranged
from wattio.report import plots, rankings
from wattio.report.rankings import Condition, Contest

PLAIN = str.maketrans({"\N{NO-BREAK SPACE}": " ", "\N{MULTIPLICATION SIGN}": "x"})
NATIVE = Condition("native", (100.0, 101.0, 99.0, 100.5, 99.5))
BETTER = Condition("better", (80.0, 80.8, 79.2, 80.4, 79.6))
LIKE_IT = Condition("like it", (80.3, 79.9, 80.2, 80.1, 80.0))
BREAKS = Condition("breaks its bound", (50.0, 50.5, 49.5, 50.2, 49.8), sound=False)
LIMIT = Condition("oracle", (40.0, 40.1, 39.9, 40.0, 40.0), competes=False)


def said(*conditions: Condition, higher: bool = False) -> str:
    contest = Contest("day", "energy", conditions, higher_is_better=higher)
    return contest.sentence().translate(PLAIN)


def test_pairs_know_more_than_sides_that_are_drawn_alone() -> None:
    draw = np.random.default_rng(4)
    first = draw.uniform(50, 90, 20)
    second = (0.9 * first + draw.normal(0, 0.1, 20)).tolist()
    pairs = statistics.ratio_test(first.tolist(), second, paired=True)
    alone = statistics.ratio_test(first.tolist(), second)
    assert pairs is not None
    assert alone is not None
    assert pairs.error < 0.1 * alone.error


def test_the_winner_and_by_how_much() -> None:
    text = said(NATIVE, BETTER)
    assert text.startswith("day: better has the least energy, 20.0 % less (0.79x to 0.8")
    assert text.endswith("than native.")


def test_what_breaks_its_bound_or_cannot_be_had_wins_nothing() -> None:
    assert said(NATIVE, BETTER, BREAKS, LIMIT).startswith("day: better has the least energy")


def test_those_that_cannot_be_told_apart_share_the_lead() -> None:
    text = said(NATIVE, BETTER, LIKE_IT)
    assert "no single winner: better, like it lead, and cannot be told apart." in text
    assert "no winner; better, like it cannot be told apart." in said(BETTER, LIKE_IT)


def test_leaders_are_the_best_and_what_cannot_be_told_from_it() -> None:
    contest = Contest("day", "energy", (NATIVE, BETTER, LIKE_IT, BREAKS, LIMIT))
    assert [one.name for one in contest.leaders()] == ["better", "like it"]
    assert [one.name for one in Contest("day", "energy", (NATIVE, BETTER)).leaders()] == ["better"]
    assert Contest("day", "energy", (Condition("a", (3.0,)), BETTER)).leaders() == []


def test_the_reference_can_win_and_more_can_be_better() -> None:
    text = said(BETTER, NATIVE)
    assert text.startswith("day: better, the reference, has the least energy, 20.0 % less (0.79x")
    assert text.endswith(") than native, the next.")
    assert said(BETTER, NATIVE, higher=True).startswith("day: native has the most energy, 25.0 %")


def test_one_repetition_says_nothing_of_noise_and_few_what_they_would_see() -> None:
    one = said(Condition("a", (3.0,)), Condition("b", (2.0,)))
    assert one.startswith("day: b has the least energy, 33.3 % less than a;")
    assert "how much is noise" in one
    few = said(Condition("a", (3.0, 3.1)), Condition("b", (2.8, 2.9)))
    assert "no winner; b, a cannot be told apart. With 2 repetitions each, a difference of" in few
    assert few.endswith(" % would have been seen in 80 % of cases.")
    same = said(Condition("a", (3.0, 3.0)), Condition("b", (3.0, 3.0)))
    assert "a difference of 0.0 %" not in same


def estimated(name: str, rest_j: float, busy_j: float, runs: int = 3) -> Condition:
    """Runs of about the same energy, of which each part may be half or double."""
    wobble = [1 + 0.001 * at for at in range(-(runs // 2), runs - runs // 2)]
    ends = [(rest * rest_j + busy * busy_j) for rest in (0.5, 2) for busy in (0.5, 2)]
    corners = tuple(tuple(end * each for each in wobble) for end in ends)
    values = tuple((rest_j + busy_j) * each for each in wobble)
    return Condition(name, values, ranged=Ranged(1.0, corners))


TP = estimated("tp", 480.0, 60.0)
DC = estimated("dc:1", 420.0, 90.0)
DN = estimated("dn:3", 300.0, 40.0)


def test_an_estimate_that_cannot_tell_says_so_and_ranks_nothing() -> None:
    text = said(TP, DC)
    assert text.startswith("day: the estimate cannot tell dc:1, tp apart: with its coefficients")
    assert "tp has 0.92 to 1.12 times the energy of dc:1." in text
    assert "least" not in text.partition("coefficients")[0]
    both = said(TP, DC, DN)
    assert both.startswith("day: dn:3 has the least energy, ")
    three = said(estimated("dn:1", 700.0, 95.0), TP, DC)
    assert "dn:1: more than dc:1 whatever they are." in three
    assert Contest("day", "energy", (TP, DC)).leaders() == [DC, TP]
    drawn = rankings.drawn([Contest("day", "energy", (TP, DC))], estimated=True)
    assert drawn is not None
    assert [row[1] for row in drawn.table[1:]] == ["tp", "dc:1"]
    assert "stand in the order of the study" in drawn.caption
    alone = said(estimated("tp", 480.0, 60.0, 1), estimated("dc:1", 420.0, 90.0, 1))
    assert "the estimate cannot tell dc:1, tp apart" in alone


def test_an_estimate_that_can_tell_ranks_by_the_whole_of_its_range() -> None:
    text = said(TP, DN)
    assert "dn:3 has the least energy, 37.0 % less (0." in text
    found = Contest("day", "energy", (TP, DN)).ratio(DN, TP)
    assert found is not None
    # Of the parts: 300/480 and 40/60. Most of it: the rest low, work high: (150 + 80)/(240 + 120).
    assert found.low == pytest.approx((600 + 20) / (960 + 30), abs=0.005)
    assert found.high == pytest.approx((150 + 80) / (240 + 120), abs=0.005)


def test_of_many_that_are_equal_none_wins_more_often_than_said() -> None:
    """The best of eight equal ones was chosen, and then tested as if it had not been chosen."""
    trials = 300
    draw = np.random.default_rng(8)
    won = 0
    for _ in range(trials):
        values = draw.normal(100, 1, (8, 5)).tolist()
        every = tuple(Condition(str(at), tuple(one)) for at, one in enumerate(values))
        won += len(Contest("day", "energy", every).leaders()) < 8
    assert won / trials <= 0.05 + 3 * (0.05 * 0.95 / trials) ** 0.5


def test_the_figure_ranks_all_and_its_data_say_what_counts() -> None:
    drawn = rankings.drawn([Contest("day", "energy", (NATIVE, BETTER, BREAKS, LIMIT))])
    assert drawn is not None
    buffer = io.StringIO()
    csv.writer(buffer).writerows(drawn.table)
    rows = list(csv.DictReader(io.StringIO(buffer.getvalue())))
    assert [row["condition"] for row in rows] == ["oracle", "breaks its bound", "better", "native"]
    assert [row["counts"] for row in rows] == ["no", "no", "yes", "yes"]
    assert float(rows[2]["ratio"]) == pytest.approx(0.8)
    assert float(rows[2]["low"]) < 0.8 < float(rows[2]["high"])
    assert rows[3]["low"] == ""
    assert rankings.drawn([Contest("day", "energy", (NATIVE,))]) is None


def test_a_telephone_gets_a_drawing_of_its_own() -> None:
    """At 400 pixels the letters were four pixels high."""
    long = Condition("a condition whose name takes more than half of a telephone's width", (70.0,))
    drawn = rankings.drawn([Contest("day", "energy", (NATIVE, BETTER, long))])
    assert drawn is not None
    assert drawn.narrow is not None
    sizes = []
    for image in (drawn.image, drawn.narrow):
        (size,) = re.findall(rb'viewBox="0 0 ([\d.]+) ([\d.]+)"', image)
        sizes.append([float(part) for part in size])
    (width, height), (narrow, tall) = sizes
    assert narrow < width / 2
    assert tall > height


def test_no_two_policies_look_alike() -> None:
    """Two policies had one colour, dash and marker: strokes began anew after the eighth."""
    names = ["native", "pacer", *(f"law {number}" for number in range(40)), "pacer", "oracle"]
    for strokes in (plots.strokes(names), plots.series_strokes(44)):
        assert len({(one.colour, one.dashes, one.marker) for one in strokes}) == len(strokes)


def test_a_year_of_power_costs_what_the_factors_say() -> None:
    year = Price(electricity_eur_per_kwh=0.3, co2_g_per_kwh=400.0, pue=1.5).year(100.0)
    assert year.kwh == pytest.approx(100 * 24 * 365.25 / 1000 * 1.5)
    assert year.eur == pytest.approx(0.3 * year.kwh)
    assert year.co2_t == pytest.approx(400 * year.kwh / 1e6)
    assert "0.3 EUR and 400 g" in Price(0.3, 400.0, 1.5).stated
