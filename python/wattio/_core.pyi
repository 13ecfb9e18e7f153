"""The native module of wattio: simulator, control laws and trace readers.

Every structured argument and result crosses as JSON text; long series cross as NumPy arrays.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Self, final

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "ORACLE_BOUNDS_MAX",
    "YEAR_H",
    "HeldKnobs",
    "HostError",
    "InputError",
    "Law",
    "PowerMeter",
    "PowerModel",
    "PowerSampler",
    "Simulation",
    "assumed_power_model",
    "built_in_servers",
    "check_bound",
    "check_daemon_config",
    "check_policy",
    "check_server",
    "check_target_config",
    "check_trace_reading",
    "oracle",
    "parse_quantity",
    "policies",
    "power_meters",
    "run_fleet",
    "saturated_iops",
    "trace_convert",
    "trace_info",
    "trace_segments",
    "version",
]

class InputError(ValueError):
    """Input that cannot be used: says the file, line or key, what was wrong and what is allowed."""

class HostError(Exception):
    """The host lacks what was asked of it, or says no: which place, what it said, what would do."""

ORACLE_BOUNDS_MAX: int
"""The most bounds that the oracle keeps at once."""

YEAR_H: float
"""Hours of a mean year."""

def version() -> str:
    """The version of the native module."""

def parse_quantity(text: str, kind: str) -> float:
    """Read `"10 ms"` into its SI base unit.

    `kind` is one of "power", "energy", "frequency", "time", "data size". Raises InputError.
    """

def built_in_servers() -> dict[str, str]:
    """The server descriptions that come with wattio: `{name: TOML text}`."""

def check_server(text: str) -> str:
    """Validate a server description (TOML text); return it resolved, as JSON. Raises InputError."""

def policies() -> str:
    """All policies as JSON: `{name: {"doc": str, "parameters": [{name, unit, default, minimum,
    maximum, source, published, doc}]}}`."""

def check_policy(name: str, settings: str) -> str:
    """Validate the settings (JSON object) of a policy; return all its parameters as a JSON object.

    Raises InputError for an unknown policy, an unknown parameter or a value out of range.
    """

def saturated_iops(server: str, pattern: str, clients: int, seed: int) -> float:
    """Highest rate, in I/Os per second, that `clients` closed-loop clients reach at full speed.

    `server` is TOML text, `pattern` a JSON object `{read_fraction, random_fraction, io_bytes}`.
    """

def run_fleet(batch: str, progress: Callable[[float], bool] | None = None) -> str | None:
    """Run a batch of fluid servers under one policy: rates and formulas in place of events.

    `batch` is a JSON object:

        {"servers": {"name": "<TOML text>"},
         "policy": {"name": "pacer", "settings": {"plf": 0.2}},
         "bounds": ["mean 20%"],        # what laws that can are told to keep; may be empty
         "noise": true,                 # counts and means of windows are drawn
         "skip": true,                  # stretches in which nothing changes are taken at once
         "threads": 4 | null,           # null: as many as there are cores
         "members": [{"server": "name", "seed": 1, "clients": 900 | null, "dispersion": 1.0,
                      "parts": [[span_s, rate, read_share, random_share, bytes_mean]],
                      "span_s": 86400.0}]}

    Parts are repeated until the span is full. Returns JSON `{"members": [{duration_s, ios,
    ios_waiting_end, latency_us_mean, latency_us_p99, power_w_mean, energy_j, energy_cores_j,
    energy_drives_j, energy_rest_j, background_rate_mean, background_rate_due,
    background_backlog_core_s_end, cores_active_mean, utilisation_mean, windows, windows_skipped,
    windows_alarmed, knob_changes, bounds}]}` in the order of the members, the p99 (an
    approximation) only where a bound is on a quantile; or None when `progress`, which gets the
    share done, returned False. Raises InputError.
    """

@final
class Simulation:
    """One simulated run: a server under a load with a policy.

    `spec` is a JSON object:

        {"server": "<TOML text>",
         "policy": {"name": "pacer", "settings": {"plf": 0.2}},
         "load": {"kind": "phases", "mode": "clients" | "open", "clients": 900,
                  "phases": [{"span_s": 60.0, "iops": 60000.0 | null,
                              "pattern": {"read_fraction": 0.7, "random_fraction": 1.0,
                                          "io_bytes": 8192}}]}
               | {"kind": "trace", "path": "...", "rate_scale": 1.0, "time_scale": 1.0,
                  "format": null, "columns": null},
         "warmup_s": 10.0, "duration_s": 60.0 | null, "window_s": 0.5, "seed": 1}

    `iops: null` means as fast as the clients go. The warm-up runs the first phase (or the trace's
    beginning) and is not counted. Time and energy are counted from its end on.
    """

    def __new__(cls, spec: str) -> Self: ...
    def advance(self, seconds: float) -> float:
        """Simulate that many seconds more; return the share done, 1.0 at the end.

        Releases the interpreter lock. Raises InputError where a trace turns out to be damaged.
        """

    def record_steps(self) -> None:
        """Keep every step of the law from now on."""

    def steps(self) -> str:
        """The recorded steps as a JSON array of `{dt_s, observation, action, state}`; the
        observation is what `Law.step` takes, action and state are what it returns."""

    def summary(self) -> str:
        """Totals of the run as a JSON object (names of `wattio simulate --json`)."""

    def windows(self) -> dict[str, NDArray[np.float64]]:
        """One row per latency window, a column per quantity; an absent value is NaN here.

        Columns: `start_s`, `span_s`, `ios`, `latency_us_mean`, `latency_us_p99`, `energy_j`,
        `energy_cores_j`, `energy_drives_j`, `energy_rest_j`, `cores_active_mean`,
        `frequency_hz_mean`, `utilisation`, `background_rate` (core-seconds at full speed per
        second), `state` (0 at full speed (unstable), 1 saving (stable), 2 idle, 3 no states), and
        `cores_<group>` for each core group.
        """

    def window_histograms(
        self,
    ) -> tuple[NDArray[np.uint64], NDArray[np.float64], NDArray[np.uint64]]:
        """Latency histogram of each window, flattened: `(offsets, latency_us, count)`.

        Window i has the buckets `offsets[i]:offsets[i + 1]`; `offsets` has one entry more than
        there are windows; `latency_us` is the upper edge of a bucket.
        """

    def latency_histogram(self) -> tuple[NDArray[np.float64], NDArray[np.uint64]]:
        """Latency histogram of the whole run: `(latency_us, count)`, upper edges of the buckets."""

@final
class Law:
    """A control law by itself, for a server's limits; `settings` is a JSON object."""

    def __new__(cls, server: str, name: str, settings: str) -> Self: ...
    def set_bounds(self, bounds: list[str]) -> None:
        """Bounds such as "p99 20% window", instead of what the settings say; none changes nothing.

        Raises ValueError for what is no bound.
        """
    def step(self, observation: str, dt_s: float) -> str:
        """One step. `observation` is a JSON object; what follows a `?` may be left out:

            {"latency": {"requests", "latency_us_mean", "bytes_mean", "read_share", "age_s",
                         ? "arrived", "in_flight", "oldest_s", "histogram"} | null,
             "groups": [{"cores", "frequency_hz", "utilisation_clients",
                         "utilisation_background", "waited_for_drives", ? "queued"}],
             ? "background": [{"class", "done_core_s", "due_core_s", "backlog_core_s",
                               ? "urgency"}],
             "power_w", "alarm"}

        and the result one of `{"action": {"groups": [{"cores", "frequency_hz"}],
        "drives": "own" | "awake" | "asleep", "background_core_s_per_s": [float | null]},
        "state": "unstable" | "stable" | "idle" | null, "alarm_requests": int | null}`.
        """

