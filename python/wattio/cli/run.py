"""`wattio run`: run a study into a result folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter

from wattio import shipped
from wattio.cli import output_path
from wattio.cli.host_options import SshWords, ssh_words
from wattio.cli.run_start import jobs_of
from wattio.errors import InputError
from wattio.files import document
from wattio.files.document import Document
from wattio.kinds import common
from wattio.results.folder import kind_of

app = App(
    name="run",
    help_format="markdown",
    help_epilogue="""**Examples**

```
wattio run quickstart
wattio run my-study/study.toml --jobs 8 --results /data/results
wattio run --resume results/pacer/20260102T030405Z-1a2b3c4
wattio run quickstart --json
wattio run foresight --traces /data/traces
wattio run arm-cluster --scale small --dry-run
wattio run arm-cluster --scale small
wattio run arm-cluster --hosts "node[1-4]" --servers "node[5-9]" \\
    --meter "snmp://public@pdu/apc-rpdu2?outlet=[1-9]" \\
    --each "node[1-9]"
wattio run fleet
```

Ctrl-C keeps what is done, and wattio prints how to continue.""",
)


@app.default
def run(
    study: Path | None = None,
    *,
    resume: Path | None = None,
    results: Path = Path("results"),
    jobs: int | None = None,
    engine: str | None = None,
    traces: Path | None = None,
    scale: str | None = None,
    meter: str | None = None,
    each: str | None = None,
    peak: str | None = None,
    hosts: str | None = None,
    servers: str | None = None,
    ssh: SshWords | None = None,
    dry_run: Annotated[bool, Parameter(negative="")] = False,
    scratch: Path | None = None,
    report: bool = True,
    as_json: Annotated[bool, Parameter("--json", negative="")] = False,
) -> int:
    """Run a study, simulated or measured, into a result folder of its own.

    A simulation runs every load under every policy with every seed. A fleet simulates thousands of
    servers over days, by rates and formulas, under every policy. A measurement runs every workload
    on every system with every number of clients and every setting, and records power meters.

    Parameters
    ----------
    study
        Study file in TOML, a folder with a study.toml, or the name of a study that comes with
        wattio (`wattio new study --list`). `wattio check` says whether a file is valid.
    resume
        Result folder of a run that was stopped: run what is missing in it. At most the iterations
        in progress were lost.
    results
        Folder in which the result folder is made.
    jobs
        For simulations: how many run at once; default: one for each core. Results do not depend
        on it.
    engine
        For simulations: run on a dask.distributed cluster, `local` or the address of a scheduler
        such as tcp://scheduler:8786; default: on threads of this process.
    traces
        For simulations: also play every trace in this folder, as the study's table `[traces]` says.
    scale
        For measurements and fleets: apply the changes in the study's table `[scale.NAME]`.
    meter
        Power meter for the totals; the study's own meters are then shown beside it. `wattio meter
        list` shows what there is. If there are several meters, list them in the study.
    each
        Devices that each have a meter of that name, such as "node[1-9]"; the name has as many
        numbers in brackets, as in "snmp://public@pdu/apc-rpdu2?outlet=[1-9]".
    peak
        File of the theoretical peak (`wattio peak`); default: the study's.
    hosts
        For measurements: the clients' hosts, such as "node[1-4]", reached by ssh; default: the
        study's.
    servers
        For measurements: the servers' hosts, for systems that wattio sets up there.
    ssh
        Options of ssh for these hosts, such as "-F ssh_config".
    dry_run
        Only print the plan, how long it may take, and what this host lacks for a measurement.
        Exit code 1 if something is missing.
    scratch
        Folder for the data of the systems under test during a measurement; default: within the
        result folder.
    report
        Make the report at the end.
    as_json
        Print the summary as one JSON object.
    """
    source = None if study is None else document.read(shipped.study_file(study))
    if traces is not None and source is None:
        raise InputError("--traces is for a new run; a resumed one knows its folder")
    kind = _kind(source, resume)
    measured = {"meter": meter, "each": each, "peak": peak, "hosts": hosts, "servers": servers}
    measured["ssh"] = ssh
    simulated = {"jobs": jobs, "engine": engine, "traces": traces}
    _refuse_others(kind, scale=scale, scratch=scratch, **simulated, **measured)
    for option, place in (("--results", results), ("--scratch", scratch)):
        if place is not None:
            output_path.folder(option, place)
    begin = (source, resume, results)
    show: dict[str, Any] = {"dry_run": dry_run, "report": report, "as_json": as_json}
    if kind == "measurement":
        from wattio.cli import run_measurement
        from wattio.kinds.measurement.overrides import Asked

        words = None if ssh is None else ssh_words(ssh)
        asked = Asked(scale, meter, each, peak, hosts, servers, words)
        return run_measurement.run(run_measurement.start(*begin, asked, scratch), scratch, **show)
    if kind == "fleet":
        from wattio.cli import run_fleet

        return run_fleet.run(run_fleet.start(*begin, scale), jobs_of(jobs), engine, **show)
    from wattio.cli import run_simulation

    return run_simulation.run(*begin, traces, jobs_of(jobs), engine, **show)


_OPTIONS = {
    "jobs": ("simulation", "fleet"),
    "engine": ("simulation", "fleet"),
    "traces": ("simulation",),
    "scale": ("measurement", "fleet"),
    **dict.fromkeys(
        ("meter", "each", "peak", "hosts", "servers", "ssh", "scratch"),
        ("measurement",),
    ),
}
"""Options that only some kinds of studies take."""


def _refuse_others(kind: str, **given: object) -> None:
    for name, value in given.items():
        if value is not None and kind not in _OPTIONS[name]:
            raise InputError(f"--{name} is for studies of kind {' or '.join(_OPTIONS[name])}")


def _kind(source: Document | None, resume: Path | None) -> str:
    """The kind of the study that is given, or of the folder to go on in."""
    if source is not None:
        return common.kind_of(source)
    return "simulation" if resume is None else kind_of(resume)
