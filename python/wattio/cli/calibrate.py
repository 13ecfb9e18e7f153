"""`wattio calibrate power`: the coefficients of this host's power model, fitted to a meter.

`wattio calibrate target` stands in a file of its own.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from wattio.calibration.fit import CalibrationFailed
from wattio.cli import EXIT_DONE, EXIT_PROBLEM, output
from wattio.cli.calibrate_target import EPILOGUE, target
from wattio.cli.load_options import Quantity
from wattio.cli.output_path import writable
from wattio.errors import Cancelled, HostError, InputError
from wattio.meters.meter import Facts, MeterLost, MeterRefused
from wattio.signals import ended_by_signals

if TYPE_CHECKING:
    from wattio.calibration.folder import DataFolder, Record
    from wattio.cli.calibrate_options import Asked
    from wattio.recording import Recorder


_DATA = ".data"
"""The folder beside a model is named so."""

app = App(
    name="calibrate",
    help="Measure, and fit a model: of this host's power, or of a storage target.",
    help_format="markdown",
    help_epilogue="""**Examples**

```
wattio calibrate power --meter "snmp://public@pdu/apc-rpdu2?outlet=3" \\
    --out power-model.toml
wattio calibrate target --out server.toml --compare
```""",
)
app.command(target, name="target", help_epilogue=EPILOGUE)

_EPILOGUE = """**Examples**

```
wattio calibrate power --meter rapl: --out power-model.toml --dry-run
sudo wattio calibrate power --meter hwmon:power_meter/power1 \\
    --out power-model.toml
sudo wattio calibrate power --meter "snmp://public@pdu/apc-rpdu2?outlet=3" \\
    --meter-covers server --out power-model.toml \\
    --frequencies "1.2 GHz,2.4 GHz" --cores 1,4,8 --io /data
wattio calibrate power --from power-model.data --out power-model.toml
```

