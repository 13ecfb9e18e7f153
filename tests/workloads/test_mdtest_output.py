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
    # 200 at 3000 and 200 at 1000 a second: 400 in 0.2667 s, and not 2000 a second.
    assert creation.operations == 400
    assert creation.iops == pytest.approx(1500.0)
    assert creation.seconds == pytest.approx(200 / 3000 + 200 / 1000)
    assert tree.operations == 2
    assert tree.seconds == pytest.approx(0.02)
    assert found.ranks == 2
    assert all(one.in_turn for one in found.operations)
    assert creation.doubts == ()
    assert "2,500,000 operations a second come from the client's own cache" in stat.doubts[0]
    assert found.notes == (mdtest_output.STAMPS, mdtest_output.POPULATION)


def test_one_iteration_tells_its_seconds() -> None:
    """3.3 has the mean of its ranks' rates; the slowest of them ends the phase."""
    text = (DATA / "mdtest-3.3.txt").read_text().replace("of 2 iterations", "of 1 iterations")
    found = mdtest_output.parse(text)
    assert (found.operations[0].operations, found.operations[0].seconds) == (200, 0.2)
    assert found.operations[0].iops == 1000.0
    assert found.notes == (mdtest_output.STAMPS,)


ROW = "   Directory creation        :       3000.000       1000.000       2000.000       1000.000"


def test_means_of_rates_that_differ_are_doubtful() -> None:
    """3.3 has a mean over iterations and ranks: 335 k for rates from 9.8 k to 661 k."""
    text = (DATA / "mdtest-3.3.txt").read_text()
    spread = (
        "   Directory creation        :     661000.000       9800.000     335000.000     230000.000"
    )
    one = mdtest_output.parse(text.replace(ROW, spread)).operations[0]
    assert (one.seconds, one.iops) == (None, 335000.0)
    assert one.doubts[0].startswith("a mean of rates from 9,800 to 661,000: operations over the")
    three = text.replace("of 2 iterations", "of 3 iterations")
    found = mdtest_output.parse(three)
    assert found.operations[0].iops == 2000.0
    assert "a mean of rates from 1,000 to 3,000" in found.operations[0].doubts[0]
    assert mdtest_output.MEAN in found.notes


def test_statistics_of_ranks_stand_before_those_of_iterations() -> None:
    text = (DATA / "mdtest-3.3.txt").read_text().replace("of 2 iterations", "of 1 iterations")
    row = "   File creation      9.0 1.0 5.0        800.000  800.000  800.000  0.000"
    rows = text.replace(ROW, row)
    assert mdtest_output.parse(rows).operations[0].iops == 800.0


@pytest.mark.parametrize(
    "words", ["-z 3 -d /mnt/disk-b2/x-W1", "'-z' '3' '-d' '/mnt/disk-b2/x-W1'", "-z3 -d a-z9/-b2"]
)
def test_options_are_not_read_out_of_paths(words: str) -> None:
    """A folder disk-b2 was taken for two branches: 30 directories instead of 8."""
    text = (DATA / "mdtest-3.3.txt").read_text().replace("'-i' '2'", f"'-i' '2' {words}")
    *files, tree = mdtest_output.parse(text).operations
    assert tree.operations == 2 * 4
    assert all(one.operations for one in files)


def test_a_stonewall_hides_how_many_files_there_were() -> None:
    """-W 1 stops after a second: 2,000,000 planned files were told, and 1236 s for them."""
    found = mdtest_output.parse((DATA / "mdtest-3.3-stonewall.txt").read_text())
    for one in found.operations:
        if one.operation.startswith("file_"):
            assert (one.operations, one.seconds) == (None, None)
            assert "-W" in one.doubts[-1]
    creation = found.operations[0]
    assert creation.iops is not None
    assert 100 < creation.iops < 100_000


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("mdtest-4.1-failed.txt", ""),
        ("mdtest-3.3.txt", "ERROR: verifying the data on read (3 errors)! Take the performance"),
        ("mdtest-3.3.txt", "V-0: Rank   3 Line   766 verification error in file: x"),
        ("mdtest-3.3.txt", 'WARNING: [RANK 000]: unlink() of file "x" failed'),
        ("mdtest-3.3.txt", "01/05/2026 10:00:00: Process 0: FAILED in x, Unable to create x"),
    ],
)
def test_a_run_that_failed_has_no_result(name: str, line: str) -> None:
    """What could not be made counts as made: 107,546 creations a second of 6 files that were."""
    text = (DATA / name).read_text()
    with pytest.raises(ResultError, match="is from a failed run of mdtest: "):
        mdtest_output.parse(f"{text}{line}\n")


def test_warnings_of_no_failure_do_no_harm() -> None:
    text = (DATA / "mdtest-3.3.txt").read_text()
    warning = "WARNING: Read bytes is 0, thus, a read test will actually just open/close\n"
    assert mdtest_output.parse(warning + text) == mdtest_output.parse(text)


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
    assert rates["directory_rename"].iops == pytest.approx(3896.916, rel=1e-4)
    assert rates["file_read"].operations == 2000
    assert [name for name, one in rates.items() if one.doubts] == ["directory_stat"]
    assert found.notes[0] == mdtest_output.STAMPS
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
