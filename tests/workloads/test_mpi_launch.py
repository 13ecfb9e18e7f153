"""Launching of MPI ranks without a launch: command lines, reports, clocks, data."""

from __future__ import annotations

import json
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from wattio.clock import Instant
from wattio.errors import HostError, ResultError, WorkloadFailed
from wattio.hosts.clocks import Offset
from wattio.workloads import invocation, mpi_io, mpi_launch, mpi_meta, mpi_report, mpirun
from wattio.workloads.launchers import openmpi
from wattio.workloads.mpi_find import Found
from wattio.workloads.mpi_launch import RankOptions
from wattio.workloads.processes import Ended, Program
from wattio.workloads.ranks import REPORT, VERSION
from wattio.workloads.ranks.pattern import DataMismatch, Pattern
from wattio.workloads.workload import Context, Place

SECOND_NS = 1_000_000_000
MS = 1_000_000
MIB = 1 << 20


def rank(number: int, **given_fields: object) -> dict[str, Any]:
    """A rank whose phase lasts from 1 s to 3 s, half a second later for each rank."""
    start, end = SECOND_NS + number * SECOND_NS // 2, 3 * SECOND_NS + number * SECOND_NS // 2
    phase = {
        "name": "write",
        "start_utc_ns": 1000 * SECOND_NS + start,
        "start_monotonic_ns": start,
        "end_utc_ns": 1000 * SECOND_NS + end,
        "end_monotonic_ns": end,
        "operations": 10,
        "bytes": 10 * MIB,
        "latencies": {"mean": 5.0} if number == 0 else {},
    }
    return {
        "rank": number,
        "client": number,
        "host": "here",
        "boot": "b1",
        "memory_bytes": 4 * MIB,
        "memory_held_bytes": 0,
        "errors": [],
        "phases": [phase],
        **given_fields,
    }


def line(*ranks: dict[str, Any], offset_s: float = 0.0, mpi: str = "Open MPI") -> str:
    clocks = {"before": [{"rank": 1, "offset_s": offset_s, "round_trip_s": 1e-5}], "after": []}
    return json.dumps({REPORT: VERSION, "mpi": mpi, "clocks": clocks, "ranks": list(ranks)})


def test_a_phase_lasts_from_the_last_start_to_the_last_end() -> None:
    report = mpi_report.parse(f"warning: {{\n{line(rank(0), rank(1))}\nbye")
    window = mpi_report.windows(report)[0]
    assert window.seconds == 2.0
    span = mpi_report.spans(report, "b1")[0]
    assert (span.start.monotonic_ns, span.end.monotonic_ns) == (1_500_000_000, 3_500_000_000)
    assert span.end.utc_ns == 1003 * SECOND_NS + SECOND_NS // 2
    found = mpi_report.operation(report, window, [])
    assert found.operations == 20
    assert found.throughput_mib_s == 10.0
    assert found.iops == 10.0
    assert found.latency_us == {"mean": 5.0}
    assert found.doubts == ()


def test_hosts_of_other_boots_are_compared_by_their_wall_clocks() -> None:
    other = rank(1, boot="b2")
    other["phases"][0] |= {"start_monotonic_ns": 77 * SECOND_NS, "end_monotonic_ns": 79 * SECOND_NS}
    report = mpi_report.parse(line(rank(0), other))
    assert mpi_report.windows(report)[0].seconds == 2.0
    span = mpi_report.spans(report, "b1")[0]
    assert span.seconds == pytest.approx(2.0, abs=0.01)
    assert span.start.utc_ns == 1001 * SECOND_NS + SECOND_NS // 2


def test_hosts_whose_clocks_are_known_are_compared_by_ours(tmp_path: Path) -> None:
    """The second host's wall clock is 40 ms ahead, and it has been up for a minute and more."""
    other = rank(1, boot="b2")
    other["phases"][0] |= {
        "start_utc_ns": 1001 * SECOND_NS + 540 * MS,
        "start_monotonic_ns": 77 * SECOND_NS,
        "end_utc_ns": 1003 * SECOND_NS + 540 * MS,
        "end_monotonic_ns": 79 * SECOND_NS,
    }
    ahead_ns = 75 * SECOND_NS + 500 * MS
    known = {"b2": Offset(40 * MS, ahead_ns, 0, Instant(1000 * SECOND_NS, 0))}
    report = mpi_report.parse(line(rank(0), other))
    assert mpi_report.placed(report, "b1", {}) is report
    assert mpi_report.spans(mpi_report.placed(report, "b1", known), "b1") == mpi_report.spans(
        mpi_report.parse(line(rank(0), rank(1))), "b1"
    )
    (tmp_path / mpi_launch.OUTPUT).write_text(line(rank(0), other))
    program = Program(("mpirun",), tmp_path / mpi_launch.OUTPUT, tmp_path / "errors.txt")
    ended = Ended(program, 0, Instant(0, 0), Instant(1, 1))
    task = {"launcher": {"boot": "b1"}}
    invocation.keep(tmp_path, "write", [ended], clocks=known, task=task)
    (found,) = mpi_launch.results(tmp_path, lambda *_: [])
    assert found.seconds == 2.0
    assert found.start_utc_ns == 1001 * SECOND_NS + 500 * MS


