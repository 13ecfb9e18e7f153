"""Training on accelerators, as DLIO makes it: batches read ahead while steps compute.

    [[workload]]
    name = "unet3d"
    kind = "training"
    options = { model = "unet3d-h100", accelerators = 2, factor = 0.05, dataset = "1 GiB" }

Nothing is computed and there are no accelerators: each sleeps for the time that a step takes, and
what counts is how much of the time they would compute (`accelerator_utilisation`, mean of all of
them, without their first step). `factor` makes samples and steps smaller together, so that the
bytes a second are those of the model. What is read has been written in full before.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError, field_validator, model_validator

from wattio.clock import Span
from wattio.errors import ResultError, WorkloadFailed
from wattio.files.document import Strict, in_words, nearest
from wattio.files.quantity import Size
from wattio.workloads import fio, invocation, processes, training_schedule
from wattio.workloads.processes import Program
from wattio.workloads.training_reader import Report, Task
from wattio.workloads.training_schedule import MODELS, MOST_SHARE, Model
from wattio.workloads.workload import LOCAL, Context, Operation, Place

STEP = "train"
UTILISATION = "accelerator_utilisation"

_PROGRAM = "wattio.workloads.training_reader"
_MIB = 1 << 20


class Options(Strict):
    """The model, how many accelerators each client has, and how much of it all."""

    model: str = "unet3d-h100"  # what is trained, and on which accelerator
    accelerators: int = Field(default=1, ge=1, le=1024)  # of each client
    steps: int = Field(default=20, ge=2, le=1_000_000)  # batches that each accelerator computes
    factor: float = Field(default=1.0, gt=0, le=1)  # scales sizes and times of the model together
    dataset: Size = 1024.0 * _MIB  # what samples are drawn from
    readers: int = Field(default=4, ge=1, le=256)  # threads of each accelerator that read
    prefetch: int = Field(default=2, ge=1, le=1024)  # batches read ahead of the one computed on
    # Read a folder's file past the page cache; a block device's server has caches of its own.
    direct: bool = True
    seed: int = Field(default=1, ge=0, lt=2**32)  # order and sizes of samples are drawn from it

    @field_validator("model")
    @classmethod
    def _known_model(cls, model: str) -> str:
        if model not in MODELS:
            raise ValueError(f'"{model}" is not known; {nearest(model, list(MODELS))}')
        return model

    @model_validator(mode="after")
    def _agree(self) -> Options:
        largest = MOST_SHARE * self.scaled.sample_bytes
        if self.dataset < max(largest, self.readers * self.scaled.transfer_bytes):
            raise ValueError(
                f"dataset: a sample has up to {largest / _MIB:.4g} MiB; make it larger, or the"
                " factor smaller"
            )
        return self

    @property
    def scaled(self) -> Model:
        """The model, made smaller by the factor."""
        return MODELS[self.model].scaled(self.factor)


class Work:
    """Training with its options; fio writes what is read."""

    def __init__(self, options: Options, base: Path) -> None:
        """There are no files beside the study."""
        self._options = options
        self._base = base

    def probe(self) -> None:
        """Raise HostError where fio, which writes the data, is missing."""
        self._layout(None).probe()

    def _layout(self, place: Place | None) -> fio.Work:
        engine = "psync" if place is None or place.uri is None else fio.NBD
        job = {"name": "layout", "rw": "read", "bs": "1 MiB", "ioengine": engine}
        size = f"{round(self._options.dataset)} B"
        return fio.Work(fio.Options.model_validate({"jobs": [{**job, "size": size}]}), self._base)

    def describe(self) -> dict[str, Any]:
        """The options, what MLPerf Storage asks for, and the bytes a second of one accelerator."""
        model = self._options.scaled
        return {
            **self._options.model_dump(mode="json"),
            "utilisation_least": model.least,
            "bytes_per_s": model.samples * model.sample_bytes / model.computation_s,
        }

    def steps(self) -> tuple[str, ...]:
        """One."""
        return (STEP,)

    def seconds_guess(self, clients: int) -> float:
        """If storage keeps up; and a second for the start."""
        return 1.0 + self._options.steps * self._options.scaled.computation_s

    def bytes_needed(self, clients: int) -> float:
        """A file for each client."""
        return self._options.dataset * clients

    def prepare(self, context: Context) -> None:
        """Write what will be read. Raises WorkloadFailed."""
        self._layout(context.places[0]).prepare(context)

    def run(self, step: str, context: Context) -> list[Span]:
        """Train in all clients side by side. Raises WorkloadFailed."""
        programs = []
        for number, place in enumerate(context.places):
            if place.host != LOCAL:
                raise WorkloadFailed(f"training runs only on this machine, not on {place.host}")
            folder = fio.folder_of(place, number, context.clients)
            task = self._task(number, place, folder).model_dump_json()
            arguments = (sys.executable, "-m", _PROGRAM, task)
            out, err = (context.raw / f"client-{number}.{end}" for end in ("json", "err"))
            programs.append(Program(arguments, out, err, folder=context.raw))
        ended = processes.run_all(programs, context.cancelled)
        computation_s = self._options.scaled.computation_s
        ran = invocation.keep(context.raw, step, ended, computation_s=computation_s)
        return [ran.span()]

    def _task(self, number: int, place: Place, folder: Path) -> Task:
        options = self._options
        file = folder / "data.0.0"
        return Task(
            uri=place.uri,
            file=None if place.uri is not None else str(file),
            direct=options.direct,
            size_bytes=round(options.dataset),
            model=options.scaled,
            accelerators=options.accelerators,
            readers=options.readers,
            prefetch=options.prefetch,
            steps=options.steps,
            seed=options.seed,
            client=number,
        )

    def clean(self, context: Context) -> None:
        """Remove the files."""
        self._layout(context.places[0]).clean(context)


def results(raw: Path) -> list[Operation]:
    """What was read, and how busy accelerators were, over all clients. Raises ResultError."""
    ran = invocation.recall(raw)
    computation_s = ran.facts.get("computation_s")
    if not isinstance(computation_s, float):
        raise ResultError(f"{raw / invocation.FILE}: does not say how long a step computes")
    reports = [_report(raw, program) for program in ran.programs]
    found = [one for report in reports for one in report.accelerators]
    busy = [training_schedule.utilisation(one.ready_s, computation_s) for one in found]
    known = [share for share in busy if share is not None]
    if not known or len(known) < len(found):
        raise ResultError(f"{raw}: an accelerator made fewer than two steps")
    span, moved = ran.span(), sum(one.bytes for one in found)
    ends_s = (training_schedule.starts_s(one.ready_s, computation_s)[-1] for one in found)
    seconds = computation_s + max(ends_s)
    requests = sum(one.requests for one in found)
    return [
        Operation(
            operation="read",
            phase=ran.step,
            seconds=seconds,
            bytes=moved,
            operations=requests,
            throughput_mib_s=moved / _MIB / seconds,
            iops=requests / seconds,
            start_utc_ns=span.start.utc_ns,
            end_utc_ns=span.end.utc_ns,
            shares={UTILISATION: sum(known) / len(known), f"{UTILISATION}_min": min(known)},
        )
    ]


def _report(raw: Path, program: invocation.ProgramRun) -> Report:
    text = invocation.text_of(raw, program)
    try:
        return Report.model_validate_json(text)
    except ValidationError as error:
        what = in_words(error.errors()[0]["msg"])
        raise ResultError(f"{raw / program.out}: is not a training report: {what}") from None
