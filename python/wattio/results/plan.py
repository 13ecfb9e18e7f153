"""The plan of a study of any kind: its iterations, each with an identity."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Container
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from wattio.files.document import Document
from wattio.files.named import open_file
from wattio.results.runs import Run

Asked = TypeVar("Asked", covariant=True)


@dataclass(frozen=True)
class Iteration(Generic[Asked]):
    """One run under one seed, or one repetition of it; `request` is all that runs it.

    `identity` is the hash of everything that decides its result.
    """

    identity: str
    run: Run
    seed: int
    repetition: int
    request: Asked
    attempt: int = 0

    @property
    def name(self) -> str:
        """How a progress line names it."""
        again = f" repetition {self.repetition + 1}" if self.repetition else ""
        return f"{self.run.name} seed {self.seed}{again}"


@dataclass(frozen=True)
class Plan(ABC):
    """What is to be run: the study as given, and every iteration in its order."""

    source: Document
    iterations: tuple[Iteration[Any], ...]
    study: Any

    kind: ClassVar[str]

    @property
    def name(self) -> str:
        """The study's name."""
        return str(self.study.study.name)

    @property
    @abstractmethod
    def resolved(self) -> dict[str, Any]:
        """The study with every default filled in, as `resolved.toml` has it."""

    @property
    @abstractmethod
    def inputs(self) -> dict[str, Any]:
        """What the study reads and how it was asked for, as `inputs.json` has it."""

    @property
    def is_secret(self) -> bool:
        """Whether study and inputs hold passwords, and are for their owner alone."""
        return False

    @property
    def facts(self) -> dict[str, Any]:
        """What `machine.json` tells of the plan beside the machine."""
        return {}

    @property
    def runs(self) -> list[Run]:
        """Every run, in the order of the study."""
        return list({iteration.run.name: iteration.run for iteration in self.iterations}.values())

    @property
    def base(self) -> Path:
        """The folder that relative paths of the study begin at."""
        return self.source.path.resolve().parent

    @property
    def short_hash(self) -> str:
        """Seven hexadecimal digits over the identities of all iterations."""
        return digest([iteration.identity for iteration in self.iterations])[:7]

    def without(self, done: Container[str]) -> list[Iteration[Any]]:
        """The iterations that are not done."""
        return [item for item in self.iterations if item.identity not in done]


def digest(content: object) -> str:
    """The hash of anything that JSON can hold; what it cannot is taken as its text."""
    text = json.dumps(content, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def file_digest(path: Path) -> str:
    """The hash of what a file holds, which need not fit into memory. Raises OSError."""
    with open_file(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
