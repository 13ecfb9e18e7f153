"""What fio, iperf3 and ping say, as recorded and as nobody would expect it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wattio.analysis.peak import QUANTITIES, Quantity, Rate
from wattio.errors import WorkloadFailed
from wattio.peak import fio, network
from wattio.peak.rates import combine, together

OUTPUTS = Path(__file__).parent / "outputs"
WRITE_IOPS = Quantity("iops", "write")
WRITE = Quantity("throughput_mib_s", "write")


def recorded(name: str) -> str:
    return (OUTPUTS / name).read_text()


def fio_jobs() -> list[dict[str, dict[str, float]]]:
    text = recorded("fio_randwrite_2disks.json")
    jobs: list[dict[str, dict[str, float]]] = json.loads(text[text.index("{") :])["jobs"]
    return jobs


def test_fio_s_jobs_of_one_disk_are_added_up() -> None:
    found = fio.rates(recorded("fio_randwrite_2disks.json"), WRITE_IOPS)
    assert list(found) == ["disk0", "disk1"]
    first = [job["write"] for job in fio_jobs()[:2]]
    assert found["disk0"].mean == pytest.approx(sum(side["iops"] for side in first))
    squares = sum(side["iops_stddev"] ** 2 for side in first)
    assert found["disk0"].deviation == pytest.approx(squares**0.5)
    assert found["disk0"].n == min(side["iops_samples"] for side in first)


def test_fio_s_throughput_is_in_mib_and_so_is_its_deviation() -> None:
    """A mean in bytes per second stands beside a deviation in KiB per second."""
    found = fio.rates(recorded("fio_randwrite_2disks.json"), WRITE)["disk1"]
    sides = [job["write"] for job in fio_jobs()[2:]]
    assert found.mean == pytest.approx(sum(side["bw_bytes"] for side in sides) / 2**20)
    squares = sum((side["bw_dev"] / 1024) ** 2 for side in sides)
    assert found.deviation == pytest.approx(squares**0.5)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "not JSON"),
        ("fio: failed\n", "not JSON"),
        ("{}", "no jobs"),
        ('{"jobs": []}', "no job"),
        ('{"jobs": [{"jobname": "a"}]}', "without name or direction"),
        ('{"jobs": [{"jobname": "a", "error": 28, "write": {}}]}', "error 28"),
        ('{"jobs": [{"jobname": "a", "write": {"iops": 0.0}}]}', "moved no data"),
        ('{"jobs": [{"jobname": "a", "write": {"iops": NaN}}]}', "moved no data"),
    ],
)
def test_what_is_no_result_of_fio_is_refused(text: str, said: str) -> None:
    with pytest.raises(WorkloadFailed, match=said):
        fio.rates(text, WRITE_IOPS)


def test_iperf3_tells_what_arrived() -> None:
    content = json.loads(recorded("iperf3.json"))
    found = network.throughput(recorded("iperf3.json"))
    received = content["end"]["sum_received"]["bits_per_second"]
    assert found.mean == pytest.approx(received / 8 / 2**20)
    assert found.n == len(content["intervals"]) == 3
    assert found.deviation is not None


def test_iperf3_s_own_words_are_shown() -> None:
    with pytest.raises(WorkloadFailed, match="Connection refused"):
        network.throughput(recorded("iperf3_refused.json"))


def test_ping_s_round_trips_give_message_pairs_per_second() -> None:
    text = "3 packets transmitted, 3 received\nrtt min/avg/max/mdev = 0.3/0.4/0.5/0.02 ms, ipg"
    found = network.iops(text)
    assert found.mean == pytest.approx(2500)
    assert found.deviation == pytest.approx(0.02 / 0.4 * 2500)
    assert found.n == 3
    assert network.iops(recorded("ping.txt")).mean == pytest.approx(1000 / 0.003)
    assert network.iops("round-trip min/avg/max = 0.1/0.5/1 ms") == Rate(2000.0)


def test_round_trips_that_ping_rounds_to_nothing_are_counted_over_their_time() -> None:
    """On a quick host ping to itself says 0.000 ms, and no figure was made."""
    text = (
        "859547 packets transmitted, 859547 received, 0% packet loss, time 2000ms\n"
        "rtt min/avg/max/mdev = 0.000/0.000/0.085/0.000 ms, ipg/ewma 0.002/0.004 ms"
    )
    assert network.iops(text) == Rate(859547 / 2, None, 859547)


@pytest.mark.parametrize(
    "text", [recorded("ping_silent.txt"), "", "rtt min/avg/max/mdev = 0/0.000/0/0 ms"]
)
def test_a_silent_host_has_no_rate(text: str) -> None:
    with pytest.raises(WorkloadFailed, match="ping"):
        network.iops(text)


def test_a_namespace_s_first_address() -> None:
    text = '[{}, {"addr_info": [{"local": 7}, {"local": "10.1.2.3"}, {"local": "10.1.2.4"}]}]'
    assert network.first_address(text) == "10.1.2.3"
    with pytest.raises(WorkloadFailed, match="no address"):
        network.first_address("[]")


KEYS = (
    "jobs jobname write error iops iops_stddev iops_samples end intervals sum sum_received"
    " bits_per_second addr_info local"
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(KEYS.split()), inner, max_size=4)
    ),
    max_leaves=20,
).map(json.dumps)

TIMES = st.text(alphabet="0123456789./ms=receivdtpnhxga-, ", max_size=60).map(
    lambda text: "1 received rtt min/avg/max/mdev = " + text
)

PARSERS: list[Callable[[str], object]] = [
    lambda text: fio.rates(text, WRITE_IOPS),
    network.throughput,
    network.iops,
    network.first_address,
]


@pytest.mark.parametrize("parse", PARSERS)
@given(text=st.text() | JSON | TIMES)
def test_no_text_breaks_a_parser(parse: Callable[[str], object], text: str) -> None:
    try:
        found = parse(text)
    except WorkloadFailed:
        return
    rates = found.values() if isinstance(found, dict) else [found]
    for rate in rates:
        if isinstance(rate, Rate):
            assert rate.mean > 0
            assert rate.deviation is None or rate.deviation >= 0


def test_deep_json_is_refused() -> None:
    deep = "[" * 100_000
    for parse in (network.throughput, network.first_address):
        with pytest.raises(WorkloadFailed, match="not JSON"):
            parse(deep)
    with pytest.raises(WorkloadFailed, match="not JSON"):
        fio.rates('{"a":' * 100_000, WRITE_IOPS)


def test_repetitions_give_the_deviation_between_them() -> None:
    found = combine([Rate(1.0, 9.0, 50), Rate(5.0, 9.0, 50), Rate(3.0, 9.0, 50)])
    assert found == Rate(3.0, 2.0, 3)
    assert combine([Rate(1.0, 9.0, 50)]) == Rate(1.0, 9.0, 50)
    with pytest.raises(ValueError, match="no measurement"):
        combine([])


def test_one_unknown_deviation_leaves_the_sum_s_unknown() -> None:
    assert together([Rate(1.0, 3.0, 5), Rate(2.0, 4.0, 6)]) == Rate(3.0, 5.0, 5)
    assert together([Rate(1.0, 3.0, 5), Rate(2.0)]) == Rate(3.0)


def test_fio_s_arguments_are_the_thesis_s() -> None:
    read_iops = Quantity("iops", "read")
    words = fio.disks(["/a:b", "/c"], read_iops, 600, 16 * fio.GIB)
    wanted = "--runtime=600 --direct=1 --ioengine=libaio --iodepth=32 --bs=4k --numjobs=2"
    assert set(wanted.split()) < set(words)
    assert f"--size={fio.GIB}" in words
    assert f"--filename=/a\\:b/{fio.FILE}" in words
    for quantity in QUANTITIES:
        pattern = ("rand" if quantity.measure == "iops" else "") + quantity.direction
        for arguments in (fio.disks(["/a"], quantity, 5, 1), fio.memory("/m", quantity, 5)):
            assert f"--rw={pattern}" in arguments
            assert "--time_based=1" in arguments
