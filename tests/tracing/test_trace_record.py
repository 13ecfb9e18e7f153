"""Recording for real: what was written to a disk is what the trace holds.

Needs root, loop devices and a kernel with tracefs; run by `make test-system`.
"""

import contextlib
import csv
import mmap
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from wattio.tracing import Recording, RecordingError, record
from wattio.tracing.tracefs import PREFIX, tracefs

pytestmark = [
    pytest.mark.system,
    pytest.mark.alone,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root may read the kernel's tracepoints"),
]

KIB = 1024
WRITES, WRITE_BYTES = 100, 64 * KIB
READS, READ_BYTES = 50, 16 * KIB
DISK_BYTES = 64 * KIB * KIB
DEADLINE_S = 30.0

Request = tuple[str, int, int]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[str]:
    """A scratch disk: a loop device over a file."""
    image = tmp_path / "image"
    with image.open("wb") as file:
        file.truncate(DISK_BYTES)
    command = ("losetup", "--find", "--show", str(image))
    device = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    try:
        yield device
    finally:
        subprocess.run(("losetup", "--detach", device), check=True)


# A process of its own: the recorder leaves out what its own process does.
LOAD = """
import mmap, os, sys
device, writes, write_bytes, reads, read_bytes = sys.argv[1], *map(int, sys.argv[2:])
disk = os.open(device, os.O_RDWR | os.O_DIRECT)
page = mmap.mmap(-1, write_bytes)
for index in range(writes):
    os.pwrite(disk, page, index * write_bytes)
page = mmap.mmap(-1, read_bytes)
for index in range(reads):
    os.preadv(disk, [page], index * 3 * read_bytes)
os.fsync(disk)
"""


def load(device: str) -> subprocess.Popen[bytes]:
    numbers = (WRITES, WRITE_BYTES, READS, READ_BYTES)
    return subprocess.Popen((sys.executable, "-c", LOAD, device, *map(str, numbers)))


def requests(trace: Path) -> list[Request]:
    with trace.open(newline="") as file:
        return [(row[3], int(row[4]), int(row[5])) for row in csv.reader(file)]


def instances() -> list[str]:
    with tracefs() as root:
        return sorted(path.name for path in (root / "instances").glob(f"{PREFIX}*"))


def record_load(disk: str, out: Path) -> Recording:
    """Record until the load has ended."""
    started: list[subprocess.Popen[bytes]] = []

    def progress(_: float, __: int) -> None:
        if not started:
            started.append(load(disk))
        elif started[0].poll() is not None:
            os.kill(os.getpid(), signal.SIGINT)

    done = record(disk, DEADLINE_S, out, "msr", progress)
    assert started[0].wait() == 0
    return done


def test_the_trace_holds_what_was_written_and_read(disk: str, tmp_path: Path) -> None:
    out = tmp_path / "trace.csv"
    done = record_load(disk, out)
    found = requests(out)
    assert done.stopped
    assert done.ios == len(found)
    assert done.flushes >= 1
    writes = [request for request in found if request[0] == "Write"]
    assert writes == [("Write", index * WRITE_BYTES, WRITE_BYTES) for index in range(WRITES)]
    wanted = [("Read", index * 3 * READ_BYTES, READ_BYTES) for index in range(READS)]
    # Who watches disks (udev) may look at this one too, after it was closed.
    assert [request for request in found if request in wanted] == wanted


def test_nothing_of_the_recording_stays(disk: str, tmp_path: Path) -> None:
    before = instances()
    record_load(disk, tmp_path / "trace.csv")
    assert instances() == before
    assert "wattio-tracefs-" not in Path("/proc/mounts").read_text()
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == ["image", "trace.csv"]


def test_own_requests_are_left_out_and_silence_is_an_error(disk: str, tmp_path: Path) -> None:
    page = mmap.mmap(-1, WRITE_BYTES)
    descriptor = os.open(disk, os.O_RDWR | os.O_DIRECT)

    def progress(_: float, __: int) -> None:
        os.pwrite(descriptor, page, 0)

    try:
        with pytest.raises(RecordingError, match="no request reached"):
            record(disk, 0.5, tmp_path / "trace", progress=progress)
    finally:
        os.close(descriptor)
    assert not (tmp_path / "trace").exists()


def test_lost_events_are_an_error_and_leave_no_file(
    disk: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A buffer of one page and a recorder that does not read in time."""
    monkeypatch.setattr("wattio.tracing.recorder.BUFFER_KIB_PER_CPU", 1)
    waited: list[int] = []

    def progress(_: float, __: int) -> None:
        if not waited:
            waited.extend(load(disk).wait() for _ in range(4))

    with pytest.raises(RecordingError, match="events were lost"):
        record(disk, 1.0, tmp_path / "trace", progress=progress)
    assert not (tmp_path / "trace").exists()


def command(disk: str, out: Path) -> subprocess.Popen[str]:
    words = ("trace", "record", "--device", disk, "--duration", "30 s", "--out", str(out))
    start = "from wattio.cli import main; main()"
    return subprocess.Popen(
        (sys.executable, "-c", start, *words), stderr=subprocess.PIPE, text=True
    )


def wait_for(condition: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline_s, "it did not happen in time"
        time.sleep(0.02)


def is_recording(pid: int) -> bool:
    enabled = f"instances/{PREFIX}{pid}/tracing_on"
    with tracefs() as root, contextlib.suppress(OSError):
        event = (root / f"instances/{PREFIX}{pid}/events/block/block_bio_queue/enable").read_text()
        return event.strip() == "1" and (root / enabled).read_text().strip() == "1"
    return False


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_keeps_what_was_recorded(number: int, disk: str, tmp_path: Path) -> None:
    out = tmp_path / "trace"
    with command(disk, out) as process:
        wait_for(lambda: is_recording(process.pid))
        assert load(disk).wait() == 0
        process.send_signal(number)
        _, messages = process.communicate(timeout=DEADLINE_S)
        assert process.returncode == 0, messages
    assert "stopped after" in messages
    assert out.stat().st_size > 0
    assert f"{PREFIX}{process.pid}" not in instances()


def test_the_next_recording_cleans_up_after_a_kill(disk: str, tmp_path: Path) -> None:
    with command(disk, tmp_path / "killed") as process:
        wait_for(lambda: is_recording(process.pid))
        process.kill()
    killed = f"{PREFIX}{process.pid}"
    assert killed in instances()
    record_load(disk, tmp_path / "trace.csv")
    assert killed not in instances()
    assert not (tmp_path / "killed").exists()
    assert "wattio-tracefs-" not in Path("/proc/mounts").read_text()
