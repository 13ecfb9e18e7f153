"""What a simulation holds: the same calls for all approaches. Here, what they have in common."""

from __future__ import annotations

import faulthandler
import operator
import os
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from mpi4py import MPI

from wattio.errors import DumpFailed, InputError
from wattio.hpcio import blocks, parts, patience
from wattio.hpcio.account import Account, DumpRecord, RankAccount
from wattio.hpcio.blocks import Block
from wattio.hpcio.config import Config
from wattio.hpcio.dumps import Dumps
from wattio.hpcio.notes import Note
from wattio.hpcio.output_lock import Lock
from wattio.hpcio.topology import Topology

if TYPE_CHECKING:
    import numpy as np

    from wattio.hpcio.blocks import Array

_ABORT_S = 3.0
"""How long MPI_Abort may take."""

STEP_MAX = (1 << 63) - 1
"""Steps are words of 64 bits in shared memory and in files."""


class Session(ABC):
    """One rank's part in the dumps of a program."""

    is_writer = False
    lock: Lock | None = None
    """What keeps other jobs out of the output folder; on rank 0."""

    def __init__(
        self, comm: MPI.Intracomm, config: Config, topology: Topology, compute_comm: MPI.Comm
    ) -> None:
        """Ranks are those of `comm`, which is the session's own; collective."""
        self.config = config
        self.topology = topology
        self.compute_comm = compute_comm
        """The communicator of the ranks that compute; `MPI.COMM_NULL` on those that write.

        It is the program's own, after `close`, too.
        """
        self.rank = comm.Get_rank()
        self.dumps = Dumps(config.output, config.approach_text, topology.computing, config.sync)
        self._comm = comm
        self._own = RankAccount(
            self.rank, topology.nodes[self.rank], "writer" if self.is_writer else "compute"
        )
        self._account: Account | None = None
        self._untold_anywhere: str | None = None
        """What failed, here or on another rank, and no call has told; from the end on."""

        self._wall_s, self._cpu_s = time.monotonic(), time.process_time()
        self._blocks: dict[str, tuple[Block, Array]] = {}
        self._known: dict[str, tuple[tuple[object, ...], Block]] = {}
        self._record = DumpRecord(-1)
        self._last = -1
        """The step of the last dump."""
        self._told = 0
        """How many failures of this rank's writer have been told."""

    def allocate(
        self,
        name: str,
        shape: Sequence[int] | int,
        dtype: np.dtype[Any] | type | str = "f8",
        global_shape: Sequence[int] | None = None,
        offset: Sequence[int] | None = None,
    ) -> Array:
        """Memory for one variable of the next dump, to be filled before `end_dump`.

        Its content is arbitrary. Where the block lies in the global field (`offset` within
        `global_shape`, in elements) goes into the file, so that the field can be put together.
        May block while the buffer is full, by the policy. Raises InputError for a block that
        cannot be, or that is larger than the buffer.
        """
        self._check_open()
        block = self._block(name, shape, dtype, global_shape, offset)
        if name in self._blocks:
            raise InputError(f"variable {name}: is allocated already for this dump")
        began_s = time.monotonic()
        try:
            data = self._allocate(block)
        finally:
            self._record.blocked_s += time.monotonic() - began_s
        self._blocks[name] = block, data
        return data

    def _block(
        self,
        name: str,
        shape: Sequence[int] | int,
        dtype: np.dtype[Any] | type | str,
        global_shape: Sequence[int] | None,
        offset: Sequence[int] | None,
    ) -> Block:
        """The block; that of the last dump if it is the same, as it mostly is."""
        given = (shape, dtype, global_shape, offset)
        known = self._known.get(name)
        # Others, such as lists, may change under our hands.
        kept = {type(shape), type(global_shape), type(offset)} <= {tuple, int, type(None)}
        if kept and known is not None and known[0] == given:
            return known[1]
        block = blocks.make(name, self.rank, shape, dtype, global_shape, offset)
        if kept:
            self._known[name] = given, block
        return block

    def end_dump(self, step: int) -> None:
        """Hand over what was allocated since the last dump: arrays must not be used any more.

        Raises InputError where nothing was allocated or the step is not above the last one, and
        DumpFailed where this dump, or one before, did not reach its file; the program may go on
        after it.
        """
        self._check_open()
        step = whole(step)
        if not self._blocks:
            raise InputError(f"end_dump({step}): nothing was allocated for this dump")
        if step <= self._last:
            raise InputError(
                f"end_dump({step}): steps begin at 0 and rise; the last was {self._last}"
            )
        self._last = step
        record, handed = self._record, list(self._blocks.values())
        self._record, self._blocks = DumpRecord(-1), {}
        record.step = step
        record.bytes = sum(block.bytes for block, _ in handed)
        self._own.dumps.append(record)
        began_s = time.monotonic()
        try:
            self._end_dump(record, handed)
        finally:
            record.blocked_s += time.monotonic() - began_s

    def close(self) -> Account:
        """Wait until all dumps are written; the account: of all ranks on rank 0. Collective.

        What was allocated for a dump that never ended is left out. Raises DumpFailed where dumps
        failed of which no call has told yet, on any rank: then on all, so that none leaves as if
        nothing had happened while another ends the program. The error's `account` is what would
        have been returned.
        """
        if self._account is None:
            self._blocks = {}
            self._account = self._gather(self._finish())
        if self.lock is not None:
            self.lock.close()
        untold, self._untold_anywhere = self._untold_anywhere, None
        if untold is not None:
            error = DumpFailed(untold)
            error.account = self._account
            raise error
        return self._account

    def write_part(
        self, record: DumpRecord, ranks: tuple[int, ...], handed: Sequence[tuple[Block, Array]]
    ) -> Note:
        """Write this process's part of a dump and fill the record; the note to be left."""
        began_s = time.monotonic()
        try:
            path = self.dumps.begin(record.step) / parts.file_name(self.rank)
            facts = parts.write(path, record.step, self.rank, handed, self.config)
        except parts.PartFailed as error:
            record.error = str(error)
            return Note(self.rank, ranks, error=record.error)
        finally:
            record.write_s += time.monotonic() - began_s
        record.files += 1
        return Note(self.rank, ranks, facts)

    def leave(self, record: DumpRecord, note: Note) -> None:
        """Leave the note of a dump; what fails then is the dump's error, too."""
        trouble = self.dumps.leave(record.step, note)
        if trouble is not None and record.error is None:
            record.error = trouble

    def _untold(self, count: int, step: int, text: str) -> str | None:
        """The last of so many failures of a writer; None where all of them have been told."""
        new = count - self._told
        self._told = count
        if new == 0:
            return None
        return f"dump of step {step}: {text}" + (f" (and {new - 1} more)" if new > 1 else "")

    @abstractmethod
    def _allocate(self, block: Block) -> Array:
        """Memory for a block."""

    @abstractmethod
    def _end_dump(self, record: DumpRecord, handed: list[tuple[Block, Array]]) -> None:
        """Hand a dump over."""

    @abstractmethod
    def _finish(self) -> str | None:
        """Wait for the dumps on their way; what failed without having been told."""

    def lost(self, who: str) -> NoReturn:
        """End the program: a process that this one needs has died."""
        self._tell_of_death(who)
        self._abort()

    def gone(self, who: str) -> NoReturn:
        """As `lost`, from another thread: where MPI does not let it, the launcher has to notice."""
        self._tell_of_death(who)
        if MPI.Query_thread() == MPI.THREAD_MULTIPLE:
            self._abort()
        os._exit(1)

    def _abort(self) -> NoReturn:
        """End all ranks; this one even where the launcher, which MPI asks to do so, is stuck."""
        # MPI_Abort keeps Python's lock meanwhile: no thread of Python's could end this process.
        with Path(os.devnull).open("w") as nowhere:
            faulthandler.dump_traceback_later(_ABORT_S, exit=True, file=nowhere)
            self._comm.Abort(1)
        os._exit(1)

    def _tell_of_death(self, who: str) -> None:
        sys.stderr.write(f"wattio: rank {self.rank}: {who} has died; all ranks are ended\n")
        sys.stderr.flush()

    def _check_open(self) -> None:
        if self._account is not None or self.is_writer:
            raise InputError("the session has ended, or this rank only writes (is_writer)")

    def _gather(self, untold: str | None) -> Account:
        """The account; what failed and was not told becomes known to all ranks. Collective."""
        own = self._own
        all_ended = self._comm.Ibarrier()
        if self.is_writer:
            # One without clients is here from the start on.
            patience.wait(all_ended)
        own.wall_s = time.monotonic() - self._wall_s
        own.cpu_s = time.process_time() - self._cpu_s
        # Ranks that compute may have to wait for other nodes' writers.
        patience.wait(all_ended)
        account, failed = Account(self.config.approach_text, [own]), None
        everybody = self._comm.gather((own, self.dumps.published, untold))
        if everybody is not None:
            account.ranks = [rank for rank, _, _ in everybody]
            published = {step for _, steps, _ in everybody for step in steps}
            unseen = self._look_again(account, published)
            failed = next((text for *_, text in everybody if text), unseen)
        failed = self._comm.bcast(failed)
        self._comm.Free()
        self._untold_anywhere = untold or failed
        return account

    def _look_again(self, account: Account, published: set[int]) -> str | None:
        """Find what became of dumps of which no rank knows; the first that failed."""
        known = {*published, *account.dropped, *account.errors}
        first = None
        for step in account.steps:
            if step not in known and (error := self.dumps.look_again(step)) is not None:
                account.fail(step, error)
                first = first or f"dump of step {step}: {error}"
        return first


def whole(step: object) -> int:
    """The step as a plain number. Raises InputError."""
    try:
        found = operator.index(step)  # type: ignore[arg-type]
    except TypeError:
        raise InputError(f"end_dump({step!r}): a step is a whole number") from None
    if found > STEP_MAX:
        raise InputError(f"end_dump({found}): steps go up to {STEP_MAX}")
    return found


class Scratch:
    """Private memory for blocks, used again dump after dump."""

    def __init__(self) -> None:
        """Nothing is held yet."""
        self._held: dict[str, Array] = {}

    def array(self, block: Block) -> Array:
        """An array for a block; one that was handed out before under its name may be the same."""
        import numpy as np

        held = self._held.get(block.name)
        if held is None or held.shape != block.shape or held.dtype != np.dtype(block.dtype):
            held = self._held[block.name] = np.empty(block.shape, block.dtype)
        return held
