"""fio as a workload: its options, its jobs, and real runs in which it moves what it was told to."""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from hosts.conftest import local_ssh as local_ssh
from pydantic import ValidationError
from wattio import clock
from wattio.clock import Instant, Span
from wattio.errors import Cancelled, InputError, ResultError, WorkloadFailed
from wattio.hosts.host import Access
from wattio.hosts.hosts import Hosts
from wattio.workloads import fio, invocation, processes
from wattio.workloads.processes import Ended, Program
from wattio.workloads.workload import Context, Operation, Place

from .fio_fake import END_MS, direction, job, output
from .hosts_fake import shared_hosts
from .nbd_fake import listening, serving

MIB = 1 << 20
MS = 1_000_000
WRITE = {"name": "write", "rw": "write", "bs": "1 MiB", "size": "8 MiB"}
READ = {"name": "read", "rw": "read", "bs": "1 MiB", "size": "8 MiB"}

needs_fio = [
    pytest.mark.system,
    pytest.mark.alone,
    pytest.mark.skipif(shutil.which("fio") is None, reason="fio is not installed"),
]


def work(base: Path, *jobs: Mapping[str, object]) -> fio.Work:
    return fio.Work(fio.Options.model_validate({"jobs": list(jobs)}), base)


def context(base: Path, clients: int = 1, raw: str = "raw") -> Context:
    places = []
    for number in range(clients):
        folder = base / f"client {number}"
        folder.mkdir(exist_ok=True)
        places.append(Place(folder))
    (base / raw).mkdir(exist_ok=True)
    return Context(tuple(places), base / raw)