Setting frequency and cores needs root; both are restored however the sweep ends. All measured
points are kept in a folder next to the model (`power-model.data`); --from fits them again."""


@app.command(help_epilogue=_EPILOGUE)
def power(
    *,
    out: Path,
    meter: Annotated[tuple[str, ...], Parameter(negative="")] = (),
    meter_covers: Annotated[tuple[str, ...], Parameter(negative="")] = (),
    frequencies: str | None = None,
    cores: str | None = None,
    loads: str = "0,0.5,1",
    io: Path | None = None,
    settle: Quantity = "2 s",
    measure: Quantity = "10 s",
    repeat: int = 1,
    seed: int = 1,
    frequency_max: Quantity | None = None,
    source: Annotated[Path | None, Parameter("--from")] = None,
    dry_run: Annotated[bool, Parameter(negative="")] = False,
    as_json: Annotated[bool, Parameter("--json", negative="")] = False,
) -> int:
    """Sweep frequency, active cores and load against a meter, and fit the power model.

    Each setting is held under busy loops pinned to the active cores. The order is random, with idle
    points in between that reveal a drift. The output says what this host cannot sweep, and which
    coefficients the points do not determine. Exit code 1 if R^2 is 0.99 or less: the model is
    written all the same, and marked.

    Parameters
    ----------
    out
        The model to write, for `estimate:` and `wattiod`.
    meter
        Name of a meter; several are added up (two power supplies of one host).
    meter_covers
        What the meters measure, for the record in the model file: `server` or `cpu`.
    frequencies
        Frequencies to sweep, separated by commas; default: up to four of those that the host has.
    cores
        Numbers of active cores to sweep, separated by commas; default: one, half of them, all.
    loads
        Shares of the time in which active cores are busy, separated by commas.
    io
        Also sweep random reads in this folder; it needs 256 MiB while the sweep runs.
    settle
        Wait before each measurement; at least a period of the meter.
    measure
        Time over which each point is measured.
    repeat
        How often each setting is visited.
    seed
        Seed for the order of the settings.
    frequency_max
        Highest frequency of a core, such as "2.4 GHz", if the host does not report it.
    source
        Folder of an earlier calibration: fit its points, measure nothing.
    dry_run
        Print what would be swept and how long it would take.
    as_json
        Print one JSON object.
    """
    from wattio.calibration.folder import DataFolder
    from wattio.cli import calibrate_options, calibrate_tables

    # Before hours of measuring, not after.
    if out.suffix == _DATA:
        raise InputError(f"--out: {out} ends like a folder of data; name a .toml file")
    writable("--out", out)
    if source is not None:
        if meter or io or dry_run:
            raise InputError("--from measures nothing: give it without --meter, --io, --dry-run")
        return _fit(DataFolder(source), out, as_json)
    if not meter:
        raise InputError("a meter is needed: --meter NAME; wattio meter list shows them")
    given = calibrate_options.TypedOptions(
        meters=meter,
        covers=meter_covers,
        frequencies=frequencies,
        cores=cores,
        loads=loads,
        io=io,
        settle=settle,
        measure=measure,
        repeat=repeat,
        seed=seed,
        frequency_max=frequency_max,
    )
    try:
        asked = calibrate_options.resolve(given)
        if dry_run:
            return calibrate_tables.plan(asked, as_json)
        data = DataFolder(out.with_suffix(_DATA))
        _measure(asked, data, out, quiet=as_json)
        return _fit(data, out, as_json)
    except (HostError, CalibrationFailed, MeterLost, MeterRefused) as error:
        output.complain(str(error))
        return EXIT_PROBLEM


def _measure(asked: Asked, data: DataFolder, out: Path, *, quiet: bool) -> None:
    """Sweep into a folder. Raises Cancelled on Ctrl-C and SIGTERM, with how to go on."""
    from wattio.recording import Recorder, Source

    data.create()
    sources = [Source(f"meter {at}", name) for at, name in enumerate(asked.meters, start=1)]
    try:
        # The recorder ends first: only then is everything written that is to be kept.
        with ended_by_signals(), _kept(data), Recorder(sources, data.recording) as recorder:
            _sweep(asked, data, recorder, quiet=quiet)
    except KeyboardInterrupt:
        text = "stopped; everything was put back"
        if data.path.exists():
            text += f"; the points so far can be fitted: wattio calibrate power --from {data.path}"
            text += f" --out {out}"
        raise Cancelled(text) from None


def _sweep(asked: Asked, data: DataFolder, recorder: Recorder, *, quiet: bool) -> None:
    from wattio.calibration import sweep
    from wattio.cli import calibrate_tables

    facts = recorder.start()
    settle_s = sweep.fit_to_meters(asked.design, list(facts.values()))
    asked = replace(asked, design=replace(asked.design, settle_s=settle_s))
    data.keep(_record(asked, list(facts.values())))
    place = sweep.Place(data, asked.io)
    with calibrate_tables.SweepProgress(asked.design, quiet=quiet) as progress:
        sweep.sweep(
            asked.host, asked.design, recorder, facts, place, asked.frequency_max_hz, progress
        )


def _record(asked: Asked, facts: list[Facts]) -> Record:
    from wattio.calibration.folder import Meter, Record

    design = asked.design
    return Record(
        host=socket.gethostname(),
        begun=datetime.now(UTC).isoformat(timespec="seconds"),
        meters=[
            Meter(
                name=meter.name,
                what=meter.what,
                period_s=meter.period_s,
                lag_s=meter.lag_s,
                accuracy_class=meter.accuracy_class,
            )
            for meter in facts
        ],
        covers=list(asked.covers),
        frequency_max_hz=asked.frequency_max_hz,
        frequencies_hz=list(design.frequencies_hz),
        cores=list(design.cores),
        loads=list(design.loads),
        with_io=design.with_io,
        repeat=design.repeat,
        seed=design.seed,
        settle_s=design.settle_s,
        measure_s=design.measure_s,
        lacks=asked.lacks,
    )


def _fit(data: DataFolder, out: Path, as_json: bool) -> int:
    """Fit what a folder holds, write the model, show it."""
    from wattio.calibration import model_file
    from wattio.calibration.fit import fit
    from wattio.cli import calibrate_tables

    record = data.record()
    try:
        found = fit(data.points(), model_file.assumed_io_w())
    except CalibrationFailed as error:
        output.complain(f"{error}; what was measured is kept in {data.path}")
        return EXIT_PROBLEM
    model_file.write(out, model_file.text(found, record))
    calibrate_tables.show(found, record, out, data, as_json=as_json)
    return EXIT_DONE if found.is_good else EXIT_PROBLEM


@contextlib.contextmanager
def _kept(data: DataFolder) -> Iterator[None]:
    """Keep what was sampled, however it ends; a folder without any point is none to keep."""
    try:
        yield
    finally:
        if not data.remove_if_empty():
            data.keep_samples()
