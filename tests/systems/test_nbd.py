"""Block servers over NBD: their commands, and the real ones, also after their run was killed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import ValidationError
from wattio.errors import HostError, SystemFailed, WorkloadFailed
from wattio.systems import nbd, nbd_servers, processor_time, servers
from wattio.systems.commands import wait_until
from wattio.systems.nbd import Options, Storage
from wattio.systems.nbd_servers import SERVERS, Served
from wattio.workloads import fio
from wattio.workloads.workload import Context, Place

MIB = 1 << 20
EACH: dict[str, dict[str, object]] = {
    "nbdkit": {"server": "nbdkit", "settings": {"threads": 4, "fadvise": "random"}},
    "nbdkit-memory": {"server": "nbdkit", "form": "memory", "settings": {"allocator": "malloc"}},
    "qemu-nbd": {"server": "qemu-nbd", "settings": {"cache": "none", "aio": "io_uring"}},
    "qemu-nbd-qcow2": {"server": "qemu-nbd", "form": "qcow2"},
    "qemu-storage-daemon": {
        "server": "qemu-storage-daemon",
        "settings": {"cache.direct": True, "aio": "io_uring"},
    },
    "qemu-storage-daemon-qcow2": {"server": "qemu-storage-daemon", "form": "qcow2"},
    "nbd-server": {"server": "nbd-server", "settings": {"max_threads": 2}},
    "wattio-target": {"server": "wattio-target"},
}


def storage(name: str, scratch: Path, **more: object) -> Storage:
    return Storage(Options.model_validate({"size": "16 MiB", **EACH[name], **more}), scratch)


def served(tmp_path: Path, server: str, form: str, **settings: nbd_servers.Setting) -> Served:
    program = SERVERS[server].program
    return Served(program, tmp_path, form, tmp_path / "d,isk", 64 * MIB, tmp_path / "s", settings)


def test_settings_are_in_the_words_of_each_manual(tmp_path: Path) -> None:
    def command(server: str, form: str, **settings: nbd_servers.Setting) -> str:
        what = served(tmp_path, server, form, **settings)
        words = SERVERS[server].serve(what)
        return " ".join(words).replace(str(tmp_path), "T").removeprefix(what.program + " ")

    assert command("nbdkit", "raw", threads=4, fadvise="random") == (
        "--foreground --unix T/s --threads=4 file T/d,isk fadvise=random"
    )
    assert command("nbdkit", "memory") == "--foreground --unix T/s memory 67108864"
    assert command("qemu-nbd", "qcow2", cache="none") == (
        "--persistent --shared=0 --socket T/s --format=qcow2 --cache=none T/d,isk"
    )
    # A comma separates in QEMU's options, and is doubled in a path.
    daemon = command("qemu-storage-daemon", "raw", **{"cache.direct": True})
    assert "filename=T/d,,isk,cache.direct=on " in daemon
    assert command("nbd-server", "raw", max_threads=2, trim=True).startswith("-C T/nbd-server.conf")
    config = (tmp_path / "nbd-server.conf").read_text()
    general, _, disk = config.partition("[disk]")
    assert "max_threads = 2" in general
    assert "trim = true" in disk


def test_the_configuration_of_the_target_is_toml(tmp_path: Path) -> None:
    settings: dict[str, nbd_servers.Setting] = {
        "reactors": 2,
        "memory.cache": "0 B",
        "policy.name": "pacer",
        "policy.settings.window": 1,
        "policy.settings.plf": 0.2,
    }
    what = served(tmp_path, "wattio-target", "volume", **settings)
    found = tomllib.loads(nbd_servers.target_config(what))
    assert found == {
        "listen": [f"unix:{tmp_path}/s"],
        "service": {"listen": "off", "socket": f"{tmp_path}/c"},
        "export": [{"name": "", "devices": [f"{tmp_path}/d,isk"]}],
        "reactors": 2,
        "memory": {"cache": "0 B"},
        "policy": {"name": "pacer", "settings": {"window": 1, "plf": 0.2}},
    }
    made = nbd_servers.SERVERS["wattio-target"].make
    assert made is not None
    assert made(what) == ("wattio-target", "create", f"{tmp_path}/d,isk", "--size", "64MiB")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"server": "nbdkitt"}, 'server "nbdkitt" is not known; .*nbdkit'),
        ({"server": "nbd-server", "form": "qcow2"}, "has no disks of form .*allowed: raw"),
        ({"path": "data"}, "must be absolute"),
        ({"size": "1500 KiB"}, "whole MiB"),
        ({"settings": {"a": "b\n[c]"}}, "line break"),
    ],
)
def test_options_that_do_not_go_together(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Options.model_validate(options)


def test_what_is_missing_is_told(tmp_path: Path) -> None:
    with pytest.raises(HostError, match=r"missing: no-such-server.*apt install nbdkit"):
        storage("nbdkit", tmp_path, program="no-such-server").probe()
    with pytest.raises(HostError, match=r"/no/target not found: .*\(program\), or leave"):
        storage("wattio-target", tmp_path, program="/no/target").probe()


def test_our_own_server_need_not_be_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nbd_servers, "_BUILT", tmp_path / "built")
    (tmp_path / "path").mkdir()
    (tmp_path / "built").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    assert SERVERS["wattio-target"].path() == "wattio-target"  # which is told as missing
    for folder in ("built", "path"):
        (tmp_path / folder / "wattio-target").write_text("#!/bin/sh\n")
        (tmp_path / folder / "wattio-target").chmod(0o755)
        found = {"built": str(tmp_path / "built/wattio-target"), "path": "wattio-target"}[folder]
        assert SERVERS["wattio-target"].path() == found
    (tmp_path / "built/nbdkit").touch()
    assert SERVERS["nbdkit"].path() == "nbdkit"


def test_a_socket_has_a_short_name_below_any_folder(tmp_path: Path) -> None:
    """A result folder's name alone can be longer than what the kernel takes for a socket's."""
    far = tmp_path / ("long" * 30)
    one, other = storage("nbdkit", far), storage("nbdkit", far / "other")
    sockets = [each._served.socket for each in (one, other)]
    assert sockets[0] != sockets[1]
    assert all(len(str(path)) < 108 and not path.is_relative_to(tmp_path) for path in sockets)
    try:
        one.deploy()
        assert stat.S_IMODE(sockets[0].parent.stat().st_mode) == 0o700
        (sockets[0].parent / "theirs").touch()
        with pytest.raises(SystemFailed, match="File exists"):
            one.deploy()
        (sockets[0].parent / "theirs").unlink()
    finally:
        one.clean()
    assert not sockets[0].parent.exists()
    assert not far.exists()


def test_a_server_that_ends_at_once_is_quoted(tmp_path: Path) -> None:
    """`false` in place of the server: how it went stands in the message, and nothing is left."""
    failing = tmp_path / "server"
    failing.write_text("#!/bin/sh\necho no such plugin >&2\nexit 3\n")
    failing.chmod(0o755)
    broken = storage("nbdkit", tmp_path / "scratch", program=str(failing))
    try:
        broken.deploy()
        with pytest.raises(SystemFailed, match="nbdkit ended: no such plugin"):
            broken.start()
    finally:
        broken.clean()
    assert not (tmp_path / "scratch").exists()


def test_a_script_in_place_of_the_server_is_ended_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel has it under the name of its shell, so that it is not found by its own."""
    monkeypatch.setattr(nbd, "START_S", 0.2)
    waiting = tmp_path / "server"
    waiting.write_text("#!/bin/sh\nwhile :; do sleep 0.05; done\n")
    waiting.chmod(0o755)
    silent = storage("nbdkit", tmp_path / "scratch", program=str(waiting))
    try:
        silent.deploy()
        with pytest.raises(SystemFailed, match=r"nbdkit did not serve within 0\.2 s"):
            silent.start()
        process = silent._process
        assert process is not None
        assert process.poll() is None
    finally:
        silent.clean()
    assert process.poll() is not None


