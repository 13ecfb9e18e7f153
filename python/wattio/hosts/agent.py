"""What works at a node for the time of a run: sent over, started by ssh, installed nowhere.

A request is a line of JSON on its input, an answer one on its output. Python 3.8 and its own
library are all that a node needs.

What it changes is written down first (the ledger), and undone when it ends. A second process, the
guard, undoes it when the agent is killed or hears nothing for as long as its lease: the network, or
who started it, is dead then. What both have left, where both are killed, the next agent of the
same name undoes. Programs bear a mark in their environment, so that what they started is found,
too.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import glob
import json
import os
import platform
import selectors
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import IO, Any

MARK = "WATTIO_AT_NODE"
PHASES = "WATTIO_PHASES"
FOLDERS = ("/run/wattio-nodes", "/tmp/wattio-nodes-{uid}")  # noqa: S108 (its owner is checked)
OUTPUT_BYTES_MAX = 256 << 20
LINE_BYTES_MAX = 4096
TELLS = 9  # where programs tell their phases: some shells know numbers of one digit only

# A program waits until it is written down, and for its time.
GATE = 'IFS= read -r _ || exit 125; exec "$@" </dev/null'


class Refused(Exception):  # noqa: N818 (an answer, not a fault)
    """Why a request is not done."""


def started(pid: int) -> int | None:
    """When a process was started, in ticks since the boot; None if there is none."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        # A process that has ended and waits to be asked for is none.
        return None if fields[0] in (b"Z", b"X") else int(fields[19])
    except (OSError, IndexError, ValueError):
        return None


def now() -> tuple[int, int]:
    """UTC and the monotonic clock, in nanoseconds."""
    return time.time_ns(), time.monotonic_ns()


def mounts_below(folder: str) -> list[str]:
    """Points at or below a folder, the last one that was mounted first."""
    found = []
    with open("/proc/self/mountinfo", "rb") as file:
        for line in file:
            point = line.split()[4].decode("utf-8", "surrogateescape")
            for code, char in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
                point = point.replace(code, char)
            if point == folder or point.startswith(folder.rstrip("/") + "/"):
                found.append(point)
    return found[::-1]


def marked(mark: str) -> Iterator[int]:
    """Processes that bear a mark in their environment."""
    wanted = (f"{MARK}={mark}").encode()
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            with contextlib.suppress(OSError), open(f"/proc/{name}/environ", "rb") as file:
                if wanted in file.read().split(b"\0"):
                    yield int(name)


def read_text(path: str) -> str:
    """A setting's text."""
    with open(path) as file:
        return file.read().strip()


def write_text(path: str, text: str) -> None:
    """Write a setting in one go."""
    number = os.open(path, os.O_WRONLY | os.O_TRUNC)
    try:
        os.write(number, text.encode())
    finally:
        os.close(number)


def put_back(path: str, old: str, ours: list[str]) -> bool:
    """Give a setting its old value; not where somebody else changed it. Whether it was ours."""
    found = read_text(path)
    if found not in ours or found == old:
        return False
    write_text(path, old)
    return True


class Ledger:
    """What has to be undone here, on disk before it is done."""

    def __init__(self, path: str, mark: str) -> None:
        self.path = path
        self.content: dict[str, Any] = {
            "mark": mark,
            "agent": [os.getpid(), started(os.getpid())],
            "folders": [],
            "settings": [],
        }

    def note(self, kind: str, what: object) -> None:
        """Write down one more thing."""
        if what not in self.content[kind]:
            self.content[kind].append(what)
            self.write()

    def write(self) -> None:
        """Replace the file, and wait for the disk."""
        fresh = self.path + ".new"
        with open(fresh, "w") as file:
            json.dump(self.content, file)
            file.flush()
            os.fsync(file.fileno())
        os.rename(fresh, self.path)


