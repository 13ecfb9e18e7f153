"""What bounds a cluster and what to buy for it: the equations, and the thesis in section 6.6."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from wattio import cli, shipped
from wattio.analysis.cluster import Achieved
from wattio.analysis.peak import Part, Peak, Quantity, Rate, Rule
from wattio.analysis.statistics import Interval, mean_interval
from wattio.errors import InputError
from wattio.models import cluster, purchases
from wattio.models.cluster import advise
from wattio.models.cluster_parts import Cluster
from wattio.models.purchases import Purchase, PurchaseEntry
from wattio.peak.file import read_peak

READ, WRITE = Quantity("throughput_mib_s", "read"), Quantity("throughput_mib_s", "write")
DRAWS = 4000


def part(kind: str, mean: float, node: str = "data", nodes: int = 4, per_node: int = 1,
         deviation: float | None = None) -> Part:  # fmt: skip
    rates = {quantity: Rate(mean, deviation) for quantity in (READ, WRITE)}
    return Part(kind, rates, node, nodes, per_node)  # type: ignore[arg-type]


def peak(*parts: Part, rule: Rule = "thesis") -> Peak:
    return Peak("made", parts, rule)


PLAIN = peak(part("network", 100.0), part("disk", 70.0, per_node=2))


def run(*rates: float, clients: int = 4, **more: object) -> Achieved:
    plain = Achieved("load/system", "load", "system", "write", clients, WRITE, rates)
    return replace(plain, **more)  # type: ignore[arg-type]


def slow_after(rate: float, limit: float, then: float, quantile: float) -> float:
    """The rate under another limit: 1/r = 1/(e L) + o, and 1/r' = 1/(e L') + o.

    e is even between what was reached, 0.8 at least, and 1; the lower it is, the more is gained.
    """
    reached = min(max(rate / limit, 0.8), 1.0)
    had = 1 - quantile * (1 - reached)
    rest = 1 / rate - 1 / (had * limit)
    return 1 / (1 / (had * then) + rest)


def near(found: Interval, rate: float, limit: float, then: float) -> None:
    """An interval is that of the equations, for a rate without noise."""
    for told, quantile in ((found.low, 0.025), (found.estimate, 0.5), (found.high, 0.975)):
        assert told == pytest.approx(slow_after(rate, limit, then, quantile), rel=5e-3)


def test_bound_and_prediction_are_the_equations_of_the_module() -> None:
    rate, links, disks = 250.0, 4 * 100.0, 8 * 70.0
    faster = Purchase("faster", {("data", "network"): 2.5}, 4, 100.0, 8.0)
    more = Purchase(
        "node", {("data", "network"): 1.25, ("data", "disk"): 1.25}, 1, 200.0, None, True
    )
    found = advise(Cluster(PLAIN, DRAWS, 1), run(rate, powers_w=(50.0,)), [faster, more], 1000.0)
    assert found.judged.bound == "software"
    assert found.judged.of_peak.estimate == pytest.approx(rate / links)
    assert {used.part: used.share.estimate for used in found.judged.used} == pytest.approx(
        {"servers' links": rate / links, "clients' links": rate / links, "devices": rate / disks}
    )
    now, quick, grown = found.predicted
    assert now.rate.estimate == pytest.approx(rate)
    near(quick.rate, rate, links, disks)
    assert quick.limit.estimate == pytest.approx(disks)
    assert quick.linear.estimate == pytest.approx(rate)
    gain = quick.rate.estimate - rate
    assert quick.gain_per_eur is not None
    assert quick.gain_per_eur.estimate == pytest.approx(gain / 100)
    assert quick.gain_per_w is not None
    assert quick.gain_per_w.estimate == pytest.approx(gain / 8)
    assert quick.rate_per_w is not None
    assert quick.rate_per_w.estimate == pytest.approx((rate + gain) / 58)
    # All of the cluster a quarter larger does a quarter more: model and linear rule agree.
    assert grown.rate.estimate == pytest.approx(1.25 * rate)
    assert grown.linear.estimate == pytest.approx(1.25 * rate)
    assert (grown.gain_per_w, grown.rate_per_w) == (None, None)
    nodes = found.nodes
    assert nodes is not None
    assert (nodes.now, nodes.nodes.estimate, nodes.at_peak.estimate) == (4, 16, 10)
    assert nodes.clients == 10
    assert nodes.power_w is not None
    assert nodes.power_w.estimate == pytest.approx(50 * 16 / 4)
    assert nodes.joules_per_unit is not None
    assert nodes.joules_per_unit.estimate == pytest.approx(200 / 1000)
    assert nodes.price_eur is not None
    assert nodes.price_eur.estimate == pytest.approx(12 * 200)


def test_fewer_nodes_than_there_are_take_no_power_of_nodes_that_are_bought() -> None:
    """Power was below nothing: two nodes less saved what two of the offered ones would draw."""
    node = Purchase(
        "node", {("data", "network"): 1.25, ("data", "disk"): 1.25}, 1, 200.0, 40.0, True
    )
    some = run(250.0, powers_w=(50.0,))
    few, many = (
        advise(Cluster(PLAIN, DRAWS, 1), some, [node], wanted).nodes for wanted in (60.0, 500.0)
    )
    assert few is not None
    assert few.power_w is not None
    assert few.nodes.estimate == 1
    assert few.power_w.estimate == pytest.approx(50 / 4)
    assert few.joules_per_unit is not None
    assert few.joules_per_unit.estimate == pytest.approx(50 / 4 / 60)
    assert many is not None
    assert many.power_w is not None
    assert many.nodes.estimate == 8
    assert many.power_w.estimate == pytest.approx(50 + 4 * 40)


def test_few_clients_are_bound_by_their_own_links() -> None:
    """One client of MooseFS got 48 % of two servers' links, and 96 % of its own."""
    found = advise(Cluster(PLAIN, DRAWS, 1), run(96.0, clients=1)).judged
    assert (found.bound, found.used[0].part) == ("network", "clients' links")
    assert found.used[0].share.estimate == pytest.approx(0.96)
    # With as many clients as it takes, the servers' links are the limit: four times as much.
    predicted = advise(Cluster(PLAIN, DRAWS, 1), run(96.0, clients=1)).predicted[0]
    near(predicted.rate, 96, 100, 400)


