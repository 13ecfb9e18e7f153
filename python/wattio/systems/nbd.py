"""A block server over NBD: a disk of its own, served on a UNIX socket for the time of the run.

    [[system]]
    name = "qemu-nbd"
    kind = "nbd"
    options = { server = "qemu-nbd", settings = { cache = "none", aio = "io_uring" } }

Its clients talk NBD themselves (fio's engine `nbd`): nothing is mounted, and no root is needed. The
server's processor time is told, so that results say what each request costs it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, model_validator

from wattio.errors import HostError, SystemFailed
from wattio.files.document import Strict, nearest
from wattio.files.quantity import SecondsOrZero, Size
from wattio.systems import control, devices, processor_time, servers
from wattio.systems.commands import call, need, remove_if_empty, wait_until
from wattio.systems.nbd_servers import SERVERS, Served, Setting
from wattio.workloads import processes
from wattio.workloads.nbd_client import Connection, NbdError
from wattio.workloads.workload import Place

START_S = 20.0
END_S = 10.0

_SOCKET_BYTES_MOST = 107
"""Longest path of a UNIX socket (unix(7))."""


class Options(Strict):
    """Which server, the form and size of its disk, and its settings in its manual's words."""

    server: str = "nbdkit"  # which block server
    # What it serves, of those it can: the server's usual form if nothing is given.
    form: Literal["raw", "qcow2", "memory", "volume"] | None = None
    size: Size = 2.0**30  # of the disk that clients see
    path: str | None = None  # the folder on the disk to be measured
    program: str | None = None  # another file than the server's program, as found on PATH
    settings: dict[str, Setting] = Field(default_factory=dict)  # in the words of its manual
    # Options of what makes the disk, in the words of its manual.
    make: dict[str, Setting] = Field(default_factory=dict)
    # How often a server that tells how it stands is asked while a step runs, beside its ends.
    status_period: SecondsOrZero = 0.0

    @model_validator(mode="after")
    def _agree(self) -> Options:
        if self.server not in SERVERS:
            raise ValueError(
                f'server "{self.server}" is not known; {nearest(self.server, list(SERVERS))}'
            )
        if self.form is not None and self.form not in SERVERS[self.server].forms:
            known = ", ".join(SERVERS[self.server].forms)
            raise ValueError(f'{self.server} has no disks of form "{self.form}"; allowed: {known}')
        if self.path is not None and not Path(self.path).is_absolute():
            raise ValueError(f'path "{self.path}" must be absolute, as in "/data"')
        if self.size % 2**20:
            raise ValueError("size must be whole MiB")
        for table in ("settings", "make"):
            for key, value in getattr(self, table).items():
                if "\n" in f"{key}{value}":
                    raise ValueError(f"{table}: {key!r} holds a line break")
        if self.make and SERVERS[self.server].make is None:
            known = ", ".join(name for name, one in SERVERS.items() if one.make)
            raise ValueError(f"make: a disk of {self.server} has no options; allowed for: {known}")
        if self.status_period and SERVERS[self.server].control is None:
            known = ", ".join(name for name, one in SERVERS.items() if one.control)
            message = f"status_period: {self.server} reports no status; allowed for: {known}"
            raise ValueError(message)
        return self


