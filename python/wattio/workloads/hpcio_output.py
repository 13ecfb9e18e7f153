"""What a run of the mini-app over the I/O middleware tells, read from its ranks' output."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from wattio import clock
from wattio.analysis.cores import Ticks, parse_stat
from wattio.clock import Instant, Span
from wattio.errors import ResultError
from wattio.files.document import Strict
from wattio.hosts.clocks import Offset
from wattio.workloads import hpcio_twins, rank_report
from wattio.workloads.ranks import HPCIO_PROGRESS, HPCIO_REFUSED, HPCIO_REPORT, TWIN_REPORT, VERSION

RUN = "run"
"""The phase that a run is: from the first step to the last dump that is written."""

# How Python ends a traceback, and what the middleware says before it ends all ranks.
_REASON = re.compile(
    # Launchers leave a zero byte behind what they say themselves.
    r"^[ \t\0]*(?:wattio(?:-io|-io-writer)?: (?P<said>.+)"
    r"|[\w.]+\.\w+: (?P<why>.+)|(?P<other>[A-Z]\w*Error\b.*))$",
    re.MULTILINE,
)
_KILLED = re.compile(
    r"process rank (?P<rank>\d+) with PID \d+ on node (?P<host>\S+) exited on\s+"
    r"signal (?P<signal>\d+ \([^)\n]*\))"
)
_STEP = re.compile(rf"^{HPCIO_PROGRESS} (\d{{1,9}})$", re.MULTILINE)

Count = Annotated[int, Field(ge=0)]
Step = Annotated[str, Field(pattern=r"^[0-9]{1,18}$")]
"""The number of a step, as JSON has it where it is a name."""

Moment = Annotated[list[int], Field(min_length=2, max_length=2)]
"""UTC and monotonic nanoseconds."""


class Spread(Strict):
    """Of seconds; all of it absent where there was nothing to measure."""

    mean: float | None = None
    p50: float | None = None
    p99: float | None = None
    max: float | None = None


class Grid(Strict):
    """The mini-app's domain."""

    nx: int
    ny: int
    nz: int
    spacing_m: float


class PlannedRun(Strict):
    """What was to be run."""

    size: str
    steps: Count
    output_every: Count
    scaling: str
    variables: list[str]


class Sums(Strict):
    """What `wattio.miniapp.checks` knows of a state."""

    mass_kg: float
    rest_mass_kg: float
    warmth_k_m3: float
    warmth_k_m4: float
    water_kg: float
    wind_m_s_max: float
    fingerprint: int

    @property
    def bubble_height_m(self) -> float | None:
        """The height of the warmth's middle."""
        return self.warmth_k_m4 / self.warmth_k_m3 if self.warmth_k_m3 else None


class Checked(Strict):
    """The state at first and at the end."""

    before: Sums
    after: Sums

    @property
    def mass_change(self) -> float | None:
        """How much mass came or went, as a share of all: round-off, or something is wrong."""
        if not self.before.rest_mass_kg:
            return None
        return (self.after.mass_kg - self.before.mass_kg) / self.before.rest_mass_kg


class _Account(BaseModel):
    """What the middleware tells; of that, what is used here."""

    model_config = ConfigDict(frozen=True, strict=True)


class RankDump(_Account):
    """A dump as one rank saw it: `write_s` is how long it was busy writing it."""

    step: Count
    blocked_s: float
    write_s: float
    files: Count
    dropped: bool


class RankAccount(_Account):
    """The dumps of one rank."""

    rank: Count
    node: Count
    role: str
    dumps: list[RankDump]


class Account(_Account):
    """What the middleware counted. `errors` and `dropped` name dumps by their step."""

    approach: str
    dumps: Count
    stalls: Count
    drops: Count
    dropped: list[int]
    bytes: Count
    files: Count
    errors: dict[Step, list[str]]
    cpu_s: dict[str, float]
    ranks: list[RankAccount]


