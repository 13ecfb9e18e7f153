"""One file of each dump, without MPI: where blocks go, who decides, and how it is read."""

from __future__ import annotations

import json
import resource
from collections.abc import Iterator, Sequence
from pathlib import Path

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from wattio.errors import InputError
from wattio.hpcio import Config, blocks, layout, parts, shared_file, verdicts
from wattio.hpcio.account import Account, DumpRecord, RankAccount
from wattio.hpcio.assembly import assemble, fields
from wattio.hpcio.blocks import Block
from wattio.hpcio.dumps import Dumps
from wattio.hpcio.inspection import inspect
from wattio.hpcio.notes import Note
from wattio.hpcio.verdicts import Contribution, Verdict, judge

from hpcio.launching import launch

FIELD = np.arange(24.0).reshape(4, 6)
SIDE = 6


def made(name: str, rank: int, cut: tuple[slice, slice] | None = None) -> Block:
    """A block of the field; without a cut, one without a place."""
    if cut is None:
        return blocks.make(name, rank, (3,), "f8")
    shape = FIELD[cut].shape
    return blocks.make(name, rank, shape, "f8", FIELD.shape, (cut[0].start, cut[1].start))


LEFT, RIGHT = np.s_[0:4, 0:2], np.s_[0:4, 2:6]


def test_where_blocks_go() -> None:
    whole = (made("u", 0, LEFT), made("u", 1, RIGHT))
    halo = (made("h", 0, LEFT), made("h", 1, np.s_[0:4, 1:6]))
    apart = (made("p", 0), made("p", 1), made("m", 0, LEFT), made("m", 1))
    assert layout.fields((*whole, *halo, *apart)) == {"u": whole[0]}
    other = blocks.make("u", 1, (4, 4), "f4", FIELD.shape, (0, 2))
    assert layout.fields((whole[0], other)) == {}
    points = [blocks.make("s", rank, (), "f8", (), ()) for rank in (0, 1)]
    assert set(layout.fields((points[0],))) == {"s"}
    assert layout.fields(tuple(points)) == {}


@st.composite
def boxes(draw: st.DrawFn) -> tuple[tuple[int, int], ...]:
    """The extents of a block along three axes."""
    ends = st.tuples(st.integers(0, SIDE), st.integers(0, SIDE))
    return tuple((min(pair), max(pair)) for pair in (draw(ends) for _ in range(3)))


@given(st.lists(boxes(), min_size=1, max_size=8))
def test_blocks_overlap_where_two_have_the_same_element(
    found: Sequence[tuple[tuple[int, int], ...]],
) -> None:
    those = tuple(
        blocks.make("u", rank, [b - a for a, b in box], "f4", (SIDE,) * 3, [a for a, _ in box])
        for rank, box in enumerate(found)
    )
    count = np.zeros((SIDE,) * 3, int)
    for box in found:
        count[tuple(slice(*pair) for pair in box)] += 1
    assert bool(layout.fields(those)) == (count.max() <= 1)


def offer(process: int, step: int = 10, **more: object) -> Contribution:
    return Contribution(step, Note(process, (process, process + 10), **more))  # type: ignore[arg-type]


def test_the_first_decides() -> None:
    ranks = (0, 1, 10, 11)
    assert judge([offer(0), offer(1)], ranks) == Verdict()
    assert judge([None, None], ranks) == Verdict(over=True)
    assert judge([offer(0), offer(1, dropped=True)], ranks) == Verdict(dropped=True)
    assert judge([offer(0), None], ranks).error == "ranks [1, 11] ended without this dump"
    assert judge([offer(0), offer(1, 11)], ranks).error == (
        "ranks disagree about the step: [10, 11]"
    )
    two = [offer(0, error="first"), offer(1, error="second")]
    assert judge(two, ranks).error == "first (and 1 more)"
    whole = verdicts.together([None, offer(1, blocks=[{"name": "u"}]), offer(0, 9)])
    assert (whole.step, whole.note.process, whole.note.ranks) == (9, 1, (1, 11, 0, 10))
    assert whole.note.as_part() == {
        "file": "dump.h5",
        "ranks": [1, 11, 0, 10],
        "blocks": [{"name": "u"}],
    }


@pytest.mark.parametrize(
    ("keys", "reason"),
    [
        ({"when_full": "write_through"}, "contradict each other"),
        ({"compression": "gzip:1"}, "do not go together"),
    ],
)
def test_what_does_not_go_with_one_file(keys: dict[str, str], reason: str, tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match=reason):
        Config.model_validate({"aggregation": "dump", **keys})
    Config.model_validate({"aggregation": "writer", **keys})
    lines = "\n".join(f'{key} = "{value}"' for key, value in keys.items())
    path = tmp_path / "hpcio.toml"
    path.write_text(f'[hpcio]\naggregation = "dump"\n{lines}\n')
    with pytest.raises(InputError, match=reason):
        Config.read(path)


