"""Training: its schedule against the equations that define it, and what the program reads."""

from __future__ import annotations

import heapq
import json
import socket
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from wattio.errors import ResultError
from wattio.workloads import invocation, training, training_reader
from wattio.workloads.training_reader import Task
from wattio.workloads.training_schedule import (
    BLOCK,
    MODELS,
    MOST_SHARE,
    Dataset,
    Loader,
    Model,
    starts_s,
    utilisation,
)

from .nbd_fake import listening, serving

MIB = 1 << 20
SMALL = Model(samples=3, sample_bytes=20_000, computation_s=0.002, transfer_bytes=8192)


def played(
    took: Sequence[int], batch: int, readers: int, prefetch: int, computation: int
) -> list[int]:
    """When each batch is ready, event by event: the program's `Loader` in made-up time."""
    steps = len(took) // batch
    loader = Loader(batch, steps, readers, prefetch)
    queues = [list(loader.samples_of(reader)) for reader in range(readers)]
    ready, busy = [0] * steps, [False] * readers
    events: list[tuple[int, int, int]] = []  # time, sample or -1 for the end of a step, reader
    now, computing, taken = 0, False, 0
    while True:
        if not computing and loader.is_ready():
            loader.take()
            taken, computing = taken + 1, True
            heapq.heappush(events, (now + computation, -1, 0))
        for reader, queue in enumerate(queues):
            if queue and not busy[reader] and loader.may_begin(queue[0]):
                busy[reader] = True
                sample = queue.pop(0)
                heapq.heappush(events, (now + took[sample], sample, reader))
        if not events:
            assert taken == steps
            return ready
        now, sample, reader = heapq.heappop(events)
        if sample < 0:
            computing = False
            continue
        busy[reader] = False
        whole = loader.ended(sample)
        if whole is not None:
            ready[whole] = now


