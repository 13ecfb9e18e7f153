"""The core adaptor and the frequency adaptor (section IV-C), one at a time where coordinated."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from reference.ieee import over
from reference.limits import GroupLimits, GroupSetting
from reference.order import cores_go_first
from reference.tried import Tried

CORES_KEPT = 0.7
"""Share of its cores that a group keeps in one step."""

Groups = Sequence[Mapping[str, Any]]


def u_desired(u_desired_old: float, beta: float, distance: float) -> float:
    """`u_desired = u_desired_old + beta loss_distance`."""
    return u_desired_old + beta * distance


def n_desired(alpha: float, n_cur: float, u_cur: float, u_des: float) -> float:
    """`n_desired = ceil(alpha n_cur u_cur / u_desired)`, here before it is rounded up."""
    return over(alpha * n_cur * u_cur, u_des)


def f_desired(f_cur: float, gamma: float, distance: float) -> float:
    """`f_desired = f_cur - gamma loss_distance`, as shares of the highest frequency.

    Printed with plus, which would speed up when there is room.
    """
    return f_cur - gamma * distance


def utilisation(group: Mapping[str, Any]) -> float:
    """u_cur: share of time in tasks of clients and of background work."""
    return float(group["utilisation_clients"] + group["utilisation_background"])


class Adaptors:
    """The desired utilisation of each group, and the frequency as a share of the highest."""

    def __init__(self, limits: Sequence[GroupLimits], settings: Mapping[str, Any]) -> None:
        self.limits = limits
        self.settings = settings
        self.u_des = [0.0] * len(limits)
        self.f_share = 1.0
        self.tried = Tried()

    def begin(self, groups: Groups) -> None:
        """At full speed: what is desired is what is seen."""
        self.f_share = 1.0
        self.u_des = [max(utilisation(group), 0.0) for group in groups[: len(self.limits)]]
        self.u_des += [0.0] * (len(self.limits) - len(self.u_des))

    def blame(self) -> bool:
        """Lays a window that went much too far to a coarse step down, where there was one."""
        coordinated = bool(self.settings["coordinated"])
        return coordinated and self.tried.blame(False, self.limits, self.settings) is not None

    def undo(self, groups: Groups) -> list[GroupSetting]:
        self.f_share = max(self.f_share, self.tried.f_floor())
        self.unwind_down(groups)
        return self.action(groups)

    def step(
        self,
        distance: float,
        any_step_blamed: bool | None,
        span_s: float,
        held: Sequence[GroupSetting],
        groups: Groups,
    ) -> list[GroupSetting]:
        """One step at a loss distance; `any_step_blamed` is None where no step is to blame."""
        if not self.settings["coordinated"]:
            # As printed: one error drives both.
            self.move_u_desired(distance)
            self.move_f_desired(distance)
            return self.action(groups)
        cores_first = cores_go_first(self.f_share, groups, self.limits, self.settings)
        if any_step_blamed is not None:
            verdict = self.tried.blame(any_step_blamed, self.limits, self.settings)
            if verdict == "blamed":
                return self.undo(groups)
        if distance >= 0.0:
            # Room: the adaptor that saves more goes first, the other one once it is at rest.
            self.unwind_up(groups)
            cores_go = cores_first and not self.cores_at_rest(groups)
            if cores_go or not self.frequency_fell(distance, groups):
                self.move_u_desired(distance)
        elif self.frequency_gives_back(cores_first, groups):
            self.move_f_desired(distance)
        else:
            self.unwind_down(groups)
            self.move_u_desired(distance)
        action = self.action(groups)
        self.tried.ask(held, action, span_s)
        return action

    def action(self, groups: Groups) -> list[GroupSetting]:
        return [
            limits.nearest(self.n_of(at, groups), limits.frequency_max * self.f_share)
            for at, limits in enumerate(self.limits)
        ]

    def n_of(self, at: int, groups: Groups) -> float:
        """Cores of a group: for all work, and for the clients' alone; few go in any one step."""
        if at >= len(groups) or not self.settings["adapt_cores"]:
            return self.limits[at].cores_max
        group, alpha = groups[at], self.settings["alpha"]
        n, clients = group["cores"], group["utilisation_clients"]
        for_all = n_desired(alpha, n, utilisation(group), self.u_des[at])
        wanted = max(
            for_all, n_desired(alpha, n, clients, self.settings["utilisation_clients_max"])
        )
        # A utilisation that cannot be must not look like no work at all.
        known = 0.0 <= wanted < math.inf
        # What is n but for the last bit is n.
        cores = math.ceil(wanted * (1.0 - 1e-9)) if known else self.limits[at].cores_max
        kept = 0
        if self.settings["coordinated"]:
            kept = max(min(math.ceil(n * CORES_KEPT), n - 1), 0)
        return max(cores, self.tried.cores_floor(at), min(kept, self.limits[at].cores_max))

    def move_u_desired(self, distance: float) -> None:
        moved = [u_desired(u, self.settings["beta"], distance) for u in self.u_des]
        self.u_des = [min(max(u, 0.01), self.settings["utilisation_max"]) for u in moved]

    def move_f_desired(self, distance: float) -> None:
        if self.settings["adapt_frequency"]:
            least = min(limits.frequency_min / limits.frequency_max for limits in self.limits)
            wanted = f_desired(self.f_share, self.settings["gamma"], distance)
            self.f_share = min(max(wanted, least), 1.0)

    def unwind_down(self, groups: Groups) -> None:
        """Giving back begins at the desire that a group's cores follow: `alpha u` at most."""
        for at, group in enumerate(groups[: len(self.limits)]):
            real = self.settings["alpha"] * utilisation(group)
            if real >= 0.0:
                self.u_des[at] = min(self.u_des[at], real)

    def unwind_up(self, groups: Groups) -> None:
        """Taking begins at `alpha u` at least, for a group that has all its cores."""
        for at, group in enumerate(groups[: len(self.limits)]):
            real = self.settings["alpha"] * utilisation(group)
            has_all = group["cores"] >= self.limits[at].cores_max
            if has_all and real <= self.settings["utilisation_max"]:
                self.u_des[at] = max(self.u_des[at], real)

    def frequency_fell(self, distance: float, groups: Groups) -> bool:
        """Lowers the frequency unless it is at its end, cores would come back, or it overshot."""
        before = self.f_share
        self.move_f_desired(distance)
        self.f_share = max(self.f_share, min(self.tried.f_floor(), before))
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

    def cores_at_rest(self, groups: Groups) -> bool:
        """Whether more room would take no more cores."""
        return not self.settings["adapt_cores"] or all(
            self.u_des[at] >= self.settings["utilisation_max"]
            or group["cores"] <= max(self.limits[at].cores_min, self.tried.cores_floor(at))
            for at, group in enumerate(groups[: len(self.limits)])
        )

    def frequency_gives_back(self, cores_first: bool, groups: Groups) -> bool:
        """What went last comes back first."""
        cores_gave = self.settings["adapt_cores"] and any(
            u_des > utilisation(group) for group, u_des in zip(groups, self.u_des, strict=False)
        )
        lowered = self.settings["adapt_frequency"] and self.f_share < 1.0
        return lowered and (cores_first or not cores_gave)
