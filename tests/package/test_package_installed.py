"""The wheel and the source package as a stranger gets them: in an empty environment, elsewhere."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from package import building
from package.bare_root import ENDS_S, certificates, made, within

ROOT = Path(__file__).parents[2]
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
DEBIANS = [("trixie", "3.13", "cargo-web"), ("forky", "3.14", "cargo")]
"""Later Debians with their Python, and what brings a cargo that is new enough."""

STUDY = """
[study]
name = "mine"
kind = "simulation"
seeds = [1, 2]
plf = PLF
[[load]]
name = "steady"
server = "small"
pattern = "Rand_RW"
pressure = 0.05
duration = "4 s"
warmup = "1 s"
[[policy]]
name = "pacer"
"""
"""A study of seconds; `test_fresh_machine.py` runs the quickstart."""

OPENED = """
import sys, wattio
assert sys.version.startswith(sys.argv[1] + "."), sys.version
result = wattio.open(sys.argv[2])
assert {row.run.condition for row in result.summary} > {"native"}
assert all(row.mean("power_w_mean") > 0 for row in result.summary)
assert result.figures()
"""
"""What a program reads from the result of that study."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2 * ENDS_S)]


def uv() -> str:
    """The pinned uv, as the Makefile finds it."""
    own = ROOT / ".tools" / "uv" / "bin" / "uv"
    return str(own) if own.exists() else "uv"


def interpreter(version: str) -> str:
    """The newest that pyenv has of a version, where it has one; else what uv finds by it."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    found = pyenv.glob(f"versions/{version}.*/bin/python")
    newest = max(found, key=lambda path: int(path.parts[-3].rpartition(".")[2]), default=None)
    return str(newest or version)


def told(command: list[str], cwd: Path, **environment: str) -> str:
    """What a command prints; the test fails with its last words where it does."""
    keep = {key: value for key, value in os.environ.items() if key not in ("VIRTUAL_ENV",)}
    done = subprocess.run(
        command,
        cwd=cwd,
        env=keep | {"PYTHONPATH": ""} | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=ENDS_S,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the source package and the wheel."""
    folder = tmp_path_factory.mktemp("dist")
    with building.alone():
        told([uv(), "build", "--quiet", "--sdist", "--out-dir", str(folder)], ROOT)
        wheel = [uv(), "build", "--quiet", "--wheel", "--config-setting", building.LIKE_TESTS]
        told([*wheel, "--out-dir", str(folder)], ROOT)
    return folder


def used_by_a_stranger(bin_: Path, folder: Path) -> None:
    """Commands that need what is shipped: modules, servers, studies, the trace; elsewhere."""
    wattio = str(bin_ / "wattio")
    place = told(
        [str(bin_ / "python"), "-c", "import wattio; print(wattio.__file__)"], folder
    ).strip()
    assert not Path(place).is_relative_to(ROOT)
    assert json.loads(told([wattio, "doctor", "--json"], folder))["findings"]
    options = ["--duration", "5 s", "--json"]
    done = json.loads(told([wattio, "simulate", "--server", "small", *options], folder))
    assert done["relative_to_native"]["power_w_mean"] < 1
    replay = ["simulate", "--trace", "pgbench", "--policy", "ondemand", "--json"]
    assert json.loads(told([wattio, *replay, "--server", "small"], folder))["iops_mean"] > 400
    prefix = Path(told([wattio, "hpcio", "prefix"], folder).strip())
    assert prefix.is_relative_to(bin_.parent)
    source, library = str(ROOT / "examples" / "io" / "alone.c"), str(prefix / "lib")
    flags = [f"-I{prefix / 'include'}", f"-L{library}", "-lwattio_io", f"-Wl,-rpath,{library}"]
    told(["cc", source, "-o", "alone", *flags], folder)
    (folder / "hpcio.toml").write_text('[hpcio]\napproach = "dc"\n')
    told(["./alone", "hpcio.toml", "socket", "0", "1"], folder)
    assert (folder / "dumps" / "dump-00000002" / "fields.h5").is_file()
    told([wattio, "new", "study", "mine"], folder)
    told([wattio, "new", "server", "mine-too"], folder)
    checked = told([wattio, "check", "mine", "mine-too.toml", "pacer", "--json"], folder)
    assert all(row["ok"] for row in json.loads(checked)["files"])
    results_compared_by_a_stranger(wattio, folder)


def results_compared_by_a_stranger(wattio: str, folder: Path) -> None:
    """A study of his own twice, the second time with another bound, and a page of both."""
    results = []
    for plf in ("0.1", "0.3"):
        (folder / "mine" / "study.toml").write_text(STUDY.replace("PLF", plf))
        found = json.loads(told([wattio, "run", "mine", "--json"], folder))
        assert found["complete"]
        page = Path(folder, found["report"]).read_text(encoding="utf-8")
        assert "data:image/svg+xml;base64," in page
        assert "uPlot" in page
        results.append(found["result"])
    assert "beyond noise" in told([wattio, "compare", *results, "--html", "both.html"], folder)
    assert "<figure>" in (folder / "both.html").read_text(encoding="utf-8")
    assert (folder / "both-ratios.svg").is_file()


