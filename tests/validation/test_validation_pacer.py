"""Published against ours: complete, right in its arithmetic, and not upset by what was not run."""

from __future__ import annotations

import csv
import json
import re
import tomllib
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from places import ROOT
from wattio.analysis.statistics import Interval
from wattio.executors.threads import SimulationExecutor
from wattio.files import document
from wattio.kinds.simulation import execute
from wattio.kinds.simulation.folder import SimulationFolder
from wattio.simulator import profile, simulation
from wattio.simulator.native import NativeSimulator
from wattio.simulator.simulation import Outcome, Request

from validation.common import pages, published
from validation.common.bars import Bars, Panel, Series
from validation.pacer import __main__ as command
from validation.pacer import (
    before,
    burst,
    checks,
    figures,
    fit,
    idle,
    inputs,
    knobs,
    page,
    results,
    tables,
    tail,
)
from validation.pacer.data import Evaluation
from validation.pacer.entries import NOT_RUN, Compared, Entry, Evidence, Reading, compare, exact
from validation.pacer.floor import Floor
from validation.pacer.page import Found
from validation.pacer.tail import Tail

STUDY = """\
[study]
name = "pacer"
kind = "simulation"
seeds = [1, 2]

[[load]]
name = "Rand_RW at 0.10"
server = "dorado6000"
pattern = "Rand_RW"
iops = 20000.0
warmup = "0.5 s"
duration = "1 s"

[[load]]
name = "burst"
server = "dorado6000"
warmup = "0.5 s"
phases = [
  { span = "10 s", pattern = "Rand_RW", iops = 5000.0 },
  { span = "1 s", pattern = "Rand_RW", pressure = 1.0, io_bytes = "32 KiB" },
]

[[policy]]
name = "ondemand"
loads = ["Rand_RW at 0.10"]
[[policy]]
name = "pacer"
label = "PACER"
[[policy]]
name = "fixed"
loads = ["Rand_RW at 0.10"]

[[sweep]]
policy = "fixed"
setting = "cores_share"
values = [0.63, 0.4]
loads = ["Rand_RW at 0.10"]

[[sweep]]
policy = "PACER"
setting = "plf"
values = [0.1]
loads = ["Rand_RW at 0.10"]
"""


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A result of a few short loads: most of what the page can show was not run."""
    folder = tmp_path_factory.mktemp("published")
    study = folder / "study.toml"
    study.write_text(STUDY)
    simulator = NativeSimulator()
    plan = execute.prepare(document.read(study), simulator)
    made = SimulationFolder.create(plan, folder / "results", datetime(2026, 1, 2, tzinfo=UTC))
    executor = SimulationExecutor(simulator, 2, lambda *_: None)
    execute.execute(made.remaining(plan), made, executor, simulator)
    return made.path


@pytest.fixture(scope="module")
def text(result: Path) -> str:
    assert command.main([str(result)]) == 0
    return (result / "report" / "published.html").read_text()


def all_entries() -> list[Entry]:
    return [*inputs.entries(), *results.entries()]


def entry(value: Interval | str | None) -> Entry:
    return Entry("a", "table", "a", "", "result", lambda _: [Reading("", value)], lambda _: "why")


def compared(value: Interval | str | None, with_published: float | str) -> Compared:
    nothing = Evidence(Evaluation.__new__(Evaluation), {})
    return compare([entry(value)], {"a": with_published}, nothing)[0]


def test_every_published_number_has_an_entry() -> None:
    keys = [entry.key for entry in all_entries()]
    assert len(keys) == len(set(keys))
    assert set(keys) == set(published.read(command.PUBLISHED))


def test_a_new_number_without_an_entry_is_refused(result: Path) -> None:
    values = published.read(command.PUBLISHED) | {"results.new": 1.0}
    with pytest.raises(KeyError, match=r"results\.new"):
        compare(all_entries(), values, Evidence(Evaluation(result), {}))


def test_leaves_have_keys_that_name_where_they_stand() -> None:
    nested = {"a": {"b": 1}, "c": [1, 2], "power": [{"state": "idle0", "w": 6.8, "on": True}]}
    assert dict(published.leaves(nested)) == {
        "a.b": 1,
        "c[0]": 1,
        "c[1]": 2,
        "power.idle0.w": 6.8,
        "power.idle0.on": True,
    }


def test_deviation_is_relative_to_what_is_published() -> None:
    assert published.deviation_percent(1.25, 1.0) == pytest.approx(25)
    assert published.deviation_percent(0.9, 1.2) == pytest.approx(-25)
    assert published.deviation_percent(1.0, 0.0) is None


@pytest.mark.parametrize(
    ("low", "estimate", "high", "deviates"),
    [
        (1.19, 1.20, 1.21, False),  # just the published value
        (1.10, 1.30, 1.50, False),  # far, but not beyond the interval
        (1.21, 1.22, 1.23, False),  # beyond the interval, but within the tolerance
        (1.28, 1.30, 1.32, True),
    ],
)
def test_a_deviation_counts_beyond_interval_and_tolerance(
    low: float, estimate: float, high: float, deviates: bool
) -> None:
    row = compared(Interval(estimate, low, high, 0.95), 1.2)
    assert row.differs is deviates
    assert row.why == ("why" if deviates else "")


def test_words_are_compared_as_words() -> None:
    assert not compared("continuous", "continuous").differs
    assert compared("none", "continuous").differs


def test_what_was_not_run_says_so() -> None:
    row = compared(None, 1.2)
    assert not row.differs
    assert tables.ours_text(row.readings[0]) == "not run"
    assert tables.deviation_text(row, row.readings[0]) == "\N{EN DASH}"
    assert tables.table([row])[1][7:10] == ["not run", "", ""]


def test_numbers_are_shown_with_the_digits_they_have() -> None:
    shown = [tables.ours_text(Reading("", exact(value))) for value in (96.0, 0.7, 6.73495)]
    assert shown == ["96", "0.7", "6.73"]
    assert tables.value_text(0.0) == "0"
    assert tables.value_text(600_000) == "600\N{NARROW NO-BREAK SPACE}000"
    assert pages.typeset("1.18 x and 2 x.") == (
        "1.18\N{NO-BREAK SPACE}\N{MULTIPLICATION SIGN} and 2\N{NO-BREAK SPACE}"
        "\N{MULTIPLICATION SIGN}."
    )


def test_page_has_all_sections(text: str) -> None:
    # Its style once went missing when the report's moved to a file of its own.
    assert "main { max-width" in text
    assert "{%" not in text
    headings = re.findall(r"<h2 id=\"(\w+)\"", text)
    assert headings == [
        *("summary", "checks", "results", "tail", "floor", "drawn", "inputs", "assumed")
    ]
    slots = re.findall(r'<h3 id="figure-(.*?)">Figure (.*?): ', text)
    assert slots == [(str(number), str(number)) for number in (6, 7, *range(10, 20))]
    assert "core power 2.5 W static" in text
    assert "not tuned result by result" in text
    assert "ASSUMED" in text
    assert "http" not in re.sub(r"data:image/svg\+xml;base64,[A-Za-z0-9+/=]+", "", text)


def test_contents_and_summary_lead_to_places_on_the_page(text: str) -> None:
    """The page was 19,000 px long, had no list of contents, and what held stood nowhere at once."""
    places = re.findall(r' id="([^"]+)"', text)
    assert len(places) == len(set(places))
    links = re.findall(r'href="#([^"]+)"', text)
    assert set(links) <= set(places)
    headings = re.findall(r'<h[23] id="([^"]+)"', text)
    assert links[: len(headings)] == headings


def test_the_summary_has_every_result_and_how_it_came_out() -> None:
    """Numbers that the server was fitted to, and savings with work undone, count as no success."""
    known = {item.key: item for item in all_entries()}
    result = known["results.trace_iops_per_watt.pacer"]
    fitted = known["results.trace_iops_per_watt.ondemand"]
    gate = [Reading("PACER", exact(1.23)), Reading("PACER as printed", exact(1.4), exact(0.5))]
    undone = [Reading("PACER", exact(1.23), exact(0.5)), Reading("", None)]
    rows = [
        Compared(result, 1.23, gate, ""),
        Compared(result, 1.3, gate, ""),
        Compared(result, 1.23, undone, ""),
        Compared(fitted, 1.02, [Reading("ondemand", exact(1.02))], ""),
        Compared(known["testbed.cores"], 96.0, [Reading("", exact(96.0))], ""),
    ]
    lines = page.summary(Found(rows, [], Floor([], 0, []), []))
    assert [[ours.said for ours in line.ours] for line in lines] == [
        ["met, +0.0 %"],
        ["missed, -5.4 %"],
        ["no: background work left undone", "not run"],
        ["fitted to it, +0.0 %"],
    ]
    outcomes = [[ours.outcome for ours in line.ours] for line in lines]
    assert outcomes == [["met"], ["missed"], ["missed", "open"], ["open"]]


def tail_of(outcome: str) -> Tail:
    return Tail("day", "fig. 17", tail.LOWER, "ondemand", None, None, None, outcome, "")


@pytest.mark.parametrize(
    ("outcomes", "said"),
    [
        ([tail.HELD, tail.HELD], "met"),
        ([tail.NOT_HELD], "missed"),
        ([tail.HELD, tail.NOT_HELD], "in part"),
        ([tail.UNDECIDED, tail.NOT_HELD], "undecided"),
        ([NOT_RUN], "not run"),
    ],
)
def test_a_sentence_is_met_where_it_holds_at_every_load(outcomes: list[str], said: str) -> None:
    found = Found([], [tail_of(outcome) for outcome in outcomes], Floor([], 0, []), [])
    (line,) = page.summary(found)
    assert line.ours[0].said == said
    assert (
        line.ours[0].text == f"held in {outcomes.count(tail.HELD)} of {len(outcomes)} comparisons"
    )


def test_every_hatch_is_light() -> None:
    """A hatch of dots is 150 kB of circles: four figures with it were a quarter of the page."""
    for hatch in {look[1] for look in (*figures.LOOKS.values(), *figures.PLF_LOOKS)}:
        series = [Series("a", "#000000", hatch, [exact(1.0)])]
        image = Bars(["x"], [Panel("IOPS/W", series)], "load", base=1).draw()
        assert len(image) < 40_000


def test_page_shows_every_published_number(text: str) -> None:
    for item in all_entries():
        assert item.quantity.replace("'", "&#39;") in text


def test_page_says_what_was_not_run(text: str) -> None:
    assert "not run: this result holds none of the runs that the figure needs." in text
    assert text.count("<figure>") < 12


def test_files_stand_beside_the_page(result: Path, text: str) -> None:
    report = result / "report"
    for name in re.findall(r'href="([^#"]+)"', text):
        assert (report / name).is_file(), name
    with (report / "published.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["key"] for row in rows} == set(published.read(command.PUBLISHED))
    gain = next(row for row in rows if row["key"].endswith("63_percent_cores"))
    expected = 100 * (float(gain["ours"]) - 1.18) / 1.18
    assert float(gain["deviation_percent"]) == pytest.approx(expected, abs=1e-3)
    assert "| quantity | where |" in (report / "published.md").read_text()


def test_background_work_left_undone_stands_in_the_tables(result: Path, text: str) -> None:
    """It was told in captions and checks only: a table showed the saving as any other."""
    with (result / "report" / "published-floor.csv").open() as file:
        rows = list(csv.DictReader(file))
    # 39 of 96 cores have no time for 41.8 cores' worth of work; 63 % of the cores have.
    assert [row["policy"] for row in rows] == ["fixed cores_share=0.4"]
    assert float(rows[0]["background_done"]) < 0.98
    assert (rows[0]["seeds_missed"], rows[0]["seeds"]) == ("2", "2")
    section = text[text.index('id="floor"') : text.index('id="drawn"')]
    assert "fixed cores_share=0.4" in section
    assert "2 of 2" in section
    assert "## Background work left undone" in (result / "report" / "published.md").read_text()


def test_a_value_reached_with_work_left_undone_says_so_beside_it() -> None:
    row = compared(exact(1.38), 1.2)
    undone, done = (Reading("", exact(1.38), exact(share)) for share in (0.5, 0.98))
    table = tables.table([Compared(row.entry, row.value, [undone, done, *row.readings], "")])
    header, *rows = table
    at = header.index("background_done")
    assert [found[at : at + 2] for found in rows] == [[0.5, "true"], [0.98, "false"], ["", ""]]
    assert tables.undone_text(undone) == "floor missed: 50 % of background done"
    assert tables.undone_text(done) == ""


def test_a_bar_with_work_left_undone_is_marked_in_its_table() -> None:
    series = [Series("a", "#000000", "", [exact(1.0), None], [True, False])]
    rows = Bars(["x", "y"], [Panel("IOPS/W", series)], "load").table()
    assert [row[-1] for row in rows] == ["floor_missed", "true", ""]


@pytest.mark.parametrize(
    ("claim", "low", "high", "outcome"),
    [
        (tail.LOWER, -3.0, -1.0, tail.HELD),
        (tail.LOWER, 0.5, 0.7, tail.NOT_HELD),
        (tail.LOWER, -0.5, 0.7, tail.UNDECIDED),
        (tail.COMPARABLE, -9.0, 2.9, tail.HELD),
        (tail.COMPARABLE, 3.1, 4.0, tail.NOT_HELD),
    ],
)
def test_what_is_said_of_the_tail_holds_only_beyond_its_interval(
    claim: str, low: float, high: float, outcome: str
) -> None:
    assert tail.judged(claim, Interval((low + high) / 2, low, high, 0.95)) == outcome


def test_every_sentence_on_the_tail_is_on_the_page(result: Path, text: str) -> None:
    with (result / "report" / "published-tail.csv").open() as file:
        rows = list(csv.DictReader(file))
    loads = {row["load"] for row in rows}
    assert {"day", "Rand_RW at 0.03", "Rand_RW at 0.40"} < loads
    run = [row for row in rows if row["outcome"] != "not run"]
    assert [(row["load"], row["against"]) for row in run] == [("Rand_RW at 0.10", "ondemand")]
    expected = 100 * (float(run[0]["pacer_p99"]) / float(run[0]["ondemand_p99"]) - 1)
    assert float(run[0]["deviation_percent"]) == pytest.approx(expected, abs=0.5)
    section = text[text.index('id="tail"') : text.index('id="floor"')]
    assert all(load in section for load in loads)
    assert run[0]["outcome"] in section


def test_what_the_fit_made_worse_is_told() -> None:
    known = {item.key: item for item in all_entries()}
    latency = "results.rand_rw_max_latency_increase_percent"
    saving = "results.rand_rw_power_saving_percent"
    rows = [
        Compared(known[latency], 15.0, [Reading("at 10 % pressure", exact(6.0))], ""),
        Compared(known[saving], 20.0, [Reading("at 3 % pressure", exact(21.0))], ""),
        Compared(known[saving], 20.0, [Reading("at 10 % pressure", exact(22.7))], ""),  # as before
    ]
    moved = before.moved(rows)
    assert [one.worse for one in moved] == [True, False]
    assert moved[1].before_percent == pytest.approx(35.55)
    told = checks._fit(rows).detail
    assert re.search(r"nearer: .*power saved at 3 %.*further away: .*mean latency, most", told)


def test_readings_from_before_the_fit_are_of_known_numbers() -> None:
    assert {key for key, _ in before.BEFORE} <= {item.key for item in all_entries()}


def test_a_share_of_the_oracles_saving_is_of_the_same_seed() -> None:
    """A stopped study has the oracle of some seeds only; it stood beside other seeds of PACER."""
    study = Evaluation.__new__(Evaluation)
    powers_w = {"native": {1: 100.0, 2: 100.0}, "PACER": {1: 90.0, 2: 80.0}, "oracle": {2: 60.0}}
    runs = {
        ("day", label): {
            (seed, 0): SimpleNamespace(metrics={"power_w_mean": (power_w, "W")})
            for seed, power_w in seeds.items()
        }
        for label, seeds in powers_w.items()
    }
    study._groups = cast("Any", runs)
    share = study.captured_percent("day", "PACER")
    assert share is not None
    assert share.estimate == pytest.approx(50)


def test_inputs_of_the_document_are_those_of_the_server(result: Path) -> None:
    seen = Evidence(Evaluation(result), {})
    values = published.read(command.PUBLISHED)
    keys = {item.key for item in inputs.entries()}
    rows = compare(inputs.entries(), {k: v for k, v in values.items() if k in keys}, seen)
    assert [row.entry.key for row in rows if row.differs] == []
    assert sum(isinstance(row.readings[0].value, Interval) for row in rows) > 25


def test_json_is_one_object(result: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command.main([str(result), "--json"])
    given = json.loads(capsys.readouterr().out)
    assert set(given) == {"page", "readings", "tail", "floor_missed", "checks"}
    assert {reading["key"] for reading in given["readings"]} == set(
        published.read(command.PUBLISHED)
    )


def test_a_check_that_fails_is_the_exit_status(
    result: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = checks.Check("latency within its bound", checks.FAILS, "1.31 x")
    monkeypatch.setattr(checks, "run", lambda *_: [broken])
    assert command.main([str(result)]) == 1
    assert "FAILS    latency within its bound" in capsys.readouterr().out


def test_a_folder_without_a_result_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main([str(tmp_path)]) == 2
    assert "is not a result folder" in capsys.readouterr().err


def test_sleep_states_save_what_table_1_says() -> None:
    savings = idle.savings_percent("dorado6000")
    assert savings["idle0"] == pytest.approx(6.7, abs=0.1)
    assert savings["idle1"] == pytest.approx(10.3, abs=0.1)


def test_a_server_without_sleep_states_is_refused() -> None:
    with pytest.raises(ValueError, match="no sleep states"):
        idle.idle_text("name = 'x'\n", 1)


def test_the_fit_finds_the_work_that_gives_what_is_wanted() -> None:
    found = fit.solve(lambda cores: 1 + (cores / 100) ** 3, 1.064)
    assert found == pytest.approx(40, abs=0.1)


def test_a_fit_without_an_answer_says_so() -> None:
    with pytest.raises(ValueError, match=r"no background work from 20 to 60 cores gives 1\.5 x"):
        fit.solve(lambda cores: 1 + cores / 1000, 1.5)


def test_background_work_is_shared_as_the_cores_are() -> None:
    text = fit.with_background(simulation.server_text("dorado6000"), 48.0)
    groups = tomllib.loads(text)["group"]
    assert [group["background_cores"] for group in groups] == pytest.approx([20, 8, 20])
    silent = text.replace("background_cores = 8", "# background_cores = 8")
    with pytest.raises(ValueError, match="background work of each group"):
        fit.with_background(silent, 30)


def test_the_server_has_the_background_work_that_figure_7_asks_for() -> None:
    """The knee stood at half of the cores while the page said that the document has 63 %."""
    text = simulation.server_text("dorado6000")
    described = fit.described_background(text)
    less, more = (
        fit.latency_over_native(fit.with_background(text, described + change), fit.KNEE_SHARE, [1])
        for change in (-1.5, 1.5)
    )
    assert less < knobs.KNEE < more


@pytest.mark.parametrize(
    ("curve", "share"),
    [
        ([(1.0, 1.0), (0.8, 1.01), (0.6, 1.03)], 0.7),
        ([(0.6, 1.03), (1.0, 1.0), (0.8, 1.01), (0.5, 1.0)], 0.7),  # the first on the way down
        ([(1.0, 1.0), (0.5, 1.019)], None),
        ([], None),
    ],
)
def test_latency_rises_where_it_first_passes_the_knee(
    curve: list[tuple[float, float]], share: float | None
) -> None:
    found = knobs.rises_below(curve)
    assert found == (None if share is None else pytest.approx(share))


def test_the_days_hours_are_the_quickstarts_and_six_times_as_long() -> None:
    studies = ROOT / "studies"
    short, long = (profile.load(studies / name / "day.toml") for name in ("quickstart", "pacer"))
    assert long.segments == short.segments
    assert (short.represent_s, long.represent_s, long.simulated_s) == (12.5, 75.0, 1800.0)


def burst_of(cores: list[float], counts: list[list[int]] | None = None) -> Outcome:
    """Windows of half a second with these active cores, and latencies of 100 and 900 us."""
    size = len(cores)
    counts = counts or [[1, 0]] * size
    windows = {
        "start_s": np.arange(size) * 0.5,
        "span_s": np.full(size, 0.5),
        "cores_active_mean": np.array(cores),
        "frequency_hz_mean": np.full(size, 2.6e9),
    }
    offsets = np.arange(0, 2 * size + 1, 2).astype(np.uint64)
    edges = np.array([100.0, 900.0] * size)
    flat = np.array(counts, dtype=np.uint64).ravel()
    request = Request("dorado6000", "pacer", {})
    return Outcome(request, {}, windows, (offsets, edges, flat), (edges[:2], flat[:2]))


@pytest.mark.parametrize(
    ("cores", "expected_ms"),
    [
        ([40, 40, 40, 96, 96], 500.0),  # one whole window late
        ([40, 40, 68, 96, 96], 250.0),  # half way through the window
        ([40, 40, 96, 96, 96], 0.0),
        ([96, 96, 96, 96, 96], 0.0),  # was at full speed all along
        ([40, 40, 40, 41, 40], None),
    ],
)
def test_reaction_is_the_time_at_full_speed_that_is_missing(
    cores: list[float], expected_ms: float | None
) -> None:
    found = burst.reaction_ms(burst_of(cores), begin_s=1.0)
    if expected_ms is None:
        assert found is None or found > 0
    else:
        assert found == pytest.approx(expected_ms)


def test_p99_of_a_second_is_over_both_of_its_windows() -> None:
    counts = [[99, 0], [99, 4], [100, 0], [100, 0]]
    ends_s, p99_us = burst.p99_by_second_us(burst_of([96.0] * 4, counts))
    assert ends_s.tolist() == [1.0, 2.0]
    assert p99_us.tolist() == [900.0, 100.0]
