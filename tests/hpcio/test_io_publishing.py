"""The writer that publishes dumps, and other writers of its job, which the tests play."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from wattio.hpcio.inspection import inspect

from hpcio import io_library
from hpcio.io_library import Rank
from hpcio.waiting import HANGS_S, until

pytestmark = pytest.mark.skipif(shutil.which("cargo") is None, reason="needs cargo")

# Ranks that meet their writer at a path say zeros.
TOKEN = "0" * 8 + "5a" * 12


class Begun:
    """A real writer, told what to do as the library tells it; its one rank is `rank`."""

    def __init__(
        self,
        folder: Path,
        process: int,
        writers: int,
        publisher: str | None = None,
        settings: Mapping[str, object] | None = None,
        **more: object,
    ) -> None:
        config: dict[str, object] = {
            **{"approach": "dc", "writers": 1, "ratio": 1, "ranks_per_node": None},
            **{"buffer": "1 MiB", "when_full": "block", "output": str(folder / "dumps")},
            **{"compression": "none", "checksum": True, "sync": False},
            **{"fields": False, "existing": "refuse", "grace": "20 s", "program": None},
            "hdf5": io_library.hdf5(),
            **(settings or {}),
        }
        meeting = folder / f"socket{process}"
        job = {
            **{"id": "job", "config": config, "approach": "dc:1", "process": process},
            **{"clients": [process], "share": 65536, "computing": list(range(writers))},
            **{"publisher": publisher, "writers": writers, "token": TOKEN, "spread": False},
            "address": str(meeting),
            **more,
        }
        own, its = socket.socketpair()
        self.process = subprocess.Popen([io_library.WRITER], stdin=its.fileno())
        its.close()
        self.own, self.lines = own, own.makefile("rwb")
        self.lines.write(json.dumps(job).encode() + b"\n")
        self.lines.flush()
        self.meeting, self.number = meeting, process
        self.config = folder / "hpcio.toml"
        self.config.write_text('[hpcio]\napproach = "dc"\n')

    def ready(self) -> str:
        """Where the others connect; the rank has met its writer then."""
        found = self.told()
        self.meet()
        return found

    def told(self) -> str:
        """Where the others connect."""
        found: str | None = json.loads(self.lines.readline())["ready"]["publisher"]
        return found or ""

    def meet(self) -> None:
        """Have the rank meet its writer."""
        self.rank = Rank(self.config, self.meeting, self.number, self.number + 1)

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


class Played:
    """A job whose first writer is real, with one rank; the others are played."""

    def __init__(self, folder: Path, writers: int) -> None:
        self.output, self.writers = folder / "dumps", writers
        self.real = Begun(folder, 0, writers)
        self.address = self.real.ready()
        self.rank = self.real.rank

    def member(self, process: int, token: str = TOKEN) -> socket.socket:
        found = socket.socket(socket.AF_UNIX)
        found.settimeout(60)
        found.connect("\0" + self.address.removeprefix("@"))
        hello = {"token": token, "process": process, "ranks": [process]}
        found.sendall(json.dumps({"hello": hello}).encode() + b"\n")
        return found

    def note(self, member: socket.socket, process: int, number: int, **more: Any) -> None:  # noqa: ANN401 (JSON)
        """What a writer has done of a dump; its part is an empty file here."""
        folder = self.output / f"dump-{number:08}.partial"
        folder.mkdir(exist_ok=True)
        (folder / f"part-{process:06}.h5").touch()
        note = {"number": number, "step": number, "blocks": [], "attributes": {}, **more}
        member.sendall(json.dumps({"note": note}).encode() + b"\n")

    def own(self, step: int) -> None:
        self.rank.begin(step)
        self.rank.end()


@pytest.fixture
def play(tmp_path: Path) -> Iterator[Any]:
    begun: list[Played] = []

    def begin(writers: int) -> Played:
        begun.append(Played(tmp_path, writers))
        return begun[-1]

    yield begin
    for one in begun:
        one.real.end()


def state(process: int) -> str:
    """What the kernel calls what a process does: S is asleep."""
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]


def settled(member: socket.socket) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(member.makefile("rb").readline())
    return found


def test_a_dump_of_many_writers_is_published_when_the_last_has_told(play: Any) -> None:  # noqa: ANN401
    job = play(500)
    members = {process: job.member(process) for process in range(1, 500)}
    for process, member in members.items():
        job.note(member, process, 0)
    assert not (job.output / "dump-00000000").exists()
    job.own(0)
    assert all(settled(member)["error"] is None for member in members.values())
    job.rank.wait(0)
    manifest = json.loads((job.output / "dump-00000000" / "manifest.json").read_text())
    assert [part["ranks"] for part in manifest["parts"]] == [[rank] for rank in range(500)]


def test_attributes_of_all_writers_count_and_the_lowest_rank_first(play: Any) -> None:  # noqa: ANN401
    """Those of the first writer alone did, whatever ranks it had."""
    job = play(3)
    members = {process: job.member(process) for process in (1, 2)}
    job.note(members[1], 1, 0, attributes={"time": [3, 0.3], "name": [7, "seven"]})
    job.note(members[2], 2, 0, attributes={"time": [1, 0.1]})
    job.own(0)
    job.rank.wait(0)
    manifest = json.loads((job.output / "dump-00000000" / "manifest.json").read_text())
    assert manifest["attributes"] == {"time": 0.1, "name": "seven"}


def test_other_writers_are_let_in_before_the_ranks_of_the_one_that_publishes_come(
    tmp_path: Path,
) -> None:
    """A rank comes when all writers are ready, and they are when they have reached this one."""
    writer = Begun(tmp_path, 0, 300, spread=True)
    with contextlib.ExitStack() as stack:
        stack.callback(writer.end)
        _, _, port = writer.told().rpartition(":")
        for _ in range(1, 300):
            # More than the kernel keeps of those that nobody lets in.
            stack.enter_context(socket.create_connection(("127.0.0.1", int(port)), 5))
        writer.meet()


def test_one_that_dies_loses_only_what_it_has_not_told(play: Any) -> None:  # noqa: ANN401
    job = play(3)
    one, other = job.member(1), job.member(2)
    for number in (0, 1):
        job.note(one, 1, number)
    job.note(other, 2, 0)
    other.close()
    job.own(0)
    with contextlib.suppress(io_library.Failed):
        # Where the writer is quick, its end tells of it already.
        job.own(1)
    assert settled(one)["error"] is None
    job.rank.wait(0)
    with pytest.raises(io_library.Failed, match=r"step 1: ranks \[2\]: its writer has died"):
        job.rank.wait(1)
    assert (job.output / "dump-00000001.partial" / "part-000000.json").exists()


def test_writers_that_disagree_about_a_step_are_told(play: Any) -> None:  # noqa: ANN401
    job = play(2)
    one = job.member(1)
    job.note(one, 1, 0, step=7)
    job.own(3)
    assert "ranks disagree about the step: [3, 7]" in settled(one)["error"]


def test_parts_of_a_dump_that_is_lost_are_gone_when_that_is_told(play: Any) -> None:  # noqa: ANN401
    """Whoever lacked room for its part finds that of the others."""
    job = play(4)
    members = {process: job.member(process) for process in (1, 2, 3)}
    job.own(0)
    for process in (1, 2):
        job.note(members[process], process, 0, error="the disk is full" if process == 2 else None)
    # One that dies within it, and leaves what it had written.
    (job.output / "dump-00000000.partial" / "part-000003.h5").touch()
    members[3].close()
    assert settled(members[1])["error"] == "the disk is full"
    assert not list(job.output.glob("*/*.h5"))


def test_after_a_loss_a_writer_begins_nothing_before_all_it_has_done_is_settled(
    tmp_path: Path,
) -> None:
    """Parts of what is lost may take the room that it lacked; until a dump is whole again."""
    (tmp_path / "dumps").mkdir()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("\0wattio-io-test-" + tmp_path.as_posix()[-60:])
        listener.listen()
        address = "@" + listener.getsockname()[1:].decode()
        writer = Begun(tmp_path, 1, 2, address)
        try:
            publisher, _ = listener.accept()
            writer.ready()
            said = publisher.makefile("rb", buffering=0)
            assert json.loads(said.readline())["hello"]["process"] == 1
            process = writer.process
            writer.rank.declare("u", (1000,))
            process.send_signal(signal.SIGSTOP)
            for step in range(5):
                writer.rank.dump(step, u=np.zeros(1000))
            limits = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)
            resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (4096, limits[1]))
            process.send_signal(signal.SIGCONT)
            for step, whole in enumerate([False, True]):
                note = json.loads(said.readline())["note"]
                assert (note["number"], note["error"] is None) == (step, whole)
                until(lambda: state(process.pid) == "S")
                with pytest.raises(BlockingIOError):
                    publisher.recv(1, socket.MSG_DONTWAIT | socket.MSG_PEEK)
                resource.prlimit(process.pid, resource.RLIMIT_FSIZE, limits)
                fate = {"number": step, "step": step, "dropped": False, "error": note["error"]}
                publisher.sendall(json.dumps(fate).encode() + b"\n")
            for step in (2, 3, 4):
                assert json.loads(said.readline())["note"]["number"] == step
        finally:
            writer.end()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 4 MiB."""
    if os.geteuid() != 0:
        pytest.skip("mounting needs root")
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(tmp_path)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("no tmpfs can be mounted here")
    yield tmp_path
    subprocess.run(["umount", str(tmp_path)], check=True)


