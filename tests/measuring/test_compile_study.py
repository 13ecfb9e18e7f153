"""Studies that compile: locally with what goes wrong, and on a real MooseFS."""

from __future__ import annotations

import os
import signal
import subprocess
import tarfile
import threading
import time
from pathlib import Path

import pytest
from wattio.errors import HostError
from wattio.kinds.measurement import recompute
from wattio.kinds.measurement.folder import MeasurementFolder
from wattio.systems import mounts
from wattio.systems.moosefs import Options, Storage

from measuring.test_running import ASSUMED_METER, ended, ended_usable, result, wattio

STUDY = (
    """\
[study]
name = "trial"
kind = "measurement"
repetitions = 1
clients = [1, 2]
idle_before = "0 s"
idle_after = "0 s"
settle = "0 s"
drop_caches = false
repeat_invalid = 0

{systems}

[[workload]]
name = "compile"
options = {{ {options} }}

"""
    + ASSUMED_METER
)

LOCAL = '[[system]]\nname = "local"\n'
MOOSEFS = """\
[[system]]
name = "moosefs"
options = { chunk_servers = 2, network = "namespaces" }
"""


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def study(folder: Path, options: str, systems: str = LOCAL) -> Path:
    path = folder / "study.toml"
    path.write_text(STUDY.format(options=options, systems=systems))
    return path


def archive(folder: Path, makefile: str) -> None:
    (folder / "Makefile").write_text(makefile)
    with tarfile.open(folder / "source.tar.gz", "w:gz") as packed:
        packed.add(folder / "Makefile", "project/Makefile")


@pytest.mark.slow
def test_files_and_their_joules_are_told_phase_by_phase(tmp_path: Path) -> None:
    assert "files/s" in ended_usable(study(tmp_path, "files = 20"), tmp_path)
    folder = MeasurementFolder(result(tmp_path))
    for item in folder.iterations():
        clients = item.run.settings["clients"]
        files = {name: found["files"][0] for name, found in item.by_phase.items()}
        assert files == {"copy": 20 * clients, "build": 16 * clients, "delete": 36 * clients}
        built = item.by_phase["build"]
        energy_j = built["estimated_energy_j"][0]
        assert built["estimated_energy_j_per_file"][0] == pytest.approx(energy_j / files["build"])
    assert recompute.compare(folder).differences == []


def test_a_build_that_fails_is_invalid_with_what_was_said(tmp_path: Path) -> None:
    archive(tmp_path, "all:\n\t@printf 'no \\033[31mroom: error 7\\n' >&2; false\n")
    code, _, err = ended(
        wattio("run", study(tmp_path, 'archive = "source.tar.gz"'), folder=tmp_path)
    )
    assert code == 1, err
    folder = MeasurementFolder(result(tmp_path))
    invalid = [
        next(verdict.reason for verdict in item.verdicts if verdict.verdict == "INVALID")
        for item in folder.iterations()
    ]
    assert len(invalid) == 2
    for reason in invalid:
        assert reason.endswith("error 7 / make: *** [Makefile:2: all] Error 1")
        assert reason.isprintable()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ('archive = "none.tar"', "none.tar: cannot be read: No such file or directory"),
        ('archive = "study.toml"', "study.toml: is not a readable tar file"),
        ('archive = "a.tar", files = 20', "give either archive, or files"),
        ("files = 5", "options.files"),
    ],
)
def test_what_cannot_be_built_is_refused_before_anything_runs(
    tmp_path: Path, options: str, said: str
) -> None:
    code, _, err = ended(wattio("run", study(tmp_path, options), "--dry-run", folder=tmp_path))
    assert code == 2
    assert said in " ".join(err.split())
    assert not (tmp_path / "results").exists()


def test_a_tree_without_room_is_refused(tmp_path: Path) -> None:
    small = '[[system]]\nname = "local"\noptions = { size = "64 MiB" }\n'
    path = study(tmp_path, "files = 10000", small)
    code, _, err = ended(wattio("run", path, "--dry-run", folder=tmp_path))
    assert code == 1, err
    assert "workload compile: needs" in " ".join(err.split())


def test_who_is_interrupted_in_a_build_leaves_nothing(tmp_path: Path) -> None:
    archive(tmp_path, f"all:\n\t@touch {tmp_path}/begun; sleep 600\n")
    process = wattio("run", study(tmp_path, 'archive = "source.tar.gz"'), folder=tmp_path)
    deadline = time.monotonic() + 60
    while not (tmp_path / "begun").exists():
        assert time.monotonic() < deadline
        threading.Event().wait(0.02)
    process.send_signal(signal.SIGINT)
    code, _, err = ended(process)
    assert code == 130, err
    folder = MeasurementFolder(result(tmp_path))
    assert folder.iterations() == []
    assert not (folder.path / "scratch").exists()
    found = subprocess.run(("pgrep", "-f", str(tmp_path)), capture_output=True, check=False)
    assert found.stdout == b""


def lacking() -> str | None:
    """What this machine lacks for a MooseFS, if anything."""
    if os.geteuid() != 0:
        return "needs root for namespaces and mounts"
    try:
        Storage(Options(network="namespaces"), Path("/nonexistent")).probe()
    except HostError as error:
        return str(error)
    return None


@pytest.mark.system
@pytest.mark.skipif(lacking() is not None, reason=lacking() or "")
def test_clients_build_on_a_moosefs(tmp_path: Path) -> None:
    ended_usable(study(tmp_path, "files = 20", LOCAL + MOOSEFS), tmp_path)
    folder = MeasurementFolder(result(tmp_path))
    items = folder.iterations()
    assert {item.run.system for item in items} == {"local", "moosefs"}
    for item in items:
        assert item.usable, item.verdicts
        clients = item.run.settings["clients"]
        assert item.by_phase["copy"]["files"][0] == 20 * clients
        assert item.by_phase["delete"]["files"][0] == 36 * clients
    assert not list(mounts.below(tmp_path))
