"""Power and energy of single nodes in a report: who is a node, the joules, and the strips."""

from __future__ import annotations

import csv
import re
from dataclasses import replace
from pathlib import Path

import pytest
from wattio.kinds.measurement.schema import MeterEntry
from wattio.report import make
from wattio.report.measurement import node_figures, nodes, tables
from wattio.report.measurement.gather import Measured, gather
from wattio.report.page import Grid
from wattio.report.phrases import DASH

from measuring import made_folder
from measuring.test_report_measured import SMALL, said

COUNT = 3


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("nodes")
    return made_folder.write(folder, made_folder.of_nodes(SMALL, COUNT), nodes=COUNT)


@pytest.fixture(scope="module")
def text(result: Path) -> str:
    return said(result)


def with_meters(found: Measured, *meters: tuple[str, list[str], str]) -> Measured:
    entries = [
        MeterEntry.model_validate({"name": "rapl:", "label": label, "covers": covers, "role": role})
        for label, covers, role in meters
    ]
    return replace(found, study=found.study.model_copy(update={"meter": entries}))


@pytest.mark.parametrize(
    ("meters", "names"),
    [
        ([("a", ["n1"], "total"), ("b", ["n2"], "total")], ["n1", "n2"]),
        ([("all", ["n1", "n2"], "total"), ("a", ["n1"], "beside"), ("b", ["n2"], "beside")],
         ["n1", "n2"]),
        # A switch beside two nodes is metered, too.
        ([("a", ["n1"], "total"), ("b", ["n2"], "total"), ("s", ["switch", "fan"], "total")],
         ["n1", "n2"]),
        # Of two meters of one node the first.
        ([("a", ["n1"], "total"), ("b", ["n2"], "total"), ("c", ["n1"], "beside")], ["n1", "n2"]),
        # Parts of one server are no nodes, and neither is a server alone.
        ([("pdu", ["server"], "total"), ("rapl", ["cpu"], "beside")], []),
        ([("pdu", ["server"], "total"), ("r", ["cpu"], "beside"), ("d", ["dram"], "beside")], []),
        ([("pdu", ["server", "switch"], "total")], []),
    ],
)  # fmt: skip
def test_a_node_is_what_a_meter_of_its_own_covers(
    result: Path, meters: list[tuple[str, list[str], str]], names: list[str]
) -> None:
    found = with_meters(gather(result), *meters)
    assert [node.name for node in nodes.of_study(found)] == names


def test_the_nodes_joules_are_their_shares_of_the_total(result: Path) -> None:
    found = gather(result)
    known = nodes.of_study(found)
    assert [node.name for node in known] == [f"server {number}" for number in (1, 2, 3)]
    for part in found.workloads:
        for row in (row for phase in part.phases for row in phase.used()):
            total = row.get("energy_j")
            own = [nodes.joules(row, node) for node in known]
            assert total is not None
            each = [value.mean for value in own if value is not None]
            assert sum(each) == pytest.approx(total.mean, rel=1e-9)
            # The folder was made so: each draws so many times what the first one does.
            assert [value / each[0] for value in each] == pytest.approx([1, 2, 3], rel=1e-6)


def test_every_run_phase_and_node_is_in_the_data(result: Path, text: str) -> None:
    assert "Every run, as data" in text
    rows = rows_of(result / "report" / "nodes.csv")
    assert len(rows) == 2 * COUNT * 3  # systems, nodes, phases of both workloads
    found = gather(result)
    for row in rows:
        assert row["metric"] == "energy_j"
        assert float(row["low"]) <= float(row["mean"]) <= float(row["high"])
    names = {(row["run"], row["phase"]) for row in rows}
    every = (row for part in found.workloads for phase in part.phases for row in phase.used())
    assert names == {(row.run.name, row.phase) for row in every}


def test_the_table_tells_share_and_power(result: Path, text: str) -> None:
    assert "sequential: energy of each node" in text
    own = text[text.index("sequential: energy of each node") :]
    for number, share in ((1, "16.7 %"), (2, "33.3 %"), (3, "50.0 %")):
        assert re.search(rf"server {number}\s+[\d ]+\s+± [\d.]+\s+{share}, [\d.]+ W", own)
    assert re.search(r"all nodes\s+3\s", own)


