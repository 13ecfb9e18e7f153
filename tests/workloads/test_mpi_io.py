"""Large transfers by real MPI ranks, small: both ways of access, shifted and verified."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from wattio import clock
from wattio.errors import Cancelled, ResultError, WorkloadFailed
from wattio.workloads import mpi_io, mpi_launch, mpi_report
from wattio.workloads.mpi_io import FOLDER, Options, Work, results
from wattio.workloads.workload import Context, Operation, Place

from workloads.hosts_fake import shared_hosts

MIB = 1 << 20


def work(**options: object) -> Work:
    return Work(
        Options.model_validate({"total": "4 MiB", "transfer": "256 KiB", **options}), Path()
    )


def step(subject: Work, name: str, root: Path, clients: int) -> tuple[Context, Operation]:
    """Run a step; its span holds what its result tells."""
    (root / name).mkdir(exist_ok=True)
    context = Context((Place(root),) * clients, root / name)
    before = clock.now()
    spans = subject.run(name, context)
    after = clock.now()
    found = results(context.raw)
    assert [span.name for span in spans] == [one.phase for one in found] == [name]
    span = spans[0]
    assert before.monotonic_ns < span.start.monotonic_ns < span.end.monotonic_ns
    assert span.end.monotonic_ns < after.monotonic_ns
    assert found[0].seconds == pytest.approx(span.seconds)
    assert found[0].start_utc_ns == span.start.utc_ns
    return context, found[0]


@pytest.mark.parametrize(
    ("api", "segments", "clients"), [("posix", 2, 2), ("mpiio", 2, 2), ("mpiio", 1, 1)]
)
def test_data_are_written_and_read(tmp_path: Path, api: str, segments: int, clients: int) -> None:
    subject = work(api=api, segments=segments)
    subject.probe()
    subject.prepare(Context((Place(tmp_path),) * clients, tmp_path))
    for name in subject.steps():
        context, found = step(subject, name, tmp_path, clients)
        assert found.bytes == 4 * MIB
        assert found.operations == 16
        assert found.throughput_mib_s == pytest.approx(4 / found.seconds) if found.seconds else None
        assert set(found.latency_us) == {"mean", "min", "max", "p50", "p95", "p99"}
    files = sorted(path.name for path in (tmp_path / FOLDER).iterdir())
    shared, own = ["data"], [f"data.{number:06}" for number in range(clients)]
    assert files == (shared if api == "mpiio" else own)
    assert sum(path.stat().st_size for path in (tmp_path / FOLDER).iterdir()) == 4 * MIB
    subject.clean(context)
    subject.clean(context)
    assert not (tmp_path / FOLDER).exists()


def test_what_is_doubtful_is_told(tmp_path: Path) -> None:
    subject = work(total="4.1 MiB", fsync=False)
    _, written = step(subject, "write", tmp_path, 1)
    assert any("without fsync" in doubt for doubt in written.doubts)
    assert any("do not divide into whole transfers" in doubt for doubt in written.doubts)
    _, read = step(subject, "read", tmp_path, 1)
    assert any("less than the clients' memory" in doubt for doubt in read.doubts)
    assert any("what it had made itself" in doubt for doubt in read.doubts)
    assert not any("fsync" in doubt for doubt in read.doubts)


def test_wrong_data_fail_the_step(tmp_path: Path) -> None:
    subject = work()
    step(subject, "write", tmp_path, 2)
    damaged = tmp_path / FOLDER / "data.000001"
    with damaged.open("r+b") as file:
        file.seek(MIB + 3)
        file.write(b"?")
    # Rank 0 reads what rank 1 wrote: the ranks are shifted.
    message = r"read: rank 0 on .*: wrong data in the part of rank 1 at byte 1048576"
    with pytest.raises(WorkloadFailed, match=message):
        subject.run("read", Context((Place(tmp_path),) * 2, tmp_path / "write"))
    damaged.unlink()
    with pytest.raises(WorkloadFailed, match=r"No such file.*data\.000001"):
        subject.run("read", Context((Place(tmp_path),) * 2, tmp_path / "write"))


def test_without_shift_each_reads_its_own(tmp_path: Path) -> None:
    subject = work(shift=False)
    step(subject, "write", tmp_path, 2)
    (tmp_path / FOLDER / "data.000001").write_bytes(b"")
    with pytest.raises(WorkloadFailed, match=r"rank 1 on .*: .*ends at byte 0"):
        subject.run("read", Context((Place(tmp_path),) * 2, tmp_path / "write"))


def test_ranks_of_a_client_and_held_memory_are_reported(tmp_path: Path) -> None:
    subject = work(memory_held=0.001, launcher={"ranks_per_client": 2})
    context, _ = step(subject, "write", tmp_path, 2)
    report = mpi_report.read(context.raw / "output.txt")
    assert [rank.client for rank in report.ranks] == [0, 0, 1, 1]
    memory = report.ranks[0].memory_bytes
    held = sum(rank.memory_held_bytes for rank in report.ranks)
    assert held == pytest.approx(memory * 0.001, rel=0.01)
    step(subject, "read", tmp_path, 2)
    doubts = results(tmp_path / "read")[0].doubts
    assert any("clients share a host and a mount" in doubt for doubt in doubts)
    assert [offset.rank for offset in report.clocks["before"]] == [2]
    assert set(report.clocks) == {"before", "after"}
    # One machine has one clock.
    assert report.offset_s_max < mpi_report.OFFSET_DOUBTFUL_S


def test_places_of_different_file_systems_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr(mpi_launch, "SEEN_S", 0.2)
    context = Context((Place(tmp_path / "a"), Place(tmp_path / "b")), tmp_path)
    with pytest.raises(
        WorkloadFailed, match=r"client 2 does not see .* do not share a file system"
    ):
        work().run("write", context)


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    context = Context((Place(tmp_path / "file"),), tmp_path)
    with pytest.raises(WorkloadFailed, match=r"write: rank 0 on .*Not a directory"):
        work().run("write", context)


def test_cancelling_ends_all_ranks(tmp_path: Path) -> None:
    cancelled = threading.Event()
    cancelled.set()
    with pytest.raises(Cancelled):
        work().run("write", Context((Place(tmp_path),), tmp_path, cancelled))


def test_ranks_end_with_a_study_that_is_killed(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from wattio.workloads.mpi_io import Options, Work\n"
        "from wattio.workloads.workload import Context, Place\n"
        "options = Options.model_validate({'total': '1 GiB', 'transfer': '512 B'})\n"
        "root = Path(sys.argv[1])\n"
        "Work(options, root).run('write', Context((Place(root),) * 2, root))\n"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(tmp_path)]) as study:
        data = tmp_path / FOLDER / "data.000001"
        wait_for(lambda: data.exists() and data.stat().st_size > 0)
        study.kill()
    wait_for(lambda: not naming(tmp_path))


def wait_for(reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not reached():
        assert time.monotonic() < deadline
        threading.Event().wait(0.02)


def naming(folder: Path) -> list[str]:
    """Processes with a folder in their command line."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            command = (entry / "cmdline").read_text(errors="replace")
        except OSError:
            continue
        if str(folder) in command:
            found.append(entry.name)
    return found


