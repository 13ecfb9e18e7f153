"""What the threads of a process did, from /proc/PID/task/*/schedstat.

Source: the kernel's Documentation/scheduler/sched-stats.rst, "/proc/<pid>/schedstat": time on a
processor, time waiting for one (both ns), and how often it was given one. The time of a thread that
runs at the moment is as of the last tick.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from wattio.errors import HostError, SystemFailed

REACTOR = "reactor "
"""The beginning of the names of a reactor's thread."""


@dataclass(frozen=True)
class Did:
    """Sums over threads: nanoseconds on a processor and waiting for one, and how often."""

    ran_ns: int = 0
    waited_ns: int = 0
    slices: int = 0

    def __add__(self, other: Did) -> Did:
        """Both together."""
        return Did(
            self.ran_ns + other.ran_ns,
            self.waited_ns + other.waited_ns,
            self.slices + other.slices,
        )

    def __sub__(self, other: Did) -> Did:
        """What lies between."""
        return Did(
            self.ran_ns - other.ran_ns,
            self.waited_ns - other.waited_ns,
            self.slices - other.slices,
        )


class Threads:
    """The threads of one process that were there at the beginning, told apart by their names."""

    def __init__(self, pid: int, proc: Path = Path("/proc")) -> None:
        """Raises SystemFailed where it is gone or has no reactors, HostError without schedstat."""
        self._task = proc / str(pid) / "task"
        self._reactors = [path / "schedstat" for path in self._all() if _is_reactor(path)]
        if not self._reactors:
            raise SystemFailed(f"process {pid} has no threads named {REACTOR.strip()!r} and so on")
        if not self._reactors[0].exists():
            raise HostError(f"{self._reactors[0]} is missing: the kernel needs CONFIG_SCHED_INFO")

    def reactors(self) -> Did:
        """What the reactors did. Raises SystemFailed."""
        return sum((_did(path) for path in self._reactors), Did())

    def others(self) -> Did:
        """What all other threads did that are there now, such as the kernel's workers for it."""
        own = set(self._reactors)
        rest = (path / "schedstat" for path in self._all())
        return sum((_did(path) for path in rest if path not in own), Did())

    def _all(self) -> list[Path]:
        try:
            return sorted(self._task.iterdir())
        except OSError as error:
            raise SystemFailed(f"{self._task}: {error.strerror}: the server has ended") from error


def of_thread(number: int, proc: Path = Path("/proc")) -> Did:
    """What a thread of this process did."""
    return _did(proc / "self" / "task" / str(number) / "schedstat")


def _is_reactor(task: Path) -> bool:
    try:
        return (task / "comm").read_text(errors="replace").startswith(REACTOR)
    except OSError:
        return False


def _did(path: Path) -> Did:
    try:
        ran, waited, slices = path.read_text().split()
    except (OSError, ValueError):
        return Did()
    return Did(int(ran), int(waited), int(slices))