def test_copies_count_against_links_and_devices() -> None:
    """Two copies of what is written take the servers' links and devices twice."""
    once = advise(Cluster(PLAIN, DRAWS, 1), run(190.0)).judged
    twice = advise(Cluster(PLAIN, DRAWS, 1), run(190.0, stored_share=2.0)).judged
    assert (once.bound, twice.bound) == ("software", "network")
    assert twice.of_peak.estimate == pytest.approx(190 / 200)


def test_parity_that_clients_make_takes_their_links_too() -> None:
    """A client of GlusterFS's dispersed volume sends a quarter more than it writes."""
    made = run(75.0, clients=1, stored_share=1.25, client_share=1.25)
    found = advise(Cluster(PLAIN, DRAWS, 1), made).judged
    assert found.used[0].part == "clients' links"
    assert found.used[0].share.estimate == pytest.approx(75 / (100 / 1.25))


def test_servers_without_processor_time_to_spare_are_the_bound() -> None:
    busy = run(200.0, server_cores=3.8, cores=4)
    found = advise(Cluster(PLAIN, DRAWS, 1), busy).judged
    assert (found.bound, found.used[0].part) == ("processor", "servers' processors")
    assert found.used[0].share.estimate == pytest.approx(0.95)
    assert "servers' processors" not in found.unknown
    # Faster links are no help to them, and are not told to be; a node brings cores of its own.
    links = Purchase("links", {("data", "network"): 5.0}, 4, 100.0, 8.0)
    node = purchases.of_entry(PurchaseEntry(name="node", more_nodes=1), PLAIN)
    bought = [links, node]
    nothing, quick, grown = advise(Cluster(PLAIN, DRAWS, 1), busy, bought).predicted
    assert nothing.rate.estimate == pytest.approx(200)
    assert quick.gain.high == 0
    assert grown.rate.estimate == pytest.approx(250)
    idle = advise(Cluster(PLAIN, DRAWS, 1), run(200.0)).judged
    assert idle.bound == "software"
    assert idle.unknown == ("clients' memory", "servers' processors")


def test_what_a_cache_gives_beyond_the_peak_stays() -> None:
    found = advise(Cluster(PLAIN, DRAWS, 1), run(800.0, clients=8),
                   [Purchase("x", {("data", "network"): 1.2}, 4, 1.0, 1.0)])  # fmt: skip
    assert found.judged.of_peak.estimate == pytest.approx(2.0)
    assert found.predicted[1].rate.estimate == pytest.approx(960)