def test_results_need_their_raw_files(tmp_path: Path) -> None:
    with pytest.raises(ResultError, match="cannot be read"):
        results(tmp_path)


def test_facts_are_plain_data() -> None:
    facts = work().describe()
    assert "Open MPI" in facts["mpirun_version"]
    assert facts["total"] == "4194304.0 B"
    json.dumps(facts)
    assert work().seconds_guess(4) > 0
    assert work().steps() == mpi_io.STEPS


def test_clients_on_named_hosts_are_cleaned_up(tmp_path: Path) -> None:
    subject = work(total="1 MiB")
    places = (Place(tmp_path, socket.gethostname()),) * 2
    context = Context(places, tmp_path, hosts=shared_hosts())
    subject.prepare(context)
    subject.run("write", context)
    assert results(tmp_path)[0].bytes == MIB
    subject.clean(context)
    assert not (tmp_path / FOLDER).exists()


def test_nothing_is_made_or_removed_to_see_that_places_are_one(tmp_path: Path) -> None:
    """A token was removed before each step: servers that remove later did so in its phase."""
    subject = work()
    step(subject, "write", tmp_path, 2)
    step(subject, "read", tmp_path, 2)
    assert (tmp_path / FOLDER).stat().st_mtime < 10**9


@pytest.mark.parametrize(
    ("options", "files"),
    [
        ({"file_per_process": False}, ["data"]),
        ({"api": "mpiio", "file_per_process": True}, ["data.000000", "data.000001"]),
        ({"api": "mpiio", "collective": True, "hints": {"cb_nodes": "1"}}, ["data"]),
        ({"order": "random", "segments": 2}, ["data.000000", "data.000001"]),
        ({"api": "mpiio", "collective": True, "order": "random", "shift": "random"}, ["data"]),
    ],
)
def test_each_way_of_access_writes_and_reads_all(
    tmp_path: Path, options: dict[str, object], files: list[str]
) -> None:
    subject = work(**options)
    for name in subject.steps():
        _, found = step(subject, name, tmp_path, 2)
        assert (found.bytes, found.operations) == (4 * MIB, 16)
    assert sorted(path.name for path in (tmp_path / FOLDER).iterdir()) == files
    assert sum(path.stat().st_size for path in (tmp_path / FOLDER).iterdir()) == 4 * MIB
    json.dumps(subject.describe())


