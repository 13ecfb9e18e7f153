"""A BMC for one guest: OpenIPMI's simulator with DCMI, which QEMU reaches through a TCP port."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

from ports import free_port

# "VM" is the framing of QEMU's ipmi-bmc-extern; 15 is the system interface.
CONFIGURATION = """\
name "guest"
set_working_mc 0x20
  serial 15 127.0.0.1 {port} codec VM
loadlib "{dcmi}" "{watts}"
"""

# One management controller at the BMC's usual address, with its event log. Device, firmware and
# vendor numbers are free to choose.
COMMANDS = """\
mc_setbmc 0x20
mc_add 0x20 0 no-device-sdrs 0x23 9 8 0x9f 0x1291 0xf02 persist_sdr
sel_enable 0x20 1000 0x0a
mc_enable 0x20
"""


@contextlib.contextmanager
def simulated_bmc(folder: Path, dcmi: Path, watts: int) -> Iterator[list[str]]:
    """Run a BMC that reads `watts` W; yields QEMU's arguments for it.

    Its files lie in `folder`, among them `watts`, which may be written while it runs.
    """
    port = free_port()
    watts_file = folder / "watts"
    watts_file.write_text(f"{watts}\n")
    configuration, commands = folder / "lan.conf", folder / "commands.emu"
    configuration.write_text(CONFIGURATION.format(port=port, dcmi=dcmi, watts=watts_file))
    commands.write_text(COMMANDS)
    state = folder / "state"
    state.mkdir()
    program = ("ipmi_sim", "-n", "-p", "-c", configuration, "-f", commands, "-s", state)
    with (folder / "ipmi_sim.log").open("wb") as log:
        simulator = subprocess.Popen(
            program, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
        )
    try:
        # The simulator may start listening after QEMU's first try.
        yield [
            *("-chardev", f"socket,id=bmc,host=127.0.0.1,port={port},reconnect=1"),
            *("-device", "ipmi-bmc-extern,id=bmc0,chardev=bmc"),
            *("-device", "isa-ipmi-kcs,bmc=bmc0"),
        ]
    finally:
        simulator.kill()
        simulator.wait()
