"""`fields.h5` of a dump: `wattio hpcio inspect` holds it against the manifest."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import h5py
import numpy as np
import pytest
from wattio.hpcio.inspection import inspect

from hpcio import io_library
from hpcio.io_library import Rank

pytestmark = pytest.mark.skipif(shutil.which("cargo") is None, reason="needs cargo")


def job(folder: Path) -> Path:
    """Two dumps of two ranks: a field, one with an empty block, and what has no place."""
    folder.mkdir(exist_ok=True)
    config = io_library.configure(folder)
    ranks = [Rank(config, folder / "socket", rank, 2) for rank in range(2)]
    for rank, one in enumerate(ranks):
        one.declare("u", (2, 3), "f4", (4, 3), (2 * rank, 0))
        one.declare("few", (rank,), "i4", (1,), (0,))
        one.declare("count", (), "i8")
        one.declare("own", (3,))
        one.declare("none", (0,), "f8", (0,), (0,))
        one.attribute("u", "units", "m/s")
    for step in (1, 2):
        for rank, one in enumerate(ranks):
            one.begin(step)
            one.attribute(None, "time", 0.5 * step)
            one.put("u", np.full((2, 3), step + rank, "f4"))
            one.put("few", np.full(rank, step, "i4"))
            one.put("count", np.array(rank))
            one.put("own", np.full(3, float(step)))
            one.put("none", np.zeros(0))
            one.end()
    io_library.close_all(ranks)
    return folder / "dumps"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return job(tmp_path_factory.mktemp("fields"))


@pytest.fixture
def output(written: Path, tmp_path: Path) -> Path:
    return shutil.copytree(written, tmp_path / "dumps")


def remade(path: Path, change: Callable[[h5py.File], None]) -> None:
    with h5py.File(path, "r+") as file:
        change(file)


def units(file: h5py.File) -> None:
    file["u"].attrs["units"] = "km/s"


def time(file: h5py.File) -> None:
    file.attrs["time"] = 0.25


def gone(file: h5py.File) -> None:
    del file["own/000001"]


def more(file: h5py.File) -> None:
    file["v"] = np.zeros(3)


def copied(file: h5py.File) -> None:
    """The data are what they should be, and yet those of the parts are not looked at any more."""
    data = file["u"][:]
    del file["u"]
    file.create_dataset("u", data=data).attrs["units"] = "m/s"


def shifted(file: h5py.File) -> None:
    """A block of the field is another one's."""
    whole = h5py.VirtualLayout((4, 3), "f4")
    for rank, at in ((0, 2), (1, 0)):
        source = h5py.VirtualSource(f"part-{process(file):06}.h5", f"u/{rank:06}", (2, 3))
        whole[at : at + 2] = source
    del file["u"]
    file.create_virtual_dataset("u", whole).attrs["units"] = "m/s"


def narrow(file: h5py.File) -> None:
    del file["few"]
    file["few"] = np.zeros(2, "i4")


def process(file: h5py.File) -> int:
    (part,) = Path(file.filename).parent.glob("part-*.h5")
    return int(part.stem.removeprefix("part-"))


def test_what_was_written_is_as_the_manifest_says(output: Path) -> None:
    assert [dump.problems for dump in inspect(output)] == [[], []]
    manifest = json.loads((output / "dump-00000001" / "manifest.json").read_text())
    assert manifest["fields"] is True


def test_the_index_leads_a_reader_to_the_data_of_each_step(output: Path) -> None:
    """As readers of XDMF go: series, grid, attribute, and what its text names beside the index."""
    kinds = {("Float", "4"): "<f4", ("Float", "8"): "<f8", ("Int", "4"): "<i4"}
    index = ElementTree.parse(output / "dumps.xdmf").getroot()
    found = {}
    for series in index.findall("./Domain/Grid"):
        assert series.attrib["CollectionType"] == "Temporal"
        for grid in series.findall("Grid"):
            (time,), (topology,) = grid.findall("Time"), grid.findall("Topology")
            points = extents(topology)
            (origin, spacing) = grid.findall("Geometry/DataItem")
            assert extents(origin) == extents(spacing) == (len(points),)
            for attribute in grid.findall("Attribute"):
                (item,) = attribute.findall("DataItem")
                file, _, dataset = (item.text or "").partition(":")
                assert (item.attrib["Format"], extents(item)) == ("HDF", points)
                with h5py.File(output / file) as opened:
                    data = opened[dataset]
                    assert data.is_virtual
                    assert data.size == np.prod(points)
                    kind = item.attrib["NumberType"], item.attrib["Precision"]
                    assert data.dtype.str == kinds[kind]
                    name = attribute.attrib["Name"]
                    found[name, float(time.attrib["Value"])] = data[()].tolist()
    assert found == {
        **{("u", 0.5 * step): field(step).tolist() for step in (1, 2)},
        **{("few", 0.5 * step): [step] for step in (1, 2)},
    }


