"""`wattio clean`: what killed measurements have left on this host, found and removed."""

from __future__ import annotations

from typing import Annotated

from cyclopts import App, Parameter

from wattio.cli import output

app = App(
    name="clean",
    help_format="markdown",
    help_epilogue="""**Examples**

```
wattio clean --dry-run
wattio clean
wattio clean --json
```""",
)


@app.default
def clean(
    *,
    dry_run: Annotated[bool, Parameter(negative="")] = False,
    as_json: Annotated[bool, Parameter("--json", negative="")] = False,
) -> int:
    """Remove what killed measurements have left: servers, mounts, networks, loop devices, knobs.

    Every measurement does this before it begins; this command is for a host on which no other will
    follow. Whatever belongs to a running process is left alone. Results are kept and can be
    resumed. Exit code 1 if something could not be removed.

    Parameters
    ----------
    dry_run
        Only list what would be removed.
    as_json
        Print one JSON object.
    """
    from wattio.kinds.measurement import leftovers
    from wattio.systems import claims
    from wattio.workloads import slow_cores

    seen = claims.left(remove=not dry_run)
    changed = leftovers.knobs_changed()
    complaints = [one.complaint for one in seen if one.complaint is not None]
    if not dry_run:
        slow_cores.sweep_dead()
        if changed and (complaint := leftovers.put_knobs_back()) is not None:
            complaints.append(complaint)
    if as_json:
        systems = [
            {
                "module": one.claim.module,
                "scratch": str(one.claim.scratch),
                "result": str(one.claim.result),
                "pid": one.claim.pid,
                "runs": one.runs,
                "found": list(one.found),
                "removed": not (dry_run or one.runs or one.complaint),
            }
            for one in seen
        ]
        told = {"systems": systems, "knobs_changed": changed, "complaints": complaints}
        output.print_json(told)
        return 1 if complaints else 0
    console = output.console()
    lines = [
        str(one) + ("" if dry_run or one.runs or one.complaint else ": removed") for one in seen
    ]
    if changed:
        lines.append("knobs: changed" if dry_run else "knobs: old values restored")
    for line in lines or ["killed measurements have left nothing"]:
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    for line in complaints:
        output.note(f"not removed: {line}")
    return 1 if complaints else 0
