"""What the middleware consists of, without MPI: roles, accounts, files, configurations."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from wattio.errors import InputError, ResultError
from wattio.hpcio import (
    Config,
    account,
    blocks,
    damaris,
    dumps,
    leftovers,
    parse_approach,
    topology,
)
from wattio.hpcio.account import Account, DumpRecord, RankAccount
from wattio.hpcio.manifest import parse as parse_manifest


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


@given(st.text())
def test_no_text_breaks_what_reads_it(text: str) -> None:
    for read, error in ((dumps.parse_note, ResultError), (parse_manifest, ResultError)):
        with pytest.raises(error):
            read(text)
    with pytest.raises(InputError):
        damaris.parse(text)
    with pytest.raises(InputError):
        damaris.parse(f"<a><architecture><dedicated cores={text}/></architecture></a>")


@given(st.recursive(st.none() | st.integers() | st.text(), lambda one: st.lists(one, max_size=3)))
def test_no_field_breaks_what_reads_it(value: object) -> None:
    note = {"process": 0, "ranks": [0], "blocks": [], "error": None, "dropped": False}
    for key in note:
        try:
            dumps.parse_note(json.dumps({**note, "ranks_expected": [0], key: value}))
        except ResultError:
            continue


@pytest.mark.parametrize(
    ("name", "shape", "dtype", "whole", "offset"),
    [
        ("a/b", (1,), "f4", None, None),
        ("", (1,), "f4", None, None),
        ("a", (-1,), "f4", None, None),
        ("a", (2.5,), "f4", None, None),
        ("a", (1,), "O", None, None),
        ("a", (1,), "nonsense", None, None),
        ("a", (1,), "f4", (2,), None),
        ("a", (2,), "f4", (2,), (1,)),
        ("a", (2, 2), "f4", (4,), (0,)),
    ],
)
def test_blocks_that_cannot_be(
    name: str,
    shape: tuple[Any, ...],
    dtype: str,
    whole: tuple[int, ...] | None,
    offset: tuple[int, ...] | None,
) -> None:
    with pytest.raises(InputError, match="variable"):
        blocks.make(name, 0, shape, dtype, whole, offset)


Extent = tuple[int, int]
SIDE = 5


@given(
    st.integers(0, 3).flatmap(
        lambda axes: st.lists(
            st.lists(
                st.tuples(st.integers(0, SIDE), st.integers(0, SIDE)), min_size=axes, max_size=axes
            ),
            max_size=6,
        )
    )
)
def test_elements_that_blocks_share_count_once(found: Sequence[Sequence[Extent]]) -> None:
    places = [[(min(ends), max(ends)) for ends in one] for one in found]
    has = np.zeros([SIDE] * len(places[0]) if places else [], bool)
    those = []
    for rank, place in enumerate(places):
        has[tuple(slice(*ends) for ends in place)] = True
        shape = [end - start for start, end in place]
        those.append(blocks.make("u", rank, shape, "f4", has.shape, [at for at, _ in place]))
    assert blocks.covered(those) == np.count_nonzero(has)


def test_damaris_xml_is_read_and_written() -> None:
    for approach in ("tp", "dc:2", "dn:3"):
        made = config(approach, buffer="64 MiB")
        text = f'<simulation xmlns="http://damaris">{damaris.write(made, 8)}</simulation>'
        read = Config(**damaris.parse(text, nodes=8))
        assert (read.approach_text, read.buffer) == (made.approach_text, made.buffer)
    text = '<architecture><dedicated cores="0" nodes="2"/></architecture>'
    with pytest.raises(InputError, match="how many nodes"):
        damaris.parse(text)
    with pytest.raises(InputError, match="none is left to compute"):
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


def test_a_segment_that_goes_while_it_is_looked_at_is_not_ours(tmp_path: Path) -> None:
    """A job that ended beside one that started once ended that one, too."""
    name = f"sm_segment.{socket.gethostname().partition('.')[0]}.0.1.0"
    assert not leftovers._is_ours(tmp_path / name, 2000, named=True)


def test_what_mpich_leaves_goes_by_owner_age_and_use(tmp_path: Path) -> None:
    """Its names, such as mpich_shar_tmpK8KRnH, tell no host."""
    names = [f"mpich_shar_tmp{word}" for word in ("K8KRnH", "young1", "mapped", "links2")]
    for name in names[:3]:
        (tmp_path / name).write_text("")
        os.utime(tmp_path / name, (1000, 1000))
    os.utime(tmp_path / names[1], (1990, 1990))
    (tmp_path / names[3]).symlink_to(tmp_path / "other")
    os.utime(tmp_path / names[3], (1000, 1000), follow_symlinks=False)
    process = tmp_path / "proc" / "12"
    process.mkdir(parents=True)
    (process / "maps").write_text(f"7f00-7f01 rw-s 0 00:1 1 {tmp_path / names[2]}\n")
    assert leftovers.remove(2000, tmp_path, tmp_path / "proc") == [tmp_path / names[0]]
    assert sorted(path.name for path in tmp_path.glob("mpich*")) == sorted(names[1:])


def test_an_account_counts_each_thing_once() -> None:
    dump = DumpRecord(10, bytes=5, blocked_s=0.5)
    written = DumpRecord(10, bytes=10, files=1)
    lost = DumpRecord(20, dropped=True, error="full")
    found = Account(
        "dc:2",
        [
            RankAccount(0, 0, "compute", [dump], stalls=1, cpu_s=1.0),
            RankAccount(1, 0, "compute", [DumpRecord(10, bytes=5)], cpu_s=2.0),
            RankAccount(2, 0, "writer", [written, lost], cpu_s=0.1),
            RankAccount(3, 0, "writer", [lost], cpu_s=0.2),
        ],
    )
    told = found.as_json()
    assert (told["bytes"], told["files"], told["stalls"], told["drops"]) == (10, 1, 1, 1)
    assert told["errors"] == {"20": ["full"]}
    assert found.blocked_s == [0.5, 0.0]
    assert found.cpu_s("compute") == 3.0
    assert found.steps == [10, 20]


def test_parts_of_dumps_that_were_lost_are_no_data_that_was_written() -> None:
    """A full disk once gave megabytes in two files, and no dump that could be read."""
    whole = DumpRecord(10, bytes=5, files=1)
    part, failed = DumpRecord(20, bytes=7, files=1), DumpRecord(20, error="no space left")
    kept, dropped = DumpRecord(30, bytes=9, files=1), DumpRecord(30, dropped=True)
    ranks = [
        RankAccount(0, 0, "writer", [whole, part, kept]),
        RankAccount(1, 1, "writer", [failed, dropped]),
    ]
    found = Account("dn:1", ranks)
    assert (found.bytes, found.files) == (5, 1)


def test_what_the_library_reports_is_each_ranks_own() -> None:
    """In time partitioning a rank has a writer of its own; elsewhere a rank only writes."""
    parts = [{"step": 10, "bytes": 8, "write_s": 0.5}]
    writer = {"cpu_s": 2.0, "dropped": [30], "failed": [[20, "full"]], "dumps": parts}
    compute = {"stalls": 3, "dropped": [30], "failed": [20]}
    own = RankAccount(0, 0, "compute", [DumpRecord(step, bytes=8) for step in (10, 20, 30)])
    account.settle(own, {"compute": compute, "writer": writer}, {20: "full"})
    assert (own.stalls, own.writer_cpu_s) == (3, 2.0)
    assert [(one.files, one.write_s, one.dropped, one.error) for one in own.dumps] == [
        (1, 0.5, False, None),
        (0, 0.0, False, "full"),
        (0, 0.0, True, None),
    ]
    alone = RankAccount(1, 0, "writer")
    account.settle(alone, {"compute": None, "writer": writer}, {20: "full"})
    assert [(one.step, one.bytes, one.files) for one in alone.dumps] == [
        (10, 8, 1),
        (20, 0, 0),
        (30, 0, 0),
    ]
    assert Account("dc:1", [own, alone]).cpu_s("writer") == 4.0
    idle = RankAccount(2, 0, "writer")
    account.settle(idle, {"compute": None, "writer": None}, {})
    assert (idle.dumps, idle.writer_cpu_s) == ([], 0.0)


def test_the_library_reads_what_the_configuration_says(tmp_path: Path) -> None:
    told = Config.model_validate({"grace": "2 s", "output": "a\nb", "existing": "keep_apart"}).text(
        Path("/x/libhdf5.so")
    )
    path = tmp_path / "hpcio.toml"
    path.write_text(told)
    found = Config.read(path)
    assert (found.grace, found.output, found.existing) == (2.0, Path("a\nb"), "keep_apart")
    assert found.hdf5 == Path("/x/libhdf5.so")
    named = Config(hdf5=Path("/y")).text(Path("/x"))
    assert "/y" in named
    assert "/x" not in named