def undo(path: str) -> list[str]:
    """Undo what a ledger says; what was found. The file goes last."""
    try:
        with open(path) as file:
            content = json.load(file)
    except FileNotFoundError:
        return []
    except ValueError:
        # It is replaced as a whole: this is none of ours.
        raise Refused(f"{path}: is damaged; look at it, then remove it") from None
    done = []
    # What is asked to end may start something: until there is nothing left.
    for _ in range(50):
        found = list(marked(content["mark"]))
        for pid in found:
            done.append(f"a process that was still running ({pid})")
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        if not found:
            break
        time.sleep(0.02)
    for setting, old, ours in reversed(content["settings"]):
        with contextlib.suppress(OSError):
            if put_back(setting, old, ours):
                done.append(f"{setting}, {old} again")
    for folder in reversed(content["folders"]):
        for point in mounts_below(folder):
            subprocess.call(["umount", "-l", point], stderr=subprocess.DEVNULL)
            done.append(f"a mount on {point}")
        if os.path.isdir(folder) and not mounts_below(folder):
            subprocess.call(["rm", "-rf", "--one-file-system", "--", folder])
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    return done


def place_for(name: str) -> str:
    """Where the ledger of a name lies: a folder that nobody else can write to."""
    for shape in FOLDERS:
        folder = shape.format(uid=os.getuid())
        try:
            os.makedirs(folder, mode=0o700, exist_ok=True)
        except OSError:
            continue
        found = os.lstat(folder)
        if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o22:
            return os.path.join(folder, name)
    raise Refused("no folder to record what must be undone: tried " + ", ".join(FOLDERS))


def guard(path: str, lease_s: float) -> int:
    """Start the guard; the end of the pipe that it listens to."""
    ears, mouth = os.pipe()
    agent = os.getpid()
    if os.fork() != 0:
        os.close(ears)
        return mouth
    os.setsid()
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nothing, standard)
    os.close(mouth)
    waiting = selectors.DefaultSelector()
    waiting.register(ears, selectors.EVENT_READ)
    word = b"."
    # Silence and the end of the pipe are the same: nobody looks after this node any more.
    while word not in (b"", b"q"):
        word = os.read(ears, 1) if waiting.select(lease_s) else b""
    if word == b"":
        with contextlib.suppress(OSError):
            os.kill(agent, signal.SIGKILL)
        with contextlib.suppress(Refused, OSError):
            undo(path)
    os._exit(0)