@pytest.mark.system
def test_on_a_full_disk_one_dump_is_lost_and_the_next_has_its_room(small_disk: Path) -> None:
    """Of the first, one part fits; of the second, both do, but not beside that one."""
    first = Begun(small_disk, 0, 2, share=16 << 20)
    begun = [first]
    try:
        begun.append(Begun(small_disk, 1, 2, first.ready(), share=16 << 20))
        begun[1].ready()
        for one in begun:
            one.process.send_signal(signal.SIGSTOP)
            for step, size in enumerate([300_000, 180_000, 180_000]):
                one.rank.declare("u", (size,))
                one.rank.dump(step, u=np.zeros(size))
        dumps = small_disk / "dumps"
        first.process.send_signal(signal.SIGCONT)
        # It is done with the second, and has had no room for the third: asleep after it began that.
        third = dumps / "dump-00000002.partial"
        until(lambda: third.is_dir() and state(first.process.pid) == "S")
        assert not list(third.iterdir())
        begun[1].process.send_signal(signal.SIGCONT)
        # A call tells the cause of the last failure alone; on disk is each one's.
        with pytest.raises(io_library.Failed, match="step 0: "):
            first.rank.wait(0)
        first.rank.wait(1)
        with pytest.raises(io_library.Failed, match=r"step 2: .*the disk is full"):
            first.rank.wait(2)
        found = {dump.step: (dump.whole, dump.problems) for dump in inspect(dumps)}
        assert found[1] == (True, [])
        for step in (0, 2):
            assert not found[step][0]
            assert "the disk is full" in found[step][1][0]
        assert not list(small_disk.glob("dumps/*.partial/*.h5"))
    finally:
        for one in begun:
            one.end()


