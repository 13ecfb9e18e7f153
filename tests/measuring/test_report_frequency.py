"""Energy over the processor's frequency: what a report says and draws of a study that sets it."""

from __future__ import annotations

import csv
import dataclasses
import math
import re
from pathlib import Path

import pytest
from wattio.analysis import statistics
from wattio.report.measurement import over_frequency
from wattio.report.measurement.gather import gather
from wattio.report.measurement.over_frequency import EACH, ENERGY, TIME, Course

from measuring import made_folder
from measuring.test_report_measured import said

GHZ = (0.8, 1.2, 1.6, 2.4, 3.6)
WORKS = {
    load: [dataclasses.replace(work, scales=True) for work in works]
    for load, works in made_folder.WORKS.items()
}
SECTION = "Energy over processor frequency"


def study(repetitions: int = 4, knob: str = "cpu.frequency_pinned") -> str:
    values = ", ".join(f'"{ghz} GHz"' for ghz in GHZ)
    head = made_folder.smaller(made_folder.STUDY, repetitions=repetitions, clients="[1]")
    return f'{head}\n[[knob]]\nname = "{knob}"\nvalues = [{values}]\n'


def courses_of(path: Path) -> dict[tuple[str, str], Course]:
    found = gather(path)
    return {
        (course.part, course.phase): course
        for part in found.workloads
        for course in over_frequency.courses(part, found)
    }


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_folder.write(tmp_path_factory.mktemp("frequency"), study(), WORKS, ran=1.0)


def test_the_best_frequency_lies_where_power_and_rate_put_it(result: Path) -> None:
    course = courses_of(result)["sequential", "write"]
    assert [track.label for track in course.tracks] == ["left", "right"]
    left = course.tracks[0]
    assert [point.name for point in left.points] == [f"{ghz:g} GHz" for ghz in GHZ]

    def power_over_rate(ghz: float) -> float:
        # What the folder was made with: 92 W and 4 more, 60 W by the cube; the rate by the root.
        share = ghz / 3.6
        return (96 + 60 * share**3) / math.sqrt(share)

    best = f"{min(GHZ, key=power_over_rate):g} GHz"
    assert course.best(left, EACH)[0] == course.best(left, ENERGY)[0] == best == "2.4 GHz"
    assert course.best(left, TIME)[0] == "3.6 GHz"


def test_energy_for_the_work_is_energy_over_bytes(result: Path) -> None:
    found = gather(result)
    course = courses_of(result)["sequential", "write"]
    for track in course.tracks:
        for point in track.points:
            moved = point.row.get("bytes")
            assert moved is not None
            pairs = zip(point.values[ENERGY], moved.values, point.values[EACH], strict=True)
            for energy_j, size_bytes, each_j in pairs:
                assert each_j == pytest.approx(energy_j / size_bytes * 2**30, rel=1e-9)
    assert not found.estimated


def test_work_of_a_given_time_is_compared_for_each_gib_only(result: Path) -> None:
    course = courses_of(result)["random", "randread"]
    for track in course.tracks:
        assert course.best(track, EACH)
        assert not course.best(track, ENERGY)
        assert not course.best(track, TIME)


def test_the_page_and_its_data_agree(result: Path) -> None:
    text = said(result)
    assert SECTION in text
    assert re.search(
        r"sequential, write, left: 2\.4 GHz has the least energy per GiB, \d+\.\d % less"
        r" \(0\.\d\d. to 0\.\d\d.\) than 3\.6 GHz",
        text,
    )
    assert "another frequency than was asked for" not in text
    rows = rows_of(result / "report" / "sequential-frequency.csv")
    assert len(rows) == 2 * 2 * len(GHZ) * 3
    for course in courses_of(result).values():
        for track in course.tracks:
            for point in track.points:
                values = point.values[EACH]
                row = next(
                    row
                    for row in rows_of(result / "report" / f"{course.part}-frequency.csv")
                    if row["phase"] == course.phase
                    and row["run"] == point.row.run.name
                    and row["quantity"] == EACH
                )
                ends = statistics.mean_interval(values)
                assert ends is not None
                assert float(row["low"]) == pytest.approx(ends.low)
                assert float(row["high"]) == pytest.approx(ends.high)
                assert float(row["ran_hz"]) == pytest.approx(point.asked_hz)
    least = [row["frequency_hz"] for row in rows if row["standing"] == "least"]
    assert len(least) == 2 * 2 * 3


def test_what_cannot_be_told_apart_is_marked_as_such(tmp_path: Path) -> None:
    # Nothing scales: every frequency costs the same but for the wobble of repetitions.
    path = made_folder.write(tmp_path, study(), ran=None)
    course = courses_of(path)["sequential", "write"]
    assert all(len(course.best(track, EACH)) == len(GHZ) for track in course.tracks)
    text = said(path)
    assert "cannot be told apart from the least" in text
    assert "the least, within noise" in text
    assert "Nobody looked at what the cores really ran at" in text
    rows = rows_of(path / "report" / "sequential-frequency.csv")
    assert {row["standing"] for row in rows if row["quantity"] == EACH} == {"least", "level"}


def test_one_repetition_marks_no_best(tmp_path: Path) -> None:
    path = made_folder.write(tmp_path, study(repetitions=1), WORKS, ran=1.0)
    text = said(path)
    assert "one repetition does not tell how much is noise, so no best is marked" in text
    rows = rows_of(path / "report" / "sequential-frequency.csv")
    assert {row["standing"] for row in rows} == {""}
    assert {row["low"] for row in rows} == {""}


@pytest.mark.parametrize(
    ("knob", "ran", "off"),
    [
        ("cpu.frequency_pinned", 0.9, True),
        ("cpu.frequency_pinned", 1.1, True),
        ("cpu.frequency", 0.9, False),
        ("cpu.frequency", 1.1, True),
        ("cpu.frequency_pinned", 1.03, False),
    ],
)
def test_cores_that_ran_otherwise_are_told(
    tmp_path: Path, knob: str, ran: float, off: bool
) -> None:
    path = made_folder.write(tmp_path, study(repetitions=2, knob=knob), WORKS, ran=ran)
    points = [
        point
        for course in courses_of(path).values()
        for track in course.tracks
        for point in track.points
    ]
    assert {point.off for point in points} == {off}
    assert ("In 10 of 10 rows the cores ran at another frequency" in said(path)) == off


def test_estimated_energy_is_called_so(tmp_path: Path) -> None:
    made = made_folder.only_estimate(study())
    path = made_folder.write(tmp_path, made, WORKS, estimate_only=True, ran=1.0)
    text = said(path)
    assert "sequential: energy over frequency, ESTIMATE" in text
    assert "energy per GiB (ESTIMATE)" in text
    assert "By the energy for the work (ESTIMATE)" in text
    assert re.search(r"energy per GiB\s+J\s+ESTIMATE", text)


def test_no_frequency_no_section(tmp_path: Path) -> None:
    small = made_folder.smaller(made_folder.STUDY, repetitions=2, clients="[1]")
    assert SECTION not in said(made_folder.write(tmp_path, small))
