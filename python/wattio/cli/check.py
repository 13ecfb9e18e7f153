"""`wattio check`: files that users write, without running anything."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from wattio import shipped
from wattio.cli import output
from wattio.errors import InputError

app = App(
    name="check",
    help_format="markdown",
    help_epilogue="""**Examples**

```
wattio check pacer
wattio check my-server.toml my-policy.toml
wattio check my-study --json
```

Exit code 2 if a file cannot be used.""",
)


@app.default
def check(*files: Path, as_json: Annotated[bool, Parameter("--json", negative="")] = False) -> int:
    """Check files without running them; the kind of file is detected from its content.

    A study has the table [study], a day profile [profile], a policy file [policy] with a name and
    [settings], a server description [cores], a configuration of wattiod [latency] or
    [[application]], one of wattio-target [[export]], a power model [rest], a theoretical peak
    [peak], files for advice on I/O [platform] and [application], a configuration of the I/O
    middleware [hpcio], a list of purchases for a cluster [[purchase]], and one of platforms to
    compare [[platform]]. A file named .xml is a description for Damaris.

    Parameters
    ----------
    files
        TOML files, or a description for Damaris. A folder, or the name of a study that comes with
        wattio, stands for all TOML files in it.
    as_json
        Print one JSON object.
    """
    from wattio.simulator.native import NativeSimulator
    from wattio.user_files import check_file

    simulator = NativeSimulator()
    rows = []
    for path in _expanded(files):
        try:
            rows.append({"file": str(path), "ok": True, "message": check_file(path, simulator)})
        except InputError as error:
            rows.append({"file": str(path), "ok": False, "message": str(error)})
    bad = [row for row in rows if not row["ok"]]
    if as_json:
        output.print_json({"files": rows})
        return 2 if bad else 0
    good, wrong = output.console(), output.messages()
    for row in rows:
        if row["ok"]:
            text = f"ok: {row['file']}: {row['message']}"
            good.print(text, markup=False, highlight=False, soft_wrap=True)
        else:
            text = f"wattio: {row['message']}"
            wrong.print(text, markup=False, highlight=False, soft_wrap=True)
    return 2 if bad else 0


def _expanded(files: tuple[Path, ...]) -> list[Path]:
    """Files as given, and those below folders."""
    if not files:
        raise InputError("wattio check needs a file or a folder")
    found: list[Path] = []
    for path in map(shipped.located, files):
        below = sorted(path.rglob("*.toml")) if path.is_dir() else [path]
        if not below:
            raise InputError(f"{path}: holds no TOML file")
        found += below
    return found