def test_clocks_that_differ_are_doubtful() -> None:
    report = mpi_report.parse(line(rank(0), offset_s=-0.25))
    assert report.offset_s_max == 0.25
    found = mpi_report.operation(report, mpi_report.windows(report)[0], ["x"])
    assert found.doubts[0] == "x"
    assert "clocks differ by 0.250 s, more than 0.1 s" in found.doubts[1]


def test_a_rate_that_no_server_can_give_is_doubtful() -> None:
    fast = rank(0)
    fast["phases"][0]["operations"] = 5_000_000
    report = mpi_report.parse(line(fast))
    found = mpi_report.operation(report, mpi_report.windows(report)[0], [])
    assert "2,500,000 operations a second of each client come from its cache" in found.doubts


def test_errors_name_rank_and_host() -> None:
    report = mpi_report.parse(line(rank(0), rank(1, errors=["no space"])))
    assert report.errors() == ["rank 1 on here: no space"]


def test_phases_that_not_all_reached_are_left_out() -> None:
    report = mpi_report.parse(line(rank(0), rank(1, phases=[])))
    assert mpi_report.windows(report) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "holds 0 reports"),
        (f"{line(rank(0))}\n{line(rank(0))}", "holds 2 reports"),
        (f'{{"{REPORT}": 2}}', "damaged"),
        (f'{{"{REPORT}": 1, "mpi": ', "damaged"),
        (line(), "damaged"),
    ],
)
def test_damaged_reports_are_told(text: str, message: str) -> None:
    with pytest.raises(ResultError, match=message):
        mpi_report.parse(text)


@given(st.one_of(st.text(), st.text().map(lambda rest: f'{{"{REPORT}": 1{rest}')))
def test_no_text_breaks_the_reader(text: str) -> None:
    with pytest.raises(ResultError):
        mpi_report.parse(text)


OPEN_MPI = Found("/x/mpirun", "mpirun (Open MPI) 4.1.4", openmpi)


def line_of(options: RankOptions, places: list[Place], found: Found = OPEN_MPI) -> tuple[str, ...]:
    return mpi_launch.arguments(options, found, Context(tuple(places), Path("/raw")), "io", "{}")[0]


def test_ranks_are_counted_host_by_host() -> None:
    places = [Place(Path(f"/m{n}"), host) for n, host in enumerate(["b", "a", "b"])]
    ordered = mpirun.by_host(places)
    assert [str(place.folder) for place in ordered] == ["/m0", "/m2", "/m1"]
    options = RankOptions(ranks_per_client=2, options=["--mca", "btl", "tcp,self"])
    found = line_of(options, ordered)
    assert found[:5] == ("/x/mpirun", "-np", "6", "--oversubscribe", "--bind-to")
    assert found[found.index("--host") + 1] == "b:4,a:2"
    assert found.index("--mca") < found.index("mpi4py")
    assert found[-2:] == ("wattio.workloads.ranks.io", "{}")


def test_on_this_host_no_host_is_named() -> None:
    assert "--host" not in line_of(RankOptions(), [Place(Path("/a"))])


