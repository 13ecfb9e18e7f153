"""Steps of a job opened by readers of the field: VTK's, which ParaView has, and xarray.

They come with the group `readers` of the project's dependencies.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hpcio import io_library
from hpcio.io_library import KINDS, Array, Rank

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(shutil.which("cargo") is None, reason="needs cargo"),
]

SHAPES = (5,), (3, 4), (2, 3, 4)
TIMES = 0.25, 0.75


def data(step: int) -> dict[str, Array]:
    """A field of each kind of elements and number of axes."""
    random = np.random.default_rng(step)
    found: dict[str, Array] = {}
    for kind in map(np.dtype, KINDS):
        for shape in SHAPES:
            if kind.kind == "f":
                values = random.standard_normal(shape).astype(kind)
            else:
                most = min(np.iinfo(kind).max, np.iinfo("i8").max)
                values = random.integers(np.iinfo(kind).min, most, shape, kind)
            found[f"{kind.str[1:]}_{len(shape)}"] = values
    return found


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("readers")
    rank = Rank(io_library.configure(folder), folder / "socket")
    for name, values in data(0).items():
        shape = values.shape
        rank.declare(name, shape, values.dtype.str[1:], shape, (0,) * len(shape))
        rank.attribute(name, "units", "m/s")
    for step, time in enumerate(TIMES):
        rank.begin(step)
        rank.attribute(None, "time", time)
        for name, values in data(step).items():
            rank.put(name, values)
        rank.end()
    rank.close()
    return folder / "dumps"


def test_vtk_reads_each_field_at_each_time(output: Path) -> None:
    vtk = pytest.importorskip("vtk")
    from vtk.util import numpy_support  # type: ignore[import-not-found]

    reader = vtk.vtkXdmfReader()
    reader.SetFileName(str(output / "dumps.xdmf"))
    reader.UpdateInformation()
    key = vtk.vtkStreamingDemandDrivenPipeline.TIME_STEPS()
    assert reader.GetOutputInformation(0).Get(key) == TIMES
    for step, time in enumerate(TIMES):
        reader.UpdateTimeStep(time)
        found = {}
        for grid in leaves(reader.GetOutputDataObject(0)):
            points = grid.GetPointData()
            for at in range(points.GetNumberOfArrays()):
                array = points.GetArray(at)
                found[array.GetName()] = numpy_support.vtk_to_numpy(array).ravel()
        wanted = data(step)
        assert found.keys() == wanted.keys()
        for name, values in wanted.items():
            assert np.array_equal(found[name], values.ravel()), name


def leaves(tree: Any) -> Iterator[Any]:  # noqa: ANN401 (VTK has no types here)
    """The grids of what a reader gives, which may be a tree of them."""
    if not hasattr(tree, "NewIterator"):
        yield tree
        return
    walk = tree.NewIterator()
    walk.InitTraversal()
    while not walk.IsDoneWithTraversal():
        yield walk.GetCurrentDataObject()
        walk.GoToNextItem()


def test_xarray_reads_each_field_with_its_attributes(output: Path) -> None:
    xarray = pytest.importorskip("xarray")
    pytest.importorskip("h5netcdf")
    for step, time in enumerate(TIMES):
        path = output / f"dump-{step:08}" / "fields.h5"
        with xarray.open_dataset(path, engine="h5netcdf", phony_dims="sort") as found:
            assert found.attrs["time"] == time
            for name, values in data(step).items():
                assert found[name].dtype == values.dtype
                assert np.array_equal(found[name].values, values), name
                assert found[name].attrs["units"] == "m/s"
