"""Progress of many iterations: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)

from wattio.results.plan import Iteration
from wattio.simulator.policies import BOUND_BY

ORACLE_WEIGHT = 25.0
"""How many plain simulations an oracle's search takes, about; only the bar depends on it."""


class Bar:
    """A bar while in this context; shown on a terminal only."""

    def __init__(
        self, console: Console, *columns: ProgressColumn, total: float, shown: bool = True
    ) -> None:
        """With a description before the bar, these columns and the remaining time after it."""
        self._console = console
        self._begun_s = time.monotonic()
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            *columns,
            TimeRemainingColumn(compact=True),
            console=console,
            transient=True,
            disable=not (shown and console.is_terminal),
        )
        self._task = self._bar.add_task("", total=total)

    def __enter__(self) -> Self:
        """Show the bar."""
        self._bar.start()
        return self

    def __exit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        """Take the bar away."""
        self._bar.stop()

    def _say(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)


class RunProgress(Bar):
    """Progress over all iterations of a study, with the remaining time."""

    def __init__(self, console: Console, iterations: Sequence[Iteration[Any]]) -> None:
        """The total is known from the start, so the remaining time is over all of them."""
        self._weight = {item.identity: weight_of(item) for item in iterations}
        self._share = dict.fromkeys(self._weight, 0.0)
        self._lock = threading.Lock()
        self._ended = 0
        total = sum(self._weight.values())
        super().__init__(console, TaskProgressColumn(), total=total or 1.0)
        self._bar.update(self._task, description=self._description())

    def watch(self, iteration: Iteration[Any], share: float) -> None:
        """Note how far an iteration is; may be called from any thread."""
        with self._lock:
            self._share[iteration.identity] = min(max(share, 0.0), 1.0)
            self._bar.update(self._task, completed=self._done())

    def ended(self, iteration: Iteration[Any]) -> None:
        """Note that an iteration has ended; where there is no bar, say so in a line."""
        self.watch(iteration, 1.0)
        with self._lock:
            self._ended += 1
            self._bar.update(self._task, description=self._description())
            if not self._console.is_terminal:
                self._say(f"[{self._ended}/{len(self._weight)}] {iteration.name}{self._left()}")

    def _done(self) -> float:
        return sum(self._share[key] * weight for key, weight in self._weight.items())

    def _description(self) -> str:
        return f"{self._ended} of {len(self._weight)} runs"

    def _left(self) -> str:
        done, total = self._done(), sum(self._weight.values())
        if self._ended == len(self._weight) or done <= 0:
            return ""
        left_s = (time.monotonic() - self._begun_s) * (total - done) / done
        return f", about {left_s:.0f} s left"


def weight_of(iteration: Iteration[Any]) -> float:
    """How many plain simulations an iteration takes, about."""
    return ORACLE_WEIGHT if iteration.run.policy == BOUND_BY else 1.0
