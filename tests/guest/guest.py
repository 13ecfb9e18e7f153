"""Boots a guest, runs a script in it, and hands back what the script said.

QEMU emulates the processors (TCG): the test machines are virtual themselves, and a /dev/kvm that is
there does not mean that a stock kernel boots with it.
"""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from guest.bmc import simulated_bmc
from guest.image import Content, Image

# A boot takes about 3 s of two idle processors; others may be using them.
TIMEOUT_S = 240.0
# With a tenth of one processor it takes a minute. A guest that has not begun its script by then has
# lost its way among timers that a starved emulator answers late: it is booted once more.
BOOT_S = 120.0
BOOTS = 2
MEMORY_MIB = 1024
TAIL_LINES = 40

# acpi-cpufreq asks for a processor of a maker it knows; this is a Skylake server.
PROCESSOR = "max,vendor=GenuineIntel,family=6,model=85,stepping=4"

# panic=-1 reboots at once and -no-reboot makes an exit of that. Watchdogs would take a busy host
# for a hung guest. Nor may the kernel judge its timers while it starts: where QEMU has to wait for
# its turn at the wrong moment, the kernel panics as interrupts do not come, or takes the TSC to be
# far slower than it is (its clock then ran 11 and 23 times too fast). The HPET tells its rate.
KERNEL_ARGUMENTS = " ".join(
    (
        *("console=ttyS0", "panic=-1", "mitigations=off", "nowatchdog"),
        *("no_timer_check", "clocksource=hpet", "tsc=unstable"),
    )
)


NOT_BEGUN = f"did not begin its script within {BOOT_S:g} s"


class GuestError(Exception):
    """The guest did not get to the end of the script; the message shows its last words."""


@dataclass(frozen=True)
class GuestResult:
    """What a script left behind."""

    exit_code: int
    output: str
    """What the script printed, stdout and stderr as they came."""
    console: str
    """What the kernel and init said, from the start to the power-off."""
    boot_s: float
    """From the kernel's start to the script's, by the guest's clock."""
    total_s: float
    """From QEMU's start to its end, by the host's clock."""


class Guest:
    """Boots the guest of an image, anew for each run."""

    def __init__(self, image: Image) -> None:
        self.image = image

    def run(
        self,
        programs: Iterable[Path],
        script: str,
        *,
        cpus: int = 4,
        files: Mapping[str, Content] | None = None,
        bmc_watts: int | None = None,
        devices: Iterable[str] = (),
        timeout_s: float = TIMEOUT_S,
    ) -> GuestResult:
        """Boot, run a shell script as root, power off.

        `programs` are on the script's PATH; `files` maps absolute paths in the guest to what is
        to be there. With `bmc_watts` the guest has a BMC (/dev/ipmi0) that reads so many W.
        `devices` are more of QEMU's arguments.

        Raises GuestError when the guest has not ended after `timeout_s`, or ended before the
        script did, or did not come to the script in BOOTS boots of BOOT_S.
        """
        with contextlib.ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="guest-")))
            (folder / "initramfs").write_bytes(self.image.initramfs(script, programs, files))
            command = [*self._qemu(folder, cpus), *devices]
            if bmc_watts is not None:
                command += stack.enter_context(simulated_bmc(folder, self.image.dcmi, bmc_watts))
            for _ in range(BOOTS):
                started_s = time.monotonic()
                ending = _run(command, folder, timeout_s)
                if ending != NOT_BEGUN:
                    break
            return _result(folder, ending, time.monotonic() - started_s)

    def _qemu(self, folder: Path, cpus: int) -> list[str]:
        # The order of the serial ports is the one that init knows.
        ports = (f"file:{folder / port}" for port in ("console", "output", "status"))
        return [
            *("qemu-system-x86_64", "-accel", "tcg,thread=multi", "-machine", "q35"),
            *("-cpu", PROCESSOR, "-smp", str(cpus), "-m", str(MEMORY_MIB)),
            *("-nodefaults", "-display", "none", "-no-reboot"),
            *("-kernel", str(self.image.kernel.image), "-append", KERNEL_ARGUMENTS),
            *("-initrd", str(folder / "initramfs")),
            *("-acpitable", f"file={self.image.acpi_table(cpus)}"),
            *(argument for port in ports for argument in ("-serial", port)),
        ]


def _run(command: list[str], folder: Path, timeout_s: float) -> str:
    """Run QEMU to its end or the timeout's; says how it ended."""
    # timeout(1) outlives this process: no QEMU is left behind if that is killed.
    limited = ("timeout", "--kill-after=5", str(timeout_s), *command)
    with (folder / "qemu.log").open("wb") as output:
        process = subprocess.Popen(
            limited, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
        )
    try:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(BOOT_S)
        if process.poll() is None and not _text(folder / "status"):
            return NOT_BEGUN
        code = process.wait()
    finally:
        process.terminate()
        process.wait()
    return f"did not end within {timeout_s:g} s" if code == 124 else f"QEMU exited with {code}"


def _result(folder: Path, ending: str, total_s: float) -> GuestResult:
    output, console = _text(folder / "output"), _text(folder / "console")
    status = _text(folder / "status").split()
    if len(status) != 2:
        said = {"QEMU": _text(folder / "qemu.log"), "console": console, "output": output}
        tails = (f"--- end of {name}\n{_tail(text)}" for name, text in said.items() if text)
        raise GuestError("\n".join((f"the guest gave no exit code; it {ending}", *tails)))
    return GuestResult(int(status[1]), output, console, float(status[0]), total_s)


def _text(file: Path) -> str:
    return file.read_bytes().decode(errors="replace") if file.exists() else ""


def _tail(text: str) -> str:
    """The last lines, and all from a panic on: its trace is now and then longer."""
    lines = text.splitlines()
    panics = [at for at, line in enumerate(lines) if "Kernel panic" in line]
    first = min([max(len(lines) - TAIL_LINES, 0), *panics])
    return "\n".join(lines[first:])