class Program:
    """A program that runs here, or waits to."""

    def __init__(self, request: dict[str, Any], folder: str, environment: dict[str, str]) -> None:
        self.id = request["id"]
        self.keeps = bool(request.get("keeps"))
        self.bring = request.get("bring")
        self.folder = folder
        self.at_ns = request.get("at_monotonic_ns")
        self.until_ns: int | None = None
        if request.get("timeout_s") is not None:
            self.until_ns = time.monotonic_ns() + int(request["timeout_s"] * 1e9)
        self.start: tuple[int, int] | None = None
        self.late = False
        self.lines: list[tuple[int, int, str]] = []
        self.rest = b""
        self.pipe: int | None = None
        mouth = None
        if request.get("phases"):
            self.pipe, mouth = os.pipe()
            os.set_blocking(self.pipe, False)
            os.dup2(mouth, TELLS)
            environment[PHASES] = str(TELLS)
        self.out = open(os.path.join(folder, ".out"), "w+b")  # noqa: SIM115 (read at its end)
        self.err = open(os.path.join(folder, ".err"), "w+b")  # noqa: SIM115
        try:
            self.process = subprocess.Popen(
                ["/bin/sh", "-c", GATE, "sh"] + request["arguments"],
                stdin=subprocess.PIPE,
                stdout=self.out,
                stderr=self.err,
                cwd=request.get("folder") or folder,
                env=environment,
                pass_fds=[] if mouth is None else [TELLS],
                start_new_session=True,
            )
        finally:
            if mouth is not None:
                os.close(mouth)
                hold_place()

    def release(self) -> None:
        """Let it go."""
        self.start = now()
        gate = self.process.stdin
        with contextlib.suppress(OSError):
            if gate is not None:
                gate.write(b"\n")
                gate.close()

    def signal(self, number: int) -> None:
        """Tell it, and what it started, something."""
        with contextlib.suppress(OSError):
            os.killpg(self.process.pid, number)

    def listen(self, at: tuple[int, int] | None = None) -> bool:
        """Keep the lines that it tells, with the time; whether more may come."""
        if self.pipe is None:
            return False
        try:
            while True:
                chunk = os.read(self.pipe, 1 << 16)
                if not chunk:
                    break
                *lines, self.rest = (self.rest + chunk).split(b"\n")
                utc_ns, monotonic_ns = at or now()
                for line in lines:
                    text = line[:LINE_BYTES_MAX].decode("utf-8", "replace")
                    self.lines.append((utc_ns, monotonic_ns, text))
                self.rest = self.rest[: LINE_BYTES_MAX + 1]
                return True
        except BlockingIOError:
            return True
        return False

    def ended(self) -> dict[str, Any] | None:
        """What became of it; None while it runs."""
        found = os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if found is None:
            return None
        end = now()
        # Its number is its group's, and nobody else's until it is asked for.
        if not self.keeps:
            self.signal(signal.SIGKILL)
        code = self.process.wait()
        if self.pipe is not None:
            while self.listen(end) and select_now(self.pipe):
                pass
            os.close(self.pipe)
            self.pipe = None
        answer = {"code": code, "start": self.start or end, "end": end, "late": self.late}
        answer["out"], answer["err"] = self.said(self.out), self.said(self.err)
        if self.lines or self.rest:
            rest = self.rest[:LINE_BYTES_MAX].decode("utf-8", "replace")
            answer["lines"] = self.lines + ([(*end, rest)] if rest else [])
        if self.bring:
            answer["files"] = self.files()
        return answer

    def said(self, file: IO[bytes]) -> str:
        size = file.seek(0, os.SEEK_END)
        if size > OUTPUT_BYTES_MAX:
            raise Refused(f"its output has {size} bytes; allowed: at most {OUTPUT_BYTES_MAX}")
        file.seek(0)
        with file:
            return base64.b64encode(file.read()).decode()

    def files(self) -> dict[str, str]:
        found = {}
        for path in sorted(glob.glob(os.path.join(glob.escape(self.folder), self.bring or ""))):
            if os.path.isfile(path) and not os.path.islink(path):
                with open(path, "rb") as file:
                    found[os.path.basename(path)] = base64.b64encode(file.read()).decode()
        return found


