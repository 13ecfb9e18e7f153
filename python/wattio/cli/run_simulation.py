"""What `wattio run` does with a study of kind "simulation"."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from wattio.cli import output, run_start
from wattio.cli.progress import RunProgress
from wattio.cli.resumable import resumable
from wattio.cli.run_start import Start
from wattio.errors import InputError
from wattio.files.document import Document
from wattio.kinds.simulation import execute, overall, schema, trace_set
from wattio.kinds.simulation.folder import SimulationFolder
from wattio.kinds.simulation.plan import SimulationPlan
from wattio.results import summary
from wattio.simulator import native
from wattio.simulator.native import Simulator


def run(
    source: Document | None,
    resume: Path | None,
    results: Path,
    traces: Path | None,
    jobs: int,
    engine: str | None,
    *,
    dry_run: bool,
    report: bool,
    as_json: bool,
) -> int:
    """Simulate, or say what would be simulated."""
    simulator = native.NativeSimulator()

    def refuse(folder: SimulationFolder) -> None:
        if traces is not None and str(traces.resolve()) != folder.inputs().get("traces"):
            raise InputError(f"{folder.path} was started with other traces; leave --traces out")

    def make(given: Document) -> SimulationPlan:
        if traces is not None:
            _say_left_out(given, traces)
        return execute.prepare(given, simulator, traces)

    start = Start(
        *(source, resume, results, SimulationFolder, make),
        lambda folder: execute.resume(folder, simulator),
        refuse,
    )
    if dry_run:
        from wattio.cli.dry_run import of_simulation

        plan, begun = start.plan()
        left = begun.remaining(plan) if begun else list(plan.iterations)
        return of_simulation(plan, left, jobs, simulator, as_json)
    folder, plan = start.begin()
    carry_out(folder, plan, simulator, jobs, engine)
    return show(folder, report, as_json)


def _say_left_out(source: Document, traces: Path) -> None:
    """Say which files of a folder of traces cannot be played. Raises InputError."""
    if not traces.is_dir():
        raise InputError(f"--traces {traces}: is not a folder")
    entry = schema.from_document(trace_set.with_traces(source, traces)).traces
    if entry is None:
        return
    found = trace_set.expand(entry, traces)
    if found.left_out:
        output.note(f"not traces, left out: {', '.join(found.left_out)}")
    for told in found.unusable:
        output.note(f"left out: {told}")


def carry_out(
    folder: SimulationFolder,
    plan: SimulationPlan,
    simulator: Simulator,
    jobs: int,
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
        executor = run_start.executor_of(
            simulator, simulator.simulate, jobs, engine, progress.watch
        )
        execute.execute(waiting, folder, executor, simulator, progress.ended)


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
    """Print the summary and where everything is; make the report if it is wanted."""
    iterations = folder.iterations()
    rows = summary.by_subject(summary.rows(iterations))
    page = run_start.reported(folder, report)
    over_all = overall.of(rows)
    if as_json:
        content = {
            "summary": output.summary_json(rows),
            "overall": [asdict(policy) for policy in over_all],
        }
        output.print_json(run_start.head_json(folder, page) | content)
        return 0
    console = output.console()
    console.print(output.summary_table(rows))
    for line in [*output.years(rows), *output.remarks(iterations)]:
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    for title, found in overall.by_bound(over_all).items():
        console.print(output.overall_table(title, found))
    run_start.say_where(console, folder, page)
    return 0