class Storage:
    """One server, its disk and its socket, all below the scratch folder.

    But for the disk where there is a `path`; and for the socket where its name would be longer
    than the kernel takes: it lies in a folder of its own among temporary files then.
    """

    def __init__(self, options: Options, scratch: Path) -> None:
        """Nothing is made before `deploy`."""
        self._options = options
        self._server = SERVERS[options.server]
        self._scratch = scratch.resolve()
        self._root = self._scratch / "nbd"
        # A folder of others holds a disk for each scratch folder: two runs do not meet.
        mark = hashlib.sha256(str(self._scratch).encode()).hexdigest()[:8]
        base = Path(options.path) if options.path else self._root
        self._served = Served(
            program=options.program or self._server.path(),
            folder=self._root,
            form=options.form or self._server.forms[0],
            disk=base / f"wattio-disk-{mark}",
            size_bytes=int(options.size),
            socket=self._sockets(mark) / "s",
            settings=options.settings,
            make=options.make,
        )
        self._log = self._root / "log"
        self._command: tuple[str, ...] = ()
        self._process: subprocess.Popen[bytes] | None = None
        self._guard: subprocess.Popen[bytes] | None = None
        self._pid: int | None = None

    def _sockets(self, mark: str) -> Path:
        """The folder of the socket."""
        if len(os.fsencode(self._root / "s")) <= _SOCKET_BYTES_MOST:
            return self._root
        return Path(tempfile.gettempdir()) / f"wattio-{mark}"

    @property
    def _names(self) -> set[str]:
        """Of all servers: a dead run of this scratch folder may have been of another one."""
        known = {server.program for server in SERVERS.values()}
        return known | {Path(self._served.program).name}

    @property
    def _is_below(self) -> bool:
        """Whether the socket lies below the scratch folder."""
        return self._served.socket.parent == self._root

    @property
    def _uri(self) -> str:
        return f"nbd+unix:///{self._server.export}?socket={self._served.socket}"

    def probe(self) -> None:
        """Raise HostError where the program or the folder is missing."""
        program, package = self._served.program, self._server.package
        if package is None and shutil.which(program) is None:
            raise HostError(
                f"{program} not found: build it in wattio's source tree (cargo build --release"
                f" -p {self._server.program}), name its file (program), or leave this system out"
            )
        if package is not None:
            need({program: package})
        if self._served.form == "qcow2":
            need({"qemu-img": "qemu-utils"})
        if self._options.path is not None and not Path(self._options.path).is_dir():
            raise HostError(f"{self._options.path}: is not a folder; create it")

    def deploy(self) -> None:
        """Make the disk; what a dead run left is taken away first."""
        self.clean()
        self._root.mkdir(parents=True)
        try:
            # Where it is not there, it is made for us alone; what others have made is refused.
            self._served.socket.parent.mkdir(mode=0o700, exist_ok=self._is_below)
        except OSError as error:
            raise SystemFailed(f"{self._served.socket.parent}: {error.strerror}") from error
        if self._served.form == "memory":
            return
        if self._server.make and (command := self._server.make(self._served)):
            call("disk", *command)
            return
        try:
            with self._served.disk.open("wb") as disk:
                os.posix_fallocate(disk.fileno(), 0, self._served.size_bytes)
        except OSError as error:
            raise SystemFailed(
                f"{self._served.disk}: cannot be created: {error.strerror}"
            ) from error

    def start(self) -> None:
        """Start the server, and wait until it serves. Raises SystemFailed with its last words."""
        if self._is_running():
            return
        # Before the server: a kill of this process while it starts would leave it behind.
        self._guard = processes.guard()
        self._command = self._server.serve(self._served)
        with self._log.open("wb") as log:
            try:
                self._process = subprocess.Popen(
                    self._command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd=self._root,
                    start_new_session=True,
                )
            except OSError as error:
                raise SystemFailed(f"{self._command[0]} cannot be started: {error}") from error
        if self._server.to_background:
            self._follow(self._process)
        else:
            self._pid = self._process.pid
        assert self._pid is not None
        self._guarded(self._pid)
        if not wait_until(lambda: self._answers() or not self._is_running(), START_S):
            raise self._failed(f"did not serve within {START_S:g} s")
        if not self._is_running():
            raise self._failed("ended")

    def _follow(self, first: subprocess.Popen[bytes]) -> None:
        """The server that its first process leaves in the background."""
        try:
            code = first.wait(START_S)
        except subprocess.TimeoutExpired:
            raise self._failed("did not go into the background") from None
        if code != 0:
            raise self._failed(f"failed (exit code {code})")

        def told() -> bool:
            text = processes.text(self._served.pid_file)
            self._pid = int(text) if text.endswith("\n") and text.strip().isdigit() else None
            return self._pid is not None

        if not wait_until(told, START_S):
            raise self._failed("did not report its process number")

    def _guarded(self, group: int) -> None:
        assert self._guard is not None
        try:
            processes.put_under(self._guard, group)
        except ProcessLookupError as error:
            raise SystemFailed(f"{self._options.server} cannot be served: {error}") from error

    def _failed(self, what: str) -> SystemFailed:
        return SystemFailed(f"{self._options.server} {what}: {processes.last_words(self._log)}")

    def _is_running(self) -> bool:
        if self._process is None or self._server.to_background:
            return self._pid is not None and self._pid in servers.running(self._names, self._root)
        # Not by its arguments: for a moment after its start it has none.
        return self._process.poll() is None

    def _answers(self) -> bool:
        try:
            self._connect()
        except NbdError:
            return False
        return True

    def _connect(self) -> None:
        """Raise NbdError where nobody serves, SystemFailed where the disk is too small."""
        with Connection(self._uri) as connection:
            size = connection.size_bytes
        if size < self._served.size_bytes:
            raise SystemFailed(f"{self._uri}: has {size} bytes, not {self._served.size_bytes}")

    def mount(self, clients: int) -> Sequence[Place]:
        """Nothing is mounted: each client has a connection of its own to the one disk."""
        folder = self._root / "clients"
        folder.mkdir(exist_ok=True)
        return [Place(folder, uri=self._uri)] * clients

    def verify_mount(self) -> None:
        """Raise SystemFailed where the server does not serve the whole disk."""
        try:
            self._connect()
        except NbdError as error:
            raise self._failed(f"does not serve ({error})") from error

    def processor_time_s(self) -> float:
        """User and system time of the server with its threads and children. Raises SystemFailed."""
        try:
            if self._pid is None:
                raise ProcessLookupError
            return processor_time.of_tree(self._pid)
        except ProcessLookupError:
            raise self._failed("has ended") from None

    @property
    def status_period_s(self) -> float:
        """As the study says."""
        return self._options.status_period

    def status(self) -> dict[str, Any] | None:
        """What the server answers on its control socket; None for one that has none."""
        if self._server.control is None:
            return None
        return control.inspect(self._server.control(self._served))

    def describe(self) -> dict[str, Any]:
        """The server's version, command and settings, and what its disk lies on."""
        facts: dict[str, Any] = {
            **self._options.model_dump(mode="json", exclude_none=True),
            "form": self._served.form,
            "command": list(self._command),
        }
        if version := processes.first_line((self._served.program, self._server.version)):
            facts["version"] = version
        if self._served.form == "memory":
            return facts | {"raw_capacity_bytes": self._served.size_bytes}
        return facts | devices.describe(self._served.disk.parent)

    def processes(self) -> list[int]:
        """The server, and whoever started it in the background."""
        own = {self._pid} if self._pid is not None else set()
        return sorted(own.union(servers.running(self._names, self._root)))

    def unmount(self) -> None:
        """Nothing is mounted."""

    def stop(self) -> None:
        """Stop the server, also that of a run that died; kill it where it does not end."""
        servers.end(self._names, self._root, END_S)
        if self._process is not None:
            # A script that starts a server bears its shell's name, and is not among them.
            if self._process.poll() is None:
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        if self._guard is not None:
            self._guard.kill()
            self._guard.communicate()
        self._process = self._guard = self._pid = None

    def clean(self) -> None:
        """Remove the disk and all else."""
        self.stop()
        if self._served.disk.parent.is_dir():
            _remove(self._served.disk)
        if not self._is_below:
            for name in ("s", "c"):
                with contextlib.suppress(OSError):
                    self._served.socket.with_name(name).unlink()
            remove_if_empty(self._served.socket.parent)
        if self._root.exists():
            shutil.rmtree(self._root)
        remove_if_empty(self._scratch)


def _remove(disk: Path) -> None:
    if disk.is_dir():
        shutil.rmtree(disk)
    else:
        disk.unlink(missing_ok=True)