def test_a_serial_h5py_is_refused(tmp_path: Path) -> None:
    output = tmp_path / "dumps"
    asked = {"config": {"output": str(output), "aggregation": "dump"}, "steps": [0]}
    done = launch(2, asked)
    assert done.returncode != 0
    assert 'aggregation = "dump" needs h5py with parallel HDF5, which this' in done.stderr
    assert not output.exists()


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    """A dump in one file, its blocks written one after the other."""
    output = tmp_path / "dumps"
    found = [
        (made("u", 0, LEFT), FIELD[LEFT]),
        (made("u", 1, RIGHT), FIELD[RIGHT]),
        (made("p", 1), np.arange(3.0)),
    ]
    facts = [{**block.as_json(), "crc32": parts.crc32(data)} for block, data in found]
    store = Dumps(output, "tp", (0, 1))
    store.prepare()
    path = store.begin(7) / shared_file.NAME
    shared_file.make(path, 7, facts)
    size = path.stat().st_size
    assert path.stat().st_blocks * 512 >= size, "its space is taken"
    assert shared_file.obstacle(path) is None
    with h5py.File(path, "r+") as file:
        for block, data in found:
            dataset, place = parts.find(file, block)
            dataset[place] = data
    assert path.stat().st_size == size
    note = verdicts.together([Contribution(7, Note(0, (0, 1), facts))]).note
    store.publish(7, [note])
    return output / "dump-00000007"


def test_a_dump_in_one_file_is_read(dump: Path, tmp_path: Path) -> None:
    found = inspect(dump.parent)
    assert [(one.files, one.checked, one.problems) for one in found] == [(1, 3, [])]
    assert found[0].bytes == FIELD.nbytes + 24
    with h5py.File(dump / "dump.h5") as file:
        assert np.array_equal(file["u"][()], FIELD)
        assert file["p/000001"].attrs["crc32"] == parts.crc32(np.arange(3.0))
    assert np.array_equal(fields(dump.parent, 7)["u"], FIELD)
    assert assemble(dump.parent, 7, tmp_path / "whole.h5") == {"u": (4, 6), "p/000001": (3,)}
    with h5py.File(tmp_path / "whole.h5") as file:
        assert np.array_equal(file["u"][()], FIELD)


def test_a_flipped_bit_is_found_in_its_block(dump: Path) -> None:
    path = dump / "dump.h5"
    content = bytearray(path.read_bytes())
    at = content.index(FIELD[1].tobytes())
    content[at + 8 * 3] ^= 1
    path.write_bytes(content)
    assert inspect(dump.parent)[0].problems == [
        "dump.h5: u/000001 is damaged: its checksum is wrong"
    ]
    manifest = json.loads((dump / "manifest.json").read_text())
    del manifest["parts"][0]["blocks"][0]
    (dump / "manifest.json").write_text(json.dumps(manifest))
    assert "u: 8 of 24 elements are missing" in inspect(dump.parent)[0].problems


@pytest.fixture
def small_files() -> Iterator[None]:
    kept = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, kept[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, kept)


@pytest.mark.usefixtures("small_files")
def test_no_space_is_told_before_anything_is_written(tmp_path: Path) -> None:
    path = tmp_path / "dump.h5"
    large = blocks.make("u", 0, (4096,), "f8").as_json()
    with pytest.raises(parts.PartFailed, match="the disk is full or a limit is reached"):
        shared_file.make(path, 1, [large])
    assert not path.exists()


def handles() -> set[str]:
    return {path.name for path in Path("/proc/self/fd").iterdir()}


def test_what_keeps_a_process_from_opening_the_file(tmp_path: Path) -> None:
    before = handles()
    assert shared_file.obstacle(tmp_path / "none.h5") == (
        f"{tmp_path}/none.h5: No such file or directory"
    )
    assert handles() == before


def test_a_file_for_all_is_counted_once() -> None:
    records = [DumpRecord(10, bytes=5, files=1, shares_file=True)]
    others = [DumpRecord(10, bytes=7, shares_file=True), DumpRecord(20, bytes=3, error="full")]
    ranks = [RankAccount(rank, 0, "compute", dumps) for rank, dumps in enumerate((records, others))]
    account = Account("tp", ranks)
    assert (account.files, account.bytes) == (1, 12)
