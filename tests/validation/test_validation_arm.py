"""The ARM cluster's published numbers follow from one another, but for those with a reason."""

from __future__ import annotations

import contextlib
import json
import re
from pathlib import Path

import pytest
from wattio.report import output

from validation.arm import __main__ as command
from validation.arm import paper
from validation.common import named, numbers, printed
from validation.common.numbers import About, Document
from validation.common.printed import Checked, Entry, Printed

DIFFERENT = {
    "erxleben2022.introduction.drives_for_fast_network[1]",
    "erxleben2022.reference_cluster.capacity_per_watt_tb_w",
    "thesis2022.gluster.dispersed_increase",
    "thesis2022.messages.pipelined_round_trip_ms",
    "thesis2022.messages.round_trip_ms",
    "thesis2022.metadata_tpp.arm_read.tpp_iops",
    "thesis2022.raid.raid_5_disks_more_than",
    "thesis2022.source.mean_file_kib",
    "thesis2022.workloads.tree_directory_entries",
}
"""What does not follow from the rest of the text; each has its reason."""


@pytest.fixture(scope="module")
def rows() -> dict[str, Checked]:
    return {row.entry.key: row for row in command.rows()}


def test_every_number_is_computed_or_says_why_not(rows: dict[str, Checked]) -> None:
    assert command.main(["--json"]) == 0
    assert not [key for key, row in rows.items() if row.unexplained]
    assert {key for key, row in rows.items() if row.outcome == "differs"} == DIFFERENT
    assert all(rows[key].entry.why for key in DIFFERENT)


@pytest.mark.parametrize(
    ("key", "ours"),
    [
        ("erxleben2022.arm_cluster.tpp_mb_s", 496.4),
        ("erxleben2022.reference_cluster.tpp_gb_s", 47.3),
        ("erxleben2022.arm_cluster.net_idle_power_w", 40.90),
        ("erxleben2022.arm_cluster.capacity_per_watt_tb_w", 8 / 40.9),
        ("erxleben2022.headline.capacity_per_watt_gain", 0.196 / 0.073),
        ("erxleben2022.max_throughput.arm_cephfs.write_tpp_percent", 20.11),
        ("erxleben2022.max_throughput.reference.read_tpp_percent", 12.6472),
        ("thesis2022.throughput_tpp.arm_read.tpp_mib_s", 448.704),
        ("thesis2022.throughput_tpp.x86_write.tpp_mib_s", 448.88),
        ("thesis2022.metadata_tpp.arm_write.tpp_iops", 10058.72),
        ("thesis2022.metadata_tpp.x86_read.tpp_iops", 233.46),
        ("erxleben2022.reference_peak.supermicro_tpp_gb_s", 3 * 4 * 2.9),
        ("erxleben2022.reference_peak.gigabyte_tpp_gb_s", 12.5),
        ("erxleben2022.introduction.drives_for_fast_network[0]", 12.5 / 4),
        ("thesis2022.introduction.hdds_saturated", 38.147),
        ("thesis2022.introduction.nvmes_saturated[0]", 1.90735),
        ("thesis2022.gluster_setup.stripe_kib", 2.0),
        ("thesis2022.gluster_setup.redundancy_of_four_bricks", 2.0),
        ("thesis2022.moosefs_setup.files", 9.20350e6),
        ("thesis2022.messages.pings_rate_iops", 67294.8),
        ("thesis2022.messages.pipelined_round_trip_ms", 6.687),
        ("thesis2022.source.mean_file_kib", 1.2e9 / 74265 / 1024),
        ("thesis2022.results.entries_of_three_clients", 49998),
        ("thesis2022.results.reference_power_factor", 460.21 / 40.9),
    ],
)
def test_numbers_computed_by_hand(rows: dict[str, Checked], key: str, ours: float) -> None:
    assert rows[key].ours == pytest.approx(ours, rel=2e-4)


def test_the_gain_in_write_efficiency_lies_within_what_print_allows(
    rows: dict[str, Checked],
) -> None:
    values = printed.read(command.PUBLISHED)
    low = paper.write_gain_percent(values, "peak_power_w", "idle_power_w")
    high = paper.write_gain_percent(values, "idle_power_w", "peak_power_w")
    assert low < 121 < high
    reason = rows["erxleben2022.headline.write_efficiency_gain_percent"].reason
    assert f"{low:.0f} to {high:.0f} %" in reason


def values_of(**given: float) -> dict[str, Printed | str]:
    return {key: Printed(value, 0.05) for key, value in given.items()}


def test_rounding_decides_whether_numbers_agree() -> None:
    def double(value: float) -> float:
        return 2 * value

    for doubled, outcome in ((2.1, "agrees"), (2.2, "differs")):
        entries = [Entry("a", "", text="given"), Entry("b", "", "", double, ("a",))]
        row = printed.check(entries, values_of(a=1.0, b=doubled))[1]
        assert row.outcome == outcome
        assert row.unexplained == (outcome == "differs")
    assert printed.check([Entry("a", "")], values_of(a=1.0))[0].unexplained


@pytest.mark.parametrize(
    ("bound", "printed_as", "outcome"),
    [
        ("least", 1.0, "agrees"),
        ("least", 3.0, "differs"),
        ("most", 3.0, "agrees"),
        ("most", 1.0, "differs"),
    ],
)
def test_a_bound_is_met_by_what_lies_beyond_it(
    bound: printed.Bound, printed_as: float, outcome: str
) -> None:
    entry = Entry("a", "", "", lambda: 2.0, bound=bound)
    row = printed.check([entry], values_of(a=printed_as))[0]
    assert row.outcome == outcome
    assert row.deviation_percent is None


