"""What `wattio run` does with a study of kind "fleet"."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from rich.table import Table

from wattio.cli import output, run_start
from wattio.cli.progress import RunProgress
from wattio.cli.resumable import resumable
from wattio.cli.run_start import Start
from wattio.errors import InputError
from wattio.files.document import Document
from wattio.kinds.fleet import execute, summary
from wattio.kinds.fleet import plan as planning
from wattio.kinds.fleet.folder import FleetFolder
from wattio.kinds.fleet.plan import FleetPlan
from wattio.kinds.fleet.summary import Policy

Fleet = Start[FleetFolder, FleetPlan]


def start(source: Document | None, resume: Path | None, results: Path, scale: str | None) -> Fleet:
    """A fleet to begin or to go on with."""

    def refuse(folder: FleetFolder) -> None:
        if scale not in (None, folder.inputs()["scale"]):
            raise InputError(f"{folder.path} was started with another --scale; leave it out")

    make = (lambda given: planning.make(given, scale)), execute.resume
    return Start(source, resume, results, FleetFolder, *make, refuse)


def run(
    start: Fleet, jobs: int, engine: str | None, *, dry_run: bool, report: bool, as_json: bool
) -> int:
    """Run a fleet and show what came of it, or say what would be run."""
    if dry_run:
        from wattio.cli.dry_run import of_fleet

        plan, begun = start.plan()
        left = begun.remaining(plan) if begun else list(plan.iterations)
        return of_fleet(plan, left, jobs, execute.simulate, as_json)
    folder, plan = start.begin()
    waiting = folder.remaining(plan)
    with (
        resumable(folder, len(plan.iterations), lambda: len(folder.remaining(plan)), "batches"),
        RunProgress(output.messages(), waiting) as progress,
    ):
        simulator = execute.FleetSimulator()
        executor = run_start.executor_of(simulator, execute.simulate, jobs, engine, progress.watch)
        execute.execute(waiting, folder, executor, progress.ended)
    return show(folder, report, as_json)


def show(folder: FleetFolder, report: bool, as_json: bool) -> int:
    """Print what the fleet draws and where everything is."""
    found = summary.policies(folder)
    page = run_start.reported(folder, report)
    if as_json:
        content = {
            "bound": folder.study().study.bound,
            "bounds": folder.study().bounds,
            "policies": [_json(policy) for policy in found],
        }
        output.print_json(run_start.head_json(folder, page) | content)
        return 0
    console = output.console()
    console.print(_table(found))
    for policy in found:
        if not policy.sound:
            left = output.share(1 - (policy.get("relative_background_rate") or 0.0))
            text = f"{policy.run.condition} leaves {left} of the background work undone"
            console.print(f"{text}: what it saves by that is in brackets.", markup=False)
    study = folder.study()
    console.print(f"The bound: {study.bounds_told}.", markup=False, soft_wrap=True)
    stated = study.price.factors.stated
    console.print(stated, highlight=False, soft_wrap=True)
    run_start.say_where(console, folder, page)
    return 0


def _json(policy: Policy) -> dict[str, Any]:
    over = summary.breakers(policy)
    return {
        "policy": policy.run.policy,
        "label": policy.run.condition,
        "settings": dict(policy.run.settings),
        "metrics": {name: value for name, (value, _) in policy.metrics.items()},
        "servers_over_bound": [{"server": at, "ratio": ratio} for at, ratio in over],
        "servers_most_worthwhile": summary.worthwhile(policy),
    }


def _over(policy: Policy) -> str:
    over, unknown = policy.get("servers_over_bound"), policy.get("servers_bound_unknown")
    return output.number(over) + (f" ({output.number(unknown)} not known)" if unknown else "")


def _table(found: list[Policy]) -> Table:
    table = Table(box=None)
    for column in ("policy", "power", "saving", "95 % interval", "a year", "CO2 a year"):
        justify: Literal["left", "right"] = "left" if column == "policy" else "right"
        table.add_column(column, justify=justify, no_wrap=column == "a year")
    for column in ("over bound", "mean latency, median", "placing would add (estimate)"):
        table.add_column(column, justify="right")
    for policy in found:
        low, high = policy.get("saving_share_low"), policy.get("saving_share_high")
        ratio = policy.get("relative_latency_us_mean_p50")
        year = (
            f"{output.number(policy.get('saving_kwh_year'))} kWh,"
            f" {output.number(policy.get('saving_eur_year'))} EUR"
        )
        table.add_row(
            policy.run.condition,
            f"{(policy.get('power_w_fleet') or 0.0) / 1000:.2f} kW",
            output.bracketed(output.share(policy.get("saving_share")), policy.sound),
            f"{output.share(low)} to {output.share(high)}",
            output.bracketed(year, policy.sound),
            output.bracketed(f"{output.number(policy.get('saving_co2_t_year'))} t", policy.sound),
            _over(policy),
            output.ratio(ratio),
            output.share(policy.get("estimated_placing_saving_share")),
        )
    return table