def test_the_wheel_runs_on_every_python_of_this_machine(
    built: Path, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    (wheel,) = built.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert "wattio/py.typed" in names
    assert not [name for name in names if name.startswith(("studies", "tests"))]
    tried = []
    for version in PYTHONS:
        python = interpreter(version)
        asked = [uv(), "venv", "--quiet", "--python", python, str(tmp_path / version)]
        if subprocess.run(asked, capture_output=True, check=False).returncode:
            continue
        bin_ = tmp_path / version / "bin"
        install = [uv(), "pip", "install", "--quiet", "--python", str(bin_ / "python"), str(wheel)]
        told(install, tmp_path)
        (tmp_path / f"work-{version}").mkdir()
        used_by_a_stranger(bin_, tmp_path / f"work-{version}")
        tried.append(version)
    absent = [version for version in PYTHONS if version not in tried]
    record_property("told", f"tried: Python {', '.join(tried)}; not there: {absent or 'none'}")
    assert f"{sys.version_info.major}.{sys.version_info.minor}" in tried


@pytest.mark.system
@pytest.mark.parametrize(("debian", "version", "cargo"), DEBIANS)
def test_the_wheel_runs_on_the_python_of_a_later_debian(
    built: Path, tmp_path: Path, debian: str, version: str, cargo: str
) -> None:
    """Installed by pip in a bare root, away from the Debian that it is built on."""
    (wheel,) = built.glob("*.whl")
    packages = ["python3-venv", "ca-certificates"]
    with made(tmp_path / "root", packages, debian, testing=debian == "forky") as root:
        shutil.copy(wheel, root)
        shutil.copy(ROOT / "packaging" / "needs.sh", root)
        the_line_for_the_source_tree_works(root, cargo)

        def done(script: str) -> str:
            ended = within(root, f"cd /root && {script}", **certificates(root))
            assert ended.returncode == 0, f"{script}\n{ended.stdout[-2000:]}{ended.stderr[-2000:]}"
            return ended.stdout

        done(f"python3 -m venv wattio && wattio/bin/pip install --quiet /{wheel.name}")
        wattio = "wattio/bin/wattio"
        assert json.loads(done(f"{wattio} doctor --json"))["findings"]
        simulated = json.loads(done(f"{wattio} simulate --server small --duration '5 s' --json"))
        assert simulated["relative_to_native"]["power_w_mean"] < 1
        (root / "root" / "mine.toml").write_text(STUDY.replace("PLF", "0.2"))
        ran = json.loads(done(f"{wattio} run mine.toml --json"))
        assert ran["complete"]
        (root / "root" / "opened.py").write_text(OPENED)
        done(f"wattio/bin/python opened.py {version} {ran['result']}")


def the_line_for_the_source_tree_works(root: Path, cargo: str) -> None:
    """What `make run` names there is in the archive of that Debian, and new enough."""
    asked = re.search(r"^CARGO_NEEDED := (\S+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert asked
    needs = f"sh /needs.sh {asked[1]}"
    told = within(root, f"setpriv --reuid=65534 --regid=65534 --clear-groups {needs}")
    assert told.returncode == 2
    line = f"apt install make gcc ca-certificates python3-venv {cargo}"
    assert told.stderr.endswith(f"; on Debian 12 and newer: {line}\n")
    simulated = line.replace("apt install", "apt-get install --simulate --no-install-recommends")
    found = within(root, f"apt-get update -qq && {simulated}")
    assert found.returncode == 0, found.stderr
    brought = re.search(rf"^Inst {cargo} \((\d+\.\d+)", found.stdout, re.MULTILINE)
    assert brought
    assert _version(brought[1]) >= _version(asked[1])


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("."))


def test_pip_installs_the_source_package(built: Path, tmp_path: Path) -> None:
    """The source package lacked the server descriptions that a crate includes."""
    (source,) = built.glob("*.tar.gz")
    told([sys.executable, "-m", "venv", str(tmp_path / "venv")], tmp_path)
    bin_ = tmp_path / "venv" / "bin"
    target = ROOT / "target" / "package"
    with building.alone():
        building.seeded(target)
    pip = [str(bin_ / "pip"), "install", "--quiet", "--disable-pip-version-check"]
    unpacked = tmp_path / "unpacked"
    building.hurried(unpacked)
    line = [*pip, "--config-settings", building.LIKE_TESTS, str(source)]
    told(line, tmp_path, CARGO_TARGET_DIR=str(target), TMPDIR=str(unpacked))
    work = tmp_path / "work"
    work.mkdir()
    used_by_a_stranger(bin_, work)


def test_a_meter_of_a_missing_extra_is_told_which(built: Path, tmp_path: Path) -> None:
    """Serial and SNMP are the extra meters; without it each says so in one line."""
    (wheel,) = built.glob("*.whl")
    told([uv(), "venv", "--quiet", "--python", sys.executable, str(tmp_path / "venv")], tmp_path)
    python = str(tmp_path / "venv" / "bin" / "python")
    told([uv(), "pip", "install", "--quiet", "--python", python, str(wheel)], tmp_path)
    for name in ("lmg450:/dev/ttyS0", "snmp://public@127.0.0.1/1.3.6.1.4?unit=W"):
        done = subprocess.run(
            [str(Path(python).with_name("wattio")), "meter", "read", name],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode in (1, 2)
        assert "needs the extra meters" in done.stderr
        assert "Traceback" not in done.stderr
