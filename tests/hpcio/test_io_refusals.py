"""libwattio_io and its writer: what goes wrong is refused or told, and loses nothing else."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import resource
import signal
import subprocess
import threading
from collections.abc import Callable
from ctypes import byref, c_void_p
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from wattio.hpcio.free_memory import available_bytes

from hpcio import io_library
from hpcio.io_library import (
    DEFERRED,
    HOST,
    INPUT,
    STEP_FAILED,
    SYNC,
    TIMED_OUT,
    Configure,
    Failed,
    Rank,
    found,
    serve,
)
from hpcio.waiting import HANGS_S, until


def test_more_than_one_writer_at_a_path_is_refused_by_whoever_starts_first(
    configure: Configure, meeting: Path
) -> None:
    config = configure(writers=2)
    words = f"{config}: writers = 2 needs MPI; allowed with a path: 1"
    with pytest.raises(Failed, match=f"^{words}$") as refusal:
        Rank(config, meeting)
    assert refusal.value.code == INPUT
    line = [str(io_library.WRITER), "serve", "--config", str(config), "--ranks", "2", str(meeting)]
    told = subprocess.run(line, capture_output=True, text=True, check=False, timeout=HANGS_S)
    assert (told.returncode, told.stderr) == (2, f"wattio-io-writer: {words}\n")


def test_a_signal_lets_what_was_accepted_be_written(
    configure: Configure, meeting: Path, tmp_path: Path
) -> None:
    config = configure()
    writer = serve(config, meeting, 1)
    rank = Rank(config, meeting)
    rank.declare("u", (1000,))
    writer.send_signal(signal.SIGSTOP)
    for step in range(5):
        rank.dump(step, u=np.full(1000, step))
    # A batch system's warnings do no harm.
    for one in (signal.SIGUSR1, signal.SIGXCPU, signal.SIGTERM, signal.SIGCONT):
        writer.send_signal(one)
    rank.flush()
    step = 5
    with contextlib.suppress(Failed):
        # It may not have seen the signal yet.
        for step in itertools.count(5):
            rank.begin(step)
            rank.end()
            rank.flush()
    with pytest.raises(Failed, match="told to end") as told:
        rank.begin(step)
    assert told.value.code == HOST
    rank.close()
    assert writer.wait(20) == 0
    problems = found(tmp_path / "dumps")
    assert all(problems[step] == [] for step in range(5))


def test_what_is_not_written_within_the_grace_is_named_on_disk(
    configure: Configure, meeting: Path, tmp_path: Path
) -> None:
    config = configure(grace="0 s")
    writer = serve(config, meeting, 1)
    rank = Rank(config, meeting)
    rank.declare("u", (1000,))
    rank.dump(0, u=np.zeros(1000))
    rank.wait(0)
    writer.send_signal(signal.SIGSTOP)
    for step in range(1, 4):
        rank.dump(step, u=np.full(1000, step))
    writer.send_signal(signal.SIGTERM)
    writer.send_signal(signal.SIGCONT)
    assert writer.wait(20) == 1
    told = found(tmp_path / "dumps")
    assert sorted(told) == [0, 1, 2, 3]
    assert told[0] == []
    # That three steps waited had put the signal off until they were written.
    assert all("within the grace of 0" in told[step][0] for step in (1, 2, 3)), told


def test_a_rank_that_dies_loses_only_what_it_had_not_ended(
    configure: Configure, meeting: Path, tmp_path: Path
) -> None:
    config = configure()
    writer = serve(config, meeting, 2)
    dying = io_library.child(
        "rank = Rank(Path(sys.argv[1]), Path(sys.argv[2]), 1, 2)\n"
        "rank.declare('u', (1000,))\n"
        "for step in range(3):\n"
        "    rank.dump(step, u=np.ones(1000))\n"
        "print('done', flush=True)\n"
        "sys.stdin.read()\n",
        config,
        meeting,
    )
    rank = Rank(config, meeting, 0, 2)
    rank.declare("u", (1000,))
    assert dying.stdout is not None
    assert dying.stdout.readline() == "done\n"
    # Nothing has been written yet when it dies: the writer holds three steps of it.
    writer.send_signal(signal.SIGSTOP)
    dying.kill()
    dying.wait()
    for step in range(4):
        rank.dump(step, u=np.zeros(1000))
    writer.send_signal(signal.SIGCONT)
    with pytest.raises(Failed, match=r"step 3: ranks \[1\] ended without this dump"):
        rank.flush()
    assert rank.is_durable(2)
    with pytest.raises(Failed, match="ranks"):
        rank.is_durable(3)
    rank.close()
    assert writer.wait(20) == 1
    told = found(tmp_path / "dumps")
    assert [told[step] for step in range(3)] == [[], [], []]
    assert "ranks [1] ended without this dump" in told[3][0]


def test_ranks_learn_at_once_that_their_writer_has_died(
    configure: Configure, meeting: Path, tmp_path: Path
) -> None:
    config = configure(buffer="256 KiB")
    writer = serve(config, meeting, 1)
    rank = Rank(config, meeting)
    rank.declare("u", (10000,))
    writer.send_signal(signal.SIGSTOP)
    rank.dump(0, u=np.zeros(10000))
    threading.Timer(0.2, writer.kill).start()
    for call in (rank.flush, lambda: rank.wait(0, 10.0), rank.close):
        with pytest.raises(Failed, match="the writer has died") as told:
            call()
        assert told.value.code == HOST
    writer.wait()
    # The next job finds a socket that nobody serves, and a folder whose lock is free.
    again = Rank(config, meeting)
    again.declare("u", (10000,))
    again.dump(0, u=np.ones(10000))
    again.close()
    assert found(tmp_path / "dumps") == {0: []}


def test_a_limit_of_file_size_is_an_error_of_its_step(
    configure: Configure, meeting: Path, tmp_path: Path
) -> None:
    config = configure(buffer="2 MiB")
    writer = serve(config, meeting, 1)
    rank = Rank(config, meeting)
    names = [f"v{number}" for number in range(4)]
    for name in names:
        rank.declare(name, (1 << 17,))
    rank.dump(0, v0=np.zeros(1 << 17))
    rank.flush()
    # More than the shared memory takes, and less than the next step does in pieces.
    limit = 3 << 20
    resource.prlimit(writer.pid, resource.RLIMIT_FSIZE, (limit, limit))
    rank.dump(1, **{name: np.ones(1 << 17) for name in names})
    with pytest.raises(Failed, match="the disk is full or a limit is reached") as told:
        rank.flush()
    assert told.value.code == STEP_FAILED
    rank.dump(2, v0=np.zeros(1 << 17))
    rank.close()
    assert writer.wait(20) == 1
    problems = found(tmp_path / "dumps")
    assert (problems[0], problems[2]) == ([], [])
    assert "limit is reached" in problems[1][0]
    assert not list((tmp_path / "dumps").glob("*.partial/*.h5"))


def test_a_wait_ends_when_its_time_is_over(configure: Configure, meeting: Path) -> None:
    config = configure()
    writer = serve(config, meeting, 1)
    rank = Rank(config, meeting)
    rank.declare("u", (10,))
    writer.send_signal(signal.SIGSTOP)
    rank.dump(0, u=np.zeros(10))
    assert not rank.is_durable(0)
    with pytest.raises(Failed, match="step 0: is not durable yet") as told:
        rank.wait(0, 0.05)
    assert told.value.code == TIMED_OUT
    with pytest.raises(Failed, match="seconds is not a number") as told:
        rank.wait(0, float("nan"))
    assert told.value.code == INPUT
    writer.send_signal(signal.SIGCONT)
    rank.wait(0, 60.0)
    # As long as it takes.
    for seconds in (1e300, float("inf"), -1.0):
        rank.wait(0, seconds)
    rank.close()


def test_calls_out_of_order_are_refused_by_name(configure: Configure, meeting: Path) -> None:
    rank = Rank(configure(), meeting)
    data = np.zeros(4)
    rank.declare("u", (4,))

    def refused(words: str, call: Callable[..., Any], *arguments: object) -> None:
        with pytest.raises(Failed, match=words) as told:
            call(*arguments)
        assert told.value.code == INPUT

    refused("begin_step comes first", rank.put, "u", data)
    refused("begin_step comes first", rank.end)
    refused("steps begin at 0", rank.begin, -1)
    refused("does not lie within", rank.declare, "v", (4,), "f8", (5,), (2,))
    refused("letters, digits", rank.declare, "a/b", (4,))
    refused("go together", rank.declare, "v", (4,), "f8", (5,), None)
    refused("below 0", rank.declare, "v", (-4,))
    refused("is set by libraries", rank.attribute, "u", "crc32", 1.0)
    refused("is not a number", rank.attribute, "u", "a", float("nan"))
    rank.begin(3)
    refused("step 3 has not ended", rank.begin, 4)
    refused("nothing is allocated", rank.commit, "u")
    rank.put("u", data)
    refused("has a block in step 3 already", rank.put, "u", data)
    refused("has a block in this step", rank.attribute, "u", "units", "m")
    rank.ids["none"] = 7
    refused("variable number 7: 1 are declared", rank.put, "none", data)
    rank.end()
    refused("rise; the last was 3", rank.begin, 3)
    refused("has not been handed over", rank.is_durable, 9)
    rank.begin(4)
    refused("data is NULL", rank.call, "allocate", rank.handle, rank.ids["u"], None)
    kept = c_void_p(rank.handle.value)
    rank.close()
    refused("the handle is NULL", rank.begin, 5)
    refused("its session has been closed", rank.call, "begin_step", kept, 5)
    refused("its session has been closed", rank.call, "close", byref(kept), None, 0, None)


@pytest.mark.parametrize("mode", [SYNC, DEFERRED])
def test_a_step_that_is_not_ended_is_told_by_close_if_anything_was_put_into_it(
    mode: int, configure: Configure, meeting: Path, tmp_path: Path
) -> None:
    """Deferred, its bytes were taken off the report without having been counted."""
    rank = Rank(configure(), meeting)
    rank.declare("u", (4,))
    rank.dump(3, u=np.ones(4))
    rank.begin(5)
    rank.put("u", np.ones(4), mode)
    with pytest.raises(Failed, match="step 5: was not ended: what was put into it is left out"):
        rank.close()
    report = json.loads(rank.report())["ranks"][0]["compute"]
    assert (report["bytes"], report["failed"]) == (32, [5])
    assert found(tmp_path / "dumps") == {3: []}


def test_a_second_job_is_kept_out_of_the_folder(
    configure: Configure, meeting: Path, tmp_path: Path
) -> None:
    rank = Rank(configure(), meeting)
    # Of several ranks, too, which try one after the other.
    for _ in range(2):
        with pytest.raises(Failed, match=r"another job writes there .* wait for its end") as told:
            Rank(configure(), tmp_path / "other")
        assert told.value.code == INPUT
        assert not (tmp_path / "other").exists()
    rank.close()
    Rank(configure(), tmp_path / "other").close()


def test_a_rank_hears_why_its_writer_cannot_serve(
    configure: Configure, meeting: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """What fails for the machine, and for what it was told; a program that says nothing."""
    with pytest.raises(Failed, match=r"hdf5: cannot be loaded: /none.so") as told:
        Rank(configure(hdf5="/none.so"), meeting)
    assert told.value.code == INPUT
    (tmp_path / "file").touch()
    with pytest.raises(Failed, match="file/dumps: cannot be used: Not a directory") as told:
        Rank(configure(output=str(tmp_path / "file" / "dumps")), meeting)
    assert told.value.code == INPUT
    assert capfd.readouterr().err == ""
    with pytest.raises(Failed, match="the writer has ended with exit status: 1") as told:
        Rank(configure(program="/bin/false"), meeting)
    assert told.value.code == HOST


@pytest.mark.system
def test_a_folder_that_cannot_be_written_to_is_refused_at_the_start(
    configure: Configure, meeting: Path, tmp_path: Path
) -> None:
    """Where it was there already, the job went on, and lost every dump."""
    if os.geteuid() != 0:
        pytest.skip("mounting needs root")
    dumps = tmp_path / "dumps"
    dumps.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "ro,size=64k", "tmpfs", str(dumps)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("no tmpfs can be mounted here")
    try:
        with pytest.raises(Failed, match=r"/dumps: cannot be used: Read-only file sys") as told:
            Rank(configure(), meeting)
        assert told.value.code == INPUT
    finally:
        subprocess.run(["umount", str(dumps)], check=True)


@pytest.mark.parametrize("name", [b"@socket", b"-x.sock", b"a\xffb.sock", b"a\nb.sock"])
def test_a_socket_may_have_any_name(
    configure: Configure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: bytes
) -> None:
    """The writer took it for another name, or an option: the rank gave up after a minute."""
    monkeypatch.chdir(tmp_path)
    config = configure().rename("-hpcio.toml")
    rank = Rank(config, Path(os.fsdecode(name)))
    rank.declare("u", (3,))
    rank.dump(1, u=np.zeros(3))
    rank.close()
    assert found(tmp_path / "dumps") == {1: []}
    assert sorted(one.name for one in tmp_path.iterdir()) == ["-hpcio.toml", "dumps"]


def test_a_number_of_ranks_that_no_path_takes_is_told_as_that(
    configure: Configure, meeting: Path
) -> None:
    """The writer told it as an option of its own, which nobody had given."""
    with pytest.raises(Failed, match=r"^ranks = 4097; allowed: 1 to 4096$") as told:
        Rank(configure(), meeting, 0, 4097)
    assert told.value.code == INPUT


def test_names_of_others_steer_no_terminal(configure: Configure, tmp_path: Path) -> None:
    """What a program or a user names reached the terminal as it is."""
    name = tmp_path / "a\n\x1b[31mb.toml"
    shown = r"a\u000a\u001b[31mb.toml: cannot be read: No such file or directory"
    with pytest.raises(Failed) as told:
        Rank(name, tmp_path / "socket")
    assert str(told.value) == f"{tmp_path}/{shown}"
    line = [str(io_library.WRITER), "check", "--config", str(name)]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, f"wattio-io-writer: {tmp_path}/{shown}\n")
    configure().rename(name)
    done = subprocess.run(line, capture_output=True, text=True, check=True)
    assert done.stdout == f"{tmp_path}/a\\u000a\\u001b[31mb.toml: can be used\n"


def test_the_writer_tells_what_is_wrong_with_a_configuration(
    configure: Configure, tmp_path: Path
) -> None:
    for keys, words in (
        ({"hdf5": "/nonexistent.so"}, "/nonexistent.so"),
        ({"writers": 0}, "writers = 0; allowed: 1 to 4096"),
        ({"approach": "dx"}, "approach"),
        ({"program": "/nonexistent/writer"}, "program /nonexistent/writer: No such file"),
        ({"program": "/tmp"}, "program /tmp: is a folder"),
        ({"output": "/dev/null/dumps"}, "output /dev/null/dumps: cannot be used: /dev/null: is no"),
    ):
        line = [str(io_library.WRITER), "check", "--config", str(configure(**keys))]
        told = subprocess.run(line, capture_output=True, text=True, check=False)
        assert told.returncode == 2
        assert words in told.stderr
        assert told.stderr.count("\n") == 1
    line = [str(io_library.WRITER), "check", "--config", str(configure())]
    assert subprocess.run(line, check=False, capture_output=True).returncode == 0
    assert [path.name for path in tmp_path.iterdir()] == ["hpcio.toml"]


def test_what_is_no_socket_is_left_alone(configure: Configure, tmp_path: Path) -> None:
    """A file at the path was removed, whatever it was."""
    precious = tmp_path / "precious"
    precious.write_text("data")
    with pytest.raises(Failed, match="already exists, and is not a socket") as told:
        Rank(configure(), precious)
    assert told.value.code == INPUT
    assert precious.read_text() == "data"
    assert not (tmp_path / "precious.lock").exists()


def test_the_socket_of_a_writer_that_waits_for_others_stays(
    configure: Configure, meeting: Path
) -> None:
    config = configure()
    writer = serve(config, meeting, 3)
    ranks = [Rank(config, meeting, rank, 3) for rank in range(2)]
    with pytest.raises(Failed):
        # Rank 0 is there already, so that it is not let in.
        Rank(config, meeting, 0, 3)
    assert meeting.exists()
    ranks.append(Rank(config, meeting, 2, 3))
    io_library.close_all(ranks)
    assert writer.wait(20) == 0


def test_a_writer_whose_ranks_die_before_the_last_has_come_ends(
    configure: Configure, meeting: Path, tmp_path: Path
) -> None:
    config = configure()
    writer = serve(config, meeting, 3)
    code = "one = Rank(Path(sys.argv[1]), Path(sys.argv[2]), 0, 3)"
    assert io_library.child(code, config, meeting).wait(60) == 0
    assert writer.wait(20) == 1
    assert not (tmp_path / "dumps" / ".lock").exists()


def test_a_writer_that_nobody_hears_goes_on(
    configure: Configure, meeting: Path, tmp_path: Path
) -> None:
    """What it printed ended it, where the launcher that read it had been killed."""
    config = configure(grace="20 s")
    read, write = os.pipe()
    line = [str(io_library.WRITER), "serve", "--config", str(config), "--ranks", "2", str(meeting)]
    writer = subprocess.Popen(line, stderr=write)
    os.close(write)
    os.close(read)
    until(meeting.exists)
    dying = io_library.child(
        "one = Rank(Path(sys.argv[1]), Path(sys.argv[2]), 1, 2)\n"
        "one.declare('u', (10,))\n"
        "one.dump(0, u=np.ones(10))\n"
        "os._exit(0)\n",
        config,
        meeting,
    )
    rank = Rank(config, meeting, 0, 2)
    rank.declare("u", (10,))
    assert dying.wait(60) == 0
    rank.dump(0, u=np.zeros(10))
    rank.wait(0)
    rank.close()
    assert writer.wait(20) == 0
    assert found(tmp_path / "dumps") == {0: []}


def test_calls_tell_of_a_dead_writer_at_once(configure: Configure, meeting: Path) -> None:
    config = configure()
    writer = serve(config, meeting, 1)
    rank = Rank(config, meeting)
    writer.kill()
    writer.wait()

    steps = itertools.count()

    def refuses() -> bool:
        try:
            rank.begin(next(steps))
            rank.end()
        except Failed as error:
            return error.code == HOST and "the writer has died" in str(error)
        return False

    # By a thread that watches: in a moment.
    until(refuses)


def test_nothing_of_a_writer_is_left_when_it_has_ended(configure: Configure, meeting: Path) -> None:
    """It stayed in the kernel's table, one for each session, until the rank had ended."""
    rank = io_library.child(
        "from hpcio.waiting import until\n"
        "Rank(Path(sys.argv[1]), Path(sys.argv[2])).close()\n"
        "def is_childless():\n"
        "    try:\n"
        "        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)\n"
        "    except ChildProcessError:\n"
        "        return True\n"
        "until(is_childless, 20)\n",
        configure(),
        meeting,
    )
    assert rank.wait(60) == 0


