"""Measuring this machine's parts with the real programs; short, so that it tells of no speed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from ports import free_port
from wattio.analysis.peak import QUANTITIES
from wattio.cli import main
from wattio.errors import Cancelled, HostError, InputError
from wattio.peak import measure, servers
from wattio.peak.file import key_of, read_peak
from wattio.peak.folders import Folder
from wattio.peak.hosts import Host
from wattio.peak.measure import Settings, Targets

SHORT = Settings(1, 1, 1, 1, 64 * 1024**2)

system = pytest.mark.system


def needs(*programs: str) -> None:
    missing = [name for name in programs if shutil.which(name) is None]
    if missing:
        pytest.skip(f"needs {', '.join(missing)}")


def command(*words: str) -> int:
    with pytest.raises(SystemExit) as caught:
        main(["peak", *words])
    return int(caught.value.code or 0)


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    """A folder on a disk; fio must be able to read it past the cache."""
    told = subprocess.run(
        ["stat", "-f", "-c", "%T", str(tmp_path)], capture_output=True, text=True, check=True
    )
    if told.stdout.strip() in ("tmpfs", "ramfs", "overlayfs"):
        pytest.skip(f"temporary files are on {told.stdout.strip()}, not on a disk")
    return tmp_path


@contextmanager
def namespace() -> Iterator[str]:
    """A network namespace of our own behind a pair of links, with 10.79.31.2."""
    name, link = f"wattio-pk-{os.getpid()}", f"wpk{os.getpid()}"
    ip("netns", "add", name)
    try:
        ip("link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", name)
        ip("address", "add", "10.79.31.1/24", "dev", link)
        ip("link", "set", link, "up")
        ip("-n", name, "address", "add", "10.79.31.2/24", "dev", "eth0")
        ip("-n", name, "link", "set", "eth0", "up")
        yield name
    finally:
        # The pair of links goes with the namespace that one end is in.
        ip("netns", "delete", name)


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


def ours(folder: Path) -> set[Path]:
    return set(folder.glob("wattio-peak.*"))


def test_a_folder_that_cannot_be_used_is_told_before_anything_is_made(tmp_path: Path) -> None:
    """Files of 2 GiB were laid out in memory first, and servers started."""
    needs("fio")
    memory = Path("/dev/shm")
    before = ours(memory)
    targets = Targets(disks=(Folder(Host(), str(memory)),))
    said: list[str] = []
    with pytest.raises(InputError, match="/dev/shm: is on tmpfs, not on a disk"):
        measure.measure(
            targets, SHORT, tmp_path, threading.Event(), lambda step, *_: said.append(step)
        )
    assert (said, ours(memory)) == ([], before)


@system
def test_all_parts_of_this_machine(tmp_path: Path, disk: Path) -> None:
    needs("fio", "iperf3", "ping")
    memory = Path("/dev/shm")
    before = ours(memory)
    targets = Targets(
        servers=(servers.parse(f"loopback:{free_port()}"),), disks=(Folder(Host(), str(disk)),)
    )
    said: list[str] = []
    parts = measure.measure(
        targets, SHORT, tmp_path, threading.Event(), lambda step, *_: said.append(step)
    )
    kinds = [part.kind for part in parts]
    assert kinds == ["memory", "network", "network", "disk"]
    for quantity in QUANTITIES:
        measured = [part.kind for part in parts if getattr(part, key_of(quantity)) is not None]
        assert measured == ["memory", "network", "disk"]
    # Network and disks are two halves of this machine, so that the rule `nodes` can compare them.
    assert {part.node for part in parts if part.kind != "memory"} == {"localhost"}
    assert len(said) == len(set(said)) == 13
    assert not ours(disk)
    assert ours(memory) <= before


@system
def test_the_command_writes_a_file_that_it_reads_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    needs("iperf3", "ping")
    out = tmp_path / "peak.toml"
    server = f"loopback:{free_port()}"
    short = ("--runtime", "1 s", "--repetitions", "2", "--no-memory", "--json")
    assert command("--server", server, *short, "--out", str(out)) == 0
    measured = json.loads(capsys.readouterr().out)
    assert measured["missing"] == [
        "client memory: left out on request",
        "disks: no --device-folder was given",
    ]
    assert command(str(out), "--json") == 0
    again = json.loads(capsys.readouterr().out)
    assert again["limits"] == measured["limits"]
    assert len(read_peak(out).parts) == 2
    assert measured["part"][0]["read_throughput_mib_s"]["n"] == 2


@system
def test_a_network_namespace_is_measured_through_its_link(tmp_path: Path) -> None:
    needs("iperf3", "ping", "ip", "nsenter")
    if os.geteuid() != 0:
        pytest.skip("needs root for network namespaces")
    with namespace() as name:
        targets = Targets(memory=None, servers=(servers.parse(f"netns:{name}"),))
        parts = measure.measure(targets, SHORT, tmp_path, threading.Event(), lambda *_: None)
    assert [part.where for part in parts] == ["10.79.31.2", "10.79.31.2"]


@system
def test_disks_of_another_host_are_measured_by_ssh(
    tmp_path: Path, disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Through a stand-in for ssh that hands the command to a shell, as sshd does."""
    needs("fio")
    ssh = tmp_path / "bin" / "ssh"
    ssh.parent.mkdir()
    ssh.write_text('#!/bin/sh\n[ "$4" = s1 ] && exec sh -c "$5"\n')
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{ssh.parent}:{os.environ['PATH']}")
    folder = disk / "a folder; with 'marks'"
    folder.mkdir()
    targets = Targets(memory=None, disks=(Folder(Host("s1"), str(folder)),))
    (part,) = measure.measure(targets, SHORT, tmp_path, threading.Event(), lambda *_: None)
    assert (part.kind, part.node, part.where) == ("disk", "s1", str(folder))
    assert part.write_iops is not None
    assert not list(folder.iterdir())


