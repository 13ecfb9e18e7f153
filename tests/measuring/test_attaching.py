"""Recorded samples join a result by their time."""

from __future__ import annotations

import json
import re
import shutil
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from wattio.kinds.measurement import recompute
from wattio.kinds.measurement.folder import MeasurementFolder

from measuring.test_running import ended, result, study, wattio

WATTS = 100.0


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A result that was measured with an estimate only."""
    folder = tmp_path_factory.mktemp("attaching")
    assert ended(wattio("run", study(folder), "--no-report", folder=folder))[0] == 0
    return result(folder)


@pytest.fixture
def folder(measured: Path, tmp_path: Path) -> MeasurementFolder:
    return MeasurementFolder(shutil.copytree(measured, tmp_path / "copy"))


def scope(folder: MeasurementFolder, shift_s: float = 0.0) -> Path:
    """What a scope has saved: power about a level, twenty times a second, from before to after.

    Were it the same all the time while the host is busy, the meter would pass for a frozen one.
    """
    records = [folder.record(item.identity) for item in folder.iterations()]
    start_ns = min(record.start.utc_ns for record in records) - 5 * 10**9
    end_ns = max(record.end.utc_ns for record in records) + 5 * 10**9
    stamps = range(start_ns, end_ns, 50_000_000)
    path = folder.path.parent / "scope.csv"
    rows = (
        f"{stamp / 1e9 + shift_s:.6f},{WATTS + 0.5 * (-1) ** number}"
        for number, stamp in enumerate(stamps)
    )
    path.write_text("\n".join(["time,power_w", *rows]) + "\n")
    return path


def attach(folder: MeasurementFolder, path: Path, *options: str) -> tuple[int, str, str]:
    meter = f"csv:{path}"
    words = ("attach", str(folder.path), "--meter", meter, "--covers", "host", *options)
    return ended(wattio(*words, folder=folder.path.parent))


def test_a_total_takes_the_place_of_the_studys_own(folder: MeasurementFolder) -> None:
    code, out, err = attach(folder, scope(folder), "--total", "--label", "scope", "--json")
    assert code == 0, err
    assert json.loads(out)["samples"] > 20
    for item in folder.iterations():
        phase = "idle" if item.run.subject == "idle" else "write"
        seconds = item.by_phase[phase]["seconds"][0]
        assert item.by_phase[phase]["energy_j"][0] == pytest.approx(WATTS * seconds, rel=0.01)
        assert "estimate.estimated_energy_j" in item.by_phase[phase]
        assert "estimated_energy_j" not in item.by_phase[phase]
    assert recompute.compare(folder).differences == []
    # The only total was told to be missing in a file that nobody wrote.
    code, _, err = attach(folder, scope(folder), "--label", "scope")
    assert code == 2
    assert 'meter "scope" was attached with --total, and nothing else is a total' in err
    assert attach(folder, scope(folder), "--total", "--label", "scope")[0] == 0


def test_the_witness_is_not_overwritten(folder: MeasurementFolder) -> None:
    """`--label witness` took the place of the estimate that shows whether a meter froze."""
    code, _, err = attach(folder, scope(folder), "--label", "witness")
    assert code == 2
    assert 'already has a meter "witness"; give another --label' in err


def test_counts_of_watt_hours_join_as_joules(folder: MeasurementFolder) -> None:
    """A file of energy only was refused."""
    rows = scope(folder).read_text().splitlines()[1:]
    first_s = float(rows[0].partition(",")[0])
    path = folder.path / "counts.csv"
    counts = [
        f"{stamp},{WATTS * (float(stamp) - first_s) / 3600:.9f}"
        for stamp, _, _ in (row.partition(",") for row in rows)
    ]
    path.write_text("\n".join(["time,energy_wh", *counts]))
    code, _, err = attach(folder, path, "--total")
    assert code == 0, err
    for item in folder.iterations():
        own = item.by_phase["idle" if item.run.subject == "idle" else "write"]
        assert own["energy_j"][0] == pytest.approx(WATTS * own["seconds"][0], rel=1e-4)


@pytest.mark.slow
def test_it_stands_beside_where_nothing_else_is_asked(folder: MeasurementFolder) -> None:
    assert attach(folder, scope(folder))[0] == 0
    item = folder.iterations()[-1]
    assert item.by_phase["write"]["csv.energy_j"][0] > 0
    assert "estimated_energy_j" in item.by_phase["write"]
    # Again, as after a kill half-way: it takes the place of what joined before.
    assert attach(folder, scope(folder))[0] == 0
    assert recompute.compare(folder).differences == []
    code, _, err = attach(folder, scope(folder), "--label", "estimate")
    assert code == 2
    assert 'already has a meter "estimate"' in err


def test_a_record_that_is_lost_keeps_no_samples_from_joining(folder: MeasurementFolder) -> None:
    path, lost = scope(folder), folder.iterations()[0]
    (folder.raw(lost.identity) / "iteration.json").write_text("")
    code, _, err = attach(folder, path, "--label", "scope")
    assert code == 0, err
    told = {item.identity: item.codes("INVALID") for item in folder.iterations()}
    assert told.pop(lost.identity) == ["UNREADABLE"]
    assert not any(told.values())


def test_samples_of_another_day_are_refused(folder: MeasurementFolder) -> None:
    before = (folder.path / "resolved.toml").read_text()
    code, _, err = attach(folder, scope(folder, shift_s=86_400.0))
    assert code == 2
    told = re.search(r"they are of (\S+) to \S+, and it is of (\S+) to \S+Z$", err.strip())
    assert told, err
    own, other = (datetime.fromisoformat(text) for text in told.groups())
    assert timedelta(hours=23) < own - other < timedelta(hours=25)
    assert (folder.path / "resolved.toml").read_text() == before


def test_only_files_join(folder: MeasurementFolder) -> None:
    words = ("attach", folder.path, "--meter", "estimate:assumed", "--covers", "host")
    code, _, err = ended(wattio(*words, folder=folder.path.parent))
    assert code == 2
    assert "only recorded files can be attached" in err
