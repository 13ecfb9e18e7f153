"""The three approaches with real ranks of Python: the same fields, and buffers that are full."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from mpi4py import MPI
from wattio import hpcio
from wattio.errors import HostError, InputError
from wattio.hpcio import Config, library, parse_approach, topology
from wattio.hpcio.assembly import fields
from wattio.hpcio.inspection import inspect
from wattio.hpcio.library import TYPES
from wattio.hpcio.session import Attributes, Session

from hpcio.dumping_program import every, field, varied
from hpcio.launching import account, launch
from hpcio.waiting import until

STEPS = [0, 10, 20]


def config(output: Path, approach: str, **more: object) -> dict[str, Any]:
    return {"output": str(output), **parse_approach(approach), **more}


@pytest.mark.parametrize(
    ("approach", "ranks", "per_node", "files"),
    [("tp", 3, None, 3), ("dc:1", 7, 4, 2), ("dc:2", 8, 4, 4), ("dn:3", 8, 2, 2)],
)
def test_fields_are_the_same(
    tmp_path: Path, approach: str, ranks: int, per_node: int | None, files: int
) -> None:
    output = tmp_path / "dumps"
    more = {"ranks_per_node": per_node, "compression": "gzip:1" if files == 4 else "none"}
    told = account(launch(ranks, {"config": config(output, approach, **more), "steps": STEPS}))
    found = inspect(output)
    assert [dump.step for dump in found] == STEPS
    assert not [problem for dump in found for problem in dump.problems]
    assert all(dump.whole and dump.approach == approach for dump in found)
    for step in STEPS:
        assembled = fields(output, step)
        assert np.array_equal(assembled["theta"], field(step))
        computing = [int(data[0]) for name, data in assembled.items() if name != "theta"]
        assert len(computing) == len(set(computing)) == ranks - (0 if approach == "tp" else files)
    assert told["files"] == files * len(STEPS)
    assert told["bytes"] == sum(dump.bytes for dump in found)
    assert told["stalls"] == told["drops"] == 0
    assert told["errors"] == {}
    names = sorted(path.name for path in output.iterdir() if path.name != "dumps.xdmf")
    assert names == [dump.path.name for dump in found]


@pytest.mark.parametrize("buffer", ["64 KiB", pytest.param("1 MiB", marks=pytest.mark.slow)])
@pytest.mark.parametrize("policy", ["block", "drop_oldest"])
def test_dumps_may_differ(tmp_path: Path, buffer: str, policy: str) -> None:
    """Memory that is taken over from a dump that was alike, in part, or not at all."""
    output, steps = tmp_path / "dumps", list(range(60))
    given = config(output, "dc:1", buffer=buffer, ranks_per_node=3, when_full=policy)
    told = account(launch(3, {"config": given, "varied": True, "steps": steps}))
    whole = [dump.step for dump in inspect(output) if dump.whole]
    assert whole == [step for step in steps if step not in told["dropped"]]
    assert policy == "drop_oldest" or not told["dropped"]
    for step in whole:
        found = fields(output, step)
        wanted = {
            f"{name}/{rank:06}": data
            for rank in (0, 1)
            for name, data in varied(step, rank).items()
        }
        assert set(found) == set(wanted)
        assert all(np.array_equal(found[name], data) for name, data in wanted.items())


@pytest.mark.parametrize(
    "approach",
    [
        pytest.param("tp", marks=pytest.mark.slow),
        "dc:1",
        pytest.param("dn:1", marks=pytest.mark.slow),
    ],
)
def test_sessions_follow_each_other_and_leave_nothing(tmp_path: Path, approach: str) -> None:
    """Three in one program: the second one's files and threads are those of the third.

    The sessions themselves are kept, and their memory is not.
    """
    given = config(tmp_path / "dumps", approach, ranks_per_node=1 if approach == "dn:1" else 2)
    done = launch(2, {"config": given, "steps": [0, 1], "again": 3})
    assert done.returncode == 0, done.stderr
    held = json.loads(done.stdout)
    assert len(held) == 3
    for second, third in zip(held[1], held[2], strict=True):
        assert third["files"] <= second["files"]
    assert [rank["maps"] for ranks in held for rank in ranks] == [[]] * 6
    assert {rank["scheduler"] for ranks in held for rank in ranks} == {os.sched_getscheduler(0)}


@pytest.mark.parametrize(
    ("approach", "per_node"), [("dc:2", 3), pytest.param("dn:1", 2, marks=pytest.mark.slow)]
)
def test_a_writer_without_clients_sleeps(tmp_path: Path, approach: str, per_node: int) -> None:
    """The simulation begins once it does; MPI's own wait would take its core to the end."""
    ranks = 3 if approach == "dc:2" else 6
    given = config(tmp_path / "dumps", approach, ranks_per_node=per_node)
    roles = topology.plan(Config.model_validate(given), topology.emulated(ranks, per_node))
    idle = roles.idle[0]
    told = account(launch(ranks, {"config": given, "steps": [0], "idle": idle}))
    assert told["ranks"][idle]["role"] == "writer"
    assert told["files"] == len(roles.writing) - len(roles.idle)


