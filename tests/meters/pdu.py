"""A rack PDU of known power, served over SNMP by Debian's `snmpd`; needs no root.

    with served_pdu(tmp_path, power_of_time=steps((0.0, 100.0), (30.0, 180.0))) as pdu:
        meter = open_meter(pdu.name("eaton-epdu", outlet=1))
        pdu.freeze()

It speaks the objects of the profiles of APC, Eaton and Raritan, and a few of its own (`OWN`).
Power is a known function of the machine's monotonic clock, so that `pdu.power_w` and `pdu.energy_j`
tell what must be measured. Its condition is in the file `control` of its folder, which any process
may write: a word of `CONDITIONS`.
"""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from meters.pdu_agent import CONTROL, LOADS, OWN, Load, Outlets

__all__ = ["OWN", "Load", "Pdu", "missing", "served_pdu", "steps"]

START_S = 20.0
LEVEL = Load(((0.0, 100.0),))

CONFIGURATION = """\
agentaddress udp:127.0.0.1:{port}
rocommunity {community} 127.0.0.1
createUser {user} SHA-256 "{password}" AES "{privacy_password}"
rouser {user} priv
pass_persist .1.3.6.1.4.1.318.1.1.26 {agent}
pass_persist .1.3.6.1.4.1.534.6.6.7 {agent}
pass_persist .1.3.6.1.4.1.13742.6 {agent}
pass_persist .1.3.6.1.4.1.8072.9999.9999 {agent}
[snmp] persistentDir {folder}/persistent
"""


def missing() -> str | None:
    """What this machine lacks for serving a PDU, if anything."""
    return None if _snmpd() else "needs the Debian package snmpd"


def steps(*changes: tuple[float, float]) -> Load:
    """A power that changes at once: pairs of seconds since the start, and watts from then on."""
    knots = [
        knot
        for (since_s, power_w), (until_s, _) in zip(
            changes, [*changes[1:], changes[-1]], strict=True
        )
        for knot in ((since_s, power_w), (max(since_s, until_s), power_w))
    ]
    return Load(tuple(knots))


@dataclass
class Pdu:
    """A PDU that is served; outlets are counted from 1, and 0 is the whole device."""

    folder: Path
    port: int
    outlets: Outlets
    community: str = "public"
    user: str = "wattio"
    password: str = field(default="lightning rod", repr=False)
    privacy_password: str = field(default="storm lantern", repr=False)
    _process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    def name(self, profile: str, outlet: int | None = None, **query: str) -> str:
        """The name of a meter: a profile's, or of one of `OWN`'s object identifiers."""
        if outlet is not None:
            query = {"outlet": str(outlet), **query}
        said = "&".join(f"{key}={value}" for key, value in query.items())
        name = f"snmp://{self.community}@127.0.0.1:{self.port}/{profile}"
        return f"{name}?{said}" if said else name

    def power_w(self, monotonic_ns: int, outlet: int = 0) -> float:
        """The power at a moment."""
        return self.outlets.power_w(outlet, monotonic_ns)

    def energy_j(self, start_ns: int, end_ns: int, outlet: int = 0) -> float:
        """The energy between two moments."""
        return self.outlets.energy_j(outlet, end_ns) - self.outlets.energy_j(outlet, start_ns)

    def control(self, condition: str) -> None:
        """Put it into one of `CONDITIONS`."""
        part = self.folder / f"{CONTROL}.part"
        part.write_text(condition)
        part.rename(self.folder / CONTROL)

    def freeze(self) -> None:
        """Every value, counter and time stamp stands still from now on."""
        self.control(f"frozen {time.monotonic_ns()}")

    def recover(self) -> None:
        """All is well again."""
        self.control("well")

    def unplug(self) -> None:
        """Nothing answers any more."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def plug_in(self) -> None:
        """Serve, and wait until it answers."""
        program = _snmpd()
        assert program is not None
        log = self.folder / "snmpd.log"
        log.write_bytes(b"")
        options = (
            "-f",
            "-r",
            "-I",
            "-smux",
            "-C",
            "-c",
            str(self.folder / "snmpd.conf"),
            "-Lf",
            str(log),
        )
        self._process = subprocess.Popen(
            # It ends with this process, however that ends.
            ["setpriv", "--pdeathsig", "KILL", program, *options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        end_s = time.monotonic() + START_S
        while b"NET-SNMP version" not in log.read_bytes():
            assert self._process.poll() is None, log.read_text(errors="replace")
            assert time.monotonic() < end_s, "snmpd did not start"
            time.sleep(0.01)


@contextmanager
def served_pdu(
    folder: Path,
    power_of_time: Load | Sequence[Load] = LEVEL,
    counted_before_j: float = 0.0,
) -> Iterator[Pdu]:
    """Serve a PDU with one outlet for each load; time starts now.

    `folder` is for its files and exists. Its energy counters start at `counted_before_j`, so that
    they may be near their wrap.
    """
    loads = (power_of_time,) if isinstance(power_of_time, Load) else tuple(power_of_time)
    outlets = Outlets(loads, time.monotonic_ns(), counted_before_j)
    pdu = Pdu(folder, _free_port(), outlets)
    (folder / LOADS).write_text(json.dumps(outlets.as_plain()))
    (folder / "persistent").mkdir()
    script = Path(__file__).with_name("pdu_agent.py")
    content = CONFIGURATION.format(
        port=pdu.port,
        community=pdu.community,
        user=pdu.user,
        password=pdu.password,
        privacy_password=pdu.privacy_password,
        agent=f"{sys.executable} -I {script} {folder}",
        folder=folder,
    )
    (folder / "snmpd.conf").write_text(content)
    pdu.recover()
    pdu.plug_in()
    try:
        yield pdu
    finally:
        pdu.unplug()


def wait_until(condition: Callable[[], bool], within_s: float = START_S) -> None:
    """Wait for something to become true; fails after a while."""
    end_s = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < end_s, "it did not come true"
        time.sleep(0.01)


def _snmpd() -> str | None:
    # Debian puts it where ordinary users do not look.
    return shutil.which("snmpd") or shutil.which("snmpd", path="/usr/sbin:/usr/local/sbin")


def _free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
