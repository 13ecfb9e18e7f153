"""The journal of `wattiod` and `wattio-target`: what a line may hold, and reading line by line.

raw/windows.jsonl   one object for each of the law's windows
raw/events.jsonl    what an operator should hear of
raw/summary.json    the daemon's status, rewritten each minute and at the end

A daemon that was killed leaves a last line without its end; that one is dropped and told. Any other
line that is not what it should be is an error. Keys that are not known here are ignored: the daemon
may be newer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, ValidationError

from wattio.errors import ResultError
from wattio.files.document import in_words, spell

_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?$", re.ASCII)

BY_TURNS = "alternation: full speed by turns"
"""Why full speed is forced where `wattiod run --alternate` asks for it."""

LINE_BYTES_MAX = 1 << 20
"""Longer than any line of a journal: a window with a histogram takes about a thousand bytes."""

Count = Annotated[int, Field(ge=0, le=2**53)]
Nanoseconds = Annotated[int, Field(ge=0, le=2**63 - 1)]
Amount = Annotated[float, Field(ge=0)]
Bucket = tuple[float | None, Count]
"""Upper edge in microseconds (None: no upper edge), and how many requests fell below it and above
the edge before."""


class Line(BaseModel):
    """Base of what a journal holds: values never change, numbers are finite, newer keys pass."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True, allow_inf_nan=False)


class Window(Line):
    """One window. What is not known is None; lists have one entry for each group of cores.

    `latency_us_seen` is what the law went by: in shadow mode an estimate for the setting that would
    be in force. `state` is what the law decided at the end of the window. Fields named `estimated`
    come from a power model.
    """

    utc_ns: Nanoseconds
    monotonic_ns: Nanoseconds
    dt_s: Amount
    requests: Count | None = None
    latency_us_mean: Amount | None = None
    latency_us_p99: Amount | None = None
    histogram: list[Bucket] | None = None
    latency_us_seen: Amount | None = None
    baseline_us: Amount | None = None
    bound_us: Amount | None = None
    state: Literal["unstable", "stable", "idle", "learning", "guarding", "saving"] | None = None
    reason: str = ""
    forced: str | None = None
    cores: list[Count]
    frequency_hz: list[Amount | None] = Field(default_factory=list)
    utilisation_clients: list[float | None] = Field(default_factory=list)
    utilisation_background: list[float | None] = Field(default_factory=list)
    background_pace: Amount | None = None
    power_w_measured: float | None = None
    power_w_estimated: float | None = None
    power_w_full_speed_estimated: float | None = None


class Event(Line):
    """Something that happened."""

    utc_ns: Nanoseconds
    severity: Literal["info", "warning", "error"]
    message: str


class Group(Line):
    """A group of cores; `cores` names them as the kernel writes lists: "0-7,16"."""

    name: str
    cores: str
    cores_min: Count = 0

    @property
    def cores_total(self) -> int | None:
        """How many there are; None if the list is not one."""
        total = 0
        for part in self.cores.split(","):
            found = _RANGE.match(part.strip())
            if not found:
                return None
            first, last = int(found[1]), int(found[2] or found[1])
            total += max(0, last - first + 1)
        return total


class Machine(Line):
    """What `machine.json` says of the program and the host.

    Programs before `wattio-target` said their version as `wattiod`, and no name.
    """

    kind: Literal["governor"]
    mode: Literal["observe", "run"]
    program: str = "wattiod"
    version: str = Field(validation_alias=AliasChoices("version", "wattiod"))
    name: str
    policy: str
    groups: list[Group]
    started_utc: str
    started_utc_ns: Nanoseconds
    started_monotonic_ns: Nanoseconds
    kernel: str | None = None
    processor: str | None = None
    hostname: str | None = None
    boot_id: str | None = None
    config_file: str | None = None
    options: list[str] = []


