"""The wheel and the source package as a stranger gets them: in an empty environment, elsewhere."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from package import building
from package.bare_root import ENDS_S

ROOT = Path(__file__).parents[2]
PYTHONS = ("3.11", "3.12", "3.13", "3.14")

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

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2 * ENDS_S)]


def uv() -> str:
    """The pinned uv, as the Makefile finds it."""
    own = ROOT / ".tools" / "uv" / "bin" / "uv"
    return str(own) if own.exists() else "uv"


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
        told([uv(), "build", "--quiet", "--wheel", "--out-dir", str(folder)], ROOT)
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
        asked = [uv(), "venv", "--quiet", "--python", version, str(tmp_path / version)]
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


def test_pip_installs_the_source_package(built: Path, tmp_path: Path) -> None:
    """The source package lacked the server descriptions that a crate includes."""
    (source,) = built.glob("*.tar.gz")
    told([sys.executable, "-m", "venv", str(tmp_path / "venv")], tmp_path)
    bin_ = tmp_path / "venv" / "bin"
    # Other crates are compiled once for all test runs of a machine, outside of the tree. Ours are
    # not: files from an archive are old, so that cargo would take those of a former run for fresh.
    target = ROOT / "target" / "package"
    for kept in target.glob("*/.fingerprint/wattio*"):
        shutil.rmtree(kept)
    pip = [str(bin_ / "pip"), "install", "--quiet", "--disable-pip-version-check", str(source)]
    # Compiled as it is released, but for the time that is spent on speed.
    told(pip, tmp_path, CARGO_TARGET_DIR=str(target), CARGO_PROFILE_RELEASE_OPT_LEVEL="1")
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
