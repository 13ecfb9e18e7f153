"""IOR's output: JSON and text, both layouts, what is doubtful, and text of any kind."""

from __future__ import annotations

import json
import os
import re
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
    assert one.bytes == 64 * MIB  # told as the sum, as segments are not
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


def recorded(name: str) -> Imported:
    return ior_output.parse((DATA / name).read_text())


def test_words_within_the_json_do_no_harm() -> None:
    """With -vv, or with warnings at -D, 4.x prints them among its rows: that was refused."""
    found = recorded("ior-4.1-vv.json")
    assert (found.version, found.ranks) == ("4.1.0+dev", 2)
    assert [one.operation for one in found.operations] == ["write", "read"]
    assert found.operations[0].bytes == 4 * MIB


def test_the_json_of_3_2_closes_its_brackets_in_wrong_places() -> None:
    found = recorded("ior-3.2.json")
    assert found.version == "3.2.1"
    assert [one.phase for one in found.operations] == ["write 1", "read 1", "write 2", "read 2"]
    assert {one.bytes for one in found.operations} == {4 * MIB}
    assert all(one.seconds and one.throughput_mib_s for one in found.operations)
    assert not any("all tasks ran on one node" in one.doubts for one in found.operations)


def test_environments_in_the_log_are_no_results() -> None:
    text = (DATA / "ior-4.1-vv.json").read_text()
    noise = 'STARTING ENVIRON LOOP\nX={"access": "write", "TestID": 7}\nENDING ENVIRON LOOP\n'
    at = text.index('  "tests"')
    assert ior_output.parse(text[:at] + noise + text[at:]) == ior_output.parse(text)


def test_csv_of_4_x() -> None:
    found = recorded("ior-4.1.csv")
    assert [one.phase for one in found.operations] == ["write 1", "read 1", "write 2", "read 2"]
    assert all(one.seconds and one.throughput_mib_s for one in found.operations)
    assert {one.bytes for one in found.operations} == {None}


def test_means_of_2_10() -> None:
    found = recorded("ior-2.10.txt")
    assert found.version == "2.10.3"
    write, read = found.operations
    assert (write.phase, write.bytes) == ("write", 2 * 4 * MIB)  # of both repetitions
    assert write.seconds is not None
    assert write.throughput_mib_s == pytest.approx(8 / write.seconds)
    assert read.operation == "read"
    assert write.doubts == ()


@pytest.mark.parametrize(
    ("change", "doubtful"),
    [
        ("", False),  # the file asks for it, or does not: nobody knows
        ("-a POSIX", True),
        ("-f conf -a POSIX -e", False),
        ("-a POSIX -kFe", False),
        ("-a POSIX -O fsync=1", False),
        ("-a POSIX -O fsyncPerWrite=1", False),
        ("-a POSIX -Y", False),
        ("-a POSIX -O fsync=0", True),
        ("-a POSIX -o /e", True),
    ],
)
def test_fsync_may_be_asked_for_in_several_ways(change: str, doubtful: bool) -> None:
    """With fsync=1 in a configuration file, it was still doubted."""
    text = (DATA / "ior-4.1-file.txt").read_text()
    if change:
        text = text.replace("ior -f conf", f"ior {change}")
    (found,) = ior_output.parse(text).operations
    assert any("without -e" in doubt for doubt in found.doubts) is doubtful


def test_whole_seconds_are_a_doubt_with_its_size() -> None:
    text = (DATA / "ior-3.0.txt").read_text()
    (found,) = ior_output.parse(text).operations
    assert found.doubts[-1] == (
        "its stamps are whole seconds, of the whole run: its 2 s lie somewhere within 3 s"
    )
    (unplaced,) = ior_output.parse(text, zone=None).operations
    assert unplaced.start_utc_ns is None
    assert unplaced.doubts == found.doubts[:-1]


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("ior-4.1-incorrect.txt", ""),
        ("ior-3.0.txt", "WARNING: incorrect data on write (3 errors found)."),
        ("ior-3.0.txt", "ior ERROR: write() failed, errno 28, No space left (aiori-POSIX.c:9)"),
        ("ior-4.json", "ERROR: close() failed, (aiori-POSIX.c:9)"),
        ("ior-4.json", "ERROR in aiori-POSIX.c (line 9): cannot write."),
    ],
)
def test_a_run_that_failed_has_no_result(name: str, line: str) -> None:
    """Wrong data, and an error after a good write, were imported as if nothing had been."""
    text = (DATA / name).read_text()
    with pytest.raises(ResultError, match=f"failed run of IOR: {re.escape(line[:20])}"):
        ior_output.parse(f"{text}{line}\n")


def test_a_path_is_no_error() -> None:
    path = "/mnt/ERROR: x"
    old = (DATA / "ior-3.0.txt").read_text().replace("/made/up", path)
    new = (DATA / "ior-4.1-vv.json").read_text().replace("mnt/data", path)
    assert ior_output.failure(old) is None
    assert ior_output.failure(new.replace('The file "', 'The file "x')) is None


def test_another_amount_than_asked_for_is_told() -> None:
    warning = "WARNING: Using actual aggregate bytes moved = 123."
    text = (DATA / "ior-4.1-vv.json").read_text()
    one = ior_output.parse(f"{warning}\n{text}").operations[0]
    assert one.bytes is None
    assert any("a different amount than requested" in doubt for doubt in one.doubts)


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


FORMS = ["ior-4.json", "ior-3.0.txt", "ior-4.1-vv.json", "ior-4.1.csv", "ior-2.10.txt"]
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


@given(st.sampled_from(FORMS), st.data())
def test_no_cut_or_change_breaks_it(name: str, data: st.DataObject) -> None:
    whole = (DATA / name).read_text()
    at = data.draw(st.integers(0, len(whole)))
    put = data.draw(st.text(max_size=3) | st.sampled_from(["9" * 400, "\n", "-", "nan", "1e-300"]))
    usable(whole[:at])
    usable(whole[:at] + put + whole[at + 1 :])