@given(
    links=st.floats(10, 1e4),
    disks=st.floats(10, 1e4),
    share=st.floats(0.01, 1.5),
    factor=st.floats(1.01, 100),
    rule=st.sampled_from(["thesis", "nodes"]),
)
def test_faster_parts_never_cost_rate_and_never_beat_the_limit(
    links: float, disks: float, share: float, factor: float, rule: Rule
) -> None:
    made = peak(part("network", links), part("disk", disks), rule=rule)
    limit = 4 * min(links, disks)
    both = [
        Purchase(f"{times:g}", {("data", kind): times}, 4, 1.0, 1.0)
        for times in (factor, 2 * factor)
        for kind in ("network", "disk")
    ]
    found = advise(Cluster(made, 1000, 1), run(share * limit), both).predicted
    for one in found:
        assert one.gain.estimate >= 0
        assert one.rate.estimate <= max(share, 1.0) * one.limit.estimate * (1 + 1e-9)
    for kind in (0, 1):
        assert found[3 + kind].rate.estimate >= found[1 + kind].rate.estimate * (1 - 1e-9)


@given(st.lists(st.floats(5, 6), min_size=2, max_size=6, unique=True))
def test_draws_of_a_mean_are_student_s(values: list[float]) -> None:
    told = mean_interval(values)
    assert told is not None
    drawn = cluster.of_mean(np.array([values]).T, 40_000, np.random.default_rng(1))[:, 0]
    low, middle, high = np.quantile(drawn, [0.025, 0.5, 0.975])
    width = told.high - told.low
    assert middle == pytest.approx(told.estimate, abs=0.03 * width)
    # Tails of one degree of freedom are heavy: so is the scatter of their quantiles.
    assert high - low == pytest.approx(width, rel=0.12 if len(values) == 2 else 0.06)


def test_rate_and_power_of_a_repetition_are_drawn_together() -> None:
    """A repetition that was faster drew more: their ratio is known better than either."""
    rates, powers = (200.0, 240.0, 220.0, 210.0, 230.0), (50.0, 60.0, 55.0, 52.5, 57.5)
    found = advise(Cluster(PLAIN, DRAWS, 1), run(*rates, powers_w=powers))
    per_w = found.predicted[0].rate_per_w
    assert per_w is not None
    assert per_w.high / per_w.low == pytest.approx(1, abs=1e-6)
    assert found.judged.rate.high / found.judged.rate.low > 1.1


def test_a_seed_says_it_all_and_another_says_nearly_the_same() -> None:
    noisy = peak(
        part("network", 100.0, deviation=5.0), part("disk", 60.0, per_node=2, deviation=9.0)
    )
    measured = run(330.0, 340.0, 350.0, powers_w=(50.0, 51.0, 52.0))
    faster = [Purchase("faster", {("data", "network"): 2.0}, 4, 100.0, 8.0)]
    one, same, other = (
        advise(Cluster(noisy, 20_000, seed), measured, faster, 700.0, seed) for seed in (1, 1, 2)
    )
    assert one == same
    assert one != other
    assert one.predicted[1].rate.estimate == pytest.approx(
        other.predicted[1].rate.estimate, rel=0.02
    )
    assert one.predicted[1].rate.low < one.predicted[1].rate.estimate < one.predicted[1].rate.high


def test_by_nodes_unlike_nodes_are_limited_each_by_its_own() -> None:
    """Erxleben et al., Table I: three nodes by their drives, one by its network: 47.3 GB/s."""
    reference = read_peak(shipped.STUDIES / "two-clusters" / "x86-peak.toml")
    faster = Purchase(
        "links", {("gigabyte", "network"): 2.0, ("supermicro", "network"): 2.0}, 4, 1.0, None
    )
    found = advise(Cluster(reference, 1000, 1), replace(run(), clients=0), [faster])
    gb = 2**20 / 1e9
    assert found.judged.rate.estimate * gb == pytest.approx(47.3, abs=0.01)
    # The drives of three stay; the fourth has 34.9 GB/s of them, and 25 GB/s of links.
    assert found.predicted[1].rate.estimate * gb == pytest.approx(34.8 + 25.0, abs=0.01)
    assert found.judged.bound == "device"