@pytest.mark.parametrize("approach", [pytest.param("tp", marks=pytest.mark.slow), "dc:1"])
def test_a_step_is_a_whole_number(tmp_path: Path, approach: str) -> None:
    given = config(tmp_path / "dumps", approach, ranks_per_node=2)
    told = launch(2, {"config": given, "steps": [0, 1, 2.5], "awaited": [0]})
    assert told.returncode != 0
    assert "end_dump(2.5): the step is not a whole number" in told.stderr
    assert [dump.step for dump in inspect(tmp_path / "dumps") if dump.whole][:1] == [0]


@pytest.mark.parametrize(
    "approach",
    [
        pytest.param("tp", marks=pytest.mark.slow),
        "dc:1",
        pytest.param("dn:1", marks=pytest.mark.slow),
    ],
)
def test_steps_may_be_numbers_of_numpy(tmp_path: Path, approach: str) -> None:
    """The account is plain data all the same: it is printed as JSON."""
    given = config(tmp_path / "dumps", approach, ranks_per_node=1 if approach == "dn:1" else 2)
    steps = list(range(10))
    task = {"config": given, "steps": steps, "numpy_steps": True, "awaited": steps}
    told = account(launch(2, task))
    assert [dump["step"] for dump in told["ranks"][0]["dumps"]] == steps


@pytest.mark.parametrize("approach", ["tp", pytest.param("dc:1", marks=pytest.mark.slow)])
def test_a_step_that_no_file_can_hold_is_told(tmp_path: Path, approach: str) -> None:
    given = config(tmp_path / "dumps", approach, ranks_per_node=2)
    told = launch(2, {"config": given, "steps": [0, 1, 1 << 63]})
    assert told.returncode != 0
    assert f"end_dump({1 << 63}): the step must be {(1 << 63) - 1} or less" in told.stderr


def test_what_cannot_be_is_told(tmp_path: Path) -> None:
    output = tmp_path / "dumps"
    told = launch(2, {"config": config(output, "dc:2", ranks_per_node=2), "steps": STEPS})
    assert told.returncode != 0
    assert "dc:2 takes 2 of each node's ranks to write, and node 0 has 2" in told.stderr
    small = config(output, "dc:1", buffer="64 KiB", ranks_per_node=2)
    told = launch(2, {"config": small, "steps": STEPS, "large": 8193})
    assert told.returncode != 0
    assert "variable large: 65544 B are more than this rank's share of the buffer" in told.stderr


@pytest.mark.parametrize("approach", ["dc:1", "dn:1"])
def test_a_block_that_can_have_no_room_is_refused_and_dumps_go_on(
    tmp_path: Path, approach: str
) -> None:
    """With `dn` the end of the dump refused it, and no later dump could begin."""
    per_node = 2 if approach == "dc:1" else 1
    given = config(tmp_path / "dumps", approach, buffer="64 KiB", ranks_per_node=per_node)
    told = account(launch(2, {"config": given, "steps": [0, 1], "refused": 8193}))
    assert told["errors"] == {}
    found = inspect(tmp_path / "dumps")
    assert [(dump.step, dump.whole, dump.problems) for dump in found] == [
        (step, True, []) for step in (0, 1)
    ]
    assert sorted(fields(tmp_path / "dumps", 0)) == ["rank/000000", "theta"]


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Session]:
    """A session of a single rank, which is this process."""
    made = Config.model_validate(config(tmp_path / "dumps", "tp", buffer="1 MiB"))
    session = hpcio.start(MPI.COMM_SELF, made)
    yield session
    session.close()


def test_a_dump_can_be_waited_for_and_says_what_it_is(alone: Session) -> None:
    alone.allocate("u", 3, "f8", (3,), (0,), {"units": "m/s"})[...] = 1.0
    alone.end_dump(4, {"time": 0.5})
    alone.flush()
    assert alone.is_durable(4)
    assert alone.wait_durable(4, timeout_s=0.0)
    with pytest.raises(InputError, match="step 5: has not been handed over"):
        alone.is_durable(5)
    with h5py.File(alone.config.output / "dump-00000004" / "fields.h5") as file:
        assert file["u"].attrs["units"] == "m/s"
        assert file.attrs["time"] == 0.5


def test_what_is_refused_leaves_the_dump_as_it_was(alone: Session) -> None:
    with pytest.raises(InputError, match="more than this rank's share"):
        alone.allocate("large", (1 << 20,))
    with pytest.raises(InputError, match="type c16 cannot be written to dumps; allowed: i1, "):
        alone.allocate("complex", (1,), "c16")
    with pytest.raises(InputError, match=r"end_dump\(0\): nothing was allocated"):
        alone.end_dump(0)
    alone.allocate("u", (3,))[...] = 1.0
    with pytest.raises(InputError, match="is already allocated"):
        alone.allocate("u", (4,))
    with pytest.raises(InputError, match="no such"):
        alone.end_dump(0, {"no such": 1.0})
    alone.end_dump(0, {"time": 1.0})
    alone.allocate("u", (3,))
    with pytest.raises(InputError, match="the last was 0"):
        alone.end_dump(0)
    alone.end_dump(1)
    assert sorted(fields(alone.config.output, 0)) == ["u/000000"]
    assert not alone.close().errors


