"""What is packaged: the unit keeps its sandbox, and the examples are right."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
UNIT = ROOT / "packaging" / "systemd" / "wattiod.service"
DROP_INS = sorted((ROOT / "packaging" / "systemd" / "wattiod.service.d").glob("*.conf"))
EXAMPLES = sorted((ROOT / "packaging" / "examples").glob("*.toml"))
BINARY = ROOT / "target" / "debug" / "wattiod"
GUIDE = ROOT / "docs" / "wattiod.md"
INSTALLED = "/usr/local/sbin/wattiod"
SPOKEN = {".md", ".py", ".rs", ".toml", ".sh", ".ipynb"}
# systemd-analyze's scale: 0 is a program without rights, 10 one without a sandbox. As written it
# is 2.3 with systemd 252; being root counts for 0.4 of it.
EXPOSURE_MAX = 3.0


def settings(text: str) -> dict[str, list[str]]:
    """Every key of a unit with its values, in their order."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        key, separator, value = line.partition("=")
        if separator and not line.startswith("#"):
            found.setdefault(key, []).append(value)
    return found


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """The unit with a program that is there."""
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text().replace(INSTALLED, shutil.which("true") or "/bin/true"))
    return unit


def analyze(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run systemd-analyze, of the package systemd."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("no systemd-analyze: apt install systemd")
    command = ["systemd-analyze", "--no-pager", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def complaints(done: subprocess.CompletedProcess[str]) -> list[str]:
    """What is said of our files; a host's other units may have troubles of their own."""
    return [line for line in done.stderr.splitlines() if "wattiod" in line]


def check(config: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run `wattiod check`."""
    command = [str(BINARY), "check", str(config), *options]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.system
def test_systemd_understands_the_unit(installed: Path) -> None:
    done = analyze("verify", installed)
    assert complaints(done) == []


@pytest.mark.system
@pytest.mark.parametrize("drop_in", DROP_INS, ids=lambda path: path.stem)
def test_systemd_understands_each_drop_in(installed: Path, drop_in: Path) -> None:
    folder = installed.with_name(f"{installed.name}.d")
    folder.mkdir()
    shutil.copy(drop_in, folder)
    done = analyze("verify", installed)
    assert complaints(done) == []


@pytest.mark.system
def test_the_sandbox_is_as_tight_as_it_was(installed: Path) -> None:
    limit = f"--threshold={round(EXPOSURE_MAX * 10)}"
    done = analyze("security", "--offline=true", limit, installed)
    assert done.returncode == 0, done.stdout


def test_the_unit_restores_after_every_end() -> None:
    unit = settings(UNIT.read_text())
    config = "/etc/wattiod.toml"
    assert unit["ExecStart"] == [f"{INSTALLED} run {config}"]
    assert unit["ExecStopPost"] == [f"{INSTALLED} restore {config}"]
    assert unit["ExecReload"] == [f"{INSTALLED} check {config}", "kill -HUP $MAINPID"]
    assert unit["StateDirectoryMode"] == ["0700"]
    # Every right that the daemon keeps is explained.
    text = UNIT.read_text()
    for capability in " ".join(unit["CapabilityBoundingSet"]).split():
        assert re.search(rf"^#\s+{capability}  \S", text, re.MULTILINE), capability


def test_every_drop_in_is_listed_in_the_unit() -> None:
    text = UNIT.read_text()
    assert [path.name for path in DROP_INS if path.name not in text] == []


@pytest.mark.skipif(not BINARY.exists(), reason="make daemon builds it")
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_each_example_is_right(example: Path) -> None:
    done = check(example, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["name"] == example.stem


@pytest.mark.skipif(not BINARY.exists(), reason="make daemon builds it")
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_what_an_example_leaves_out_is_right_too(example: Path, tmp_path: Path) -> None:
    """Lines that are commented out, with `#` and no blank, are meant to be put in."""
    whole = tmp_path / example.name
    whole.write_text(re.sub(r"^#(?=\S)", "", example.read_text(), flags=re.MULTILINE))
    done = check(whole)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(not BINARY.exists(), reason="make daemon builds it")
def test_the_configuration_in_the_guide_is_right(tmp_path: Path) -> None:
    blocks = re.findall(r"^```toml\n(.*?)^```", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
    configurations = [block for block in blocks if "[latency]" in block]
    assert configurations
    for text in configurations:
        config = tmp_path / "guide.toml"
        config.write_text(text)
        done = check(config)
        assert done.returncode == 0, done.stderr


def test_the_guide_names_every_knob_and_source() -> None:
    text = GUIDE.read_text()
    host = ROOT / "crates" / "host" / "src"
    knobs = re.findall(r'serde\(rename = "([a-z.]+)"\)', (host / "knobs" / "mod.rs").read_text())
    sources = [
        "diskstats",
        "prometheus",
        "ceph",
        "tracepoint",
        "exec",
        "fio-log",
        "proc-stat",
        "spdk",
    ]
    assert len(knobs) == 8
    assert [name for name in [*knobs, *sources] if name not in text] == []


def test_nobody_is_told_to_install_what_no_registry_has() -> None:
    """`pip install 'wattio[hpc]'` stood in messages and documents; no registry has wattio."""
    told = re.compile(r"pip install[^\n]*[\s'\"/]wattio(?![\w./-]*\*|-[\w.*])")
    folders = [ROOT / name for name in ("docs", "python", "examples", "packaging", "crates")]
    files = [path for folder in folders for path in folder.rglob("*") if path.suffix in SPOKEN]
    wrong = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in [ROOT / "README.md", ROOT / "examples" / "hpcio" / "Makefile", *files]
        for line in path.read_text(encoding="utf-8").splitlines()
        if told.search(line) and "target/dist" not in line
    ]
    assert wrong == []
