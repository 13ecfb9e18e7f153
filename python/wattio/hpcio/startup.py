"""Starting a session: nodes, roles, the output folder, and the approach's own part."""

from __future__ import annotations

import contextlib
import time

from mpi4py import MPI

from wattio.errors import InputError
from wattio.hpcio import launcher, leftovers, shared_file, topology
from wattio.hpcio.channels import Port
from wattio.hpcio.config import Config
from wattio.hpcio.core_writer import CoreWriter
from wattio.hpcio.cores import CoresSession
from wattio.hpcio.doorbells import ClientListener
from wattio.hpcio.dumps import Dumps
from wattio.hpcio.node_writer import NodeWriter
from wattio.hpcio.nodes import NodesSession
from wattio.hpcio.output_lock import Lock
from wattio.hpcio.session import Session
from wattio.hpcio.time_partitioning import PartitioningSession
from wattio.hpcio.time_partitioning_shared import SharedPartitioningSession
from wattio.hpcio.topology import Topology
from wattio.hpcio.writer import WritingSession
from wattio.hpcio.writer_group import WriterGroup


def start(comm: MPI.Intracomm, config: Config) -> Session:
    """Start the middleware on all ranks of a communicator; collective. Rank 0's `config` counts.

    On ranks that only write, this returns when the simulation has closed its session; the session
    that it returns has `is_writer` true and a `close` that tells the rank's account. Raises
    InputError where roles cannot be given or the output folder cannot be used, as where another job
    writes there.
    """
    if MPI.COMM_WORLD.Get_size() > 1:
        # A single rank may have been started by hand, and outlive its shell.
        launcher.end_with_it()
    own = comm.Dup()
    config = own.bcast(config)
    _check(own, config)
    roles = topology.plan(config, _nodes(own, config))
    error, lock = None, None
    if own.Get_rank() == 0:
        with contextlib.suppress(OSError):
            # Of others, and no reason for this job not to start.
            leftovers.remove(time.time())
        try:
            lock = Lock(config.output)
            Dumps(config.output, config.approach_text, roles.computing).prepare()
        except InputError as caught:
            error = str(caught)
    error = own.bcast(error)
    if error is not None:
        if lock is not None:
            lock.close()
        raise InputError(error)
    writes_only = own.Get_rank() not in roles.writer_of
    compute_comm = own.Split(MPI.UNDEFINED if writes_only else 0, own.Get_rank())
    if config.approach == "tp":
        kind = PartitioningSession if config.aggregation == "writer" else SharedPartitioningSession
        parting = kind(own, config, roles, compute_comm)
        parting.lock = lock
        return parting
    begin = _on_cores if config.approach == "dc" else _on_nodes
    session = begin(own, config, roles, compute_comm)
    session.lock = lock
    circle = MPI.COMM_NULL
    if config.aggregation == "dump":
        has_clients = own.Get_rank() in roles.writer_of.values()
        circle = own.Split(0 if has_clients else MPI.UNDEFINED, own.Get_rank())
    if isinstance(session, WritingSession):
        if isinstance(circle, MPI.Intracomm) and circle != MPI.COMM_NULL:
            session.circle = WriterGroup(circle, session.dumps, config, patient=True)
        session.run()
    return session


def _on_cores(
    own: MPI.Intracomm, config: Config, roles: Topology, compute_comm: MPI.Comm
) -> Session:
    rank = own.Get_rank()
    door = ClientListener() if rank in roles.writing else None
    addresses = own.allgather(None if door is None else door.address)
    if door is None:
        return CoresSession(own, config, roles, compute_comm, addresses[roles.writer_of[rank]])
    return CoreWriter(own, config, roles, door)


def _on_nodes(
    own: MPI.Intracomm, config: Config, roles: Topology, compute_comm: MPI.Comm
) -> Session:
    rank = own.Get_rank()
    machine = MPI.Get_processor_name()
    only_here = len(set(own.allgather(machine))) == 1
    port = Port(machine, only_here=only_here) if rank in roles.writing else None
    addresses = own.allgather(None if port is None else port.address)
    if port is None:
        return NodesSession(own, config, roles, compute_comm, addresses[roles.writer_of[rank]])
    return NodeWriter(own, config, roles, port)


def _check(own: MPI.Intracomm, config: Config) -> None:
    """Whether dumps can be written into one file, where that is asked for; collective."""
    if config.aggregation == "writer":
        return
    if not own.allreduce(shared_file.can_be(), MPI.LAND):
        raise InputError(
            'aggregation = "dump" needs h5py with parallel HDF5, which this environment lacks:'
            " install Debian's python3-h5py-mpi, or build h5py with HDF5_MPI=ON; or use"
            ' "writer", and `wattio hpcio assemble` for one file of a dump'
        )
    # With dedicated nodes, one thread receives while another one writes.
    if config.approach == "dn" and own.allreduce(MPI.Query_thread(), MPI.MIN) < MPI.THREAD_MULTIPLE:
        raise InputError(
            'aggregation = "dump" with dedicated nodes needs MPI_THREAD_MULTIPLE, which this MPI'
            ' does not give: use "writer", or dedicated cores'
        )


def _nodes(comm: MPI.Intracomm, config: Config) -> tuple[int, ...]:
    """The node of each rank: machines, by their first rank, or as they are emulated."""
    if config.ranks_per_node is not None:
        return topology.emulated(comm.Get_size(), config.ranks_per_node)
    machine = comm.Split_type(MPI.COMM_TYPE_SHARED, comm.Get_rank())
    first = machine.bcast(comm.Get_rank())
    machine.Free()
    firsts = comm.allgather(first)
    numbers = {first: number for number, first in enumerate(dict.fromkeys(firsts))}
    return tuple(numbers[first] for first in firsts)
