"""`wattio check` of configurations of `wattio-target` and `wattiod`."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wattio import _core
from wattio.cli import main
from wattio.errors import InputError

EXAMPLES = Path(__file__).parents[2] / "packaging/examples"
EXAMPLE = EXAMPLES / "wattio-target/wattio-target.toml"
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


@pytest.mark.parametrize("path", [*EXAMPLES.rglob("*.toml")], ids=lambda path: path.name)
def test_every_example_that_is_installed_can_be_checked(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """That of several applications was taken for a policy file."""
    code, told = checked(path, capsys)
    assert code == 0, told
    assert told.startswith(f"ok: {path}: configuration of wattio")


def test_what_is_wrong_with_several_applications_is_told_by_the_daemons_own_parser(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "several.toml"
    whole = (EXAMPLES / "several.toml").read_text()
    path.write_text(whole.replace('kind = "redis"', 'kind = "redos"'))
    code, told = checked(path, capsys)
    assert code == 2
    assert "redis" in told
    assert "unknown key" not in told
    # The policy is the default one where none is named, and the file no other for it.
    path.write_text(whole.replace('[policy]\nname = "pacer"\nbounds = ["mean 20% run"]\n', ""))
    assert checked(path, capsys) == (0, f"ok: {path}: configuration of wattiod for several\n")


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
