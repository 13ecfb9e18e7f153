"""The shape of a page: what blocks become, and what no page may do."""

from __future__ import annotations

import errno
import json
import os
import re
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure
from wattio.errors import ResultError
from wattio.report import output, phrases, plots
from wattio.report.page import (
    Cell,
    Facts,
    Folded,
    Items,
    Page,
    Section,
    Text,
    as_data,
    grid,
    lines,
    render,
    write,
)
from wattio.report.page import (
    Figure as Shown,
)
from wattio.report.plots import Drawn

DRAWN = Drawn(
    "power", "Power", "Watts over <time>.", "A chart of watts over time.", b"<svg/>", [["a"]]
)
PLAIN = str.maketrans({"\N{NO-BREAK SPACE}": " ", "\N{NARROW NO-BREAK SPACE}": " "})


def page(*blocks: object) -> Page:
    section = Section("In <numbers>", blocks, "by & by")  # type: ignore[arg-type]
    return Page(
        "<t>", "over", "<b>heading</b>", [Text("lead", "note")], [section], {"all": [["x"]]}
    )


def test_whatever_comes_from_files_is_escaped() -> None:
    text = render(
        page(
            grid("<g>", [Cell("<c>", "<s>"), "v"], [["<r>", ("1", "<i>")]]),
            Items(["<li>"]),
            Facts([("<key>", lines(["<one>", "two"]))]),
            Folded("<sum>", "<pre>"),
            Shown(DRAWN),
            Text(as_data("<x>.csv")),
        )
    )
    for name in ("g", "c", "s", "r", "key", "one", "sum", "t", "time", "x"):
        assert f"&lt;{name}&gt;" in text, name
        assert not re.search(f"<{name}>", text) or name == "s", name
    assert "&lt;one&gt;<br>two" in text
    assert '<a href="&lt;x&gt;.csv">' in text


def test_cells_carry_their_column_for_narrow_screens() -> None:
    shown = grid(
        "g", ["run", ("power", "W\nmean")], [["a", "1"], ["b", ("2", "± 1")]], subjects=[1]
    )
    text = render(page(shown))
    assert text.count('data-head="power, W mean"') == 2
    assert '<tr class="subject"><td><span>b</span></td>' in text
    assert "<span>2<small>± 1</small></span>" in text


def test_every_section_is_in_the_contents() -> None:
    text = render(page(Text("x")))
    assert '<li><a href="#in-numbers">In &lt;numbers&gt;</a></li>' in text
    assert '<h2 id="in-numbers">' in text


def test_files_beside_and_one_error_where_they_cannot_be(tmp_path: Path) -> None:
    written = write(tmp_path / "report", page(Shown(DRAWN, "day-")))
    names = {path.name for path in written.parent.iterdir()}
    assert names == {"index.html", "all.csv", "day-power.svg", "day-power.csv"}
    (tmp_path / "file").write_text("")
    with pytest.raises(ResultError, match="file: cannot be written"):
        write(tmp_path / "file", page())


