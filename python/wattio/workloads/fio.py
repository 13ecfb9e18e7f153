"""fio: any job file, or jobs written into the study; one invocation for each step.

Each client runs a fio of its own in a folder of its own, side by side; those on other hosts are
begun at one moment. (`fio --client` would need a server on each host, of the same version, and
begins when each has the job.) Files that are read are laid out in `prepare`, where nothing is
measured.

On a system that serves a block device over NBD all jobs have `ioengine = "nbd"`; the part of the
device that they work on is written in full in `prepare`, whatever they do.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from wattio.clock import Instant, Span
from wattio.errors import HostError, ResultError, WorkloadFailed
from wattio.files.document import Strict, text_of
from wattio.files.quantity import Bytes, Seconds, SecondsOrZero, Size
from wattio.workloads import fio_job, fio_output, invocation, processes
from wattio.workloads.fio_job import Group, Section
from wattio.workloads.nbd_client import Connection, NbdError, Watch
from wattio.workloads.processes import Program
from wattio.workloads.workload import LOCAL, Context, Operation, Place

HINT = "apt install fio"
VERSION_LEAST = (3, 0)
FOLDER = "wattio-fio"
AT_HOSTS = {"fio": "fio"}
NBD = "nbd"
"""fio's engine for block devices over NBD."""

NS_OF_MS = 1_000_000

_FILL = "fill"
_GUESS_BYTES_PER_S = 100e6
_GUESS_START_S = 1.0

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
Word = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.:,/-]{1,64}$")]
Pattern = Literal["read", "write", "rw", "readwrite", "randread", "randwrite", "randrw"]


class JobEntry(Strict):
    """`[[workload.jobs]]`: one step, as fio's options of the same names.

    Jobs with one `file` work on the same files, so that a later step reads what an earlier wrote.
    """

    name: Name  # what results call the step
    rw: Pattern  # which requests, in which order
    bs: Bytes  # size of a request
    size: Size  # of each job's file
    runtime: Seconds | None = None  # at most so long
    # Go on for all of `runtime`, again from the file's beginning if need be.
    time_based: bool = False
    ramp_time: SecondsOrZero = 0.0  # runs before anything counts
    iodepth: int = Field(default=1, ge=1, le=65536)  # requests in flight of each job
    # Jobs side by side on each client, each with a file of its own.
    numjobs: int = Field(default=1, ge=1, le=4096)
    direct: bool = False  # past the page cache (O_DIRECT)
    ioengine: Word = "psync"  # how fio asks for I/O
    # Written data counts when it has reached the disks.
    end_fsync: bool = True
    invalidate: bool = True  # forget what the page cache has of the file first
    file: Name = "data"  # the beginning of its files' names
    # Further options of fio.
    options: dict[Name, str | int | float | bool] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _consistent(self) -> JobEntry:
        if self.time_based and self.runtime is None:
            raise ValueError("time_based needs runtime")
        for key, value in self.options.items():
            if "\n" in str(value):
                raise ValueError(f"options: {key} holds a line break")
        return self

    @property
    def writes(self) -> bool:
        """Whether the job leaves whole files behind, so that a later one finds them."""
        return self.rw in ("write", "randwrite")

    def text(self) -> str:
        """The job as a job file."""
        settings: dict[str, object] = {
            "rw": self.rw,
            "bs": round(self.bs),
            "size": round(self.size),
            "ioengine": self.ioengine,
            "iodepth": self.iodepth,
            "numjobs": self.numjobs,
            "direct": int(self.direct),
            "end_fsync": int(self.end_fsync),
            "invalidate": int(self.invalidate),
            "filename_format": f"{self.file}.$jobnum.$filenum",
        }
        if self.runtime is not None:
            settings |= {"runtime": f"{round(self.runtime * 1e3)}ms"}
            settings |= {"time_based": int(self.time_based)}
        if self.ramp_time:
            settings |= {"ramp_time": f"{round(self.ramp_time * 1e3)}ms"}
        given = {key: int(v) if isinstance(v, bool) else v for key, v in self.options.items()}
        lines = [f"{key}={value}" for key, value in (settings | given).items()]
        return "\n".join([f"[{self.name}]", *lines, ""])

    def seconds_guess(self, clients: int) -> float:
        """How long it may take: its run time, or its size at 100 MB/s."""
        moving_s = self.size * self.numjobs * clients / _GUESS_BYTES_PER_S
        limit_s = self.runtime if self.runtime is not None else moving_s
        run_s = limit_s if self.time_based else min(limit_s, moving_s)
        return run_s + self.ramp_time + _GUESS_START_S


class Options(Strict):
    """What a study may say: a job file, or `[[...jobs]]`."""

    job: str | None = None  # the path of a job file, relative to the study
    jobs: list[JobEntry] = Field(default_factory=list)  # or its jobs
    latency_log: bool = False  # keep each request's, with times since 1970

    @model_validator(mode="after")
    def _consistent(self) -> Options:
        if (self.job is None) == (not self.jobs):
            raise ValueError("give either job (a job file) or jobs (tables)")
        names = [one.name for one in self.jobs]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f'two jobs are named "{name}"')
        return self