@pytest.mark.parametrize(
    ("attributes", "told"),
    [
        ({"u": [1.0]}, "attribute 'u': [1.0] is neither a number nor text"),
        ({"u": None}, "attribute 'u': None is neither a number nor text"),
        ({"u": 10**400}, "is neither a number nor text"),
        ({"u": "m\0s"}, r"attribute 'u': its value is 'm\x00s'; allowed: text without NUL"),
        ({"u\0": 1.0}, r"attribute 'u\x00': its name is 'u\x00'; allowed: text without NUL"),
        ({1: 1.0}, "attribute 1: its name is 1; allowed: text without NUL"),
        ({"u": "\ud800"}, "attribute 'u': its value is not UTF-8 text: surrogates not allowed"),
    ],
)
def test_an_attribute_that_cannot_be_is_refused_and_none_is_cut(
    alone: Session, attributes: Attributes, told: str
) -> None:
    """Text was cut at a NUL, None passed over, others were an OverflowError or AttributeError."""
    alone.allocate("v", 1)
    for refused in (
        lambda: alone.allocate("u", 1, attributes=attributes),
        lambda: alone.end_dump(0, attributes),
    ):
        with pytest.raises(InputError, match=re.escape(told) + "$"):
            refused()
    alone.end_dump(0)


def test_after_the_end_calls_are_refused(alone: Session) -> None:
    alone.allocate("u", 1)
    alone.end_dump(0)
    account = alone.close()
    for refused in (
        lambda: alone.allocate("u", 1),
        lambda: alone.end_dump(1),
        alone.flush,
        lambda: alone.is_durable(0),
        lambda: alone.wait_durable(0),
    ):
        with pytest.raises(InputError, match=r"^the session has ended, or this rank only writes"):
            refused()
    assert alone.close() is account


def test_a_wait_names_its_call_and_ends_when_its_time_is_over(
    alone: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A time that was over already was taken for one without limit."""
    for name, call in (("is_durable", alone.is_durable), ("wait_durable", alone.wait_durable)):
        with pytest.raises(InputError, match=rf"^{name}\(0.5\): the step is not a whole number"):
            call(0.5)  # type: ignore[arg-type]
    waited: list[float] = []
    monkeypatch.setattr(library.Handle, "wait_durable", lambda *given: waited.append(given[2]))
    for timeout_s in (None, -0.5, 0.0, 2.0):
        alone.wait_durable(0, timeout_s)
    assert waited == [-1.0, 0.0, 0.0, 2.0]


def test_a_library_that_is_missing_or_damaged_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library, "__file__", str(tmp_path / "hpcio" / "library.py"))
    with pytest.raises(HostError, match=f"^{tmp_path}/_io: libwattio_io is missing"):
        library.prefix()
    damaged = tmp_path / "_io" / "lib" / "libwattio_io.so.0"
    damaged.parent.mkdir(parents=True)
    damaged.write_text("no library")
    with pytest.raises(HostError, match=f"^{damaged}: cannot be loaded: "):
        library._loaded.__wrapped__()


def test_an_array_may_outlive_its_session(tmp_path: Path) -> None:
    """Its content is anything then; the process once ended by a fault of memory."""
    made = Config.model_validate(config(tmp_path / "dumps", "tp", buffer="1 MiB"))
    session = hpcio.start(MPI.COMM_SELF, made)
    data = session.allocate("u", (3,))
    data[...] = 1.0
    session.end_dump(0)
    session.close()
    data += 1.0
    place = data.ctypes.data
    assert is_shared(place)
    del data
    # Threads that brought the memory in may not have ended yet.
    until(lambda: not is_shared(place))


def is_shared(place: int) -> bool:
    """Whether there is memory at an address that this process shares with writers."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    spans = [line.split()[0].split("-") for line in lines if "memfd:wattio-io-dumps" in line]
    return any(int(start, 16) <= place < int(end, 16) for start, end in spans)


@pytest.mark.parametrize("approach", ["dc:1", "dn:1"])
def test_numbers_of_all_types_come_as_they_are(tmp_path: Path, approach: str) -> None:
    given = config(tmp_path / "dumps", approach, ranks_per_node=2 if approach == "dc:1" else 1)
    account(launch(2, {"config": given, "steps": [], "types": True}))
    found = fields(tmp_path / "dumps", 0)
    assert {name.partition("/")[0] for name in found} == set(TYPES)
    for name, data in found.items():
        kind = name.partition("/")[0]
        assert data.dtype == kind
        assert np.array_equal(data, every(kind))
