"""`wattio doctor`: what this machine offers wattio, and what it lacks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter
from rich.console import Console
from rich.table import Table

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
    findings = machine.examine(root)
    console = Console()
    if as_json:
        rows = [finding.__dict__ for finding in findings]
        console.print_json(json.dumps({"root": str(root), "findings": rows}))
        return 0
    table = Table(box=None, pad_edge=False)
    for column in ("", "what", "found", "needed for"):
        table.add_column(column)
    for finding in findings:
        mark = "[green]yes[/]" if finding.present else "[yellow]no[/]"
        table.add_row(mark, finding.name, finding.detail, finding.needed_for)
    console.print(table)
    return 0
