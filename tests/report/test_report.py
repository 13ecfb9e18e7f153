"""The report: the same bytes each time, nothing from outside, every number beside it as CSV.

The golden page is compared without its images, which depend on the version of Matplotlib. Set
WATTIO_UPDATE_GOLDEN=1 to write it anew, and look at it before committing.
"""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import sqlite3
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure
from simulation.study_fake import FakeSimulator
from simulation.test_study_run import carried_out
from wattio.cli import output
from wattio.errors import ResultError
from wattio.files import document
from wattio.kinds.simulation import execute, metrics, recompute
from wattio.kinds.simulation.folder import SimulationFolder
from wattio.report import make, plots
from wattio.report.plots import POINTS, STATES
from wattio.report.simulation import figures, gather, phrases
from wattio.results import summary
from wattio.results.runs import Recorded, Run, Verdict
from wattio.results.states import TAILS
from wattio.results.summary import Estimate, Row

GOLDEN = Path(__file__).parent / "golden" / "report.html"

STUDY = """\
[study]
name = "golden"
kind = "simulation"
seeds = [1, 2]

[[load]]
name = "day"
server = "dorado6000"
profile = "day.toml"

[[load]]
name = "trace 1"
server = "small"
trace = "a.bin"

[[policy]]
name = "ondemand"
[[policy]]
name = "pacer"
label = "PACER"
[[policy]]
name = "oracle"
loads = ["day"]

[[sweep]]
policy = "PACER"
setting = "plf"
values = [0.05, 0.1, 0.2, 0.3]
loads = ["day"]
"""

PROFILE = (
    """\
[profile]
name = "day"
represent = "15 s"
"""
    + 4 * ('[[segment]]\nspan = "6 h"\npattern = "Rand_RW"\npressure = 0.04\n')
)

MACHINE = {
    "processor": "Test CPU",
    "cores": 2,
    "kernel": "Linux 6.1",
    "python": "3.11.0",
    "wattio": "0.1.0",
    "git_commit": None,
    "started_utc": "2026-01-02T03:04:05+00:00",
    "study_file": "study.toml",
}


def carried_out_at(place: Path) -> SimulationFolder:
    """The result whose page is the golden one."""
    (place / "a.bin").write_bytes(b"a trace")
    (place / "day.toml").write_text(PROFILE)
    study = place / "study.toml"
    study.write_text(STUDY)
    folder = carried_out(study, place / "results")
    facts = folder.machine() | MACHINE
    (folder.path / "machine.json").write_text(json.dumps(facts))
    return folder


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> SimulationFolder:
    return carried_out_at(tmp_path_factory.mktemp("report"))


@pytest.fixture(scope="module")
def page(result: SimulationFolder) -> str:
    return make(result.path).read_text(encoding="utf-8")


def test_page_matches_the_golden_one(page: str, result: SimulationFolder) -> None:
    text = re.sub(r"base64,[A-Za-z0-9+/=]+", "base64,...", page)
    text = re.sub(r"(<(style|script)[^>]*>).*?(</\2>)", r"\1...\3", text, flags=re.S)
    text = text.replace(result.name, "TIME-HASH")
    if os.environ.get("WATTIO_UPDATE_GOLDEN"):
        GOLDEN.write_text(text, encoding="utf-8")
    assert text == GOLDEN.read_text(encoding="utf-8")


def test_made_again_every_file_is_the_same(result: SimulationFolder, page: str) -> None:
    assert page
    files = {path: path.read_bytes() for path in (result.path / "report").iterdir()}
    make(result.path)
    assert {path: path.read_bytes() for path in (result.path / "report").iterdir()} == files
    names = {path.name for path in files}
    for name in ("power-latency", "cores-frequency", "latency-distribution", "power-components"):
        for load in ("day", "trace-1"):
            assert {f"{load}-{name}.svg", f"{load}-{name}.csv"} <= names
    assert {"day-sweep.svg", "day-sweep.csv", "day-table.csv", "trace-1-table.csv"} <= names


def test_page_stands_alone(page: str) -> None:
    assert not re.search("<script[^>]* src", page)
    assert "<link" not in page
    assert "@import" not in page
    addresses = re.findall(r"""(?:src|href)=["']([^"']+)""", page)
    assert all(not re.match(r"[a-z]+:", a) or a.startswith("data:") for a in addresses)
    for image in re.findall(r"<img[^>]*>", page):
        assert re.search(r'alt="[^"]{20,}"', image)


