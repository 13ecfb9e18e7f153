"""Figures of reports in a real browser: still at first, values under the mouse, zoom, no overlap.

Needs Debian's chromium; run by `make test-system`.
"""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from governor import governed_fake
from measuring import made_folder
from report import test_report
from simulation import test_fleet
from wattio.cli import main
from wattio.report import make, plots, rankings
from wattio.report.page import Cell, Cells, Figure, Page, Section, Text, grid, write
from wattio.report.plots import Drawn
from wattio.report.rankings import Condition, Contest

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
    look = plots.strokes(["native"])[0]
    lines: list[plots.Line] = [("native", look, x, 2 * x)]
    saving = plots.Band("saving", "#56B4E9", 0.2, [(20.0, 40.0), (60.0, 80.0)])
    panels = (
        plots.panel("time (s)", "power (W)", lines, stepped=True, bands=[saving], marks=True),
    )
    with plots.styled():
        canvas, (axis,) = plots.figure(plots.WIDTH, 3)
        axis.plot(x, 2 * x)
        image = plots.svg(canvas)
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
    drawn = rankings.drawn([Contest("day", "energy", tuple(every))])
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
    # The legend has line and mark of the one curve, as the still figure.
    assert browser.evaluate("document.querySelectorAll('.u-marker path + polygon').length") == 1
    box = "document.querySelector('.u-over').getBoundingClientRect()"
    left, top, width = browser.evaluate(f"(({{left, top, width}}) => [left, top, width])({box})")
    browser.call("Input.dispatchMouseEvent", type="mouseMoved", x=left + width / 2, y=top + 50)
    values = "[...document.querySelectorAll('.u-value')].map((one) => one.textContent)"
    browser.wait(f"{values}.join() === '50,100'")
    browser.evaluate(f"{button}.click()")
    browser.wait("document.querySelectorAll('canvas').length === 0")
    assert browser.evaluate(still) > 0
    assert browser.console == []


def test_what_is_shaded_behind_the_still_figure_is_shaded_behind_curves(
    page: str, browser: Chromium
) -> None:
    """The caption told of a shading that only the still figure had."""
    browser.open(page, width=1000)
    browser.evaluate("document.querySelector('figure button').click()")
    browser.wait("document.querySelectorAll('canvas').length === 1")
    colours = browser.evaluate("""new Promise((resolve) => requestAnimationFrame(() => {
        const canvas = document.querySelector('canvas');
        const [frame, over] = [canvas, document.querySelector('.u-over')]
            .map((one) => one.getBoundingClientRect());
        const scale = canvas.width / frame.width;
        // Between the lines of the grid, at the top, where no curve is.
        const width = Math.floor(over.width * scale);
        const line = canvas.getContext('2d').getImageData(
            (over.left - frame.left) * scale, (over.top - frame.top + 3) * scale, width, 1).data;
        resolve([0.13, 0.33, 0.53, 0.73, 0.93].map((share) => {
            const at = 4 * Math.round(share * width);
            return [...line.slice(at, at + 4)];
        }));
    }))""")
    assert colours[0] == colours[2] == colours[4] == [0, 0, 0, 0]
    assert colours[1] == colours[3]
    red, green, blue, opacity = colours[1]
    assert red < green < blue
    assert opacity == pytest.approx(0.2 * 255, abs=1)
    assert browser.evaluate("document.querySelector('.bands').textContent").strip() == "saving"
    assert browser.console == []


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [400, 1000, 1400])
def test_nothing_is_cut_off(page: str, browser: Chromium, width: int, dark: bool) -> None:
    """Tables of many seeds were clipped, and a phone saw names without their values."""
    browser.open(page, width=width, dark=dark)
    assert_whole(browser, width)


PAPER = {"A4": 703, "Letter": 725}
"""Width between the margins of the style sheet, in pixels of CSS: 96 to the inch."""


@pytest.mark.parametrize("width", PAPER.values(), ids=PAPER)
def test_nothing_is_cut_off_on_paper(page: str, browser: Chromium, width: int) -> None:
    browser.open(page, width=width, paper=True)
    assert_whole(browser, width)
    for kind, shown in (("figure a img", True), (".plots", False), ("button", False)):
        seen = f"[...document.querySelectorAll('{kind}')].some((one) => one.offsetParent !== null)"
        assert browser.evaluate(seen) is shown, kind