def test_each_computed_number_follows_what_it_is_computed_from(
    rows: dict[str, Checked],
) -> None:
    values = printed.read(command.PUBLISHED)
    unmoved = []
    for key, row in rows.items():
        if row.ours is None or row.entry.formula is None:
            continue
        given = [printed.number(values, name) for name in row.entry.takes]
        assert given, key
        changed = []
        for place, value in enumerate(given):
            # Up and down: the lesser of two sums follows a part in one direction only.
            for other in (2 * value + 1, value / 2):
                with contextlib.suppress(ZeroDivisionError):
                    inputs = [*given[:place], other, *given[place + 1 :]]
                    changed.append(row.entry.formula(*inputs))
        if all(other == row.ours for other in changed):
            unmoved.append(key)
    assert not unmoved


def test_what_both_documents_give_is_the_same_in_both(rows: dict[str, Checked]) -> None:
    twice = [row for row in rows.values() if row.reason.startswith("given twice")]
    assert len(twice) > 40
    assert all(row.outcome == "agrees" for row in twice)


def test_noise_says_which_peak_is_contested(rows: dict[str, Checked]) -> None:
    at = "thesis2022.throughput_tpp"
    assert "contested: disk gives 461.4" in rows[f"{at}.x86_write.tpp_mib_s"].reason
    assert "contested" not in rows[f"{at}.arm_write.tpp_mib_s"].reason
    # The thesis takes the network as the limit of metadata writes despite the disk's deviation.
    reason = rows["thesis2022.metadata_tpp.arm_write.tpp_iops"].reason
    assert "limited by the network" in reason
    assert "contested" not in reason


def test_the_edp_s_ratio_is_bounded_by_power_and_rate() -> None:
    assert paper.edp_ratio(1.0, 2.0, 10.0, 10.0) == pytest.approx(4.0)
    assert paper.edp_ratio(1.0, 2.0, 10.0, 20.0) == pytest.approx(2.0)


def test_a_difference_without_a_reason_ends_with_1(capsys: pytest.CaptureFixture[str]) -> None:
    entries = [Entry("a", "", "", lambda: 3.0, text="a note is no reason")]
    rows = printed.check(entries, values_of(a=1.0))
    about = About("a", "A", "the paper", ())
    assert numbers.main("arm_cluster", about, rows, []) == 1
    shown = capsys.readouterr()
    assert "DIFFERS" in shown.out
    assert "no reason: a" in shown.err


def test_numbers_and_entries_must_match() -> None:
    with pytest.raises(KeyError, match="b"):
        printed.check([Entry("a", "")], values_of(a=1.0, b=2.0))
    with pytest.raises(KeyError, match="c"):
        printed.check([Entry("a", ""), Entry("c", "")], values_of(a=1.0))


def test_the_places_in_print_are_the_file_s(tmp_path: Path) -> None:
    file = tmp_path / "published.toml"
    file.write_text('[s]\na = 40.90\nb = 9400.0\nc = 4\nd = "word"\ne = 1e-6\n')
    assert printed.read(file) == {
        "s.a": Printed(40.9, 0.005),
        "s.b": Printed(9400.0, 0.05),
        "s.c": Printed(4.0),
        "s.d": "word",
        "s.e": Printed(1e-6, 0.5e-6),
    }


def test_the_table_shows_every_number(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main([]) == 0
    text = capsys.readouterr().out
    assert command.main(["--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["numbers"]
    assert all(row["key"] in text for row in rows)
    assert text.count("DIFFERS") == len(DIFFERENT)


def test_the_page_has_every_number(tmp_path: Path, rows: dict[str, Checked]) -> None:
    assert command.main(["--out", str(tmp_path / "made")]) == 0
    page = (tmp_path / "made" / "arm-cluster.html").read_text(encoding="utf-8")
    missing = [key for key in rows if f'id="{output.slug(key)}"' not in page]
    assert not missing
    assert page.count(">DIFFERS<") == len(DIFFERENT)
    assert len(page) < 2e6
    headings = re.findall(r'<h[23] id="([^"]+)"', page)
    assert len(headings) > 35
    assert all(f'href="#{name}"' in page for name in headings)
    lines = (tmp_path / "made" / "arm-cluster.csv").read_text(encoding="utf-8").splitlines()
    assert len(lines) == len(rows) + 1


def test_a_page_that_cannot_be_written_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    assert command.main(["--out", str(tmp_path / "file")]) == numbers.BAD_INPUT
    shown = capsys.readouterr()
    assert "error: " in shown.err
    assert not shown.out


def test_a_table_without_a_title_is_an_error(rows: dict[str, Checked]) -> None:
    with pytest.raises(KeyError, match="power"):
        numbers.groups(list(rows.values()), Document("thesis2022", "", _without("power")))


def _without(table: str) -> dict[str, str]:
    return {name: title for name, title in command.THESIS.tables.items() if name != table}


@pytest.mark.parametrize(
    ("key", "claim", "unit"),
    [
        ("a.b.idle_power_w", "idle power", "W"),
        ("a.b.idle_power_w_std", "idle power, deviation", "W"),
        ("a.b.network_mb_s_per_node", "network per node", "MB/s"),
        ("a.b.files_per_gib", "files per gib", ""),
        ("a.b.ssd.energy_j[1]", "SSD, energy (2)", "J"),
        ("a.b.nodes", "nodes", ""),
    ],
)
def test_a_key_says_what_it_is_and_its_unit(key: str, claim: str, unit: str) -> None:
    assert named.claim(key) == claim
    assert named.unit(key) == unit