def test_a_buffer_that_all_ranks_together_cannot_have_is_refused_at_the_start(
    configure: Configure, meeting: Path
) -> None:
    """Each rank's share alone can be had. The exit code was 2, as of bad input."""
    free = available_bytes()
    assert free is not None
    config = configure(buffer=f"{2 * free // 1024} KiB")
    line = [str(io_library.WRITER), "serve", "--config", str(config), "--ranks", "4", str(meeting)]
    done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=90)
    assert done.returncode == 1
    assert "that are free; make the buffer smaller" in done.stderr
    assert not meeting.exists()


def test_a_job_that_does_not_begin_leaves_the_output_folder_as_it_was(
    configure: Configure, meeting: Path, tmp_path: Path
) -> None:
    """Dumps of before were moved where no memory was left for the buffer, or a rank stayed out."""
    rank = Rank(configure(), tmp_path / "before")
    rank.declare("u", (3,))
    rank.dump(4, u=np.zeros(3))
    rank.close()
    output = tmp_path / "dumps"
    partial = output / "dump-00000005.partial"
    partial.mkdir()
    before = sorted(output.iterdir())
    config = configure(buffer="2048 TiB", existing="keep_apart")
    with pytest.raises(Failed, match="make the buffer smaller"):
        Rank(config, meeting)
    assert sorted(output.iterdir()) == before
    config = configure(existing="keep_apart")
    writer = serve(config, meeting, 2)
    Rank(config, meeting, 0, 2)
    writer.send_signal(signal.SIGTERM)
    assert writer.wait(60) == 1
    assert sorted(output.iterdir()) == before


def test_ranks_that_disagree_about_a_field_are_named(
    configure: Configure, meeting: Path, tmp_path: Path
) -> None:
    config = configure()
    ranks = [Rank(config, meeting, rank, 2) for rank in range(2)]
    for rank, one in enumerate(ranks):
        one.declare("u", (2,), "f8", (4 + rank,), (2 * rank,))
        one.dump(0, u=np.zeros(2))
    for one in ranks:
        with pytest.raises(Failed, match="ranks 0 and 1 disagree about variable u") as told:
            one.flush()
        assert told.value.code == STEP_FAILED
    io_library.close_all(ranks)
    assert not list((tmp_path / "dumps").glob("*/*.h5"))
