"""mdtest's output: both layouts of the table, what is doubtful, and text of any kind."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wattio.errors import ResultError
from wattio.workloads import mdtest_output

DATA = Path(__file__).parents[1] / "data" / "outputs"
SAMPLES = os.environ.get("WATTIO_SAMPLES")
needs_samples = pytest.mark.skipif(SAMPLES is None, reason="WATTIO_SAMPLES is not set")


def test_rows_with_a_colon() -> None:
    found = mdtest_output.parse((DATA / "mdtest-3.3.txt").read_text())
    assert found.version == "3.3.0"
    names = [one.operation for one in found.operations]
    # A phase that was not run is absent, and times are no rates.
    assert names == ["directory_creation", "directory_stat", "file_creation", "tree_creation"]
    creation, stat, _, tree = found.operations
    assert (creation.iops, creation.operations, creation.seconds) == (2000.0, 400, None)
    assert tree.operations is None
    assert creation.doubts == ()
    assert "2,500,000 operations a second come from the client's own cache" in stat.doubts[0]
    assert found.notes == (mdtest_output.STAMPS, mdtest_output.MEAN, mdtest_output.POPULATION)


def test_one_iteration_tells_its_seconds() -> None:
    text = (DATA / "mdtest-3.3.txt").read_text().replace("of 2 iterations", "of 1 iterations")
    found = mdtest_output.parse(text)
    assert (found.operations[0].operations, found.operations[0].seconds) == (200, 0.1)
    assert found.notes == (mdtest_output.STAMPS,)


def test_what_is_no_output_is_refused() -> None:
    for text in ("", "mdtest: not found", "SUMMARY rate: (of 2 iterations)\n   File stat 1 2 3"):
        with pytest.raises(ResultError, match="holds no results of mdtest"):
            mdtest_output.parse(text)


@needs_samples
def test_real_outputs() -> None:
    assert SAMPLES is not None
    found = mdtest_output.parse((Path(SAMPLES) / "mdtest_largedir_moosefs.txt").read_text())
    rates = {one.operation: one for one in found.operations}
    assert len(rates) == 10
    assert rates["directory_rename"].iops == 3896.916
    assert rates["file_read"].operations == 2000
    assert [name for name, one in rates.items() if one.doubts] == ["directory_stat"]
    assert found.notes == (mdtest_output.STAMPS, mdtest_output.MEAN)
    found = mdtest_output.parse((Path(SAMPLES) / "mdtest_files_only_moosefs.txt").read_text())
    assert [one.operation for one in found.operations][:2] == ["file_creation", "file_stat"]
    found = mdtest_output.parse((Path(SAMPLES) / "mdtest4.0_local.txt").read_text())
    assert found.version == "4.0.1rc1+dev"


def usable(text: str) -> None:
    try:
        found = mdtest_output.parse(text)
    except ResultError:
        return
    json.dumps(found.as_dict(), allow_nan=False)


@given(st.text())
def test_no_text_breaks_it(text: str) -> None:
    usable(text)
    usable(f"SUMMARY rate: (of 2 iterations)\n   File stat {text}")


@given(st.lists(st.floats() | st.text(max_size=4), min_size=4, max_size=4), st.integers(0))
def test_no_number_breaks_it(numbers: list[object], iterations: int) -> None:
    row = " ".join(map(str, numbers))
    usable(f"1 tasks, 7 files\nSUMMARY rate: (of {iterations} iterations)\n   File stat  {row}\n")


@given(st.data())
def test_no_cut_or_change_breaks_it(data: st.DataObject) -> None:
    whole = (DATA / "mdtest-3.3.txt").read_text()
    at = data.draw(st.integers(0, len(whole)))
    put = data.draw(st.text(max_size=3) | st.sampled_from(["9" * 400, "\n", "-", "nan", "1e-300"]))
    usable(whole[:at] + put + whole[at + 1 :])
