"""What a simulation holds: the same calls for all approaches, by libwattio_io."""

from __future__ import annotations

import atexit
import contextlib
import operator
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mpi4py import MPI

from wattio.errors import DumpFailed, InputError
from wattio.hpcio import account, blocks, leftovers, library, peers
from wattio.hpcio.account import Account, DumpRecord, RankAccount, Role
from wattio.hpcio.blocks import Block
from wattio.hpcio.config import Config
from wattio.hpcio.topology import emulated

if TYPE_CHECKING:
    import numpy as np

    from wattio.hpcio.blocks import Array

STEP_MAX = (1 << 63) - 1
"""Steps are words of 64 bits in shared memory and in files."""

Attributes = Mapping[str, float | str]


def start(comm: MPI.Intracomm, config: Config) -> Session:
    """Start the middleware on all ranks of a communicator; collective. Rank 0's `config` counts.

    Raises InputError where roles cannot be given or the output folder cannot be used, as where
    another job writes there; HostError where the library is missing or a writer does not start.
    """
    if MPI.COMM_WORLD.Get_size() > 1:
        # A single rank may have been started by hand, and outlive its shell.
        peers.end_with_launcher()
    if comm.Get_rank() == 0:
        with contextlib.suppress(OSError):
            # Of others, and no reason for this job not to start.
            leftovers.remove(time.time())
    own = comm.Dup()
    session = Session(own, own.bcast(config))
    _open.append(session)
    return session


_open: list[Session] = []
"""Sessions of this process that have not been closed, in the order of their starts."""


@atexit.register
def _tell_of_what_is_open() -> None:
    """Say why a program hangs that ends without closing: ranks that write wait for the others.

    Closing here would wait for ranks that may never come: nobody knows how the program ends.
    """
    if any(one.config.approach != "tp" for one in _open) and not MPI.Is_finalized():
        sys.stderr.write(
            f"wattio.hpcio: rank {MPI.COMM_WORLD.Get_rank()} ends without session.close(), "
            "for which ranks that write wait\n"
        )


