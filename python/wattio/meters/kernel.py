"""A meter that the kernel shows and the native module reads: what `rapl` and `hwmon` share."""

from __future__ import annotations

from pathlib import Path

from wattio import _core, clock
from wattio.errors import HostError
from wattio.meters.meter import Facts, FoundMeter, MeterAbsent, MeterLost, Reading
from wattio.meters.sample import HOST_POWER_W_MAX, midway, plausible


class KernelMeter:
    """An open meter of this host, by the name that the native module knows it by."""

    def __init__(self, core_name: str, root: Path, facts: Facts) -> None:
        """Open it. Raises MeterAbsent where there is none, or it may not be read."""
        self._facts = facts
        self._core_name = core_name
        try:
            self._core: _core.PowerMeter | None = _core.PowerMeter(core_name, str(root))
        except HostError as error:
            raise MeterAbsent(self._as_named(error)) from None
        self._energy_j = 0.0

    def _as_named(self, error: HostError) -> str:
        """An error of the native module, under the name that the meter was given."""
        return f"{self._facts.name}: {str(error).removeprefix(f'{self._core_name}: ')}"

    @property
    def facts(self) -> Facts:
        """What it says about itself."""
        return self._facts

    @property
    def native(self) -> _core.PowerMeter | None:
        """The native module's meter, for its sampler; None once this one is closed."""
        return self._core

    def read(self) -> Reading:
        """Power, and energy since opening where it is counted. Raises MeterLost."""
        core = self._core
        if core is None:
            raise MeterLost(f"{self._facts.name}: is closed")
        before = clock.now()
        try:
            values = core.read()
        except HostError as error:
            raise MeterLost(self._as_named(error)) from None
        at = midway(before, clock.now())
        power_w = None
        if values is not None:
            power_w, self._energy_j = values
            plausible(power_w, self._facts.name, HOST_POWER_W_MAX)
        if not self._facts.counts_energy:
            return Reading(*at, power_w)
        return Reading(*at, power_w, self._energy_j, mark=self._energy_j)

    def close(self) -> None:
        """Let go of it."""
        self._core = None


def found(scheme: str, root: Path = Path("/")) -> list[FoundMeter]:
    """The meters of a scheme that the native module finds."""
    return [
        FoundMeter(str(meter["name"]), str(meter["what"]), meter["trouble"])
        for meter in _core.power_meters(str(root))
        if str(meter["name"]).startswith(f"{scheme}:")
    ]


def described(core_name: str, root: Path) -> str:
    """What a meter measures, in the native module's words."""
    whats = (meter["what"] for meter in _core.power_meters(str(root)) if meter["name"] == core_name)
    return next(whats, None) or core_name