def oracle(
    spec: str, options: str, progress: Callable[[float], bool] | None = None
) -> tuple[Simulation, str] | None:
    """Plan the best setting for each slot of a load that is known beforehand.

    `spec` is that of `Simulation` (its policy and bounds are not looked at), `options` a JSON
    object `{"bounds": ["mean 20% run"], "floor": 0.98, "slice_s": 0.5, "trial_s": 2.0,
    "background_delay_s": null}`. Returns the run that follows the plan, and the plan as a JSON
    object: `segments`, an array of `{start_s, span_s, cores, frequency_hz, background_budget,
    drives, power_w_mean, power_w_native, latency_ratio}` (a core count and a frequency for each
    group; a budget of null is work as it becomes due); `slot_s`; `tolerance_share`, how far the
    best found stays behind what its slots would give if none cared for the one before;
    `simulated`, the number of simulations; `rivals`, how each policy fared, as it is and where that
    was tried with free switching; `winner`, the policy whose run it is, or null. None when
    `progress` returned False. Raises InputError.
    """

def check_bound(text: str) -> str:
    """Read a bound on latency, such as "mean 20% run", "p99 2 ms window" or "p99.9 0.5".

    Returns a JSON object: `text` (as wattio writes it), `statistic`, `quantile` (None for the
    mean), `share` over full speed (None for absolute bounds), `limit_us` (None for relative ones),
    `scope` ("run" or "window"). Raises InputError.
    """

