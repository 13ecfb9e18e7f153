"""Running the programs of a workload: without a shell, each the head of a session of its own.

Output goes to raw files. Programs run side by side; when one fails or the work is cancelled, all of
them are ended with everything that they started.
"""

from __future__ import annotations

import base64
import contextlib
import logging
import os
import shlex
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from wattio import clock
from wattio.clock import Instant
from wattio.errors import Cancelled, HostError, WorkloadFailed
from wattio.hosts.host import Host, Ran
from wattio.hosts.hosts import Hosts
from wattio.workloads import phases

GRACE_S = 5.0
"""How long a program may take to end by itself once it was asked to."""

_LOOK_S = 0.05
_LEAD_S = 0.2
_LEAD_EACH_S = 0.01
_TAIL_BYTES = 4096
_TAIL_LINES = 5


_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Program:
    """What to run: arguments (the first is the program), files for its output, its folder.

    `environment` is added to this process's own. `pass_fds` are file descriptors that it inherits.
    On another `host` it works in a folder of its own if none is given. That gets `files` before,
    and what fits the pattern `bring` comes back beside `out`; lines by which it tells its phases go
    to `phases`.
    `watch` is asked again and again, with the program's process number, whether anything is wrong
    with it: where it says what, the program is killed with all that it started. `out_fd` takes the
    standard output in place of `out`, which then is for whoever reads there to write. `title` is
    what it is called where its name says nothing.
    """

    arguments: tuple[str, ...]
    out: Path
    err: Path
    folder: Path | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    pass_fds: tuple[int, ...] = ()
    watch: Callable[[int], str | None] | None = None
    host: str | None = None
    files: Mapping[str, bytes] = field(default_factory=dict)
    bring: str | None = None
    phases: Path | None = None
    out_fd: int | None = None
    title: str | None = None

    @property
    def name(self) -> str:
        """Its title, or else its name without its folder; and where it runs."""
        name = self.title or Path(self.arguments[0]).name
        return name if self.host is None else f"{name} on {self.host}"


@dataclass(frozen=True)
class Ended:
    """A program that ended: its exit code (negative: the signal), and when it ran.

    Times are on our clocks; its host's wall clock was `ahead_ns` ahead of ours at its end.
    """

    program: Program
    code: int
    start: Instant
    end: Instant
    ahead_ns: int = 0


def run_all(
    programs: Sequence[Program],
    cancelled: threading.Event,
    *,
    success: Sequence[int] = (0,),
    grace_s: float = GRACE_S,
    hosts: Hosts | None = None,
) -> list[Ended]:
    """Run programs side by side; return when all have ended, with what became of each.

    Those on other hosts begin at one moment, which all are told before. Raises WorkloadFailed for
    the first that could not be started or ended with a code that is not one of `success`, or with
    which its watch found something wrong, and Cancelled when `cancelled` was set; nothing runs any
    more then.
    """
    with _Running(grace_s) as running:
        away = sum(program.host is not None for program in programs)
        at_ns = time.monotonic_ns() + round(1e9 * (_LEAD_S + away * _LEAD_EACH_S))
        for program in programs:
            if program.host is None:
                running.start(program)
            else:
                assert hosts is not None, "a program for a host that nobody has named"
                running.start_at(program, hosts[program.host], at_ns)
        while not running.all_ended():
            running.wait(_LOOK_S)
            running.raise_failed(success)
            running.raise_wrong()
            if cancelled.is_set():
                raise Cancelled(f"{programs[0].name} was stopped")
        running.raise_failed(success)
        return running.results()


def find(name: str, hint: str) -> str:
    """The path of a program. Raises HostError with `hint`, how to get it, where there is none."""
    found = shutil.which(name)
    if found is None:
        raise HostError(f"{name} is not installed (not on PATH): {hint}")
    return found


