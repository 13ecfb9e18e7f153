"""Starting a session: nodes, roles, the output folder, and the approach's own part."""

from __future__ import annotations

import time

from mpi4py import MPI

from wattio.errors import InputError
from wattio.hpcio import launcher, leftovers, topology
from wattio.hpcio.bells import Door
from wattio.hpcio.channels import Port
from wattio.hpcio.config import Config
from wattio.hpcio.core_writer import CoreWriter
from wattio.hpcio.cores import CoresSession
from wattio.hpcio.dumps import Dumps
from wattio.hpcio.node_writer import NodeWriter
from wattio.hpcio.nodes import NodesSession
from wattio.hpcio.partitioning import PartitioningSession
from wattio.hpcio.session import Session
from wattio.hpcio.topology import Topology


def start(comm: MPI.Intracomm, config: Config) -> Session:
    """Start the middleware on all ranks of a communicator; collective. Rank 0's `config` counts.

    On ranks that only write, this returns when the simulation has closed its session; the session
    that it returns has `is_writer` true and a `close` that tells the rank's account. Raises
    InputError where roles cannot be given or the output folder cannot be used.
    """
    if MPI.COMM_WORLD.Get_size() > 1:
        # A single rank may have been started by hand, and outlive its shell.
        launcher.end_with_it()
    own = comm.Dup()
    config = own.bcast(config)
    _check(config)
    roles = topology.plan(config, _nodes(own, config))
    error = None
    if own.Get_rank() == 0:
        leftovers.remove(time.time())
        try:
            Dumps(config.output, config.approach_text, roles.computing).prepare()
        except InputError as caught:
            error = str(caught)
    error = own.bcast(error)
    if error is not None:
        raise InputError(error)
    writes_only = own.Get_rank() not in roles.writer_of
    compute_comm = own.Split(MPI.UNDEFINED if writes_only else 0, own.Get_rank())
    if config.approach == "tp":
        return PartitioningSession(own, config, roles, compute_comm)
    begin = _on_cores if config.approach == "dc" else _on_nodes
    return begin(own, config, roles, compute_comm)


def _on_cores(
    own: MPI.Intracomm, config: Config, roles: Topology, compute_comm: MPI.Comm
) -> Session:
    rank = own.Get_rank()
    door = Door() if rank in roles.writing else None
    addresses = own.allgather(None if door is None else door.address)
    if door is None:
        return CoresSession(own, config, roles, compute_comm, addresses[roles.writer_of[rank]])
    writer = CoreWriter(own, config, roles, door)
    writer.run()
    return writer


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
    writer = NodeWriter(own, config, roles, port)
    writer.run()
    return writer


def _check(config: Config) -> None:
    if config.aggregation == "dump":
        raise InputError(
            'aggregation = "dump" needs h5py with parallel HDF5, which this environment lacks:'
            ' use "writer", and `wattio hpcio assemble` for one file of a dump'
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
