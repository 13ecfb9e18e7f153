"""The mini-app over the I/O middleware as a workload: small runs by real MPI ranks."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from pydantic import ValidationError
from wattio import clock
from wattio.analysis.cores import TICK_S
from wattio.cli import hpcio_tables
from wattio.clock import Instant
from wattio.errors import Cancelled, ResultError, WorkloadFailed
from wattio.hosts.clocks import Offset
from wattio.kinds.measurement.one_run import Metered
from wattio.miniapp.domain import SIZES, VARIABLES
from wattio.workloads import hpcio, hpcio_output
from wattio.workloads.hpcio import FOLDER, Options, Work, launch, operation, results
from wattio.workloads.hpcio_output import RankAccount, Report
from wattio.workloads.workload import Context, Place

STEPS, EVERY = 6, 3


def options(**given: object) -> Options:
    """A run of a second."""
    tiny = {"size": "tiny", "steps": STEPS, "output_every": EVERY, "ranks": 2}
    return Options.model_validate({**tiny, **given})


def context(root: Path, clients: int = 1) -> Context:
    (root / "raw").mkdir(exist_ok=True)
    return Context((Place(root),) * clients, root / "raw")


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Report]:
    """A run of two ranks; its folder with raw files in `raw` and dumps in `dumps`."""
    root = tmp_path_factory.mktemp("pair")
    return root, launch(options(), root / "dumps", context(root))


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> int:
    """The fingerprint of the same run by one rank."""
    root = tmp_path_factory.mktemp("alone")
    report = launch(options(ranks=1), root / "dumps", context(root))
    return report.checks.after.fingerprint


def test_the_first_rank_reads_what_cores_did_between_the_very_ends(
    pair: tuple[Path, Report],
) -> None:
    root, report = pair
    found = hpcio.ticks(root / "raw")["run"]
    assert found == report.core_ticks(report.boot)
    before, after = found
    assert before.keys() == after.keys() or min(before.keys() | after.keys()) == 0
    spent = sum(after[core].total - before[core].total for core in before.keys() & after.keys())
    # What a hypervisor took and cores that were off are not in it, nor more than there was.
    assert 0 < spent * TICK_S <= len(after) * (report.seconds + 0.1)
    # Of another machine's run nothing is known of this one's cores.
    assert report.core_ticks("another boot") is None
    garbled = report.model_copy(update={"ticks": ["cpu0 x", "cpu0 y"]})
    assert garbled.core_ticks(report.boot) is None
    assert report.model_copy(update={"ticks": []}).core_ticks(report.boot) is None


def test_a_run_elsewhere_is_put_on_our_clocks(pair: tuple[Path, Report]) -> None:
    """Where the offset of its host's clocks is known, whatever the wall clock says there."""
    _, report = pair
    start, end = Instant(*report.start), Instant(*report.end)
    offset = Offset(40_000_000, 5 * 10**9, 0, Instant(start.utc_ns, start.monotonic_ns - 5 * 10**9))
    span = report.span("another boot", {report.boot: offset})
    assert span.start == Instant(start.utc_ns, start.monotonic_ns - 5 * 10**9)
    assert span.seconds == pytest.approx((end.monotonic_ns - start.monotonic_ns) / 1e9)
    found = operation(report.placed({report.boot: offset}))
    assert (found.start_utc_ns, found.end_utc_ns) == (span.start.utc_ns, span.end.utc_ns)
    assert report.placed({}) is report


def test_a_run_tells_what_it_did(pair: tuple[Path, Report]) -> None:
    root, report = pair
    assert (report.ranks, report.computing, report.arrangement) == (2, 2, [2, 1])
    assert report.dumps == report.account.dumps == STEPS // EVERY
    assert report.dump_bytes == SIZES["tiny"].dump_bytes()
    assert report.account.bytes == report.dumps * report.dump_bytes
    assert report.account.files == 4
    assert report.errors() == []
    assert report.nodes == 1
    assert report.write_s_slowest_mean is not None
    assert 0 < report.write_s_slowest_mean < report.seconds
    assert 0 < report.drain_s < report.seconds
    for spread in (report.step_s, report.dump_s, report.blocked_s, report.blocked_s_slowest):
        assert spread.mean is not None
        assert spread.max is not None
        assert 0 < spread.mean <= spread.max
    assert report.cpu_s_computing > 0
    assert report.cpu_s_writing > 0
    change = report.checks.mass_change
    assert change is not None
    assert abs(change) < 1e-15
    assert sorted(path.name for path in (root / "dumps").iterdir()) == [
        "dump-00000003",
        "dump-00000006",
    ]


def test_results_are_read_from_raw_files(pair: tuple[Path, Report]) -> None:
    root, report = pair
    found = results(root / "raw")
    assert found == [operation(report)]
    one = found[0]
    assert (one.operation, one.phase, one.operations) == ("dump", "run", 2)
    assert one.seconds == report.seconds
    assert one.latency_us["max"] == pytest.approx(1e6 * (report.blocked_s.max or 0))
    assert one.doubts == ()


