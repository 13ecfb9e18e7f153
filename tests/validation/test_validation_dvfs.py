"""The fio document's published numbers follow from one another, but for those with a reason."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from wattio.report import output

from validation.common import printed
from validation.common.printed import Checked
from validation.dvfs import __main__ as command
from validation.dvfs import entries


@pytest.fixture(scope="module")
def rows() -> dict[str, Checked]:
    return {row.entry.key: row for row in command.rows()}


def test_every_number_is_computed_or_says_why_not(
    rows: dict[str, Checked], capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(["--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["numbers"]) == len(rows)
    assert {key for key, row in rows.items() if row.outcome == "differs"} == {
        "dvfs_fio.write.hdd.energy_j",
        "dvfs_fio.write.hdd.published_efficiency",
    }


@pytest.mark.parametrize(
    ("key", "ours"),
    [
        ("read.hdd.published_efficiency", 34.38),
        ("read.ssd.published_efficiency", 1291.0),
        ("write.hdd.published_efficiency", 29.67),
        ("write.ssd.published_efficiency", 420.47),
        ("read.ratios.efficiency", 37.56),
        ("read.ratios.throughput", 5.983),
        ("read.ratios.energy", 6.277),
        ("write.ratios.efficiency", 14.17),
        ("write.ratios.power_percent", 9.513),
        ("write.hdd.energy_j", 60 * 45.2),
    ],
)
def test_numbers_computed_by_hand(rows: dict[str, Checked], key: str, ours: float) -> None:
    assert rows[f"dvfs_fio.{key}"].ours == pytest.approx(ours, rel=3e-4)


def test_the_data_moved_shows_mebibytes_and_the_time_limit() -> None:
    values = printed.read(command.PUBLISHED)
    moved = {
        name: entries.moved_mib(values, f"dvfs_fio.{name}")
        for name in ("read.hdd", "read.ssd", "write.ssd", "write.hdd")
    }
    assert [round(moved[name]) for name in ("read.hdd", "read.ssd", "write.ssd")] == [
        5124,
        5117,
        5122,
    ]
    assert round(moved["write.hdd"]) == 4729


def test_reasons_carry_the_right_names(rows: dict[str, Checked]) -> None:
    assert "12.42 MiB/J" in rows["dvfs_fio.read.ssd.published_efficiency"].reason
    assert "needs 29.67" in rows["dvfs_fio.write.hdd.published_efficiency"].reason
    assert "ran into it" in rows["dvfs_fio.method.time_limit_s"].reason


def test_labels_of_the_drives_do_not_explain_the_difference_in_power(
    rows: dict[str, Checked],
) -> None:
    values = printed.read(command.PUBLISHED)
    assert entries.rated_power_w(values, "ssd") == pytest.approx(2.5)
    assert entries.rated_power_w(values, "hdd") == pytest.approx(3.25)
    reason = rows["dvfs_fio.machine.hdd.current_a"].reason
    assert "2.0 W (read) and 4.3 W (write)" in reason


def test_the_page_has_every_number(tmp_path: Path, rows: dict[str, Checked]) -> None:
    assert command.main(["--out", str(tmp_path)]) == 0
    page = (tmp_path / "dvfs-fio.html").read_text(encoding="utf-8")
    assert not [key for key in rows if f'id="{output.slug(key)}"' not in page]
    assert "4 GHz" in page