def test_means_over_different_iterations_are_no_shares_of_each_other(result: Path) -> None:
    """Power was energy of one iteration over the mean time of all; shares came to more than all."""
    found = gather(result)
    part = found.workloads[0]
    row = next(row for row in part.phases[0].used() if row.used > 1)
    whole = row.metrics["node2.energy_j"]
    fewer = replace(whole, values=whole.values[1:], mean=whole.values[1])
    lacking = replace(row, metrics=row.metrics | {"node2.energy_j": fewer})
    known = nodes.of_study(found)
    blocks = nodes.of_part(replace(part, rows=(lacking,)), [row.run], found)
    table = next(block for block in blocks if isinstance(block, Grid)).rows
    cells = [cells[2] for cells in table]
    assert f"in {fewer.n} of {row.used}" in cells[1].small
    assert "%" not in cells[0].small + cells[1].small
    assert " W" not in cells[1].small
    assert (len(cells), cells[-1].text) == (len(known) + 1, DASH)
    total = row.get("energy_j")
    assert tables.beside(row, "node2", total)[1].endswith("%")
    assert tables.beside(lacking, "node2", total)[1] == ""


def test_each_node_has_its_power_over_one_iteration(result: Path, text: str) -> None:
    assert "Power of each node: sequential/left, 1 client" in text
    rows = rows_of(result / "report" / "sequential-nodes-left.csv")
    powers: dict[str, list[float]] = {}
    for row in rows:
        powers.setdefault(row["node"], []).append(float(row["power_w_mean"]))
    assert list(powers) == ["server 1", "server 2", "server 3"]
    assert powers["server 3"] == pytest.approx([3 * watts for watts in powers["server 1"]])
    assert (result / "report" / "sequential-nodes-right.svg").is_file()


def test_single_nodes_do_not_crowd_the_sum(result: Path, text: str) -> None:
    assert text
    for name in ("sequential-course", "session-0001"):
        rows = rows_of(result / "report" / f"{name}.csv")
        assert {row["meter"] for row in rows} == {"sum"}


def test_estimated_nodes_are_called_so(result: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = gather(result)
    monkeypatch.setattr(Measured, "is_estimate", lambda _, meter: meter.shown == "node2")
    known = nodes.of_study(found)
    assert [node.estimate for node in known] == [False, True, False]
    run = found.workloads[0].rows[0].run
    blocks = nodes.of_part(found.workloads[0], [run], found)
    rows = next(block for block in blocks if isinstance(block, Grid)).rows
    assert [row[1].small for row in rows] == ["", "ESTIMATE", "", "3, ESTIMATE"]
    # The second one's energy is looked for as an estimate, which this folder has none of.
    assert [row[2].text == DASH for row in rows] == [False, True, False, True]


def test_many_nodes_are_cut_off_and_their_data_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_figures, "NODES_MAX", 2)
    monkeypatch.setattr(nodes, "ROWS_SHOWN", 5)
    study = made_folder.of_nodes(SMALL, 4)
    path = made_folder.write(tmp_path, study, nodes=4)
    shown = said(path)
    assert "The first 2 of 4 nodes; the others are in the CSV file." in shown
    assert "5 more rows are in the CSV file." in shown  # 2 systems, 4 nodes and all of them
    rows = rows_of(path / "report" / "sequential-nodes-left.csv")
    assert len({row["node"] for row in rows}) == 4


@pytest.mark.slow
def test_a_page_of_many_nodes_stays_small(tmp_path: Path) -> None:
    study = made_folder.of_nodes(SMALL, node_figures.NODES_MAX + 1)
    path = made_folder.write(tmp_path, study, nodes=node_figures.NODES_MAX + 1)
    assert make(path).stat().st_size < 2_000_000


def test_studies_without_nodes_say_nothing_of_them(tmp_path: Path) -> None:
    path = made_folder.write(tmp_path, SMALL)
    assert "each node" not in said(path)
    assert not (path / "report" / "nodes.csv").exists()