def hold_place() -> None:
    """Nothing else gets the number by which programs tell their phases."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    if nothing != TELLS:
        os.dup2(nothing, TELLS)
        os.close(nothing)


def select_now(number: int) -> bool:
    """Whether something can be read at once."""
    with selectors.DefaultSelector() as waiting:
        waiting.register(number, selectors.EVENT_READ)
        return bool(waiting.select(0))


class Agent:
    """Does what it is asked."""

    def __init__(self, name: str, lease_s: float, token: str) -> None:
        self.path = place_for(name)
        # One agent of a name: the lock goes with its process, however that ends.
        self.lock = open(self.path + ".lock", "w")  # noqa: SIM115 (until the end)
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise Refused("another run of wattio is active on this node") from None
        self.found = undo(self.path)
        self.ledger = Ledger(self.path, token)
        self.ledger.write()
        self.mouth = guard(self.path, lease_s)
        os.set_inheritable(self.mouth, False)
        self.base = tempfile.mkdtemp(prefix="wattio-")
        self.ledger.note("folders", self.base)
        self.programs: dict[int, Program] = {}
        self.count = 0

    def facts(self, request: dict[str, Any]) -> dict[str, Any]:
        memory = 0
        with open("/proc/meminfo") as file:
            for line in file:
                if line.startswith("MemTotal:"):
                    memory = int(line.split()[1]) * 1024
        return {
            "host_name": platform.node(),
            "kernel": platform.release(),
            "machine": platform.machine(),
            "python": platform.python_version(),
            "cores": len(os.sched_getaffinity(0)),
            "memory_bytes": memory,
            "boot": read_text("/proc/sys/kernel/random/boot_id"),
            "is_root": os.geteuid() == 0,
            "has_fuse": os.access("/dev/fuse", os.R_OK | os.W_OK),
            "has_cpufreq": os.path.isdir("/sys/devices/system/cpu/cpu0/cpufreq"),
            "found": self.found,
        }

    def clock(self, request: dict[str, Any]) -> tuple[int, int]:
        return now()

    def which(self, request: dict[str, Any]) -> dict[str, str | None]:
        return {name: shutil.which(name) for name in request["names"]}

    def folder(self, request: dict[str, Any]) -> None:
        """Make a folder; one that was not there before is removed at the end if that is wished."""
        path = request["path"]
        if request.get("owned") and not os.path.isdir(path):
            self.ledger.note("folders", path)
        os.makedirs(path, exist_ok=True)

    def write(self, request: dict[str, Any]) -> None:
        path = request["path"]
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(base64.b64decode(request["data"]))
        if request["mode"] is not None:
            os.chmod(path, request["mode"])

    def read(self, request: dict[str, Any]) -> str | None:
        """The end of a file; None if there is none."""
        try:
            with open(request["path"], "rb") as file:
                size = os.fstat(file.fileno()).st_size
                file.seek(max(0, size - request.get("last", OUTPUT_BYTES_MAX)))
                return base64.b64encode(file.read(OUTPUT_BYTES_MAX)).decode()
        except FileNotFoundError:
            return None

    def texts(self, request: dict[str, Any]) -> dict[str, str]:
        """The text of each file that a pattern below the root matches, by its path there."""
        found = {}
        for pattern in request["patterns"]:
            for path in glob.glob("/" + pattern):
                with contextlib.suppress(OSError), open(path, "rb") as file:
                    found[path[1:]] = os.fsdecode(file.read())
        return found

    def ours(self, request: dict[str, Any]) -> list[int]:
        """Processes that a run has here: this one, and all that bear one of its marks."""
        return [os.getpid()] + [pid for mark in request["marks"] for pid in marked(mark)]

    def processes(self, request: dict[str, Any]) -> list[tuple[int, int, str, str]]:
        """Number, start, command line and working folder of every process."""
        found = []
        for name in os.listdir("/proc"):
            if name.isdigit():
                with contextlib.suppress(OSError):
                    with open(f"/proc/{name}/cmdline", "rb") as file:
                        words = os.fsdecode(file.read())
                    place = os.readlink(f"/proc/{name}/cwd")
                    begun = started(int(name))
                    if begun is not None:
                        found.append((int(name), begun, words, place))
        return found

    def signal(self, request: dict[str, Any]) -> None:
        """Tell processes something, each known by its number and its start."""
        for pid, begun in request["processes"]:
            if started(pid) == begun:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, request["number"])

    def hold(self, request: dict[str, Any]) -> None:
        """Change settings; what they were is written down before, and put back at the end."""
        held = {known[0]: known[2] for known in self.ledger.content["settings"]}
        for path, value in request["settings"]:
            old = read_text(path)
            if path not in held:
                held[path] = [value]
                self.ledger.note("settings", [path, old, held[path]])
            elif value not in held[path]:
                # Until it is written the one before is there, and ours as well.
                held[path].append(value)
                self.ledger.write()
            write_text(path, value)
            if read_text(path) != value:
                raise Refused(f"{path}: reads {read_text(path)} after {value} was written")

    def let_go(self, request: dict[str, Any]) -> None:
        for path, old, ours in reversed(self.ledger.content["settings"]):
            put_back(path, old, ours)
        self.ledger.content["settings"] = []
        self.ledger.write()

    def kill(self, request: dict[str, Any]) -> None:
        program = self.programs.get(request["program"])
        if program is not None:
            program.signal(request["number"])

    def run(self, request: dict[str, Any]) -> None:
        self.count += 1
        folder = os.path.join(self.base, str(self.count))
        os.mkdir(folder)
        for name, data in request.get("files", {}).items():
            path = os.path.join(folder, os.path.basename(name))
            with open(path, "wb") as file:
                file.write(base64.b64decode(data))
            os.chmod(path, 0o755)  # noqa: S103 (programs, too)
        mark = {MARK: self.ledger.content["mark"], "WATTIO_WORK": folder}
        environment = dict(os.environ, **request.get("environment", {}), **mark)
        self.programs[request["id"]] = Program(request, folder, environment)

    def serve(self) -> None:
        """Until nobody asks any more."""
        wakes, wake = os.pipe()
        os.set_blocking(wake, False)
        os.set_blocking(wakes, False)
        signal.set_wakeup_fd(wake)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: sys.exit(0))
        rest = b""
        while True:
            with selectors.DefaultSelector() as waiting:
                waiting.register(0, selectors.EVENT_READ)
                waiting.register(wakes, selectors.EVENT_READ)
                for program in self.programs.values():
                    if program.pipe is not None:
                        waiting.register(program.pipe, selectors.EVENT_READ, program)
                ready = waiting.select(self.patience())
            for key, _ in ready:
                if key.data is not None and not key.data.listen():
                    os.close(key.data.pipe)
                    key.data.pipe = None
            with contextlib.suppress(BlockingIOError):
                os.read(wakes, 1 << 12)
            if any(key.fd == 0 for key, _ in ready):
                chunk = os.read(0, 1 << 20)
                if not chunk:
                    return
                os.write(self.mouth, b".")
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    self.answer(json.loads(line))
            self.look()

    def patience(self) -> float | None:
        """Seconds until a program is to begin, or has had its time."""
        moments = [
            moment
            for program in self.programs.values()
            for moment in ([program.at_ns or 0] if program.start is None else [program.until_ns])
            if moment is not None
        ]
        return max(0, min(moments) - time.monotonic_ns()) / 1e9 if moments else None

    def answer(self, request: dict[str, Any]) -> None:
        if request["op"] == "beat":
            return
        try:
            done = getattr(self, request["op"])(request)
        except Refused as error:
            say({"id": request["id"], "error": str(error)})
        except OSError as error:
            where = f"{error.filename}: " if error.filename else ""
            say({"id": request["id"], "error": f"{where}{error.strerror or error}"})
        else:
            if request["op"] != "run":
                say({"id": request["id"], "done": done})

    def look(self) -> None:
        """Begin what is due, end what is late, tell of what has ended."""
        for number, program in list(self.programs.items()):
            moment = time.monotonic_ns()
            if program.start is None and (program.at_ns is None or moment >= program.at_ns):
                program.release()
            if program.until_ns is not None and moment >= program.until_ns and not program.late:
                program.late, program.until_ns = True, None
                program.signal(signal.SIGKILL)
            try:
                ended = program.ended()
            except Refused as error:
                del self.programs[number]
                say({"id": number, "error": str(error)})
                continue
            if ended is not None:
                del self.programs[number]
                shutil.rmtree(program.folder, ignore_errors=True)
                say({"id": number, "done": ended})

    def close(self) -> None:
        """Undo everything."""
        undo(self.path)
        with contextlib.suppress(OSError):
            os.write(self.mouth, b"q")


def say(answer: dict[str, Any]) -> None:
    """One line of answer."""
    left = memoryview((json.dumps(answer) + "\n").encode())
    while left:
        left = left[os.write(1, left) :]


def first_line() -> dict[str, Any]:
    """What this agent is, before anything is asked of it."""
    line = b""
    while not line.endswith(b"\n"):
        char = os.read(0, 1)
        if not char:
            sys.exit(0)
        line += char
    told: dict[str, Any] = json.loads(line)
    return told


def main() -> None:
    """The whole life of an agent."""
    hold_place()
    told = first_line()
    try:
        agent = Agent(told["name"], told["lease_s"], told["token"])
    except (Refused, OSError) as error:
        say({"id": 0, "error": str(error)})
        return
    try:
        say({"id": 0, "done": agent.facts({})})
        agent.serve()
    finally:
        agent.close()


if __name__ == "__main__":
    main()