@pytest.mark.parametrize("writes", range(4))
def test_a_page_for_which_there_is_no_room_leaves_nothing_beside(
    writes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`compare --html` on a full disk left a table and a figure of a page that was not there."""
    written: list[Path] = []
    whole = Path.write_bytes

    def filling(path: Path, content: bytes) -> int:
        if len(written) == writes:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        written.append(path)
        return whole(path, content)

    (tmp_path / "all.csv").write_text("of before")
    with monkeypatch.context() as full:
        full.setattr(Path, "write_bytes", filling)
        for target in (tmp_path, tmp_path / "new"):
            written.clear()
            with pytest.raises(ResultError, match="cannot be written: No space left on device"):
                write(target, page(Shown(DRAWN, "day-")))
    assert [path.name for path in tmp_path.iterdir()] == ["all.csv"]
    assert (tmp_path / "all.csv").read_text() == "of before"


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (428.0, "us", "428 µs"),
        (140_000.0, "us", "140 ms"),
        (2.5e6, "us", "2.50 s"),
        (97.4, "J", "97.4 J"),
        (6804.0, "J", "1.89 Wh"),
        (None, "J", "–"),  # noqa: RUF001
        (12.0, "W", "12.0 W"),
        (0.0, "us", "0 µs"),
    ],
)
def test_quantities_in_the_unit_that_fits(value: float | None, unit: str, text: str) -> None:
    assert phrases.quantity(value, unit).translate(PLAIN) == text


def test_an_axis_of_latency_says_milliseconds_and_marks_what_is_cut() -> None:
    axis = Figure().subplots()
    plots.fit(axis, np.array([100_000.0, 140_000.0, np.nan]), "mean latency")
    assert axis.get_ylabel() == "mean latency (ms)"
    assert axis.yaxis.get_major_formatter()(140_000.0, None) == "140"
    assert len(axis.lines) == 2  # The foot is not at zero: two strokes.
    axis = Figure().subplots()
    plots.fit(axis, np.array([*np.linspace(0.1, 1, 99), 100.0]), "mean latency")
    assert [text.get_text() for text in axis.texts] == [
        "peaks up to 100\N{NO-BREAK SPACE}µs are cut off"
    ]
    assert len(axis.lines) == 2  # At the top.


def test_a_thinned_curve_keeps_its_ends_and_its_steps() -> None:
    x = np.geomspace(10, 1e6, 20_000)
    y = np.linspace(1, 0, 20_000)
    few_x, few_y = plots.thinned(x, y)
    assert len(few_x) <= plots.POINTS + 2
    assert (few_x[0], few_x[-1], few_y[-1]) == (x[0], x[-1], y[-1])
    assert set(few_x) <= set(x)
    assert (np.diff(few_x) > 0).all()


def test_coordinates_lose_idle_digits_and_scales_none() -> None:
    with plots.styled():
        drawn, (axis,) = plots.figure(4, 2)
        axis.plot([0, 1, 2], [0.123456, 1 / 3, 2 / 3])
        text = plots.svg(drawn).decode()
    assert "scale(0.015625)" in text
    assert not re.search(r"[ML] \d+\.\d{3}", text)


def test_a_figure_that_can_be_looked_into_brings_its_numbers_and_the_library() -> None:
    x, y = np.array([0.0, 1.0, 2.0]), np.array([1.23456789, np.nan, 3.0])
    other = ("</script><b>", {"color": "#000000", "linestyle": ":"}, x[1:], y[1:])
    panel = plots.panel(
        "time (s)", "power (W)", [("law", plots.strokes(["pacer"])[0], x, y), other]
    )
    assert panel.x == [0.0, 1.0, 2.0]
    assert [one["values"] for one in panel.series] == [[1.2346, None, 3.0], [None, None, 3.0]]
    assert panel.span_gaps
    drawn = Drawn(
        "power", "Power", "Watts.", "A chart of watts over time.", b"<svg/>", [["a"]], (panel,)
    )
    text = render(page(Shown(drawn)))
    own = re.findall(r"<script([^>]*)>(.*?)</script>", text, flags=re.S)
    assert [attributes for attributes, _ in own] == [' type="application/json"', "", ""]
    [shown] = json.loads(own[0][1])
    assert shown["series"][1]["label"] == "</script><b>"
    assert "uPlot" in own[1][1]
    assert "Hover and zoom</button>" in text
    # The still figure stays: for print, and where no script runs.
    assert "data:image/svg+xml;base64," in text
    assert "<script" not in render(page(Shown(DRAWN)))


def test_figures_beyond_the_room_of_a_page_are_shown_from_beside(tmp_path: Path) -> None:
    """A page had 14 MB of figures."""
    image = b"<svg>" + 500_000 * b" " + b"</svg>"
    many = [
        Drawn(f"f{at}", "F", "F.", "A figure of nothing much.", image, [["a"]]) for at in range(9)
    ]
    path = write(tmp_path / "report", page(*map(Shown, many)))
    text = path.read_text(encoding="utf-8")
    assert len(text) < 2_000_000
    assert text.count("data:image/svg+xml;base64,") == 2
    linked = re.findall(r'<img[^>]* src="(f\d.svg)"', text)
    assert linked == [f"f{at}.svg" for at in range(2, 9)]
    assert all((path.parent / name).is_file() for name in linked)


def test_logarithmic_curves_have_no_zeros() -> None:
    look = {"color": "#000000"}
    x, y = np.array([0.0, 1.0, 10.0]), np.array([1.0, 0.5, 0.0])
    panel = plots.panel("x", "y", [("a", look, x, y)], log=True)
    assert (panel.x, panel.series[0]["values"]) == ([1.0, 10.0], [0.5, None])


def test_the_style_is_for_other_pages_too() -> None:
    assert "prefers-color-scheme: dark" in output.style()
