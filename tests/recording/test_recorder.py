"""The recorder with its process: what it records, survives and ends with."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from wattio.errors import InputError, ResultError, storage_reason
from wattio.meters.meter import MeterLost, MeterRefused
from wattio.recording import Recorder, Source, journal

HEADER = "time,power\n"


def eventually(condition: Callable[[], object], timeout_s: float = 30.0) -> None:
    deadline_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline_s, "it never came"
        time.sleep(0.01)


def line(power_w: float) -> str:
    return f"{time.time_ns()},{power_w}\n"


def sensor(root: Path, text: str = "45000000\n") -> Path:
    chip = root / "sys" / "class" / "hwmon" / "hwmon0"
    chip.mkdir(parents=True)
    (chip / "name").write_text("chip\n")
    (chip / "power1_input").write_text(text)
    return chip / "power1_input"


def alive(process_id: int) -> bool:
    """Whether it runs; what has ended and waits for its parent does not."""
    try:
        state = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_readings_come_from_the_process_and_stay_after_it(tmp_path: Path) -> None:
    sensor(tmp_path / "root")
    name = f"hwmon:chip/power1?root={tmp_path}/root"
    slow, fast = Source("slow", name, 50.0), Source("fast", name, 1000.0)
    with Recorder([slow, fast], tmp_path / "out") as recorder:
        facts = recorder.start()
        assert facts["slow"].name.startswith("hwmon:chip/power1")
        start_ns = time.monotonic_ns()
        end_ns = start_ns + 300_000_000
        for label in ("slow", "fast"):
            assert recorder.caught_up(label, end_ns, 30.0)
        rows = recorder.read("fast", start_ns, end_ns)
        assert set(rows.power_w) == {45.0}
        assert start_ns <= rows.monotonic_ns[0] < rows.monotonic_ns[-1] <= end_ns
        assert all(rows.monotonic_ns[1:] > rows.monotonic_ns[:-1])
    whole = journal.read_folder(tmp_path / "out")
    assert len(whole["fast"]) > len(rows)
    assert not [event for event in recorder.events() if event.kind not in ("missed", "silent")]


def test_what_the_meter_says_reaches_who_starts(tmp_path: Path) -> None:
    def start(name: str) -> None:
        with Recorder([Source("node", name)], tmp_path / "out") as recorder:
            recorder.start()

    with pytest.raises(InputError, match="unknown kind"):
        start("nosuch:meter")
    with pytest.raises(MeterRefused, match="no such meter"):
        start(f"hwmon:chip/power1?root={tmp_path}")
    with pytest.raises(InputError, match='meter label "a" is named twice'):
        Recorder([Source("a", "x:"), Source("a", "y:")], tmp_path)
    with pytest.raises(InputError, match="allowed is above 0 to"):
        Recorder([Source("a", "x:", 0.0)], tmp_path)


def test_a_meter_that_never_answers_is_named(tmp_path: Path) -> None:
    (tmp_path / "never").write_text(HEADER)
    recorder = Recorder([Source("node", f"csv:{tmp_path}/never?timeout=1 h")], tmp_path / "out")
    with recorder, pytest.raises(MeterLost, match="node: no reading within 1 s"):
        recorder.start(timeout_s=1.0)


def test_a_failure_does_not_wait_for_who_never_answers(tmp_path: Path) -> None:
    (tmp_path / "never").write_text(HEADER)
    sources = [
        Source("never", f"csv:{tmp_path}/never?timeout=1 h"),
        Source("wrong", "csv:/nowhere"),
    ]
    recorder = Recorder(sources, tmp_path / "out")
    with recorder, pytest.raises(InputError, match="/nowhere: cannot be read"):
        recorder.start(timeout_s=600.0)


def test_a_stalled_reader_holds_up_nobody(tmp_path: Path) -> None:
    """A reading that never returns, as from a file system that hangs, is one meter's trouble."""
    log = tmp_path / "log.csv"
    log.write_text(HEADER + line(1.0))
    sensor(tmp_path / "root")
    stalled = Source("stalled", f"csv:{log}?timeout=1 h")
    other = Source("other", f"hwmon:chip/power1?root={tmp_path}/root", 100.0)
    with Recorder([stalled, other], tmp_path / "out") as recorder:
        recorder.start()
        assert recorder.caught_up("other", time.monotonic_ns() + 200_000_000, 30.0)
        assert not recorder.caught_up("stalled", time.monotonic_ns(), 0.1)


