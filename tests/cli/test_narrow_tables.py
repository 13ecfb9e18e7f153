"""Tables on terminals that are too narrow for them: names came in slivers of a few letters."""

from __future__ import annotations

import io
import random

import pytest
from rich.table import Table
from wattio.cli.output import Screen

POLICIES = ("native", "controller", "greedy-background-off", "the-oracle")


def shown(table: Table, width: int) -> list[str]:
    screen = Screen()
    screen.file, screen.width = io.StringIO(), width
    screen.print(table)
    return [line.rstrip() for line in screen.file.getvalue().splitlines()]


def summary() -> Table:
    """As `wattio run` shows it: the load is named in the first of its rows."""
    table = Table(title="Simulated", title_justify="left", box=None)
    table.add_column("load")
    table.add_column("policy")
    for column in ("W", "saving", "IOPS/W", "mean lat.", "p99", "p99.9", "backgr.", "of oracle"):
        table.add_column(column, justify="right")
    table.add_column("bound on mean")
    for load in ("day", "daily-web-search"):
        for number, policy in enumerate(POLICIES):
            figures = ("185.3", "12.3 %", "1.105x", "1.02x", "1.302x", "1.543x", "1x", "87.0 %")
            table.add_row("" if number else load, policy, *figures, "kept (0.3 % over)")
    return table


@pytest.mark.parametrize(("width", "parts"), [(140, 1), (80, 3), (60, 5)])
def test_columns_without_room_come_below_with_names_that_are_whole(width: int, parts: int) -> None:
    lines = shown(summary(), width)
    assert max(map(len, lines)) <= width
    for name in ("daily-web-search", *POLICIES):
        found = [line for line in lines if name in line.split()]
        assert len(found) == parts * (1 if name not in POLICIES else 2)
    text = "\n".join(lines)
    assert text.count("kept (0.3 % over)") == text.count("1.543x") == 8


def test_rows_are_lists_where_there_is_no_room_for_their_names_and_a_figure() -> None:
    lines = shown(summary(), 40)
    assert lines[:4] == [
        "Simulated",
        " load           day",
        " policy         native",
        " W              185.3",
    ]
    assert max(map(len, lines)) <= 40
    assert sum("greedy-background-off" in line for line in lines) == 2


def test_what_a_mark_stands_for_is_named_in_every_part() -> None:
    """As `wattio doctor` shows it: "yes" alone stood before what a thing is needed for."""
    table = Table("", "what", "found", "needed for", box=None, pad_edge=False)
    table.add_row("yes", "FUSE", "/dev/fuse", "made-up sysfs trees in system tests")
    table.add_row("no", "RAPL powercap zones", "none in /sys/class/powercap", "the meter rapl:")
    lines = shown(table, 60)
    assert sum(line.startswith("yes  FUSE ") for line in lines) == 2
    assert sum(line.startswith("no   RAPL powercap zones ") for line in lines) == 2
    listed = shown(table, 30)
    assert sum("FUSE" in line for line in listed) == 1


def test_nothing_is_left_out_of_any_table() -> None:
    rng = random.Random(5)
    letters = "abcdefgh"
    for _ in range(200):
        columns, width = rng.randint(1, 9), rng.randint(20, 90)
        table = Table(box=None, show_header=rng.random() < 0.8)
        words: list[str] = []

        def text(most: int, words: list[str] = words) -> str:
            words.append("".join(rng.choices(letters, k=rng.randint(1, most))))
            return words[-1]

        for _ in range(columns):
            header = text(8) if table.show_header else ""
            table.add_column(header, justify=rng.choice(("left", "right")))
        for _ in range(3):
            table.add_row(*(text(8) for _ in range(columns)))
        lines = shown(table, width)
        assert max(map(len, lines)) <= width
        assert set(words) <= {word for line in lines for word in line.split()}


def test_what_is_too_long_for_a_line_is_shown_in_several() -> None:
    path = "/a/folder/" + "with-a-long-name/" * 6
    table = Table(box=None, show_header=False)
    table.add_row("configuration", path)
    lines = shown(table, 60)
    assert max(map(len, lines)) <= 60
    assert "".join("".join(line.split()) for line in lines) == "configuration" + path
    alone = Table("path", box=None)
    alone.add_row(path)
    assert "".join("".join(line.split()) for line in shown(alone, 60)) == "path" + path
