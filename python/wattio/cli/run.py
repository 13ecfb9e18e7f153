"""`wattio run`: run a study into a result folder."""

from __future__ import annotations

import os
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from wattio import shipped
from wattio.cli import output
from wattio.cli.progress import RunProgress
from wattio.cli.resumable import resumable
from wattio.errors import InputError
from wattio.executors.threads import Executor, SimulationExecutor, Watch
from wattio.files import document
from wattio.files.document import Document
from wattio.kinds.simulation import execute, overall, schema, trace_set
from wattio.kinds.simulation.folder import SimulationFolder
from wattio.kinds.simulation.plan import SimulationPlan
from wattio.results import summary
from wattio.results.folder import kind_of
from wattio.simulator.native import Simulator

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
wattio run fleet
```

Ctrl-C keeps what is done and says how to go on.""",
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
    dry_run: Annotated[bool, Parameter(negative="")] = False,
    scratch: Path | None = None,
    report: bool = True,
    as_json: Annotated[bool, Parameter("--json", negative="")] = False,
) -> int:
    """Run a study, simulated or measured, into a result folder of its own.

    A simulation runs every load under every policy and seed. A fleet runs thousands of servers
    over days, by rates and formulas, under every policy. A measurement runs every workload on
    every system with every number of clients and every setting, while power meters are recorded.

    Parameters
    ----------
    study
        Study file in TOML, a folder with a study.toml, or the name of a study that comes with
        wattio (`wattio new study --list`). `wattio check` tells whether a file is one.
    resume
        Result folder of a run that stopped; at most the iterations in flight were lost.
    results
        Folder in which the result folder is made.
    jobs
        Simulations at a time; as many as there are cores where it is not given. Results do not
        depend on it. For simulations.
    engine
        Simulate on a cluster of dask.distributed: `local`, or the address of a scheduler, as in
        tcp://scheduler:8786. On threads of this process where it is not given.
    traces
        Play every trace of this folder, too, as the study's table `[traces]` says. For simulations.
    scale
        Measure, or run a fleet, with the changes of this table `[scale.NAME]` of the study.
    meter
        Power meter in place of the study's totals, which are then shown beside it. `wattio meter
        list` shows some. Several meters, and what each covers, are written into the study.
    dry_run
        Print the plan, how long it may take, and what a measurement lacks on this host; nothing
        is kept. Exit code 1 where something is lacking.
    scratch
        Where systems under test keep their data while they are measured; in the result folder
        where it is not given.
    report
        Make the report at the end.
    as_json
        Print the summary as one JSON object.
    """
    from wattio.kinds.measurement.plan import Asked, is_measurement, located_name
    from wattio.simulator.native import NativeSimulator

    source = None if study is None else document.read(shipped.study_file(study))
    if traces is not None:
        source = _with_traces(source, traces)
    if is_measurement(source) if source else resume is not None and _was_measured(resume):
        from wattio.cli import run_measurement

        if engine is not None:
            raise InputError("--engine is for simulations; clients of a measurement are MPI ranks")
        if jobs is not None:
            raise InputError("--jobs is for simulations; what is measured runs one after the other")
        asked = run_measurement.Request(
            source,
            resume,
            results,
            Asked(scale, located_name(meter, Path.cwd()) if meter else None),
            scratch,
        )
        return run_measurement.run(asked, dry_run=dry_run, report=report, as_json=as_json)
    from wattio.kinds.fleet.schema import is_fleet

    if is_fleet(source) if source else resume is not None and kind_of(resume) == "fleet":
        from wattio.cli import run_fleet

        if meter is not None or scratch is not None:
            raise InputError("--meter and --scratch are for studies of kind measurement")
        going = run_fleet.Request(source, resume, results, scale, jobs, engine)
        return run_fleet.run(going, dry_run=dry_run, report=report, as_json=as_json)
    only = {"--scale": scale, "--meter": meter, "--scratch": scratch}
    for name, given in only.items():
        if given:
            kinds = "measurement or fleet" if name == "--scale" else "measurement"
            raise InputError(f"{name} is for studies of kind {kinds}")
    if jobs is not None and jobs < 1:
        raise InputError(f"--jobs {jobs}: must be 1 or more")
    simulator = NativeSimulator()
    jobs = jobs or len(os.sched_getaffinity(0))
    if dry_run:
        return _show_plan(source, resume, jobs, simulator, as_json)
    folder, plan = begin(source, resume, results, simulator)
    carry_out(folder, plan, jobs, simulator, engine)
    return show(folder, report, as_json)


def _show_plan(
    source: Document | None, resume: Path | None, jobs: int, simulator: Simulator, as_json: bool
) -> int:
    from wattio.cli import dry_run

    if resume is not None:
        folder = SimulationFolder(resume)
        plan = execute.resume(folder, simulator)
        left = folder.remaining(plan)
    else:
        plan = execute.prepare(_given(source), simulator)
        left = list(plan.iterations)
    return dry_run.of_simulation(plan, left, jobs, simulator, as_json)


def _given(source: Document | None) -> Document:
    if source is None:
        raise InputError("wattio run needs a study file, or --resume with a result folder")
    return source


def _with_traces(source: Document | None, traces: Path) -> Document:
    """A study that plays a folder of traces, too; says which files are none. Raises InputError."""
    if source is None:
        raise InputError("--traces goes with a study; a resumed run knows its folder")
    study = document.parse(source.path, trace_set.with_folder(source.text, traces))
    entry = schema.from_document(study).traces
    left_out = [] if entry is None else trace_set.expand(entry, traces).left_out
    if left_out:
        output.messages().print(f"no traces, left out: {', '.join(left_out)}", markup=False)
    return study


def _was_measured(folder: Path) -> bool:
    return kind_of(folder) == "measurement"


def begin(
    source: Document | None, resume: Path | None, results: Path, simulator: Simulator
) -> tuple[SimulationFolder, SimulationPlan]:
    """The folder to work in, new or resumed, and the plan. Raises InputError or ResultError."""
    if resume is not None:
        folder = SimulationFolder(resume)
        if source is not None and source.text != folder.study_text():
            raise InputError(f"{source.path}: is not the study that {resume} was begun with")
        return folder, execute.resume(folder, simulator)
    plan = execute.prepare(_given(source), simulator)
    return SimulationFolder.create(plan, results, datetime.now(UTC)), plan


def carry_out(
    folder: SimulationFolder,
    plan: SimulationPlan,
    jobs: int,
    simulator: Simulator,
    engine: str | None,
) -> None:
    """Run what is left of a plan. Raises Cancelled on Ctrl-C, with how to go on."""
    messages = output.messages()
    waiting = folder.remaining(plan)
    for line in compressions(folder):
        messages.print(line, markup=False, highlight=False, soft_wrap=True)
    with (
        resumable(folder, len(plan.iterations), lambda: len(folder.remaining(plan)), "runs"),
        RunProgress(messages, waiting) as progress,
    ):
        executor = _executor(simulator, jobs, progress.watch, engine)
        execute.execute(waiting, folder, executor, simulator, progress.ended)


def _executor(simulator: Simulator, jobs: int, watch: Watch, engine: str | None) -> Executor:
    if engine is None:
        return SimulationExecutor(simulator, jobs, watch)
    from wattio.executors.cluster import ClusterExecutor

    return ClusterExecutor(engine, jobs, watch)


def compressions(folder: SimulationFolder) -> list[str]:
    """For each load from a profile: how much time one simulated second stands for."""
    return [
        f"load {name}: {facts['profile']['span_s'] / 3600:g} h of profile"
        f" {facts['profile']['name']} in {facts['profile']['simulated_s']:g} s;"
        f" one simulated second stands for {facts['profile']['compression']:g} s"
        for name, facts in folder.inputs()["loads"].items()
        if facts["kind"] == "profile"
    ]


def show(folder: SimulationFolder, report: bool, as_json: bool) -> int:
    """Print the summary and where everything is; make the report where it is wanted."""
    rows = summary.by_subject(summary.rows(folder.iterations()))
    page = None
    if report:
        from wattio.report import make

        page = make(folder.path)
    if as_json:
        content = {
            "result": str(folder.path),
            "report": str(page) if page else None,
            "complete": folder.complete(),
            "summary": output.summary_json(rows),
            "overall": [asdict(policy) for policy in overall.of(rows)],
        }
        output.print_json(content)
        return 0
    console = output.console()
    console.print(output.summary_table(rows))
    for line in output.remarks(folder.iterations()):
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    if over_all := overall.of(rows):
        console.print(output.overall_table(over_all))
    for name, path in (("result", folder.path), ("report", page)):
        if path:
            console.print(f"{name}: {path}", markup=False, highlight=False, soft_wrap=True)
    return 0
