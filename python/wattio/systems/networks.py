"""Networks for servers and clients that share one machine.

A network knows nodes by number, and gives each out to be worked at (`nodes.Node`). On the loopback
device all nodes have one address and differ by port. With namespaces each node has an address and a
leg of limited rate to a bridge, so that the machine behaves like a small cluster. What belongs to a
run bears its mark in the kernel itself (the label of the address, the names of namespaces and
links): nothing can be lost by a killed run.
"""

from __future__ import annotations

import ipaddress
import json
import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from wattio.errors import SystemFailed
from wattio.systems.commands import TIMEOUT_S, call
from wattio.systems.nodes import Here, Node

NAMESPACES = Path("/run/netns")
NODES_MAX = 250
"""How many nodes find addresses in a network of 256."""

_RATE = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?([kMG])bit/s")
_FACTOR = {"k": 1e3, "M": 1e6, "G": 1e9}
_BURST_S = 0.004
_BURST_BYTES_MIN = 256 << 10
_DELAY = "50ms"
_LOOKS_MAX = 20
"""How often addresses are looked at where others change links all the time."""


def parse_rate(text: str) -> float:
    """Bits per second of a text such as "1 Gbit/s". Raises ValueError."""
    found = _RATE.fullmatch(text.strip())
    if found is None or float(found[1]) == 0:
        raise ValueError(f'"{text}" is not a rate above zero; write it as "1 Gbit/s"')
    return float(found[1]) * _FACTOR[found[2]]


def parse_subnet(text: str) -> ipaddress.IPv4Network:
    """A network of 256 addresses, "10.77.0.0/24". Raises ValueError."""
    try:
        subnet = ipaddress.IPv4Network(text)
    except ValueError as error:
        raise ValueError(f'"{text}" is not a network such as "10.77.0.0/24": {error}') from error
    if subnet.prefixlen != 24:
        raise ValueError(f'"{text}" must have 256 addresses, as in "10.77.0.0/24"')
    return subnet


class Network(Protocol):
    """Where servers and clients meet. Everything may be called again."""

    programs: Mapping[str, str]
    """What making it needs, and the packages that have it."""

    def machines(self) -> Sequence[Node]:
        """A node of each machine, outside of what the network makes: known before it is up."""

    def up(self) -> None:
        """Make it. Raises SystemFailed."""

    def add(self, node: int) -> None:
        """Add a node, from 1 to NODES_MAX."""

    def remove(self, node: int) -> None:
        """Take a node away."""

    def subnet(self) -> ipaddress.IPv4Network:
        """The network that the nodes' addresses are of; known once it is up."""

    def address(self, node: int) -> str:
        """A node's address."""

    def first_at(self, node: int) -> int:
        """The first of the nodes that share its address."""

    def node(self, node: int) -> Node:
        """Where a node's commands run, and its files and processes are."""

    def down(self) -> None:
        """Remove it, also what a dead run of the same mark has left."""


class Loopback:
    """One address on the loopback device, of the wanted network or of a free one of `10.77.x.0`.

    Some servers refuse 127.0.0.1, and two runs want addresses of their own.
    """

    programs: Mapping[str, str] = {"ip": "iproute2"}

    def __init__(self, mark: str, subnet: str | None) -> None:
        """The mark tells runs apart: at most six letters and digits."""
        self._label = f"lo:w{mark}"
        self._wanted = subnet

    def up(self) -> None:
        """Add the address, unless it is there."""
        if self._found():
            return
        if self._wanted is not None:
            return self._add_wanted(parse_subnet(self._wanted))
        taken = [ipaddress.IPv4Interface(text).network for text, _ in _addresses()]
        for number in range(256):
            subnet = ipaddress.IPv4Network(f"10.77.{number}.0/24")
            if any(subnet.overlaps(other) for other in taken if other.prefixlen > 8):
                continue
            try:
                return self._add(subnet)
            except SystemFailed:
                # Another run may have been faster.
                if not any(text == f"{subnet[1]}/24" for text, _ in _addresses()):
                    raise
        raise SystemFailed("no network of 10.77.x.0/24 is free: name another subnet")

    def _add_wanted(self, subnet: ipaddress.IPv4Network) -> None:
        address = f"{subnet[1]}/{subnet.prefixlen}"
        if any(text == address for text, _ in _addresses()):
            raise SystemFailed(f"network: {address} is in use on this host: name another subnet")
        self._add(subnet)

    def _add(self, subnet: ipaddress.IPv4Network) -> None:
        address = f"{subnet[1]}/{subnet.prefixlen}"
        call("network", "ip", "address", "add", address, "dev", "lo", "label", self._label)

    def _found(self) -> str | None:
        return next((text for text, label in _addresses() if label == self._label), None)

    def add(self, node: int) -> None:
        """Nothing is to be done."""

    def remove(self, node: int) -> None:
        """Nothing is to be done."""

    def subnet(self) -> ipaddress.IPv4Network:
        """The network of the address."""
        found = self._found()
        if found is None:
            raise SystemFailed("network: the address on the loopback device is gone")
        return ipaddress.IPv4Interface(found).network

    def address(self, node: int) -> str:
        """The one address."""
        return str(self.subnet()[1])

    def machines(self) -> Sequence[Node]:
        """This one."""
        return (Here(),)

    def first_at(self, node: int) -> int:
        """All share one."""
        return 1

    def node(self, node: int) -> Node:
        """All run where everything else does."""
        return Here()

    def down(self) -> None:
        """Remove the address."""
        while found := self._found():
            call("network", "ip", "address", "del", found, "dev", "lo")