def test_the_ranks_load_the_library_of_their_launcher(tmp_path: Path) -> None:
    """mpi4py loads the one beside its Python: each rank of another launcher would be alone."""
    for name in ("bin/mpirun", "lib/libmpi.so.40", "lib/libmpi.so.12"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    site = Found(str(tmp_path / "bin/mpirun"), "mpirun (Open MPI) 4.1.4", openmpi)
    here = Context((Place(Path("/a")),), tmp_path)
    away = replace(here, places=(Place(Path("/a"), "one"), Place(Path("/a"), "two")))
    line, variables = mpi_launch.arguments(RankOptions(), site, here, "io", "{}")
    assert variables["MPI4PY_LIBMPI"] == f"{tmp_path}/lib/libmpi.so.40:libmpi.so.40"
    assert "-x" not in line
    line, _ = mpi_launch.arguments(RankOptions(), site, away, "io", "{}")
    assert line[line.index("-x") + 1] == "MPI4PY_LIBMPI"
    beside = Found(f"{Path(sys.executable).parent}/mpirun", "Open MPI", openmpi)
    assert "MPI4PY_LIBMPI" not in mpi_launch.arguments(RankOptions(), beside, here, "io", "{}")[1]


def test_between_hosts_the_sites_launcher_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That of the Python environment was, whatever the site had; it knows no site's network."""
    for folder in ("environment", "site"):
        (tmp_path / folder).mkdir()
        script = tmp_path / folder / "mpirun"
        script.write_text("#!/bin/sh\necho 'mpirun (Open MPI) 4.1.4'\n")
        script.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "environment/python"))
    monkeypatch.setenv("PATH", f"{tmp_path}/environment:{tmp_path}/site:/usr/bin")

    def taken(host: str = "localhost", **options: str) -> str | None:
        launcher = RankOptions.model_validate(options)
        found = mpi_launch.launcher(launcher, [Place(tmp_path, host)])
        return None if found is None else found.path.removeprefix(f"{tmp_path}/")

    assert taken() == "environment/mpirun"
    monkeypatch.setenv("PATH", f"{tmp_path}/site:{tmp_path}/environment:/usr/bin")
    assert taken("far") == "site/mpirun"
    assert taken() == "environment/mpirun"
    (tmp_path / "environment/mpirun").unlink()
    assert taken() == "site/mpirun"
    assert taken(mpirun=str(tmp_path / "site/mpirun")) == "site/mpirun"
    assert taken(mpirun="none") is None


def test_a_missing_launcher_is_told() -> None:
    with pytest.raises(HostError, match=r"no-mpirun is not installed: .*openmpi-bin"):
        mpi_launch.probe(RankOptions(mpirun="no-mpirun"))


def test_another_python_runs_the_ranks(tmp_path: Path) -> None:
    other = tmp_path / "python"
    other.symlink_to(sys.executable)
    options = RankOptions(python=str(other))
    assert mpi_launch.describe(RankOptions(python=sys.executable))["mpi4py_version"]
    assert str(other) in line_of(options, [])
    (tmp_path / "mpirun").touch()
    found = mpi_launch.launcher(options)
    assert found is not None
    assert found.path == str(tmp_path / "mpirun")


@pytest.mark.parametrize("python", ["/no/such/python", "/bin/true", "/bin/echo"])
def test_a_python_that_cannot_run_ranks_is_told(python: str) -> None:
    with pytest.raises(HostError, match=f"python: {python} cannot run ranks; needed: one that"):
        mpi_launch.probe(RankOptions(python=python))


def test_the_total_is_split_evenly_and_rounded_to_transfers() -> None:
    options = mpi_io.Options.model_validate({"total": "36 GiB", "segments": 3})
    assert options.block_bytes(4) == 3 << 30
    small = mpi_io.Options.model_validate({"total": "64 MiB", "transfer": "4 MiB"})
    assert small.block_bytes(3) == 20 * MIB
    assert small.moved_bytes(3) == 60 * MIB
    assert mpi_io.Options.model_validate({"total": "1 MiB"}).block_bytes(8) == 4 * MIB


@pytest.mark.parametrize(
    ("given_options", "message"),
    [
        ({}, "either total .* or block"),
        ({"total": "1 GiB", "block": "1 GiB"}, "either total .* or block"),
        ({"total": "1 GiB", "transfer": "1000 B"}, "multiple of 512 B"),
        ({"total": "1 GiB", "transfer": "512 B", "direct": True}, "multiple of 4096 B"),
        ({"block": "6 MiB"}, "block must be a multiple of transfer"),
        ({"total": "1 GiB", "api": "mpiio", "direct": True}, "direct is for"),
        ({"total": "1 GiB", "memory_held": 1.0}, "less than or equal"),
        ({"total": "1 GiB", "hints": {"cb_nodes": "4"}}, 'hints are for api = "mpiio"'),
        ({"total": "1 GiB", "collective": True}, 'collective is for api = "mpiio"'),
        ({"total": "1 GiB", "api": "mpiio", "hints": {"a b": "4"}}, "should match pattern"),
        (
            {"total": "1 GiB", "api": "mpiio", "collective": True, "file_per_process": True},
            "collective is for one file of all ranks",
        ),
        ({"total": "1 GiB", "shift": False, "shift_by": 2}, "shift_by is for shift = true"),
        ({"total": "1 GiB", "shift": "random", "shift_by": 2}, "shift_by is for shift = true"),
        ({"total": "1 GiB", "shift_by": 0}, "greater than or equal to 1"),
        ({"total": "1 GiB", "order": "backwards"}, "'sequential' or 'random'"),
    ],
)
def test_options_of_io_that_do_not_agree_are_refused(
    given_options: dict[str, object], message: str
) -> None:
    with pytest.raises(ValidationError, match=message):
        mpi_io.Options.model_validate(given_options)


