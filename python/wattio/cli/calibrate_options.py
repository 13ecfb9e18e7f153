"""The options of `wattio calibrate power`: from what was typed to what is swept on this host."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from wattio.calibration import host as hosts
from wattio.calibration.design import Design
from wattio.calibration.host import Host
from wattio.cli.load_options import Quantity, quantity, seconds
from wattio.errors import HostError, InputError

_SPAN_S_LEAST = 0.1
"""The kernel counts in ticks of 10 ms."""


@dataclass(frozen=True)
class TypedOptions:
    """Options as typed."""

    meters: tuple[str, ...]
    covers: tuple[str, ...]
    frequencies: str | None
    cores: str | None
    loads: str
    io: Path | None
    settle: Quantity
    measure: Quantity
    repeat: int
    seed: int
    frequency_max: Quantity | None


@dataclass(frozen=True)
class Asked:
    """What is swept on which host with which meters; `lacks` says what is not swept, and why."""

    host: Host
    design: Design
    meters: tuple[str, ...]
    covers: tuple[str, ...]
    io: Path | None
    frequency_max_hz: float
    lacks: dict[str, str]


def resolve(given: TypedOptions, root: Path = Path("/")) -> Asked:
    """Look at the host, and find out what can be swept.

    Raises InputError for what cannot be used, HostError for a sweep that this host does not allow.
    """
    from wattio.meters import kind_of

    for name in given.meters:
        kind_of(name)
    if len(set(given.meters)) < len(given.meters):
        raise InputError("--meter: a meter is named twice; the sum would count it twice")
    if given.io is not None and not given.io.is_dir():
        raise InputError(f"--io: {given.io} is not a folder")
    host = hosts.look(root)
    design = Design(
        frequencies_hz=_frequencies(given.frequencies, host),
        cores=_cores(given.cores, host),
        loads=_loads(given.loads),
        with_io=given.io is not None,
        repeat=_at_least("--repeat", given.repeat, 1),
        seed=_at_least("--seed", given.seed, 0),
        settle_s=_span("--settle", given.settle, 0.0),
        measure_s=_span("--measure", given.measure, _SPAN_S_LEAST),
    )
    return Asked(
        host=host,
        design=design,
        meters=given.meters,
        covers=given.covers,
        io=given.io,
        frequency_max_hz=_frequency_max(given.frequency_max, host),
        lacks=_lacks(host, design),
    )


def _lacks(host: Host, design: Design) -> dict[str, str]:
    """What is not swept, and why: the host's reasons, and choices of the user's."""
    lacks = dict(host.lacks)
    if len(design.frequencies_hz) == 1:
        lacks["frequency"] = "only one was asked for"
    if len(design.cores) == 1:
        lacks.setdefault("cores", "only one number was asked for")
    if len(design.loads) == 1:
        lacks["load"] = "only one was asked for"
    if not design.with_io:
        lacks["I/O"] = "no folder to read from was given (--io)"
    return lacks


def _frequencies(text: str | None, host: Host) -> tuple[float, ...]:
    if text is None:
        return host.frequencies_default()
    if "frequency" in host.lacks:
        raise HostError(f"--frequencies: {host.lacks['frequency']}")
    found = {quantity("--frequencies", word, "frequency") for word in _words(text)}
    for hertz in sorted(found):
        # Drivers take any frequency between their ends, or the next lower step.
        if host.frequencies_hz and not host.frequencies_hz[0] <= hertz <= host.frequencies_hz[-1]:
            least, most = host.frequencies_hz[0] / 1e9, host.frequencies_hz[-1] / 1e9
            raise InputError(
                f"--frequencies: {hertz / 1e9:g} GHz; allowed is {least:g} to {most:g} GHz"
            )
    return tuple(sorted(found))


def _cores(text: str | None, host: Host) -> tuple[int, ...]:
    if text is None:
        return host.cores_default()
    found = set()
    for word in _words(text):
        if not word.isascii() or not word.isdigit() or not 1 <= int(word[:9]) <= host.cores:
            raise InputError(f'--cores: "{word}"; allowed are whole numbers from 1 to {host.cores}')
        found.add(int(word))
    if found != {host.cores} and "cores" in host.lacks:
        raise HostError(f"--cores: {host.lacks['cores']}")
    return tuple(sorted(found))


def _loads(text: str) -> tuple[float, ...]:
    found = set()
    for word in _words(text):
        try:
            load = float(word)
        except ValueError:
            load = -1.0
        if not 0 <= load <= 1:
            raise InputError(f'--loads: "{word}"; allowed are numbers from 0 to 1')
        found.add(load)
    if not found:
        raise InputError("--loads: is empty; allowed are numbers from 0 to 1, separated by commas")
    return tuple(sorted(found))


def _frequency_max(text: Quantity | None, host: Host) -> float:
    found = quantity("--frequency-max", text, "frequency") if text else host.frequency_max_hz
    if not found:
        raise InputError(
            '--frequency-max: this host does not report its highest frequency; give it as "2.4 GHz"'
        )
    return found


def _span(option: str, text: Quantity, least_s: float) -> float:
    value = seconds(option, text)
    if not least_s <= value <= 86_400:
        raise InputError(f'{option}: "{text}"; allowed is {least_s:g} s to 24 h')
    return value


def _at_least(option: str, value: int, least: int) -> int:
    if value < least:
        raise InputError(f"{option}: {value} is below {least}")
    return value


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]