@system
def test_a_stop_leaves_no_file_behind(tmp_path: Path, disk: Path) -> None:
    needs("fio")
    cancelled = threading.Event()

    def stop(step: str, done_s: float, total_s: float) -> None:
        if total_s:
            cancelled.set()

    targets = Targets(memory=None, disks=(Folder(Host(), str(disk)),))
    with pytest.raises(Cancelled):
        measure.measure(targets, SHORT, tmp_path, cancelled, stop)
    assert not ours(disk)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nowhere", "there is no such folder, or it cannot be looked into"),
        ("file", "is not a folder; raw devices are never written to"),
    ],
)
def test_what_is_no_folder_is_told_in_our_words(
    name: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was "stat failed (exit code 1): stat: cannot read file system information for"."""
    (tmp_path / "file").write_text("")
    path = tmp_path / name
    assert command("--no-memory", "--device-folder", str(path)) == 2
    assert capsys.readouterr().err == f"wattio: {path}: {said}\n"


FIO_WAITS = """\
#!/bin/sh
touch "$WATTIO_TEST_BEGUN"
while :; do sleep 0.1; done
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_to_end_leave_no_folder_behind(number: signal.Signals, tmp_path: Path) -> None:
    programs, place, own = (tmp_path / name for name in ("bin", "disk", "tmp"))
    for folder in (programs, place, own):
        folder.mkdir()
    (programs / "fio").write_text(FIO_WAITS)
    # The temporary folder of a test may lie in memory.
    (programs / "stat").write_text(
        '#!/bin/sh\n[ "$1" = -f ] && echo ext2 9999999 4096 || echo directory:1\n'
    )
    for program in programs.iterdir():
        program.chmod(0o755)
    begun = tmp_path / "begun"
    environment = {
        **os.environ,
        "PATH": f"{programs}:{os.environ['PATH']}",
        "TMPDIR": str(own),
        "WATTIO_TEST_BEGUN": str(begun),
    }
    words = ["peak", "--no-memory", "--device-folder", str(place)]
    with subprocess.Popen(
        [sys.executable, "-m", "wattio.cli", *words], stderr=subprocess.PIPE, env=environment
    ) as process:
        try:
            deadline_s = time.monotonic() + 60
            while not begun.exists():
                assert process.poll() is None, process.communicate()
                assert time.monotonic() < deadline_s
                threading.Event().wait(0.02)
            assert ours(place)
            process.send_signal(number)
            said = process.communicate(timeout=60)[1]
        finally:
            process.kill()  # Popen waits for its end, however long that takes.
    assert process.returncode == 130, said
    assert not ours(place)
    assert not list(own.iterdir())


@system
def test_one_device_is_not_counted_twice(tmp_path: Path, disk: Path) -> None:
    needs("fio")
    both = [tmp_path / "a", tmp_path / "b"]
    for folder in both:
        folder.mkdir()
    targets = Targets(memory=None, disks=tuple(Folder(Host(), str(folder)) for folder in both))
    with pytest.raises(InputError, match="count twice"):
        measure.measure(targets, SHORT, tmp_path, threading.Event(), lambda *_: None)


@system
@pytest.mark.parametrize(
    ("folder", "said"),
    [("/dev/null", "not a folder"), ("/no/such", "/no/such"), ("/dev/shm", "not on a disk")],
)
def test_what_is_no_disk_is_refused(tmp_path: Path, folder: str, said: str) -> None:
    needs("fio")
    targets = Targets(memory=None, disks=(Folder(Host(), folder),))
    with pytest.raises(InputError, match=said):
        measure.measure(targets, SHORT, tmp_path, threading.Event(), lambda *_: None)


def test_missing_programs_are_named_with_how_to_get_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    targets = Targets(servers=(servers.parse("loopback"),), clients=(Host(), Host("c1")))
    with pytest.raises(HostError) as caught:
        measure.probe(targets)
    for package in ("fio", "iperf3", "iputils-ping", "openssh-client"):
        assert f"apt install {package}" in str(caught.value)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "without the network or disks there is no peak"),
        (("--no-memory",), "without the network or disks there is no peak"),
        (("--runtime", "5"), "unit"),
        (("--runtime", "1 ms"), "below 1 s"),
        (("--repetitions", "0"), "below 1"),
        (("--server", "a b"), "is not a host"),
        (("--server", "s1", "--server", "s1"), "twice"),
        (("peak.toml", "--full"), "give it alone"),
        (("/no/such/peak.toml",), "cannot be read"),
    ],
)
def test_bad_input_gets_one_message(
    words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(*words) == 2
    assert said in capsys.readouterr().err


def test_a_file_is_computed_by_both_rules(capsys: pytest.CaptureFixture[str]) -> None:
    file = Path(__file__).parents[2] / "studies" / "arm-cluster" / "thesis-peak.toml"
    assert command(str(file)) == 0
    text = capsys.readouterr().out
    assert "448.7" in text
    assert "4 links: 2.54 x faster, or 7 more links, would reach 1,140 MiB/s" in text
    assert command(str(file), "--rule", "nodes", "--json") == 0
    limits = json.loads(capsys.readouterr().out)["limits"]
    assert {limit["rule"] for limit in limits} == {"nodes"}
    assert limits[0]["limiting"] == ["network"]
