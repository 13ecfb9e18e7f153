"""IOR's output: JSON and text, both layouts, what is doubtful, and text of any kind."""

from __future__ import annotations

import json
import os
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wattio.errors import ResultError
from wattio.workloads import ior_output
from wattio.workloads.imported import Imported

DATA = Path(__file__).parents[1] / "data" / "outputs"
SAMPLES = os.environ.get("WATTIO_SAMPLES")
needs_samples = pytest.mark.skipif(SAMPLES is None, reason="WATTIO_SAMPLES is not set")
MIB = 1 << 20


def sample(name: str) -> Imported:
    assert SAMPLES is not None
    return ior_output.parse((Path(SAMPLES) / name).read_text())


def test_json_that_is_not_quite_json() -> None:
    found = ior_output.parse((DATA / "ior-4.json").read_text())
    assert found.version == "4.9.0"
    assert [one.phase for one in found.operations] == ["write 1", "read 1", "write 2"]
    write, read, again = found.operations
    assert (write.bytes, write.operations, write.seconds) == (32 * MIB, 32, 2.0)
    # Transfers over the whole time, as the throughput is; not IOR's 17.5 without opening.
    assert (write.throughput_mib_s, write.iops) == (16.0, 16.0)
    assert (read.throughput_mib_s, read.seconds, read.iops) == (None, None, None)
    assert again.iops == 8.0
    assert write.start_utc_ns is None  # one pair of stamps for three rows
    assert any("without -e" in doubt for doubt in write.doubts)
    assert any("each task read what it had written itself" in doubt for doubt in read.doubts)
    assert found.notes == (ior_output.STAMPS, ior_output.POPULATION)


def test_text_of_an_old_version() -> None:
    text = (DATA / "ior-3.0.txt").read_text()
    found = ior_output.parse(text, ZoneInfo("Europe/Berlin"))
    assert found.version == "3.0.1"
    assert found.notes == (ior_output.STAMPS,)
    (one,) = found.operations
    assert (one.operation, one.phase, one.throughput_mib_s) == ("write", "write", 32.0)
    assert one.bytes is None  # segments are not told
    # 09:00:00 UTC on 5 January 2015, and two seconds later
    assert (one.start_utc_ns, one.end_utc_ns) == (1420448400 * 10**9, 1420448402 * 10**9)
    assert ior_output.parse(text).operations[0].start_utc_ns == 1420452000 * 10**9


def test_a_stonewall_hides_how_much_was_moved() -> None:
    text = (DATA / "ior-4.json").read_text().replace('Stonewall": 0', 'Stonewall": 30')
    one = ior_output.parse(text).operations[0]
    assert (one.bytes, one.operations, one.iops) == (None, None, 17.5)
    assert any("stonewall" in doubt for doubt in one.doubts)


def test_what_is_no_output_is_refused() -> None:
    for text in ("", "ior: not found", '{"tests": []}', '{"tests": [{"Results": [1]}]}'):
        with pytest.raises(ResultError, match="holds no results of IOR"):
            ior_output.parse(text)


@needs_samples
def test_both_layouts_of_real_outputs() -> None:
    nested = sample("ior3.3_local.json")
    assert nested.version == "3.3.1+dev"
    accesses = ["write", "read", "remove"] * 2
    assert [one.operation for one in nested.operations] == accesses
    assert nested.operations[0].bytes == 64 * MIB
    flat = sample("ior_config_moosefs.json")
    assert len(flat.operations) == 18
    assert flat.operations[9].phase == "test 1 write 1"
    assert {one.bytes for one in flat.operations} == {128 * MIB, None}


@needs_samples
@pytest.mark.parametrize(
    "name",
    [
        "ior3.3_local.json",
        "ior_config_moosefs.json",
        "ior_mpiio_shared_moosefs.txt",
        "ior_posix_fpp_moosefs.json",
        "ior_posix_fpp_moosefs.txt",
    ],
)
def test_throughput_is_bytes_over_seconds(name: str) -> None:
    for one in sample(name).operations:
        if one.operation == "remove":
            assert one.bytes is None
            assert one.throughput_mib_s is None
            continue
        assert one.bytes is not None
        assert one.seconds is not None
        assert one.throughput_mib_s == pytest.approx(one.bytes / MIB / one.seconds, rel=0.01)


def usable(text: str) -> None:
    try:
        found = ior_output.parse(text)
    except ResultError:
        return
    json.dumps(found.as_dict(), allow_nan=False)


LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["write", "x"])
ROW_KEYS = ["access", "bwMiB", "totalTime", "iops", "blockKiB", "xferKiB"]
TEST_KEYS = ["Parameters", "Options", "Results", "TestID", "tasks", "segmentCount", "nodes"]
KEYS = st.sampled_from([*ROW_KEYS, *TEST_KEYS, "tests", "fsync", "deadlineForStonewall", "Began"])
TREES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=8),
    max_leaves=40,
)
ROWS = st.fixed_dictionaries(
    {"access": st.sampled_from(["write", "read"])},
    optional={key: LEAVES for key in ROW_KEYS[1:]},
)
TESTS = st.fixed_dictionaries(
    {
        "Results": st.lists(ROWS | st.lists(ROWS, max_size=2), max_size=3),
        "Parameters": st.dictionaries(KEYS, LEAVES),
        "Options": st.dictionaries(KEYS, LEAVES),
    }
)


@given(st.text())
def test_no_text_breaks_it(text: str) -> None:
    usable(text)


@given(TREES, st.lists(TESTS, max_size=2))
def test_no_tree_breaks_it(tree: object, tests: list[object]) -> None:
    usable(json.dumps({"tests": tree}))
    usable(json.dumps({"tests": tests}))


@given(st.sampled_from(["ior-4.json", "ior-3.0.txt"]), st.data())
def test_no_cut_or_change_breaks_it(name: str, data: st.DataObject) -> None:
    whole = (DATA / name).read_text()
    at = data.draw(st.integers(0, len(whole)))
    put = data.draw(st.text(max_size=3) | st.sampled_from(["9" * 400, "\n", "-", "nan", "1e-300"]))
    usable(whole[:at])
    usable(whole[:at] + put + whole[at + 1 :])
