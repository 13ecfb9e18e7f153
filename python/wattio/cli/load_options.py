"""The options that name a load, shared by `wattio simulate` and `wattio oracle`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from wattio import _core, shipped
from wattio.cli import output
from wattio.errors import InputError, unusable
from wattio.files.plain import plain
from wattio.simulator.simulation import (
    CLIENTS_ALLOWED,
    CLIENTS_MOST,
    IO_BYTES_ALLOWED,
    IO_BYTES_MOST,
    PRESSURE_ALLOWED,
    Request,
    Setting,
)

Quantity = str
"""A time with its unit as written on the command line, such as "60 s"."""


RATE_SCALE = (1e-6, 1e4)
TIME_SCALE = (1e-6, 1e6)
"""What the traces' scales may be."""

SPAN_S_LEAST, SPAN_S_MOST = 0.001, 1e8
"""How long a simulation or a recording may be."""


@dataclass(frozen=True)
class ReadingOptions:
    """How a trace is read where its format is not found by its content.

    Parameters
    ----------
    format
        Format of the trace, such as spc; default: detected from its content.
    columns
        Columns of a text file in any other format, by number from 0 or by name in its first line,
        with units: "time=0:us,op=2,lba=3:sectors,size=4:bytes". Times are in ns, us, ms, s or
        filetime; lba and size in bytes, sectors, KiB or 4k. op=2:get/put gives the words for reads
        and writes; rows with any further word (op=2:R/W/T) are left out. device=5 is optional.
    """

    format: str | None = None
    columns: str | None = None

    def keywords(self) -> dict[str, str | None]:
        """The keywords of `wattio._core.trace_info`. Raises InputError."""
        _core.check_trace_reading(self.format, self.columns)
        return {"format": self.format, "columns": self.columns}


@dataclass(frozen=True)
class LoadOptions:
    """What clients ask for: a pattern at a pressure, a trace or a day profile.

    Parameters
    ----------
    pattern
        Access pattern from Table II of the PACER paper.
    pressure
        Load, as a share of the highest rate that the server reaches with all of its clients (900,
        unless its description says otherwise): above 0, up to 1. Default, if no other load is
        given: 0.10.
    iops
        Requests per second, instead of a pressure.
    read_fraction
        Share of reads, from 0 to 1; default: the pattern's.
    io_size
        Size of a request, such as "32 KiB", at most 1 GiB; default: the pattern's.
    open
        Open loop: Poisson arrivals, however fast the server answers. By default, clients wait for
        each answer before they send the next request.
    clients
        Number of client threads, at most 1000000; default: the server description's.
    trace
        Block trace to replay, or `pgbench`, which comes with wattio; `wattio trace info` shows what
        is in it.
    format
        Format of the trace, such as spc; default: detected from its content.
    columns
        Columns of a trace in any other format, such as
        "time=0:us,op=2,lba=3:sectors,size=4:bytes"; see `wattio trace info --help`.
    start
        How much of the trace to skip at its beginning, in the trace's own time.
    rate_scale
        Factor on the number of requests of a trace; its duration stays the same.
    time_scale
        Factor on all times of a trace: 2 makes it take twice as long.
    profile
        TOML file of a load that changes over the day.
    duration
        Time that counts, after the warm-up; default: 60 s, or to the end of the trace or profile.
    """

    pattern: Literal["Rand_R", "Rand_W", "Seq_R", "Seq_W", "Rand_RW"] = "Rand_RW"
    pressure: float | None = None
    iops: float | None = None
    read_fraction: float | None = None
    io_size: Quantity | None = None
    open: bool = False
    clients: int | None = None
    trace: Path | None = None
    format: str | None = None
    columns: str | None = None
    start: Quantity | None = None
    rate_scale: float = 1.0
    time_scale: float = 1.0
    profile: Path | None = None
    duration: Quantity | None = None

    def request(
        self,
        server: str,
        policy: str,
        settings: Mapping[str, Setting],
        seed: int,
        warmup: Quantity | None,
        power_model: Path | None = None,
    ) -> Request:
        """The run that these options ask for. Raises InputError."""
        if not 0 <= seed < 2**64:
            raise InputError(f"--seed {seed}: allowed is 0 to {2**64 - 1}")
        given = self.duration
        duration_s = None if given is None else seconds("--duration", given, SPAN_S_LEAST)
        before_s = 0.0 if self.trace is not None else 10.0
        return Request(
            server=server,
            policy=policy,
            settings=settings,
            load=self._load(),
            duration_s=duration_s,
            warmup_s=before_s if warmup is None else seconds("--warmup", warmup),
            seed=seed,
            power_model=None if power_model is None else str(power_model),
        )

    def _load(self) -> dict[str, Any]:
        rates = {"--pressure": self.pressure, "--iops": self.iops}
        loads = {"--trace": self.trace, "--profile": self.profile, **rates}
        given = [name for name, value in loads.items() if value is not None]
        if len(given) > 1:
            raise InputError(f"{' and '.join(given)} exclude each other: a run has one load")
        self._refuse_foreign()
        if self.trace is not None:
            scales = {"rate_scale": self.rate_scale, "time_scale": self.time_scale}
            keywords = ReadingOptions(self.format, self.columns).keywords()
            reading = {key: value for key, value in keywords.items() if value is not None}
            if self.start is not None:
                scales["start_s"] = seconds("--start", self.start)
            return {"trace": str(shipped.located(self.trace)), **scales, **reading}
        if self.clients is not None and not 1 <= self.clients <= CLIENTS_MOST:
            raise InputError(f"--clients {self.clients}: {CLIENTS_ALLOWED}")
        who: dict[str, Any] = {"open": self.open}
        if self.clients is not None:
            who["clients"] = self.clients
        if self.profile is not None:
            return {"profile": str(shipped.located(self.profile)), **who}
        if self.iops is not None:
            return {"pattern": self.pattern, "iops": self.iops, **who, **self._mix()}
        pressure = 0.10 if self.pressure is None else self.pressure
        if not math.isfinite(pressure):
            raise InputError(f"--pressure: {unusable(pressure, PRESSURE_ALLOWED)}")
        if not 0 < pressure <= 1:
            raise InputError(f"--pressure {plain(pressure, 15)}: allowed is {PRESSURE_ALLOWED}")
        return {"pattern": self.pattern, "pressure": pressure, **who, **self._mix()}

    def _refuse_foreign(self) -> None:
        """Options that say nothing about the load that was chosen. Raises InputError."""
        mix = ("pattern", "read_fraction", "io_size")
        foreign: tuple[str, ...] = ("format", "columns", "start", "rate_scale", "time_scale")
        chosen = "a pattern"
        if self.trace is not None:
            foreign, chosen = (*mix, "open", "clients"), "--trace"
        elif self.profile is not None:
            foreign, chosen = (*foreign, *mix), "--profile"
        for name in foreign:
            if getattr(self, name) != getattr(LoadOptions(), name):
                raise InputError(f"--{name.replace('_', '-')} cannot be used with {chosen}")
        for name, (low, high) in _LIMITS.items():
            value = getattr(self, name)
            if value is not None:
                within(f"--{name.replace('_', '-')}", value, low, high)

    def _mix(self) -> dict[str, Any]:
        mix: dict[str, Any] = {}
        if self.read_fraction is not None:
            mix["read_fraction"] = self.read_fraction
        if self.io_size is not None:
            size_bytes = quantity("--io-size", self.io_size, "data size")
            if not 1 <= size_bytes <= IO_BYTES_MOST:
                raise InputError(f'--io-size: "{self.io_size}"; allowed is {IO_BYTES_ALLOWED}')
            mix["io_bytes"] = round(size_bytes)
        return mix


