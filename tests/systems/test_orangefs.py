"""OrangeFS without an installation: its options, its configuration, and doubles of its programs."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from wattio.errors import HostError, SystemFailed
from wattio.systems import commands, orangefs, orangefs_setup, orangefs_status
from wattio.systems.installed import NO_PACKAGE
from wattio.systems.networks import Network
from wattio.systems.orangefs_setup import Options, Server

from systems.doubled import Double, Doubles, install
from systems.killing import kill

OUTPUTS = Path(__file__).parents[1] / "data" / "outputs"
FOLDERS = {"pvfs2-server": "sbin", "pvfs2-ping": "bin", "pvfs2fuse": "bin"}


def sample(name: str) -> str:
    return (OUTPUTS / name).read_text()


def storage(tmp_path: Path, **options: object) -> orangefs.Storage:
    """One on doubles, which are installed."""
    prefix = tmp_path / "installed"
    if not prefix.exists():
        install(prefix, "orangefs", FOLDERS)
    given = {"io_servers": 2, "prefix": str(prefix), **options}
    made = orangefs.Storage(Options.model_validate(given), tmp_path / "scratch")
    network: Network = Doubles(prefix)
    made._network, made._networks = network, (network,)
    return made


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"metadata_servers": 3, "data_files": 1, "method": "directio", "sync_data": True},
        {"distribution": "twod_stripe", "settings": {"DistrDirServersMax": "2"}},
        {"distribution": "basic_dist", "mount_options": ["allow_other"], "client": "fuse"},
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
        with pytest.raises(SystemFailed, match="OrangeFS is not mounted"):
            made.verify_mount()
        first, second = made.mount(2)
        assert first.folder != second.folder
        made.verify_mount()
        facts = made.describe()
        json.dumps(facts)
        assert (facts["version"], facts["copies"]) == ("2.9.8", 1)
        assert len(facts["servers"]) == 2 + made._managers
        made.unmount()
        with pytest.raises(SystemFailed, match="OrangeFS is not mounted"):
            made.verify_mount()
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
        kill("pvfs2-server", made._server(3).folder)
        words = r"^server 3: pvfs2-server has ended: PVFS2 Server on node node3 version"
        with pytest.raises(SystemFailed, match=words):
            made.verify_mount()
        # So it is at the start, and at once.
        made._server(2).log.write_text("Error: no space")
        kill("pvfs2-server", made._server(2).folder)
        made._begin = lambda daemons: None  # type: ignore[method-assign]
        with pytest.raises(SystemFailed, match=r"^server 2: pvfs2-server has ended: Error: no sp"):
            made.start()
    finally:
        made.clean()


def test_what_servers_have_put_aside_is_left(tmp_path: Path) -> None:
    made = storage(tmp_path)
    try:
        made.deploy()
        assert made.deletes_left() == 0
        aside = made._data[1] / "data" / "00000001" / "stranded-bstreams"
        for name in ("7fff.bstream", "6fff.bstream"):
            (aside / name).touch()
        (aside.parent / "kept.bstream").touch()
        made._release = lambda: None  # type: ignore[method-assign] # (of the whole machine)
        assert made.deletes_left() == 2
    finally:
        made.clean()


def test_metadata_lie_on_the_disk_that_is_named(tmp_path: Path) -> None:
    disk = tmp_path / "ssd"
    made = storage(tmp_path, metadata=str(disk), metadata_servers=2)
    with pytest.raises(HostError, match="ssd: is not a folder"):
        made.probe()
    disk.mkdir()
    try:
        made.probe()
        made.deploy()
        names = sorted(path.parts[-3] for path in disk.rglob("collections.db"))
        assert names == ["server1", "server2"]
    finally:
        made.clean()
    assert list(disk.iterdir()) == []


def test_a_program_that_is_missing_is_named_with_the_key(tmp_path: Path) -> None:
    made = storage(tmp_path)
    (tmp_path / "installed" / "bin" / "pvfs2fuse").unlink()
    file = re.escape(str(tmp_path / "installed" / "bin" / "pvfs2fuse"))
    words = rf"^missing: {file}; not packaged by Debian: set prefix to where they are installed$"
    with pytest.raises(HostError, match=words):
        made.probe()


def test_what_is_missing_of_both_kinds_is_told_of_each() -> None:
    told = commands.lack({"mount": "mount", "pvfs2fuse": NO_PACKAGE})
    assert told.startswith(
        "missing: mount; on Debian: apt install mount; missing: pvfs2fuse; not packaged by Debian"
    )


def test_a_kernel_has_one_client_for_all_of_a_machine(tmp_path: Path) -> None:
    made = orangefs.Storage(Options(client="kernel"), tmp_path)
    with pytest.raises(SystemFailed, match="one OrangeFS client for the whole machine"):
        made.mount(2)
    assert made.mounter is None
    with pytest.raises(ValidationError, match="client: the kernel has one"):
        Options(client="kernel", network="namespaces")


def test_the_kernels_client_is_told_what_its_help_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = storage(tmp_path, client="kernel", mount_options=["intr"])
    calls: list[tuple[str, ...]] = []

    def called(node: Double, part: str, *words: str) -> str:
        calls.append(words)
        return ""

    monkeypatch.setattr(Double, "call", called)
    point = made._mounts / "1"
    made._mount(1, made._client(1), point)
    prefix, log = tmp_path / "installed", made._client_log(1)
    sbin, spec = prefix / "sbin", "tcp://10.9.8.1:13335/orangefs"
    daemon, mount = calls
    own = ("-p", str(sbin / "pvfs2-client-core"), "-L", str(log))
    assert daemon[-5:] == (str(sbin / "pvfs2-client"), *own)
    assert mount == ("mount", "-t", "pvfs2", "-o", "intr", spec, str(point))
    assert made._source() == spec


@pytest.mark.parametrize(
    ("given_options", "message"),
    [
        ({"data_files": 5}, "data_files: 5 need 5 io_servers or more"),
        ({"distribution": "twod_stripe", "groups": 5}, "groups: 5 need 5 io_servers or more"),
        ({"distribution": "random"}, "Input should be 'simple_stripe', 'basic_dist' or"),
        ({"flow_buffers": 1}, "greater than or equal to 2"),
        ({"settings": {"Name": "a\nID 5"}}, "String should match pattern"),
        ({"metadata": "ssd"}, "must be absolute"),
        ({"prefix": "orangefs"}, 'must be absolute, as in "/opt/orangefs"'),
        ({"data": ["/a"]}, "data: 1 folders for 4 servers"),
    ],
)
def test_options_that_cannot_be_are_refused(given_options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Options.model_validate(given_options)


def server(number: int) -> Server:
    return Server(f"node{number}", f"tcp://h{number}:1", Path("/r"), Path(f"/d{number}"))


def test_the_defaults_are_those_of_the_thesis() -> None:
    """Section 5.2: metadata on one server, data on four; sizes are those that OrangeFS ships.

    Section 3.2: data are cached, metadata written at once.
    """
    options = Options()
    assert (options.metadata_servers, options.io_servers) == (1, 4)
    text = orangefs_setup.configuration(
        options, 7, [server(1)], [server(number) for number in range(2, 6)]
    )
    lines = [line.strip() for line in text.splitlines()]
    assert "TroveSyncMeta yes" in lines
    assert "TroveSyncData no" in lines
    assert lines[lines.index("Param strip_size") + 1] == "Value 65536"
    metadata, data = (
        text.partition(f"<{kind}HandleRanges>")[2].partition("</")[0] for kind in ("Meta", "Data")
    )
    assert "Range node1 3-4611686018427387904" in metadata
    assert len(data.split()) == 3 * 4


@given(st.integers(1, 64), st.integers(1, 64))
def test_every_handle_is_one_servers(metadata: int, data: int) -> None:
    """Ranges follow one on another, from 3 to the last of 63 bits, as pvfs2-genconfig's do."""
    options = Options(metadata_servers=metadata, io_servers=data)
    every = [server(number) for number in range(1, metadata + data + 1)]
    text = orangefs_setup.configuration(options, 7, every[:metadata], every[metadata:])
    found = re.findall(r"Range node([0-9]+) ([0-9]+)-([0-9]+)", text)
    assert [int(name) for name, _, _ in found] == list(range(1, metadata + data + 1))
    ends = [2, *(int(last) for _, _, last in found)]
    assert [int(first) for _, first, _ in found] == [last + 1 for last in ends[:-1]]
    assert ends[-1] == 2**63 - 2


def test_servers_that_answered_are_read() -> None:
    every = {f"tcp://10.79.0.{number}:{13334 + number}" for number in range(1, 6)}
    assert orangefs_status.answering(sample("orangefs-2.10-ping.txt")) == every
    late = orangefs_status.answering(sample("orangefs-2.10-ping-silent.txt"))
    assert every - late == {"tcp://10.79.0.5:13339"}


def test_versions_are_read() -> None:
    told = "2.10.0-orangefs-DEVEL-2026-11-23-135836 (mode: aio-threaded)\n"
    assert orangefs_status.version(told) == "2.10.0-orangefs-DEVEL-2026-11-23-135836"
    assert orangefs_status.version("2.9.8 (mode: aio-threaded)\n") == "2.9.8"
    assert orangefs_status.version("Usage: pvfs2-server: [OPTIONS]") is None


@given(st.text())
def test_no_text_breaks_the_readers(text: str) -> None:
    orangefs_status.version(text)
    orangefs_status.answering(text)
