"""The writer that publishes dumps, and other writers of its job, which the tests play."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hpcio import io_library
from hpcio.io_library import Rank

pytestmark = pytest.mark.skipif(shutil.which("cargo") is None, reason="needs cargo")

# Ranks that meet their writer at a path say zeros.
TOKEN = "0" * 8 + "5a" * 12


class Played:
    """A job whose first writer is real, with one rank; the others are played."""

    def __init__(self, folder: Path, writers: int) -> None:
        self.output, self.writers = folder / "dumps", writers
        config = {
            **{"approach": "dc", "writers": 1, "ratio": 1, "ranks_per_node": None},
            **{"buffer": "1 MiB", "when_full": "block", "output": str(self.output)},
            **{"compression": "none", "checksum": True, "sync": False},
            **{"fields": False, "existing": "refuse", "grace": "20 s", "program": None},
            "hdf5": io_library.hdf5(),
        }
        meeting = folder / "socket"
        job = {
            **{"id": "job", "config": config, "approach": "dc:1", "process": 0, "clients": [0]},
            **{"share": 65536, "computing": list(range(writers)), "publisher": None},
            **{"writers": writers, "token": TOKEN, "spread": False, "address": str(meeting)},
        }
        own, its = socket.socketpair()
        self.process = subprocess.Popen([io_library.WRITER], stdin=its.fileno())
        its.close()
        self.lines = own.makefile("rwb")
        self.lines.write(json.dumps(job).encode() + b"\n")
        self.lines.flush()
        self.address = json.loads(self.lines.readline())["ready"]["publisher"]
        (folder / "hpcio.toml").write_text('[hpcio]\napproach = "dc"\n')
        self.rank = Rank(folder / "hpcio.toml", meeting)

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
        one.process.kill()
        one.process.wait()


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


def test_one_that_dies_loses_only_what_it_has_not_told(play: Any) -> None:  # noqa: ANN401
    job = play(3)
    one, other = job.member(1), job.member(2)
    for number in (0, 1):
        job.note(one, 1, number)
    job.note(other, 2, 0)
    other.close()
    for step in (0, 1):
        job.own(step)
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
