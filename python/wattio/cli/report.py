"""`wattio report`: the report of a result folder."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from wattio.cli import output, output_path
from wattio.errors import InputError

app = App(
    name="report",
    help_format="markdown",
    help_epilogue="""**Examples**

```
wattio report results/quickstart/20260102T030405Z-1a2b3c4
wattio report results/quickstart/20260102T030405Z-1a2b3c4 --json
wattio report /archive/20260102T030405Z-1a2b3c4 --out /tmp/report
```""",
)


@app.default
def report(
    result: Path,
    *,
    out: Path | None = None,
    as_json: Annotated[bool, Parameter("--json", negative="")] = False,
) -> int:
    """Make the report of a result folder: report/index.html, with SVG and CSV files beside it.

    The page needs no network. It contains its figures, up to 1.6 MB of them, and shows any others
    from the SVG files. The report is made from the result folder alone, so it can be made again at
    any time, also while the `wattiod` that writes the folder still runs.

    Parameters
    ----------
    result
        Result folder of `wattio run`, `wattiod` or `wattio-target`.
    out
        New or empty folder for the page and its files; default: `report` in the result folder.
        For results in a place where nothing can be written.
    as_json
        Print one JSON object: the page and the files beside it.
    """
    from wattio.report import make

    if out is not None:
        _begin(out)
    elif (result / "machine.json").exists() and not os.access(result, os.W_OK):
        raise InputError(f"{result}: cannot be written; name a folder for the report with --out")
    page = make(result, out)
    if as_json:
        files = sorted(str(path) for path in page.parent.iterdir() if path != page)
        output.print_json({"report": str(page), "files": files})
    else:
        output.say(f"report: {page}")
    return 0


def _begin(out: Path) -> None:
    """Make a folder for a report, or take an empty one. Raises InputError."""
    output_path.folder("--out", out)
    try:
        out.mkdir(parents=True, exist_ok=True)
        if any(out.iterdir()):
            raise InputError(f"--out: {out} is not empty; name a new folder")
    except OSError as error:
        raise InputError(f"--out: {out}: cannot be used: {error.strerror}") from error