@pytest.mark.parametrize("rate_hz", [20.0, 500.0])
def test_a_lost_meter_is_opened_again_and_the_gap_told(tmp_path: Path, rate_hz: float) -> None:
    power = sensor(tmp_path / "root")
    source = Source("node", f"hwmon:chip/power1?root={tmp_path}/root", rate_hz)
    with Recorder([source], tmp_path / "out") as recorder:
        recorder.start()

        def told() -> list[str]:
            return [event.kind for event in recorder.events()]

        power.write_text("nonsense\n")
        eventually(lambda: "lost" in told())
        power.write_text("46000000\n")
        eventually(lambda: "back" in told())
        assert recorder.caught_up("node", time.monotonic_ns() + 50_000_000, 30.0)
        assert recorder.read_all("node").power_w[-1] == 46.0


@pytest.mark.parametrize("rate_hz", [20.0, 500.0])
def test_a_kernel_meter_that_is_gone_for_a_moment_is_opened_again(
    tmp_path: Path, rate_hz: float
) -> None:
    """A driver was loaded anew within 0.1 s; the meter had refused, for the rest of the session."""
    folder = sensor(tmp_path / "root").parent
    source = Source("node", f"hwmon:chip/power1?root={tmp_path}/root", rate_hz)
    with Recorder([source], tmp_path / "out") as recorder:
        recorder.start()

        def told() -> list[str]:
            return [event.kind for event in recorder.events()]

        folder.rename(tmp_path / "away")
        eventually(lambda: "lost" in told())
        # It is tried at least once while it is away: after 0.1 s for the first time.
        gone_s = time.monotonic()
        eventually(lambda: time.monotonic() - gone_s > 0.3)
        (tmp_path / "away").rename(folder)
        eventually(lambda: "back" in told())
        assert "refused" not in told()
        assert recorder.caught_up("node", time.monotonic_ns() + 50_000_000, 30.0)


def test_the_process_ends_with_the_one_that_started_it(tmp_path: Path) -> None:
    sensor(tmp_path / "root")
    script = f"""
import sys, time
from pathlib import Path
from wattio.recording import Recorder, Source
source = Source("node", "hwmon:chip/power1?root={tmp_path}/root", 100.0)
recorder = Recorder([source], Path("{tmp_path}/out"))
recorder.start()
print(recorder.process_id, flush=True)
time.sleep(1000)
"""
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert alive(child)
        parent.kill()
    eventually(lambda: not alive(child))
    assert len(journal.read_folder(tmp_path / "out")["node"]) > 0


def test_ctrl_c_is_not_for_the_process_and_its_end_is_told(tmp_path: Path) -> None:
    sensor(tmp_path / "root")
    source = Source("node", f"hwmon:chip/power1?root={tmp_path}/root", 100.0)
    with Recorder([source], tmp_path / "out") as recorder:
        recorder.start()
        assert os.getsid(recorder.process_id) != os.getsid(0)
        os.kill(recorder.process_id, signal.SIGINT)
        assert recorder.caught_up("node", time.monotonic_ns() + 100_000_000, 30.0)
        os.kill(recorder.process_id, signal.SIGKILL)
        eventually(lambda: not recorder.caught_up("node", time.monotonic_ns() + 10**12, 0.0))
        eventually(lambda: [e.kind for e in recorder.events()][-1:] == ["ended"])
        assert len(recorder.read_all("node")) > 0


def test_what_befalls_its_own_files_is_told_with_their_names(tmp_path: Path) -> None:
    """A full disk was `[Errno 28]` of a meter, or a process that left no word."""
    file = tmp_path / "out" / journal.samples_name(0)
    file.mkdir(parents=True)
    with (
        Recorder([Source("one", "estimate:assumed")], tmp_path / "out") as recorder,
        pytest.raises(ResultError, match=f"^{file}: Is a directory$"),
    ):
        recorder.start()


def test_a_record_that_cannot_be_written_names_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    file = journal.RecordFile(tmp_path / "0.samples")
    with monkeypatch.context() as filled:
        filled.setattr(os, "write", full)
        with pytest.raises(OSError, match="No space left") as raised:
            file.add(b"record")
    assert storage_reason(raised.value) == f"{tmp_path}/0.samples: No space left on device"
