"""M/M/96 at 80 % load with a latency histogram: the simulator's engine against SimPy.

Both simulate Poisson arrivals to one queue before 96 servers with exponential times of 1 ms, from
an empty start, and record every job in a histogram true to three digits. Both must find the mean
latency of Erlang C, else their speed means nothing.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from random import Random
from statistics import mean

import simpy
from timing import BenchError, Goal, Line, Rate, in_turn
from wattio import _core

CORES = 96
LOAD = 0.8
SERVICE_S = 1e-3
RATE_PER_S = CORES * LOAD / SERVICE_S
TOLERANCE = 0.02

# A station and nothing around it; as in the closed-form tests of crates/sim.
SERVER = """
name = "queue"
title = "one station of 96 servers"
assumptions = []
rest_power = "0 W"
network = "0 s"
clients = 100
cache = { hit_random = 0.0, hit_sequential = 0.0 }
sizing = { reference = "8 KiB", core_share = 0.0 }
group = [{ name = "only", cores = 96, cores_min = 1 }]
path = [
  { kind = "read", stages = [{ on = { group = "only" }, time = "1 ms" }] },
  { kind = "write", stages = [{ on = { group = "only" }, time = "1 ms" }] },
]
[cores]
frequency_min = "1 GHz"
frequency_max = "1 GHz"
idle = "c-states"
idle_power = "1 W"
static_power = "3 W"
dynamic_power = "0 W"
frequency_bound_share = 1.0
gate_off = "0 s"
gate_on = "0 s"
migrate = "0 s"
frequency_change = "0 s"
time_variation = 1.0
"""


@dataclass(frozen=True)
class Outcome:
    """Jobs that were served, those in the histogram, and their mean latency in seconds."""

    jobs: int
    recorded: int
    latency_s_mean: float


def erlang_c_latency_s() -> float:
    """Mean time in the system: 1/mu + C / (c mu - lambda), C the probability to wait."""
    offered = RATE_PER_S * SERVICE_S
    term = total = 1.0
    for k in range(1, CORES):
        term *= offered / k
        total += term
    last = term * offered / CORES / (1 - LOAD)
    waits = last / (total + last)
    return SERVICE_S + waits / (CORES / SERVICE_S - RATE_PER_S)


def with_simpy(jobs: int, seed: int) -> Outcome:
    """The model as SimPy's documentation shows one: a process for each job."""
    random = Random(seed)  # noqa: S311 (a simulation, no secret)
    counts = [0] * (64 << 10)
    total_s = 0.0

    def job(env: simpy.Environment, cores: simpy.Resource) -> Generator[simpy.Event, None, None]:
        nonlocal total_s
        arrived_s = env.now
        with cores.request() as request:
            yield request
            yield env.timeout(random.expovariate(1 / SERVICE_S))
        latency_s = env.now - arrived_s
        total_s += latency_s
        # Log-linear buckets, as in an HDR histogram: 1024 to each power of two.
        latency_ns = int(latency_s * 1e9)
        shift = max(latency_ns.bit_length() - 11, 0)
        counts[(shift << 10) + (latency_ns >> shift)] += 1

    def arrivals(
        env: simpy.Environment, cores: simpy.Resource
    ) -> Generator[simpy.Event, None, None]:
        for _ in range(jobs):
            yield env.timeout(random.expovariate(RATE_PER_S))
            env.process(job(env, cores))

    env = simpy.Environment()
    env.process(arrivals(env, simpy.Resource(env, capacity=CORES)))
    env.run()
    return Outcome(jobs, sum(counts), total_s / jobs)


def with_wattio(span_s: float, seed: int) -> Outcome:
    """The engine of the storage server, with that one station as its server."""
    pattern = {"read_fraction": 0.5, "random_fraction": 1.0, "io_bytes": 8192}
    phases = [{"span_s": span_s, "iops": RATE_PER_S, "pattern": pattern}]
    spec = {
        "server": SERVER,
        "policy": {"name": "native", "settings": {}},
        "load": {"kind": "phases", "mode": "open", "clients": 100, "phases": phases},
        "warmup_s": 0.0,
        "duration_s": None,
        "window_s": span_s,
        "seed": seed,
    }
    run = _core.Simulation(json.dumps(spec))
    while run.advance(3600.0) < 1:
        pass
    summary = json.loads(run.summary())
    recorded = int(run.latency_histogram()[1].sum())
    return Outcome(summary["ios"], recorded, summary["latency_us_mean"] * 1e-6)


def check(who: str, outcomes: list[Outcome]) -> None:
    """Hold a simulator against Erlang C, over all its rounds. Raises BenchError."""
    expected_s = erlang_c_latency_s()
    found_s = mean(one.latency_s_mean for one in outcomes)
    if abs(found_s / expected_s - 1) > TOLERANCE:
        raise BenchError(
            f"mm96: {who} finds a mean latency of {found_s * 1e6:.1f} us,"
            f" Erlang C gives {expected_s * 1e6:.1f} us"
        )
    if any(one.recorded != one.jobs for one in outcomes):
        raise BenchError(f"mm96: {who} has not recorded each job in its histogram")


def lines(rounds: int = 7, peer_jobs: int = 60_000, span_s: float = 20.0) -> Iterator[Line]:
    """Run the benchmark. Raises BenchError."""
    taken = in_turn(
        rounds,
        {
            "simpy": lambda seed: with_simpy(peer_jobs, seed),
            "wattio": lambda seed: with_wattio(span_s, seed),
        },
    )
    for who, timed in taken.items():
        check(who, [one.result for one in timed])
    yield Line(
        "mm96",
        "jobs",
        "simpy",
        Rate.of(taken["simpy"], lambda one: one.jobs),
        Rate.of(taken["wattio"], lambda one: one.jobs),
        Goal("ratio", 60.0, 100.0),
        "M/M/96 at 80 % load, each job in a histogram; both within 2 % of Erlang C's mean latency",
    )