def assert_whole(browser: Chromium, width: int) -> None:
    """Whether all that is shown lies within the width."""
    browser.wait(f"innerWidth === {width}")
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    cut = """[...document.querySelectorAll('.scroll')]
        .filter((part) => part.scrollWidth > part.clientWidth + 1).length"""
    assert browser.evaluate(cut) == 0
    # What is as wide as a page may be moved within a frame that is not.
    off = f"""[...document.querySelectorAll('td, figure > a, picture > img, canvas')]
        .filter((one) => one.getBoundingClientRect().right > {width}).length"""
    assert browser.evaluate(off) == 0


KINDS = ("simulation", "fleet", "measurement", "governor", "compare")


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The page of a result of each kind, most of them those of the golden files."""
    fleet = tmp_path_factory.mktemp("fleet")
    (fleet / "trial.toml").write_text(test_fleet.STUDY, encoding="utf-8")
    with pytest.raises(SystemExit, match=r"^0$"):
        main(["run", str(fleet / "trial.toml"), "--results", str(fleet), "--no-report"])
    measured = tmp_path_factory.mktemp("measured")
    governed = tmp_path_factory.mktemp("governed") / "r"
    results = {
        "simulation": test_report.carried_out_at(tmp_path_factory.mktemp("simulation")).path,
        "fleet": next(path for path in (fleet / "trial").iterdir() if path.is_dir()),
        "measurement": made_folder.write(measured, failures=[("sequential/left, 2 clients", 0, 0)]),
        "governor": governed_fake.write(governed, governed_fake.windows(400)),
    }
    found = {kind: make(result) for kind, result in results.items()}
    compared = tmp_path_factory.mktemp("compared") / "compared.html"
    sides = [f"{results['simulation']}:day/{policy}" for policy in ("native", "PACER")]
    with pytest.raises(SystemExit, match=r"^0$"):
        main(["compare", *sides, "--html", str(compared)])
    return found | {"compare": compared}


SHOWN = """[...document.querySelectorAll('figure')].map((figure) => {
    const canvas = figure.querySelector('canvas');
    const image = figure.querySelector('img');
    const shown = canvas ?? image;
    const font = canvas && parseFloat(canvas.getContext('2d').font.match(/[0-9.]+px/)[0]);
    const width = shown.getBoundingClientRect().width;
    return { width, drawn: canvas?.width, font, source: image.currentSrc };
})"""


def letters_px(browser: Chromium) -> list[float]:
    """The size of the smallest font of each figure as it is shown, in pixels of CSS."""
    browser.evaluate("document.querySelectorAll('img').forEach((one) => one.loading = 'eager')")
    browser.wait("[...document.images].every((one) => one.naturalWidth > 0)")
    sizes = []
    for figure in browser.evaluate(SHOWN):
        if figure["font"] is not None:
            sizes.append(figure["font"] * figure["width"] / figure["drawn"])
            continue
        with urllib.request.urlopen(figure["source"]) as file:
            image = file.read().decode()
        found = re.search(r'viewBox="0 0 ([0-9.]+)', image)
        assert found is not None
        # Matplotlib draws the letters of a font as outlines, scaled by a hundredth of its points.
        points = [100 * float(scale) for scale in re.findall(r"scale\(([0-9.]+) -\1\)", image)]
        sizes.append(min(points) * figure["width"] / float(found[1]))
    return sizes


@pytest.mark.parametrize("width", [400, 1400])
@pytest.mark.parametrize("kind", KINDS)
def test_letters_of_every_figure_can_be_read(
    pages: dict[str, Path], browser: Chromium, kind: str, width: int
) -> None:
    """On a telephone those of curves and bars were of four pixels."""
    browser.open(pages[kind].as_uri(), width=width)
    sizes = letters_px(browser)
    assert len(sizes) > (0 if kind == "compare" else 3)
    assert min(sizes) > 9
    assert_whole(browser, width)
    assert browser.console == []


@pytest.mark.parametrize("kind", KINDS)
def test_figures_of_every_kind_are_whole_on_paper(
    pages: dict[str, Path], browser: Chromium, kind: str
) -> None:
    browser.open(pages[kind].as_uri(), width=PAPER["A4"], paper=True)
    assert min(letters_px(browser)) > 8
    assert_whole(browser, PAPER["A4"])
