"""The storage target on the host, beside a guest that can ask for its end and its return."""

from __future__ import annotations

import contextlib
import signal
import socketserver
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from ports import free_port

PROGRAM = Path(__file__).parents[2] / "target" / "debug" / "wattio-target"
HOST = "10.0.2.2"
"""The machine itself, as QEMU's user network calls it."""
LIMIT_S = 60.0


class Target:
    """A volume, and the process that serves it on a port and a UNIX socket."""

    def __init__(self, folder: Path, size: str, *options: str) -> None:
        self.folder = folder
        self.port = free_port()
        self.options = options
        self.log: list[str] = []
        self.socket = folder / "socket"
        self._process: subprocess.Popen[str] | None = None
        self._run("create", self._volume, "--size", size, "--segment-size", "1MiB")
        self.serve()

    @property
    def _volume(self) -> Path:
        return self.folder / "volume"

    def _run(self, *arguments: str | Path) -> None:
        done = subprocess.run((PROGRAM, *arguments), capture_output=True, text=True)
        assert done.returncode == 0, f"{arguments[0]}: {done.stdout}{done.stderr}"

    def serve(self) -> None:
        """Begin to serve; returns when clients can connect."""
        command: list[str | Path] = [PROGRAM, "serve", "--export", self._volume]
        command += ["--unix", self.socket, "--tcp", f"127.0.0.1:{self.port}"]
        command += ["--reactors", "2", *self.options]
        self._process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        errors = self._errors(self._process)
        for line in errors:
            self.log.append(line)
            if "serving" in line:
                # Who reads nothing more may stop the server by a full pipe.
                threading.Thread(target=self.log.extend, args=(errors,), daemon=True).start()
                return
        raise AssertionError(f"the target does not serve: {self.log}")

    @staticmethod
    def _errors(process: subprocess.Popen[str]) -> IO[str]:
        assert process.stderr is not None
        return process.stderr

    def end(self, number: signal.Signals) -> None:
        """End it by a signal. What is left has to be a whole volume."""
        process, self._process = self._process, None
        assert process is not None
        process.send_signal(number)
        code = process.wait(LIMIT_S)
        assert code == (-number if number == signal.SIGKILL else 0), self.log
        self._run("check", self._volume)

    def obey(self, word: str) -> None:
        """What a guest may ask for: that the target ends, and comes back."""
        numbers = {"kill": signal.SIGKILL, "restart": signal.SIGTERM}
        self.end(numbers[word])
        self.serve()

    def close(self) -> None:
        """Leave no process."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()


class _Ears(socketserver.TCPServer):
    """Where a guest says a word, and hears when it is done."""

    def __init__(self, target: Target) -> None:
        super().__init__(("127.0.0.1", 0), _Word)
        self.target = target


class _Word(socketserver.StreamRequestHandler):
    server: _Ears

    def handle(self) -> None:
        try:
            self.server.target.obey(self.rfile.readline().decode().strip())
            answer = "done"
        except Exception as error:  # It is the guest's script that fails by it, with the reason.
            answer = f"failed: {error!r}"
        self.wfile.write(f"{answer}\n".encode())


@contextlib.contextmanager
def served(size: str, *options: str) -> Iterator[tuple[Target, int]]:
    """A target with an empty volume, and the port where it can be asked for its end."""
    with tempfile.TemporaryDirectory(prefix="target-") as folder:
        target = Target(Path(folder), size, *options)
        try:
            with _Ears(target) as ears:
                thread = threading.Thread(target=ears.serve_forever)
                thread.start()
                try:
                    yield target, ears.server_address[1]
                finally:
                    ears.shutdown()
                    thread.join()
        finally:
            target.close()