_LIMITS = {
    "iops": (0, 1e9),
    "read_fraction": (0, 1),
    "rate_scale": RATE_SCALE,
    "time_scale": TIME_SCALE,
}


def within(option: str, value: float, low: float, high: float) -> None:
    """Refuse a number off the command line beyond its limits. Raises InputError."""
    allowed = f"{_in_full(low)} to {_in_full(high)}"
    if not math.isfinite(value):
        raise InputError(f"{option}: {unusable(value, allowed)}")
    if not low <= value <= high:
        raise InputError(f"{option} {plain(value, 15)}: allowed is {allowed}")


def _in_full(limit: float) -> str:
    return f"{Decimal(str(limit)).normalize():,f}"


def quantity(option: str, text: Quantity, kind: str) -> float:
    """A quantity off the command line in its base unit. Raises InputError naming the option."""
    try:
        return _core.parse_quantity(text, kind)
    except InputError as error:
        raise InputError(f"{option}: {error}") from error


def seconds(
    option: str, text: Quantity, least_s: float = 0.0, most_s: float = SPAN_S_MOST
) -> float:
    """A time off the command line in seconds, within limits. InputError names the option."""
    found = quantity(option, text, "time")
    if not least_s <= found <= most_s:
        low = f"{least_s:g} s" if not 0 < least_s < 1 else f"{1000 * least_s:g} ms"
        most = f"{most_s:g} s".replace("e+0", "e")
        raise InputError(f'{option}: "{text}"; allowed is {low} to {most}')
    return found


@contextmanager
def progress_of(
    names: Sequence[str], *, quiet: bool
) -> Iterator[Callable[[int], Callable[[float], None]]]:
    """Bars for a few runs side by side on standard error; gives each run's callback."""
    console = output.messages()
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(compact=True),
        console=console,
        transient=True,
        disable=quiet or not console.is_terminal,
    )
    with bar:
        tasks = [bar.add_task(name, total=1.0) for name in names]
        yield lambda at: lambda share: bar.update(tasks[at], completed=share)
