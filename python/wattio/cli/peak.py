"""`wattio peak`: what memory, network and disks allow at most, measured or from a file."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from wattio import shipped, signals
from wattio.analysis.peak import QUANTITIES, RULES, Limit, Rule
from wattio.cli import EXIT_PROBLEM, output
from wattio.cli.load_options import Quantity, seconds
from wattio.cli.output_path import writable
from wattio.errors import HostError, InputError, WorkloadFailed
from wattio.files import document
from wattio.peak import advice
from wattio.peak.file import Head, PartEntry, PeakFile, RateEntry, from_document, key_of, write

if TYPE_CHECKING:
    from wattio.peak.measure import Note, Settings, Targets


app = App(
    name="peak",
    help_format="markdown",
    help_epilogue="""**Examples**

```
wattio peak --device-folder /data --server loopback --out peak.toml
wattio peak --device-folder /mnt/a --device-folder /mnt/b \\
    --server 10.0.0.2 --runtime "30 s"
wattio peak --client c1 --client c2 --server s1 --device-folder s1:/mnt/a \\
    --full --out peak.toml
wattio peak peak.toml
wattio peak peak.toml --rule nodes --json
```

Start `iperf3 -s` on each server first. Disks are measured with files of 1 GiB (16 GiB with --full)
in a folder that wattio makes and removes afterwards.""",
)


@app.default
def peak(
    file: Path | None = None,
    /,
    *,
    device_folder: Annotated[tuple[str, ...], Parameter(negative="")] = (),
    server: Annotated[tuple[str, ...], Parameter(negative="")] = (),
    client: Annotated[tuple[str, ...], Parameter(negative="")] = (),
    memory_folder: str = "/dev/shm",  # noqa: S108 (a tmpfs is what is measured)
    memory: bool = True,
    runtime: Quantity | None = None,
    repetitions: int | None = None,
    full: Annotated[bool, Parameter(negative="")] = False,
    name: str = "this machine",
    rule: Rule | None = None,
    out: Path | None = None,
    as_json: Annotated[bool, Parameter("--json", negative="")] = False,
) -> int:
    """Find the theoretical peak: the most that client memory, network and disks allow.

    Without FILE the parts are measured: memory by fio on tmpfs, the network by iperf3 and ping, and
    disks by fio on files, all disks of a host at once. The rule `thesis` takes the smallest of the
    three sums; `nodes` adds up the smaller of network and disks over the nodes. With FILE, both
    are computed from the parts in it. If a study names the file, its results show what share of
    the peak was reached.

    Parameters
    ----------
    file
        A peak.toml to compute from; nothing is measured then.
    device_folder
        Folder on a disk to measure, as /path or HOST:/path (by ssh); once for each disk.
    server
        Other end of the network: a host where `iperf3 -s` runs (HOST or HOST:PORT), `loopback`, or
        netns:NAME (a network namespace, in which wattio starts it); once for each server.
    client
        Host whose memory is measured, and from which the network is measured: localhost,
        netns:NAME, or a name for ssh; once for each client.
    memory_folder
        Folder on tmpfs on every client.
    memory
        Measure memory.
    runtime
        Length of each measurement; default: 5 s; with --full 600 s, and 180 s for the network.
    repetitions
        How often each part is measured; default: 3; with --full 1, and 3 for the network.
    full
        Use the durations and file sizes of Erxleben's thesis (takes hours).
    name
        Name of the cluster, for the file.
    rule
        The rule to write to the file, by which studies compute their share; of the results, only
        this rule's are shown.
    out
        File to write the measured parts to.
    as_json
        Print one JSON object.
    """
    measuring = (device_folder, server, client, runtime, repetitions, full or None, out)
    if file is not None:
        if any(measuring):
            raise InputError("with a file nothing is measured: give it alone")
        content = from_document(document.read(shipped.located(file)))
        return _show(content, [], rule, as_json)
    if out is not None:
        writable("--out", out)
    targets = _targets(device_folder, server, client, memory_folder if memory else None)
    settings = _settings(full, runtime, repetitions)
    try:
        parts = _measured(targets, settings, quiet=as_json)
    except (HostError, WorkloadFailed) as error:
        message = output.messages()
        message.print(f"wattio: {error}", markup=False, highlight=False, soft_wrap=True)
        return EXIT_PROBLEM
    at = datetime.now(UTC).isoformat(timespec="seconds")
    content = PeakFile(peak=Head(name=name, rule=rule or "thesis", measured=at), part=parts)
    if out is not None:
        write(out, content)
    return _show(content, targets.missing(), rule, as_json)


def _targets(
    device_folder: tuple[str, ...],
    server: tuple[str, ...],
    client: tuple[str, ...],
    memory_folder: str | None,
) -> Targets:
    from wattio.peak import folders, hosts, servers
    from wattio.peak.measure import Targets

    for option, given in (("--server", server), ("--client", client)):
        if len(set(given)) < len(given):
            raise InputError(f"{option} names one twice")
    return Targets(
        tuple(hosts.parse(text) for text in client) or (hosts.Host(),),
        memory_folder,
        tuple(servers.parse(text) for text in server),
        tuple(folders.parse(text) for text in device_folder),
    )


def _settings(full: bool, runtime: Quantity | None, repetitions: int | None) -> Settings:
    from dataclasses import replace

    from wattio.peak.measure import Settings

    settings = Settings.full() if full else Settings.trial()
    if runtime is not None:
        length = round(seconds("--runtime", runtime))
        if length < 1:
            raise InputError(f'--runtime: "{runtime}" is below 1 s, the least that fio takes')
        settings = replace(settings, runtime_s=length, network_runtime_s=length)
    if repetitions is not None:
        if repetitions < 1:
            raise InputError(f"--repetitions: {repetitions} is below 1")
        settings = replace(settings, repetitions=repetitions, network_repetitions=repetitions)
    return settings


def _measured(targets: Targets, settings: Settings, *, quiet: bool) -> list[PartEntry]:
    from wattio.peak.measure import measure

    with (
        signals.flagged() as cancelled,
        tempfile.TemporaryDirectory(prefix="wattio-peak-") as scratch,
        _noting(quiet) as note,
    ):
        return measure(targets, settings, Path(scratch), cancelled, note)


@contextmanager
def _noting(quiet: bool) -> Iterator[Note]:
    """A bar with the remaining time on a terminal, a line for each step elsewhere."""
    console = output.messages()
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TimeRemainingColumn(compact=True),
    )
    hidden = quiet or not console.is_terminal
    said: set[str] = set()
    with Progress(*columns, console=console, transient=True, disable=hidden) as bar:
        task = bar.add_task("", total=None)

        def note(step: str, done_s: float, total_s: float) -> None:
            bar.update(task, description=step, completed=done_s, total=total_s or None)
            if hidden and not quiet and step not in said:
                said.add(step)
                left = f", about {total_s - done_s:.0f} s left" if total_s else ""
                console.print(f"{step}{left}", markup=False, highlight=False, soft_wrap=True)

        yield note


def _show(content: PeakFile, missing: list[str], rule: Rule | None, as_json: bool) -> int:
    """Print parts and limits; a problem where there is no peak to tell."""
    model = content.model()
    rules = RULES if rule is None else (rule,)
    found = [limit for name in rules for one in QUANTITIES if (limit := model.limit(one, name))]
    if as_json:
        told = content.model_dump(mode="json", exclude_none=True)
        limits = [_limit_object(limit) for limit in found]
        output.print_json({**told, "missing": missing, "limits": limits})
        return 0 if found else EXIT_PROBLEM
    console = output.console()
    console.print(_parts_table(content))
    for name in rules:
        if limits_of := [limit for limit in found if limit.rule == name]:
            console.print(_limits_table(name, limits_of))
    for limit in (limit for limit in found if limit.rule == (rule or model.rule)):
        lead = f"{advice.spoken(limit.quantity)}, {limit.rule}: "
        for sentence in advice.sentences(limit):
            console.print(lead + sentence, markup=False, highlight=False)
            lead = " " * 4
    for text in missing:
        output.note(f"not measured: {text}")
    if not found:
        text = "wattio: neither the network nor disks are known, so there is no peak"
        output.note(text)
    return 0 if found else EXIT_PROBLEM


def _parts_table(content: PeakFile) -> Table:
    title = Text(f"{content.peak.name}: parts, for each unit")
    table = Table(title=title, title_justify="left", box=None)
    for column in ("part", "node", "where"):
        table.add_column(column)
    table.add_column("units", justify="right")
    for quantity in QUANTITIES:
        name = f"{advice.spoken(quantity)}, {advice.unit(quantity)}"
        table.add_column(name.removesuffix(", IOPS"), justify="right")
    table.add_column("origin")
    for entry in content.part:
        cells = [_rate(getattr(entry, key_of(quantity))) for quantity in QUANTITIES]
        units = f"{entry.nodes} x {entry.per_node}"
        words = (advice.NAMES[entry.kind], entry.node, entry.where)
        table.add_row(*(Text(word) for word in words), units, *cells, entry.origin)
    return table


def _rate(entry: RateEntry | None) -> str:
    return output.ABSENT if entry is None else _with_deviation(entry.mean, entry.deviation)


def _with_deviation(mean: float, deviation: float | None) -> str:
    spread = "" if deviation is None else f" +- {advice.figure(deviation)}"
    return advice.figure(mean) + spread


def _limits_table(rule: str, limits: list[Limit]) -> Table:
    title = f"theoretical peak by the rule {rule}"
    table = Table(title=title, title_justify="left", box=None)
    table.add_column("quantity")
    table.add_column("peak", justify="right", style="bold")
    table.add_column("unit")
    for kind in advice.NAMES.values():
        table.add_column(f"all {kind}", justify="right")
    for limit in limits:
        sums = {total.kind: total for total in limit.totals}
        cells = [
            _with_deviation(sums[kind].mean, sums[kind].deviation)
            if kind in sums
            else output.ABSENT
            for kind in advice.NAMES
        ]
        peak = _with_deviation(limit.mean, limit.deviation)
        table.add_row(advice.spoken(limit.quantity), peak, advice.unit(limit.quantity), *cells)
    return table


def _limit_object(limit: Limit) -> dict[str, Any]:
    """A limit as plain data, without what is not known."""
    told = asdict(limit)
    told["quantity"] = key_of(limit.quantity)
    told["advice"] = advice.sentences(limit)
    return {key: value for key, value in told.items() if value is not None}
