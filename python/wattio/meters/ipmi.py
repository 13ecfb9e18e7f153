"""The power that a machine's management controller (BMC) reads, by DCMI through `ipmitool`.

`ipmi:` is the controller of this machine, `ipmi://USER@HOST` one over the network. Its password
comes from `?credentials=FILE` or `?password_env=VARIABLE`, and reaches ipmitool by its environment.
More keys: `cipher` (suite, 3), `privilege`, `period`, `lag`, `accuracy`, `timeout`.

Source: Data Center Manageability Interface 1.5, section 6.6.1 (Get Power Reading).
"""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

from wattio import clock
from wattio.meters import credentials
from wattio.meters.credentials import credentials_of
from wattio.meters.dcmi import DcmiReading, explain, parse_reading
from wattio.meters.meter import Facts, FoundMeter, Meter, MeterLost, MeterRefused, Reading
from wattio.meters.name import Name, parse
from wattio.meters.sample import HOST_POWER_W_MAX, midway, plausible

SCHEME = "ipmi"
FORM = "ipmi: (this machine's BMC) or ipmi://USER@HOST[:PORT]?credentials=FILE"

_PROGRAM = "ipmitool"
_INSTALL = "ipmitool is not installed (Debian package ipmitool)"
_DEVICES = ("/dev/ipmi0", "/dev/ipmi/0", "/dev/ipmidev/0")
_LOCAL_KEYS = ["period", "lag", "accuracy", "timeout"]
_REMOTE_KEYS = [*_LOCAL_KEYS, *credentials.KEYS, "cipher", "privilege"]
_PORT = 623
_TIMEOUT_S = 5.0
# Without a suite named, ipmitool asks for the best one and some controllers answer after 10 s.
_CIPHERS = [str(number) for number in range(18)]
# ipmitool asks for the highest where nothing is said; reading power needs the lowest.
_PRIVILEGES = ["USER", "OPERATOR", "ADMINISTRATOR"]
_PERIODS_S = (1.0, 60.0)
# All ones in 16 bits.
_NO_READING_W = 65535


class IpmiMeter:
    """A controller that is asked anew for each reading: a session of ipmitool takes 40 ms."""

    def __init__(self, command: list[str], password: str, timeout_s: float, facts: Facts) -> None:
        """Ask for the first time. Raises MeterRefused, MeterLost."""
        self._command, self._timeout_s, self._facts = command, timeout_s, facts
        # Times in the answer are of the zone, and its words of the language.
        self._environment = {**os.environ, "IPMI_PASSWORD": password, "TZ": "UTC", "LC_ALL": "C"}
        self._running: subprocess.Popen[bytes] | None = None
        self._closed = False
        self.first = self._ask()

    @property
    def facts(self) -> Facts:
        """What it says about itself."""
        return self._facts

    def state_period(self, period_s: float | None, lag_s: float | None) -> None:
        """Take the period from the first answer where it is not given; a lag is half of it."""
        least_s, most_s = _PERIODS_S
        period_s = period_s or min(max(self.first.period_s or least_s, least_s), most_s)
        self._facts = replace(
            self._facts, period_s=period_s, lag_s=period_s / 2 if lag_s is None else lag_s
        )

    def read(self) -> Reading:
        """The controller's power now, and its own time stamp as the mark."""
        before = clock.now()
        said = self._ask()
        at = midway(before, clock.now())
        name = self._facts.name
        if said.power_w == _NO_READING_W:
            raise MeterLost(f"{name}: reports {said.power_w:.0f} W, which means no reading")
        return Reading(*at, plausible(said.power_w, name, HOST_POWER_W_MAX), mark=said.stamp_s)

    def close(self) -> None:
        """End a question that is under way."""
        self._closed = True
        running = self._running
        if running is not None:
            running.kill()

    def _ask(self) -> DcmiReading:
        name = self._facts.name
        if self._closed:
            raise MeterLost(f"{name}: is closed")
        output, code = self._run()
        said = parse_reading(output) if code == 0 else None
        if said is None:
            raise explain(output, name)
        if not said.active:
            raise MeterRefused(
                f"{name}: power reading is not activated; run: ipmitool dcmi power activate"
            )
        return said

    def _run(self) -> tuple[str, int]:
        name, pipe = self._facts.name, subprocess.PIPE
        try:
            # A session of its own: without a terminal it cannot ask for a password.
            process = subprocess.Popen(
                self._command,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=pipe,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            raise MeterRefused(f"{name}: {_PROGRAM} cannot be started: {error.strerror}") from None
        self._running = process
        try:
            output, _ = process.communicate(timeout=self._timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise MeterLost(f"{name}: did not answer within {self._timeout_s:g} s") from None
        finally:
            self._running = None
        return output.decode("utf-8", "replace"), process.returncode


def find() -> list[FoundMeter]:
    """This machine's controller, where the kernel shows it."""
    device = next((path for path in map(Path, _DEVICES) if path.exists()), None)
    if device is None:
        return []
    trouble = None
    if shutil.which(_PROGRAM) is None:
        trouble = _INSTALL
    elif not os.access(device, os.R_OK | os.W_OK):
        trouble = f"{device} cannot be opened: run as root, or give your group access to it"
    return [FoundMeter(f"{SCHEME}:", "the BMC's power reading of this machine", trouble)]


def open_meter(name: str) -> Meter:
    """Open a controller, and ask it once. Raises InputError, MeterRefused, MeterLost."""
    parts = parse(name)
    if parts.path:
        raise parts.error(f'"{parts.path}" is not part of the name; write {FORM}')
    timeout_s = parts.seconds("timeout", _TIMEOUT_S)
    period_s = parts.seconds("period", _PERIODS_S[0]) if "period" in parts.query else None
    lag_s = parts.seconds("lag", _PERIODS_S[0]) if "lag" in parts.query else None
    options, password = _local(parts) if parts.host is None else _remote(parts)
    program = shutil.which(_PROGRAM)
    if program is None:
        raise MeterRefused(f"{parts.shown}: {_INSTALL}")
    facts = Facts(
        name=parts.shown,
        what=f"power of {parts.host or 'this machine'}, as its BMC reads it",
        period_s=_PERIODS_S[0],
        resolution_w=1.0,
        accuracy_class=parts.query.get("accuracy", "unknown"),
        untried="hardware, only on OpenIPMI's simulator",
    )
    # Verbose, because only then does it say that a password is wrong.
    command = [program, "-v", *options, "dcmi", "power", "reading"]
    meter = IpmiMeter(command, password, timeout_s, facts)
    meter.state_period(period_s, lag_s)
    return meter


def _local(parts: Name) -> tuple[list[str], str]:
    parts.allow(_LOCAL_KEYS)
    return ["-I", "open"], ""


def _remote(parts: Name) -> tuple[list[str], str]:
    from wattio.files.document import nearest

    parts.allow(_REMOTE_KEYS)
    known = credentials_of(parts)
    cipher = parts.query.get("cipher", "3")
    privilege = parts.query.get("privilege", _PRIVILEGES[-1])
    for key, value, allowed in (
        ("cipher", cipher, _CIPHERS),
        ("privilege", privilege, _PRIVILEGES),
    ):
        if value not in allowed:
            raise parts.error(f'{key}: "{value}" is not known; {nearest(value, allowed)}')
    if not known.user:
        raise parts.missing("user", FORM)
    options = ["-I", "lanplus", "-C", cipher, "-L", privilege, "-N", "1", "-R", "2", "-E"]
    host, port = parts.host or "", str(parts.port or _PORT)
    return [*options, "-H", host, "-p", port, "-U", known.user], known.password or ""
