"""Result folders that were damaged: each command says which file, in one line."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from wattio import cli

SIMULATION = """
[study]
name = "tiny"
kind = "simulation"

[[load]]
name = "a"
pattern = "Seq_W"
pressure = 0.05
server = "small"
duration = "1 s"

[[policy]]
name = "ondemand"
"""

FLEET = """
[study]
name = "fleet"
kind = "fleet"
duration = "1 h"
batch = 2

[[group]]
name = "g"
count = 2
server = "small"
day = { pressure_median = 0.05 }

[[policy]]
name = "ondemand"
"""


def called(*arguments: object) -> object:
    with pytest.raises(SystemExit) as ended:
        cli.main([*map(str, arguments)])
    return ended.value.code


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    place = tmp_path_factory.mktemp("whole")
    found = {}
    for name, text in (("tiny", SIMULATION), ("fleet", FLEET)):
        (place / f"{name}.toml").write_text(text)
        assert not called(
            "run", place / f"{name}.toml", "--results", place / "r", "--no-report", "--json"
        )
        (found[name],) = (place / "r" / name).iterdir()
    return found


def _samples(folder: Path) -> None:
    for path in (folder / "samples").iterdir():
        path.write_bytes(b"\x00\xff" * 50)


@pytest.mark.parametrize("command", ["report", "recompute", "compare", "run --resume"])
@pytest.mark.parametrize(
    ("kind", "damage", "said"),
    [
        ("tiny", _samples, ".parquet: cannot be read: "),
        ("fleet", _samples, ".parquet"),
        ("tiny", lambda at: (at / "catalog.sqlite").write_bytes(b""), "it is empty"),
        ("tiny", lambda at: (at / "inputs.json").write_text("[]"), "is not a JSON object"),
        ("tiny", lambda at: (at / "inputs.json").write_bytes(b"\xff"), "is not text in UTF-8"),
        ("fleet", lambda at: (at / "inputs.json").write_text("{}"), 'inputs.json: has no "'),
    ],
)
def test_damage_is_one_line_that_names_the_file(
    command: str,
    kind: str,
    damage: Callable[[Path], object],
    said: str,
    whole: dict[str, Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = tmp_path / "r"
    shutil.copytree(whole[kind], folder)
    damage(folder)
    capsys.readouterr()
    places = [folder, folder] if command == "compare" else [folder]
    code = called(*command.split(), *places)
    err = capsys.readouterr().err
    assert (code, err.count("\n")) == (2, 1), err
    assert said in err
    assert str(folder) in err
