"""Fleets: what is drawn, what is refused, a run with its resuming, its metrics and its page."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from places import ROOT
from wattio import _core, cli
from wattio.errors import InputError
from wattio.executors.threads import SimulationExecutor
from wattio.files import document
from wattio.kinds.fleet import execute, members, placement, plan, recompute, summary
from wattio.kinds.fleet.folder import FleetFolder
from wattio.kinds.fleet.plan import FleetRequest
from wattio.kinds.fleet.schema import FleetStudy, PlacingEntry
from wattio.report.fleet import figures
from wattio.results.plan import Iteration

STUDY = """
[study]
name = "trial"
kind = "fleet"
duration = "1 h"
batch = 2

[[group]]
name = "web"
count = 3
server = "small"
day = { pressure_median = 0.1, step = "10 min", burstiness_max = 20.0 }

[[group]]
name = "logs"
count = 2
server = "dorado6000"
day = { pressure_median = 0.05, patterns = ["Rand_W"] }

[[policy]]
name = "pacer"
label = "PACER"

[[policy]]
name = "ondemand"
settings = { sampling_rate = "500 ms" }

[scale.more]
servers = 10
"""


def source(text: str = STUDY, path: Path = Path("trial.toml")) -> document.Document:
    return document.parse(path, text)


def made(text: str = STUDY, scale: str | None = None) -> plan.FleetPlan:
    return plan.make(source(text), scale)


@pytest.fixture
def study(tmp_path: Path) -> Path:
    path = tmp_path / "trial.toml"
    path.write_text(STUDY, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("given", "instead", "told"),
    [
        ("count = 3", "cout = 3", "trial.toml:10: group[1].cout: unknown key; did you mean"),
        ('duration = "1 h"', 'duration = "1 min"', "duration: allowed is 1 h to 366 d"),
        (
            "batch = 2",
            'bound = "median 20%"',
            'trial.toml:6: study.bound: "median 20%": allowed are the mean or the p99',
        ),
        ("batch = 2", 'bound = "mean 1.2.3%"', 'bound: "mean 1.2.3%": allowed are the mean'),
        ("batch = 2", 'bound = "p99 2 ms window"', "the mean or the p99 over the run"),
        ("batch = 2", 'bound = "p95 20%"', "the mean or the p99 over the run"),
        ("batch = 2", 'bound = "mean 2000%"', "a share over full speed (0.1% to 1000%)"),
        ("count = 3", 'count = 3\nbound = "best"', 'group[1].bound: "best": allowed are'),
        ('server = "small"', 'server = "smal"', 'unknown server "smal"'),
        ("pressure_median = 0.1", "pressure_median = 1.5", "less than or equal to 1"),
        ('name = "logs"', 'name = "web"', '"web" is already taken by another group'),
        ('name = "ondemand"', 'name = "oracle"', "the oracle is only for simulations"),
        (
            "day = { pressure_median = 0.05",
            'traces = "."\nday = { pressure_median = 0.05',
            "exactly one",
        ),
        ("sampling_rate", "sampling_rat", 'did you mean "sampling_rate"'),
    ],
)
def test_what_is_wrong_is_named_with_its_line(given: str, instead: str, told: str) -> None:
    assert given in STUDY
    with pytest.raises(InputError) as refused:
        made(STUDY.replace(given, instead, 1))
    assert told in str(refused.value), str(refused.value)


def test_an_unknown_scale_says_which_there_are() -> None:
    with pytest.raises(InputError, match='has no scale "mor"; did you mean "more"'):
        made(scale="mor")


def test_native_is_added_and_a_larger_fleet_begins_with_the_servers_of_the_smaller() -> None:
    small, large = made(), made(scale="more")
    assert [run.condition for run in small.runs] == ["native", "PACER", "ondemand"]
    assert (len(small.members), len(large.members)) == (5, 10)
    webs = [[item for item in of.members if item.group == "web"] for of in (small, large)]
    assert webs[0] == webs[1][: len(webs[0])]
    assert [batch.repetition for batch in small.iterations[:3]] == [0, 1, 2]
    assert small.short_hash == made().short_hash != made(STUDY.replace("0.05", "0.06")).short_hash


def test_a_day_swings_around_its_busiest_hour_and_rests_at_weekends() -> None:
    drawn: dict[str, Any] = {
        "kind": "day", "pressure": 0.1, "pressure_max": 0.8, "rate": 1000.0, "hour": 14.0,
        "swing": 0.5, "weekend": 0.25, "wander": 0.0, "step_s": 3600.0, "first_day": 4,
        "mix": [0.7, 1.0, 8192.0],
    }  # fmt: skip
    member = members.Member(0, "g", "small", 1, None, 1.0, drawn)
    parts = member.parts(2 * 86400.0)
    rates = np.array([part[1] for part in parts])
    assert len(parts) == 48
    assert int(np.argmax(rates[:24])) in (13, 14)
    assert rates[:24].mean() == pytest.approx(100.0)
    assert rates[24:].mean() == pytest.approx(25.0), "a Saturday"
    wandering = members.Member(0, "g", "small", 1, None, 1.0, drawn | {"wander": 0.3})
    long = np.array([part[1] for part in wandering.parts(300 * 86400.0)])
    still = np.array([part[1] for part in member.parts(300 * 86400.0)])
    assert (long / still).mean() == pytest.approx(1.0, abs=0.1)
    assert wandering.parts(86400.0) == wandering.parts(86400.0)


def test_traces_are_repeated_each_server_from_elsewhere() -> None:
    traces = ROOT / "traces"
    text = STUDY.replace("day = { pressure_median = 0.05", f'traces = "{traces}"\n#', 1)
    one, other = (item for item in made(text).members if item.group == "logs")
    parts, others = one.parts(3600.0), other.parts(3600.0)
    assert parts != others
    assert sorted(parts) == sorted(others), "the same seconds from another one on"
    info = json.loads(_core.trace_info(str(traces / "pgbench.wtrace")))
    offered = sum(span * rate for span, rate, *_ in parts)
    assert offered == pytest.approx(info["ios"], rel=1e-6)
    missing = text.replace(str(traces), str(traces / "none"))
    with pytest.raises(InputError, match=r"group\[2\].traces: .* is not a folder"):
        made(missing)


def test_traces_are_not_read_whole_into_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    traces = tmp_path / "traces"
    traces.mkdir()
    name = "synthetic.msr"
    (traces / name).symlink_to(ROOT / "tests" / "data" / "traces" / name)
    digest = hashlib.sha256((traces / name).read_bytes()).hexdigest()
    day = 'day = { pressure_median = 0.05, patterns = ["Rand_W"] }'
    text = STUDY.replace(day, f'traces = "{traces}"')
    monkeypatch.setattr(Path, "read_bytes", lambda _: pytest.fail("it is read whole"))
    drawn = [each for each in made(text).members if each.group == "logs"]
    assert {each.source["digest"] for each in drawn} == {digest}
    (traces / name).unlink()
    (traces / name).symlink_to(tmp_path / "none")
    monkeypatch.setattr(plan, "_is_trace", lambda path: path.is_symlink())
    with pytest.raises(InputError, match=r"group\[2\].traces: .*synthetic.msr cannot be read"):
        made(text)


def test_placing_keeps_to_the_share_and_pays_for_moving() -> None:
    entry = PlacingEntry(pressure_max=0.5, off_power="10 W", moving_power="0 W")  # type: ignore[arg-type]
    load = np.array([0.05, 0.1, 0.15, 0.1])
    power = 100.0 + 200.0 * load
    found = placement.estimate(power, load, 2 * load, entry)
    # Peaks of 0.8 in all fill two servers to half: two at 100 W, 80 W for the load, two off.
    assert found.servers_needed == 2
    assert found.power_w_placed == pytest.approx(200 + 80 + 20)
    dear = entry.model_copy(update={"moving_power": 1e9})
    assert placement.estimate(power, load, 2 * load, dear).power_w_placed == pytest.approx(
        power.sum()
    )


@pytest.mark.parametrize("weekend", [0.5, 1.5])
def test_placing_needs_as_many_servers_whatever_the_fleet_was_run_over(weekend: float) -> None:
    """The peak was the mean of the run, swung: less at a weekend, and over a week."""
    text = STUDY.replace("count = 3", "count = 40")
    for entry in ('step = "10 min"', 'patterns = ["Rand_W"]'):
        text = text.replace(entry, f"{entry}, wander = 0.0, weekend = {weekend}")
    needed = set()
    for first_day in ("saturday", "tuesday"):
        for duration in ("1 d", "7 d"):
            head = f'duration = "{duration}"\nfirst_day = "{first_day}"'
            planned = made(text.replace('duration = "1 h"', head))
            drawn = planned.inputs["members"]
            columns = ideal(planned)
            found = summary.placing(columns, columns, drawn, planned.study)
            needed.add(found["estimated_placing_servers_needed"][0])
            peaks = [max(part[1] for part in each.parts(7 * 86400.0)) for each in planned.members]
            rates = [each["source"]["rate"] for each in drawn]
            told = [members.peak_pressure(each["source"]) for each in drawn]
            assert told == pytest.approx(np.array(peaks) / rates, rel=0.01)
    assert len(needed) == 1


def ideal(planned: plan.FleetPlan) -> dict[str, Any]:
    """Columns of servers that answer all that comes, and draw by it."""
    span_s = planned.study.study.duration
    ios = []
    for each in planned.members:
        parts = np.array(each.parts(span_s))
        ios.append(float((parts[:, 0] * parts[:, 1]).sum()))
    rates = np.array([each.source["rate"] for each in planned.members])
    count = len(ios)
    power_w = 50.0 + 40.0 * np.array(ios) / span_s / rates
    return {
        "ios": np.array(ios),
        "duration_s": np.full(count, span_s),
        "power_w_mean": power_w,
    }


def test_the_native_module_refuses_what_cannot_be_and_stops_when_told() -> None:
    batch = execute.specification(made().iterations[0].request)
    with pytest.raises(InputError, match="fleet: "):
        _core.run_fleet("{}")
    batch["members"][1]["parts"] = []
    with pytest.raises(InputError, match=r"members\[1\]: parts: "):
        _core.run_fleet(json.dumps(batch))
    batch = execute.specification(made().iterations[0].request)
    assert _core.run_fleet(json.dumps(batch), lambda _: False) is None


@pytest.mark.parametrize("policy", ["pacer", "foresight", "pegasus", "rubik"])
def test_every_law_that_keeps_bounds_is_told_the_fleets(policy: str) -> None:
    """pegasus and rubik steered by 20 % of their own, and were judged by the fleet's bound."""
    text = STUDY.replace('name = "pacer"', f'name = "{policy}"')
    text = text.replace("batch = 2", 'batch = 2\nbound = "mean 10%"')
    requests = [batch.request for batch in made(text).iterations]
    told = {each.policy: (execute.specification(each)["bounds"], each.noise) for each in requests}
    assert told == {"native": ([], False), policy: (["mean 10%"], True), "ondemand": ([], False)}


