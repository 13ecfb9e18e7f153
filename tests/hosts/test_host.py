"""An agent at the other end of a pipe: what it does, and what it undoes however it ends."""

from __future__ import annotations

import ast
import json
import os
import signal
import time
from collections.abc import Callable
from concurrent.futures import Future
from importlib import resources
from pathlib import Path

import pytest
from wattio.cli import main
from wattio.clock import Instant
from wattio.errors import HostLost, HostRefused
from wattio.hosts import agent
from wattio.hosts.clocks import Offset
from wattio.hosts.host import Access, Host, Running

from hosts.conftest import MakeHost


def until(reached: Callable[[], bool], limit_s: float = 20.0) -> bool:
    """Wait for something that another process does."""
    deadline = time.monotonic() + limit_s
    while not reached():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def agent_of(host: Host) -> int:
    """The process of a host's agent."""
    shown = host.run(["sh", "-c", "echo $PPID"], timeout_s=10)
    return int(shown.out)


def runs(pid: int) -> bool:
    """Whether a process is there, and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_what_is_sent_over_needs_python_3_8_only() -> None:
    text = resources.files("wattio.hosts").joinpath("agent.py").read_text()
    ast.parse(text, feature_version=(3, 8))
    assert "wattio." not in "".join(
        line for line in text.splitlines() if line.startswith(("import", "from"))
    )


def test_a_program_runs_with_files_and_brings_some_back(make_host: MakeHost) -> None:
    host = make_host()
    host.open()
    script = 'cat job; echo "$GREETING" >&2; echo one > a.log; echo two > b.txt; exit 3'
    ran = host.run(
        ["sh", "-c", script],
        timeout_s=10,
        files={"job": "am9iCg=="},
        environment={"GREETING": "hello"},
        bring="*.log",
    )
    assert (ran.code, ran.out, ran.err, ran.is_late) == (3, b"job\n", b"hello\n", False)
    assert ran.files == {"a.log": b"one\n"}
    assert ran.start.monotonic_ns <= ran.end.monotonic_ns
    assert ran.last_words() == "hello"


def test_times_are_put_on_our_clocks_and_the_wall_clocks_offset_is_told() -> None:
    host = Host("n", Access())
    host._offset = Offset(0, 5 * 10**9, 0, Instant(1000 * 10**9, 10 * 10**9))
    told: Future[dict[str, object]] = Future()
    ends = {"start": [1001 * 10**9, 16 * 10**9], "end": [1002 * 10**9 + 40_000_000, 17 * 10**9]}
    told.set_result({"code": 0, "out": "", "err": "", "late": False, **ends})
    ran = Running(host, 1, told).wait()
    assert ran.end == Instant(1002 * 10**9, 12 * 10**9)
    assert ran.ahead_ns == 40_000_000


def test_arguments_are_not_read_by_a_shell(make_host: MakeHost) -> None:
    host = make_host()
    host.open()
    words = ["a b", "$HOME", "'", '"', "*", "; rm x", "\n", "ü"]
    ran = host.run(["printf", "%s|", *words], timeout_s=10)
    assert ran.out.decode() == "".join(f"{word}|" for word in words)


def test_a_program_waits_for_its_time_and_tells_phases(make_host: MakeHost) -> None:
    host = make_host()
    host.open()
    at_ns = time.monotonic_ns() + 300_000_000
    script = 'echo begin x >&"$WATTIO_PHASES"; echo "end x" >&"$WATTIO_PHASES"'
    running = host.begin(
        ["bash", "-c", script], at_monotonic_ns=host.offset.there_ns(at_ns), phases=True
    )
    ran = running.wait(10)
    assert ran.start.monotonic_ns - at_ns + 2 * host.offset.error_ns >= 0
    assert [line for _, line in ran.lines] == ["begin x", "end x"]
    assert ran.start.monotonic_ns <= ran.lines[0][0].monotonic_ns <= ran.end.monotonic_ns


def test_a_program_that_takes_too_long_is_killed_with_what_it_started(make_host: MakeHost) -> None:
    host = make_host()
    host.open()
    ran = host.run(["sh", "-c", "sleep 600 & echo $!; wait"], timeout_s=0.3)
    assert ran.is_late
    assert ran.code == -signal.SIGKILL
    assert until(lambda: not runs(int(ran.out)))


def test_what_cannot_be_done_is_said_and_the_host_stays(make_host: MakeHost) -> None:
    host = make_host()
    host.open()
    with pytest.raises(HostRefused, match=f"{host.name}: /nowhere/file: No such file"):
        host.ask("hold", settings=[["/nowhere/file", "1"]])
    assert host.run(["/nowhere/program"], timeout_s=10).code == 127
    assert host.read(Path("/nowhere/file")) is None
    assert host.ask("which", names=["sh", "no-such"])["no-such"] is None


def test_a_host_that_cannot_be_reached_is_said_with_the_words_of_ssh(
    make_host: MakeHost, local_ssh: Path
) -> None:
    local_ssh.write_text("#!/bin/sh\necho 'Host key verification failed.' >&2\nexit 255\n")
    host = make_host("node7")
    with pytest.raises(HostLost, match=r"node7: .* is lost: Host key verification failed\."):
        host.open()


def test_who_says_something_else_than_our_agent_is_left(
    make_host: MakeHost, local_ssh: Path
) -> None:
    local_ssh.write_text("#!/bin/sh\nprintf 'Welcome\\033[2J!\\n'\nexec sleep 600\n")
    host = make_host("node7")
    with pytest.raises(HostLost, match="something else than our agent: Welcome ") as raised:
        host.open()
    assert str(raised.value).isprintable()


def test_settings_come_back_at_the_end(make_host: MakeHost, tmp_path: Path) -> None:
    setting, foreign = tmp_path / "setting", tmp_path / "foreign"
    setting.write_text("slow\n")
    foreign.write_text("slow\n")
    host = make_host()
    host.open()
    host.ask("hold", settings=[[str(setting), "fast"], [str(foreign), "fast"]])
    host.ask("hold", settings=[[str(setting), "faster"]])
    assert setting.read_text() == "faster"
    # What somebody else changed is theirs.
    foreign.write_text("theirs")
    host.close()
    assert (setting.read_text(), foreign.read_text()) == ("slow", "theirs")


def test_a_kill_between_writing_down_and_writing_leaves_no_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the newest value was taken for ours, and the one before stayed."""
    setting = tmp_path / "setting"
    setting.write_text("slow")
    subject = agent.Agent.__new__(agent.Agent)
    subject.ledger = agent.Ledger(str(tmp_path / "ledger"), "a mark that nothing bears")
    subject.hold({"settings": [[str(setting), "fast"]]})

    def killed(path: str, text: str) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(agent, "write_text", killed)
        with pytest.raises(KeyboardInterrupt):
            subject.hold({"settings": [[str(setting), "faster"]]})
    assert setting.read_text() == "fast"
    assert agent.undo(str(tmp_path / "ledger")) == [f"{setting}, slow again"]
    assert setting.read_text() == "slow"


