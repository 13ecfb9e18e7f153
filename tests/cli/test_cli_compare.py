"""What `wattio compare` says of what it cannot compare."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from governor import governed_fake as fake
from wattio import cli
from wattio.models.runs import RESULT


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
