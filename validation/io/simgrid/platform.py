"""A run that `dumps.py` simulates, and its platform as SimGrid's XML.

Imports nothing of wattio either.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

GIB = 2.0**30
FLOPS = 1e9
"""Of a core in a second."""

UNLIMITED = 1e18
"""Bytes per second of what costs nothing."""

MEMORY_LATENCY_S = 1e-6


@dataclass(frozen=True)
class Run:
    """What is simulated: a platform, an application, an approach. Units are in the names."""

    kind: str
    number: int
    nodes: int
    cores: int
    dumps: int
    steps: int
    dump_bytes: float
    base_s: float
    cores_sigma: float
    nodes_sigma: float
    client_bytes_s: float
    storage_bytes_s: float
    contention: float
    free_writers: float
    copy_s_per_gib: float
    send_s_per_gib: float
    power_idle_w: float
    power_max_w: float
    latency_s: float
    polls: bool

    @property
    def io_nodes(self) -> int:
        """Nodes that only write."""
        return math.ceil(self.nodes / (self.number + 1)) if self.kind == "dn" else 0

    @property
    def computing_nodes(self) -> int:
        """The others; they come first."""
        return self.nodes - self.io_nodes

    @property
    def computing_cores(self) -> int:
        """Of each computing node; they come first."""
        return self.cores - self.number if self.kind == "dc" else self.cores

    @property
    def flops(self) -> float:
        """Of one computing core between two dumps."""
        seconds = self.steps * self.base_s
        for count, sigma in (
            (self.computing_cores, self.cores_sigma),
            (self.computing_nodes, self.nodes_sigma),
        ):
            seconds *= sigma + (1 - sigma) / count
        return seconds * FLOPS

    @property
    def share_bytes(self) -> int:
        """What one computing rank has of a dump."""
        return round(self.dump_bytes / (self.computing_nodes * self.computing_cores))

    def writer_of(self, node: int, core: int) -> tuple[int, int]:
        """Node and core of the rank that writes what this one computed."""
        if self.kind == "dc":
            return node, self.computing_cores + core % self.number
        if self.kind == "dn":
            return self.computing_nodes + node * self.io_nodes // self.computing_nodes, core
        return node, core


def clients(run: Run) -> dict[tuple[int, int], int]:
    """How many computing ranks hand over to each writer, by its node and core."""
    found: dict[tuple[int, int], int] = {}
    for node in range(run.computing_nodes):
        for core in range(run.computing_cores):
            writer = run.writer_of(node, core)
            found[writer] = found.get(writer, 0) + 1
    return found


def platform(run: Run) -> str:
    """The platform as SimGrid's XML: nodes, storage with a door for each core, links, routes."""
    idle_w, max_w = repr(run.power_idle_w), repr(run.power_max_w)
    watts = f"{idle_w}:{max_w}" if run.cores == 1 else f"{idle_w}:{idle_w}:{max_w}"
    storage = link("storage", run.storage_bytes_s, run.latency_s)
    hosts, links, routes = [], [storage], []
    for core in range(run.cores):
        hosts.append(host(f"door{core}", 1, "0:0"))
    for node in range(run.nodes):
        hosts.append(host(f"node{node}", run.cores, watts))
        card, memory = rate(run.send_s_per_gib), rate(run.copy_s_per_gib)
        links += [link(f"{way}{node}", card, run.latency_s / 2) for way in ("up", "down")]
        links.append(link(f"memory{node}", memory, MEMORY_LATENCY_S))
        routes.append(route(f"node{node}", f"node{node}", f"memory{node}"))
        for core in range(run.cores):
            links.append(link(f"client{node}.{core}", run.client_bytes_s, 0.0))
            way = (f"client{node}.{core}", f"up{node}", "storage")
            routes.append(route(f"node{node}", f"door{core}", *way))
    for node in range(run.computing_nodes):
        target = run.writer_of(node, 0)[0]
        if target != node:
            routes.append(route(f"node{node}", f"node{target}", f"up{node}", f"down{target}"))
    head = '<?xml version="1.0"?><!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">'
    inside = "\n".join(hosts + links + routes)
    zone = f'<zone id="all" routing="Full">\n{inside}\n</zone>'
    return f'{head}\n<platform version="4.1">{zone}</platform>\n'


def rate(s_per_gib: float) -> float:
    """Bytes per second."""
    return GIB / s_per_gib if s_per_gib > 0 else UNLIMITED


def host(name: str, cores: int, watts: str) -> str:
    """A host's element; idle, least and most watts."""
    power = f'<prop id="wattage_per_state" value="{watts}"/>'
    return f'<host id="{name}" speed="{FLOPS!r}f" core="{cores}">{power}</host>'


def link(name: str, bytes_s: float, latency_s: float) -> str:
    """A link's element."""
    return f'<link id="{name}" bandwidth="{bytes_s!r}Bps" latency="{latency_s!r}s"/>'


def route(source: str, target: str, *links: str) -> str:
    """A route's element, one way."""
    inside = "".join(f'<link_ctn id="{name}"/>' for name in links)
    return f'<route src="{source}" dst="{target}" symmetrical="NO">{inside}</route>'
