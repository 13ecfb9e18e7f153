"""Figures of reports in a real browser: still at first, values under the mouse, zoom, no overlap.

Needs Debian's chromium; run by `make test-system`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from wattio.report import drawing, ranking
from wattio.report.drawing import Drawn
from wattio.report.page import Cell, Cells, Figure, Page, Section, Text, grid, write
from wattio.report.ranking import Condition, Contest

from page.chromium import Chromium, executable

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(executable() is None, reason="needs the Debian package chromium"),
]

WORDS = ("a policy", ("634 W", "620 to 650"), "34.2 %", "1\N{NARROW NO-BREAK SPACE}098 kWh")


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Chromium]:
    """A browser with one page."""
    with Chromium(tmp_path) as chromium:
        yield chromium


@pytest.fixture
def page(tmp_path: Path) -> str:
    """A page with a figure that can be looked into, and a table of 14 columns; its address."""
    x = np.arange(0.0, 101.0)
    look = drawing.strokes(["native"])[0]
    panels = (drawing.panel("time (s)", "power (W)", [("native", look, x, 2 * x)], stepped=True),)
    with drawing.styled():
        canvas, (axis,) = drawing.figure(drawing.WIDTH, 3)
        axis.plot(x, 2 * x)
        image = drawing.svg(canvas)
    drawn = Drawn("power", "Power", "Watts.", "A chart of watts over time.", image, [["a"]], panels)
    columns: Cells = ["policy", *(("latency p99.99", "to native") for _ in range(13))]
    rows: list[Cells] = [[WORDS[0], *(WORDS[1 + at % 3] for at in range(13))] for _ in range(3)]
    place = "/srv/results/a-study-of-a-long-name/20260102T030405Z-1a2b3c4:a load/a policy"
    heads: list[Cells] = [["result", place, place]]
    told: Cells = ["", Cell("first", look="text"), Cell("second", look="text")]
    tables = [grid("t", columns, rows), grid("heads", told, heads)]
    sections = [Section("Over time", [Figure(drawn)]), Section("Table", tables)]
    path = write(tmp_path / "report", Page("t", "over", "Heading", [Text("lead")], sections))
    return path.as_uri()


def test_a_telephone_takes_the_narrow_drawing(tmp_path: Path, browser: Chromium) -> None:
    """The figure of what won was shrunk to letters of four pixels."""
    every = [Condition(name, (level, level + 1)) for name, level in (("one", 50.0), ("two", 40.0))]
    drawn = ranking.drawn([Contest("day", "energy", tuple(every))])
    assert drawn is not None
    sections = [Section("What won", [Figure(drawn)])]
    page = write(tmp_path / "report", Page("t", "over", "Heading", [Text("lead")], sections))
    widths = {}
    for width in (400, 1200):
        browser.open(page.as_uri(), width=width)
        browser.wait("document.querySelector('figure img').naturalWidth > 0")
        widths[width] = browser.evaluate("document.querySelector('figure img').naturalWidth")
        assert browser.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert widths[400] < widths[1200] / 2


def test_values_under_the_mouse_and_back_to_the_still_figure(page: str, browser: Chromium) -> None:
    browser.open(page, width=1000)
    button = "document.querySelector('figure button')"
    still = "document.querySelector('figure a').getClientRects().length"
    assert browser.evaluate(f"{button}.hidden") is False
    assert browser.evaluate("document.querySelectorAll('canvas').length") == 0
    browser.evaluate(f"{button}.click()")
    browser.wait("document.querySelectorAll('canvas').length === 1")
    assert browser.evaluate(still) == 0
    box = "document.querySelector('.u-over').getBoundingClientRect()"
    left, top, width = browser.evaluate(f"(({{left, top, width}}) => [left, top, width])({box})")
    browser.call("Input.dispatchMouseEvent", type="mouseMoved", x=left + width / 2, y=top + 50)
    values = "[...document.querySelectorAll('.u-value')].map((one) => one.textContent)"
    browser.wait(f"{values}.join() === '50,100'")
    browser.evaluate(f"{button}.click()")
    browser.wait("document.querySelectorAll('canvas').length === 0")
    assert browser.evaluate(still) > 0
    assert browser.console == []


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [400, 1000, 1400])
def test_nothing_is_cut_off(page: str, browser: Chromium, width: int, dark: bool) -> None:
    """Tables of many seeds were clipped, and a phone saw names without their values."""
    browser.open(page, width=width, dark=dark)
    browser.wait(f"innerWidth === {width}")
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    cut = """[...document.querySelectorAll('.scroll')]
        .filter((part) => part.scrollWidth > part.clientWidth + 1).length"""
    assert browser.evaluate(cut) == 0
    off = f"""[...document.querySelectorAll('td, figure img')]
        .filter((one) => one.getBoundingClientRect().right > {width}).length"""
    assert browser.evaluate(off) == 0