def first_line(arguments: Sequence[str], timeout_s: float = 10.0) -> str | None:
    """What a program says first, such as its version; None if it says nothing."""
    try:
        done = subprocess.run(
            arguments, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout_s, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    lines = _printable((done.stdout or done.stderr).decode(errors="replace")).split("\n")
    return next((line.strip() for line in lines if line.strip()), None)


def text(path: Path) -> str:
    """What a program has written into a file; nothing where there is no such file."""
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return ""


def last_words(*files: Path) -> str:
    """The last lines of the first file that says anything, in one line."""
    for path in files:
        try:
            with path.open("rb") as file:
                file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
                text = _printable(file.read().decode(errors="replace"))
        except OSError:
            continue
        if lines := [line.strip() for line in text.split("\n") if line.strip()]:
            return " / ".join(lines[-_TAIL_LINES:])
    return "no output"


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() or c == "\n" else " " for c in text)


_KILL_AT_THE_END = 'read -r group; read -r _; [ -z "$group" ] || kill -s KILL -- "-$group"'


def guard() -> subprocess.Popen[bytes]:
    """A shell that kills a group of processes when this process is gone, however it went.

    It waits for the end of a pipe that only we hold (its standard input), whose first line is the
    group. Without it a program would go on after a `kill -9` of the study, and disturb the one that
    goes on from there.
    """
    return subprocess.Popen(
        ["/bin/sh", "-c", _KILL_AT_THE_END],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def put_under(guard: subprocess.Popen[bytes], group: int) -> None:
    """Tell a guard its group. Raises ProcessLookupError where others have ended the guard."""
    assert guard.stdin is not None
    try:
        guard.stdin.write(b"%d\n" % group)
        guard.stdin.flush()
    except BrokenPipeError as error:
        raise ProcessLookupError(
            "its guard, which would end it with this process, is gone"
        ) from error


class _Child:
    """One running program; a thread of its own notes the moment of its end."""

    def __init__(self, program: Program) -> None:
        self.program = program
        environment = {**os.environ, **program.environment}
        # Before the program: a kill while a shell starts would leave the program behind.
        self._guard = guard()
        with ExitStack() as files:
            unneeded = files.enter_context(ExitStack())
            unneeded.callback(self._end_guard)
            out = files.enter_context(program.out.open("wb"))
            err = files.enter_context(program.err.open("wb"))
            self.start = clock.now()
            self._process = subprocess.Popen(
                program.arguments,
                stdin=subprocess.DEVNULL,
                stdout=out if program.out_fd is None else program.out_fd,
                stderr=err,
                cwd=program.folder,
                env=environment,
                pass_fds=program.pass_fds,
                start_new_session=True,
            )
            unneeded.callback(self._process.wait)
            unneeded.callback(self._signal, signal.SIGKILL)
            put_under(self._guard, self._process.pid)
            unneeded.pop_all()
        self.end: Instant | None = None
        self.ended = threading.Event()
        self._watcher = threading.Thread(target=self._watch, daemon=True)
        self._watcher.start()

    def _watch(self) -> None:
        # The process is left unreaped until its group is gone: while it is there, its number, which
        # is the group's, cannot belong to somebody else.
        os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT)
        self.end = clock.now()
        self._signal(signal.SIGKILL)
        self._end_guard()
        self._process.wait()
        self.ended.set()

    def _end_guard(self) -> None:
        self._guard.kill()
        self._guard.communicate()

    def _signal(self, number: signal.Signals) -> None:
        try:
            os.killpg(self._process.pid, number)
        except (ProcessLookupError, PermissionError):
            return  # all of it has gone, or has become somebody else's

    def wrong(self) -> str | None:
        """What its watch says."""
        watch = self.program.watch
        return None if watch is None or self.ended.is_set() else watch(self._process.pid)

    def terminate(self) -> None:
        if not self.ended.is_set():
            self._signal(signal.SIGTERM)

    def kill(self) -> None:
        if not self.ended.is_set():
            self._signal(signal.SIGKILL)
        self._watcher.join()

    def result(self) -> Ended:
        assert self.end is not None
        return Ended(self.program, self._process.returncode, self.start, self.end)


