"""What the middleware consists of, without MPI: roles, memory, boards, files, configurations."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wattio.errors import InputError, ResultError
from wattio.hpcio import (
    Config,
    blocks,
    damaris,
    doorbells,
    leftovers,
    notes,
    parse_approach,
    topology,
)
from wattio.hpcio.account import Account, DumpRecord, RankAccount
from wattio.hpcio.board import Board
from wattio.hpcio.client import watch
from wattio.hpcio.inspection import parse_manifest
from wattio.hpcio.memory import Extents, Memory, aligned


def config(approach: str, **more: object) -> Config:
    return Config.model_validate({**parse_approach(approach), **more})


@pytest.mark.parametrize("text", ["tp", "dc:1", "dc:12", "dn:3"])
def test_approaches_are_written_as_they_are_read(text: str) -> None:
    assert config(text).approach_text == text


@pytest.mark.parametrize("text", ["", "dc", "dc:0", "dc:-1", "tp:1", "dn:x", "dn:9999", "dd:1"])
def test_other_approaches_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="approach"):
        parse_approach(text)


def test_a_configuration_is_read(tmp_path: Path) -> None:
    path = tmp_path / "hpcio.toml"
    path.write_text('[hpcio]\napproach = "dc"\nwriters = 2\nbuffer = "1 MiB"\noutput = "out"\n')
    found = Config.read(path)
    assert (found.approach_text, found.buffer, found.output) == ("dc:2", 1 << 20, Path("out"))
    path.write_text('[hpcio]\ncompression = "zip"\n')
    with pytest.raises(InputError, match="gzip:1 to gzip:9"):
        Config.read(path)
    path.write_text('[other]\nx = "zip"\n')
    with pytest.raises(InputError, match="no table"):
        Config.read(path)


def test_roles() -> None:
    """Seven ranks on two nodes, and ten on five."""
    cores = topology.plan(config("dc:1"), topology.emulated(7, 4))
    assert cores.computing == (0, 1, 2, 4, 5)
    assert cores.writing == (3, 6)
    assert cores.clients(6) == (4, 5)
    assert cores.share(4, 1000) == 500
    nodes = topology.plan(config("dn:3"), topology.emulated(10, 2))
    assert nodes.computing == (0, 1, 2, 3, 4, 5)
    assert nodes.writing == (6, 7, 8, 9)
    spare = topology.plan(config("dc:3"), topology.emulated(4, 4))
    assert spare.computing == (0,)
    assert spare.writing == (1, 2, 3)
    for approach, ranks in (("dc:1", 5), ("dn:1", 4)):
        with pytest.raises(InputError, match=approach):
            topology.plan(config(approach), topology.emulated(ranks, 4))


@given(
    st.sampled_from(["tp", "dc:1", "dc:2", "dn:1", "dn:3"]), st.integers(1, 40), st.integers(1, 9)
)
def test_every_rank_has_one_role(approach: str, ranks: int, per_node: int) -> None:
    try:
        found = topology.plan(config(approach), topology.emulated(ranks, per_node))
    except InputError:
        return
    assert found.computing[0] == 0
    assert sorted((*found.computing, *found.writing)) == list(range(ranks))
    counts = [len(found.clients(writer)) for writer in found.writing]
    assert sum(counts) == (0 if approach == "tp" else len(found.computing))


@given(st.lists(st.tuples(st.integers(0, 500), st.booleans()), max_size=60))
def test_extents_never_overlap(steps: Sequence[tuple[int, bool]]) -> None:
    extents, held = Extents[int](2048), dict[int, tuple[int, int]]()
    for owner, (size, release) in enumerate(steps):
        if release and held:
            oldest = min(held)
            del held[oldest]
            extents.release(lambda one, gone=oldest: one == gone)  # type: ignore[misc]
        start = extents.take(size, owner)
        if start is not None:
            assert start + aligned(size) <= 2048
            assert all(start >= end or start + aligned(size) <= at for at, end in held.values())
            held[owner] = start, start + aligned(size)
        else:
            assert held
    assert extents.owners == set(held)


def post(board: Board, client: int, number: int, step: int, head: int | None) -> None:
    board.post(client, number, step, head)
    board.told(client, 1)


def test_a_board_between_two_clients_and_a_writer() -> None:
    board = Board.create(2)
    assert board.claim(closed=False) is None
    post(board, 0, 0, 10, 64)
    assert board.claim(closed=False) is None
    post(board, 1, 0, 10, None)
    claim = board.claim(closed=False)
    assert claim is not None
    assert [(one.client, one.step, one.head) for one in claim.posted] == [
        (0, 10, 64),
        (1, 10, None),
    ]
    post(board, 0, 1, 20, 128)
    assert board.drop_oldest(1) is None
    assert board.drop_oldest(2) == 1
    assert not board.free(0)
    assert board.free(1)
    board.finish(0)
    assert board.free(0)
    dropped = board.claim(closed=False)
    assert dropped is not None
    assert dropped.dropped
    assert board.free(1)
    post(board, 0, 2, 30, 0)
    assert board.claim(closed=False) is None
    last = board.claim(closed=True)
    assert last is not None
    assert len(last.posted) == 1
    board.fail(30, "ö" * 2000)
    assert board.failures()[:2] == (1, 30)


def test_memory_has_no_name() -> None:
    memory = Memory.create("test", 4096)
    assert not list(Path("/dev/shm").glob("*wattio-test*"))
    assert "memfd:wattio-test" in str(Path(f"/proc/self/fd/{memory.file}").readlink())
    with pytest.raises(Exception, match="shared memory"):
        Memory.create("test", 1 << 60)


def test_bells_tell_of_a_death() -> None:
    door, board, region = (
        doorbells.ClientListener(),
        Memory.create("board", 4096),
        Memory.create("dumps", 8192),
    )
    found: list[tuple[doorbells.Doorbell, list[tuple[int, int]]]] = []
    client = threading.Thread(target=lambda: found.append(doorbells.connect(door.address, 7)))
    client.start()
    writer = door.admit({7: ((board.file, region.file), (board.size, region.size))})[7]
    client.join()
    bell, files = found[0]
    region.map[:5] = b"there"
    assert Memory(*files[1]).map[:5] == b"there"
    ears = doorbells.Poller({7: writer})
    for _ in range(3):
        bell.count()
    assert ears.wait() == [(7, True)]
    assert (writer.counted(), writer.counted()) == (3, 0)
    for _ in range(100_000):
        writer.ring()
    assert set(bell.wait()) == set(doorbells.LOOK)
    gone = threading.Event()
    watch(writer.peer, gone.set)
    bell.peer.shutdown(socket.SHUT_RDWR)
    assert gone.wait(60)
    with pytest.raises(doorbells.PeerDied):
        listen(writer)
    with pytest.raises(doorbells.PeerDied):
        writer.ring()


def listen(bell: doorbells.Doorbell) -> None:
    while True:
        bell.wait()


@given(st.text())
def test_no_text_breaks_what_reads_it(text: str) -> None:
    for read, error in ((notes.parse, ResultError), (parse_manifest, ResultError)):
        with pytest.raises(error):
            read(text)
    with pytest.raises(InputError):
        damaris.parse(text)
    with pytest.raises(InputError):
        damaris.parse(f"<a><architecture><dedicated cores={text}/></architecture></a>")


@given(st.recursive(st.none() | st.integers() | st.text(), lambda one: st.lists(one, max_size=3)))
def test_no_field_breaks_what_reads_it(value: object) -> None:
    import json

    note = {"process": 0, "ranks": [0], "blocks": [], "error": None, "dropped": False}
    for key in note:
        try:
            notes.parse(json.dumps({**note, "ranks_expected": [0], key: value}))
        except ResultError:
            continue


@pytest.mark.parametrize(
    ("name", "shape", "dtype", "whole", "offset"),
    [
        ("a/b", (1,), "f4", None, None),
        ("", (1,), "f4", None, None),
        ("a", (-1,), "f4", None, None),
        ("a", (1,), "O", None, None),
        ("a", (1,), "nonsense", None, None),
        ("a", (1,), "f4", (2,), None),
        ("a", (2,), "f4", (2,), (1,)),
        ("a", (2, 2), "f4", (4,), (0,)),
    ],
)
def test_blocks_that_cannot_be(
    name: str,
    shape: tuple[int, ...],
    dtype: str,
    whole: tuple[int, ...] | None,
    offset: tuple[int, ...] | None,
) -> None:
    with pytest.raises(InputError, match="variable"):
        blocks.make(name, 0, shape, dtype, whole, offset)


def test_damaris_xml_is_read_and_written() -> None:
    for approach in ("tp", "dc:2", "dn:3"):
        made = config(approach, buffer="64 MiB")
        text = f'<simulation xmlns="http://damaris">{damaris.write(made, 8)}</simulation>'
        read = Config(**damaris.parse(text, nodes=8))
        assert (read.approach_text, read.buffer) == (made.approach_text, made.buffer)
    text = '<architecture><dedicated cores="0" nodes="2"/></architecture>'
    with pytest.raises(InputError, match="how many nodes"):
        damaris.parse(text)
    with pytest.raises(InputError, match="none to compute"):
        damaris.parse(text, nodes=2)


def test_left_overs_go_and_what_is_used_stays(tmp_path: Path) -> None:
    host = socket.gethostname().partition(".")[0]
    names = [f"sm_segment.{host}.0.1.{number}" for number in range(3)]
    names += ["sm_segment.elsewhere.0.1.0", "other"]
    for name in names:
        (tmp_path / name).write_text("")
        os.utime(tmp_path / name, (1000, 1000))
    os.utime(tmp_path / names[1], (1990, 1990))
    process = tmp_path / "proc" / "12"
    process.mkdir(parents=True)
    (process / "maps").write_text(f"7f00-7f01 rw-s 0 00:1 1 {tmp_path / names[2]}\n")
    assert leftovers.remove(2000, tmp_path, tmp_path / "proc") == [tmp_path / names[0]]
    assert sorted(path.name for path in tmp_path.glob("*[0r]*.*")) == sorted(names[1:4])


def test_an_account_counts_each_thing_once() -> None:
    dump = DumpRecord(10, bytes=5, blocked_s=0.5, stalled=True)
    written = DumpRecord(10, bytes=10, files=1)
    lost = DumpRecord(20, dropped=True, error="full")
    account = Account(
        "dc:2",
        [
            RankAccount(0, 0, "compute", [dump], cpu_s=1.0),
            RankAccount(1, 0, "compute", [DumpRecord(10, bytes=5)], cpu_s=2.0),
            RankAccount(2, 0, "writer", [written, lost], cpu_s=0.1),
            RankAccount(3, 0, "writer", [lost], cpu_s=0.2),
        ],
    )
    told = account.as_json()
    assert (told["bytes"], told["files"], told["stalls"], told["drops"]) == (10, 1, 1, 1)
    assert told["errors"] == {"20": ["full"]}
    assert account.blocked_s == [0.5, 0.0]
    assert account.cpu_s("compute") == 3.0
    assert account.steps == [10, 20]


def test_parts_of_dumps_that_were_lost_are_no_data_that_was_written() -> None:
    """A full disk once gave megabytes in two files, and no dump that could be read."""
    whole = DumpRecord(10, bytes=5, files=1)
    part, failed = DumpRecord(20, bytes=7, files=1), DumpRecord(20, error="no space left")
    kept, dropped = DumpRecord(30, bytes=9, files=1), DumpRecord(30, dropped=True)
    ranks = [
        RankAccount(0, 0, "writer", [whole, part, kept]),
        RankAccount(1, 1, "writer", [failed, dropped]),
    ]
    account = Account("dn:1", ranks)
    assert (account.bytes, account.files) == (5, 1)
