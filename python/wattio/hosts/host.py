"""One host: an ssh connection with our agent at the other end, and what it is asked."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shlex
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as LateError
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

from wattio import clock
from wattio.clock import Instant
from wattio.errors import HostLost, HostRefused
from wattio.hosts.clocks import Asked, Offset, offset

T = TypeVar("T")

ANSWER_S = 30.0
"""How long a host may take for what is done at once."""

CLOCK_QUESTIONS = 8
"""How often a clock is asked for; the quickest answer counts."""

_OPEN_S = 30.0
_WORDS = 3
_SSH = (
    # Nothing is asked of people, and no host is trusted that was not known before.
    *("-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=yes", "-o", "ConnectTimeout=10"),
    *("-o", "ServerAliveInterval=3", "-o", "ServerAliveCountMax=3", "-T", "-x", "-a"),
)
# The agent follows on standard input, byte by byte: what comes after it are requests.
_START = (
    "import os; s=b''\n"
    "while len(s)<{size}: s+=os.read(0,{size}-len(s)) or exit(1)\n"
    "exec(compile(s,'wattio-agent','exec'))"
)


@dataclass(frozen=True)
class Access:
    """How hosts are reached: options of ssh, their Python, how long an agent waits for a word."""

    ssh: tuple[str, ...] = ()
    python: str = "python3"
    lease_s: float = 20.0

    def command(self, name: str) -> tuple[str, ...]:
        """The command that reaches a host; what is to run there comes behind it."""
        return (*self.reach, "--", name)

    @property
    def reach(self) -> tuple[str, ...]:
        """The same for launchers of MPI, which put the host behind it themselves."""
        return ("ssh", *self.ssh, *_SSH)


@dataclass(frozen=True)
class Ran:
    """A program that ended at a host; its times are on our clocks.

    `ahead_ns` is how far the host's wall clock was ahead of ours at its end.
    """

    code: int
    out: bytes
    err: bytes
    start: Instant
    end: Instant
    is_late: bool = False  # it had its time and was killed
    files: Mapping[str, bytes] = field(default_factory=dict)
    lines: Sequence[tuple[Instant, str]] = ()
    ahead_ns: int = 0

    def last_words(self) -> str:
        """The last lines of what it said, in one line."""
        lines = [one.strip() for one in (self.err or self.out).decode(errors="replace").split("\n")]
        words = " / ".join([one for one in lines if one][-_WORDS:])
        return "".join(c if c.isprintable() else " " for c in words) or "no output"


class Host:
    """A host that takes part. Everything that is asked raises HostLost once it does not answer."""

    def __init__(self, name: str, access: Access) -> None:
        """Nothing is started before `open`."""
        self.name = name
        self.access = access
        self.facts: Mapping[str, Any] = {}
        self.mark = uuid4().hex
        self._asked: dict[int, Future[Any]] = {}
        self._next = 0
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._closing = threading.Event()
        self._said = b""
        self._errors = threading.Thread()
        self._offset: Offset | None = None

    @property
    def is_open(self) -> bool:
        """Whether it answered so far."""
        return self._process is not None and not self._closing.is_set()

    def open(self) -> None:
        """Connect, and start the agent. Raises HostLost, or HostRefused where it does not begin."""
        agent = resources.files("wattio.hosts").joinpath("agent.py").read_bytes()
        start = shlex.join((self.access.python, "-u", "-c", _START.format(size=len(agent))))
        self._closing.clear()
        self._said, self._offset = b"", None
        try:
            self._process = subprocess.Popen(
                (*self.access.command(self.name), start),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                # Marks of what runs here are none of its: it outlives that.
                env={key: value for key, value in os.environ.items() if key[:7] != "WATTIO_"},
                # Ctrl-C is for us: the agent undoes things when we are done.
                start_new_session=True,
            )
        except OSError as error:
            raise HostLost(f"{self.name}: ssh cannot be started: {error.strerror}") from error
        ready: Future[Any] = Future()
        self._asked = {0: ready}
        self._errors = self._start(self._overhear)
        self._start(self._listen)
        self._start(self._beat)
        told = {"name": self.name, "lease_s": self.access.lease_s, "token": self.mark}
        self._send(agent + json.dumps(told).encode() + b"\n")
        self.facts = self._await(ready, "start", _OPEN_S)

    def _start(self, target: Callable[[subprocess.Popen[bytes]], None]) -> threading.Thread:
        thread = threading.Thread(target=target, args=(self._process,), daemon=True)
        thread.start()
        return thread

    def close(self) -> None:
        """End the agent, which undoes what it did, and wait for it."""
        process, self._process = self._process, None
        if process is None:
            return
        self._closing.set()
        assert process.stdin is not None
        with contextlib.suppress(OSError):  # it may have gone already
            process.stdin.close()
        try:
            process.wait(ANSWER_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def ask(self, what: str, *, timeout_s: float = ANSWER_S, **details: object) -> Any:  # noqa: ANN401
        """Have something done by the agent. Raises HostRefused where it cannot."""
        _, future = self._request(what, details)
        return self._await(future, what, timeout_s)

    def clock(self, questions: int = CLOCK_QUESTIONS) -> Offset:
        """Find out how far its clocks are ahead of ours."""
        found = []
        for _ in range(questions):
            sent = clock.now()
            told = Instant(*self.ask("clock"))
            found.append(Asked(sent, told, clock.now()))
        self._offset = offset(found)
        return self._offset

    @property
    def offset(self) -> Offset:
        """The offset that was found last."""
        return self._offset or self.clock()

    def begin(self, arguments: Sequence[str], **details: object) -> Running:
        """Start a program; see `Agent.run` for the details."""
        number, future = self._request("run", {"arguments": list(arguments), **details})
        return Running(self, number, future)

    def run(self, arguments: Sequence[str], *, timeout_s: float, **details: object) -> Ran:
        """Run a program to its end; after `timeout_s` it is killed."""
        return self.begin(arguments, timeout_s=timeout_s, **details).wait(timeout_s + ANSWER_S)

    def write(self, path: Path, content: bytes, mode: int | None = 0o644) -> None:
        """Write a file, and make its folder where it is missing; None leaves its mode."""
        data = base64.b64encode(content).decode()
        self.ask("write", path=str(path), data=data, mode=mode)

    def read(self, path: Path, last_bytes: int | None = None) -> bytes | None:
        """A file or its end; None if there is none."""
        details = {} if last_bytes is None else {"last": last_bytes}
        found = self.ask("read", path=str(path), **details)
        return None if found is None else base64.b64decode(found)

    def texts(self, patterns: Sequence[str]) -> Mapping[str, str]:
        """The text of each file that a pattern below its root matches, by its path there."""
        found: Mapping[str, str] = self.ask("texts", patterns=list(patterns))
        return found

    def _request(self, what: str, details: Mapping[str, object]) -> tuple[int, Future[Any]]:
        future: Future[Any] = Future()
        with self._lock:
            self._next += 1
            number = self._next
            if not self.is_open:
                raise HostLost(f"{self.name}: the connection is lost{self._why()}")
            self._asked[number] = future
        line = json.dumps({"id": number, "op": what, **details}) + "\n"
        self._send(line.encode())
        return number, future

    def _send(self, content: bytes) -> None:
        process = self._process
        try:
            if process is not None and process.stdin is not None:
                with self._lock:
                    process.stdin.write(content)
                    process.stdin.flush()
        except (OSError, ValueError):
            pass  # The end of its answers says why.

    def _await(self, future: Future[T], what: str, timeout_s: float) -> T:
        try:
            return future.result(timeout_s)
        except LateError:
            self._drop(f"{what} took more than {timeout_s:g} s")
            raise HostLost(f"{self.name}: {what} took more than {timeout_s:g} s") from None

    def _drop(self, why: str) -> None:
        """A host that does not answer is given up: its guard undoes what was done there."""
        self._said = self._said or why.encode()
        if self._process is not None:
            self._process.kill()

    def _listen(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            try:
                answer = json.loads(line)
                with self._lock:
                    future = self._asked.pop(answer["id"])
                if "error" in answer:
                    error = _printable(str(answer["error"]))
                    future.set_exception(HostRefused(f"{self.name}: {error}"))
                else:
                    future.set_result(answer["done"])
            except (ValueError, KeyError, TypeError):
                # A shell's greeting, or somebody else: not our agent.
                self._said = self._said or b"it says something else than our agent: " + line[:200]
                break
        process.kill()
        process.wait()
        # Its last words; what else has them open is not waited for.
        self._errors.join(1.0)
        was_closing = self._closing.is_set()
        self._closing.set()
        with self._lock:
            asked, self._asked = self._asked, {}
        why = "was closed" if was_closing else f"is lost{self._why()}"
        for future in asked.values():
            future.set_exception(HostLost(f"{self.name}: the connection {why}"))

    def _overhear(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stderr is not None
        for line in process.stderr:
            self._said = (self._said + line)[-2000:]

    def _beat(self, process: subprocess.Popen[bytes]) -> None:
        while not self._closing.wait(self.access.lease_s / 4):
            if self._process is process:
                self._send(b'{"op":"beat","id":0}\n')

    def _why(self) -> str:
        lines = [one.strip() for one in self._said.decode(errors="replace").split("\n")]
        words = " / ".join([one for one in lines if one][-_WORDS:])
        return f": {_printable(words)}" if words else ""


class Running:
    """A program at a host."""

    def __init__(self, host: Host, number: int, future: Future[Any]) -> None:
        """Of a request that was sent."""
        self._host = host
        self._number = number
        self._future = future

    def signal(self, number: signal.Signals) -> None:
        """Tell it, and all that it started, something."""
        self._host.ask("kill", program=self._number, number=int(number))

    def wait(self, timeout_s: float | None = None) -> Ran:
        """What became of it. Raises HostLost, and HostRefused where it could not be started."""
        if timeout_s is None:
            told = self._future.result()
        else:
            told = self._host._await(self._future, "a program", timeout_s)
        here = self._host.offset.here
        ended = Instant(*told["end"])
        return Ran(
            code=told["code"],
            out=base64.b64decode(told["out"]),
            err=base64.b64decode(told["err"]),
            start=here(Instant(*told["start"])),
            end=here(ended),
            is_late=told["late"],
            files={name: base64.b64decode(data) for name, data in told.get("files", {}).items()},
            lines=[(here(Instant(utc, mono)), line) for utc, mono, line in told.get("lines", ())],
            ahead_ns=ended.utc_ns - here(ended).utc_ns,
        )


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else " " for c in text)
