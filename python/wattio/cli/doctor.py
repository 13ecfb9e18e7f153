"""`wattio doctor`: what this machine offers wattio, and what it lacks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter
from rich.table import Table
from rich.text import Text

from wattio.cli import output
from wattio.errors import InputError
from wattio.results import machine

app = App(
    name="doctor",
    help_format="markdown",
    help_epilogue="""**Examples**

```
wattio doctor
wattio doctor --json
```""",
)


@app.default
def doctor(
    *, root: Path = Path("/"), as_json: Annotated[bool, Parameter("--json", negative="")] = False
) -> int:
    """Show what this machine offers wattio, what it lacks, and what each thing is needed for.

    Nothing here is needed for simulation; a missing item only closes the way it is listed with.

    Parameters
    ----------
    root
        Folder to read /proc, /sys and /dev from; for looking at the tree of another machine.
    as_json
        Print one JSON object instead of a table.
    """
    if not root.is_dir():
        raise InputError(f"--root: {root} is no folder; name one with /proc, /sys and /dev in it")
    findings = machine.examine(root)
    if as_json:
        rows = [finding.__dict__ for finding in findings]
        output.print_json({"root": str(root), "findings": rows})
        return 0
    table = Table(box=None, pad_edge=False)
    for column in ("", "what", "found", "needed for"):
        table.add_column(column)
    for finding in findings:
        mark = Text("yes", "green") if finding.present else Text("no", "yellow")
        table.add_row(mark, finding.name, finding.detail, finding.needed_for)
    output.console().print(table)
    return 0