class Session:
    """One rank's part in the dumps of a program."""

    def __init__(self, comm: MPI.Intracomm, config: Config) -> None:
        """`comm` becomes the session's own; `config` is the same on all ranks. Collective."""
        self.config = config
        self.rank = comm.Get_rank()
        machines = peers.machines(comm)
        per_node = config.ranks_per_node
        nodes = emulated(comm.size, per_node) if per_node else _counted(machines)
        self._comm = comm
        self._handle = _opened(comm, config, machines[self.rank])
        self.is_writer = self._handle.is_writer
        """Whether this rank only writes: all that it does then is to close."""

        self.compute_comm = comm.Split(MPI.UNDEFINED if self.is_writer else 0, self.rank)
        """The communicator of the ranks that compute; `MPI.COMM_NULL` on those that write.

        It is the program's own, after `close`, too.
        """
        role: Role = "writer" if self.is_writer else "compute"
        self._own = RankAccount(self.rank, nodes[self.rank], role)
        self._account: Account | None = None
        self._untold_anywhere: str | None = None
        """What failed, here or on another rank, and no call has told; from the end on."""

        self._wall_s, self._cpu_s = time.monotonic(), time.process_time()
        self._blocks: dict[str, tuple[Block, Array]] = {}
        self._known: dict[str, tuple[tuple[object, ...], Block, int]] = {}
        self._attributes: dict[tuple[int, str], float | str] = {}
        self._sent = config.approach == "dn"
        """Whether blocks are sent to another node: then they are this process's own memory."""

        self._held: dict[str, Array] = {}
        self._record = DumpRecord(-1)
        self._begun = False
        """Whether the library knows of the next dump."""

        self._last = -1
        """The step of the last dump."""

    def allocate(
        self,
        name: str,
        shape: Sequence[int] | int,
        dtype: np.dtype[Any] | type | str = "f8",
        global_shape: Sequence[int] | None = None,
        offset: Sequence[int] | None = None,
        attributes: Attributes | None = None,
    ) -> Array:
        """Memory for one variable of the next dump, to be filled before `end_dump`.

        Its content is arbitrary. Where the block lies in the global field (`offset` within
        `global_shape`, in elements) goes into the file, so that the field can be put together; so
        do `attributes`, as its unit: {"units": "m/s"}. May block while the buffer is full, by the
        policy. Raises InputError for a block that cannot be, or that is larger than the rank's
        share of the buffer: then the dump goes on without it.
        """
        self._check_open()
        block, number = self._declared(name, shape, dtype, global_shape, offset)
        if name in self._blocks:
            raise InputError(f"variable {name}: is already allocated for this dump")
        for key, value in (attributes or {}).items():
            known = (number, key) in self._attributes
            if not known or self._attributes[number, key] != value:
                self._handle.attribute(number, key, value)
                self._attributes[number, key] = value
        began_s = time.monotonic()
        try:
            if not self._begun:
                # Its number comes with its end.
                self._handle.begin_step(self._last + 1)
                self._begun = True
            data = self._memory(block, number)
        finally:
            self._record.blocked_s += time.monotonic() - began_s
        self._blocks[name] = block, data
        return data

    def _declared(
        self,
        name: str,
        shape: Sequence[int] | int,
        dtype: np.dtype[Any] | type | str,
        global_shape: Sequence[int] | None,
        offset: Sequence[int] | None,
    ) -> tuple[Block, int]:
        """The block and its number; those of the last dump if it is the same, as it mostly is."""
        given = (shape, dtype, global_shape, offset)
        known = self._known.get(name)
        # Others, such as lists, may change under our hands.
        kept = {type(shape), type(global_shape), type(offset)} <= {tuple, int, type(None)}
        if kept and known is not None and known[0] == given:
            return known[1:]
        block = blocks.make(name, self.rank, shape, dtype, global_shape, offset)
        if name in self._blocks:
            return block, -1
        kind = block.dtype[1:]
        if kind not in library.TYPES:
            allowed = ", ".join(library.TYPES)
            raise InputError(
                f"variable {name}: type {kind} cannot be written to dumps; allowed: {allowed}"
            )
        number = self._handle.declare(name, kind, block.shape, block.global_shape, block.offset)
        self._known[name] = given if kept else (), block, number
        return block, number

    def _memory(self, block: Block, number: int) -> Array:
        import numpy as np

        if self._sent:
            held = self._held.get(block.name)
            if held is None or (held.shape, held.dtype.str) != (block.shape, block.dtype):
                held = self._held[block.name] = np.empty(block.shape, block.dtype)
            # Read when the step ends, and refused now if it can have no room.
            self._handle.put(number, held.ctypes.data)
            return held
        lent = self._handle.allocate(number, block.bytes)
        return np.ndarray(block.shape, block.dtype, memoryview(lent))

    def end_dump(self, step: int, attributes: Attributes | None = None) -> None:
        """Hand over what was allocated since the last dump: arrays must not be used any more.

        `attributes` are of the dump, as the time that it shows: {"time": 0.5}. Raises InputError
        where nothing was allocated or the step is not above the last one, and DumpFailed where this
        dump, or one before, did not reach its file; the program may go on after it.
        """
        self._check_open()
        step = whole("end_dump", step)
        if not self._blocks:
            raise InputError(f"end_dump({step}): nothing was allocated for this dump")
        if step <= self._last:
            raise InputError(
                f"end_dump({step}): steps begin at 0 and rise; the last was {self._last}"
            )
        self._handle.number_step(step)
        for key, value in (attributes or {}).items():
            self._handle.attribute(None, key, value)
        handed, self._blocks, self._begun = self._blocks, {}, False
        record, self._record = self._record, DumpRecord(-1)
        record.step = step
        record.bytes = sum(block.bytes for block, _ in handed.values())
        self._own.dumps.append(record)
        self._last = step
        began_s = time.monotonic()
        try:
            self._handle.end_step()
        finally:
            record.blocked_s += time.monotonic() - began_s

    def flush(self) -> None:
        """Wait until everything that was handed over is written.

        Raises DumpFailed where dumps failed of which no call has told yet.
        """
        self._check_open()
        self._handle.flush()

    def is_durable(self, step: int) -> bool:
        """Whether a dump is whole on all ranks and visible; with `sync`, on the disk.

        Raises DumpFailed where it never will be, and InputError for one that was not handed over.
        """
        self._check_open()
        return self._handle.is_durable(whole("is_durable", step))

    def wait_durable(self, step: int, timeout_s: float | None = None) -> bool:
        """Wait until a dump is durable, or until a time is over; whether it is.

        A time of 0 or less is over at once. Raises as `is_durable`.
        """
        self._check_open()
        # Below 0 the library waits without limit.
        seconds = -1.0 if timeout_s is None else max(timeout_s, 0.0)
        try:
            self._handle.wait_durable(whole("wait_durable", step), seconds)
        except library.TimedOut:
            return False
        return True

    def close(self) -> Account:
        """Wait until all dumps are written; the account: of all ranks on rank 0. Collective.

        On a rank that only writes this comes back when the simulation has closed its session. What
        was allocated for a dump that never ended is left out. Raises DumpFailed where dumps failed
        of which no call has told yet, on any rank: then on all, so that none leaves as if nothing
        had happened while another ends the program. The error's `account` is what would have been
        returned.
        """
        if self._account is None:
            if self in _open:
                _open.remove(self)
            self._blocks, self._held = {}, {}
            report, self._untold_anywhere = self._handle.close()
            self._account = self._gathered(report)
            self._comm.Free()
        untold, self._untold_anywhere = self._untold_anywhere, None
        if untold is not None:
            error = DumpFailed(untold)
            error.account = self._account
            raise error
        return self._account

    def _check_open(self) -> None:
        if self._account is not None or self.is_writer:
            raise InputError("the session has ended, or this rank only writes (is_writer)")

    def _gathered(self, report: dict[str, Any]) -> Account:
        """The account: on rank 0 of all ranks, elsewhere this rank's. Collective."""
        own = self._own
        # On rank 0 the report has all ranks; each has the dumps of its own writer only.
        mine: dict[str, Any] = next(
            (one for one in report["ranks"] if one["rank"] == self.rank), {}
        )
        texts = _reasons(report) if self.rank == 0 else None
        account.settle(own, mine, self._comm.bcast(texts))
        own.wall_s = time.monotonic() - self._wall_s
        own.cpu_s = time.process_time() - self._cpu_s
        everybody = self._comm.gather(own)
        return Account(self.config.approach_text, everybody or [own])


