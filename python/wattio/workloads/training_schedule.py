"""Training as storage sees it: which samples are read when, and how busy accelerators are.

The load of DLIO (Devarajan et al., "DLIO: A Data-Centric Benchmark for Scientific Deep Learning
Applications", CCGrid 2021): each step of an accelerator computes for a fixed time on a batch of
samples; readers read whole samples ahead, at most so many batches before the one that is computed
on. Amounts and times are those of MLPerf Storage, v0.5 and v1.0 (`MODELS`). Pure: no clock, no I/O.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

BLOCK = 4096
"""Requests begin and end at its multiples, so that they can go past the page cache."""


@dataclass(frozen=True)
class Model:
    """What one accelerator takes in a step.

    `samples` of a normally distributed size, then `computation_s`. Packed samples lie behind each
    other in one file that each reader reads through in requests of `transfer_bytes`; else each
    sample lies somewhere and is read from its begin to its end. `least` is the utilisation that
    MLPerf Storage asks for.
    """

    samples: int
    sample_bytes: float
    computation_s: float
    deviation_bytes: float = 0.0
    transfer_bytes: int = 1 << 20
    packed: bool = False
    least: float = 0.9

    def scaled(self, factor: float) -> Model:
        """Sizes and times by one factor: the same bytes a second, in shorter steps."""
        return Model(
            self.samples,
            self.sample_bytes * factor,
            self.computation_s * factor,
            self.deviation_bytes * factor,
            self.transfer_bytes,
            self.packed,
            self.least,
        )


MODELS = {
    "unet3d-v0.5": Model(4, 146.6e6, 1.3604, 68.3e6),
    "unet3d-a100": Model(7, 146.6e6, 0.636, 68.3e6),
    "unet3d-h100": Model(7, 146.6e6, 0.323, 68.3e6),
    "bert-v0.5": Model(48, 2500.0, 0.968, transfer_bytes=256 << 10, packed=True),
    "resnet50-h100": Model(400, 115e3, 0.224),
    "cosmoflow-h100": Model(1, 2.83e6, 0.0035, least=0.7),
}
"""Of MLPerf Storage v0.5, and of v1.0 (A100, H100), by model and accelerator."""

LEAST_SHARE, MOST_SHARE = 0.1, 2.0
"""A sample is no smaller, and no larger, than these shares of the mean: a normal size may be."""


@dataclass(frozen=True)
class Dataset:
    """Where the samples of one accelerator lie within so many bytes; the same for the same seed."""

    model: Model
    size_bytes: int
    readers: int
    seed: tuple[int, ...]

    def reads(self, sample: int) -> list[tuple[int, int]]:
        """The requests that bring a sample, as offset and size in bytes; none if it is there."""
        if self.model.packed:
            return self._packed(sample)
        generator = np.random.default_rng((*self.seed, sample))
        mean = self.model.sample_bytes
        drawn = float(generator.normal(mean, self.model.deviation_bytes))
        kept = min(max(drawn, LEAST_SHARE * mean), MOST_SHARE * mean)
        size = min(_up(round(kept)), self.size_bytes // BLOCK * BLOCK)
        start = int(generator.integers((self.size_bytes - size) // BLOCK + 1)) * BLOCK
        step = self.model.transfer_bytes
        return [(at, min(step, start + size - at)) for at in range(start, start + size, step)]

    def _packed(self, sample: int) -> list[tuple[int, int]]:
        """What the sample's reader does not have yet of its own part of the bytes."""
        reader, number = sample % self.readers, sample // self.readers
        step, size = self.model.transfer_bytes, self.model.sample_bytes
        there, wanted = (_transfers(count * size, step) for count in (number, number + 1))
        slots = max(1, self.size_bytes // self.readers // step)
        base = reader * slots
        last = max(1, self.size_bytes // step)
        return [((base + at % slots) % last * step, step) for at in range(there, wanted)]


def _transfers(size: float, step: int) -> int:
    """How many requests of a step bring so many bytes."""
    return -(-round(size) // step)


def _up(size: int) -> int:
    return max(BLOCK, -(-size // BLOCK) * BLOCK)


class Loader:
    """What is read and what may be, of one accelerator: batches are taken in their order.

    Sample k is the reader's `k % readers`, each of which reads its samples one after the other.
    """

    def __init__(self, batch: int, steps: int, readers: int, prefetch: int) -> None:
        """`prefetch` batches may be read, or be there, beyond those that were taken."""
        self._batch, self._readers, self._prefetch = batch, readers, prefetch
        self._left = [batch] * steps
        self._taken = 0

    def samples_of(self, reader: int) -> Iterator[int]:
        """A reader's samples, in the order in which it reads them."""
        return iter(range(reader, self._batch * len(self._left), self._readers))

    def may_begin(self, sample: int) -> bool:
        """Whether a sample may be read already."""
        return sample // self._batch < self._taken + self._prefetch

    def ended(self, sample: int) -> int | None:
        """A sample is there; its batch, if it was the last that this one waited for."""
        batch = sample // self._batch
        self._left[batch] -= 1
        return None if self._left[batch] else batch

    def is_ready(self) -> bool:
        """Whether the batch that comes next is there."""
        return self._taken < len(self._left) and self._left[self._taken] == 0

    def take(self) -> None:
        """The next batch is taken for its step."""
        self._taken += 1


def starts_s(ready_s: Sequence[float], computation_s: float) -> list[float]:
    """When each step begins: its batch is there, and the step before has ended. In seconds."""
    found: list[float] = []
    for ready in ready_s:
        found.append(max(ready, found[-1] + computation_s) if found else ready)
    return found


def utilisation(ready_s: Sequence[float], computation_s: float) -> float | None:
    """Share of the time in which the accelerator computes, without the first step.

    From the end of the first step to that of the last; None for fewer than two.
    """
    if len(ready_s) < 2:
        return None
    begun = starts_s(ready_s, computation_s)
    # Sums of steps that follow each other at once may be less than their product by rounding.
    return min(1.0, computation_s * (len(begun) - 1) / (begun[-1] - begun[0]))