def test_items_are_split_evenly_and_rounded() -> None:
    options = mpi_meta.Options(items=25_000)
    assert [options.items_each(ranks) for ranks in (1, 2, 3, 4)] == [25_000, 12_500, 8333, 6250]
    assert options.directories == 1
    assert mpi_meta.Options(items=600, shape="tree").directories == 31
    assert mpi_meta.Options(items=1).items_each(4) == 1


@pytest.mark.parametrize(
    ("given_options", "message"),
    [
        ({"items": 0}, "greater than or equal to 1"),
        ({"items": 1, "kinds": ["file"]}, 'did you mean "files"'),
        ({"items": 1, "read_bytes": 1025}, "must not be above file_bytes, 1024"),
        ({"items": 1, "shift": False, "shift_by": 2}, "shift_by is for shift = true"),
        ({"items": 1, "shape": "tree", "branch": 100, "depth": 4}, "a tree has at most"),
    ],
)
def test_options_of_meta_that_do_not_agree_are_refused(
    given_options: dict[str, object], message: str
) -> None:
    with pytest.raises(ValidationError, match=message):
        mpi_meta.Options.model_validate(given_options)


def test_a_launcher_starts_where_one_of_its_number_was_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Open MPI's left a folder of its process number in /tmp; the next of that number ended."""
    found = mpi_launch.launcher(RankOptions())
    assert found is not None
    script, left = tmp_path / "mpirun", f'"{tmp_path}/ompi.$$"'
    script.write_text(
        f'#!/bin/sh\n[ "$1" = --version ] && exec {found.path} --version\n'
        f'mkdir -m 700 {left} && : >{left}/"pmix.$(uname -n).tool"\nexec {found.path} "$@"\n'
    )
    script.chmod(0o755)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    options = {"total": "1 MiB", "launcher": {"mpirun": str(script)}}
    context = Context((Place(tmp_path / "work"),), tmp_path, threading.Event())
    context.places[0].folder.mkdir()
    work = mpi_io.Work(mpi_io.Options.model_validate(options), tmp_path)
    assert [span.name for span in work.run("write", context)] == ["write"]
    assert list(tmp_path.glob("ompi.*"))


def test_output_that_has_no_room_is_told(tmp_path: Path) -> None:
    context = Context((Place(tmp_path),), tmp_path / "gone", threading.Event())
    with pytest.raises(WorkloadFailed, match=r"true cannot be started: .*gone"):
        mpi_launch.launch("write", "io", {}, RankOptions(mpirun="true"), context)


sizes = st.sampled_from([512, 4096, 65536])
places = st.tuples(st.integers(0, 1 << 19), st.integers(0, 1 << 40).map(lambda n: n * 512))


@given(st.integers(0, 2**63 - 1), sizes, places, places)
def test_data_tell_their_place(
    seed: int, size: int, first: tuple[int, int], second: tuple[int, int]
) -> None:
    pattern = Pattern(seed, size)
    pattern.buffer[:] = pattern.right(*first)
    pattern.verify(*first)
    if first != second:
        with pytest.raises(DataMismatch):
            pattern.verify(*second)


@given(st.integers(0, 4095), st.integers(1, 255))
def test_any_wrong_byte_is_found(place: int, change: int) -> None:
    pattern = Pattern(7, 4096)
    pattern.buffer[:] = pattern.right(3, 8192)
    pattern.buffer[place] ^= change
    with pytest.raises(DataMismatch, match=f"at byte {8192 + place // 8 * 8}: "):
        pattern.verify(3, 8192)


def test_another_seed_is_other_data() -> None:
    assert Pattern(1, 4096).right(0, 0) == Pattern(1, 4096).right(0, 0)
    assert Pattern(1, 4096).right(0, 0) != Pattern(2, 4096).right(0, 0)