class Work:
    """fio with its options."""

    def __init__(self, options: Options, base: Path) -> None:
        """Paths are relative to `base`, the study's folder. Raises InputError (job file)."""
        self._options = options
        if options.job is None:
            text, name = "\n".join(one.text() for one in options.jobs), "jobs"
            self._groups = {
                one.name: group
                for one in options.jobs
                for group in fio_job.groups(one.text(), f"{name}: {one.name}")
            }
        else:
            text, name = text_of(base / options.job), options.job
            self._groups = {group.name: group for group in fio_job.groups(text, name)}
        self._text = text

    def probe(self) -> None:
        """Raise HostError where fio is missing or older than 3."""
        check_version(VERSION_LEAST)

    def describe(self) -> dict[str, Any]:
        """fio's version, and the job file as given."""
        return {"fio_version": processes.first_line(("fio", "--version")), "job": self._text}

    def steps(self) -> tuple[str, ...]:
        """A step for each group of jobs, named by its first job."""
        return tuple(self._groups)

    def seconds_guess(self, clients: int) -> float:
        """From run times and sizes; a minute for each group of a job file."""
        if self._options.job is not None:
            return 60.0 * len(self._groups)
        return sum(one.seconds_guess(clients) for one in self._options.jobs)

    def bytes_needed(self, clients: int) -> float:
        """The files of all jobs, of which some share theirs; 0 for a job file, which may do all."""
        files: dict[str, float] = {}
        for one in self._options.jobs:
            size = one.size * one.numjobs * clients
            files[one.file] = max(files.get(one.file, 0.0), size)
        return sum(files.values())

    def prepare(self, context: Context) -> None:
        """Lay out the files that are read before anything has written them."""
        if self._of_nbd():
            self._fill_devices(context)
            return
        written: set[str] = set()
        entries = {one.name: one for one in self._options.jobs}
        for name, group in self._groups.items():
            entry = entries.get(name)
            if entry is None or not (entry.writes or entry.file in written):
                raw = context.raw / f"layout-{name}"
                raw.mkdir(parents=True, exist_ok=True)
                self.run_group(group, context, raw, lambda _: {"create_only": "1"})
            elif entry.writes:
                written.add(entry.file)

    def _of_nbd(self) -> bool:
        return any(
            group.value(section, "ioengine") == NBD
            for group in self._groups.values()
            for section in group.sections
        )

    def _fill_devices(self, context: Context) -> None:
        """Write what the jobs will read, so that no server answers from what was never written.

        Clients of one device work on the same part of it; of a job file, on all of it. Raises
        WorkloadFailed.
        """
        wanted = max((round(one.size) for one in self._options.jobs), default=0)
        for uri in dict.fromkeys(place.uri for place in context.places if place.uri):
            size = _room(uri, wanted)
            lines = ("ioengine=nbd", "rw=write", "bs=1m", "iodepth=4", "end_fsync=1")
            raw = context.raw / _FILL
            raw.mkdir(exist_ok=True)
            one = next(place for place in context.places if place.uri == uri)
            alone = replace(context, places=(one,))
            group = Group(_FILL, (Section(_FILL, (*lines, f"size={size}")),))
            self.run_group(group, alone, raw, lambda _: {})

    def run(self, step: str, context: Context) -> list[Span]:
        """Run one group in all clients; the phase is what their measured windows share.

        Raises WorkloadFailed where fio failed, or a job tells of an error.
        """
        settings = {"lat_percentiles": "1"}
        if self._options.latency_log:
            settings |= {"write_lat_log": "latency", "log_unix_epoch": "1"}
        return self.measure(step, self._groups[step], context, lambda _: settings)

    def measure(
        self,
        step: str,
        group: Group,
        context: Context,
        settings: Callable[[Path], dict[str, str]],
    ) -> list[Span]:
        """Run a group whose settings depend on the client's folder. Raises WorkloadFailed."""
        ended = self.run_group(group, context, context.raw, settings)
        ran = invocation.keep(context.raw, step, ended)
        try:
            window = fio_output.window_of(_outputs(context.raw, ran))
        except ResultError as error:
            raise WorkloadFailed(f"fio: {error}") from error
        if window is None:
            raise WorkloadFailed(f'fio: "{step}" moved no data')
        return [_within(ran.whole(), window.start_utc_ns, window.end_utc_ns)]

    def clean(self, context: Context) -> None:
        """Remove the clients' files."""
        context.remove_folders(FOLDER)

    def run_group(
        self,
        group: Group,
        context: Context,
        raw: Path,
        settings: Callable[[Path], dict[str, str]],
    ) -> list[processes.Ended]:
        """Run a group in all clients, each with settings for its folder. Raises WorkloadFailed."""
        programs = []
        for number, place in enumerate(context.places):
            _check_engines(group, place)
            folder = folder_of(place, number, context.clients)
            context.make_folder(place, folder)
            own = settings(folder)
            if place.uri is not None:
                # fio knows an engine's options only after the engine.
                # Jobs are threads: processes would have sessions of their own, and outlive it.
                own = own | {"ioengine": NBD, "uri": place.uri, "thread": "1"}
            if "write_lat_log" in own:
                own = own | {"write_lat_log": f"{own['write_lat_log']}-{number}"}
            text = group.text(folder, own)
            (raw / f"client-{number}.fio").write_text(text, encoding="utf-8")
            programs.append(_program(number, text, place, raw))
        return processes.run_all(programs, context.cancelled, hosts=context.hosts)