def check_trace_reading(format: str | None, columns: str | None) -> None:
    """Check how a trace is to be read: by the name of a format, or by a description of columns.

    Raises InputError, also where both are given.
    """

def trace_info(
    path: str,
    progress: Callable[[float], bool] | None = None,
    format: str | None = None,
    columns: str | None = None,
) -> str:
    """What a trace holds, as a JSON object. `progress` gets the share read and returns False to stop.

    `format` is the name of a format, where it is not to be found by the content; `columns` describes
    the columns of a text file, such as "time=0:us,op=2,lba=3:sectors,size=4:bytes". Just one of both
    may be given.
    """

def trace_segments(
    path: str,
    segment_s: float,
    progress: Callable[[float], bool] | None = None,
    format: str | None = None,
    columns: str | None = None,
) -> str:
    """Rate and mix of requests of each segment of a trace, empty ones included, as a JSON array.

    Its objects hold `{start_s, span_s, ios, iops_mean, read_share, random_share, size_bytes: {p50,
    p95, max, mean, common: [{bytes, ios, share}]}}`; shares and sizes are null in a segment without
    requests. A segment lasts `segment_s`; the last one ends with the last request, and a remainder
    of less than a tenth of a segment belongs to the one before it. `progress`, `format` and
    `columns` are those of `trace_info`. Raises InputError, also where there would be more than 100,000 segments.
    """

def trace_convert(
    source: str,
    target: str,
    form: str,
    rate_scale: float = 1.0,
    time_scale: float = 1.0,
    progress: Callable[[float], bool] | None = None,
    format: str | None = None,
    columns: str | None = None,
) -> int:
    """Write a trace in another form; return the number of records. Raises InputError.

    `format` and `columns` say how the source is read, as in `trace_info`.
    """

def check_daemon_config(text: str, path: str) -> None:
    """Check a configuration of `wattiod` (TOML text), without looking at any host.

    Raises InputError with the words of `wattiod check`: `path`, line or key, what is wrong.
    """

def check_target_config(text: str, path: str) -> list[str]:
    """Check a configuration of `wattio-target` (TOML text), without looking at devices.

    Returns the names of its exports. Raises InputError with the words of `wattio-target check`: `path`,
    line or key, what is wrong.
    """

