"""`wattio attach`: recorded power samples join a measurement afterwards."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from wattio.cli import output

app = App(
    name="attach",
    help_format="markdown",
    help_epilogue="""**Examples**

```
wattio attach results/disk/20260102T030405Z-1a2b3c4 --meter csv:scope.csv \\
    --covers server
wattio attach results/disk/20260102T030405Z-1a2b3c4 --covers server --total \\
    --meter "csv:scope.csv?volts=CH1&amperes=CH2&start=2026-01-02T03:04:00Z"
```

Then `wattio report` shows it.""",
)


@app.default
def attach(
    result: Path,
    *,
    meter: str,
    covers: Annotated[list[str], Parameter(negative="")],
    label: str | None = None,
    total: Annotated[bool, Parameter(negative="")] = False,
    as_json: Annotated[bool, Parameter("--json", negative="")] = False,
) -> int:
    """Add a file of recorded power samples to a measurement, by their times.

    All metrics are then derived again.

    Parameters
    ----------
    result
        Result folder of a measurement, as `wattio run` printed it.
    meter
        `csv:FILE` or `parquet:FILE`, with columns and times as `docs/meters.md` describes.
    covers
        Device that the samples cover; may be repeated.
    label
        Name of the meter in the result; default: its kind.
    total
        Use these samples for the energy; the study's own meters are then shown beside them.
    as_json
        Print one JSON object.
    """
    from wattio.files.document import check
    from wattio.kinds.measurement import attach as attaching
    from wattio.kinds.measurement.folder import MeasurementFolder
    from wattio.kinds.measurement.schema import MeterEntry

    content = {"name": meter, "covers": covers, "role": "total" if total else "beside"}
    entry = check(MeterEntry, content | ({"label": label} if label else {}), "--meter")
    count = attaching.attach(MeasurementFolder(result), entry, total)
    if as_json:
        output.print_json({"result": str(result), "meter": entry.shown, "samples": count})
    else:
        text = f"{count} samples of {entry.shown} attached to {result}; see: wattio report {result}"
        output.say(text)
    return 0