def missing(name: str) -> str | None:
    server = str(EACH[name]["server"])
    programs = ["fio"] if server == "wattio-target" else [SERVERS[server].program, "fio"]
    if "qcow2" in name:
        programs.append("qemu-img")
    return next((one for one in programs if shutil.which(one) is None), None)


TARGET = next(
    (
        str(path)
        for kind in ("release", "debug")
        if (path := Path(__file__).parents[2] / "target" / kind / "wattio-target").is_file()
    ),
    shutil.which("wattio-target"),
)
"""As it was built; it may not be there."""

INSTALLED = [name for name in EACH if name != "wattio-target" or TARGET]


@pytest.fixture(params=INSTALLED)
def real(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, Path]]:
    name: str = request.param
    if (program := missing(name)) is not None:
        pytest.skip(f"{program} is not installed")
    yield name, tmp_path / "scratch"
    assert not (tmp_path / "scratch").exists()


VERIFIED = {
    "name": "verified",
    "rw": "randwrite",
    "bs": "8 KiB",
    "size": "8 MiB",
    "iodepth": 8,
    "ioengine": "nbd",
    "options": {"verify": "crc32c", "verify_fatal": 1, "do_verify": 1},
}
MIXED = {
    "name": "mixed",
    "rw": "randrw",
    "bs": "4 KiB",
    "size": "16 MiB",
    "runtime": "500 ms",
    "time_based": True,
    "ioengine": "nbd",
    "options": {"rwmixread": 70, "rate_iops": "350,150", "rate_process": "poisson"},
}


ENDLESS = {
    "name": "endless",
    "rw": "randread",
    "bs": "4 KiB",
    "size": "16 MiB",
    "runtime": "30 s",
    "time_based": True,
    "iodepth": 32,
    "ioengine": "nbd",
    "options": {"rate_iops": 5000, "rate_process": "poisson"},
}


def started(name: str, scratch: Path) -> Storage:
    program = {"program": TARGET} if name == "wattio-target" else {}
    one = storage(name, scratch, **program)
    try:
        one.probe()
        one.deploy()
        one.start()
    except BaseException:
        one.clean()
        raise
    return one