def extents(element: ElementTree.Element) -> tuple[int, ...]:
    return tuple(int(word) for word in element.attrib["Dimensions"].split())


def field(step: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    """What two ranks have handed over of `u`."""
    return np.repeat(np.array([step, step, step + 1, step + 1], "f4"), 3).reshape(4, 3)


def test_a_step_is_opened_by_what_reads_hdf5(output: Path, tmp_path: Path) -> None:
    """From another folder, and after the folder of dumps has moved: sources are named beside it."""
    moved = output.rename(tmp_path / "moved")
    for step in (1, 2):
        with h5py.File(moved / f"dump-{step:08}" / "fields.h5") as file:
            assert np.array_equal(file["u"][:], field(step))
            assert np.array_equal(file["u"][1:3, 1:], field(step)[1:3, 1:])
            assert file["u"].attrs["units"] == "m/s"
            assert file.attrs["time"] == 0.5 * step
            assert [int(file["count"][rank][()]) for rank in sorted(file["count"])] == [0, 1]


GRID = 3, 5
"""Ranks of a job whose writer has many blocks; the last of them hand over nothing of `few`."""


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("many")
    config = io_library.configure(folder, buffer="4 MiB")
    count = GRID[0] * GRID[1]
    ranks = [Rank(config, folder / "socket", rank, count) for rank in range(count)]
    whole = np.arange(6 * 15, dtype="f4").reshape(6, 15)
    for rank, one in enumerate(ranks):
        row, column = 2 * (rank // GRID[1]), 3 * (rank % GRID[1])
        one.declare("u", (2, 3), "f4", whole.shape, (row, column))
        one.declare("few", (int(rank < 7),), "i4", (7,), (min(rank, 7),))
        one.begin(1)
        one.put("u", np.ascontiguousarray(whole[row : row + 2, column : column + 3]))
        one.put("few", np.full(int(rank < 7), rank, "i4"))
        one.end()
    io_library.close_all(ranks)
    return folder / "dumps"


def test_a_field_is_made_of_what_many_blocks_of_a_part_fill(many: Path, tmp_path: Path) -> None:
    assert [dump.problems for dump in inspect(many)] == [[]]
    moved = shutil.copytree(many, tmp_path / "moved")
    with h5py.File(moved / "dump-00000001" / "fields.h5") as file:
        assert len(file["u"].virtual_sources()) == 1
        assert len(file["few"].virtual_sources()) == 7
        assert np.array_equal(file["u"][:].ravel(), np.arange(90))
        assert file["u"][3:5, 4:7].tolist() == [[49, 50, 51], [64, 65, 66]]
        assert file["few"][:].tolist() == list(range(7))


@pytest.mark.parametrize("way", ["gone", "plain", "swapped", "smaller"])
def test_what_was_changed_of_that_is_told(many: Path, tmp_path: Path, way: str) -> None:
    folder = shutil.copytree(many, tmp_path / "dumps") / "dump-00000001"
    (part,) = folder.glob("part-*.h5")
    with h5py.File(part, "r+") as file:
        (name,) = (key for key in file["u"] if key.startswith("box-"))
        data = file["u"][name][:]
        del file["u"][name]
        if way == "plain":
            file["u"][name] = data
        if way in {"swapped", "smaller"}:
            whole = h5py.VirtualLayout((6, 15) if way == "swapped" else (6, 12), "f4")
            for rank in range(15):
                at = rank ^ 1 if way == "swapped" and rank < 14 else rank
                row, column = 2 * (at // 5), 3 * (at % 5)
                if column < whole.shape[1]:
                    source = h5py.VirtualSource(".", f"u/{rank:06}", (2, 3))
                    whole[row : row + 2, column : column + 3] = source
            file["u"].create_virtual_dataset(name, whole)
    missing = f"u: u/000000 of {part.name} at (0, 0) is missing"
    told = "fields.h5: " + ("cannot be read: " if way == "gone" else missing)
    ((problem,),) = [dump.problems for dump in inspect(folder.parent)]
    assert problem.startswith(told)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (units, "u: its attribute units is 'km/s', not 'm/s'"),
        (time, "its attribute time is 0.25, not 0.5"),
        (gone, "own/000001 is missing"),
        (more, "v is not in the manifest"),
        (copied, "u: u/000000 of part-{part} at (0, 0) is missing"),
        (shifted, "u: u/000000 of part-{part} at (0, 0) is missing"),
        (narrow, "few: is <i4 (2,), the manifest says <i4 (1,)"),
    ],
)
def test_what_was_changed_is_told(
    output: Path, change: Callable[[h5py.File], None], told: str
) -> None:
    path = output / "dump-00000001" / "fields.h5"
    remade(path, change)
    (part,) = path.parent.glob("part-*.h5")
    told = told.format(part=part.name.removeprefix("part-"))
    assert [dump.problems for dump in inspect(output)] == [[f"fields.h5: {told}"], []]


def test_one_of_another_dump_is_told(output: Path, tmp_path: Path) -> None:
    path = output / "dump-00000001" / "fields.h5"
    shutil.copy(output / "dump-00000002" / "fields.h5", path)
    (told,) = inspect(output)[0].problems
    assert told == "fields.h5: belongs to another dump: its attribute step is 2, not 1"
    shutil.copy(job(tmp_path / "other") / "dump-00000001" / "fields.h5", path)
    (told,) = inspect(output)[0].problems
    assert "belongs to another dump: its attribute job is" in told


def test_one_that_is_damaged_or_missing_is_told(output: Path) -> None:
    path = output / "dump-00000001" / "fields.h5"
    whole = path.read_bytes()
    for content in (b"", b"no HDF5", whole[: len(whole) // 2], whole[:100]):
        path.write_bytes(content)
        (told,) = inspect(output)[0].problems
        assert told.startswith("fields.h5: cannot be read: ")
    path.unlink()
    assert inspect(output)[0].problems == ["fields.h5: is missing"]


def test_manifests_of_before_do_not_tell_of_one(output: Path) -> None:
    """They are read; what is there is looked at all the same."""
    folder = output / "dump-00000001"
    manifest = json.loads((folder / "manifest.json").read_text())
    for key in ("fields", "crc32"):
        del manifest[key]
    (folder / "manifest.json").write_text(json.dumps(manifest))
    assert inspect(output)[0].problems == []
    (folder / "fields.h5").write_bytes(b"no HDF5")
    assert "cannot be read" in inspect(output)[0].problems[0]
    (folder / "fields.h5").unlink()
    assert inspect(output)[0].problems == []


@pytest.mark.system
@pytest.mark.parametrize("sync", [True, False])
def test_a_durable_dump_has_all_its_files_on_the_disk(sync: bool, tmp_path: Path) -> None:
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    log = tmp_path / "calls"
    config = io_library.configure(tmp_path, sync=sync)
    traced = ["strace", "-f", "-qq", "-y", "-e", "trace=fsync,fdatasync,/rename", "-o", str(log)]
    writer = io_library.serve(config, tmp_path / "socket", 1, before=traced)
    rank = Rank(config, tmp_path / "socket")
    rank.declare("u", (3,))
    rank.dump(7, u=np.zeros(3))
    rank.close()
    assert writer.wait(60) == 0
    output = tmp_path / "dumps"
    calls = [line for line in log.read_text().splitlines() if "sync(" in line or "rename" in line]
    named = next(at for at, call in enumerate(calls) if f'"{output}/dump-00000007"' in call)
    synced = [re.findall(r"<([^>]*)>", call)[0] for call in calls if "sync(" in call]
    before = [re.findall(r"<([^>]*)>", call)[0] for call in calls[:named] if "sync(" in call]
    folder = f"{output}/dump-00000007.partial"
    (part,) = (path.name for path in output.glob("*/part-*.h5"))
    files = [f"{folder}/{name}" for name in (part, "fields.h5", "manifest.json.new")]
    # Its content, the folder's entries, and its name in the end.
    assert sorted(before) == (sorted([*files, folder]) if sync else [])
    assert synced == ([*before, str(output)] if sync else [])
