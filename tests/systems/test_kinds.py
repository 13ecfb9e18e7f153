"""Systems that other packages bring, by an entry point: named in a study, brought up and down."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from measuring.test_running import ASSUMED_METER
from wattio.errors import InputError, SystemFailed
from wattio.systems import KINDS, claims, kinds, template

STUDY = (
    """\
[study]
name = "trial"
kind = "measurement"
idle_before = "0.2 s"
idle_after = "0 s"
settle = "0 s"

[[system]]
name = "tree"
options = { size = "8 MiB" }

[[workload]]
name = "own"
kind = "command"
options = { run = ["true"], guess = "1 s" }

"""
    + ASSUMED_METER
)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Installs a package that brings a system; the folder that it is installed in."""

    def install(name: str = "tree", value: str = "of_others.tree", project: str = "trees") -> Path:
        folder = tmp_path / "installed"
        module = folder / "of_others" / "tree.py"
        if not folder.exists():
            module.parent.mkdir(parents=True)
            module.write_text(Path(template.__file__).read_text())
            (module.parent / "broken.py").write_text("raise RuntimeError('no licence\\x1b[31m')\n")
            (module.parent / "empty.py").write_text("Options = None\n")
            monkeypatch.syspath_prepend(folder)
        facts = folder / f"{project}-1.0.dist-info"
        facts.mkdir()
        (facts / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project}\nVersion: 1.0\n")
        (facts / "entry_points.txt").write_text(f"[{kinds.GROUP}]\n{name} = {value}\n")
        return folder

    return install


def wattio(folder: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """The command line, with what is installed in a folder."""
    return subprocess.run(
        (sys.executable, "-m", "wattio.cli", *arguments),
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def test_our_own_are_there_and_others_come_after(package: Callable[..., Path]) -> None:
    assert kinds.names() == list(KINDS)
    package()
    assert kinds.names() == [*KINDS, "tree"]
    assert kinds.module_of("tree").__name__ == "of_others.tree"


def test_a_name_of_ours_stays_ours(package: Callable[..., Path]) -> None:
    package("local")
    assert kinds.names() == list(KINDS)
    assert kinds.module_of("local").__name__ == "wattio.systems.local"


def test_what_nobody_has_is_not_known() -> None:
    with pytest.raises(KeyError):
        kinds.module_of("tree")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("of_others.broken", "of_others.broken, of trees, cannot be loaded: no licence"),
        ("of_others.none", "of_others.none, of trees, cannot be loaded: No module named"),
        ("of_others.empty", "of_others.empty, of trees, has no Storage"),
    ],
)
def test_what_cannot_be_used_is_said(
    package: Callable[..., Path], value: str, message: str
) -> None:
    package(value=value)
    with pytest.raises(InputError, match=f'^system "tree": {message}'):
        kinds.module_of("tree")


def test_two_packages_do_not_bring_the_same(package: Callable[..., Path]) -> None:
    package()
    package(project="bushes", value="of_others.empty")
    with pytest.raises(InputError, match="provided by more than one package: bushes, trees"):
        kinds.module_of("tree")


def test_a_claim_of_what_was_uninstalled_does_not_stop_others(tmp_path: Path) -> None:
    claim = claims.Claim("00" * 8, 1, tmp_path, "tree", {}, tmp_path / "scratch")
    assert claim.found() == []
    with pytest.raises(SystemFailed, match="this wattio has no such system"):
        claim.remove()


def test_a_study_names_it(package: Callable[..., Path], tmp_path: Path) -> None:
    folder = package()
    study = tmp_path / "study.toml"
    study.write_text(STUDY)
    assert wattio(folder, "check", study).returncode == 0
    unknown = wattio(tmp_path, "check", study)
    assert unknown.returncode == 2
    assert '"tree" is not known' in unknown.stderr
    study.write_text(STUDY.replace("size", "sise"))
    wrong = wattio(folder, "check", study)
    assert wrong.returncode == 2
    assert 'sise: unknown key; did you mean "size"?' in wrong.stderr


def test_a_study_says_what_is_wrong_with_it(package: Callable[..., Path], tmp_path: Path) -> None:
    folder = package(value="of_others.broken")
    study = tmp_path / "study.toml"
    study.write_text(STUDY)
    done = wattio(folder, "check", study)
    assert done.returncode == 2
    assert f"{study}:" in done.stderr
    assert "cannot be loaded: no licence" in done.stderr
    assert "\x1b" not in done.stderr


@pytest.mark.system
def test_it_is_measured_like_ours(
    need: Callable[..., None], package: Callable[..., Path], tmp_path: Path
) -> None:
    need("mount", "umount")
    folder = package()
    (tmp_path / "study.toml").write_text(STUDY)
    out = tmp_path / "results"
    done = wattio(folder, "run", tmp_path / "study.toml", "--results", out, "--no-report")
    assert done.returncode in (0, 1), done.stderr
    told = [json.loads(path.read_text()) for path in out.rglob("iteration.json")]
    assert told
    assert all('"file_system": "tmpfs"' in json.dumps(one) for one in told)
