"""What a fleet draws under each policy, how sure that is, and who breaks the bound."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wattio.analysis import soundness, statistics
from wattio.analysis.statistics import Interval
from wattio.errors import ResultError
from wattio.kinds.fleet import placement
from wattio.kinds.fleet.folder import Columns, FleetFolder
from wattio.kinds.fleet.members import peak_pressure
from wattio.kinds.fleet.schema import FleetStudy
from wattio.results.runs import WHOLE, Metrics, Recorded, Run, Verdict
from wattio.simulator.bounds import Bound
from wattio.simulator.policies import REFERENCE

TOP = 10
"""So many servers are named."""

Values = NDArray[np.float64]


@dataclass(frozen=True)
class Policy:
    """A policy over the whole fleet, with its servers and those of native."""

    run: Run
    columns: Columns
    native: Columns
    # The bounded statistic of each server over its limit: above 1 the bound is broken.
    bound_ratio: Values
    metrics: Metrics

    @property
    def saved_w(self) -> Values:
        """What each server draws less than under native."""
        return self.native["power_w_mean"] - self.columns["power_w_mean"]

    def get(self, name: str) -> float | None:
        """A metric's value."""
        return self.metrics[name][0] if name in self.metrics else None

    @property
    def sound(self) -> bool:
        """Whether the background work was done; who breaks the bound is told server by server."""
        return soundness.sound(None, self.get("relative_background_rate"))


def policies(folder: FleetFolder) -> list[Policy]:
    """Every policy of a fleet that is complete, in the study's order. Raises ResultError."""
    wholes = [item for item in folder.iterations() if item.identity == whole_identity(item.run)]
    tables = {item.run.condition: _columns(folder, item.run.condition) for item in wholes}
    native = next((item.run.condition for item in wholes if item.run.policy == REFERENCE), None)
    if native is None:
        raise ResultError(
            f"{folder.path}: is not complete; continue with: wattio run --resume {folder.path}"
        )
    study, members = folder.study(), folder.inputs()["members"]
    found = []
    for item in wholes:
        columns = tables[item.run.condition]
        ratios = relative(columns, tables[native], members, study)
        found.append(Policy(item.run, columns, tables[native], ratios, item.metrics))
    return found


def _columns(folder: FleetFolder, label: str) -> Columns:
    """The servers of a whole fleet under a policy. Raises ResultError where some are lacking."""
    columns, count = folder.columns(label), len(folder.inputs()["members"])
    if columns and len(columns["server"]) != count:
        raise ResultError(
            f"{folder.path}/samples: hold {len(columns['server'])} servers under {label}, not"
            f" {count}: a file is damaged"
        )
    return columns


def whole_identity(run: Run) -> str:
    """The identity of the iteration that stands for the whole fleet under a policy."""
    return hashlib.sha256(f"whole fleet, {run.condition}".encode()).hexdigest()[:16]


def write(folder: FleetFolder) -> None:
    """Add the batches of every policy up, and enter the metrics of the fleet in the catalog."""
    with folder.catalog() as catalog:
        items = [item for item in catalog.iterations() if item.identity != whole_identity(item.run)]
        runs = {item.run.condition: item.run for item in items}
        known = catalog.done()
        for label, found in derive(folder, runs).items():
            run = runs[label]
            identity = whole_identity(run)
            verdicts = [Verdict("VALID", "")]
            if identity in known:
                catalog.replace_derived(identity, verdicts, {WHOLE: found})
            else:
                head = (identity, run, items[0].seed, len(items), items[0].seed)
                catalog.add(Recorded(*head, tuple(verdicts), {WHOLE: found}), (), "fleet")


def derive(folder: FleetFolder, runs: Mapping[str, Run]) -> dict[str, Metrics]:
    """The metrics of the fleet under each policy, from the samples."""
    study = folder.study()
    members = folder.inputs()["members"]
    tables = {label: _columns(folder, label) for label in runs}
    native = next((tables[label] for label, run in runs.items() if run.policy == REFERENCE), None)
    if native is None:
        raise ResultError(
            f"{folder.path / 'catalog.sqlite'}: table runs: has none of the policy {REFERENCE}:"
            " the file is damaged"
        )
    found = {}
    for label, columns in tables.items():
        metrics = _power(columns, native, study)
        metrics |= _bound(columns, native, relative(columns, native, members, study))
        metrics |= placing(columns, native, members, study)
        found[label] = metrics
    return found