class Report(Strict):
    """One run.

    Times of steps and dumps are over all computing ranks; `dump_s` is making and handing over a
    dump, `blocked_s` the waiting in it, `blocked_s_slowest` that of each dump's slowest rank.
    `ticks` are lines of /proc/stat on the first computing rank's host at start and end, or none.
    """

    wattio_hpcio: int = Field(ge=VERSION, le=VERSION)
    host: str
    boot: str
    mpi: str
    plan: PlannedRun
    domain: Grid
    model_step_s: float
    arrangement: list[int]
    ranks: Annotated[int, Field(ge=1)]
    computing: Annotated[int, Field(ge=1)]
    start: Moment
    computed: Moment
    end: Moment
    dumps: Count
    synced: bool
    core_share: float | None = None
    dump_bytes: Count
    step_s: Spread
    dump_s: Spread
    blocked_s: Spread
    blocked_s_slowest: Spread
    cpu_s_computing: float
    cpu_s_writing: float
    checks: Checked
    account: Account
    ticks: list[str] = Field(default=[])

    @property
    def nodes(self) -> int:
        """Machines, or those that were emulated."""
        return len({rank.node for rank in self.account.ranks})

    @property
    def write_s_slowest_mean(self) -> float | None:
        """How long the slowest rank was busy writing a dump, in the mean over dumps."""
        slowest: dict[int, float] = {}
        for rank in self.account.ranks:
            for dump in rank.dumps:
                if dump.files and not dump.dropped:
                    slowest[dump.step] = max(slowest.get(dump.step, 0.0), dump.write_s)
        return sum(slowest.values()) / len(slowest) if slowest else None

    @property
    def dumps_whole(self) -> int:
        """How many dumps reached their files: no part of them was dropped or failed."""
        lost = {*self.account.dropped, *map(int, self.account.errors)}
        return max(0, self.dumps - len(lost))

    @property
    def seconds(self) -> float:
        """From the first step until the last dump was written."""
        return (self.end[1] - self.start[1]) / 1e9

    @property
    def drain_s(self) -> float:
        """From the last step until the last dump was written."""
        return (self.end[1] - self.computed[1]) / 1e9

    def placed(self, clocks: Mapping[str, Offset]) -> Report:
        """With its moments by the clocks of this host, where the offset of its own is known."""
        offset = clocks.get(self.boot)
        if offset is None:
            return self
        moments = {name: getattr(self, name) for name in ("start", "computed", "end")}
        here = {name: [*offset.here(Instant(*moment))] for name, moment in moments.items()}
        return self.model_copy(update=here)

    def span(self, boot: str, clocks: Mapping[str, Offset] | None = None) -> Span:
        """The run on the clocks of this host, whose boot is given; `clocks` are of others."""
        if boot == self.boot:
            return Span(RUN, Instant(*self.start), Instant(*self.end))
        if clocks and self.boot in clocks:
            found = self.placed(clocks)
            return Span(RUN, Instant(*found.start), Instant(*found.end))
        start, end = clock.at_utc(self.start[0]), clock.at_utc(self.end[0])
        return Span(RUN, start, max(start, end, key=lambda moment: moment.monotonic_ns))

    def core_ticks(self, boot: str) -> tuple[dict[int, Ticks], dict[int, Ticks]] | None:
        """Ticks of each core at start and end, where the host is that of a boot; else None."""
        if len(self.ticks) != 2 or boot != self.boot:
            return None
        try:
            return parse_stat(self.ticks[0]), parse_stat(self.ticks[1])
        except ValueError:
            return None

    def errors(self) -> list[str]:
        """What went wrong with dumps, each with its step."""
        return [
            f"dump of step {step}: {text}"
            for step, texts in self.account.errors.items()
            for text in texts
        ]


def parse(output: str) -> Report:
    """The report among the lines of a run's output. Raises ResultError, also with a refusal."""
    if refusals := rank_report.lines_of(HPCIO_REFUSED, output):
        raise ResultError(_refusal(refusals[0]))
    if rank_report.lines_of(TWIN_REPORT, output):
        printed = rank_report.parse(hpcio_twins.Printed, TWIN_REPORT, output, "a run")
        try:
            return Report.model_validate_json(json.dumps(hpcio_twins.as_report(printed)))
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise ResultError(f"the report of a run is damaged: {error}") from None
    return rank_report.parse(Report, HPCIO_REPORT, output, "a run")


def _refusal(line: str) -> str:
    try:
        return str(json.loads(line)[HPCIO_REFUSED])
    except (ValueError, RecursionError):
        return "could not start, for an unknown reason"


def read(path: Path) -> Report:
    """The report in a file. Raises ResultError."""
    return rank_report.read(path, parse)


def reasons(errors: str) -> list[str]:
    """Why ranks ended early, each said once, by what they left on standard error.

    Launchers tell at length that a rank has ended, and not why. Raised errors and signals come
    first, as ranks that miss others say so too.
    """
    raised: dict[str, None] = {}
    said: dict[str, None] = {}
    for found in _REASON.finditer(errors):
        if found["said"]:
            said[found["said"]] = None
        else:
            raised[found["why"] or found["other"]] = None
    for found in _KILLED.finditer(errors):
        text = f"rank {found['rank']} on {found['host']} was killed by signal {found['signal']}"
        raised[text] = None
    plain = ("".join(c if c.isprintable() else " " for c in text) for text in [*raised, *said])
    return [text.strip() for text in plain if text.strip()]


def steps_done(path: Path) -> int:
    """The number of the last step that a run has told of; 0 where it has not."""
    try:
        found = _STEP.findall(path.read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return 0
    return int(found[-1]) if found else 0