@pytest.mark.system
@pytest.mark.timeout(120)
def test_a_server_keeps_what_it_is_given(real: tuple[str, Path], tmp_path: Path) -> None:
    """Up and down twice; what fio writes is there when it reads it; the account only grows."""
    name, scratch = real
    one = storage(name, scratch, **({"program": TARGET} if name == "wattio-target" else {}))
    try:
        one.probe()
        for _ in range(2):
            one.deploy()
            one.start()
            one.start()  # once more: nothing is started twice
            places = tuple(one.mount(2))
            one.verify_mount()
        names, root = {SERVERS[str(EACH[name]["server"])].program}, scratch / "nbd"
        # Some start a process for each connection, which outlives it by a moment.
        assert wait_until(lambda: len(servers.running(names, root)) == 1, 30.0)
        facts = one.describe()
        json.dumps(facts)
        assert facts["version"]
        before_s = one.processor_time_s()
        moved = measured(tmp_path, places)
        taken_s = one.processor_time_s() - before_s
        assert moved["verified"] == 8 * MIB // 8192
        assert moved["mixed"] > 0
        # Less than a microsecond for a request would mean that somebody's time is left out.
        assert taken_s * 1e6 > sum(moved.values())
        one.stop()
        with pytest.raises(SystemFailed, match="does not serve"):
            one.verify_mount()
        with pytest.raises(SystemFailed, match="has ended"):
            one.processor_time_s()
        assert servers.running(names, root) == []
    finally:
        one.clean()
        one.clean()


def measured(base: Path, places: tuple[Place, ...]) -> dict[str, int]:
    """Operations of fio's jobs, by name, over both clients; mixed ones by both."""
    found = {}
    for entry, own in ((VERIFIED, places[:1]), (MIXED, places)):
        work = fio.Work(fio.Options.model_validate({"jobs": [entry]}), base)
        raw = base / str(entry["name"])
        raw.mkdir()
        context = Context(own, raw)
        try:
            work.prepare(context)
            work.run(str(entry["name"]), context)
        finally:
            work.clean(context)
        results = fio.results(raw)
        found[str(entry["name"])] = sum(
            one.operations or 0 for one in results if one.operation == "write" or len(own) > 1
        )
    return found


@pytest.mark.system
@pytest.mark.timeout(60)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_server_that_goes_while_it_is_asked_ends_the_step(
    real: tuple[str, Path], tmp_path: Path, number: signal.Signals
) -> None:
    """Once fio went on for ten minutes after somebody had ended the server: at a full core, with 27
    GB of errors in its file; its job outlived it, in a session of its own."""
    name, scratch = real
    one = started(name, scratch)
    work = fio.Work(fio.Options.model_validate({"jobs": [ENDLESS]}), tmp_path)
    try:
        places = tuple(one.mount(1))
        raw = tmp_path / "raw"
        raw.mkdir()
        work.prepare(Context(places, raw))

        def ended() -> None:
            for pid in one.processes():
                os.kill(pid, number)

        timer = threading.Timer(0.7, ended)
        timer.start()
        with pytest.raises(WorkloadFailed, match=r"fio (waits for a server that is gone|failed)"):
            work.run("endless", Context(places, raw))
        timer.join()
        assert servers.running({"fio"}, tmp_path) == []
    finally:
        one.clean()


@pytest.mark.system
@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", ["qemu-nbd", "nbd-server"])
@pytest.mark.parametrize("folder", ["scratch", "long" * 30])
def test_a_killed_run_leaves_no_server(name: str, folder: str, tmp_path: Path) -> None:
    """A guard ends it, in the foreground and in the background; the next run removes the files."""
    if (program := missing(name)) is not None:
        pytest.skip(f"{program} is not installed")
    scratch = tmp_path / folder
    code = "import sys; from wattio.systems.nbd import Options, Storage; import pathlib, signal;"
    code += "one = Storage(Options.model_validate_json(sys.argv[1]), pathlib.Path(sys.argv[2]));"
    code += "one.deploy(); one.start(); print('ready', flush=True); signal.pause()"
    options = json.dumps({"size": "16 MiB", **EACH[name]})
    arguments = [sys.executable, "-c", code, options, str(scratch)]
    names = {SERVERS[name].program}
    with subprocess.Popen(arguments, stdout=subprocess.PIPE) as run:
        assert run.stdout is not None
        ready, found = run.stdout.readline(), servers.running(names, scratch)
        run.send_signal(signal.SIGKILL)
    assert ready == b"ready\n"
    # One more, where the first client's has not ended yet.
    assert found
    assert wait_until(lambda: not servers.running(names, scratch), 10.0)
    other = Storage(Options(), scratch)  # of other options
    other.clean()
    assert not scratch.exists()
    assert not other._served.socket.exists()


def test_a_process_that_has_gone_is_told(tmp_path: Path) -> None:
    with subprocess.Popen(["true"]) as done:
        pass
    with pytest.raises(ProcessLookupError):
        processor_time.of_tree(done.pid)