def test_threads_change_nothing() -> None:
    asked = made().iterations[3].request
    assert asked.policy == "pacer"
    one, all_ = execute.simulate(asked, threads=1), execute.simulate(asked, threads=None)
    assert one == all_


class _Failing:
    """A simulator whose third batch fails."""

    def __init__(self) -> None:
        self.calls = 0

    def simulate(self, request: FleetRequest, **_: object) -> dict[str, Any]:
        self.calls += 1
        if self.calls > 2:
            raise KeyboardInterrupt
        return execute.simulate(request)


def test_a_stopped_fleet_goes_on_and_gives_what_a_whole_one_gives(
    study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = _run(
        [str(study), "--results", str(tmp_path / "a"), "--jobs", "2", "--no-report"], capsys
    )
    again = plan.make(document.read(study))
    folder = FleetFolder.create(again, tmp_path / "b", datetime(2026, 1, 2, tzinfo=UTC))
    ended: list[Iteration[Any]] = []
    executor = SimulationExecutor(_Failing(), 1, lambda *_: None)
    left = folder.remaining(again)
    with pytest.raises(KeyboardInterrupt):
        execute.execute(left, folder, executor, ended.append)
    assert len(ended) == 2
    assert not folder.complete()
    assert _main(["report", str(folder.path)]) == 2
    assert "is not complete; continue with: wattio run --resume" in capsys.readouterr().err
    resumed = _run(["--resume", str(folder.path), "--no-report"], capsys)
    assert resumed["policies"] == whole["policies"]
    derived = recompute.compare(folder)
    compared, different = derived.compared, derived.differences
    assert compared > 100
    assert different == []


def test_a_fleet_has_a_page_metrics_and_who_breaks_the_bound(
    study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = _run([str(study), "--results", str(tmp_path)], capsys)
    native, pacer, _ = (policy["metrics"] for policy in shown["policies"])
    assert native["saving_share"] == 0
    assert 0.05 < pacer["saving_share"] < 0.5
    assert pacer["saving_share_low"] <= pacer["saving_share"] <= pacer["saving_share_high"]
    assert pacer["power_w_fleet"] + pacer["saving_w"] == pytest.approx(native["power_w_fleet"])
    assert pacer["energy_kwh"] == pytest.approx(pacer["power_w_fleet"] / 1000), "over one hour"
    assert len(shown["policies"][1]["servers_most_worthwhile"]) == 5
    folder = FleetFolder(Path(shown["result"]))
    assert _main(["recompute", str(folder.path)]) == 0
    capsys.readouterr()
    page = Path(shown["report"]).read_text(encoding="utf-8")
    assert "What a fleet of 5 servers would save" in page
    assert "for 1 hour from a Monday on" in page
    shape = figures.bound(summary.policies(folder)[1:], folder.study())
    (panel,) = shape.panels
    assert [line["label"] for line in panel.series] == ["PACER", "ondemand"]
    assert all(max(filter(None, line["values"])) == 100 for line in panel.series)
    assert "servers at or below" in json.dumps(asdict(panel))
    for name in ("policies.csv", "servers.csv", "savings.svg", "bound.csv"):
        assert (folder.path / "report" / name).is_file()
    policy = summary.policies(folder)[1]
    tight = folder.study().model_copy(
        update={"study": folder.study().study.model_copy(update={"bound": "mean 1%"})}
    )
    drawn = folder.inputs()["members"]
    harder = summary.relative(policy.columns, policy.native, drawn, tight)
    ratios = [ratio for _, ratio in summary.breakers(replace(policy, bound_ratio=harder))]
    assert len(ratios) > 2, "a bound of 1 % is broken by whoever saves"
    assert ratios == sorted(ratios, reverse=True)
    assert ratios[-1] > 1


def test_the_console_tells_of_a_year_and_by_which_factors(
    study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _main(["run", str(study), "--results", str(tmp_path), "--no-report"]) == 0
    told = capsys.readouterr().out
    assert re.search(r"PACER .* [\d,]+ kWh, [\d,.]+ EUR .* t ", told)
    assert "A year is 8766 h like these, at 0.25 EUR" in told


def test_bounds_on_the_tail_are_judged_by_the_tail(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "tail.toml"
    path.write_text(STUDY.replace("batch = 2", 'bound = "p99 400 us"'), encoding="utf-8")
    shown = _run([str(path), "--results", str(tmp_path), "--no-report"], capsys)
    folder = FleetFolder(Path(shown["result"]))
    p99 = folder.columns("native")["latency_us_p99"]
    assert np.isfinite(p99).all()
    assert (p99 > folder.columns("native")["latency_us_mean"]).all()
    over = shown["policies"][0]["servers_over_bound"]
    assert [row["ratio"] for row in over] == sorted((p99[p99 > 400] / 400).tolist(), reverse=True)


def test_servers_whose_latency_is_not_known_are_told(
    study: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown = _run([str(study), "--results", str(tmp_path), "--no-report"], capsys)
    assert "servers_bound_unknown" not in shown["policies"][1]["metrics"]
    folder = FleetFolder(Path(shown["result"]))
    known = FleetFolder.columns

    def columns(folder: FleetFolder, label: str) -> dict[str, Any]:
        table = known(folder, label)
        quiet = np.arange(len(table["power_w_mean"])) == 1
        return table | {"latency_us_mean": np.where(quiet, np.nan, table["latency_us_mean"])}

    monkeypatch.setattr(FleetFolder, "columns", columns)
    summary.write(folder)
    policy = summary.policies(folder)[1]
    assert policy.metrics["servers_bound_unknown"] == (1, "1")
    assert _main(["report", str(folder.path)]) == 0
    page = next(folder.path.glob("report/*.html")).read_text(encoding="utf-8")
    assert "1 not known" in page
    assert "Of 1 it is not known, as their latency is not." in page


@pytest.mark.parametrize(
    ("bound", "limit_us"),
    [
        ("mean 20%", 120.0),
        ("mean 20%  run", 120.0),  # two blanks: refused only when all had been run
        ("mean 0.2 run", 120.0),
        ("p99 2 ms", 2000.0),
    ],
)
def test_bounds_are_read(bound: str, limit_us: float) -> None:
    text = STUDY.replace("batch = 2", f'bound = "{bound}"')
    study = document.validate(FleetStudy, source(text))
    name = "latency_us_p99" if bound.startswith("p99") else "latency_us_mean"
    columns = {name: np.array([150.0])}
    member = [{"group": "web"}]
    ratios = summary.relative(columns, {name: np.array([100.0])}, member, study)
    assert ratios.tolist() == pytest.approx([150.0 / limit_us])


def test_each_group_may_have_a_bound_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = STUDY.replace("count = 3", 'count = 3\nbound = "p99 400 us"')
    planned = made(text)
    requests = [batch.request for batch in planned.iterations if batch.run.policy == "pacer"]
    told = [(each.bound, [member.group for member in each.members]) for each in requests]
    # No batch has servers of two bounds.
    assert told == [
        ("p99 400 us", ["web", "web"]),
        ("p99 400 us", ["web"]),
        ("mean 20%", ["logs", "logs"]),
    ]
    assert [execute.specification(each)["bounds"] for each in requests] == [
        ["p99 400 us"],
        ["p99 400 us"],
        ["mean 20%"],
    ]
    path = tmp_path / "bounds.toml"
    path.write_text(text, encoding="utf-8")
    shown = _run([str(path), "--results", str(tmp_path)], capsys)
    assert shown["bounds"] == {"p99 400 us": ["web"], "mean 20%": ["logs"]}
    folder = FleetFolder(Path(shown["result"]))
    policy = summary.policies(folder)[1]
    web, logs = np.arange(3), np.arange(3, 5)
    p99, mean = policy.columns["latency_us_p99"], policy.columns["latency_us_mean"]
    assert policy.bound_ratio[web].tolist() == pytest.approx((p99[web] / 400).tolist())
    relative = mean[logs] / policy.native["latency_us_mean"][logs]
    assert policy.bound_ratio[logs].tolist() == pytest.approx((relative / 1.2).tolist())
    page = Path(shown["report"]).read_text(encoding="utf-8")
    assert "The bounds are p99 400 us (web); mean 20% (logs), over the whole run" in page
    assert "the bound of its group on" in page
    assert "logs: 2 of dorado6000, mean 20%" in page
    assert _main(["recompute", str(folder.path)]) == 0
    assert _main(["report", str(folder.path)]) == 0


def test_options_of_measurements_are_refused(
    study: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _main(["run", str(study), "--scratch", "x"]) == 2
    assert "is for studies of kind measurement" in capsys.readouterr().err


@pytest.mark.slow
def test_a_cluster_gives_what_threads_give(
    study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    threads = _run([str(study), "--results", str(tmp_path / "a")], capsys)
    cluster = _run([str(study), "--results", str(tmp_path / "b"), "--engine", "local"], capsys)
    assert threads["policies"] == cluster["policies"]


def test_fleets_are_compared_over_their_servers(
    study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = [
        _run([str(study), "--results", str(tmp_path / name), "--no-report", *more], capsys)
        for name, more in (("a", ()), ("b", ()), ("more", ("--scale", "more")))
    ]
    same, again, larger = (str(one["result"]) for one in found)
    # The same servers one by one: nothing differs between two runs of one study.
    assert _main(["compare", same, again, "--json"]) == 0
    groups = json.loads(capsys.readouterr().out)["compared"]
    assert [group["first"] for group in groups] == ["fleet/native", "fleet/PACER", "fleet/ondemand"]
    assert all("5 servers, in pairs" in group["test"] for group in groups)
    assert {one["ratio"] for group in groups for one in group["ratios"]} == {1.0}
    assert not any(one["beyond_noise"] for group in groups for one in group["ratios"])
    # Two policies of one fleet: the ratio of means is that of the whole fleet's power.
    policies = {one["label"]: one for one in found[0]["policies"]}
    sides = [f"{same}:fleet/{name}" for name in ("native", "PACER")]
    assert _main(["compare", *sides, "--json", "--html", str(tmp_path / "page.html")]) == 0
    (group,) = json.loads(capsys.readouterr().out)["compared"]
    power = next(one for one in group["ratios"] if one["metric"] == "power_w_mean")
    whole = [policies[name]["metrics"]["power_w_fleet"] for name in ("native", "PACER")]
    assert power["ratio"] == pytest.approx(whole[1] / whole[0], rel=1e-12)
    assert power["n"] == [5, 5]
    assert "5 servers" in (tmp_path / "page.html").read_text()
    # Other servers: one set with the other, which says less.
    assert _main(["compare", f"{same}:fleet/native", f"{larger}:fleet/native"]) == 0
    out = capsys.readouterr().out
    assert "over 5 and 10 servers" in " ".join(out.split())
    assert "repetition" not in out


def _main(arguments: list[str]) -> int:
    try:
        cli.main(arguments)
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0


def _run(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert _main(["run", *arguments, "--json"]) == 0
    shown: dict[str, Any] = json.loads(capsys.readouterr().out)
    return shown
