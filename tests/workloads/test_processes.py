"""Programs of a workload: raw output, stamps, failure with last words, cancelling of all."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wattio.errors import Cancelled, HostError, ResultError, WorkloadFailed
from wattio.workloads import invocation, processes
from wattio.workloads.processes import Program, find, first_line, last_words, run_all

DEADLINE_S = 20.0
ENDLESS = "import time\nwhile True: time.sleep(60)"


def python(code: str, place: Path, name: str = "one", *arguments: str) -> Program:
    out, err = place / f"{name}.out", place / f"{name}.err"
    return Program((sys.executable, "-c", code, *arguments), out, err)


def wait_for(path: Path) -> str:
    deadline = time.monotonic() + DEADLINE_S
    while not path.exists() or not path.read_text().endswith("\n"):
        assert time.monotonic() < deadline, f"{path} did not appear"
        threading.Event().wait(0.01)
    return path.read_text()


def gone(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return True
    return state in "ZX"


def wait_gone(pid: int) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not gone(pid):
        assert time.monotonic() < deadline, f"process {pid} is still there"
        threading.Event().wait(0.01)


def test_output_is_left_raw_and_the_run_is_stamped(tmp_path: Path) -> None:
    code = "import sys, os; print('said'); print('told', file=sys.stderr); print(os.getsid(0))"
    ended = run_all([python(code, tmp_path)], threading.Event())
    assert ended[0].code == 0
    assert ended[0].start.utc_ns < ended[0].end.utc_ns
    assert ended[0].start.monotonic_ns < ended[0].end.monotonic_ns
    said = (tmp_path / "one.out").read_text().split()
    assert said[0] == "said"
    assert int(said[1]) != os.getsid(0)
    assert (tmp_path / "one.err").read_text() == "told\n"


def test_no_shell_looks_at_arguments(tmp_path: Path) -> None:
    run_all([python("import sys; print(sys.argv[1])", tmp_path, "one", "$HOME; ls *")], _never())
    assert (tmp_path / "one.out").read_text() == "$HOME; ls *\n"


def _never() -> threading.Event:
    return threading.Event()


def test_a_failure_tells_program_code_and_last_words(tmp_path: Path) -> None:
    code = "import sys; print('first', file=sys.stderr); sys.exit('no \\x1b space left')"
    with pytest.raises(
        WorkloadFailed, match=r"python.* failed \(exit code 1\): first / no   space"
    ):
        run_all([python(code, tmp_path)], _never())
    with pytest.raises(WorkloadFailed, match=r"signal 9\): no output"):
        run_all([python("import os; os.kill(os.getpid(), 9)", tmp_path)], _never())
    ended = run_all([python("raise SystemExit(3)", tmp_path)], _never(), success=(0, 3))
    assert ended[0].code == 3


def test_a_program_that_is_not_there_fails(tmp_path: Path) -> None:
    missing = Program(("/nonexistent/tool",), tmp_path / "out", tmp_path / "err")
    with pytest.raises(WorkloadFailed, match="tool cannot be started"):
        run_all([missing], _never())
    with pytest.raises(HostError, match=r"no-such-tool-at-all is not installed.*: build it"):
        find("no-such-tool-at-all", "build it")
    assert Path(find("sh", "")).is_absolute()


def test_one_that_fails_ends_the_others(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    code = f"import os; open({str(note)!r}, 'w').write(str(os.getpid()) + '\\n')\n{ENDLESS}"
    waits = (
        "import os, time\n"
        f"while not os.path.exists({str(note)!r}) or not os.path.getsize({str(note)!r}):\n"
        "    time.sleep(0.01)\n"
        "raise SystemExit('broken')"
    )
    with pytest.raises(WorkloadFailed, match="broken"):
        run_all([python(code, tmp_path, "a"), python(waits, tmp_path, "b")], _never())
    assert gone(int(note.read_text()))


@pytest.mark.parametrize("deaf", [False, True])
def test_cancelling_ends_the_whole_group(tmp_path: Path, deaf: bool) -> None:
    note = tmp_path / "pids"
    code = (
        "import os, signal, subprocess, sys, time\n"
        + ("signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" if deaf else "")
        + "child = subprocess.Popen(['sleep', '600'])\n"
        + f"open({str(note)!r}, 'w').write(f'{{os.getpid()}} {{child.pid}}\\n')\n"
        + ENDLESS
    )
    cancelled = threading.Event()
    raised: list[BaseException] = []

    def call() -> None:
        try:
            run_all([python(code, tmp_path)], cancelled, grace_s=0.2)
        except Cancelled as error:
            raised.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    pids = [int(word) for word in wait_for(note).split()]
    cancelled.set()
    thread.join(DEADLINE_S)
    assert not thread.is_alive()
    assert [type(one) for one in raised] == [Cancelled]
    for pid in pids:
        wait_gone(pid)


def test_what_a_program_leaves_behind_is_ended(tmp_path: Path) -> None:
    code = "import subprocess; print(subprocess.Popen(['sleep', '600']).pid)"
    run_all([python(code, tmp_path)], _never())
    wait_gone(int((tmp_path / "one.out").read_text()))


def test_the_whole_group_ends_with_a_study_that_is_killed(tmp_path: Path) -> None:
    note = tmp_path / "pids"
    program = (
        "import os, subprocess, time\n"
        "child = subprocess.Popen(['sleep', '600'])\n"
        f"open({str(note)!r}, 'w').write(f'{{os.getpid()}} {{child.pid}}\\n')\n" + ENDLESS
    )
    study = (
        "import sys, threading\n"
        "from pathlib import Path\n"
        "from wattio.workloads.processes import Program, run_all\n"
        "out = Path(sys.argv[2])\n"
        "one = Program((sys.executable, '-c', sys.argv[1]), out / 'out', out / 'err')\n"
        "run_all([one], threading.Event())\n"
    )
    killed = subprocess.Popen([sys.executable, "-c", study, program, str(tmp_path)])
    pids = [int(word) for word in wait_for(note).split()]
    killed.kill()
    killed.wait()
    for pid in pids:
        wait_gone(pid)


def test_an_invocation_is_kept_and_read_again(tmp_path: Path) -> None:
    programs = [python("print(1)", tmp_path, name) for name in ("a", "b")]
    ended = run_all(programs, _never())
    ended[1] = replace(ended[1], program=replace(ended[1].program, host="far"))
    kept = invocation.keep(tmp_path, "read", ended, size=3)
    read = invocation.recall(tmp_path)
    assert read == kept
    assert [one.host for one in read.programs] == ["localhost", "far"]
    assert read.facts == {"size": 3}
    span = read.span()
    assert span.name == "read"
    assert span.start == max(one.start for one in ended)
    assert invocation.text_of(tmp_path, read.programs[1]) == "1\n"


def test_a_missing_or_damaged_invocation_is_told(tmp_path: Path) -> None:
    with pytest.raises(ResultError, match="cannot be read"):
        invocation.recall(tmp_path)
    (tmp_path / invocation.FILE).write_text('{"step": "a"}')
    with pytest.raises(ResultError, match="is damaged"):
        invocation.recall(tmp_path)


def test_last_words_pass_over_files_that_say_nothing(tmp_path: Path) -> None:
    (tmp_path / "a").write_text(" \n\n")
    (tmp_path / "b").write_text("\n".join(str(number) for number in range(10_000)))
    assert last_words(tmp_path / "a", tmp_path / "none", tmp_path / "b").endswith("9998 / 9999")
    assert first_line((sys.executable, "-c", "print(); print('fio-3.33')")) == "fio-3.33"
    assert first_line(("/nonexistent/tool",)) is None


@given(st.binary(max_size=300))
def test_any_last_words_are_one_printable_line(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "words"
    path.write_bytes(content)
    assert last_words(path).isprintable()


def test_a_program_without_its_guard_is_not_left_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where others had killed the guard, the program went on with nobody to end it."""

    def killed() -> subprocess.Popen[bytes]:
        guard = processes_guard()
        guard.kill()
        guard.wait()
        return guard

    processes_guard = processes.guard
    monkeypatch.setattr(processes, "guard", killed)
    code = (
        f"import os\nopen({str(tmp_path / 'pid')!r}, 'w').write(f'{{os.getpid()}}\\n')\n{ENDLESS}"
    )
    with pytest.raises(
        WorkloadFailed, match=r"its guard, which would end it with this process, is gone"
    ):
        run_all([python(code, tmp_path)], threading.Event())
    pid = tmp_path / "pid"
    assert not pid.exists() or gone(int(pid.read_text()))