def _power(columns: Columns, native: Columns, study: FleetStudy) -> Metrics:
    power_w, native_w = columns["power_w_mean"], native["power_w_mean"]
    count = len(power_w)
    mean_w = float(power_w.mean())
    mean = statistics.mean_interval(power_w.tolist()) or Interval(mean_w, mean_w, mean_w, 0.95)
    tested = statistics.ratio_test(native_w.tolist(), power_w.tolist(), paired=True)
    ratio = float(power_w.sum()) / float(native_w.sum())
    of_native = tested.interval() if tested else Interval(ratio, ratio, ratio, 0.95)
    saved_w = float((native_w - power_w).sum())
    hours = study.study.duration / 3600
    price = study.price.factors
    year, saved = price.year(count * mean_w), price.year(saved_w)
    found: Metrics = {
        "servers": (count, "1"),
        "power_w_fleet": (count * mean_w, "W"),
        "power_w_fleet_low": (count * mean.low, "W"),
        "power_w_fleet_high": (count * mean.high, "W"),
        "energy_kwh": (float(columns["energy_j"].sum()) / 3.6e6, "kWh"),
        "energy_kwh_year": (year.kwh, "kWh"),
        "cost_eur_year": (year.eur, "EUR"),
        "co2_t_year": (year.co2_t, "t"),
        "saving_share": (1 - of_native.estimate, "1"),
        "saving_share_low": (1 - of_native.high, "1"),
        "saving_share_high": (1 - of_native.low, "1"),
        "saving_w": (saved_w, "W"),
        "saving_kwh": (saved_w * hours / 1000, "kWh"),
        "saving_kwh_year": (saved.kwh, "kWh"),
        "saving_eur_year": (saved.eur, "EUR"),
        "saving_co2_t_year": (saved.co2_t, "t"),
        "windows": (float(columns["windows"].sum()), "1"),
        "windows_skipped": (float(columns["windows_skipped"].sum()), "1"),
    }
    done, due = columns["background_rate_mean"].sum(), native["background_rate_mean"].sum()
    if due > 0:
        found["relative_background_rate"] = (float(done / due), "1")
    return found


def relative(
    columns: Columns, native: Columns, members: list[dict[str, Any]], study: FleetStudy
) -> Values:
    """The bounded statistic of each server over its limit: above 1 the bound is broken."""
    groups = np.array([member["group"] for member in members])
    ratios = np.full(len(groups), np.nan)
    for text, names in study.bounds.items():
        bound, those = Bound.parse(text), np.isin(groups, names)
        name = "latency_us_p99" if bound.statistic == "p99" else "latency_us_mean"
        ratios[those] = columns[name][those] / bound.limit(native[name][those])
    return ratios


def _bound(columns: Columns, native: Columns, ratios: Values) -> Metrics:
    known = ratios[np.isfinite(ratios)]
    unknown = float(len(ratios) - len(known))
    told: Metrics = {"servers_bound_unknown": (unknown, "1")} if unknown else {}
    if not len(known):
        return told
    over = float(np.count_nonzero(known > 1))
    latency = columns["latency_us_mean"] / native["latency_us_mean"]
    latency = latency[np.isfinite(latency)]
    return told | {
        "servers_over_bound": (over, "1"),
        "servers_over_bound_share": (over / len(known), "1"),
        "bound_ratio_max": (float(known.max()), "1"),
        "relative_latency_us_mean_p50": (float(np.quantile(latency, 0.5)), "1"),
        "relative_latency_us_mean_p95": (float(np.quantile(latency, 0.95)), "1"),
        "relative_latency_us_mean_max": (float(latency.max()), "1"),
    }


def placing(
    columns: Columns, native: Columns, members: list[dict[str, Any]], study: FleetStudy
) -> Metrics:
    """Estimates of load on fewer servers, for servers whose load is a share of a known rate."""
    entry = study.placing
    if entry is None:
        return {}
    kinds: dict[str, list[int]] = {}
    for at, member in enumerate(members):
        if member["source"]["kind"] == "day":
            kinds.setdefault(member["server"], []).append(at)
    parts = []
    for chosen in kinds.values():
        rates = np.array([members[at]["source"]["rate"] for at in chosen])
        ios = native["ios"][chosen] / native["duration_s"][chosen]
        # The busiest moment is that of any week, whatever part of one the fleet was run over.
        peak = np.array([peak_pressure(members[at]["source"]) for at in chosen])
        parts.append(placement.estimate(columns["power_w_mean"][chosen], ios / rates, peak, entry))
    if not parts:
        return {}
    present = sum(part.power_w for part in parts)
    placed = sum(part.power_w_placed for part in parts)
    native_w = float(native["power_w_mean"].sum())
    return {
        "estimated_placing_servers": (sum(part.servers for part in parts), "1"),
        "estimated_placing_servers_needed": (sum(part.servers_needed for part in parts), "1"),
        "estimated_placing_saving_w": (present - placed, "W"),
        "estimated_placing_saving_share": ((present - placed) / native_w, "1"),
        "estimated_placing_moving_w": (sum(part.moving_w for part in parts), "W"),
    }


def breakers(policy: Policy) -> list[tuple[int, float]]:
    """Numbers of servers over the bound with how far, the farthest first."""
    over = [(at, float(ratio)) for at, ratio in enumerate(policy.bound_ratio) if ratio > 1]
    return sorted(over, key=lambda item: -item[1])


def worthwhile(policy: Policy) -> list[int]:
    """The servers that save most, the first first."""
    return [int(at) for at in np.argsort(-policy.saved_w, kind="stable")[:TOP]]