DAEMON = "setsid sleep 600 >/dev/null 2>&1 </dev/null & echo $!"


@pytest.mark.parametrize("way", ["agent killed", "connection killed", "silence", "closed"])
def test_nothing_stays_however_it_ends(make_host: MakeHost, tmp_path: Path, way: str) -> None:
    setting = tmp_path / "setting"
    setting.write_text("slow")
    host = make_host(lease_s=0.5 if way == "silence" else 20.0)
    host.open()
    owned = tmp_path / "owned"
    host.ask("folder", path=str(owned / "below"))
    host.ask("folder", path=str(owned), owned=True)  # was there: it stays
    made = tmp_path / "made"
    host.ask("folder", path=str(made), owned=True)
    host.ask("hold", settings=[[str(setting), "fast"]])
    daemon = int(host.run(["sh", "-c", DAEMON], timeout_s=10, keeps=True).out)
    assert runs(daemon)
    agent = agent_of(host)
    if way == "agent killed":
        os.kill(agent, signal.SIGKILL)
    elif way == "closed":
        host.close()
    elif way == "silence":
        # A network that has died: neither a word nor an end.
        assert host._process is not None
        os.kill(agent, signal.SIGCONT)
        host._process.stdin = Path(os.devnull).open("wb")  # noqa: SIM115
    else:
        assert host._process is not None
        host._process.kill()
        # What ssh held open goes with it.
        assert host._process.stdin is not None
        host._process.stdin.close()
    assert until(lambda: not runs(daemon) and not runs(agent))
    assert until(lambda: setting.read_text() == "slow" and not made.exists())
    assert (owned / "below").is_dir()


