"""fio's output: sums over jobs and clients, windows, percentiles, and text of any kind."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from wattio.errors import ResultError
from wattio.workloads.fio_output import Output, operations, parse, window_of

from .fio_fake import END_MS, direction, job, output

SAMPLES = os.environ.get("WATTIO_SAMPLES")
needs_samples = pytest.mark.skipif(SAMPLES is None, reason="WATTIO_SAMPLES is not set")


def sample(name: str) -> Output:
    assert SAMPLES is not None
    return parse((Path(SAMPLES) / name).read_text())


def test_one_job() -> None:
    found = operations([parse(output(job(read=direction(600, 1 << 20, 60_000))))])
    assert len(found) == 1
    one = found[0]
    assert (one.operation, one.phase, one.seconds) == ("read", "a", 60.0)
    assert (one.bytes, one.operations) == (600 << 20, 600)
    assert (one.throughput_mib_s, one.iops) == (10.0, 10.0)
    assert one.start_utc_ns == (END_MS - 60_000) * 1_000_000
    assert one.end_utc_ns == END_MS * 1_000_000


def test_the_window_is_the_jobs_own_where_fio_tells_it() -> None:
    start_ms = END_MS - 70_000
    window = window_of([parse(output(job(start_ms=start_ms, write=direction(runtime_ms=60_000))))])
    assert window is not None
    assert window.start_utc_ns == start_ms * 1_000_000
    assert window.end_utc_ns == (start_ms + 60_000) * 1_000_000
    assert window.doubts == ()


def test_clients_share_the_time_from_the_latest_start_to_the_earliest_end() -> None:
    def client(start_ms: int, runtime_ms: int) -> Output:
        moved = direction(100, 4096, runtime_ms)
        return parse(output(job(start_ms=END_MS + start_ms, read=moved)))

    window = window_of([client(0, 60_000), client(1000, 60_000)])
    assert window is not None
    assert window.start_utc_ns == (END_MS + 1000) * 1_000_000
    assert window.end_utc_ns == (END_MS + 60_000) * 1_000_000
    assert window.doubts == ()
    window = window_of([client(0, 60_000), client(10_000, 60_000)])
    assert window is not None
    assert "ran together for only 71 % of the time" in window.doubts[0]
    window = window_of([client(0, 1000), client(10_000, 1000)])
    assert window is not None
    assert "for only 0 %" in window.doubts[0]
    assert window.end_utc_ns - window.start_utc_ns == 11_000_000_000


def test_clients_that_ran_one_after_another_are_over_all_of_that_time() -> None:
    """Their bytes were over the seconds of one of them: twice as much as ever was at a time."""
    clients = [
        parse(output(job(start_ms=END_MS + start_ms, read=direction(10, 1 << 20, 10_000))))
        for start_ms in (0, 10_000)
    ]
    (one,) = operations(clients)
    assert (one.seconds, one.bytes, one.throughput_mib_s) == (20.0, 20 << 20, 1.0)
    assert one.iops == 1.0


def test_seconds_of_a_group_are_those_of_the_longest_job() -> None:
    jobs = [job(read=direction(100, 1 << 20, ms)) for ms in (10_000, 20_000)]
    one = operations([parse(output(*jobs))])[0]
    assert (one.seconds, one.bytes, one.throughput_mib_s) == (20.0, 200 << 20, 10.0)
    assert one.doubts[0].startswith("jobs or clients ran together for only 50 %")


def test_a_short_job_of_an_old_fio_is_doubtful() -> None:
    one = operations([parse(output(job(read=direction(runtime_ms=5000))))])[0]
    assert "the window is known only to 0.1 s" in one.doubts[0]


def test_groups_that_follow_each_other_are_told_apart() -> None:
    jobs = [
        job("write", 0, END_MS - 30_000, write=direction(runtime_ms=10_000)),
        job("read", 1, END_MS - 15_000, read=direction(runtime_ms=10_000)),
    ]
    found = operations([parse(output(*jobs))])
    assert [one.phase for one in found] == ["write", "read"]
    assert found[0].end_utc_ns == (END_MS - 20_000) * 1_000_000
    for one in jobs:
        del one["job_start"]
    found = operations([parse(output(*jobs))])
    assert [one.start_utc_ns for one in found] == [None, None]


def test_histograms_of_clients_are_added_up() -> None:
    few, many = {1000: 10}, {5000: 989, 9000: 1}
    parts = [direction(10, bins=few), direction(990, bins=many)]
    one = operations([parse(output(job(read=part))) for part in parts])[0]
    assert one.latency_us["p50"] == 5.0
    assert one.latency_us["p999"] == 5.0
    assert one.latency_us["mean"] == 2.0
    assert (one.latency_us["min"], one.latency_us["max"]) == (1.0, 9.0)
    alone = operations([parse(output(job(read=parts[0])))])[0]
    assert alone.latency_us["p999"] == 1.0


@pytest.mark.parametrize(("requests", "told"), [(9999, None), (10_000, 5.0)])
def test_the_far_percentile_is_told_where_a_request_lies_above_it(
    requests: int, told: float | None
) -> None:
    """fio and `wattiod` stopped at p99.9, where simulations have p99.99."""
    bins = {1000: 9990, 5000: requests - 9991, 9000: 1}
    one = operations([parse(output(job(read=direction(requests, bins=bins))))])[0]
    assert one.latency_us["p999"] == 1.0
    assert one.latency_us.get("p9999") == told


def test_percentiles_that_are_missing_or_partial_are_told() -> None:
    plain = operations([parse(output(job(read=direction())))])[0]
    assert plain.doubts == ("no percentiles: fio was not run with --output-format=json+",)
    assert set(plain.latency_us) == {"mean", "min", "max"}
    completion = direction(bins={1000: 1000}, kind="clat_ns")
    one = operations([parse(output(job(read=completion)))])[0]
    assert "leaves out 5 % of the mean" in one.doubts[0]


def test_the_sum_that_a_client_of_servers_prints_is_left_out() -> None:
    parts = [
        job("a", hostname="one", read=direction(100)),
        job("a", hostname="two", read=direction(300)),
        job("All clients", read=direction(777)),
    ]
    text = 'hostname=one, be=0, 64-bit, "os"=Linux\n' + output(*parts, key="client_stats")
    assert operations([parse(text)])[0].operations == 400


def test_text_before_and_several_objects() -> None:
    first, last = (output(job(read=direction(n))) for n in (1, 2))
    text = f'fio: {{it}} said "so\n{first}\n{last}{output(job(read=direction(3)))}\nbye {{'
    assert operations([parse(text)])[0].operations == 3


def test_numbers_that_are_none_and_trailing_commas() -> None:
    text = '{\n"jobs" : [ {"jobname" : "a", "read" : {"total_ios" : 5, "io_bytes" : 10, '
    text += '"runtime" : 1000, "lat_ns" : {"mean" : -nan, "N" : 5, }, "bw" : inf,},},],}'
    one = operations([parse(text)])[0]
    assert (one.operations, one.iops, one.latency_us) == (5, 5.0, {})


def test_an_error_is_told() -> None:
    told = parse(output(job("x", error=28)))
    assert told.failure() == 'job "x" ended with error 28 (No space left on device)'
    assert operations([told]) == []


def test_what_is_no_output_is_refused() -> None:
    for text in ("", "fio: failed", '{"a": 1}', "{" * 3000, '{"jobs": [', "[" * 100_000):
        with pytest.raises(ResultError, match=r"json\+"):
            parse(text)


@needs_samples
def test_percentiles_are_the_ones_that_fio_prints() -> None:
    assert SAMPLES is not None
    for name in ("fio_randrw7030_8k_moosefs.json", "fio_seqread_4M_gluster_disp4p1.json"):
        told = json.loads((Path(SAMPLES) / name).read_text())["jobs"][0]["read"]
        one = operations([sample(name)])[0]
        labels = {"p50": "50", "p95": "95", "p99": "99", "p999": "99.9", "p9999": "99.99"}
        for key, label in labels.items():
            if key not in one.latency_us:
                assert told["total_ios"] < 10_000
                continue
            assert one.latency_us[key] * 1e3 == told["clat_ns"]["percentile"][f"{float(label):.6f}"]
        assert one.iops == pytest.approx(told["iops"], rel=1e-6)
        assert one.throughput_mib_s == pytest.approx(told["bw_bytes"] / (1 << 20), rel=1e-6)


@needs_samples
def test_real_outputs() -> None:
    mixed = operations([sample("fio_randrw7030_8k_local_2jobs.json")])
    assert [one.operation for one in mixed] == ["read", "write"]
    assert mixed[0].operations == 136_759 + 98_841
    failed = sample("fio_failed_error1.json")
    assert failed.failure() == 'job "seqwrite" ended with error 1 (Operation not permitted)'


LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
STATISTICS = ["lat_ns", "clat_ns", "slat_ns", "bins", "N", "mean", "1000", "io_bytes", "runtime"]
LEVELS = ["jobs", "client_stats", "read", "write", "total_ios", "groupid", "error", "job_start"]
KEYS = st.sampled_from([*STATISTICS, *LEVELS, "timestamp_ms"])
TREES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=8),
    max_leaves=40,
)
PARTS = st.fixed_dictionaries(
    {"total_ios": LEAVES | st.integers(1, 100), "io_bytes": LEAVES | st.integers(1, 10**9)},
    optional={
        "runtime": LEAVES | st.integers(1, 10**6),
        "lat_ns": TREES,
        "clat_ns": TREES,
        "slat_ns": TREES,
    },
)


def usable(text: str) -> None:
    try:
        told = parse(text)
    except ResultError:
        return
    told.failure()
    for one in operations([told, told], "phase"):
        json.dumps(one.as_dict(), allow_nan=False)
        assert one.seconds is None or np.isfinite(one.seconds)


@given(st.text())
def test_no_text_breaks_it(text: str) -> None:
    usable(text)
    usable('{"jobs": [' + text)


@given(TREES, st.lists(st.dictionaries(KEYS, PARTS | TREES, max_size=6), max_size=3))
def test_no_tree_breaks_it(tree: object, jobs: list[object]) -> None:
    usable(json.dumps({"jobs": tree}))
    usable(json.dumps({"jobs": jobs, "timestamp_ms": END_MS}))


@given(st.data())
def test_no_cut_or_change_breaks_it(data: st.DataObject) -> None:
    whole = output(job(read=direction(bins={1000: 1000})), job("b", 1, write=direction()))
    at = data.draw(st.integers(0, len(whole)))
    usable(whole[:at])
    usable(whole[:at] + data.draw(st.text(max_size=3)) + whole[at + 1 :])
