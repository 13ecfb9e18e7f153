"""`wattio doctor`: what this machine offers wattio, and what it lacks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter
from rich.table import Table
from rich.text import Text

from wattio.cli import EXIT_PROBLEM, output
from wattio.cli.host_options import SshWords, ssh_words
from wattio.cli.printable import printable
from wattio.errors import InputError
from wattio.hosts.examine import Examined, examine
from wattio.hosts.host import Access
from wattio.hosts.names import expand
from wattio.results import machine

app = App(
    name="doctor",
    help_format="markdown",
    help_epilogue="""**Examples**

```
wattio doctor
wattio doctor --json
wattio doctor --hosts "node[1-4]"
wattio doctor --hosts "node[1-4]" --ssh "-F cluster.ssh"
```""",
)


@app.default
def doctor(
    *,
    root: Path = Path("/"),
    hosts: str | None = None,
    ssh: SshWords = "",
    python: str = "python3",
    as_json: Annotated[bool, Parameter("--json", negative="")] = False,
) -> int:
    """Show what this machine offers wattio, what it lacks, and what each thing is needed for.

    Simulation needs none of this; a missing item only rules out what is listed next to it.

    Parameters
    ----------
    root
        Folder to read /proc, /sys and /dev from, for a copy of another machine's.
    hosts
        Look at other machines instead, by ssh, named as in a study ("node[1-4]"). Exit code 1 if
        one cannot take part in a measurement.
    ssh
        Options of ssh for these hosts, such as "-F ssh_config".
    python
        The Python on these hosts, 3.8 or newer.
    as_json
        Print one JSON object instead of a table.
    """
    if hosts is not None:
        return _of_hosts(hosts, Access(ssh_words(ssh), python), as_json)
    if not root.is_dir():
        raise InputError(
            f"--root: {root} is not a folder; name one with /proc, /sys and /dev in it"
        )
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


def _of_hosts(text: str, access: Access, as_json: bool) -> int:
    """Look at other machines; 1 where one of them cannot be measured on."""
    try:
        names = expand(text)
    except ValueError as error:
        raise InputError(f"--hosts: {error}") from None
    found = examine(names, access)
    if as_json:
        output.print_json({"hosts": [one.as_dict() for one in found]})
    else:
        table = Table(box=None, pad_edge=False)
        for column in ("", "host", "system", "clock", "programs", "lacks"):
            table.add_column(column)
        for one in found:
            table.add_row(*_row(one))
        output.console().print(table)
    return EXIT_PROBLEM if any(one.failure is not None for one in found) else 0


def _row(one: Examined) -> tuple[Text | str, ...]:
    complaints = printable("; ".join(one.complaints))
    if one.facts is None or one.clock_off_s is None or one.clock_error_s is None:
        return Text("no", "yellow"), one.name, "", "", "", Text(complaints)
    facts = one.facts
    system = f"{facts['cores']} cores, Linux {facts['kernel']}, Python {facts['python']}"
    off = f"{1e3 * one.clock_off_s:+.2f} ms, wrong by {1e3 * one.clock_error_s:.2f} ms at most"
    programs = ", ".join(name for name, path in (one.programs or {}).items() if path)
    mark = Text("yes", "green")
    return mark, one.name, Text(printable(system)), off, programs or "-", Text(complaints)