def power_meters(root: str = ...) -> list[dict[str, str | None]]:
    """The power meters of the host: `{name, what, trouble}`.

    `name` opens it ("rapl:package-0"), `what` says what it measures, `trouble` why it cannot be
    read now, or None. `root` is the folder under which /sys lies.
    """

@final
class PowerMeter:
    """An open power meter. Raises HostError where there is none of that name, or it is unreadable.

    Energy counters wrap: read more often than every few minutes.
    """

    def __new__(cls, name: str, root: str = ...) -> PowerMeter: ...
    @property
    def name(self) -> str:
        """By which it was opened."""

    def read(self) -> tuple[float, float] | None:
        """Power in watts and energy in joules since the first reading.

        Power is the mean since the reading before (RAPL), or the sensor's own value (hwmon). None
        for the first reading of an energy counter, which begins the first span. Raises HostError,
        also for a counter that never advances.
        """

@final
class PowerSampler:
    """Meters that are sampled many times a second, by a thread that needs no interpreter.

    `meters` are open meters, the file that takes each one's records
    (`wattio.recording.samples.RECORD`; it must exist), and whether its energy is counted. `period_s`
    is 1 us to 1 s. A power above `power_w_max` cannot be true. A meter that fails is let go of, and
    the others go on. Raises HostError, InputError.
    """

    def __new__(
        cls, meters: list[tuple[PowerMeter, Path, bool]], period_s: float, power_w_max: float
    ) -> PowerSampler: ...
    def fates(self) -> list[tuple[int, int, str | None]]:
        """How each meter fares: monotonic nanoseconds of its newest reading (0 for none yet),
        readings that were due and not taken in time, and why it was let go of."""

    def stop(self) -> None:
        """End the thread; every record is in its file then."""

def assumed_power_model() -> str:
    """The power model that comes with wattio, as TOML text; nobody measured it."""

@final
class PowerModel:
    """What a host draws, as a linear model (TOML text, `power-model.toml`). Raises InputError."""

    def __new__(cls, text: str) -> PowerModel: ...
    def power_w(self, groups: list[tuple[float, float, float]], iops: float) -> float:
        """Power in watts of groups of cores `(active cores, utilisation, frequency over the
        highest)`, the last two from 0 to 1, at that many I/Os per second."""

    def facts(self) -> str:
        """The model as a JSON object: its keys, `frequency_max_hz`, and `is_measured`, whether every
        coefficient was fitted to a meter."""

@final
class HeldKnobs:
    """Places of the host that are written to, and put back. Use it with `with`.

    The old value of each place goes into the file `snapshot_path` before the first write, and is
    put back by `restore`, at the end of `with`, or when the object goes; after a kill, by the next
    `HeldKnobs` with the same file. The file's folder is locked meanwhile: there is
    one holder at a time. `root` is the folder under which /sys and /proc lie. Raises HostError
    where another one holds, an earlier snapshot cannot be read, or what it holds not be put back.

    An address is a scheme and a place: "file:/sys/devices/system/cpu/cpufreq/policy0/
    scaling_max_freq", "cpuset:/sys/fs/cgroup/.../cpuset.cpus".
    """

    def __new__(cls, root: str, snapshot_path: str) -> HeldKnobs: ...
    @property
    def restored_at_open(self) -> list[str]:
        """Addresses that an earlier holder left changed, and that were put back."""

    def read(self, address: str) -> str:
        """The value at a place. Raises HostError; InputError for what is no address."""

    def write(self, address: str, value: str) -> None:
        """Write a value and read it back; the old one is saved before the first write.

        Raises HostError where it is refused, does not stay, or the place was changed by somebody
        else meanwhile: it is left to them from then on.
        """

    def restore(self) -> list[str]:
        """Put every old value back; return the addresses that had another.

        What somebody else changed is left. Raises HostError for what cannot be put back, with the
        command that does it by hand.
        """

    def __enter__(self) -> HeldKnobs: ...
    def __exit__(self, *_raised: object) -> None: ...
