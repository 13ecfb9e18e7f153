"""Rooms of the package use each other as the table "Rooms and arrows" of ARCHITECTURE.md says."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "python" / "wattio"
FREE = {"errors", "clock", "signals"}
"""What every room may use."""


def rows() -> list[tuple[list[str], str]]:
    """The rooms of Python in the table's order, each row with what it may use."""
    table = (ROOT / "ARCHITECTURE.md").read_text().partition("## Rooms and arrows")[2]
    found = []
    for line in table.partition("\n## ")[0].splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 3 and cells[0].startswith("`") and not cells[0].startswith("`crates"):
            names = [name.removesuffix(".py") for name in re.findall(r"`([^`]+)`", cells[0])]
            found.append((names, cells[2]))
    return [row for row in found if (PACKAGE / row[0][0]).exists() or is_file(row[0][0])]


def is_file(name: str) -> bool:
    return (PACKAGE / f"{name}.py").exists()


def allowed() -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for names, uses in rows():
        known = {name for name in re.findall(r"`([^`]+)`", uses)}
        if uses.startswith("all above"):
            known = set(found) - known | {"_core"}
        kinds = {name for name in found if name.startswith("kinds/")}
        known |= kinds if "kinds" in known else set()
        for name in names:
            # Rooms of one row may use each other; what kinds share stands beside them.
            found[name] = known | set(names) | {"kinds"}
    return found


def room_of(parts: list[str]) -> str:
    """The room of a module, `wattio` left out."""
    kind = parts[0] == "kinds" and len(parts) > 2 and (PACKAGE / "kinds" / parts[1]).is_dir()
    return "/".join(parts[:2]) if kind else parts[0]


def arrows() -> dict[tuple[str, str], str]:
    """From room to room, with a file that has the arrow."""
    found: dict[tuple[str, str], str] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = list(path.relative_to(PACKAGE).with_suffix("").parts)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            for target in targets(node):
                if target:
                    found[room_of(parts), target] = str(path.relative_to(ROOT))
    return found


def targets(node: ast.AST) -> list[str]:
    if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith("wattio"):
        return []
    module = str(node.module).split(".")[1:]
    if not module:
        return [room_of([alias.name]) for alias in node.names]
    return [room_of([*module, "*"])]


def test_rooms_use_each_other_as_the_architecture_says() -> None:
    may = allowed()
    wrong = [
        f"{source} -> {target} ({path})"
        for (source, target), path in arrows().items()
        if source != target and target not in FREE | may.get(source, set())
        if source not in FREE | {"__init__"}
    ]
    assert not wrong, "\n".join(wrong)


def test_every_room_is_on_the_map() -> None:
    rooms = {source for source, _ in arrows()} - FREE - {"__init__", "kinds"}
    assert rooms <= set(allowed())


def test_every_arrow_on_the_map_is_there() -> None:
    """Two stood there that the code had lost, and that lint would even refuse."""
    found = set(arrows())
    stale = [
        f"{name} -> {use}"
        for names, uses in rows()
        if not uses.startswith("all above")
        for use in re.findall(r"`([^`]+)`", uses)
        if use not in {"kinds", "_core"} and not any((name, use) in found for name in names)
        for name in names[:1]
    ]
    assert not stale, "\n".join(stale)


def test_the_paths_on_the_map_exist() -> None:
    """It sent whoever adds a law to a file that there was not."""
    page = (ROOT / "ARCHITECTURE.md").read_text()
    named = re.findall(r"`((?:crates/|governor/|host/)?[\w-]+/[\w/-]+(?:\.\w+)?)`", page)
    places = (ROOT, PACKAGE, ROOT / "crates")
    missing = [path for path in named if not any((place / path).exists() for place in places)]
    assert not missing, missing
