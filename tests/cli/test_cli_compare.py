"""What `wattio compare` says of what it cannot compare."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path

import pytest
from governor import governed_fake as fake
from rich.console import Console
from wattio import cli
from wattio.analysis.statistics import Interval, ratio_test
from wattio.cli import compare
from wattio.models.runs import RESULT
from wattio.results import compare as results_compare
from wattio.results.compare import Ratio
from wattio.results.summary import Estimate


def refusal(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    with pytest.raises(SystemExit) as ended:
        cli.main(["compare", *map(str, arguments)])
    out, err = capsys.readouterr()
    assert (ended.value.code, out, err.count("\n")) == (2, "", 1)
    return err


@pytest.fixture
def places(tmp_path: Path) -> dict[str, Path]:
    """Folders that say what kind of result they hold; what else is in them is not asked for."""
    found = {}
    for kind in ("simulation", "fleet", "measurement"):
        found[kind] = tmp_path / kind
        found[kind].mkdir()
        (found[kind] / "machine.json").write_text(json.dumps({"kind": kind}))
    found["governor"] = fake.write(tmp_path / "governor", fake.windows(5))
    found["hpcio"] = tmp_path / "hpcio"
    (found["hpcio"] / RESULT).parent.mkdir(parents=True)
    (found["hpcio"] / RESULT).write_text("{}")
    return found


def test_results_of_two_kinds_are_named_with_what_can_be_compared(
    places: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    err = refusal(capsys, places["simulation"], places["fleet"])
    assert f"{places['simulation']} holds a simulation and {places['fleet']} holds a fleet" in err
    assert "allowed: two simulations, two measurements or two fleets" in err


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("governor", "was left by wattiod or wattio-target: one run, whose load was not repeated"),
        ("hpcio", "was left by wattio hpcio run; wattio hpcio calibrate fits a model to such"),
    ],
)
def test_what_holds_no_repetitions_is_refused_with_what_to_do(
    kind: str, said: str, places: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    err = refusal(capsys, places[kind], places[kind])
    assert f"{places[kind]}: {said}" in err
    assert "allowed: two simulations, two measurements or two fleets" in err


@pytest.mark.parametrize(
    ("name", "said"),
    [("nosuch", "not found"), ("file", "is not a folder"), ("", "has no usable machine.json")],
)
def test_what_is_no_result_is_said(
    name: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_bytes(b"\x00\xff" * 100)
    err = refusal(capsys, tmp_path / name, tmp_path)
    assert f"{tmp_path / name}: " in err
    assert said in err


def test_the_table_has_the_units_that_fit_as_the_page_has() -> None:
    """It showed 140 000 of the unit us, where the page showed 140 ms."""
    slow = Estimate("us", (140_000.0,), 140_000.0, None, None)
    much = Estimate("J", (7_200_000.0,), 7_200_000.0, None, None)
    group = [
        Ratio("a/x", "a/x", "", name, of.unit, of, of, 1.0, None, None, "")
        for name, of in (("latency_us_mean", slow), ("energy_j", much))
    ]
    shown = StringIO()
    Console(file=shown, width=200).print(compare._table(group))
    text = shown.getvalue().replace("\N{NO-BREAK SPACE}", " ")
    assert text.count("140 ms") == 2
    assert text.count("2.00 kWh") == 2


def test_what_would_be_seen_is_told_once_and_without_powers_of_ten() -> None:
    """It was "1.1e+02 % (time) to 10 times or more (...)", or the same size twice."""
    assert results_compare.share(1.1) == "110 %"
    assert results_compare.ends(Interval(2.0, 0.0023, 1094.3, 0.95), "-") == "0.0023 to 1,094"
    wide = ratio_test([1.0, 9.0], [9.0, 1.0])
    of = Estimate("us", (1.0, 9.0), 5.0, 5.7, None)
    group = [
        Ratio("a/x", "a/x", "", name, "us", of, of, 1.0, None, 1.0, "t", wide, p=1.0, tests=2)
        for name in ("latency_us_mean", "latency_us_p99")
    ]
    told = results_compare.sentence(group)
    assert "With 2 runs each, a difference of 10 times or more would have been seen in" in told