def test_files_of_all_hold_the_same_whichever_way_they_were_written(tmp_path: Path) -> None:
    """Of one seed the shared file is one and the same, by POSIX, MPI-IO, and in any order."""
    ways: list[dict[str, object]] = [
        {"file_per_process": False},
        {"api": "mpiio"},
        {"api": "mpiio", "collective": True, "order": "random"},
    ]
    found = set()
    for number, way in enumerate(ways):
        root = tmp_path / str(number)
        root.mkdir()
        step(work(segments=2, **way), "write", root, 2)
        found.add((root / FOLDER / "data").read_bytes())
    assert len(found) == 1


def test_ranks_that_move_together_go_to_the_end_where_one_fails(tmp_path: Path) -> None:
    """A rank that stops would have the others wait for it in the next collective call."""
    subject = work(api="mpiio", collective=True)
    step(subject, "write", tmp_path, 2)
    with (tmp_path / FOLDER / "data").open("r+b") as file:
        file.seek(3 * MIB + 5)
        file.write(b"?")
    message = r"read: rank 0 on .*: wrong data in the part of rank 1 at byte 3145728"
    with pytest.raises(WorkloadFailed, match=message):
        subject.run("read", Context((Place(tmp_path),) * 2, tmp_path / "write"))
    with (tmp_path / FOLDER / "data").open("r+b") as file:
        file.truncate(3 * MIB)
    with pytest.raises(WorkloadFailed, match=r"ends at byte"):
        subject.run("read", Context((Place(tmp_path),) * 2, tmp_path / "write"))


def test_hints_that_the_library_took_are_recorded_and_others_told(tmp_path: Path) -> None:
    hints = {"cb_buffer_size": "1048576", "wattio_hint": "yes"}
    context, found = step(work(api="mpiio", hints=hints), "write", tmp_path, 2)
    taken = mpi_report.read(context.raw / "output.txt").facts["hints"]
    assert taken["cb_buffer_size"] == "1048576"
    assert "wattio_hint" not in taken
    told = [doubt for doubt in found.doubts if "hint" in doubt]
    assert len(told) == 1
    assert 'the hint wattio_hint = "yes" was not taken' in told[0]
    assert "does not know it" in told[0]


def test_a_shift_by_all_clients_is_none(tmp_path: Path) -> None:
    subject = work(shift_by=2)
    step(subject, "write", tmp_path, 2)
    _, found = step(subject, "read", tmp_path, 2)
    assert any("what it had made itself" in doubt for doubt in found.doubts)


def test_a_file_system_may_keep_times_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ranks waited for the time that the first one gave, which pvfs2fuse and JULEA do not keep."""
    place = tmp_path / "lent"
    place.mkdir()
    (place / "sitecustomize.py").write_text("import os\nos.utime = lambda *_, **__: None\n")
    monkeypatch.setenv("PYTHONPATH", str(place), prepend=":")
    work_folder = tmp_path / "work"
    work_folder.mkdir()
    subject = work()
    step(subject, "write", work_folder, 2)
    step(subject, "read", work_folder, 2)
    assert (work_folder / FOLDER).stat().st_mtime > 10**9
