"""The campaign of our own runs: what is measured in which order, and what of it is kept out."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from wattio.cli import hpcio_run
from wattio.errors import ResultError
from wattio.models import runs

from validation.io import campaign, own
from validation.io.campaign import APPROACHES, EVERYS, Planned

[FIRST, *_] = MEASURED = runs.read([own.PATH])
WRITTEN = [run for run in MEASURED if run.writes]
PLATFORM = SimpleNamespace(
    file=SimpleNamespace(platform=SimpleNamespace(nodes=2, cores_per_node=4))
)


def options_of(one: Planned) -> dict[str, str]:
    """Its arguments by name."""
    words = [word for word in one.arguments(Path("out"))[2:] if word not in ("--no-sync", "--json")]
    return dict(zip(words[::2], words[1::2], strict=True))


def test_each_configuration_can_be_run() -> None:
    for one in campaign.plan():
        given: dict[str, Any] = {
            name[2:].replace("-", "_"): text
            for name, text in options_of(one).items()
            if name != "--out"
        }
        numbers = ("ranks", "ranks_per_node", "steps", "output_every")
        found = hpcio_run._options(given | {name: int(given[name]) for name in numbers})
        assert found.core_share == 0.2
        assert not one.every or one.steps % one.every == 0


def test_half_of_what_writes_is_kept_out() -> None:
    measured = [
        replace(FIRST, output_every=one.every, dumps=bool(one.every))
        for one in campaign.plan()
        if one.size == "small" and one.cores == campaign.CORES
    ]
    fitted, held_out = own.split(measured)
    assert len(held_out) == len(APPROACHES) * len(EVERYS) / 2
    assert len(held_out) == sum(run.writes for run in fitted)
    assert not any(run.writes and run in fitted for run in held_out)


def test_each_repetition_has_all_in_an_order_of_its_own() -> None:
    found = list(campaign.order(3, 1))
    size = len(campaign.plan())
    parts = [found[at : at + size] for at in range(0, len(found), size)]
    assert [set(part) for part in parts] == [set(campaign.plan())] * 3
    assert parts[0] != parts[1]
    assert found == list(campaign.order(3, 1))
    assert found != list(campaign.order(3, 2))


def test_a_run_that_fails_is_told_and_the_others_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[list[str]] = []

    def run(command: list[str], **_: object) -> SimpleNamespace:
        asked.append(command)
        if len(asked) == 2:
            return SimpleNamespace(returncode=1, stderr="wattio: no room")
        told = {"wall_s": 2.0, "raw": "somewhere"}
        return SimpleNamespace(returncode=0, stdout=json.dumps(told))

    monkeypatch.setattr(subprocess, "run", run)
    out = tmp_path / "runs.jsonl"
    assert campaign.main(["--out", str(out), "--repetitions", "1"]) == 1
    assert len(asked) == len(campaign.plan())
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert [line.pop("campaign")["compression"] for line in lines] == ["gzip:1"] * len(lines)
    assert lines == [{"wall_s": 2.0}] * (len(asked) - 1)
    assert "no room" in capsys.readouterr().err


def test_no_run_is_started_when_time_is_up(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "runs.jsonl"
    assert campaign.main(["--out", str(out), "--minutes", "0"]) == 0
    assert out.read_text() == ""
    assert f"{3 * len(campaign.plan())} runs are left out" in capsys.readouterr().out


def test_the_conditions_of_our_runs_are_those_that_they_tell() -> None:
    runs_of_each = [
        SimpleNamespace(by=own.HeldOut.FREQUENCY, fitted=[], held_out=[one], calibration=PLATFORM)
        for one in WRITTEN
    ]
    found = own.conditions(cast("list[own.Own]", runs_of_each))
    assert (found.nodes, found.cores, found.core_share) == (2, 4, 0.2)
    assert (found.compression, found.dumps_in) == ("gzip:1", "memory")
    with pytest.raises(ResultError, match="2 different compression"):
        own.only(["none", "gzip:1", "none"], "compression")


def test_another_number_of_ranks_is_predicted_from_nothing_that_it_wrote() -> None:
    """On numbers that are made up: those of four ranks a node, a quarter slower."""
    measured = [run for run in MEASURED if run.cells == FIRST.cells]
    made_up = [
        replace(run, cores=campaign.FEWER_CORES, time_s=1.25 * run.time_s, step_s=1.25 * run.step_s)
        for run in measured
        if run.writes and run.output_every in campaign.FEWER_EVERYS
    ]
    places = [(campaign.NODES, cores) for cores in (campaign.FEWER_CORES, campaign.CORES)]
    found = own._other_ranks([*measured, *made_up], places)
    assert [one.ranks for one in found] == [8, 6]
    for one in found:
        assert {run.cores for run in one.held_out} == {one.ranks // campaign.NODES}
        assert not set(one.held_out) & set(one.fitted)
        assert len({run.cores for run in one.fitted if run.writes}) == 1
    scores = own.scores(found, own.HeldOut.RANKS)
    assert [score.method for score in scores] == ["the model", "a straight line", "always dc:1"]
    everys = len(EVERYS) + len(campaign.FEWER_EVERYS)
    assert {score.times for score in scores} == {len(APPROACHES) * everys}
