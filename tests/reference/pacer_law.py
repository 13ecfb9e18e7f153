"""The PACER law, equation by equation and slowly.

Written from the document's sections IV-B, IV-C and IV-D (its equations have no numbers) and from
what the project documents where print is silent, lost or mended: `crates/control/src/pacer` and
`parameters/pacer.toml`. Nothing is optimised: all windows are kept, means are sums over them.

Quantities are SI (seconds, hertz, bytes), latencies microseconds, shares 0 to 1. An observation is
the JSON object that `wattio._core.Law.step` takes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reference.background import BackgroundAccount
from reference.limits import GroupLimits, GroupSetting
from reference.mix_regression import Mix, MixRegression, mix_of

LATENCY_US_MAX = 1e12
LEVEL_OVERLAP = 0.25


# Section IV-B: stability.


def l_avg(latencies_us: Sequence[float]) -> float:
    """`l_avg = (1/k) sum_i l_i`."""
    return sum(latencies_us) / len(latencies_us)


def l_div(latencies_us: Sequence[float]) -> float:
    """`l_div = max_i |l_i - l_avg| / l_avg` (lost in print: the project's reading)."""
    mean = l_avg(latencies_us)
    return max(abs(latency - mean) / mean for latency in latencies_us)


# Section IV-C: performance loss, cores, frequency.


def loss(l_cur: float, l_baseline: float) -> float:
    """`loss_cur = (l_cur - l_baseline) / l_baseline`."""
    return (l_cur - l_baseline) / l_baseline


def loss_distance(plf: float, loss_cur: float) -> float:
    """`loss_distance = (plf - loss_cur) / plf`."""
    return (plf - loss_cur) / plf


def u_desired(u_desired_old: float, beta: float, distance: float) -> float:
    """`u_desired = u_desired_old + beta loss_distance`."""
    return u_desired_old + beta * distance


def n_desired(alpha: float, n_cur: float, u_cur: float, u_des: float) -> float:
    """`n_desired = ceil(alpha n_cur u_cur / u_desired)`, here before it is rounded up.

    A group that was seen without any work desires none; nothing is known of it: all cores.
    """
    return alpha * n_cur * u_cur / u_des if u_des > 0 else math.inf


def f_desired(f_cur: float, gamma: float, distance: float) -> float:
    """`f_desired = f_cur - gamma loss_distance`, as shares of the highest frequency.

    Printed with plus, which would speed up when there is room.
    """
    return f_cur - gamma * distance


@dataclass(frozen=True)
class Sample:
    """Windows taken as one: `(requests, latency, bytes, read share, span)` of each."""

    windows: tuple[tuple[int, float, float | None, float | None, float], ...]

    def _mean(self, column: int) -> float | None:
        values = [window[column] for window in self.windows]
        if any(value is None for value in values):
            return None
        weighted = zip(self.windows, values, strict=True)
        return sum(window[0] * float(value or 0.0) for window, value in weighted) / self.requests

    @property
    def requests(self) -> int:
        return sum(window[0] for window in self.windows)

    @property
    def latency_us(self) -> float:
        return self._mean(1) or 0.0

    @property
    def mix(self) -> Mix | None:
        return mix_of(self._mean(3), self._mean(2))

    @property
    def span_s(self) -> float:
        return sum(window[4] for window in self.windows)

    @property
    def rate(self) -> float:
        return self.requests / self.span_s if self.span_s > 0.0 else math.inf


class Pacer:
    """The state machine of figure 9."""

    def __init__(self, limits: Sequence[GroupLimits], settings: Mapping[str, Any]) -> None:
        self.limits = limits
        self.settings = settings
        self.state = "unstable"
        self.samples: list[Sample] = []
        self.growing: list[tuple[int, float, float | None, float | None, float]] = []
        self.empty_s = 0.0
        self.quiet_s = 0.0
        self.baselines: dict[float, tuple[float, Mix | None, float]] = {}
        self.regression = MixRegression()
        self.background = BackgroundAccount(settings)
        self.level: float | None = None
        self.window_at_full_speed = True
        self.u_des = [0.0] * len(limits)
        self.f_share = 1.0
        self.alarm: int | None = None
        self.work_core_s = [0.0] * len(limits)
        self.work_requests = 0.0
        self.held = self.full_speed()

    def step(self, seen: Mapping[str, Any], dt_s: float) -> dict[str, Any]:
        """What `wattio._core.Law.step` returns."""
        self.baselines = {
            level: (latency, mix, age + dt_s)
            for level, (latency, mix, age) in self.baselines.items()
        }
        self.background.account(seen["background"], self.state == "unstable", dt_s)
        latency = seen["latency"]
        if latency is None or not plausible(latency):
            self.quiet_s = 0.0
            groups, budgets = self.destabilise()
        else:
            self.learn_work(seen, latency["requests"], dt_s)
            asked = latency["requests"] > 0 or seen["alarm"]
            self.quiet_s = 0.0 if asked else self.quiet_s + dt_s
            groups, budgets = self.step_on_latency(seen, latency, dt_s)
        self.held = (groups, budgets)
        self.alarm = self.alarm_requests()
        return {
            "action": {
                "groups": [{"cores": cores, "frequency_hz": hertz} for cores, hertz in groups],
                "background_core_s_per_s": budgets,
            },
            "state": self.state,
            "alarm_requests": self.alarm,
        }

    def full_speed(self) -> tuple[list[GroupSetting], list[float]]:
        return ([group.full() for group in self.limits], [])

    def destabilise(self) -> tuple[list[GroupSetting], list[float]]:
        """Back to Unstable: no power is saved, and nothing is known about the load."""
        self.window_at_full_speed = self.state == "unstable"
        self.state = "unstable"
        self.samples, self.growing, self.empty_s = [], [], 0.0
        self.level = None
        return self.full_speed()

    def step_on_latency(
        self, seen: Mapping[str, Any], latency: Mapping[str, Any], dt_s: float
    ) -> tuple[list[GroupSetting], list[float]]:
        # Idle check (IV-B): 30 s without a request; back to Unstable on the first one.
        if self.quiet_s >= self.settings["idle_after"]:
            if self.state != "idle":
                self.destabilise()
                self.state = "idle"
            return self.step_idle()
        if self.state == "idle":
            return self.destabilise()
        if self.state == "unstable":
            return self.step_unstable(seen, latency, dt_s)
        return self.step_stable(seen, latency, dt_s)

    def step_unstable(
        self, seen: Mapping[str, Any], latency: Mapping[str, Any], dt_s: float
    ) -> tuple[list[GroupSetting], list[float]]:
        if not self.window_at_full_speed:
            self.window_at_full_speed = True
            return self.full_speed()
        mix = mix_of(latency["read_share"], latency["bytes_mean"])
        if latency["requests"] > 0 and mix is not None:
            self.regression.learn(mix, latency["latency_us_mean"], latency["requests"])
        if self.push(latency, dt_s) is None:
            return self.full_speed()
        mean = self.all_windows()
        # Stability check: l_div < l_stable_thresh.
        if mean is None or self.divergence() >= self.settings["stable_threshold"]:
            return self.full_speed()
        # Parameter update: the baseline, at full speed only (print learns it while saving, too).
        self.level = self.level_of(mean)
        self.baselines[self.level] = (mean.latency_us, mean.mix, 0.0)
        self.state = "stable"
        self.f_share = 1.0
        self.u_des = [max(utilisation(group), 0.0) for group in seen["groups"]]
        self.u_des += [0.0] * (len(self.limits) - len(self.u_des))
        return self.full_speed()

    def step_stable(
        self, seen: Mapping[str, Any], latency: Mapping[str, Any], dt_s: float
    ) -> tuple[list[GroupSetting], list[float]]:
        if self.is_burst(seen, latency):
            return self.destabilise()
        sample = self.push(latency, dt_s)
        if sample is None:
            return (self.held[0], self.background.budgets())
        # Stability check: l_div > l_unstable_thresh (printed with the wrong sign).
        if self.divergence() > self.settings["unstable_threshold"]:
            return self.destabilise()
        mean = self.all_windows()
        if self.level is not None and mean is not None:
            off = abs(self.place(mean) - self.level)
            self.level = self.level if off <= 0.5 + LEVEL_OVERLAP else self.level_of(mean)
        l_baseline = self.l_baseline(sample.mix)
        if l_baseline is None:
            return self.destabilise()
        plf = self.settings["plf"] * (1.0 - self.settings["bound_headroom"])
        distance = loss_distance(plf, loss(sample.latency_us, l_baseline))
        distance = min(max(distance, self.settings["loss_distance_min"]), 1.0)
        merged = sample.span_s / self.settings["window"]
        distance *= min(max(merged, 1.0), self.settings["merged_gain_max"])
        return (self.adapt(distance, seen["groups"]), self.background.budgets())

    def step_idle(self) -> tuple[list[GroupSetting], list[float]]:
        """Section IV-D: background work at full speed until done, then sleep."""
        budgets = self.background.budgets_while_idle()
        if self.background.draining or not self.settings["adapt_background"]:
            return (self.full_speed()[0], budgets)
        cores, frequency = self.settings["adapt_cores"], self.settings["adapt_frequency"]
        least = [
            (
                group.cores_min if cores else group.cores_max,
                group.frequency_min if frequency else group.frequency_max,
            )
            for group in self.limits
        ]
        return (least, budgets)

    # Section IV-B: windows, divergence, burst.

    def push(self, latency: Mapping[str, Any], dt_s: float) -> Sample | None:
        """Adds a window; windows with few requests are merged until they have enough."""
        if latency["requests"] == 0:
            self.empty_s += dt_s
            return None
        self.growing.append(
            (
                latency["requests"],
                latency["latency_us_mean"],
                latency["bytes_mean"],
                latency["read_share"],
                dt_s + self.empty_s,
            )
        )
        self.empty_s = 0.0
        sample = Sample(tuple(self.growing))
        if sample.requests < self.settings["requests_min"]:
            return None
        self.growing = []
        self.samples = [*self.samples, sample][-int(self.settings["windows"]) :]
        return sample

    def all_windows(self) -> Sample | None:
        """The last k windows as one, once there are k."""
        if len(self.samples) < self.settings["windows"]:
            return None
        return Sample(tuple(window for sample in self.samples for window in sample.windows))

    def divergence(self) -> float:
        """l_div of the last k windows, each translated to the mix of the last one."""
        mix = self.samples[-1].mix
        translate = self.regression.translation
        return l_div([sample.latency_us * translate(sample.mix, mix) for sample in self.samples])

    def place(self, load: Sample) -> float:
        """Logarithm of the request rate, in widths of a load level."""
        if math.isinf(load.rate):
            return math.inf
        return math.log2(load.rate) / float(self.settings["baseline_octaves"])

    def level_of(self, load: Sample) -> float:
        place = self.place(load)
        return place if math.isinf(place) else math.copysign(math.floor(abs(place) + 0.5), place)

    def l_baseline(self, mix: Mix | None) -> float | None:
        """The latency at full speed of a mix; None where it is unknown or too old."""
        if self.level is None or self.level not in self.baselines:
            return None
        latency_us, learned_mix, age_s = self.baselines[self.level]
        if age_s > self.settings["baseline_age_max"]:
            return None
        return latency_us * self.regression.translation(learned_mix, mix)

    def is_burst(self, seen: Mapping[str, Any], latency: Mapping[str, Any]) -> bool:
        """Burst check: latency or utilisation leaps within a window, or the alarm went off."""
        requests = latency["requests"]
        l_baseline = self.l_baseline(mix_of(latency["read_share"], latency["bytes_mean"]))
        burst_loss = self.settings["plf"] + self.settings["burst_margin"]
        slow = (
            requests >= self.settings["requests_min"]
            and latency["latency_us_mean"] is not None
            and l_baseline is not None
            and latency["latency_us_mean"] > l_baseline * (1.0 + burst_loss)
        )
        limit = self.settings["burst_utilisation"]
        busy = any(group["utilisation_clients"] > limit for group in seen["groups"])
        return slow or busy or bool(seen["alarm"])

    def learn_work(self, seen: Mapping[str, Any], requests: int, dt_s: float) -> None:
        """What requests cost on the cores of each group; a window halves the past's weight."""
        if requests == 0:
            return
        self.work_requests = 0.5 * self.work_requests + requests
        for at, group in enumerate(seen["groups"][: len(self.limits)]):
            core_s = group["utilisation_clients"] * group["cores"] * dt_s
            core_s = max(core_s, 0.0) if math.isfinite(core_s) else 0.0
            self.work_core_s[at] = 0.5 * self.work_core_s[at] + core_s

    def alarm_requests(self) -> int | None:
        """Requests within a `burst_window` that close the window early; while idle: any."""
        if self.state == "idle":
            return 1
        mean = self.all_windows() if self.state == "stable" else None
        if mean is None or mean.span_s <= 0.0:
            return None
        expected = mean.requests * self.settings["burst_window"] / mean.span_s
        span_s = self.settings["burst_window"]
        most = [
            self.settings["burst_utilisation"] * cores * span_s * self.work_requests / work_core_s
            for (cores, _), work_core_s in zip(self.held[0], self.work_core_s, strict=True)
            if work_core_s > 0.0
        ]
        alarm = max(
            min(most, default=0.0) * self.settings["burst_alarm"],
            expected * (1.0 + self.settings["rate_change"]),
            expected + 5.0 * math.sqrt(expected),
        )
        # A count of requests has 64 bits.
        return min(math.ceil(alarm), 2**64 - 1) if math.isfinite(alarm) else None

    # Section IV-C: core adaptor and frequency adaptor.

    def adapt(self, distance: float, groups: Sequence[Mapping[str, Any]]) -> list[GroupSetting]:
        cores_first = not all(limits.idle_cores_sleep for limits in self.limits)
        if not self.settings["coordinated"]:
            # As printed: one error drives both.
            self.move_u_desired(distance)
            self.move_f_desired(distance)
        elif distance >= 0.0:
            # Room: the adaptor that saves more goes first, the other one once it is at rest.
            cores_go = cores_first and not self.cores_at_rest(groups)
            if cores_go or not self.frequency_fell(distance, groups):
                self.move_u_desired(distance)
        elif self.frequency_gives_back(cores_first, groups):
            self.move_f_desired(distance)
        else:
            self.move_u_desired(distance)
        return [
            limits.nearest(self.n_of(at, groups), limits.frequency_max * self.f_share)
            for at, limits in enumerate(self.limits)
        ]

    def n_of(self, at: int, groups: Sequence[Mapping[str, Any]]) -> float:
        """Cores of a group: enough for all work, and for the clients' alone."""
        if at >= len(groups) or not self.settings["adapt_cores"]:
            return self.limits[at].cores_max
        group, alpha = groups[at], self.settings["alpha"]
        for_all = n_desired(alpha, group["cores"], utilisation(group), self.u_des[at])
        clients, most = group["utilisation_clients"], self.settings["utilisation_clients_max"]
        wanted = max(for_all, n_desired(alpha, group["cores"], clients, most))
        return math.ceil(wanted) if 0 <= wanted < math.inf else self.limits[at].cores_max

    def move_u_desired(self, distance: float) -> None:
        moved = [u_desired(u, self.settings["beta"], distance) for u in self.u_des]
        self.u_des = [min(max(u, 0.01), self.settings["utilisation_max"]) for u in moved]

    def move_f_desired(self, distance: float) -> None:
        if self.settings["adapt_frequency"]:
            least = min(limits.frequency_min / limits.frequency_max for limits in self.limits)
            wanted = f_desired(self.f_share, self.settings["gamma"], distance)
            self.f_share = min(max(wanted, least), 1.0)

    def frequency_fell(self, distance: float, groups: Sequence[Mapping[str, Any]]) -> bool:
        """Lowers the frequency unless it is at its end or cores would have to come back."""
        before = self.f_share
        self.move_f_desired(distance)
        stretch = before / self.f_share
        for group, limits in zip(groups, self.limits, strict=False):
            gated = self.settings["adapt_cores"] and group["cores"] > limits.cores_min
            tasks = stretch * (self.settings["alpha"] if gated else 1.0)
            if (
                utilisation(group) * tasks > self.settings["utilisation_max"]
                or group["utilisation_clients"] * tasks > self.settings["utilisation_clients_max"]
            ):
                self.f_share = before
        return self.f_share < before

    def cores_at_rest(self, groups: Sequence[Mapping[str, Any]]) -> bool:
        return not self.settings["adapt_cores"] or all(
            self.u_des[at] >= self.settings["utilisation_max"]
            or group["cores"] <= self.limits[at].cores_min
            for at, group in enumerate(groups[: len(self.limits)])
        )

    def frequency_gives_back(self, cores_first: bool, groups: Sequence[Mapping[str, Any]]) -> bool:
        """What went last comes back first."""
        cores_gave = self.settings["adapt_cores"] and any(
            u_des > utilisation(group) for group, u_des in zip(groups, self.u_des, strict=False)
        )
        lowered = self.settings["adapt_frequency"] and self.f_share < 1.0
        return lowered and (cores_first or not cores_gave)


def utilisation(group: Mapping[str, Any]) -> float:
    """u_cur: share of time in tasks of clients and of background work."""
    return float(group["utilisation_clients"] + group["utilisation_background"])


def plausible(latency: Mapping[str, Any]) -> bool:
    """Whether a sample says how clients fare; else it is as good as missing."""
    mean_us = latency["latency_us_mean"]
    return latency["requests"] == 0 or (mean_us is not None and 0.0 < mean_us <= LATENCY_US_MAX)
