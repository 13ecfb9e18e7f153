"""The PACER law, equation by equation and slowly.

Written from the document's sections IV-B, IV-C and IV-D (its equations have no numbers) and from
what the project documents where print is silent, lost or mended: `crates/control/src/pacer` and
`parameters/pacer.toml`. Nothing is optimised: all windows are kept, means are sums over them. Each
room of the law has its own file beside this one.

Quantities are SI (seconds, hertz, bytes), latencies microseconds, shares 0 to 1. An observation is
the JSON object that `wattio._core.Law.step` takes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from reference import idle
from reference.adaptors import Adaptors
from reference.background import BackgroundAccount, Budgets
from reference.baseline import Baseline, Baselines
from reference.burst import Late, Work
from reference.closed_loop import ClosedLoop, powers_w
from reference.credit import Credit
from reference.ieee import over
from reference.limits import GroupSetting, Limits
from reference.mix_regression import Mix, MixRegression, mix_of
from reference.promise import Bound, Promise
from reference.stability import Sample, Stability

LATENCY_US_MAX = 1e12
BACK = -0.25
"""The loss distance at which a step that raised the energy of requests is given back."""

Action = tuple[list[GroupSetting], str, Budgets]
"""Setting of each group, what the drives do ("own", "awake" or "asleep"), budgets."""

Seen = Mapping[str, Any]


class Pacer:
    """The state machine of figure 9, and `settling`: unstable, the window mixes two speeds."""

    def __init__(
        self,
        limits: Limits,
        settings: Mapping[str, Any],
        bounds: Sequence[Bound] = (),
    ) -> None:
        self.limits = limits
        self.settings = settings
        self.state = "unstable"
        self.promise = Promise(settings, bounds)
        self.stability = Stability(int(settings["windows"]), self.promise.requests_min())
        self.baselines = Baselines(settings["baseline_octaves"], settings["baseline_age_max"])
        self.regression = MixRegression()
        self.adaptors = Adaptors(limits.groups, settings)
        self.closed_loop = ClosedLoop()
        self.credit = Credit()
        self.background = BackgroundAccount(settings)
        self.work = Work(len(limits.groups))
        self.level: int | None = None
        self.tried_at: int | None = None
        self.quiet_s = 0.0
        self.unsteady_s = 0.0
        self.was_in_flight = False
        self.held = self.full_speed()

    def step(self, seen: Seen, dt_s: float) -> dict[str, Any]:
        """What `wattio._core.Law.step` returns."""
        self.baselines.grow_older(dt_s)
        self.adaptors.tried.grow_older(dt_s)
        self.background.account(seen["background"], self.is_at_full_speed(), dt_s)
        latency = seen["latency"]
        if latency is None or not plausible(latency):
            # Nobody knows what clients experience: they get full speed.
            self.quiet_s = 0.0
            self.held = self.destabilise()
        else:
            self.work.learn(seen, latency["requests"], dt_s)
            self.account_for_idle(latency, dt_s)
            self.held = self.step_on_latency(seen, latency, dt_s)
        groups, drives, budgets = self.held
        return {
            "action": {
                "groups": [{"cores": cores, "frequency_hz": hertz} for cores, hertz in groups],
                "drives": drives,
                "background_core_s_per_s": budgets,
            },
            "state": "unstable" if self.state == "settling" else self.state,
            "alarm_requests": self.alarm_requests(),
        }

    def is_at_full_speed(self) -> bool:
        return self.state in ("settling", "unstable")

    def full_speed(self) -> Action:
        return ([group.full() for group in self.limits.groups], "own", [])

    def destabilise(self) -> Action:
        """Back to Unstable: no power is saved, and nothing is known about the load."""
        self.state = "unstable" if self.is_at_full_speed() else "settling"
        self.stability.clear()
        self.level = None
        return self.full_speed()

    def step_on_latency(self, seen: Seen, latency: Seen, dt_s: float) -> Action:
        in_flight = (latency.get("in_flight") or 0) > 0
        asked = latency["requests"] > 0 or in_flight or seen["alarm"]
        self.quiet_s = 0.0 if asked else self.quiet_s + dt_s
        stalls = self.stalls(latency)
        self.was_in_flight = in_flight
        if stalls:
            return self.destabilise()
        if self.quiet_s >= self.settings["idle_after"]:
            return self.step_quiet(seen)
        if self.state == "idle":
            # Back to Unstable on the first request.
            return self.destabilise()
        if self.state == "stable":
            return self.step_stable(seen, latency, dt_s)
        self.unsteady_s += dt_s
        groups, drives, budgets = self.step_unstable(seen, latency, dt_s)
        if self.unsteady_s > self.settings["background_horizon"]:
            budgets = self.background.debts()
        return (groups, drives, budgets)

    def account_for_idle(self, latency: Seen, dt_s: float) -> None:
        known = self.full_speed_of(mix_of(latency["read_share"], latency["bytes_mean"]))
        if known is None:
            self.credit.account(latency, None, 0.0, dt_s)
        else:
            baseline, translation = known
            base_us = baseline.mean.latency_us * translation
            share = self.promise.share(baseline, translation)
            self.credit.account(latency, base_us, share, dt_s)

    def stalls(self, latency: Seen) -> bool:
        """Requests are under way, none is answered, and that for half a window or since before."""
        if latency["requests"] > 0 or (latency.get("in_flight") or 0) == 0:
            return False
        oldest_s = latency.get("oldest_s")
        if oldest_s is None:
            return self.was_in_flight
        return bool(oldest_s >= 0.5 * self.settings["window"])

    def step_quiet(self, seen: Seen) -> Action:
        """Section IV-D: background work at full speed until done, then sleep."""
        if not idle.is_idle(seen, self.state == "idle", self.limits.groups, self.settings):
            return self.destabilise()
        if self.state != "idle":
            self.destabilise()
            self.state = "idle"
        if not self.settings["adapt_background"]:
            return self.full_speed()
        rest = idle.at_rest(seen, self.limits.groups, self.settings)
        cores_rest, drives_rest = self.credit.affords(
            rest, self.promise.is_for_windows(), self.limits, self.settings
        )
        classes = len(self.background.classes)
        # Background work that is put off would have kept the drives awake.
        drives = "asleep" if drives_rest else "awake" if classes > 0 else "own"
        full = self.full_speed()[0]
        if self.background.drains_while_idle():
            all_cores = float(sum(limits.cores_max for limits in self.limits.groups))
            return (full, drives, [all_cores] * classes)
        return (rest if cores_rest else full, drives, [0.0] * classes)

    def step_unstable(self, seen: Seen, latency: Seen, dt_s: float) -> Action:
        if self.state == "settling":
            self.state = "unstable"
            return self.full_speed()
        mix = mix_of(latency["read_share"], latency["bytes_mean"])
        if latency["requests"] > 0 and mix is not None:
            self.regression.learn(mix, latency["latency_us_mean"], latency["requests"])
        sample = self.stability.push(latency, powers_w(seen, self.limits), dt_s)
        mean = self.stability.all_windows()
        if sample is None or mean is None:
            return self.full_speed()
        # Stability check: l_div < l_stable_thresh.
        if self.stability.divergence(self.regression) >= self.settings["stable_threshold"]:
            return self.full_speed()
        if self.promise.has_quantile() and mean.histogram is None:
            return self.full_speed()
        # Parameter update: the baseline, at full speed only (print learns it while saving, too).
        self.move_to(self.baselines.learn(mean, self.stability.last()))
        self.state = "stable"
        self.unsteady_s = 0.0
        self.adaptors.begin(seen["groups"])
        return self.full_speed()

    def step_stable(self, seen: Seen, latency: Seen, dt_s: float) -> Action:
        if self.is_burst(seen, latency):
            self.blame(latency)
            return self.destabilise()
        sample = self.stability.push(latency, powers_w(seen, self.limits), dt_s)
        if sample is None:
            return (self.held[0], self.held[1], self.background.budgets())
        # Stability check: l_div > l_unstable_thresh (printed with the wrong sign).
        if self.stability.divergence(self.regression) > self.settings["unstable_threshold"]:
            if not self.blame(latency):
                return self.destabilise()
            self.stability.clear()
            return (self.adaptors.undo(seen["groups"]), "own", self.background.budgets())
        self.move_to(self.level_of_load())
        baseline = self.baselines.known(self.level)
        lately = self.stability.all_windows() or sample
        if baseline is None:
            return self.destabilise()
        translation = self.regression.translation(baseline.mean.mix, sample.mix)
        distance = self.promise.distance(sample, lately, baseline, translation)
        if distance is None:
            return self.destabilise()
        self.closed_loop.learn(sample, baseline, baseline.mean.latency_us * translation)
        advice = self.closed_loop.advise(lately, baseline, int(self.settings["windows"]))
        if not self.settings["coordinated"]:
            # As printed, the latency alone steers.
            advice = None
        any_step_blamed = False if distance < -self.settings["overshoot_max"] else None
        if advice == "back":
            any_step_blamed = True
        distance = min(distance, {"wait": 0.0, "back": BACK}.get(advice or "go", distance))
        merged = sample.span_s / self.settings["window"]
        distance *= min(max(merged, 1.0), self.settings["merged_gain_max"])
        groups = self.adaptors.step(
            distance, any_step_blamed, sample.span_s, self.held[0], seen["groups"]
        )
        return (groups, "own", self.background.budgets())

    def move_to(self, level: int | None) -> None:
        """What was tried at another level says nothing about this one."""
        self.level = level
        if level != self.tried_at:
            self.adaptors.tried.clear()
            self.closed_loop.clear()
            self.tried_at = level

    def level_of_load(self) -> int | None:
        """The level in force until the load has left it, at the rate that full speed would have.

        Clients that wait for answers ask as much less often as they wait for longer. Unless they
        are known to wait or not to, the rate at full speed may be anything in between.
        """
        lately = self.stability.all_windows()
        if self.level is None or lately is None:
            return self.level
        l_baseline = self.l_baseline(lately.mix)
        slowed = 1.0 if l_baseline is None else over(lately.latency_us, l_baseline)
        may_follow = 1.0 if self.closed_loop.is_open() else slowed
        if self.baselines.still_at(self.level, lately, may_follow):
            return self.level
        return self.baselines.level_of(lately, slowed if self.closed_loop.is_closed() else 1.0)

    def full_speed_of(self, mix: Mix | None) -> tuple[Baseline, float] | None:
        """The baseline of the level in force, and the latency of a mix there over its own."""
        baseline = self.baselines.known(self.level)
        if baseline is None:
            return None
        return (baseline, self.regression.translation(baseline.mean.mix, mix))

    def l_baseline(self, mix: Mix | None) -> float | None:
        known = self.full_speed_of(mix)
        return None if known is None else known[0].mean.latency_us * known[1]

    def blame(self, latency: Seen) -> bool:
        """Lays a window that went much too far to the last step down, where there was one.

        Much too far: `loss > share (1 + overshoot_max)`.
        """
        known = self.full_speed_of(mix_of(latency["read_share"], latency["bytes_mean"]))
        if known is None or latency["latency_us_mean"] is None:
            return False
        baseline, translation = known
        loss = over(latency["latency_us_mean"], baseline.mean.latency_us * translation) - 1.0
        share = max(self.promise.share(baseline, translation), 0.0)
        most = share * (1.0 + self.settings["overshoot_max"])
        return bool(loss > most) and self.adaptors.blame()

    def is_burst(self, seen: Seen, latency: Seen) -> bool:
        """Burst check: latency or utilisation leaps within a window, or the alarm went off."""
        late = self.late(mix_of(latency["read_share"], latency["bytes_mean"]))
        slow = late is not None and late.is_late(latency, int(self.settings["requests_min"]))
        limit = self.settings["burst_utilisation"]
        busy = any(group["utilisation_clients"] > limit for group in seen["groups"])
        return slow or busy or bool(seen["alarm"])

    def late(self, mix: Mix | None) -> Late | None:
        """`l_baseline (1 + plf + burst_margin)`, and as many more under way.

        At full speed as many are under way as Little's law says, or as were seen.
        """
        known = self.full_speed_of(mix)
        if known is None:
            return None
        full_speed = known[0].mean
        base_us = full_speed.latency_us * known[1]
        share = max(self.promise.share(*known), 0.0)
        growth = 1.0 + share + self.settings["burst_margin"]
        in_flight = max(full_speed.rate * base_us * 1e-6, full_speed.in_flight or 0.0)
        return Late(base_us, base_us * growth, in_flight * growth)

    def alarm_requests(self) -> int | None:
        """Requests within a `burst_window` that close the window early; while idle: any."""
        if self.state == "idle":
            return 1
        mean: Sample | None = self.stability.all_windows() if self.state == "stable" else None
        if mean is None:
            return None
        return self.work.alarm_requests(mean, self.held[0], self.settings)


def plausible(latency: Seen) -> bool:
    """Whether a sample says how clients fare; else it is as good as missing."""
    mean_us = latency["latency_us_mean"]
    return latency["requests"] == 0 or (mean_us is not None and 0.0 < mean_us <= LATENCY_US_MAX)
