"""iperf3 for throughput and ping for message pairs per second, as the thesis's section 4.3 does.

A write goes from the client to the server, a read comes back (`iperf3 -R`). Metadata is accessed
one message pair after another: a round-trip time gives the I/Os per second of one process.
"""

from __future__ import annotations

import ipaddress
import json
import math
import re

from wattio.analysis.efficiency import MIB
from wattio.analysis.peak import Direction, Rate
from wattio.analysis.statistics import sample_deviation
from wattio.errors import WorkloadFailed

PORT = 5201
LISTENING = "Server listening"
"""What iperf3's server says when clients may come."""

_RTT = re.compile(
    r"min/avg/max(?:/(?:mdev|stddev))?\s*=\s*[\d.]+/([\d.]+)/[\d.]+(?:/([\d.]+))?\s*ms", re.ASCII
)
_TIME = re.compile(r"time\s+(\d+)\s*ms", re.ASCII)
_RECEIVED = re.compile(r"(\d+)\s+(?:packets\s+)?received", re.ASCII)


def server(port: int) -> tuple[str, ...]:
    """A server of our own; it ends when it is told to."""
    return ("iperf3", "--server", "--forceflush", "--port", str(port))


def client(address: str, direction: Direction, runtime_s: int, port: int) -> tuple[str, ...]:
    """One TCP stream for so many seconds."""
    words = ("iperf3", "--client", address, "--port", str(port), "--time", str(runtime_s), "--json")
    return (*words, "--reverse") if direction == "read" else words


def round_trips(address: str, runtime_s: int) -> tuple[str, ...]:
    """One request at a time, the next as soon as the answer is there, as far as rights allow."""
    return ("ping", "-n", "-q", "-A", "-w", str(runtime_s), address)


def addresses() -> tuple[str, ...]:
    """What shows a namespace's addresses."""
    return ("ip", "-j", "-4", "address", "show", "scope", "global")


def throughput(text: str) -> Rate:
    """MiB/s that arrived, out of iperf3's JSON, with the deviation between its intervals.

    Raises WorkloadFailed with iperf3's own words where it failed, and for what is no result.
    """
    content = _json(text, "iperf3")
    if isinstance(content, dict) and isinstance(content.get("error"), str):
        raise WorkloadFailed(f"iperf3: {content['error']}")
    bits = _rate_in(content, "end", "sum_received")
    if bits is None or bits <= 0:
        raise WorkloadFailed("iperf3's result has no throughput of the receiver")
    intervals = content.get("intervals") if isinstance(content, dict) else None
    seen = [_rate_in(item, "sum") for item in intervals] if isinstance(intervals, list) else []
    samples = [value / 8 / MIB for value in seen if value is not None]
    deviation = sample_deviation(samples)
    return Rate(bits / 8 / MIB, deviation, None if deviation is None else len(samples))


def iops(text: str) -> Rate:
    """Message pairs per second, out of what ping says of round-trip times (first order in mdev).

    Where round trips of a host to itself are shorter than the digits that ping prints, it is pairs
    over their time, without a deviation: each is sent when the one before has been answered (-A).
    Raises WorkloadFailed where no answer came, and for what is no result.
    """
    times = _RTT.search(text)
    if times is None:
        raise WorkloadFailed("ping got no answer, or reported no round-trip time")
    mean_ms, spread_ms = _decimal(times[1]), _decimal(times[2])
    n = _count(_RECEIVED.search(text))
    if mean_ms is None or mean_ms <= 0:
        mean_ms, spread_ms = _count(_TIME.search(text)) / max(n, 1), None
    if mean_ms <= 0:
        raise WorkloadFailed("ping reported a round-trip time of 0 ms")
    deviation = None if spread_ms is None or n < 2 else 1000 * spread_ms / mean_ms**2
    if deviation is not None and not math.isfinite(deviation):
        deviation = None
    return Rate(1000 / mean_ms, deviation, n or None)


def _count(found: re.Match[str] | None) -> int:
    """A number of what was found; more digits than any counter has are none."""
    return int(found[1]) if found and len(found[1]) < 19 else 0


def first_address(text: str) -> str:
    """The first address out of `ip -j address`. Raises WorkloadFailed where there is none."""
    content = _json(text, "ip")
    for link in content if isinstance(content, list) else []:
        told = link.get("addr_info") if isinstance(link, dict) else None
        for item in told if isinstance(told, list) else []:
            address = item.get("local") if isinstance(item, dict) else None
            try:
                return str(ipaddress.ip_address(str(address)))
            except ValueError:
                continue
    raise WorkloadFailed("the namespace has no address")


def _rate_in(content: object, *path: str) -> float | None:
    """Bits per second at a path; None if there are none."""
    for key in path:
        content = content.get(key) if isinstance(content, dict) else None
    bits = content.get("bits_per_second") if isinstance(content, dict) else None
    if isinstance(bits, bool) or not isinstance(bits, int | float):
        return None
    try:
        return float(bits) if math.isfinite(bits) else None
    except OverflowError:
        return None


def _decimal(text: str | None) -> float | None:
    """A number with a point; None for several points, or what a float cannot hold."""
    if text is None:
        return None
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _json(text: str, program: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise WorkloadFailed(f"{program}'s output is not JSON") from None
