"""A headless chromium, driven through the DevTools protocol over two pipes.

Each message is one JSON object that ends with a zero byte. Only what the tests of the status page
need: open a page, ask it, read its console, take its picture.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import select
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

PATHS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--hide-scrollbars",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--remote-debugging-pipe",
)
DEADLINE_S = 30.0
# The browser reads commands from the first and writes answers to the second.
READS_FROM, WRITES_TO = 3, 4


def executable() -> str | None:
    """Where chromium is, or None."""
    return next(filter(None, map(shutil.which, PATHS)), None)


class BrowserError(Exception):
    """The browser ended, refused, or did not do it in time."""


class Chromium:
    """One browser with one page."""

    def __init__(self, profile: Path) -> None:
        """Starts it with an empty profile folder."""
        path = executable()
        if path is None:
            raise BrowserError("no chromium; apt install chromium")
        commands, self._write = _pipe()
        self._read, answers = _pipe()
        actions = [
            (os.POSIX_SPAWN_DUP2, commands, READS_FROM),
            (os.POSIX_SPAWN_DUP2, answers, WRITES_TO),
            (os.POSIX_SPAWN_OPEN, 2, str(profile / "log"), os.O_WRONLY | os.O_CREAT, 0o600),
        ]
        arguments = [path, *FLAGS, f"--user-data-dir={profile}", "about:blank"]
        self._pid = os.posix_spawn(path, arguments, os.environ, file_actions=actions, setpgroup=0)
        os.close(commands)
        os.close(answers)
        self._buffer = b""
        self._last_id = 0
        self._session: str | None = None
        self._loaded = False
        self.console: list[str] = []
        """What the page complained about: exceptions, refused content, console messages."""

    def __enter__(self) -> Chromium:
        """Opens an empty page."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")
        return self

    def __exit__(self, *_: object) -> None:
        """Ends the browser and all that it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        os.close(self._read)
        os.close(self._write)

    def call(self, method: str, **parameters: object) -> dict[str, Any]:
        """The result of a command; events that come before it are kept in `console`."""
        self._last_id += 1
        command: dict[str, object] = {"id": self._last_id, "method": method, "params": parameters}
        if self._session is not None:
            command["sessionId"] = self._session
        os.write(self._write, json.dumps(command).encode() + b"\0")
        answer = self._until(method, lambda message: message.get("id") == self._last_id)
        if "error" in answer:
            raise BrowserError(f"{method}: {answer['error']}")
        result: dict[str, Any] = answer["result"]
        return result

    def _until(self, what: str, met: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The message with which it is met; the ones before it are taken note of."""
        for message in self._messages(what):
            self._note(message)
            if met(message):
                return message
        raise BrowserError(f"{what}: the browser ended")

    def open(
        self,
        url: str,
        *,
        width: int = 1400,
        height: int = 1000,
        dark: bool = False,
        paper: bool = False,
    ) -> None:
        """Goes to a page in a window of a size, or on paper."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        media = "print" if paper else "screen"
        self.call("Emulation.setEmulatedMedia", media=media, features=[scheme])
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        self._loaded = False
        self.call("Page.navigate", url=url)
        self._until("the page is loaded", lambda _: self._loaded)

    def evaluate(self, expression: str) -> Any:  # noqa: ANN401
        """The value of a JavaScript expression; waits where it is a promise."""
        done = self.call(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        if "exceptionDetails" in done:
            raise BrowserError(f"{expression}: {done['exceptionDetails']}")
        return done["result"].get("value")

    def wait(self, condition: str) -> None:
        """Waits until a JavaScript expression is true; what it names may not be there yet."""
        met = self.evaluate(
            f"""new Promise((resolve) => {{
                const end = Date.now() + {DEADLINE_S / 2 * 1000};
                const met = () => {{ try {{ return {condition}; }} catch {{ return false; }} }};
                const look = () => {{
                    if (met()) resolve(true);
                    else if (Date.now() > end) resolve(false);
                    else setTimeout(look, 20);
                }};
                look();
            }})"""
        )
        if not met:
            raise BrowserError(f"never became true: {condition}; console: {self.console}")

    def picture(self, path: Path) -> None:
        """Writes the whole page as PNG."""
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(shot["data"]))

    def _note(self, message: dict[str, Any]) -> None:
        method, parameters = message.get("method"), message.get("params", {})
        if method == "Page.loadEventFired":
            self._loaded = True
        elif method == "Log.entryAdded":
            entry = parameters["entry"]
            self.console.append(f"{entry['level']}: {entry['text']} {entry.get('url', '')}")
        elif method == "Runtime.exceptionThrown":
            self.console.append(str(parameters["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled":
            self.console.append(f"{parameters['type']}: {parameters['args']}")

    def _messages(self, waiting_for: str) -> Iterator[dict[str, Any]]:
        end = time.monotonic() + DEADLINE_S
        while True:
            text, zero, rest = self._buffer.partition(b"\0")
            if zero:
                self._buffer = rest
                yield json.loads(text)
                continue
            ready, _, _ = select.select([self._read], [], [], max(0.0, end - time.monotonic()))
            if not ready:
                raise BrowserError(f"{waiting_for}: no answer within {DEADLINE_S:g} s")
            read = os.read(self._read, 1 << 16)
            if not read:
                return
            self._buffer += read


def _pipe() -> tuple[int, int]:
    """A pipe whose ends are not among the numbers that the browser expects its own at."""
    low = os.pipe()
    high = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in low]
    for end in low:
        os.close(end)
    return high[0], high[1]
