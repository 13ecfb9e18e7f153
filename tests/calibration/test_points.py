"""Files of points: read back as written; whatever else stands there is refused by its line."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wattio.calibration import points
from wattio.calibration.folder import FIT, DataFolder
from wattio.errors import InputError

from calibration import made


def test_points_read_back_as_written(tmp_path: Path) -> None:
    written = [replace(p, frequency_hz=None, power_w=None) for p in made.points()]
    written += made.points()
    path = tmp_path / "points.csv"
    path.write_text(points.dump(written))
    assert points.load(path) == written


def test_a_full_disk_leaves_the_fit_that_was_there(tmp_path: Path, full_disk: None) -> None:
    """A calibration that is fitted again lost what it had said, and its record, where it began."""
    fit = tmp_path / FIT
    fit.write_bytes(b"{}")
    with pytest.raises(OSError, match="No space left"):
        DataFolder(tmp_path).keep_fit({"r_squared": 1.0})
    assert fit.read_bytes() == b"{}"


def test_a_torn_last_line_is_left_out() -> None:
    text = points.dump(made.points())
    assert points.parse(text[:-5], "p.csv") == made.points()[:-1]


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("number,is_idle", "nr,is_idle", "p.csv:1: must name the columns number"),
        ("\n1,0,", "\n1,0,0,", "p.csv:3: has 15 fields; needs 14"),
        ("\n1,0,", "\nx,0,", "p.csv:3: number: 'x' is not a number of 0 or more"),
        ("\n1,0,", "\n1.5,0,", "p.csv:3: number: '1.5' is not a whole number"),
        ("\n1,0,", "\nnan,0,", "p.csv:3: number: 'nan' is not a number"),
    ],
)
def test_bad_lines_are_refused(before: str, after: str, message: str) -> None:
    text = points.dump(made.points())
    assert before in text
    with pytest.raises(InputError) as refused:
        points.parse(text.replace(before, after, 1), "p.csv")
    assert message in str(refused.value)


@given(st.text() | st.lists(st.text()).map(lambda rows: points.dump([]) + "\n".join(rows) + "\n"))
def test_no_text_breaks_it(text: str) -> None:
    with contextlib.suppress(InputError):
        points.parse(text, "p.csv")