class _Away:
    """One program on another host; a thread waits for its end, and keeps what it left."""

    def __init__(self, program: Program, host: Host, at_ns: int) -> None:
        self.program = program
        files = {name: base64.b64encode(data).decode() for name, data in program.files.items()}
        self._running = host.begin(
            program.arguments,
            at_monotonic_ns=host.offset.there_ns(at_ns),
            environment=dict(program.environment),
            folder=None if program.folder is None else str(program.folder),
            files=files,
            bring=program.bring,
            phases=program.phases is not None,
        )
        self.ended = threading.Event()
        self._ran: Ran | None = None
        self._failure: WorkloadFailed | None = None
        self._watcher = threading.Thread(target=self._watch, daemon=True)
        self._watcher.start()

    def _watch(self) -> None:
        try:
            ran = self._running.wait()
            self.program.out.write_bytes(ran.out)
            self.program.err.write_bytes(ran.err)
            for name, data in ran.files.items():
                (self.program.out.parent / name).write_bytes(data)
            if self.program.phases is not None:
                phases.keep(self.program.phases, ran.lines)
            self._ran = ran
        except WorkloadFailed as error:
            self._failure = error
        except OSError as error:
            self._failure = WorkloadFailed(f"{self.program.name}: {error}")
        self.ended.set()

    def wrong(self) -> str | None:
        return None

    def terminate(self) -> None:
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        self._signal(signal.SIGKILL)
        self._watcher.join()

    def _signal(self, number: signal.Signals) -> None:
        if not self.ended.is_set():
            # A host that is lost has a guard, which ends it.
            with contextlib.suppress(WorkloadFailed):
                self._running.signal(number)

    def result(self) -> Ended:
        if self._failure is not None:
            raise self._failure
        assert self._ran is not None
        ran = self._ran
        return Ended(self.program, ran.code, ran.start, ran.end, ran.ahead_ns)


class _Running:
    """Programs that run side by side; none is left when the `with` block is."""

    def __init__(self, grace_s: float) -> None:
        self._grace_s = grace_s
        self._children: list[_Child | _Away] = []

    def __enter__(self) -> _Running:
        return self

    def __exit__(self, *_: object) -> None:
        for child in self._children:
            child.terminate()
        deadline = time.monotonic() + self._grace_s
        for child in self._children:
            child.ended.wait(max(0.0, deadline - time.monotonic()))
            child.kill()

    def start(self, program: Program) -> None:
        _log.debug("runs %s", shlex.join(program.arguments))
        try:
            self._children.append(_Child(program))
        except OSError as error:
            raise WorkloadFailed(f"{program.name} cannot be started: {error}") from error

    def start_at(self, program: Program, host: Host, at_ns: int) -> None:
        _log.debug("runs on %s: %s", host.name, shlex.join(program.arguments))
        self._children.append(_Away(program, host, at_ns))

    def all_ended(self) -> bool:
        return all(child.ended.is_set() for child in self._children)

    def wait(self, seconds: float) -> None:
        """Until the next of those still running ends, or so long."""
        running = next((child for child in self._children if not child.ended.is_set()), None)
        if running is not None:
            running.ended.wait(seconds)

    def raise_failed(self, success: Sequence[int]) -> None:
        ended = [child.result() for child in self._children if child.ended.is_set()]
        failed = [one for one in ended if one.code not in success]
        if not failed:
            return
        first = min(failed, key=lambda one: one.end.monotonic_ns)
        how = f"exit code {first.code}" if first.code >= 0 else f"signal {-first.code}"
        words = last_words(first.program.err, first.program.out)
        raise WorkloadFailed(f"{first.program.name} failed ({how}): {words}")

    def raise_wrong(self) -> None:
        for child in self._children:
            if (what := child.wrong()) is not None:
                # Asking it would take more time, and it has not listened before.
                child.kill()
                program = child.program
                words = last_words(program.err, program.out)
                raise WorkloadFailed(f"{program.name} {what}: {words}")

    def results(self) -> list[Ended]:
        return [child.result() for child in self._children]
