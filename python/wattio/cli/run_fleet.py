"""What `wattio run` does with a study of kind "fleet"."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.table import Table

from wattio.cli import output
from wattio.cli.progress import RunProgress
from wattio.cli.resumable import resumable
from wattio.errors import InputError
from wattio.executors.threads import Executor, SimulationExecutor, Watch
from wattio.files.document import Document
from wattio.kinds.fleet import execute, summary
from wattio.kinds.fleet import plan as planning
from wattio.kinds.fleet.folder import FleetFolder
from wattio.kinds.fleet.plan import Batch, FleetPlan
from wattio.kinds.fleet.summary import Policy


@dataclass(frozen=True)
class Request:
    """What the command line says of a fleet: a study, or a folder to go on in."""

    source: Document | None
    resume: Path | None
    results: Path
    scale: str | None
    jobs: int | None
    engine: str | None

    def begin(self) -> tuple[FleetFolder, FleetPlan]:
        """The folder to work in, new or resumed, and the plan. Raises InputError, ResultError."""
        if self.resume is not None:
            folder = FleetFolder(self.resume)
            if self.source is not None and self.source.text != folder.study_text():
                raise InputError(f"{self.source.path}: is not the study {folder.path} began with")
            if self.scale not in (None, folder.inputs()["scale"]):
                raise InputError(f"{folder.path} was begun with another --scale; leave it out")
            return folder, execute.resume(folder)
        if self.source is None:
            raise InputError("wattio run needs a study file, or --resume with a result folder")
        plan = planning.make(self.source, self.scale)
        return FleetFolder.create(plan, self.results, datetime.now(UTC)), plan

    def plan(self) -> tuple[FleetPlan, list[Batch]]:
        """The plan and what is left of it; nothing is made. Raises InputError or ResultError."""
        if self.resume is not None:
            folder = FleetFolder(self.resume)
            plan = execute.resume(folder)
            return plan, folder.remaining(plan)
        if self.source is None:
            raise InputError("wattio run needs a study file, or --resume with a result folder")
        plan = planning.make(self.source, self.scale)
        return plan, list(plan.iterations)

    def executor(self, watch: Watch) -> Executor:
        """Threads of this process, or a cluster."""
        jobs = self.jobs or len(os.sched_getaffinity(0))
        if self.engine is None:
            return SimulationExecutor(execute.FleetSimulator(), jobs, watch)
        from wattio.executors.cluster import ClusterExecutor

        return ClusterExecutor(self.engine, jobs, watch, execute.simulate)


def run(asked: Request, *, dry_run: bool, report: bool, as_json: bool) -> int:
    """Run a fleet and show what came of it."""
    if asked.jobs is not None and asked.jobs < 1:
        raise InputError(f"--jobs {asked.jobs}: must be 1 or more")
    if dry_run:
        from wattio.cli.dry_run import of_fleet

        jobs = asked.jobs or len(os.sched_getaffinity(0))
        return of_fleet(*asked.plan(), jobs, execute.simulate, as_json)
    folder, plan = asked.begin()
    waiting = folder.remaining(plan)
    with (
        resumable(
            folder,
            len(plan.iterations),
            lambda: len(folder.remaining(plan)),
            "batches",
        ),
        RunProgress(output.messages(), waiting) as progress,
    ):
        execute.execute(waiting, folder, asked.executor(progress.watch), progress.ended)
    return show(folder, report, as_json)


def show(folder: FleetFolder, report: bool, as_json: bool) -> int:
    """Print what the fleet draws and where everything is."""
    found = summary.policies(folder)
    page = None
    if report:
        from wattio.report import make

        page = make(folder.path)
    if as_json:
        content = {
            "result": str(folder.path),
            "report": str(page) if page else None,
            "complete": folder.complete(),
            "bound": folder.study().study.bound,
            "policies": [_json(policy, folder) for policy in found],
        }
        output.print_json(content)
        return 0
    console = output.console()
    console.print(_table(found))
    for name, path in (("result", folder.path), ("report", page)):
        if path:
            console.print(f"{name}: {path}", markup=False, highlight=False, soft_wrap=True)
    return 0


def _json(policy: Policy, folder: FleetFolder) -> dict[str, Any]:
    over = summary.breakers(policy, folder.study())
    return {
        "policy": policy.run.policy,
        "label": policy.run.condition,
        "settings": dict(policy.run.settings),
        "metrics": {name: value for name, (value, _) in policy.metrics.items()},
        "servers_over_bound": [{"server": at, "ratio": ratio} for at, ratio in over],
        "servers_most_worthwhile": summary.worthwhile(policy),
    }


def _table(found: list[Policy]) -> Table:
    table = Table(box=None)
    for column in ("policy", "power", "saving", "95 % interval", "a year", "CO2 a year"):
        table.add_column(column, justify="left" if column == "policy" else "right")
    for column in ("over bound", "mean latency, median", "placing would add (estimate)"):
        table.add_column(column, justify="right")
    for policy in found:
        low, high = policy.get("saving_share_low"), policy.get("saving_share_high")
        ratio = policy.get("relative_latency_us_mean_p50")
        table.add_row(
            policy.run.condition,
            f"{(policy.get('power_w_fleet') or 0.0) / 1000:.2f} kW",
            output.share(policy.get("saving_share")),
            f"{output.share(low)} to {output.share(high)}",
            f"{output.number(policy.get('saving_eur_year'))} EUR",
            f"{output.number(policy.get('saving_co2_t_year'))} t",
            output.number(policy.get("servers_over_bound")),
            output.ratio(ratio),
            output.share(policy.get("estimated_placing_saving_share")),
        )
    return table