def test_options_of_a_job_become_fios() -> None:
    entry = fio.JobEntry.model_validate(
        READ
        | {"runtime": "1500 ms", "time_based": True, "ramp_time": "2 s", "iodepth": 8}
        | {"direct": True, "options": {"rate": "1m", "thread": True, "bs": "4k"}}
    )
    lines = entry.text().split("\n")
    for line in ("[read]", "rw=read", f"size={8 * MIB}", "runtime=1500ms", "ramp_time=2000ms"):
        assert line in lines
    for line in ("iodepth=8", "direct=1", "time_based=1", "rate=1m", "thread=1", "bs=4k"):
        assert line in lines
    assert f"bs={MIB}" not in lines
    assert "filename_format=data.$jobnum.$filenum" in lines


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "give either job"),
        ({"job": "a.fio", "jobs": [READ]}, "give either job"),
        ({"jobs": [READ, READ]}, 'two jobs are named "read"'),
        ({"jobs": [READ | {"time_based": True}]}, "time_based needs runtime"),
        ({"jobs": [READ | {"options": {"a": "b\nc"}}]}, "holds a line break"),
        ({"jobs": [READ | {"rw": "sideways"}]}, "Input should be"),
    ],
)
def test_options_that_do_not_go_together(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        fio.Options.model_validate(options)


def test_a_job_file_is_found_beside_the_study(tmp_path: Path) -> None:
    (tmp_path / "jobs.fio").write_text("[a]\nrw=read\nsize=1m\n[b]\nstonewall\nrw=write\n")
    found = fio.Work(fio.Options(job="jobs.fio"), tmp_path)
    assert found.steps() == ("a", "b")
    assert found.seconds_guess(1) == 120.0
    with pytest.raises(InputError, match=r"none.fio: cannot be read"):
        fio.Work(fio.Options(job="none.fio"), tmp_path)


def test_a_guess_follows_size_and_limit(tmp_path: Path) -> None:
    limited = READ | {"size": "100 GB", "runtime": "60 s", "ramp_time": "5 s"}
    assert work(tmp_path, limited).seconds_guess(2) == 66.0
    assert work(tmp_path, READ | {"size": "1 GB"}).seconds_guess(2) == 21.0


def kept(raw: Path, text: str) -> None:
    moment = {"utc_ns": 1, "monotonic_ns": 1}
    ran = {f"{which}_{key}": value for which in ("start", "end") for key, value in moment.items()}
    program = {"arguments": ["fio"], "out": "a.json", "host": "localhost", "code": 0, **ran}
    told = {"step": "steady", "programs": [program, program]}
    (raw / invocation.FILE).write_text(json.dumps(told))
    (raw / "a.json").write_text(text)


def test_results_come_from_the_raw_folder_alone(tmp_path: Path) -> None:
    kept(tmp_path, output(job(read=direction(10))))
    assert [(one.phase, one.operations) for one in fio.results(tmp_path)] == [("steady", 20)]
    kept(tmp_path, output(job(error=5)))
    with pytest.raises(ResultError, match=r"a.json: job \"a\" ended with error 5"):
        fio.results(tmp_path)


def test_a_wall_clock_that_is_ahead_moves_no_phase(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """fio tells by its host's wall clock when a job began."""

    def told(ahead_ms: int) -> tuple[Span, Operation]:
        def run_all(programs: Sequence[Program], *_: object, **__: object) -> list[Ended]:
            ended = []
            for program, by_ms in zip(programs, (0, ahead_ms), strict=True):
                one = job(read=direction(10), start_ms=END_MS - 60_000 + by_ms)
                program.out.write_text(output(one, end_ms=END_MS + by_ms))
                start, end = (Instant((END_MS + at) * MS, at * MS) for at in (-61_000, 500))
                ended.append(Ended(program, 0, start, end, by_ms * MS))
            return ended

        monkeypatch.setattr(processes, "run_all", run_all)
        raw = tmp_path / f"{ahead_ms} ms"
        raw.mkdir()
        places = tuple(Place(tmp_path / name, name) for name in ("n1", "n2"))
        (span,) = work(tmp_path, READ).run("read", Context(places, raw, hosts=shared_hosts()))
        return span, fio.results(raw)[0]

    assert told(40) == told(-40) == told(0)
    assert told(1)[0].seconds == 60.0


OF_DEVICE = READ | {"ioengine": "nbd"}


def test_a_device_takes_jobs_of_its_engine_and_a_folder_takes_none(tmp_path: Path) -> None:
    """Else the folder of a system that serves a device would be measured in its place."""
    folder, device = Place(tmp_path), Place(tmp_path, uri="nbd+unix:///?socket=/s")
    for entry, place, message in (
        (READ, device, 'needs ioengine = "nbd"'),
        (OF_DEVICE, folder, "is a folder, not a block device"),
    ):
        one = work(tmp_path, entry)
        raw = tmp_path / str(len(message))
        raw.mkdir()
        with pytest.raises(WorkloadFailed, match=f'"read": .*{message}'):
            one.run("read", Context((place,), raw))


def test_the_engine_of_a_job_file_may_be_told_for_all_jobs(tmp_path: Path) -> None:
    (tmp_path / "j.fio").write_text("[global]\nioengine=nbd\n[a]\nrw=read\n[global]\nbs=4k\n[b]\n")
    group = fio.Work(fio.Options(job="j.fio"), tmp_path)._groups["a"]
    jobs = [one for one in group.sections if one.name != "global"]
    assert [group.value(one, "ioengine") for one in jobs] == ["nbd", "nbd"]
    assert [group.value(one, "bs") for one in jobs] == [None, "4k"]


def test_a_device_that_is_too_small_is_told(tmp_path: Path) -> None:
    with listening(tmp_path / "s", serving(bytes(MIB))) as uri:
        where = Context((Place(tmp_path, uri=uri),), tmp_path)
        with pytest.raises(
            WorkloadFailed, match=f"work on {8 * MIB} bytes, .* has {MIB}: enlarge it"
        ):
            work(tmp_path, OF_DEVICE).prepare(where)


@pytest.mark.parametrize(
    ("line", "uncounted"),
    [("ramp_time=2000ms", "a ramp"), ("ramp_time=0", None), ("runtime=2s", None)],
)
def test_what_a_ramp_moved_is_not_in_the_counts(
    tmp_path: Path, line: str, uncounted: str | None
) -> None:
    kept(tmp_path, output(job(read=direction(10))))
    (tmp_path / "client-0.fio").write_text(f"[global]\n[steady]\n{line}\n")
    assert [one.uncounted for one in fio.results(tmp_path)] == [uncounted]


class TestReal:
    """With the installed fio."""

    pytestmark = needs_fio

    def test_two_clients_write_and_read(self, tmp_path: Path) -> None:
        moving = work(tmp_path, WRITE, READ)
        moving.probe()
        assert str(moving.describe()["fio_version"]).startswith("fio-")
        where = context(tmp_path, clients=2)
        moving.prepare(where)
        assert not list(where.raw.iterdir())  # what is read will have been written
        for step in moving.steps():
            raw = tmp_path / step
            raw.mkdir()
            before = clock.now()
            spans = moving.run(step, Context(where.places, raw))
            after = clock.now()
            assert [one.name for one in spans] == [step]
            assert before.monotonic_ns <= spans[0].start.monotonic_ns
            assert spans[0].start.monotonic_ns <= spans[0].end.monotonic_ns <= after.monotonic_ns
            found = fio.results(raw)
            assert [(one.operation, one.phase, one.bytes) for one in found] == [
                (step, step, 16 * MIB)
            ]
            assert found[0].operations == 16
            assert found[0].latency_us["p99"] > 0
        for number, place in enumerate(where.places):
            files = list((place.folder / fio.FOLDER / f"client-{number}").iterdir())
            assert [(one.name, one.stat().st_size) for one in files] == [("data.0.0", 8 * MIB)]
        moving.clean(where)
        moving.clean(where)
        assert not any(list(place.folder.iterdir()) for place in where.places)

    @pytest.mark.timeout(60)
    def test_a_server_that_gives_no_answer_any_more_does_not_hold_it_up(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """fio waits for ever, whatever its run time is; its job is ended with it."""
        asked = []

        class Gone:
            def __init__(self, uri: str) -> None:
                asked.append(uri)

            def __call__(self, pid: int) -> str:
                return "waits for a server that is gone"

        monkeypatch.setattr(fio, "Watch", Gone)
        raw = tmp_path / "raw"
        raw.mkdir()
        with listening(tmp_path / "s", serving(bytes(8 * MIB), answers=0)) as uri:
            where = Context((Place(tmp_path, uri=uri),), raw)
            where.make_folders(fio.FOLDER)
            with pytest.raises(WorkloadFailed, match="fio waits for a server that is gone"):
                work(tmp_path, OF_DEVICE | {"runtime": "1 s", "time_based": True}).run(
                    "read", where
                )
        assert asked == [uri]
        assert "thread=1" in (raw / "client-0.fio").read_text().splitlines()

    def test_files_to_read_are_laid_out_before(self, tmp_path: Path) -> None:
        (tmp_path / "j.fio").write_text(
            "[a]\nrw=randread\nbs=4k\nsize=1m\n[b]\nstonewall\nrw=read\nsize=2m\n"
        )
        for moving, names in (
            (work(tmp_path, READ), {"data.0.0"}),
            (fio.Work(fio.Options(job="j.fio"), tmp_path), {"a.0.0", "b.0.0"}),
        ):
            where = context(tmp_path)
            moving.prepare(where)
            found = (where.places[0].folder / fio.FOLDER).iterdir()
            assert {one.name for one in found} == names
            moving.clean(where)

    def test_the_window_is_that_of_the_requests(self, tmp_path: Path) -> None:
        entry = READ | {"runtime": "1 s", "ramp_time": "1 s", "time_based": True, "bs": "4 KiB"}
        entry = entry | {"options": {"rate_iops": 200}}
        options = fio.Options.model_validate({"jobs": [entry], "latency_log": True})
        moving = fio.Work(options, tmp_path)
        where = context(tmp_path)
        moving.prepare(where)
        span = moving.run("read", where)[0]
        lines = (where.raw / "latency-0_lat.1.log").read_text().splitlines()
        first_ms, last_ms = (int(lines[at].split(",")[0]) for at in (0, -1))
        # The log and the window agree, and the window leaves out the ramp.
        assert abs(span.start.utc_ns / 1e6 - first_ms) < 500
        assert abs(span.end.utc_ns / 1e6 - last_ms) < 500

    def test_a_failure_is_told_with_fios_words(self, tmp_path: Path) -> None:
        moving = work(tmp_path, READ | {"ioengine": "nosuchengine"})
        with pytest.raises(WorkloadFailed, match=r"fio failed \(exit code 1\): .*nosuchengine"):
            moving.prepare(context(tmp_path))

    def test_it_can_be_stopped(self, tmp_path: Path) -> None:
        moving = work(tmp_path, READ | {"runtime": "600 s", "time_based": True})
        where = context(tmp_path)
        moving.prepare(where)
        threading.Timer(0.3, where.cancelled.set).start()
        with pytest.raises(Cancelled):
            moving.run("read", where)

    def test_clients_on_hosts(self, tmp_path: Path, local_ssh: Path) -> None:
        moving = work(tmp_path, WRITE, READ)
        names = [f"f{os.getpid()}x{number}" for number in (1, 2)]
        places = tuple(Place(tmp_path / name, name) for name in names)
        (tmp_path / "raw").mkdir()
        with Hosts(names, Access()) as hosts:
            context = Context(places, tmp_path / "raw", hosts=hosts)
            moving.prepare(context)
            span = moving.run("write", context)[0]
            assert 0 < span.seconds < 60
            (written,) = fio.results(context.raw)
            assert written.bytes == 16 * MIB
            for number, place in enumerate(places):
                file = place.folder / fio.FOLDER / f"client-{number}" / "data.0.0"
                assert file.stat().st_size == 8 * MIB
            moving.clean(context)
            assert not any((place.folder / fio.FOLDER).exists() for place in places)
