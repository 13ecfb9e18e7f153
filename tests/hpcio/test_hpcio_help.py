"""`--help` of the commands on the I/O of simulations, as a user sees it."""

from __future__ import annotations

import subprocess
import sys

import pytest
from wattio import cli


def helped(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    with pytest.raises(SystemExit) as ended:
        cli.main([*words, "--help"])
    assert ended.value.code == 0
    return capsys.readouterr().out


def test_the_group_sums_up_each_command(capsys: pytest.CaptureFixture[str]) -> None:
    text = helped(capsys, "hpcio")
    for name, begins in (
        ("run", "Run a small"),
        ("inspect", "List the dumps"),
        ("assemble", "Put the blocks"),
        ("calibrate", "Fit the parameters"),
    ):
        assert any(
            line.strip("│ ").startswith(name) and begins in line for line in text.splitlines()
        ), name


@pytest.mark.parametrize("name", ["run", "inspect", "assemble", "calibrate"])
def test_each_command_has_examples_of_its_own(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = helped(capsys, "hpcio", name)
    _, examples = text.split("Examples")
    assert f"wattio hpcio {name} " in examples
    assert ("--json" in text, "[OPTIONS]" in text) == (True, True)
    if name != "calibrate":
        others = {"run", "inspect", "assemble", "calibrate"} - {name}
        assert not [other for other in others if f"wattio hpcio {other}" in examples]


@pytest.mark.parametrize("words", [("advise",), ("advise", "io")])
def test_advice_has_examples(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    text = helped(capsys, *words)
    assert "wattio advise io --application" in text.split("Examples")[1]
    assert "wattio COMMAND" not in text


def test_help_does_not_load_what_only_commands_need() -> None:
    code = (
        "import sys; import wattio.cli.hpcio\n"
        "heavy = {'h5py', 'mpi4py', 'numpy', 'pydantic', 'scipy'} & set(sys.modules)\n"
        "sys.exit(f'loaded {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