def test_progress_is_told(tmp_path: Path) -> None:
    output = tmp_path / "output.txt"
    assert hpcio_output.steps_done(output) == 0
    output.write_text("wattio_step 3\nnoise wattio_step 9\nwattio_step 12\nwattio_st")
    assert hpcio_output.steps_done(output) == 12


@pytest.mark.parametrize(
    "given",
    [{"ranks": 3}, {"output_every": 0}, {"variables": ["theta"], "sync": False}],
)
def test_state_depends_on_the_steps_alone(
    tmp_path: Path, alone: int, pair: tuple[Path, Report], given: dict[str, object]
) -> None:
    report = launch(options(**given), tmp_path / "dumps", context(tmp_path))
    assert report.checks.after.fingerprint == alone == pair[1].checks.after.fingerprint
    assert report.checks.after.fingerprint != report.checks.before.fingerprint
    if report.dumps == 0:
        assert report.account.bytes == 0
        assert report.blocked_s.mean is None
        steps = operation(report)
        assert (steps.operation, steps.operations) == ("step", STEPS)
        assert steps.latency_us["mean"] == pytest.approx(1e6 * (report.step_s.mean or 0))
    if "variables" in given:
        assert report.dump_bytes == SIZES["tiny"].dump_bytes(1)
        assert any("without sync" in doubt for doubt in operation(report).doubts)


APPROACHES: list[dict[str, object]] = [
    {"ranks": 4},
    {"ranks": 8, "approach": "dc:1", "ranks_per_node": 4},
    {"ranks": 8, "approach": "dc:2", "ranks_per_node": 4},
    {"ranks": 8, "approach": "dn:3", "ranks_per_node": 2},
    {"ranks": 5, "approach": "dc:1", "ranks_per_node": 3},
]


def assembled(folder: Path, variable: str) -> NDArray[np.float32]:
    """The global field of a variable in a dump, each cell written just once."""
    found = np.full(SIZES["tiny"].shape, np.nan, dtype=np.float32)
    for path in sorted(folder.glob("part-*.h5")):
        with h5py.File(path) as file:
            for block in file[variable].values():
                shape, offset = block.shape, block.attrs["offset"]
                place = tuple(slice(o, o + n) for o, n in zip(offset, shape, strict=True))
                assert np.isnan(found[place]).all()
                found[place] = block[...]
    assert not np.isnan(found).any()
    return found


@pytest.mark.slow
@pytest.mark.parametrize("given", APPROACHES, ids=lambda given: given.get("approach", "tp"))
def test_fields_are_the_same_by_every_approach(
    tmp_path: Path, pair: tuple[Path, Report], given: dict[str, object]
) -> None:
    root, one = pair
    report = launch(options(**given), tmp_path / "dumps", context(tmp_path))
    assert report.errors() == []
    assert report.checks.after.fingerprint == one.checks.after.fingerprint
    assert report.account.bytes == one.account.bytes
    assert report.cpu_s_writing > 0
    for step in (EVERY, STEPS):
        name = f"dump-{step:08}"
        for variable in VARIABLES:
            mine = assembled(tmp_path / "dumps" / name, variable)
            assert np.array_equal(mine, assembled(root / "dumps" / name, variable))


def test_weak_scaling_grows_the_domain(tmp_path: Path) -> None:
    report = launch(options(scaling="weak"), tmp_path / "dumps", context(tmp_path))
    assert (report.domain.nx, report.domain.ny) == (32, 16)
    assert report.dump_bytes == 2 * SIZES["tiny"].dump_bytes()


def test_a_step_of_a_study(tmp_path: Path) -> None:
    subject = Work(options(), Path())
    subject.probe()
    place = context(tmp_path, clients=2)
    subject.prepare(place)
    assert subject.steps() == ("run",)
    before = clock.now()
    [span] = subject.run("run", place)
    assert before.monotonic_ns < span.start.monotonic_ns < span.end.monotonic_ns
    assert span.end.monotonic_ns < clock.now().monotonic_ns
    assert span.seconds == pytest.approx(results(place.raw)[0].seconds or 0)
    assert (tmp_path / FOLDER).is_dir()
    subject.clean(place)
    subject.clean(place)
    assert not (tmp_path / FOLDER).exists()
    assert subject.seconds_guess(2) > 0
    assert subject.describe()["approach"] == "tp"


def test_a_folder_that_cannot_be_used_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(WorkloadFailed, match=r"output .*file/dumps: cannot be used"):
        launch(options(), tmp_path / "file" / "dumps", context(tmp_path))


def test_a_run_is_cancelled(tmp_path: Path) -> None:
    place = context(tmp_path)
    cancelled = threading.Event()
    cancelled.set()
    with pytest.raises(Cancelled):
        launch(
            options(steps=10_000_000), tmp_path / "d", Context(place.places, place.raw, cancelled)
        )


