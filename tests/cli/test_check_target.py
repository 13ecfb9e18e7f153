"""`wattio check` of configurations of `wattio-target`."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wattio import _core
from wattio.cli import main
from wattio.errors import InputError

EXAMPLE = Path(__file__).parents[2] / "packaging/examples/wattio-target/wattio-target.toml"
CONFIG = """
listen = ["unix:/run/n.sock"]
[[export]]
name = "disk"
devices = ["/dev/sdb"]
"""


def checked(path: Path, capsys: pytest.CaptureFixture[str]) -> tuple[object, str]:
    with pytest.raises(SystemExit) as stop:
        main(["check", str(path)])
    shown = capsys.readouterr()
    return stop.value.code, shown.out + shown.err


def test_the_example_that_is_installed_is_known(capsys: pytest.CaptureFixture[str]) -> None:
    told = f"ok: {EXAMPLE}: configuration of wattio-target with 1 export\n"
    assert checked(EXAMPLE, capsys) == (0, told)


def test_a_policy_makes_it_no_policy_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "target.toml"
    more = '[[export]]\nname = "other"\ndevices = ["/dev/sdc"]\n[policy]\nname = "pacer"\n'
    path.write_text(CONFIG + more)
    told = f"ok: {path}: configuration of wattio-target with 2 exports\n"
    assert checked(path, capsys) == (0, told)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("read_onyl = true\n", "read_only"),
        ("[memory]\ncache = 5\n", "line 7: memory.cache: invalid type: integer `5`, expected a"),
        ('[policy]\nname = "native"\nsettings = { plf = 2 }\n', "policy"),
        ('[[export]]\nname = "disk"\ndevices = ["/dev/sdc"]\n', "export[1].name"),
    ],
)
def test_what_is_wrong_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], more: str, message: str
) -> None:
    path = tmp_path / "target.toml"
    path.write_text(CONFIG + more)
    code, told = checked(path, capsys)
    assert code == 2
    assert str(path) in told
    assert message in told
    assert len(told.splitlines()) <= 4, told


@given(st.text(), st.text())
def test_no_configuration_breaks_the_check(text: str, more: str) -> None:
    for content in (text, f"{CONFIG}{more}"):
        with contextlib.suppress(InputError):
            _core.check_target_config(content, "wattio-target.toml")