class Namespaces:
    """A namespace for each node, with a leg of limited rate to a bridge."""

    programs: Mapping[str, str] = {"ip": "iproute2", "tc": "iproute2", "nsenter": "util-linux"}

    def __init__(self, mark: str, subnet: str | None, rate_bit_s: float) -> None:
        """The mark tells runs apart: at most six letters and digits."""
        self._prefix = f"w{mark}n"
        self._bridge = f"w{mark}b"
        self._subnet = parse_subnet(subnet or "10.79.0.0/24")
        self._rate_bit_s = rate_bit_s

    def name(self, node: int) -> str:
        """The name of a node's namespace, and of its link on this side."""
        return f"{self._prefix}{node}"

    def up(self) -> None:
        """Make the bridge, which has no address: this host itself is not part of the network."""
        if self._bridge not in _links():
            call("network", "ip", "link", "add", self._bridge, "type", "bridge")
        call("network", "ip", "link", "set", self._bridge, "up")

    def add(self, node: int) -> None:
        """Make a node's namespace and its leg."""
        name = self.name(node)
        if (NAMESPACES / name).exists():
            return
        ip = ("network", "ip", "-netns", name)
        link = ("network", "ip", "link")
        call("network", "ip", "netns", "add", name)
        call(*link, "add", name, "type", "veth", "peer", "name", "e0", "netns", name)
        call(*link, "set", name, "master", self._bridge, "up")
        call(*ip, "address", "add", f"{self.address(node)}/24", "dev", "e0")
        call(*ip, "link", "set", "e0", "up")
        call(*ip, "link", "set", "lo", "up")
        rate = f"{self._rate_bit_s:.0f}bit"
        burst = f"{max(_BURST_BYTES_MIN, self._rate_bit_s / 8 * _BURST_S):.0f}b"
        limit = ("root", "tbf", "rate", rate, "burst", burst, "latency", _DELAY)
        call("network", "tc", "qdisc", "replace", "dev", name, *limit)
        call("network", "tc", "-netns", name, "qdisc", "replace", "dev", "e0", *limit)

    def remove(self, node: int) -> None:
        """Take a node's leg and namespace away."""
        self._remove(self.name(node))

    def _remove(self, name: str) -> None:
        if name in _links():
            call("network", "ip", "link", "del", name)
        if (NAMESPACES / name).exists():
            call("network", "ip", "netns", "del", name)

    def subnet(self) -> ipaddress.IPv4Network:
        """The network of the nodes."""
        return self._subnet

    def address(self, node: int) -> str:
        """Each node has its own."""
        return str(self._subnet[node])

    def machines(self) -> Sequence[Node]:
        """This one."""
        return (Here(),)

    def first_at(self, node: int) -> int:
        """None is shared."""
        return node

    def node(self, node: int) -> Node:
        """Only the network is the node's: `ip netns exec` would hide what is mounted later."""
        return Here(("nsenter", f"--net={NAMESPACES / self.name(node)}"))

    def down(self) -> None:
        """Remove every leg and namespace of this mark, and the bridge."""
        spaces = [path.name for path in NAMESPACES.glob(f"{self._prefix}*")]
        links = [name for name in _links() if name.startswith(self._prefix)]
        for name in sorted({*spaces, *links}):
            self._remove(name)
        if self._bridge in _links():
            call("network", "ip", "link", "del", self._bridge)


def _links() -> set[str]:
    return {path.name for path in Path("/sys/class/net").iterdir()}


def _addresses() -> list[tuple[str, str]]:
    """IPv4 addresses with their length, and their labels, of all devices."""
    text = ""
    for _ in range(_LOOKS_MAX):
        try:
            done = subprocess.run(
                ("ip", "-json", "-4", "address"),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=TIMEOUT_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return []
        text = done.stdout
        # Where links come and go meanwhile, ip warns that what it shows may not be all there is.
        if "interrupted" not in done.stderr:
            break
    return parse_addresses(text)


def parse_addresses(text: str) -> list[tuple[str, str]]:
    """Addresses `10.0.0.1/24` and labels that `ip -json address` tells; nothing of other text."""
    try:
        devices = json.loads(text)
    except (ValueError, RecursionError):
        return []
    found = []
    for device in _dicts(devices):
        for info in _dicts(device.get("addr_info")):
            address, length = info.get("local"), info.get("prefixlen")
            try:
                interface = ipaddress.IPv4Interface(f"{address}/{length}")
            except ValueError:
                continue
            found.append((str(interface), str(info.get("label", ""))))
    return found


def _dicts(value: object) -> Iterable[dict[str, object]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