def test_ranks_go_on_where_no_process_can_be_watched() -> None:
    """In containers that forbid it, and on old kernels."""
    code = """
import errno, os, mpi4py
mpi4py.rc.initialize = False
def forbidden(*_): raise OSError(errno.ENOSYS, "Function not implemented")
os.pidfd_open = forbidden
from wattio.workloads.ranks import boot, team
team.end_with({"boot": boot(), "pid": os.getppid()})
print("went on")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "went on\n", done.stderr


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"approach": "dx:1"}, 'approach "dx:1" is not known'),
        ({"approach": "dc"}, 'approach "dc" needs a number'),
        ({"approach": "dc:2", "ranks_per_node": 2}, "no rank of it is left to compute"),
        ({"approach": "dn:1", "ranks_per_node": 4}, "needs two nodes or more"),
        ({"size": "smal"}, 'did you mean "small"'),
        ({"variables": ["u", "rain"]}, '"rain" is not known'),
        ({"variables": ["u", "u"]}, '"u" is named twice'),
        ({"compression": "zip"}, "allowed: none, gzip"),
        ({"ranks": 64}, "are too many for 16 x 16 columns"),
        (
            {"steps": 2},
            "output_every: is 3, but there are 2 steps; allowed: 1 to 2, or 0 for no output",
        ),
        ({"launcher": {"ranks_per_client": 2}}, "give ranks, not ranks_per_client"),
    ],
)
def test_options_that_cannot_be_are_told(given: dict[str, object], told: str) -> None:
    with pytest.raises(ValidationError) as caught:
        options(**given)
    assert told in str(caught.value)


def test_ranks_are_shared_evenly_by_clients(tmp_path: Path) -> None:
    with pytest.raises(WorkloadFailed, match="2 ranks do not divide evenly among 3 clients"):
        launch(options(), tmp_path, context(tmp_path, clients=3))


@given(st.text())
def test_no_output_breaks_the_parser(text: str) -> None:
    for output in (
        text,
        f'{{"wattio_hpcio"{text}',
        f'{{"wattio_refused"{text}',
        f'{{"wattio_twin"{text}',
    ):
        with pytest.raises(ResultError):
            hpcio_output.parse(output)


def test_a_refusal_is_told() -> None:
    line = json.dumps({"wattio_refused": "the folder is gone"})
    with pytest.raises(ResultError, match="the folder is gone"):
        hpcio_output.parse(f"noise\n{line}\n")


def test_reasons_are_found_among_what_launchers_say() -> None:
    text = """Traceback (most recent call last):
  File "x.py", line 76, in _place
    raise InputError(
wattio._core.InputError: variable u: make buffer larger
wattio._core.InputError: variable u: make buffer larger
MemoryError
\0wattio-io: rank 3: rank 2, for which it writes, has died; all ranks are ended
prterun noticed that process rank 2 with PID 6207 on node vm exited on
signal 9 (Killed).
NOTE: invoking MPI_ABORT causes Open MPI to kill all MPI processes.
    prterun has exited due to process rank 3
"""
    assert hpcio_output.reasons(text) == [
        "variable u: make buffer larger",
        "MemoryError",
        "rank 2 on vm was killed by signal 9 (Killed)",
        "rank 3: rank 2, for which it writes, has died; all ranks are ended",
    ]


@given(st.text())
def test_no_words_break_the_reasons(text: str) -> None:
    assert isinstance(hpcio_output.reasons(text), list)
    assert isinstance(hpcio_output.reasons(f"wattio: {text}\na.b: {text}"), list)
    assert all(hpcio_output.reasons(f"wattio: {text}"))


def test_a_buffer_that_is_too_small_is_told(tmp_path: Path) -> None:
    small = options(approach="dc:1", ranks=2, ranks_per_node=2, buffer="64 KiB")
    with pytest.raises(WorkloadFailed, match=r"^run: variable .*: make buffer larger"):
        launch(small, tmp_path / "dumps", context(tmp_path))


def test_the_slowest_writer_counts(pair: tuple[Path, Report]) -> None:
    def rank(number: int, **of_dumps: object) -> RankAccount:
        content = {"rank": number, "node": 0, "role": "writer"}
        common = {"step": 3, "blocked_s": 0.0, "dropped": False}
        return RankAccount.model_validate({**content, "dumps": [common | of_dumps]})

    both = [rank(0, write_s=1.0, files=1), rank(1, write_s=5.0, files=1)]
    account = pair[1].account.model_copy(update={"ranks": [*both, rank(2, write_s=9.0, files=0)]})
    assert pair[1].model_copy(update={"account": account}).write_s_slowest_mean == 5.0


def test_dropped_and_failed_dumps_are_told(pair: tuple[Path, Report]) -> None:
    report = pair[1]
    account = report.account.model_copy(
        update={"drops": 1, "dropped": [3], "errors": {"6": ["the disk is full"]}}
    )
    changed = report.model_copy(update={"account": account})
    assert changed.errors() == ["dump of step 6: the disk is full"]
    assert hpcio.doubts(changed) == ["1 of 2 dumps were dropped: the buffer was full"]
    assert hpcio.doubts(report) == []
    assert (report.dumps_whole, changed.dumps_whole) == (report.dumps, 0)
    assert hpcio.operation(changed).operations == 0
    assert hpcio_tables.told(Metered(changed, (), None), options())["dumps_whole"] == 0