def test_links_lead_to_files_beside_it(page: str, result: SimulationFolder) -> None:
    for address in re.findall(r'href="([^"#]+)"', page):
        assert (result.path / "report" / address).is_file()


def test_headline_says_it_plainly(result: SimulationFolder) -> None:
    part = gather.gather(result.path).loads[0]
    text = phrases.headline(part).replace("\N{NO-BREAK SPACE}", " ")
    assert re.fullmatch(
        r"On day \(dorado6000\), PACER would save \d+\.\d % of the power"
        r" \(\d+ to \d+ W, simulated\) at 1\.10. the mean latency, within its 20 % bound\."
        r" That is 60 % of the saving that the oracle finds possible\.",
        text,
    ), text
    assert "ondemand saves" in phrases.others(part)
    assert "outside its 20" in phrases.others(part)


def test_what_leaves_the_top_of_a_figure_is_told() -> None:
    """Of the axis that the figure to be looked into has, too."""
    with plots.styled():
        _, (axis, other) = plots.figure(plots.WIDTH, 3, panels=2)
        values = np.array([300.0] * 99 + [4000.0])
        assert plots.fit(axis, values, "latency").startswith("peaks up to 4")
        assert plots.fit(other, values[:-1], "latency") == ""


def test_the_power_over_time_is_marked_where_its_axis_leaves_zero_out(
    result: SimulationFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every other cut axis was marked."""
    drawn: list[Figure] = []

    def kept(figure: Figure) -> str:
        drawn.append(figure)
        return ""

    monkeypatch.setattr(plots, "svg", kept)
    with plots.styled():
        figures.power_and_latency(gather.gather(result.path).loads[0])
    axis = drawn[0].axes[0]
    assert axis.get_ylim()[0] > 0
    assert [line for line in axis.lines if line.get_transform() == axis.transAxes]


def test_states_are_shaded_in_the_figure_to_be_looked_into(page: str) -> None:
    """Its caption told of a shading that only the still figure had."""
    scripts = re.findall(r'<script type="application/json">(.*?)</script>', page, flags=re.S)
    power, latency = json.loads(scripts[0])
    assert power["bands"] == latency["bands"]
    # So have marks, the bound and the cut axis: the still figure alone told of them.
    marks = [one["marker"] for one in power["series"]]
    assert all(marks)
    assert len({json.dumps(mark) for mark in marks}) == len(marks)
    bound = latency["series"][-1]
    assert bound["label"] == "bound, native + 20\N{NO-BREAK SPACE}%"
    assert "marker" not in bound
    assert 0 <= latency["y_min"] < latency["y_max"]
    assert (power["y_min"], power["y_max"], power["cut"]) == (None, None, "")
    assert [band["label"] for band in power["bands"]] == [name for name, *_ in STATES]
    stretches = sorted(end for band in power["bands"] for end in band["stretches"])
    # One behind the other, from the beginning to the end.
    assert [start for start, _ in stretches[1:]] == [end for _, end in stretches[:-1]]
    assert stretches[0][0] == 0
    assert stretches[-1][1] >= power["x"][-1]


def test_table_as_csv_holds_the_catalog_s_numbers(result: SimulationFolder, page: str) -> None:
    assert page
    with (result.path / "report" / "day-table.csv").open(newline="") as file:
        rows = {row["policy"]: row for row in csv.DictReader(file)}
    assert list(rows) == [
        *("native", "ondemand", "PACER", "oracle"),
        *("PACER plf=0.05", "PACER plf=0.1", "PACER plf=0.3"),
    ]
    powers = [
        item.metrics["power_w_mean"][0]
        for item in result.iterations()
        if item.run.name == "day/PACER"
    ]
    assert float(rows["PACER"]["power_w_mean"]) == pytest.approx(np.mean(powers))


def test_binning_keeps_energy_and_weighs_latency() -> None:
    count = 1001
    draw = np.random.default_rng(1)
    windows = {
        "start_s": np.arange(count) * 0.5,
        "span_s": np.full(count, 0.5),
        "ios": np.floor(draw.random(count) * 10),
        "energy_j": draw.random(count),
        "cores_active_mean": np.full(count, 8.0),
        "frequency_hz_mean": np.full(count, 2e9),
    }
    windows["latency_us_mean"] = np.where(windows["ios"] > 0, draw.random(count), np.nan)
    series, point_s = gather.binned(windows)
    assert len(series["start_s"]) <= POINTS
    assert point_s == 2.5
    energy_j = np.sum(series["power_w"] * series["span_s"])
    assert energy_j == pytest.approx(windows["energy_j"].sum())
    first = slice(0, 5)
    weights = windows["ios"][first]
    slow = np.nansum(weights * windows["latency_us_mean"][first]) / weights.sum()
    assert series["latency_us_mean"][0] == pytest.approx(slow)
    assert series["cores_active_mean"].tolist() == [8.0] * len(series["start_s"])


@pytest.mark.usefixtures("undrawn")
def test_an_unfinished_study_is_called_so(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(b"a trace")
    (tmp_path / "day.toml").write_text(PROFILE)
    study = tmp_path / "study.toml"
    study.write_text(STUDY)
    simulator = FakeSimulator(stop_after=6)
    with pytest.raises(KeyboardInterrupt):
        carried_out(study, tmp_path / "results", simulator, jobs=1)
    path = next((tmp_path / "results" / "golden").iterdir())
    assert "This study is not complete" in make(path).read_text(encoding="utf-8")


def test_nothing_done_is_nothing_to_report(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(b"a trace")
    (tmp_path / "day.toml").write_text(PROFILE)
    study = tmp_path / "study.toml"
    study.write_text(STUDY)
    with pytest.raises(KeyboardInterrupt):
        carried_out(study, tmp_path / "results", FakeSimulator(stop_after=0), jobs=1)
    path = next((tmp_path / "results" / "golden").iterdir())
    with pytest.raises(ResultError, match="nothing to report"):
        make(path)


@pytest.mark.usefixtures("undrawn")
def test_names_from_files_are_escaped(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(b"a trace")
    (tmp_path / "day.toml").write_text(PROFILE)
    study = tmp_path / "study.toml"
    study.write_text(
        STUDY.replace('name = "golden"', 'name = "golden"\ndescription = "<b>bold</b> & more"')
    )
    folder = carried_out(study, tmp_path / "results")
    assert execute.prepare(document.read(study), FakeSimulator()).study.study.description
    page = make(folder.path).read_text(encoding="utf-8")
    assert "&lt;b&gt;bold&lt;/b&gt; &amp; more" in page
    assert "<b>bold" not in page


def test_each_load_tells_what_its_policies_are_held_to(tmp_path: Path) -> None:
    """A load held to a p99 was told of by its mean; a share of an oracle's saving that is held to
    something else is no share of what is possible."""
    (tmp_path / "a.bin").write_bytes(b"a trace")
    (tmp_path / "day.toml").write_text(PROFILE)
    study = tmp_path / "study.toml"
    text = STUDY.replace('trace = "a.bin"', 'trace = "a.bin"\nbounds = ["p99 20%"]')
    text = text.replace('loads = ["day"]\n\n', 'loads = ["day"]\nsettings = { plf = 0.3 }\n\n')
    study.write_text(text)
    folder = carried_out(study, tmp_path / "results")
    page = make(folder.path).read_text(encoding="utf-8")
    page = re.sub("[\N{NO-BREAK SPACE}\N{NARROW NO-BREAK SPACE}]", " ", page)
    for told in (
        "bound on mean",
        "bound on p99",
        "kept, p99 20% run",
        "broken, p99 20% run",
        "the p99 latency, within its bound, p99 20% run",
        "the mean latency, within its 20 % bound",
        "; every policy is held to p99 20% run in place of its plf; warm-up",
        "Here oracle is held to mean 30% run: no share of its saving is told of who is held to"
        " another bound, ondemand (mean 20% run), PACER (mean 20% run). ",
    ):
        assert told in page, told
    with (folder.path / "report" / "trace-1-table.csv").open() as file:
        lines = {line["policy"]: line for line in csv.DictReader(file)}
    assert [lines["PACER"][key] for key in ("bound_plf", "bounds", "bound_kept")] == [
        *("", "p99 20% run", "true"),
    ]
    assert "kept, p99 20% run" in output.bound(
        next(r for r in summary.rows(folder.iterations()) if r.run.name == "trace 1/PACER")
    )


def row(**metrics: float) -> Row:
    """A row of a policy with these metrics of one iteration."""
    run = Run("day", "small", "law", {}, {"policy": "pacer", "plf": 0.2})
    found = {name: Estimate("1", (value,), value, None, None) for name, value in metrics.items()}
    return Row(run, "", 1, 0, 0, found)


def test_savings_that_are_none_stand_in_brackets() -> None:
    """A policy was headlined with a third of the power saved: it did half of the own work."""
    kept = {"saving_share": 0.321, "bound_latency_us_mean_ok": 1.0}
    assert output.saved(row(**kept), "saving_share") == "32.1 %"
    assert output.saved(row(**kept, relative_background_rate=0.99), "saving_share") == "32.1 %"
    starves = row(**kept, relative_background_rate=0.5, relative_latency_us_mean=1.1)
    assert output.saved(starves, "saving_share") == "(32.1 %)"
    assert (
        output.saved(row(**kept | {"bound_latency_us_mean_ok": 0.0}), "saving_share") == "(32.1 %)"
    )
    none = np.empty(0)
    native = Run("day", "small", "native", {}, {"policy": "native", "plf": 0.0})
    watts = {"power_w_mean": Estimate("W", (100.0,), 100.0, None, None)}
    rows = [Row(native, "", 1, 0, 0, watts), starves]
    curves = [gather.Curve(one, {}, 1.0, none, none, none, none.astype(int), {}) for one in rows]
    part = gather.LoadPart("day", "small", {}, curves, [])
    text = phrases.headline(part).replace("\N{NO-BREAK SPACE}", " ")
    assert "law would save (32.1 %) of the power" in text
    assert "within its 20 % bound, with 50 % of the background work left undone." in text


PLAIN = str.maketrans({"\N{NO-BREAK SPACE}": " ", "\N{NARROW NO-BREAK SPACE}": " "})


def curve(policy: str, *powers_w: float, kept: float = 1.0) -> gather.Curve:
    """A policy with so much power in each seed, of which native draws 100 W."""
    none = np.empty(0)
    run = Run("day", "small", policy, {}, {"policy": policy, "plf": 0.2})
    mean_w = sum(powers_w) / len(powers_w)
    metrics = row(
        power_w_mean=mean_w,
        saving_share=1 - mean_w / 100,
        relative_latency_us_mean=1.1,
        bound_latency_us_mean_ok=kept,
    ).metrics
    known = {(seed, 0): power_w for seed, power_w in enumerate(powers_w)}
    edges = none, none, none, none.astype(int)
    return gather.Curve(Row(run, "", 3, 0, 0, metrics), {}, 1.0, *edges, known)


def test_the_headline_says_what_its_policy_cannot_be_told_from() -> None:
    """It crowned one, and what won told that it cannot be told from the other."""
    native, law = curve("native", 100.0, 101.0, 99.0), curve("pacer", 80.0, 81.0, 79.0)
    level, behind = curve("rubik", 80.1, 80.9, 79.0), curve("ondemand", 90.0, 91.0, 89.0)
    part = gather.LoadPart("day", "small", {}, [native, law, level, behind], [])
    assert phrases.headline(part).endswith(" Its power cannot be told from that of rubik.")
    part = gather.LoadPart("day", "small", {}, [native, law, behind], [])
    assert "cannot be told" not in phrases.headline(part)


def test_the_headline_names_who_won_by_the_same_figures() -> None:
    """It led with PACER, and what won told of another law that saves more."""
    native, law = curve("native", 100.0, 101.0, 99.0), curve("pacer", 80.0, 81.0, 79.0)
    best = curve("foresight", 70.0, 70.9, 69.0)
    broken = curve("ondemand", 60.0, 61.0, 59.0, kept=0.0)
    part = gather.LoadPart("day", "small", {}, [native, law, best, broken], [])
    assert part.contest is not None
    won = part.contest.sentence().translate(PLAIN)
    assert won.startswith("day: foresight has the least power, 30.0 % less"), won
    text = phrases.headline(part).translate(PLAIN)
    assert text.startswith("On day (small), foresight would save 30.0 % of the power (100 to"), text
    assert "pacer saves 20.0 %" in phrases.others(part).translate(PLAIN)
    part = gather.LoadPart("day", "small", {}, [native, broken], [])
    assert "ondemand would save (40.0 %)" in phrases.headline(part).translate(PLAIN)


def test_a_year_on_the_console_is_that_of_the_page(result: SimulationFolder, page: str) -> None:
    """The page alone told of kilowatt-hours, euros and CO2."""
    plain = page.replace("\N{NARROW NO-BREAK SPACE}", " ")
    day, trace, stated = output.years(summary.rows(result.iterations()))
    assert stated in plain
    assert "651 kWh" in plain
    assert "163 EUR, 228 kg" in plain
    told = re.fullmatch(
        r"saved in a year on day, and its CO₂: ondemand \(7\d\.\d+ kWh, .* kg\);"
        r" PACER 65[01]\.\d kWh, 16[23]\.\d EUR, 22[78]\.\d kg\.",
        day,
    )
    assert told is not None, day
    assert trace.startswith("saved in a year on trace 1, ")
    # A sweep is told of where it is shown; an oracle cannot be had.
    assert "plf" not in day
    assert "oracle" not in day


def test_far_percentiles_are_the_histogram_s_and_related_to_the_twin(
    result: SimulationFolder, page: str
) -> None:
    """PACER's day was 5.5 times slower at p99.99, where the tables stopped at p99."""
    iterations = result.iterations()
    item = next(one for one in iterations if one.run.name == "day/PACER")
    twin = next(o for o in iterations if o.run.name == "day/native" and o.seed == item.seed)
    for name, share in (("latency_us_p999", 0.999), ("latency_us_p9999", 0.9999)):
        edge, count = result.read_outcome(item).latency_histogram
        values = np.repeat(edge, count.astype(np.int64))
        rank = int(np.ceil(share * len(values)))
        assert item.metrics[name][0] == np.sort(values)[rank - 1]
        ratio = item.metrics[name][0] / twin.metrics[name][0]
        assert item.metrics[f"relative_{name}"][0] == pytest.approx(ratio)
    assert "p99.99" in page


def test_no_percentile_that_no_value_lies_above() -> None:
    few = metrics._percentiles(np.array([1.0, 2.0]), np.array([5000, 4999]), TAILS)
    assert list(few) == ["latency_us_p999"]
    many = metrics._percentiles(np.array([1.0, 2.0]), np.array([5000, 5000]), TAILS)
    assert list(many) == ["latency_us_p999", "latency_us_p9999"]


@pytest.mark.usefixtures("undrawn")
def test_a_catalog_of_before_does_not_lack_the_newer_percentiles(
    result: SimulationFolder, tmp_path: Path
) -> None:
    path = tmp_path / "old"
    shutil.copytree(result.path, path)
    with sqlite3.connect(path / "catalog.sqlite") as catalog:
        catalog.execute("DELETE FROM metrics WHERE name LIKE '%latency_us_p9999'")
        catalog.execute("DELETE FROM metrics WHERE name = 'relative_latency_us_p999'")
    assert recompute.compare(SimulationFolder(path), FakeSimulator()).differences == []
    make(path)


def test_reasons_of_warn_are_told_once_each() -> None:
    run = Run("day", "small", "law", {}, {})
    doubts = (Verdict("WARN", "LOW_N: 40 windows"), Verdict("WARN", "FEW_IOS: 12 I/Os"))
    items = [
        Recorded("a", run, 1, 0, 1, doubts, {}),
        Recorded("b", run, 2, 0, 2, doubts[:1], {}),
        Recorded("c", run, 3, 0, 3, (Verdict("VALID", ""),), {}),
    ]
    assert output.remarks(items) == [
        "WARN in 2 of 3 iterations: LOW_N: 40 windows (day/law)",
        "WARN in 1 of 3 iterations: FEW_IOS: 12 I/Os (day/law)",
    ]


def test_each_doubt_is_told_and_not_more_than_some() -> None:
    """Only the first doubt of an iteration was shown: all of them have one code."""
    run = Run("day", "small", "law", {}, {})

    def item(key: str, *numbers: int) -> Recorded:
        doubts = tuple(Verdict("WARN", f"DOUBT: of number {number}") for number in numbers)
        return Recorded(key, run, 1, 0, 1, doubts, {})

    assert output.remarks([item("a", 1, 2), item("b", 2)]) == [
        "WARN in 1 of 2 iterations: DOUBT: of number 1 (day/law)",
        "WARN in 2 of 2 iterations: DOUBT: of number 2 (day/law)",
    ]
    assert output.remarks([item("a", *range(20))])[-1] == "(and 8 reasons more)"


def test_no_share_of_an_oracle_s_saving_is_told_where_there_is_none(tmp_path: Path) -> None:
    """Over all loads of such a study two columns had no value in any row."""
    study = tmp_path / "study.toml"
    head = '[study]\nname = "four"\nkind = "simulation"\n'
    policies = "".join(f'[[policy]]\nname = "{name}"\n' for name in ("native", "pacer"))
    load = '[[load]]\nname = "{}"\nserver = "small"\npattern = "Rand_R"\npressure = 0.1\n'
    loads = "".join(f'{load.format(name)}duration = "40 s"\n' for name in "abcd")
    study.write_text(head + policies + loads)
    page = make(carried_out(study, tmp_path / "results").path).read_text(encoding="utf-8")
    over_all = page.partition("worst mean latency")[2].partition("</section>")[0]
    assert "median of loads" in over_all
    assert "oracle" not in over_all
