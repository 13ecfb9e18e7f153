"""Theoretical peaks against the documents' tables, and against a slow reading of the rules."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wattio.analysis import efficiency
from wattio.analysis.peak import (
    QUANTITIES,
    Direction,
    Kind,
    Part,
    Peak,
    Quantity,
    Rate,
    direction_of,
    limit,
)

READ, WRITE = Quantity("throughput_mib_s", "read"), Quantity("throughput_mib_s", "write")
IOPS_READ, IOPS_WRITE = Quantity("iops", "read"), Quantity("iops", "write")


def part(kind: Kind, nodes: int, per_node: int, quantity: Quantity, *rate: float) -> Part:
    deviation = rate[1] if len(rate) > 1 else None
    return Part(kind, {quantity: Rate(rate[0], deviation)}, nodes=nodes, per_node=per_node)


ARM_READ = (  # the thesis, Table 4.1
    part("memory", 4, 1, READ, 5695.0, 40.08),
    part("network", 4, 1, READ, 112.176, 0.0),
    part("disk", 4, 2, READ, 142.48, 5.59),
)


def test_the_thesis_takes_the_least_of_the_sums() -> None:
    found = limit(ARM_READ, READ, "thesis")
    assert found is not None
    assert found.mean == pytest.approx(448.704)
    assert found.limiting == ("network",)
    assert found.deviation == 0
    assert found.margin == pytest.approx(8 * 142.48 / 448.704)
    assert found.contested is False
    assert [total.units for total in found.totals] == [4, 4, 8]
    assert found.totals[2].deviation == pytest.approx(math.sqrt(8) * 5.59)


def test_the_advice_is_the_thesis_s_faster_network_until_the_disks_limit() -> None:
    found = limit(ARM_READ, READ, "thesis")
    assert found is not None
    (change,) = found.changes
    assert (change.kind, change.then, change.units) == ("network", "disk", 4)
    assert change.factor == pytest.approx(2.540, abs=1e-3)
    assert change.more_units == 7  # 11 links of 112.176 carry 1233.9, 10 carry 1121.8
    assert change.reaches == pytest.approx(8 * 142.48)


def test_nodes_sum_up_what_each_allows() -> None:
    """Erxleben et al., Table I: three servers limited by their drives, one by its network."""
    parts = (
        Part("network", {WRITE: Rate(12500)}, node="supermicro", nodes=3),
        Part("disk", {WRITE: Rate(2900)}, node="supermicro", nodes=3, per_node=4),
        Part("network", {WRITE: Rate(12500)}, node="gigabyte"),
        Part("disk", {WRITE: Rate(2900)}, node="gigabyte"),
        Part("disk", {WRITE: Rate(4000)}, node="gigabyte", per_node=8),
    )
    found = limit(parts, WRITE, "nodes")
    assert found is not None
    assert found.mean == pytest.approx(47_300)
    assert found.limiting == ("disk", "network")
    assert {(c.node, c.kind, c.more_units) for c in found.changes} == {
        ("supermicro", "disk", 1),
        ("gigabyte", "network", 2),
    }
    sums = limit(parts, WRITE, "thesis")
    assert sums is not None
    assert sums.mean == pytest.approx(50_000)
    assert sums.missing == ("memory",)


def test_close_sums_are_contested_and_unknown_noise_is_said_to_be_unknown() -> None:
    close = (part("network", 1, 1, READ, 100.0, 2.0), part("disk", 1, 1, READ, 103.0, 2.0))
    found = limit(close, READ, "thesis")
    assert found is not None
    assert found.contested is True
    unknown = (part("network", 1, 1, READ, 100.0), part("disk", 1, 1, READ, 103.0, 2.0))
    found = limit(unknown, READ, "thesis")
    assert found is not None
    assert (found.contested, found.deviation) == (None, None)


def test_memory_alone_is_no_peak() -> None:
    assert limit([part("memory", 1, 1, READ, 5000.0)], READ, "thesis") is None
    assert limit(ARM_READ, WRITE, "thesis") is None


def test_one_known_part_has_nothing_to_compare_with() -> None:
    found = limit([part("disk", 1, 2, READ, 100.0, 1.0)], READ, "nodes")
    assert found is not None
    assert (found.mean, found.margin, found.contested, found.changes) == (200.0, None, None, ())
    assert found.missing == ("network",)


def test_a_node_of_which_half_is_known_is_named() -> None:
    parts = [
        Part("network", {READ: Rate(100.0)}, node="a"),
        Part("disk", {READ: Rate(100.0)}, node="b"),
    ]
    found = limit(parts, READ, "nodes")
    assert found is not None
    assert found.halves == ("a", "b")


def test_parts_that_disagree_on_the_nodes_are_refused() -> None:
    parts = [part("network", 4, 1, READ, 100.0), part("disk", 3, 2, READ, 100.0)]
    with pytest.raises(ValueError, match="disagree"):
        limit(parts, READ, "nodes")


@pytest.mark.parametrize(
    ("operation", "direction"),
    [
        ("read", "read"),
        ("file_stat", "read"),
        ("Directory creation", "write"),
        ("tree_remove", "write"),
        ("file_rename", "write"),
        ("write", "write"),
        ("randrw_read_write", None),
        ("idle", None),
    ],
)
def test_the_name_of_an_operation_tells_its_direction(
    operation: str, direction: Direction | None
) -> None:
    assert direction_of(operation) == direction


def test_shares_of_the_peak() -> None:
    peak = Peak("arm", (*ARM_READ, part("disk", 1, 2, IOPS_WRITE, 9043.88, 1467.56)))
    assert peak.share("read", throughput_mib_s=224.352, iops=56.0) == pytest.approx(0.5)
    assert peak.share("file_create", iops=9043.88) == pytest.approx(0.5)
    both = Peak("both", (part("disk", 1, 1, WRITE, 100.0), part("disk", 1, 1, IOPS_WRITE, 1000.0)))
    assert both.share("write", throughput_mib_s=3.0, iops=900.0) == pytest.approx(0.9)
    assert both.share("write", throughput_mib_s=80.0, iops=20.0) == pytest.approx(0.8)
    assert peak.share("file_stat", iops=1000.0) is None
    assert peak.share("idle", iops=1000.0) is None
    assert peak.share("read") is None


RATES = st.floats(1e-3, 1e9)
PARTS = st.builds(
    Part,
    kind=st.sampled_from(("memory", "network", "disk")),
    rates=st.dictionaries(
        st.sampled_from(QUANTITIES),
        st.builds(Rate, RATES, st.none() | st.floats(0, 1e6)),
        min_size=1,
    ),
    node=st.sampled_from(("a", "b")),
    nodes=st.just(2),
    per_node=st.integers(1, 5),
)


@given(st.lists(PARTS, max_size=8), st.sampled_from(QUANTITIES))
def test_both_rules_against_their_definition(parts: list[Part], quantity: Quantity) -> None:
    def sums(members: list[Part], kinds: tuple[str, ...]) -> list[float]:
        return [
            sum(p.nodes * p.per_node * p.rates[quantity].mean for p in members if p.kind == kind)
            for kind in kinds
            if any(p.kind == kind for p in members)
        ]

    known = [p for p in parts if quantity in p.rates]
    thesis, nodes = limit(parts, quantity, "thesis"), limit(parts, quantity, "nodes")
    if all(p.kind == "memory" for p in known):
        assert thesis is None
        assert nodes is None
        return
    assert thesis is not None
    assert nodes is not None
    assert thesis.mean == pytest.approx(min(sums(known, ("memory", "network", "disk"))))
    groups = [[p for p in known if p.node == node] for node in ("a", "b")]
    least = [min(found) for g in groups if (found := sums(g, ("network", "disk")))]
    assert nodes.mean == pytest.approx(sum(least))
    for change in thesis.changes + nodes.changes:
        assert change.factor > 1
        assert change.more_units >= 0


def test_metrics_of_efficiency() -> None:
    assert efficiency.capacity_tb_per_watt(8e12, 40.9) == pytest.approx(0.1956, abs=1e-4)
    assert efficiency.data_rate_per_energy(5120 * efficiency.MIB, 10.0, 400.0) == pytest.approx(
        512 / 400
    )
    with pytest.raises(ValueError, match="above 0"):
        efficiency.rate_per_watt([1.0], [0.0])
    assert efficiency.share_of_peak(89.0, 445.0) == pytest.approx(0.2)
