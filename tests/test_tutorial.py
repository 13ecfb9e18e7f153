"""The tutorial's cells run, one after the other, in an empty folder."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).parents[1] / "docs" / "tutorial.ipynb"

# What a notebook does with the value of a cell's last line: it is shown.
RUNNER = """
import ast, json, sys
names = {}
for cell in json.load(open(sys.argv[1], encoding="utf-8"))["cells"]:
    if cell["cell_type"] == "code":
        tree = ast.parse("".join(cell["source"]))
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, cell["id"], "exec"), names)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), cell["id"], "eval"), names)
            for kind in ("_repr_svg_", "_repr_html_", "__repr__"):
                if hasattr(value, kind):
                    assert getattr(value, kind)()
                    break
"""


@pytest.mark.slow
def test_the_tutorial_runs(tmp_path: Path) -> None:
    command = [sys.executable, "-c", RUNNER, str(NOTEBOOK)]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "promise kept: True" in done.stdout
    assert "foresight on small" in done.stdout


def test_the_notebook_is_kept_without_outputs() -> None:
    """Outputs would be out of date, and differ from machine to machine."""
    content = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    assert content["nbformat"] == 4
    codes = [cell for cell in content["cells"] if cell["cell_type"] == "code"]
    assert codes
    assert all(not cell["outputs"] and cell["execution_count"] is None for cell in codes)
