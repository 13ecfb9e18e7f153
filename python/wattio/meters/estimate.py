"""Power by a model, for machines without a meter: `estimate:host`, `estimate:power-model.toml`.

Nothing is measured but what cores did: busy and idle time of each from /proc/stat, its frequency
from cpufreq (the highest where there is none), the loop of an idle core from cpuidle, requests of
disks from /proc/diskstats. The model (`wattio._core.PowerModel`) makes joules of it, so a core that
sleeps costs less than one that polls. `estimate:host` takes the model that was fitted to this host
where there is one, else `estimate:assumed`.
"""

from __future__ import annotations

import contextlib
import json
import os
import tomllib
from pathlib import Path
from typing import Any

from wattio import _core, clock
from wattio.analysis import cores
from wattio.analysis.cores import Counter, Look, Spent, Ticks
from wattio.analysis.modelled import Coefficients
from wattio.clock import Instant
from wattio.errors import InputError
from wattio.files.document import another_kind_of, text_of
from wattio.meters.meter import Facts, FoundMeter, MeterLost, Reading
from wattio.meters.name import Name, parse
from wattio.meters.sample import midway

SCHEME = "estimate"
FORM = "estimate:host, estimate:assumed or estimate:FILE, a power-model.toml"

ASSUMED = "assumed"
HOST = "host"

_PERIOD_S = 0.5
_SPAN_S_MIN = 0.1
"""The kernel counts in ticks of 10 ms: over less than ten of them a power means little."""

_FILE = "power-model.toml"
_PLACES = (f"etc/wattio/{_FILE}",)
_OF_USER = Path(".config/wattio") / _FILE
_DAEMON = "etc/wattiod.toml"
"""Where `wattiod` is told of a model, as `power.model`."""


def find() -> list[FoundMeter]:
    """The model of this host, where it is not the one that comes with wattio; and that one."""
    own = model_of_host()
    found = [FoundMeter(f"{SCHEME}:{ASSUMED}", "an assumed model of a server; nothing is measured")]
    if own != ASSUMED:
        found.insert(0, FoundMeter(f"{SCHEME}:{HOST}", f"the power model {own}; an estimate"))
    return found


def model_of_host(root: Path = Path("/")) -> str:
    """The file of the power model that is there for this host, or the assumed one.

    It is looked for in the user's own folder, in /etc/wattio, and where `wattiod` is told of one.
    """
    places = [root / place for place in _PLACES]
    if root == Path("/"):
        places.insert(0, Path.home() / _OF_USER)
    told = _of_daemon(root / _DAEMON)
    places += [] if told is None else [told]
    return next((str(place) for place in places if place.is_file()), ASSUMED)


def _of_daemon(config: Path) -> Path | None:
    """The model that a configuration of `wattiod` names; None if it names none."""
    try:
        told = tomllib.loads(text_of(config))["power"]["model"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return config.parent / told if isinstance(told, str) and told != ASSUMED else None


def model_of(name: str) -> str:
    """The file of the model that a meter's name stands for now, or the assumed one. InputError."""
    return _model_of(parse(name))


def _model_of(parts: Name) -> str:
    return model_of_host(_root_of(parts)) if parts.path == HOST else parts.path


def _root_of(parts: Name) -> Path:
    return Path(parts.query.get("root", "/"))


def open_meter(name: str) -> Estimate:
    """Read the model. Raises InputError.

    `?root=FOLDER` says below which folder /proc, /sys and /etc lie.
    """
    parts = parse(name)
    parts.allow(["root"])
    if not parts.path:
        raise parts.missing("model", FORM)
    path = _model_of(parts)
    found_at = None if path == parts.path else path
    return Estimate(read_model(path), _root_of(parts), parts.shown, found_at)


def read_model(path: str) -> _core.PowerModel:
    """The model of a file, or the assumed one. Raises InputError."""
    if path == ASSUMED:
        return _core.PowerModel(_core.assumed_power_model())
    text = text_of(Path(path))
    try:
        return _core.PowerModel(text)
    except InputError as error:
        raise InputError(f"{path}: {another_kind_of(text, 'core_frequency') or error}") from None


def parse_stat(text: str) -> dict[int, Ticks]:
    """As `analysis.cores.parse_stat`; raises MeterLost."""
    try:
        return cores.parse_stat(text)
    except ValueError as error:
        raise MeterLost(str(error)) from None


class Estimate:
    """A model with this host's counters."""

    def __init__(
        self, model: _core.PowerModel, root: Path, name: str, path: str | None = None
    ) -> None:
        """Read the counters for the first time at `read`; `path` is where the model was found."""
        self._root = root
        facts: dict[str, Any] = json.loads(model.facts())
        self._model = Coefficients.of_facts(facts, os.uname().nodename)
        # Facts of a model are the user's own text.
        origin = "fitted to a meter" if facts["is_measured"] else "with assumed coefficients"
        found = f" ({path})" if path not in (None, ASSUMED) else ""
        self._facts = Facts(
            name=name,
            what=f"an estimate by the model {facts['name']}{found}, {origin}, from cores' busy and"
            f" idle time; range: {self._model.origin}",
            period_s=_PERIOD_S,
            accuracy_class="estimate",
            counts_energy=True,
            estimate=True,
            model=self._model.as_plain(),
        )
        self._counter = Counter(self._model.frequency_max_hz)
        self._before: tuple[Instant, float] | None = None
        self._power_w: float | None = None
        self._closed = False

    @property
    def facts(self) -> Facts:
        """What it says about itself."""
        return self._facts

    def read(self) -> Reading:
        """Joules since the first reading, and the mean power since the one before. MeterLost.

        The first has no power; one sooner than a tenth of a second repeats that of the one before.
        """
        if self._closed:
            raise MeterLost(f"{self._facts.name}: is closed")
        asked = clock.now()
        look = look_here(self._root)
        at = midway(asked, clock.now())
        energy_j = self._energy_j(self._counter.take(at.monotonic_ns / 1e9, look))
        before, before_j = self._before or (at, energy_j)
        span_s = (at.monotonic_ns - before.monotonic_ns) / 1e9
        if span_s >= _SPAN_S_MIN:
            self._power_w = (energy_j - before_j) / span_s
        if self._before is None or span_s >= _SPAN_S_MIN:
            self._before = (at, energy_j)
        return Reading(*at, self._power_w, energy_j)

    def _energy_j(self, spent: Spent) -> float:
        return self._model.energy_j(spent).value

    def close(self) -> None:
        """Let go of it."""
        self._closed = True


def look_here(root: Path = Path("/")) -> Look:
    """What the counters of this machine say now. Raises MeterLost."""
    try:
        return cores.look_of(_texts(root))
    except ValueError as error:
        raise MeterLost(str(error)) from None
    except OSError as error:
        raise MeterLost(f"/{cores.STAT}: cannot be read: {error.strerror}") from None


def _texts(root: Path) -> dict[str, str]:
    found = {}
    for pattern in (cores.FREQUENCIES, f"{cores.IDLE_STATES}*e", cores.DISKS):
        for path in root.glob(pattern):
            with contextlib.suppress(OSError):
                found[str(path.relative_to(root))] = _text(path)
    # The last one: it is what the moment of a look is for.
    found[cores.STAT] = _text(root / cores.STAT)
    return found


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")