def check_version(least: tuple[int, int], what_for: str = "") -> None:
    """Raise HostError where fio is missing or older, with what the version is needed for."""
    version = processes.first_line((processes.find("fio", HINT), "--version")) or ""
    told = re.match(r"fio-(\d{1,9})(?:\.(\d{1,9}))?", version)
    if told is None or (int(told[1]), int(told[2] or 0)) < least:
        why = f" {what_for}" if what_for else ""
        raise HostError(
            f"fio {least[0]}.{least[1]} or newer is needed{why}; this is {version or '?'}"
        )


def results(raw: Path) -> list[Operation]:
    """The results of a step, over all its clients. Raises ResultError."""
    ran = invocation.recall(raw)
    found = fio_output.operations(_outputs(raw, ran), ran.step)
    if _has_ramp(raw):
        found = [replace(one, uncounted="a ramp") for one in found]
    return found


def _has_ramp(raw: Path) -> bool:
    """Whether a job began with a ramp, of which fio counts nothing."""
    texts = (processes.text(path) for path in raw.glob("client-*.fio"))
    return any(re.search(r"^ramp_time *=(?! *0)", text, re.MULTILINE) for text in texts)


def _check_engines(group: Group, place: Place) -> None:
    """A block device takes jobs of the engine `nbd`, and no other place does."""
    for section in group.sections:
        if section.name == fio_job.GLOBAL:
            continue
        engine = group.value(section, "ioengine")
        if (engine == NBD) != (place.uri is not None):
            wanted = f'is served over NBD: it needs ioengine = "{NBD}"'
            what = wanted if place.uri else f"is a folder, not a block device over {NBD}"
            raise WorkloadFailed(f'fio: "{section.name}": the place of its client {what}')


def _room(uri: str, wanted: int) -> int:
    """How much of a device jobs work on: what they want, or all. Raises WorkloadFailed."""
    try:
        with Connection(uri) as connection:
            there = connection.size_bytes
    except NbdError as error:
        raise WorkloadFailed(f"fio: {error}") from error
    if there < wanted:
        raise WorkloadFailed(
            f"fio: jobs work on {wanted} bytes, but the device at {uri} has {there}: enlarge it"
            " or reduce their size"
        )
    return wanted or there


def _outputs(raw: Path, ran: invocation.Invocation) -> list[fio_output.Output]:
    found = []
    for program in ran.programs:
        output = fio_output.parse(invocation.text_of(raw, program))
        if failure := output.failure():
            raise ResultError(f"{raw / program.out}: {failure}")
        output = output.earlier(round(program.ahead_ns / NS_OF_MS))
        if output.written_ms is None:
            # An older client of servers leaves it out; it ends as soon as it has written.
            output = replace(output, written_ms=program.end_utc_ns // NS_OF_MS)
        found.append(output)
    return found


def _program(number: int, job: str, place: Place, raw: Path) -> Program:
    """A client's fio, where the client is."""
    name = f"client-{number}"
    words = ("--output-format=json+", "--eta=never", f"{name}.fio")
    out, err = raw / f"{name}.json", raw / f"{name}.err"
    if place.host != LOCAL:
        files = {f"{name}.fio": job.encode()}
        return Program(("fio", *words), out, err, host=place.host, files=files, bring="*.log*")
    # fio 3.33 waits for ever, and busily, for a server of NBD that has gone.
    watch = None if place.uri is None else Watch(place.uri)
    return Program((processes.find("fio", HINT), *words), out, err, folder=raw, watch=watch)


def folder_of(place: Place, number: int, clients: int) -> Path:
    """The folder of a client's files: those of one file system may see each other's."""
    folder = place.folder / FOLDER / (f"client-{number}" if clients > 1 else "")
    return folder.resolve() if place.host == LOCAL else folder


def _within(whole: Span, start_utc_ns: int, end_utc_ns: int) -> Span:
    """A window that is known by its wall clock, on both clocks, inside its program's run."""

    def placed(utc_ns: int) -> Instant:
        # The offset of the clocks at the program's end: later it may have been changed.
        monotonic_ns = utc_ns - whole.end.utc_ns + whole.end.monotonic_ns
        kept_ns = min(max(monotonic_ns, whole.start.monotonic_ns), whole.end.monotonic_ns)
        return Instant(utc_ns + kept_ns - monotonic_ns, kept_ns)

    return Span(whole.name, placed(start_utc_ns), placed(end_utc_ns))
