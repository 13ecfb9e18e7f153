"""`wattio hpcio`: dumps of parallel simulations: run, look at, put together, calibrate."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter
from rich.table import Table
from rich.text import Text

from wattio.cli import EXIT_DONE, EXIT_PROBLEM, output
from wattio.cli.hpcio_calibrate import calibrate
from wattio.cli.hpcio_run import run
from wattio.cli.output_path import writable
from wattio.errors import InputError

AsJson = Annotated[bool, Parameter("--json", negative="")]

_SHOWN = 3

app = App(
    name="hpcio",
    help="Output of parallel simulations: run, inspect, assemble, calibrate, prefix.",
    help_format="markdown",
    help_epilogue="""docs/hpcio.md describes how a simulation uses the middleware.

**Examples**

```
wattio hpcio run --approach dc:1 --ranks 8 --ranks-per-node 4 \\
    --out results/dc1
wattio hpcio inspect results/dc1/dumps
wattio hpcio assemble results/dc1/dumps 120 --out step120.h5
wattio hpcio calibrate --results results --out platform.toml
```""",
)
app.command(
    run,
    help_epilogue="""docs/miniapp.md describes the simulation.

**Examples**

```
wattio hpcio run --out results/tp
wattio hpcio run --approach dc:1 --ranks 8 --ranks-per-node 4 \\
    --out results/dc1
wattio hpcio run --approach dn:3 --ranks 8 --ranks-per-node 2 \\
    --meter rapl: --out results/dn3 --json
```""",
)
app.command(
    calibrate,
    help_epilogue="""`wattio advise io` reads the platform file.

**Examples**

```
wattio hpcio run --output-every 0 --ranks 1 --out results/r1
wattio hpcio run --output-every 0 --ranks 4 --ranks-per-node 4 \\
    --out results/r4
wattio hpcio run --output-every 0 --ranks 8 --ranks-per-node 4 \\
    --out results/r8
wattio hpcio run --approach dc:1 --ranks 8 --ranks-per-node 4 \\
    --out results/dc1
wattio hpcio calibrate --results results --idle-power "60 W" \\
    --out platform.toml
wattio hpcio calibrate --results results --held-out kept \\
    --out platform.toml --json
```""",
)


@app.command(
    help_epilogue="""docs/io-library.md describes how programs use it.

**Examples**

```
cmake -S . -B build -DCMAKE_PREFIX_PATH=$(wattio hpcio prefix)
PKG_CONFIG_PATH=$(wattio hpcio prefix)/lib/pkgconfig pkg-config --cflags \\
    --libs wattio_io
```"""
)
def prefix() -> int:
    """Print the folder that contains libwattio_io, for programs in C and Fortran."""
    from wattio.hpcio import library

    output.say(str(library.prefix()))
    return EXIT_DONE


@app.command(
    help_epilogue="""**Examples**

```
wattio hpcio inspect results/dc1/dumps
wattio hpcio inspect results/dc1/dumps --json
```"""
)
def inspect(folder: Path, /, *, as_json: AsJson = False) -> int:
    """List the dumps of a folder, compare their checksums, and say what is missing.

    Exit code 1 if a dump is incomplete or differs from what was written, or if there is none.

    Parameters
    ----------
    folder
        The output folder of the middleware, where its dumps are.
    as_json
        Print one JSON object.
    """
    from wattio import hpcio

    hpcio.require("h5py")
    from wattio.hpcio.inspection import inspect as inspect_dumps

    found = inspect_dumps(folder)
    bad = not found or any(dump.problems or not dump.whole for dump in found)
    if as_json:
        output.print_json({"folder": str(folder), "dumps": [dump.as_json() for dump in found]})
        return EXIT_PROBLEM if bad else EXIT_DONE
    table = Table(title=_text(str(folder)), title_justify="left", box=None)
    for name in ("step", "files", "bytes", "checked"):
        table.add_column(name, justify="right")
    table.add_column("approach")
    table.add_column("what is wrong")
    for dump in found:
        told = [*dump.problems, *(f"note: {note}" for note in dump.notes)]
        more = f" (and {len(told) - _SHOWN} more)" if len(told) > _SHOWN else ""
        wrong = "; ".join(told[:_SHOWN]) + more
        table.add_row(
            str(dump.step),
            str(dump.files),
            f"{dump.bytes:,}" if dump.whole else output.ABSENT,
            str(dump.checked),
            _text(dump.approach or output.ABSENT),
            _text(wrong if dump.whole else f"not whole: {wrong}"),
        )
    console = output.console()
    if found:
        console.print(table)
    else:
        console.print(_text(f"{folder}: no dumps found"))
    return EXIT_PROBLEM if bad else EXIT_DONE


def _text(text: str) -> Text:
    """Text as it is, in whatever it may hold that is no markup and cannot be printed."""
    return Text("".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text))


@app.command(
    help_epilogue="""**Examples**

```
wattio hpcio assemble results/dc1/dumps 120 --out step120.h5
```"""
)
def assemble(folder: Path, step: int, /, *, out: Path, as_json: AsJson = False) -> int:
    """Put the blocks of a dump together: one HDF5 file with the global fields.

    Checksums are compared. A variable without a place in a global field is copied block by block.

    Parameters
    ----------
    folder
        The output folder of the middleware, where its dumps are.
    step
        The dump's step.
    out
        The file to write; it appears when it is whole.
    as_json
        Print one JSON object.
    """
    from wattio import hpcio

    writable("--out", out)
    hpcio.require("h5py")
    from wattio.hpcio.assembly import assemble as assemble_dump
    from wattio.hpcio.dumps import MANIFEST

    # A dump's own files are what the fields are read from, now or the next time.
    if (out.resolve().parent / MANIFEST).exists():
        raise InputError(f"--out: {out} is in the folder of a dump; name a file elsewhere")
    shapes = assemble_dump(folder, step, out)
    if as_json:
        output.print_json({"file": str(out), "step": step, "variables": shapes})
        return EXIT_DONE
    for name, shape in shapes.items():
        output.note(f"{name}: {' x '.join(map(str, shape)) or 'scalar'}")
    return EXIT_DONE