class Latency(Line):
    """Of the daemon's status: where latency comes from, the least that it can tell from none if
    that is more than a microsecond, and the tolerance of the bound."""

    source: str = ""
    latency_us_resolution: Amount | None = None
    tolerance: Amount | None = None


class Bound(Line):
    """Of the daemon's status: a bound, and how well it was kept; in shadow mode an estimate."""

    bound: str
    statistic: str
    windows: Count = 0
    windows_over: Count = 0
    requests_over_share: Amount | None = None
    kept: bool | None = None


class Power(Line):
    """Of the daemon's status: meter and power model."""

    meter: str | None = None
    model: str | None = None
    no_estimate: str | None = None


class Shadow(Line):
    """Of the daemon's status: the model that shadow mode is closed over."""

    fitted: bool
    why: str | None = None
    error_median: Amount | None = None
    error_p90: Amount | None = None
    windows_fitted: Count = 0
    windows_kept_out: Count = 0


class Counts(Line):
    """Of the daemon's status: counts since its start; windows above the first bound."""

    windows: Count
    windows_bounded: Count = 0
    violations: Count = 0
    knob_writes: Count = 0
    knob_failures: Count = 0
    foreign_changes: Count = 0
    source_errors: Count = 0
    flaps: Count = 0
    breaker_trips: Count = 0


class Interval(Line):
    """A mean, and half the width of its 95 % interval."""

    mean: float
    half_width: Amount


class Alternation(Line):
    """Of the daemon's status: what governing by turns with full speed has shown."""

    pairs: Count
    power_w_full_speed: float | None = None
    power_w_saved: Interval | None = None
    power_is_estimate: bool = False
    latency_change: Interval | None = None
    requests_per_s_change: Interval | None = None


class Summary(Line):
    """Of the daemon's status, what a report needs. Earlier daemons told no bounds."""

    latency: Latency = Latency()
    bounds: list[Bound] = []
    power: Power = Power()
    shadow: Shadow | None = None
    alternation: Alternation | None = None
    counts: Counts


Parsed = TypeVar("Parsed", bound=Line)


def parse(model: type[Parsed], text: bytes) -> Parsed:
    """Read one JSON object. Raises ValueError that says which key is wrong, and how."""
    try:
        return model.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = spell(tuple(first["loc"]))
        message = in_words(first["msg"])
        raise ValueError(f"{where}: {message}" if where else message) from None


class Journal:
    """The lines of one file. `truncated` and `bytes_read` hold once it was read to its end."""

    def __init__(self, path: Path) -> None:
        """Name a file; one that is not there holds no line."""
        self.path = path
        self.truncated = False
        self.bytes_read = 0

    def lines(self, model: type[Parsed]) -> Iterator[tuple[int, Parsed]]:
        """Number and content of every line. Raises ResultError that names file and line."""
        try:
            with self.path.open("rb") as file:
                number = 0
                while text := file.readline(LINE_BYTES_MAX):
                    number += 1
                    self.bytes_read += len(text)
                    if not text.endswith(b"\n"):
                        if len(text) == LINE_BYTES_MAX:
                            raise self.error(number, f"is longer than {LINE_BYTES_MAX} bytes")
                        self.truncated = True
                        break
                    try:
                        line = parse(model, text)
                    except ValueError as error:
                        raise self.error(number, str(error)) from None
                    yield number, line
        except FileNotFoundError:
            return
        except OSError as error:
            raise ResultError(f"{self.path}: cannot be read: {error.strerror}") from error

    def error(self, number: int, message: str) -> ResultError:
        """An error that names the file and a line."""
        return ResultError(f"{self.path}:{number}: {message}")


def read_object(model: type[Parsed], path: Path) -> Parsed:
    """Read a file that holds one JSON object. Raises ResultError that names it."""
    try:
        text = path.read_bytes()
    except OSError as error:
        raise ResultError(f"{path}: cannot be read: {error.strerror}") from error
    try:
        return parse(model, text)
    except ValueError as error:
        raise ResultError(f"{path}: {error}") from None