class TestThesis:
    """The thesis, section 6.6, computed from its Tables 4.1 and 4.2."""

    peak = read_peak(shipped.STUDIES / "arm-cluster" / "thesis-peak.toml")
    listed = shipped.STUDIES / "arm-cluster" / "purchases.toml"

    @pytest.mark.parametrize("quantity", [READ, WRITE])
    def test_gigabit_ethernet_is_the_bound_and_faster_links_help_until_the_disks_limit(
        self, quantity: Quantity
    ) -> None:
        at_peak = replace(run(), clients=0, quantity=quantity)
        bought = purchases.read(self.listed, self.peak)
        found = advise(Cluster(self.peak, 20_000, 1), at_peak, bought)
        assert (found.judged.bound, found.judged.bound_share) == ("network", 1.0)
        devices = next(one for one in found.judged.used if one.part == "devices")
        # Two disks of a node more than saturate its link.
        assert devices.share.high < 0.5
        _, quick, quicker, disks, node = found.predicted
        assert disks.gain.high == 0
        limit = self.peak.limit(quantity)
        assert limit is not None
        of_disks = next(total.mean for total in limit.totals if total.kind == "disk")
        assert quicker.rate.estimate == pytest.approx(of_disks, rel=0.01)
        assert quick.rate.estimate == pytest.approx(2.5 * limit.mean, rel=0.01)
        assert quick.first_by_eur == 1.0
        assert quick.first_by_w == 1.0
        assert node.rate.estimate == pytest.approx(1.25 * limit.mean)

    def test_replication_is_what_writes_pay(self) -> None:
        """CephFS with two copies has half of the limit; Table II has it at a fifth of all."""
        written = replace(run(95.22), stored_share=2.0)
        found = advise(Cluster(self.peak, 4000, 1), written).judged
        assert found.of_peak.estimate == pytest.approx(2 * 95.22 / 445.36, rel=0.01)
        assert found.bound == "software"

    def test_metadata_reads_are_bound_by_the_ssd_and_writes_by_the_network(self) -> None:
        for direction, bound in (("read", "device"), ("write", "network")):
            quantity = Quantity("iops", direction)  # type: ignore[arg-type]
            at_peak = replace(run(), clients=0, quantity=quantity)
            found = advise(Cluster(self.peak, 20_000, 1), at_peak).judged
            assert found.bound == bound
            assert found.bound_share > 0.95


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('name = "x"\npart = "disk"', "give one of faster, more_per_node and more_nodes"),
        ('name = "x"\npart = "disk"\nfaster = 2.0\nmore_nodes = 1', "give one of faster"),
        ('name = "x"\nfaster = 2.0', "part is for faster"),
        ('name = "x"\nmore_nodes = 1\npart = "disk"', "part is for faster"),
        ('name = "x"\npart = "disk"\nfaster = 1.0', "faster"),
        ('name = "x"\npart = "disk"\nfaster = 2.0\nnode = "dta"', 'no node "dta"'),
        ('name = "x"\npart = "memory"\nfaster = 2.0', "give their node"),
        ('name = "x"\npart = "memory"\nfaster = 2.0\nnode = "data"', 'no memory of node "data"'),
        ('name = "x"\nmore_nodes = 1\npower = 5', "has no unit"),
        ('name = "x"\nmore_nodes = 1\nprice_eur = -5.0', "price_eur"),
        ('name = "x"\nmore_nodes = 1\n[[purchase]]\nname = "x"\nmore_nodes = 1', "is named twice"),
    ],
)
def test_what_is_no_purchase_is_refused(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "purchases.toml"
    path.write_text(f"[[purchase]]\n{text}\n")
    with pytest.raises(InputError) as caught:
        purchases.read(path, PLAIN)
    assert message in str(caught.value)
    assert "purchases.toml" in str(caught.value)


def test_price_and_power_are_of_all_units_that_are_bought() -> None:
    def bought(**keys: object) -> Purchase:
        content = {"name": "x", "price_eur": 10.0, "power": "2 W", **keys}
        return purchases.of_entry(PurchaseEntry.model_validate(content), PLAIN)

    assert (bought(part="disk", more_per_node=3).units, bought(part="disk", faster=2.0).units) == (
        12,
        8,
    )
    more = bought(part="disk", more_per_node=3)
    assert more.factors == {("data", "disk"): 2.5}
    assert (more.price_eur, more.power_w) == (120.0, 24.0)
    node = bought(more_nodes=2)
    assert node.factors == {("data", "network"): 1.5, ("data", "disk"): 1.5}
    assert (node.units, node.price_eur) == (2, 20.0)
    assert math.isclose(node.power_w or 0, 4.0)


def test_a_rate_that_a_single_node_reaches_is_told_in_words(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as left:
        cli.main(["advise", "cluster", "arm-cluster/thesis-peak.toml", "--rate", "1 MiB/s"])
    assert not left.value.code
    text = " ".join(capsys.readouterr().out.split())
    assert "estimated: nodes as they are 1, if all were at their peak 1; there are 4" in text
    assert "the link of 1 client is needed" in text
