"""The study of nearly full volumes: how full they are, and what is compared with what."""

from __future__ import annotations

import pytest
from pydantic import TypeAdapter
from wattio.files import document
from wattio.files.quantity import Size
from wattio.kinds.measurement import plan as planning
from wattio.kinds.measurement.overrides import Asked
from wattio.kinds.measurement.plan import MeasurementPlan
from wattio.report.measurement import governed
from wattio.shipped import study_file

BLOCK = 4096
SIZE: TypeAdapter[float] = TypeAdapter(Size)


def planned(scale: str | None) -> MeasurementPlan:
    return planning.make(document.read(study_file("target-background")), Asked(scale))


def full_share(size_bytes: float, segment_bytes: float, spare: float) -> float:
    """Share of what a volume can hold, as `Geometry::capacity_blocks` has it.

    Of its segments a thirty-second, at least eight, is held back; of each of the others a
    thirty-third is headers, and one block its end.
    """
    blocks, each = size_bytes / BLOCK, segment_bytes / BLOCK
    segments = -(-blocks // (each * (1 - spare)))
    free = segments - max(segments // 32, 8)
    return blocks / (free * (each * 32 // 33 - 1))


@pytest.mark.parametrize("scale", [None, "small", "hour"])
def test_each_is_as_full_as_its_name_says_and_has_full_speed_beside_it(scale: str | None) -> None:
    made = planned(scale)
    assert len(made.study.system) == 9
    for entry in made.study.system:
        options = entry.options
        size = SIZE.validate_python(options["size"])
        segment = SIZE.validate_python(options["make"]["segment-size"])
        share = full_share(size, segment, options["make"]["spare"])
        assert share == pytest.approx(int(entry.name.split("-")[1]) / 100, abs=0.002)
        assert options["status_period"] == "1 s"
        twin = governed.twin_of(entry, made.study.system)
        assert twin is not None
        assert twin.name == "-".join([*entry.name.split("-")[:2], "polling"])
        assert (entry.role == "beside") == (twin is entry)


def test_an_hour_each_where_asked_for_and_else_within_two_hours_in_all() -> None:
    for scale, least_s, most_s in (
        ("hour", 9 * 7200, 9 * 7200 * 1.1),
        (None, 9 * 600, 7200),
        ("small", 9 * 50, 900),
    ):
        made = planned(scale)
        works = [made.work(one.cell.workload) for one in made.iterations if one.cell]
        assert len(works) == 9
        assert least_s <= sum(work.seconds_guess(1) for work in works) <= most_s