@pytest.mark.parametrize(
    "said",
    [
        b'{"hello":{"token":"' + b"1" * 32 + b'","process":1,"ranks":[1]}}\n',
        b'{"hello":{"token":"","process":1,"ranks":[1]}}\n',
        b'{"note":{"number":0,"step":0,"blocks":[]}}\n',
        b"\xff\x00\n",
        b"x" * (1 << 21),
    ],
)
def test_strangers_are_let_go(play: Any, said: bytes) -> None:  # noqa: ANN401
    job = play(2)
    stranger = socket.socket(socket.AF_UNIX)
    stranger.settimeout(60)
    stranger.connect("\0" + job.address.removeprefix("@"))
    try:
        stranger.sendall(said)
        assert stranger.recv(1) == b""
    except (BrokenPipeError, ConnectionResetError):
        pass
    # The job goes on.
    member = job.member(1)
    job.note(member, 1, 0)
    job.own(0)
    assert settled(member)["error"] is None


def test_a_writer_holds_nothing_that_the_rank_has_open() -> None:
    """Launchers wait until a pipe of the rank's is closed: they did not see that it had died."""
    (own, its), (read, write) = socket.socketpair(), os.pipe()
    process = subprocess.Popen([io_library.WRITER], stdin=its.fileno(), pass_fds=[write])
    try:
        os.close(write)
        assert select.select([read], [], [], HANGS_S)[0] == [read]
        assert os.read(read, 1) == b""
        assert process.poll() is None
    finally:
        for one in (own, its):
            one.close()
        os.close(read)
        assert process.wait(20) == 2


def test_the_grace_begins_when_ranks_die_while_there_is_work(tmp_path: Path) -> None:
    """It began when all was written that they had handed over."""
    more = {"compression": "gzip:9", "grace": "0.2 s", "buffer": "256 MiB"}
    one = Begun(tmp_path, 0, 1, share=128 << 20, settings=more)
    try:
        one.ready()
        one.process.send_signal(signal.SIGSTOP)
        random = np.random.default_rng(1)
        one.rank.declare("u", (500_000,))
        for step in range(24):
            one.rank.dump(step, u=random.random(500_000))
        # The rank that has started the writer is gone.
        one.lines.close()
        one.own.close()
        one.process.send_signal(signal.SIGCONT)
        assert one.process.wait(60) == 1
    finally:
        one.end()
    lost = [dump for dump in inspect(tmp_path / "dumps") if not dump.whole]
    assert lost
    assert "within the grace of 200 ms" in lost[-1].problems[0]


def test_what_is_no_job_ends_the_writer() -> None:
    for said in (b"", b"{}\n", b"\xff\n", b"x" * 100):
        own, its = socket.socketpair()
        process = subprocess.Popen([io_library.WRITER], stdin=its.fileno(), stderr=subprocess.PIPE)
        its.close()
        own.sendall(said)
        own.close()
        assert process.wait(20) == 2
    done = subprocess.run(
        [io_library.WRITER], stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    assert done.returncode == 2
    assert b"serve --help" in done.stderr