def defined(
    took: Sequence[int], batch: int, readers: int, prefetch: int, computation: int
) -> list[int]:
    """The same by its definition: each time is the latest of what it waits for."""

    @cache
    def start(step: int) -> int:
        if step < 0:
            return 0
        before = start(step - 1) + computation if step else 0
        return max(ready(step), before)

    @cache
    def ready(step: int) -> int:
        return max(end(sample) for sample in range(step * batch, (step + 1) * batch))

    @cache
    def end(sample: int) -> int:
        free = end(sample - readers) if sample >= readers else 0
        allowed = start(sample // batch - prefetch)
        return max(free, allowed) + took[sample]

    return [ready(step) for step in range(len(took) // batch)]


@given(
    st.integers(1, 5).flatmap(
        lambda batch: st.tuples(
            st.just(batch),
            st.integers(1, 8).flatmap(
                lambda steps: st.lists(
                    st.integers(1, 50), min_size=batch * steps, max_size=batch * steps
                )
            ),
        )
    ),
    st.integers(1, 6),
    st.integers(1, 4),
    st.integers(1, 60),
)
def test_batches_are_ready_when_the_equations_say(
    load: tuple[int, list[int]], readers: int, prefetch: int, computation: int
) -> None:
    batch, took = load
    arguments = took, batch, readers, prefetch, computation
    found = played(*arguments)
    assert found == defined(*arguments)
    share = utilisation([float(one) for one in found], float(computation))
    if len(found) < 2:
        assert share is None
        return
    # By looking at every tick between the end of the first step and that of the last.
    begun = [0]
    for number, ready in enumerate(found):
        begun.append(max(ready, begun[-1] + computation) if number else ready)
    begun = begun[1:]
    ticks = range(begun[0] + computation, begun[-1] + computation)
    busy = sum(any(one <= tick < one + computation for one in begun) for tick in ticks)
    assert share == pytest.approx(busy / len(ticks))
    assert [round(one) for one in starts_s([float(one) for one in found], computation)] == begun


def test_storage_that_keeps_up_leaves_no_accelerator_waiting() -> None:
    quick = played([1] * 40, batch=4, readers=4, prefetch=2, computation=10)
    assert utilisation([float(one) for one in quick], 10.0) == 1.0
    # Four readers of 10 ticks bring a batch of eight in 20, for a step of 10: half of the time.
    slow = played([10] * 8 * 50, batch=8, readers=4, prefetch=2, computation=10)
    assert utilisation([float(one) for one in slow], 10.0) == pytest.approx(0.5, abs=0.02)


@pytest.mark.parametrize("name", MODELS)
def test_the_requests_of_a_sample_follow_each_other_within_the_data(name: str) -> None:
    model = MODELS[name].scaled(0.02 if name.startswith("unet") else 1.0)
    data = Dataset(model, 64 * MIB, 4, (1, 0, 0))
    sizes = []
    for sample in range(400):
        reads = data.reads(sample)
        assert reads == data.reads(sample)
        for offset, size in reads:
            assert offset % BLOCK == size % BLOCK == 0
            assert offset >= 0
            assert offset + size <= 64 * MIB
            assert 0 < size <= model.transfer_bytes
        if not model.packed:
            ends = [offset + size for offset, size in reads]
            assert [offset for offset, _ in reads[1:]] == ends[:-1]
        sizes.append(sum(size for _, size in reads))
    mean = sum(sizes) / len(sizes)
    if not model.packed:
        assert mean == pytest.approx(model.sample_bytes, rel=0.1)
        assert max(sizes) <= MOST_SHARE * model.sample_bytes + BLOCK


def test_packed_samples_are_read_through_transfer_by_transfer() -> None:
    """Each reader has read as much as its samples need, and less than a transfer more."""
    model = MODELS["bert-v0.5"]
    data = Dataset(model, 64 * MIB, 4, (1,))
    for reader in range(4):
        read, needed = 0, 0.0
        offsets = []
        for sample in range(reader, 4 * 500, 4):
            reads = data.reads(sample)
            offsets += [offset for offset, _ in reads]
            read += sum(size for _, size in reads)
            needed += model.sample_bytes
            assert needed <= read < needed + model.transfer_bytes
        steps = {after - before for before, after in pairwise(offsets)}
        assert steps == {model.transfer_bytes}


def task(uri: str | None, file: Path | None, **more: object) -> Task:
    content: dict[str, object] = {
        "uri": uri,
        "file": None if file is None else str(file),
        "direct": False,
        "size_bytes": MIB,
        "model": SMALL,
        "accelerators": 2,
        "readers": 4,
        "prefetch": 2,
        "steps": 5,
        "seed": 1,
        "client": 0,
    }
    return Task.model_validate(content | more)


def test_the_program_reads_every_sample(tmp_path: Path) -> None:
    """From a device and from a file, the same bytes; each batch once, none before the one before
    it was taken long enough ago."""
    file = tmp_path / "data"
    file.write_bytes(bytes(MIB))
    with listening(tmp_path / "s", serving(bytes(MIB))) as uri:
        of_device = training_reader.run(task(uri, None))
    of_file = training_reader.run(task(None, file))
    for report in (of_device, of_file):
        for number, one in enumerate(report.accelerators):
            data = Dataset(SMALL, MIB, 4, (1, 0, number))
            wanted = [read for sample in range(15) for read in data.reads(sample)]
            assert one.requests == len(wanted)
            assert one.bytes == sum(size for _, size in wanted)
            begun = starts_s(one.ready_s, SMALL.computation_s)
            for step in range(2, 5):
                assert one.ready_s[step] >= begun[step - 2]


def test_a_task_goes_through_json(tmp_path: Path) -> None:
    sent = task(None, tmp_path)
    assert Task.model_validate_json(sent.model_dump_json()) == sent


def test_what_cannot_be_read_ends_all_of_it(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        training_reader.run(task(None, tmp_path / "none"))
    file = tmp_path / "short"
    file.write_bytes(bytes(100))
    with pytest.raises(OSError, match="short read of "):
        training_reader.run(task(None, file))
    served = serving(bytes(MIB))
    left = [3]

    def closing(connection: socket.socket) -> None:
        """After three connections there is nobody."""
        left[0] -= 1
        if left[0] >= 0:
            served(connection)

    with (
        listening(tmp_path / "s", closing) as uri,
        pytest.raises(OSError, match=r"closed the connection|reset by peer|Broken pipe"),
    ):
        training_reader.run(task(uri, None))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model": "unet"}, '"unet" is not known'),
        ({"model": "unet3d-h100", "dataset": "200 MiB"}, "a sample has up to 279.6 MiB"),
        ({"factor": 2.0}, "less than or equal to 1"),
    ],
)
def test_options_that_do_not_go_together(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        training.Options.model_validate(options)


def kept(raw: Path, *reports: str) -> None:
    moment = {"start_utc_ns": 0, "start_monotonic_ns": 0}
    end = {"end_utc_ns": 9_000_000_000, "end_monotonic_ns": 9_000_000_000}
    programs = []
    for number, text in enumerate(reports):
        (raw / f"{number}.json").write_text(text)
        program = {"arguments": ["p"], "out": f"{number}.json", "host": "localhost", "code": 0}
        programs.append({**program, **moment, **end})
    told = {"step": "train", "programs": programs, "facts": {"computation_s": 1.0}}
    (raw / invocation.FILE).write_text(json.dumps(told))


def report(*ready_s: list[float]) -> str:
    found = [{"ready_s": one, "bytes": 2 * MIB, "requests": 5} for one in ready_s]
    return json.dumps({"begun_utc_ns": 1, "accelerators": found})


def test_results_are_over_all_accelerators_of_all_clients(tmp_path: Path) -> None:
    kept(tmp_path, report([1.0, 2.0, 3.0], [1.0, 3.0, 5.0]), report([1.0, 1.0, 1.0]))
    (found,) = training.results(tmp_path)
    assert (found.bytes, found.operations) == (6 * MIB, 15)
    # The last step of the slowest began at 5 s, and computed for one.
    assert found.seconds == pytest.approx(6.0)
    assert found.throughput_mib_s == pytest.approx(1.0)
    assert found.shares[training.UTILISATION] == pytest.approx((1.0 + 0.5 + 1.0) / 3)
    assert found.shares["accelerator_utilisation_min"] == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("text", "message"),
    [("{}", "is not a training report"), (report([1.0]), "fewer than two steps")],
)
def test_damaged_reports_are_told(tmp_path: Path, text: str, message: str) -> None:
    kept(tmp_path, text)
    with pytest.raises(ResultError, match=message):
        training.results(tmp_path)
