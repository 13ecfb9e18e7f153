"""A BMC on the network: OpenIPMI's simulator with the DCMI plug-in of the guest's BMC."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

DCMI = Path(__file__).parents[1] / "guest/ipmi_sim/dcmi.c"
HEADER = Path("/usr/include/OpenIPMI/serv.h")

CONFIGURATION = """\
name "meter"
set_working_mc 0x20
  startlan 1
    addr 127.0.0.1 {port}
    priv_limit admin
    allowed_auths_callback none md2 md5 straight
    allowed_auths_user none md2 md5 straight
    allowed_auths_operator none md2 md5 straight
    allowed_auths_admin none md2 md5 straight
    guid 7761747469206f20696e207465737473
  endlan
  user 2 true "{user}" "{password}" admin 10 none md2 md5 straight
loadlib "{dcmi}" "{watts}"
"""

COMMANDS = """\
mc_setbmc 0x20
mc_add 0x20 0 no-device-sdrs 0x23 9 8 0x9f 0x1291 0xf02 persist_sdr
sel_enable 0x20 1000 0x0a
mc_enable 0x20
"""


def missing() -> str | None:
    """What this machine lacks for it, if anything."""
    for program, package in (("ipmi_sim", "openipmi"), ("ipmitool", "ipmitool"), ("gcc", "gcc")):
        if shutil.which(program) is None:
            return f"needs the Debian package {package}"
    return None if HEADER.exists() else "needs the Debian package libopenipmi-dev"


@dataclass
class Bmc:
    """A controller that is served, and what it says."""

    folder: Path
    port: int
    user: str = "wattio"
    password: str = field(default="lightning", repr=False)
    _process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    def name(self, user: str | None = None, password: str | None = None, query: str = "") -> str:
        """The name of its meter; the password is in a file."""
        path = self.folder / "credentials.toml"
        path.touch(mode=0o600)
        path.write_text(f'password = "{password or self.password}"\n')
        place = f"ipmi://{user or self.user}@127.0.0.1:{self.port}"
        return f"{place}?credentials={path}{f'&{query}' if query else ''}"

    def say(self, watts: int, measuring: bool = True, stamp: int | None = None) -> None:
        """Read so many watts from now on; a stamp stands still."""
        part = self.folder / "watts.part"
        part.write_text(f"{watts} {int(measuring)} {'' if stamp is None else stamp}\n")
        part.rename(self.folder / "watts")

    def know_nothing(self) -> None:
        """Have no reading."""
        (self.folder / "watts").unlink()

    def hang(self, hangs: bool) -> None:
        """Stop answering, or go on."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP if hangs else signal.SIGCONT)

    def unplug(self) -> None:
        """Nothing answers any more."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def plug_in(self) -> None:
        """Serve; the port is open when this returns."""
        options = ("-n", "-p", "-c", "lan.conf", "-f", "commands.emu", "-s", "state")
        with (self.folder / "ipmi_sim.log").open("wb") as log:
            self._process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", "ipmi_sim", *options],
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )


@contextmanager
def served_bmc(folder: Path, watts: int) -> Iterator[Bmc]:
    """Serve a controller that reads `watts`; `folder` is for its files and exists."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        bmc = Bmc(folder, probe.getsockname()[1])
    library = folder / "dcmi.so"
    subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-o", library, DCMI], check=True)
    content = CONFIGURATION.format(
        port=bmc.port,
        user=bmc.user,
        password=bmc.password,
        dcmi=library,
        watts=folder / "watts",
    )
    (folder / "lan.conf").write_text(content)
    (folder / "commands.emu").write_text(COMMANDS)
    (folder / "state").mkdir()
    bmc.say(watts)
    bmc.plug_in()
    try:
        yield bmc
    finally:
        bmc.unplug()
