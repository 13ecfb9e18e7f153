"""JULEA without an installation: its options, its configuration, and doubles of its programs."""

from __future__ import annotations

import configparser
import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from wattio.errors import SystemFailed
from wattio.systems import julea, julea_setup, julea_status
from wattio.systems.cluster import READY_S
from wattio.systems.julea_setup import Options
from wattio.systems.networks import Network

from systems.doubled import Doubles, install
from systems.killing import kill

OUTPUTS = Path(__file__).parents[1] / "data" / "outputs"
FOLDERS = dict.fromkeys(("julea-config", "julea-server", "julea-statistics", "julea-fuse"), "bin")


def sample(name: str) -> str:
    return (OUTPUTS / name).read_text()


def storage(tmp_path: Path, **options: object) -> julea.Storage:
    """One on doubles, which are installed."""
    prefix = tmp_path / "installed"
    if not prefix.exists():
        install(prefix, "julea", FOLDERS)
        (prefix / "lib").mkdir()
        (prefix / "lib" / "julea.pc").write_text("Name: julea\nVersion: 0.5\n")
    given = {"object_servers": 2, "prefix": str(prefix), **options}
    made = julea.Storage(Options.model_validate(given), tmp_path / "scratch")
    network: Network = Doubles(prefix)
    made._network, made._networks = network, (network,)
    return made


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"object_backend": "gio", "kv_backend": "leveldb", "db_backend": "null"},
        {"kv_backend": "gdbm", "kv_servers": 2, "db_servers": 2, "mount_options": ["allow_other"]},
    ],
    ids=str,
)
def test_programs_take_what_they_are_told(tmp_path: Path, options: dict[str, Any]) -> None:
    made = storage(tmp_path, **options)
    try:
        made.probe()
        made.deploy()
        made.start()
        made.start()
        with pytest.raises(SystemFailed, match="JULEA is not mounted"):
            made.verify_mount()
        first, second = made.mount(2)
        assert first.folder != second.folder
        made.verify_mount()
        facts = made.describe()
        json.dumps(facts)
        assert (facts["version"], facts["copies"]) == ("0.5", 1)
        assert facts["servers"] == ["10.9.8.1:14712", "10.9.8.2:14713"]
        # Each server has a folder of its own for what it keeps.
        assert all(any(data.rglob("*")) for data in made._data)
        made.unmount()
        made.stop()
        assert made.processes() == []
    finally:
        made.clean()
    assert not (tmp_path / "scratch").exists()


def test_it_is_said_which_server_died(tmp_path: Path) -> None:
    made = storage(tmp_path)
    try:
        made.deploy()
        made.start()
        made.mount(1)
        kill("julea-server", made._daemons()[1].folder)
        with pytest.raises(SystemFailed, match=r"^server 2: julea-server has ended: no output"):
            made.verify_mount()
    finally:
        made.clean()


def test_a_server_that_cannot_begin_is_told_at_once(tmp_path: Path) -> None:
    """It was told after a minute, in which the others were asked again and again."""
    made = storage(tmp_path)
    try:
        made.deploy()
        (made._data[1] / "object").rmdir()
        begun = time.monotonic()
        words = r"^server 2: julea-server has ended: Could not initialize object backend"
        with pytest.raises(SystemFailed, match=words):
            made.start()
        assert time.monotonic() - begun < READY_S / 2
    finally:
        made.clean()


def test_what_a_server_keeps_lies_on_the_disks_that_are_named(tmp_path: Path) -> None:
    disks = [tmp_path / "one", tmp_path / "two"]
    for disk in disks:
        disk.mkdir()
    made = storage(tmp_path, data=[str(disk) for disk in disks])
    try:
        made.deploy()
        made.start()
        assert [path.name for path in disks[1].rglob("double")] == ["double"]
    finally:
        made.clean()
    assert [list(disk.iterdir()) for disk in disks] == [[], []]


@pytest.mark.parametrize(
    ("given_options", "message"),
    [
        ({"kv_servers": 6}, "kv_servers: 6 need 6 object_servers or more"),
        ({"db_servers": 6}, "db_servers: 6 need 6 object_servers or more"),
        ({"kv_backend": "mongodb"}, "Input should be 'lmdb', 'leveldb'"),
        ({"prefix": "julea"}, "must be absolute"),
        ({"data": ["/a"]}, "data: 1 folders for 5 servers"),
    ],
)
def test_options_that_cannot_be_are_refused(given_options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Options.model_validate(given_options)


def test_the_defaults_are_those_of_the_thesis(tmp_path: Path) -> None:
    """Section 5.6: content on five servers in files, names in LMDB and SQLite on the first."""
    made = storage(tmp_path, object_servers=5)
    found = configparser.ConfigParser(interpolation=None)
    found.read_string(made._configuration())
    assert {kind: found[kind]["backend"] for kind in ("object", "kv", "db")} == {
        "object": "posix",
        "kv": "lmdb",
        "db": "sqlite",
    }
    counts = {kind: text.count(";") for kind, text in found["servers"].items()}
    assert counts == {"object": 5, "kv": 1, "db": 1}


def test_what_the_tool_prints_is_what_was_recorded(tmp_path: Path) -> None:
    """The double writes the keys of the real one, with the same values for the same options."""
    made = storage(tmp_path, object_servers=3)
    made._root = Path("/scratch/julea")  # of the record
    recorded, printed = configparser.ConfigParser(), configparser.ConfigParser()
    recorded.read_string(sample("julea-0.5-config.txt"))
    printed.read_string(made._configuration().replace("10.9.8.", "10.79.0."))
    assert dict(recorded) == dict(printed)


def test_backends_that_are_a_file_are_given_one() -> None:
    told = julea_setup.arguments(Options(kv_backend="gdbm"), ["a:1"], Path("/s"))
    assert "--object-path=/s/{PORT}/object" in told
    assert "--kv-path=/s/{PORT}/kv/all" in told
    assert "--db-path=/s/{PORT}/db/all" in told


def test_a_configuration_that_is_none_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = storage(tmp_path)
    monkeypatch.setattr(julea_status, "configuration", lambda text: None)
    with pytest.raises(SystemFailed, match=r"^configuration: julea-config printed none$"):
        made.deploy()


def test_recorded_outputs_are_read() -> None:
    assert julea_status.answering(sample("julea-0.5-statistics.txt")) == 3
    text = sample("julea-0.5-config.txt")
    assert julea_status.configuration(f"warning: something\n{text}") == text
    assert julea_status.configuration("Option parsing failed") is None
    assert julea_status.version("prefix=/opt/julea\nVersion: 0.5\n") == "0.5"
    assert julea_status.version("0.5\n") == "0.5"


@given(st.text())
def test_no_text_breaks_the_readers(text: str) -> None:
    julea_status.version(text)
    julea_status.answering(text)
    julea_status.configuration(text)
    julea_status.configuration(f"[core]\n{text}[servers]\n")
