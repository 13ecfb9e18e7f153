"""The model of I/O approaches against what SimGrid found: it agrees, and what is wrong is seen."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from wattio.errors import ResultError
from wattio.models import extended
from wattio.models.extended import Period

from validation.io import page
from validation.io.simgrid import __main__ as command
from validation.io.simgrid import cases, platform, section
from validation.io.simgrid.cases import Case
from validation.io.simgrid.rows import EXPLAINED, OUTSIDE, PATH, WITHIN, Row, compare, recorded


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return recorded(cases.cases())


def case_of(approach: str, place: str = "four nodes", polls: bool = True) -> Case:
    return next(
        case
        for case in cases.cases()
        if (case.place, str(case.approach), case.polls) == (place, approach, polls)
    )


def outcomes(rows: list[Row]) -> set[str]:
    return {row.outcome for row in rows}


def test_the_model_agrees_with_what_simgrid_found(rows: list[Row]) -> None:
    assert len(rows) == len(cases.cases())
    assert outcomes(rows) == {WITHIN, EXPLAINED}
    assert {str(row.case.approach) for row in rows if row.outcome == EXPLAINED} == {"dn:6"}
    assert all(row.reasons for row in rows if row.outcome == EXPLAINED)


def test_cases_are_bound_by_computing_and_by_writing(rows: list[Row]) -> None:
    """A deviation that only shows where one of both is the longer one would be seen."""
    blocked: dict[bool, set[str]] = {True: set(), False: set()}
    for row in rows:
        predicted = row.case.predict()
        blocked[bool(predicted.blocked_s > 0.2 * predicted.time_s)].add(row.case.approach.kind)
    assert blocked == {True: {"tp", "dc", "dn"}, False: {"tp", "dc", "dn"}}


@pytest.mark.parametrize(
    ("name", "factor"),
    [
        ("base_s", 1.01),
        ("storage_bytes_s", 1.05),
        ("client_bytes_s", 0.95),
        ("contention", 1.1),
        ("free_writers", 0.5),
        ("copy_s_per_gib", 2.0),
        ("send_s_per_gib", 1.1),
        ("idle_share", 1.02),
        ("power_max_w", 1.005),
        ("cores_sigma", 1.2),
        ("nodes_sigma", 1.2),
    ],
)
def test_a_parameter_that_is_wrong_on_one_side_is_found(
    rows: list[Row], name: str, factor: float
) -> None:
    wrong = []
    for row in rows:
        values = dict(row.case.values)
        values[name] *= factor
        wrong.append(compare(replace(row.case, values=values), row.answer))
    assert OUTSIDE in outcomes(wrong)


def again(rows: list[Row]) -> list[Row]:
    return [compare(row.case, row.answer) for row in rows]


def longer(period: Callable[..., Period]) -> Callable[..., Period]:
    """An equation whose time is 1 % too long where the simulation waits."""

    def changed(*given: float, **more: float) -> Period:
        right = period(*given, **more)
        time_s = float(right.time_s)
        return replace(right, time_s=(1.01 if right.blocked_s > 0.01 * time_s else 1) * time_s)

    return changed


def thriftier(period: Callable[..., Period]) -> Callable[..., Period]:
    """An equation that loses 1 % of the energy."""

    def changed(*given: float, **more: float) -> Period:
        right = period(*given, **more)
        return replace(right, energy_j=0.99 * right.energy_j)

    return changed


@pytest.mark.parametrize("change", [longer, thriftier])
@pytest.mark.parametrize("name", ["time_partitioning", "dedicated_cores", "dedicated_nodes"])
def test_an_equation_that_is_wrong_is_found(
    rows: list[Row],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    change: Callable[[Callable[..., Period]], Callable[..., Period]],
) -> None:
    monkeypatch.setattr(extended, name, change(getattr(extended, name)))
    kind = {"time_partitioning": "tp", "dedicated_cores": "dc", "dedicated_nodes": "dn"}[name]
    found = again(rows)
    assert OUTSIDE in outcomes([row for row in found if row.case.approach.kind == kind])
    assert OUTSIDE not in outcomes([row for row in found if row.case.approach.kind != kind])


def test_sleeping_dedicated_cores_by_hand() -> None:
    """One of four cores, a node of 100 to 200 W: 25 W of each node less while computing."""
    polls, sleeps = (case_of("dc:1", "four nodes, 2 GB/s", polls=p) for p in (True, False))
    assert polls.computing_s() / float(polls.predict().time_s) > 0.99
    less = float(sleeps.predict().energy_j) / float(polls.predict().energy_j) - 1
    assert less == pytest.approx(-25 / 200, rel=0.03)


def test_io_nodes_by_hand() -> None:
    """Three nodes of 200 W, one that draws 200 W where it polls, 100 W where it sleeps."""
    case = case_of("dn:3", "four nodes, 2 GB/s", polls=True)
    assert float(case.predict().power_w_mean) == pytest.approx(800)
    still = replace(case, values={**case.values, "send_s_per_gib": 0.0}, polls=False).predict()
    assert float(still.power_w_mean) == pytest.approx(700)


def test_uneven_groups_have_a_range() -> None:
    (uneven,) = case_of("dn:6", "Nancy").expected()
    assert uneven.low < 0 < uneven.high == pytest.approx(6 / 5.4 - 1)
    assert not case_of("dn:7", "Nancy").expected()


def test_one_dump_of_a_run_is_accepted_beside_computing_only() -> None:
    dumps = cases.DUMPS
    assert case_of("tp").edges(0.0).high == 0
    assert case_of("dc:1").edges(0.0).high == pytest.approx(1 / dumps)


def run_of(approach: str, place: str = "Nancy") -> platform.Run:
    return platform.Run(**case_of(approach, place).simulated())


def test_flops_are_amdahl_s_by_hand() -> None:
    """Ten steps of 5 s: on four cores 0.05 + 0.95 / 4 of it, on 28 nodes 0.002 + 0.998 / 28."""
    seconds = 50 * (0.05 + 0.95 / 4) * (0.002 + 0.998 / 28)
    assert run_of("dn:7").flops == pytest.approx(seconds * platform.FLOPS)


def test_ranks_hand_over_to_the_nearest_writer() -> None:
    one = platform.clients(run_of("dc:1"))
    assert one == {(node, 3): 3 for node in range(32)}
    two = platform.clients(run_of("dc:2"))
    assert two == {(node, core): 1 for node in range(32) for core in (2, 3)}
    uneven = platform.clients(run_of("dn:6"))
    assert sorted(set(uneven)) == [(node, core) for node in range(27, 32) for core in range(4)]
    assert sorted(uneven[node, 0] for node in range(27, 32)) == [5, 5, 5, 6, 6]
    assert platform.clients(run_of("tp")) == {
        (node, core): 1 for node in range(32) for core in range(4)
    }


def test_without_simgrid_it_says_how_to_get_it(capsys: pytest.CaptureFixture[str]) -> None:
    for python in (sys.executable, "/nowhere/python3"):
        assert command.main(["--python", python]) == command.BAD_INPUT
        told = capsys.readouterr().err
        assert "apt-get install python3-simgrid" in told
        assert python in told


def test_a_simulation_that_fails_is_told() -> None:
    with pytest.raises(ResultError, match="ended with 1"):
        command.simulate(case_of("tp").simulated(), "/bin/false")


def test_arguments_that_make_no_sense_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for given in (["--dumps", "2"], ["--save", "--recorded"]):
        with pytest.raises(SystemExit) as end:
            command.main(given)
        assert end.value.code == command.BAD_INPUT
    assert command.main(["--recorded", "--dumps", "5"]) == command.BAD_INPUT
    assert "0 of 48 runs" in capsys.readouterr().err


def test_the_record_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--recorded"]) == 0
    text = capsys.readouterr().out
    assert "0 outside" in text
    assert "46 of 48 runs within 0.1 %" in text
    assert "uneven groups" in text
    assert command.main(["--recorded", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert len(found["runs"]) == 48
    assert found["runs"][0]["energy_j"]["accepted"] == [-0.001, 0.001]


def test_what_is_outside_ends_with_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(extended, "dedicated_cores", thriftier(extended.dedicated_cores))
    assert command.main(["--recorded"]) == command.DIFFERS
    assert "OUTSIDE" in capsys.readouterr().out


def test_a_record_that_is_damaged_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "simgrid.jsonl"
    with pytest.raises(ResultError, match="no record"):
        recorded([], path)
    for text in ("{", "[]", '{"asked": {}}'):
        path.write_text(text)
        with pytest.raises(ResultError, match="no record"):
            recorded([], path)


def rendered(shown: section.Section) -> str:
    loader = FileSystemLoader(Path(section.__file__).parent)
    environment = Environment(loader=loader, undefined=StrictUndefined, autoescape=True)
    environment.filters |= {name: str for name in ("number", "percent", "deviation")}
    return environment.get_template("section.html.j2").render(simgrid=shown)


def test_the_page_has_the_filters_that_it_asks_for() -> None:
    """One that it took from the report's went missing there, and only the slow tests saw it."""
    whole = page.template()
    for name in ("page.html.j2", "simgrid/section.html.j2"):
        assert whole.environment.get_template(name).name == name


def test_the_page_s_section_shows_every_run(tmp_path: Path) -> None:
    shown = section.section()
    text = rendered(shown)
    assert text.count("<tr>") == 2 + len(shown.rows) / 2
    assert all(why in text.replace("&#39;", "'") for why in shown.reasons)
    assert 'class="off"' not in text
    assert len(shown.missed) + shown.same == len(shown.choices)
    section.write(shown, tmp_path)
    assert len((tmp_path / "simgrid.csv").read_text().splitlines()) == 1 + len(shown.rows)


def test_a_page_without_simgrid_s_runs_says_so(tmp_path: Path) -> None:
    path = tmp_path / "simgrid.jsonl"
    assert "not run: simgrid.jsonl is not there" in rendered(section.section(path))
    path.write_text(PATH.read_text().split("\n", 1)[1])
    text = rendered(section.section(path))
    assert "not run: simgrid.jsonl has 47 of 48 runs" in text
    assert "python3-simgrid" in text


def test_what_is_outside_is_marked_on_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extended, "dedicated_cores", thriftier(extended.dedicated_cores))
    assert 'class="off"' in rendered(section.section())