def _opened(comm: MPI.Intracomm, config: Config, machine: int) -> library.Handle:
    """Open the library's session; the configuration goes to it as a file that only it sees."""
    functions = peers.of(comm, machine)
    if comm.rank:
        return library.Handle(functions, None)
    with tempfile.TemporaryFile() as file:
        file.write(config.text(library.hdf5()).encode())
        file.flush()
        return library.Handle(functions, Path(f"/proc/self/fd/{file.fileno()}"))


def _counted(machines: Sequence[int]) -> tuple[int, ...]:
    """The node of each rank: machines, in the order of their first ranks."""
    numbers = {first: number for number, first in enumerate(dict.fromkeys(machines))}
    return tuple(numbers[first] for first in machines)


def _reasons(report: dict[str, Any]) -> dict[int, str]:
    """Why dumps failed, by their steps, as writers tell."""
    return {
        step: text
        for one in report["ranks"]
        if one["writer"]
        for step, text in one["writer"]["failed"]
    }


def whole(call: str, step: object) -> int:
    """The step of a call as a plain number. Raises InputError."""
    try:
        found = operator.index(step)  # type: ignore[arg-type]
    except TypeError:
        raise InputError(f"{call}({step!r}): the step is not a whole number") from None
    if found > STEP_MAX:
        raise InputError(f"{call}({found}): the step must be {STEP_MAX} or less")
    return found
