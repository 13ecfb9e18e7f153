"""The ARM cluster's published numbers follow from one another, but for those with a reason."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from validation.arm import __main__ as command
from validation.arm import paper
from validation.common import printed
from validation.common.printed import Checked, Entry, Printed


@pytest.fixture(scope="module")
def rows() -> dict[str, Checked]:
    return {row.entry.key: row for row in command.rows()}


def test_every_number_is_computed_or_says_why_not(rows: dict[str, Checked]) -> None:
    assert command.main(["--json"]) == 0
    assert not [key for key, row in rows.items() if row.unexplained]
    assert {key for key, row in rows.items() if row.outcome == "differs"} == {
        "erxleben2022.reference_cluster.capacity_per_watt_tb_w",
        "thesis2022.metadata_tpp.arm_read.tpp_iops",
    }


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


def test_a_difference_without_a_reason_ends_with_1(capsys: pytest.CaptureFixture[str]) -> None:
    entries = [Entry("a", "", "", lambda: 3.0, text="a note is no reason")]
    rows = printed.check(entries, values_of(a=1.0))
    assert printed.main("arm_cluster", "the paper", rows, []) == 1
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
    assert text.count("DIFFERS") == 2
