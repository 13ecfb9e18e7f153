"""What `wattio run` does with a study of kind "measurement"."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import TextColumn
from rich.table import Table

from wattio import shipped
from wattio.cli import output, run_start
from wattio.cli.progress import Bar
from wattio.cli.resumable import resumable
from wattio.cli.run_start import Start
from wattio.errors import InputError
from wattio.files.document import Document
from wattio.files.plain import plain
from wattio.kinds.measurement import execute, preflight
from wattio.kinds.measurement.folder import MeasurementFolder
from wattio.kinds.measurement.overrides import Asked, located_name
from wattio.kinds.measurement.plan import BEFORE, MeasurementPlan, Measuring
from wattio.results import summary
from wattio.results.runs import Recorded, Verdict
from wattio.results.summary import Row

Measurement = Start[MeasurementFolder, MeasurementPlan]


def start(
    source: Document | None,
    resume: Path | None,
    results: Path,
    asked: Asked,
    scratch: Path | None,
) -> Measurement:
    """A measurement to begin or to go on with; optional systems that are not there are left out."""
    if asked.peak_file is not None:
        asked = replace(asked, peak_file=str(shipped.located(asked.peak_file).resolve()))
    if asked.meter is not None:
        asked = replace(asked, meter=located_name(asked.meter, Path.cwd()))

    if scratch is not None:
        asked = replace(asked, scratch=str(scratch.resolve()))

    def refuse(folder: MeasurementFolder) -> None:
        inputs = folder.inputs()
        begun = replace(Asked.of_inputs(inputs), without=())
        kept = Path(begun.scratch) if begun.scratch else _own_scratch(folder).resolve()
        # Older folders do not say where their systems kept their data.
        if "scratch" in inputs and asked.scratch not in (None, str(kept)):
            raise InputError(
                f"--scratch {scratch}: {folder.path} was started with the scratch folder {kept},"
                " and its iterations belong together; leave --scratch out"
            )
        if replace(asked, scratch=None) not in (Asked(), replace(begun, scratch=None)):
            raise InputError(
                f"{folder.path} was started with other options of scale, meters or hosts; leave"
                " them out"
            )

    def make(given: Document) -> MeasurementPlan:
        plan, away = preflight.plan_of(given, asked, scratch or results)
        for name, why in away.items():
            output.note(f"left out: {name}: {why}")
        return plan

    return Start(source, resume, results, MeasurementFolder, make, execute.resume, refuse)


def run(
    start: Measurement, scratch: Path | None, *, dry_run: bool, report: bool, as_json: bool
) -> int:
    """Measure, or say what would be measured. The exit code is 1 if something stayed INVALID."""
    if dry_run:
        plan, begun = start.plan()
        place = _scratch(plan, scratch, start.results if begun is None else _own_scratch(begun))
        with output.busy("checking what is available"):
            lacking = preflight.lacking(plan, place)
            whole = preflight.lacking_without_scale(plan, place, lacking)
        return show_plan(plan, lacking, whole, as_json)
    folder, plan = start.begin(
        lambda made: preflight.probe(made, _scratch(made, scratch, start.results))
    )
    carry_out(folder, plan, scratch, resumed=start.resume is not None)
    return show(folder, plan, report, as_json)


def carry_out(
    folder: MeasurementFolder, plan: MeasurementPlan, scratch: Path | None, *, resumed: bool
) -> None:
    """Measure what is left of a plan. Raises Cancelled on Ctrl-C, with how to go on."""
    with (
        resumable(
            folder,
            len(plan.iterations),
            lambda: len(execute.remaining(plan, folder)),
            "iterations",
        ),
        MeasuringProgress(output.messages(), plan, folder) as progress,
    ):
        place = _scratch(plan, scratch, _own_scratch(folder))
        execute.execute(plan, folder, place, progress, resumed=resumed)


def _own_scratch(folder: MeasurementFolder) -> Path:
    """Where systems keep their data if nobody says where."""
    return folder.path / "scratch"


def _scratch(plan: MeasurementPlan, given: Path | None, otherwise: Path) -> Path:
    """Where systems keep their data: as it was when the measurement was begun."""
    kept = plan.asked.scratch
    return given or otherwise if kept is None else Path(kept)


def seconds_of(plan: MeasurementPlan, iteration: Measuring) -> float:
    """How long an iteration may take, by what its workload guesses."""
    head = plan.study.study
    if iteration.cell is None:
        return head.idle_before if iteration.run.condition.endswith(BEFORE) else head.idle_after
    work = plan.work(iteration.cell.workload)
    return work.seconds_guess(iteration.cell.clients) + len(work.steps()) * head.settle


class MeasuringProgress(Bar):
    """Progress over the iterations that are left: a bar on a terminal, plain lines elsewhere."""

    def __init__(self, console: Console, plan: MeasurementPlan, folder: MeasurementFolder) -> None:
        """The remaining time is guessed first, and corrected by how long iterations really take."""
        self._plan = plan
        left = execute.remaining(plan, folder)
        self._left_s = {item.identity: seconds_of(plan, item) for item in left}
        self._count = len(left)
        self._ended = 0
        self._done_s = 0.0
        counts = TextColumn("{task.fields[ended]} of {task.total}")
        super().__init__(console, counts, total=self._count or 1)
        self._bar.update(self._task, ended=0)

    def begun(self, iteration: Measuring) -> None:
        """An iteration begins."""
        self._bar.update(self._task, description=iteration.name)
        if iteration.identity not in self._left_s:  # Another attempt at one that was INVALID.
            self._count += 1
            self._left_s[iteration.identity] = seconds_of(self._plan, iteration)
            self._bar.update(self._task, total=self._count)

    def ended(self, iteration: Measuring, verdicts: list[Verdict]) -> None:
        """An iteration is kept; what is wrong with it is said at once."""
        self._ended += 1
        self._done_s += self._left_s.pop(iteration.identity, 0.0)
        self._bar.update(self._task, completed=self._ended, ended=self._ended)
        worst = _worst(verdicts)
        if not self._console.is_terminal:
            self._say(f"[{self._ended}/{self._count}] {iteration.name}: {worst}{self._remaining()}")
        for verdict in verdicts:
            if verdict.verdict == "INVALID":
                self._say(f"{iteration.name}: INVALID: {verdict.reason}")

    def said(self, text: str) -> None:
        """Something that takes a while."""
        self._bar.update(self._task, description=text)
        if not self._console.is_terminal:
            self._say(text)

    def _remaining(self) -> str:
        left_s = sum(self._left_s.values())
        if not left_s:
            return ""
        spent_s = time.monotonic() - self._begun_s
        pace = spent_s / self._done_s if self._done_s else 1.0
        return f", about {left_s * pace:.0f} s left"


def _worst(verdicts: list[Verdict]) -> str:
    order = ("INVALID", "WARN", "VALID")
    return min((verdict.verdict for verdict in verdicts), key=order.index)


def show_plan(plan: MeasurementPlan, lacking: list[str], whole: list[str], as_json: bool) -> int:
    """Print what would be run, how long it may take, and what it lacks; 1 where it lacks any.

    What it would lack without its scale (`whole`) is told, too.
    """
    seconds = {item.identity: seconds_of(plan, item) for item in plan.iterations}
    total_s = sum(seconds.values())
    if as_json:
        entries = [
            {
                "run": item.run.name,
                "system": item.run.system,
                "workload": item.run.subject,
                "settings": dict(item.run.settings),
                "repetition": item.repetition,
                "seconds_guess": seconds[item.identity],
            }
            for item in plan.iterations
        ]
        told = {"study": plan.name, "seconds_guess": total_s, "lacking": lacking}
        output.print_json(told | {"lacking_without_scale": whole, "iterations": entries})
        return 1 if lacking else 0
    table = Table(box=None)
    for column in ("", "run", "repetition", "about s"):
        table.add_column(column, justify="left" if column == "run" else "right")
    for number, item in enumerate(plan.iterations, start=1):
        # Whole seconds, as in the plan of a simulation: it is a guess.
        guess = f"{max(seconds[item.identity], 1):.0f}"
        table.add_row(str(number), item.run.name, str(item.repetition + 1), guess)
    console = output.console()
    console.print(table)
    meters = ", ".join(f"{meter.shown} ({meter.role})" for meter in plan.study.meter)
    console.print(f"meters: {meters}", highlight=False)
    text = f"{len(plan.iterations)} iterations, about {total_s / 60:.1f} min, not counting setup"
    console.print(text, highlight=False)
    lines = [f"missing: {what}" for what in lacking]
    lines += [f"missing without --scale: {what}" for what in whole]
    for line in lines:
        output.note(line)
    return 1 if lacking else 0


def show(folder: MeasurementFolder, plan: MeasurementPlan, report: bool, as_json: bool) -> int:
    """Print the summary and where everything is. 1 where an iteration stayed INVALID."""
    iterations = folder.iterations()
    found = summary.rows(iterations)
    page = run_start.reported(folder, report)
    bad = [item for item in summary.last_attempts(iterations) if not item.usable]
    if as_json:
        content = {
            "complete": not execute.remaining(plan, folder),
            "invalid": [_invalid_json(item) for item in bad],
            "summary": [row_json(row) for row in found],
        }
        output.print_json(run_start.head_json(folder, page) | content)
        return 1 if bad else 0
    console = output.console()
    console.print(summary_table(found, plan.is_estimated))
    for line in output.remarks(summary.last_attempts(iterations)):
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    for item in bad:
        for verdict in item.verdicts:
            if verdict.verdict == "INVALID":
                line = (
                    f"INVALID: {item.run.name} repetition {item.repetition + 1}: {verdict.reason}"
                )
                console.print(line, markup=False, highlight=False, soft_wrap=True)
    run_start.say_where(console, folder, page)
    return 1 if bad else 0


def _invalid_json(item: Recorded) -> dict[str, Any]:
    reasons = [verdict.reason for verdict in item.verdicts if verdict.verdict == "INVALID"]
    return {"run": item.run.name, "repetition": item.repetition, "reasons": reasons}


def summary_table(found: list[Row], estimated: bool) -> Table:
    """Each phase of each run: means, with deviations over the repetitions."""
    kind = "power ESTIMATED by a model, not measured" if estimated else "power measured"
    title = f"Means over VALID and WARN iterations, ± sample deviation; {kind}"
    table = Table(title=title, title_justify="left", box=None)
    for column in ("workload", "on", "phase"):
        table.add_column(column, overflow="fold")
    for column in ("n", "rate", "W", "J", "work per joule"):
        table.add_column(column, justify="right", no_wrap=True)
    tails = [name for name in LATENCY if any(row.get(f"latency_us_{name}") for row in found)]
    for name in tails:
        table.add_column(f"latency {LATENCY[name]}", justify="right", no_wrap=True)
    served = any(row.get("server_cpu_us_per_io") for row in found)
    if served:
        table.add_column("server, per IO", justify="right", no_wrap=True)
    shares = any(row.get("peak_share") for row in found)
    if shares:
        table.add_column("of peak", justify="right", no_wrap=True)
    table.add_column("verdicts")
    for row in found:
        rate, work = _work(row)
        values = [_told(row, *rate), _told(row, "power_w_mean"), _told(row, "energy_j")]
        values.append(_told(row, *work))
        values += [_latency(row, f"latency_us_{name}") for name in tails]
        if served:
            values.append(_told(row, "server_cpu_us_per_io", "µs"))
        if shares:
            peak = row.get("peak_share")
            values.append(output.share(peak.mean if peak else None))
        counts = {"WARN": row.warned, "INVALID": row.invalid}
        told = ", ".join(f"{count} {kind}" for kind, count in counts.items() if count)
        table.add_row(row.run.subject, row.run.condition, row.phase, str(row.used), *values, told)
    return table


LATENCY = {"p50": "p50", "p99": "p99", "p999": "p99.9"}
"""Statistics of latency that have a column where a tool tells them, and what they are called."""


def _latency(row: Row, name: str) -> str:
    found = row.get(name)
    return output.quantity(found.mean if found else None, "us")


SMALL_BYTES = 65536
"""Operations smaller than this on average are counted, larger ones are weighed."""


def _work(row: Row) -> tuple[tuple[str, str], tuple[str, str]]:
    """The rate, and the work per joule, that a phase is known by: each a metric and its unit."""
    if row.get("files_per_s"):
        return ("files_per_s", "files/s"), ("files_per_joule", "files/J")
    size, count = row.get("bytes"), row.get("operations")
    if size and not (count and size.mean < SMALL_BYTES * count.mean):
        return ("throughput_mib_s", "MiB/s"), ("mib_per_joule", "MiB/J")
    return ("iops", "IO/s"), ("iops_per_watt", "IO/J")


def _told(row: Row, name: str, unit: str = "") -> str:
    """A mean, with its deviation over the repetitions as a share of it.

    A value that is not known of every repetition says of how many it is.
    """
    found = row.get(name)
    if found is None:
        return output.ABSENT
    text = f"{output.number(found.mean)} {unit}".rstrip()
    if found.deviation is not None and found.mean:
        text += f" ±{plain(100 * found.deviation / abs(found.mean), 2)}%"
    return text if found.n == row.used else f"{text} (n = {found.n})"


def row_json(row: Row) -> dict[str, Any]:
    """A row as plain data."""
    metrics = {}
    for name, found in row.metrics.items():
        entry: dict[str, Any] = {"mean": found.mean, "unit": found.unit, "n": found.n}
        if found.deviation is not None and found.interval is not None:
            entry["deviation"] = found.deviation
            entry["interval"] = [found.interval.low, found.interval.high]
        metrics[name] = entry
    return {
        "workload": row.run.subject,
        "system": row.run.system,
        "settings": dict(row.run.settings),
        "phase": row.phase,
        "iterations": {"valid": row.valid, "warned": row.warned, "invalid": row.invalid},
        "metrics": metrics,
    }
