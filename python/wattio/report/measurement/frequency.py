"""Energy over the processor's frequency, as the page shows it: sentences, figure, tables."""

from __future__ import annotations

from collections.abc import Iterator

from wattio.analysis import statistics
from wattio.report import output
from wattio.report.measurement import frequency_figures
from wattio.report.measurement.gather import Measured, WorkloadPart
from wattio.report.measurement.over_frequency import EACH, KNOBS, QUANTITIES, Course, Point, courses
from wattio.report.measurement.phrases import estimate
from wattio.report.page import Block, Cell, Cells, Heading, Section, Text, gallery, grid
from wattio.report.phrases import DASH, number

TOLD_MAX = 12
"""Most series of which a sentence tells the best frequency."""


def section(found: Measured) -> list[Section]:
    """What a study found that sets the frequency; none for any other."""
    blocks: list[Block] = []
    told = [text for part in found.workloads for text in _sentences(part, found)]
    if told:
        text = (
            f"By the energy for the work{estimate(found)}, each series with its highest frequency"
        )
        blocks.append(Text(f"{text} as the reference.", "note"))
    blocks += [Text(text) for text in told[:TOLD_MAX]]
    if len(told) > TOLD_MAX:
        blocks.append(Text(f"{len(told) - TOLD_MAX} more are in the tables.", "note"))
    for part in found.workloads:
        own = list(courses(part, found))
        if own:
            drawn = frequency_figures.of_workload(own, found)
            blocks += gallery([drawn], f"{output.slug(part.name)}-")
            blocks += [block for course in own for block in _table(course, found)]
    return [Section("Energy over processor frequency", blocks)] if blocks else []


def _sentences(part: WorkloadPart, found: Measured) -> Iterator[str]:
    """At which frequency each series needs the least for its work."""
    for course in courses(part, found):
        for track in course.tracks:
            said = f"energy per {course.each}{estimate(found)}"
            name = f"{course.part}, {course.phase}, {track.label}"
            contest = track.contest(name, EACH, said)
            if contest is not None:
                yield contest.sentence()


def _table(course: Course, found: Measured) -> list[Block]:
    """Every point with its intervals, and what the cores really ran at."""
    kind = estimate(found).strip(" ()")
    ran = any(point.ran_hz is not None for track in course.tracks for point in track.points)
    columns: Cells = [
        ("run", ""),
        ("frequency", f"{KNOBS[course.knob]}, GHz"),
        *([("ran at", "GHz, mean")] if ran else []),
        ("energy", "\n".join(("J", kind) if kind else ("J",))),
        (f"energy per {course.each}", "\n".join(("J", kind) if kind else ("J",))),
        ("time", "s"),
        Cell("best", "by energy for the work", "text"),
    ]
    rows: list[Cells] = []
    for track in course.tracks:
        leaders, untold = course.best(track, EACH), course.untold(track, EACH)
        for point in track.points:
            looked = _gigahertz(point) if ran else []
            cells = [_interval(point.values.get(quantity)) for quantity in QUANTITIES]
            head = [(track.label, ""), (f"{point.asked_hz / 1e9:g}", "")]
            rows.append([*head, *looked, *cells, _standing(point, leaders, untold)])
    title = f"{course.part}: {course.phase} over frequency"
    blocks: list[Block] = [Heading(title, 4), grid(title, columns, rows)]
    every = [point for track in course.tracks for point in track.points]
    off = sum(point.off for point in every)
    if off:
        text = (
            f"In {off} of {len(every)} rows the cores ran at another frequency than was asked for;"
        )
        blocks.append(Text(f"{text} rows and figures are by what was asked.", "warning"))
    elif not ran:
        text = "Nobody looked at what the cores really ran at: this host does not tell it."
        blocks.append(Text(text, "note"))
    return blocks


def _gigahertz(point: Point) -> list[Cell]:
    if point.ran_hz is None:
        return [Cell(DASH)]
    look = "WARN" if point.off else ""
    return [Cell(f"{point.ran_hz / 1e9:.3g}", "not as asked" if point.off else "", look)]


def _standing(point: Point, leaders: list[str], untold: list[str]) -> Cell:
    """Whether a point is the best, or cannot be told apart from it, by noise or by an estimate."""
    if point.name in untold:
        return Cell("the estimate cannot tell", look="text")
    if point.name not in leaders:
        return Cell("", look="text")
    if point.name == leaders[0]:
        text = "the least" if len(leaders) == 1 else "the least, within noise"
        return Cell(text, look="text")
    return Cell("cannot be told apart from the least", look="text")


def _interval(values: tuple[float, ...] | None) -> tuple[str, str]:
    """A mean with its 95 % interval below."""
    if not values:
        return DASH, ""
    ends = statistics.mean_interval(values)
    mean = sum(values) / len(values)
    return number(mean), f"{number(ends.low)} to {number(ends.high)}" if ends else ""
