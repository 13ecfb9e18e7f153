"""Systems at a glance: the best setting of each, gross and net, against a slow look at the rows."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest
from wattio.report.measurement import overview
from wattio.report.measurement.gather import gather

from measuring import made_folder
from measuring.test_report_measured import SMALL, said

TITLE = "Systems at a glance"
SEVERAL = made_folder.smaller(made_folder.STUDY, repetitions=2)


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_folder.write(tmp_path_factory.mktemp("overview"), SEVERAL)


@pytest.fixture(scope="module")
def text(result: Path) -> str:
    return said(result)


def test_each_system_has_its_most_efficient_setting(result: Path) -> None:
    found = gather(result)
    chosen = {
        (part.name, phase.name, row.run.system): (phase, row)
        for part, phase, row in overview.best(found)
    }
    assert len(chosen) == 2 * 3
    for (part_name, phase_name, system), (phase, row) in chosen.items():
        own = [
            other.mean(phase.efficiency) or 0.0
            for part in found.workloads
            for other in part.rows
            if (part.name, other.phase, other.run.system) == (part_name, phase_name, system)
        ]
        assert len(own) == 3
        assert row.mean(phase.efficiency) == max(own)


def test_the_best_system_is_first(result: Path) -> None:
    order: dict[str, list[str]] = {}
    for _, phase, row in overview.best(gather(result)):
        order.setdefault(phase.name, []).append(row.run.system)
    # The right one is faster and draws less.
    assert order == {name: ["right", "left"] for name in ("write", "read", "randread")}


def test_the_page_has_gross_and_net_peak_products_and_capacity(result: Path, text: str) -> None:
    assert TITLE in text
    assert "net is less what the study subtracts" in text
    assert "raw capacity for each watt, in TB/W" in text
    number = r"[\d ]*[\d.]+"
    spread = rf"{number}\s+± [\d.]+"
    share = r"[\d.]+ %"
    line = rf"right\s+4 clients\s+{spread}\s+{share}\s+{spread}\s+{spread}\s+[\d.]+\s+[\d.]+\s"
    assert re.search(line, text[text.index(TITLE) :])
    rows = rows_of(result / "report" / "overview.csv")
    assert len(rows) == 6
    for row in rows:
        assert float(row["efficiency_net"]) > float(row["efficiency"])
        assert float(row["capacity_tb_per_watt_net"]) > float(row["capacity_tb_per_watt"])
        peak = {"write": 800.0, "read": 900.0, "randread": 60000.0}[row["phase"]]
        assert float(row["peak_share"]) == pytest.approx(float(row["rate"]) / peak)
        assert row["estimate"] == "no"
        # What runs for a given time is never the same work.
        assert (row["edp"] == "") == (row["workload"] == "random")


def test_capacity_is_over_the_mean_of_idle_before_and_after(result: Path, text: str) -> None:
    found = gather(result)
    rows = rows_of(result / "report" / "overview.csv")
    for system in ("left", "right"):
        idle = [
            value.mean
            for row in found.idle
            if row.run.system == system and (value := row.get("capacity_tb_per_watt"))
        ]
        assert len(idle) == 2
        told = {row["capacity_tb_per_watt"] for row in rows if row["system"] == system}
        assert [float(value) for value in told] == pytest.approx([sum(idle) / 2])


def test_without_subtracting_there_is_no_net(tmp_path: Path) -> None:
    study = SMALL.partition("[[subtract]]")[0]
    text = said(made_folder.write(tmp_path, study))
    own = text[text.index(TITLE) : text.index("As data", text.index(TITLE))]
    assert "net" not in own
    assert "gross" not in own


def test_estimates_are_called_so(tmp_path: Path) -> None:
    study = made_folder.only_estimate(SMALL)
    path = made_folder.write(tmp_path, study, estimate_only=True)
    text = said(path)
    own = text[text.index(TITLE) : text.index("As data", text.index(TITLE))]
    assert re.search(r"efficiency\s+gross\s+ESTIMATE", own)
    assert {row["estimate"] for row in rows_of(path / "report" / "overview.csv")} == {"yes"}


def test_one_system_has_no_overview(tmp_path: Path) -> None:
    right = '[[system]]\nname = "right"\nkind = "local"\noptions = { path = "/" }\n'
    path = made_folder.write(tmp_path, SMALL.replace(right, ""))
    assert TITLE not in said(path)
    assert not (path / "report" / "overview.csv").exists()