def test_what_was_left_by_two_kills_is_undone_by_the_next(
    make_host: MakeHost, tmp_path: Path
) -> None:
    setting = tmp_path / "setting"
    setting.write_text("slow")
    first = make_host()
    first.open()
    first.ask("hold", settings=[[str(setting), "fast"]])
    daemon = int(first.run(["sh", "-c", DAEMON], timeout_s=10, keeps=True).out)
    agent = agent_of(first)
    children = Path(f"/proc/{agent}/task/{agent}/children").read_text().split()
    for pid in (*map(int, children), agent):
        os.kill(pid, signal.SIGKILL)
    assert until(lambda: not runs(agent))
    assert setting.read_text() == "fast"
    assert runs(daemon)
    second = make_host(first.name)
    second.open()
    assert setting.read_text() == "slow"
    assert until(lambda: not runs(daemon))
    assert any("slow again" in one for one in second.facts["found"])


def test_one_run_at_a_time_works_at_a_node(make_host: MakeHost) -> None:
    first = make_host()
    first.open()
    with pytest.raises(HostRefused, match="another run of wattio is active on this node"):
        make_host(first.name).open()
    assert first.run(["true"], timeout_s=10).code == 0


def test_a_lost_host_fails_what_was_asked_and_may_come_back(make_host: MakeHost) -> None:
    host = make_host()
    host.open()
    running = host.begin(["sleep", "600"])
    os.kill(agent_of(host), signal.SIGKILL)
    with pytest.raises(HostLost, match="the connection is lost"):
        running.wait(20)
    assert until(lambda: not host.is_open)
    with pytest.raises(HostLost):
        host.ask("clock")
    host.close()
    assert until(lambda: _opens(host))
    assert host.run(["echo", "back"], timeout_s=10).out == b"back\n"


def _opens(host: Host) -> bool:
    """Its guard may still be at work."""
    try:
        host.open()
    except HostRefused:
        host.close()
        return False
    return True


def code_of(*words: str) -> object:
    with pytest.raises(SystemExit) as left:
        main(list(words))
    return left.value.code


def test_the_doctor_looks_at_hosts(local_ssh: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = f"d{os.getpid()}x"
    assert code_of("doctor", "--hosts", f"{name}[1-2]", "--json") == 0
    found = json.loads(capsys.readouterr().out)["hosts"]
    assert [one["name"] for one in found] == [f"{name}1", f"{name}2"]
    assert all(one["facts"]["cores"] > 0 for one in found)
    assert all(abs(one["clock_off_s"]) <= one["clock_error_s"] for one in found)
    local_ssh.write_text("#!/bin/sh\nprintf 'no \\033[2J route\\n' >&2\nexit 255\n")
    assert code_of("doctor", "--hosts", name) == 1
    shown = capsys.readouterr().out
    assert "route" in shown
    assert "\033[2J" not in shown
    assert code_of("doctor", "--hosts", "-oProxyCommand=x") == 2
