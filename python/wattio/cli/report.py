"""`wattio report`: the report of a result folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from wattio.cli import output

app = App(
    name="report",
    help_format="markdown",
    help_epilogue="""**Examples**

```
wattio report results/quickstart/20260102T030405Z-1a2b3c4
wattio report results/quickstart/20260102T030405Z-1a2b3c4 --json
```""",
)


@app.default
def report(
    result: Path, *, as_json: Annotated[bool, Parameter("--json", negative="")] = False
) -> int:
    """Make the report of a result folder: report/index.html, with SVG and CSV files beside it.

    The page needs no network and nothing beside it, but for figures beyond the first 1.6 MB of
    them, which it shows from the SVG files. It reads the result folder and simulates nothing, so it
    can be made again at any time. The folder of a `wattiod` may be that of one that still runs.

    Parameters
    ----------
    result
        Result folder, as `wattio run` printed it, or of `wattiod`.
    as_json
        Print one JSON object: the page and the files beside it.
    """
    from wattio.report import make

    page = make(result)
    if as_json:
        files = sorted(str(path) for path in page.parent.iterdir() if path != page)
        output.print_json({"report": str(page), "files": files})
    else:
        output.console().print(f"report: {page}", markup=False, highlight=False, soft_wrap=True)
    return 0
