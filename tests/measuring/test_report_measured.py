"""The report of a measurement: what it says, that it stands alone, that estimates are called so.

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
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pytest
from wattio.cli import main
from wattio.kinds.measurement import attach, rederive
from wattio.kinds.measurement.folder import MeasurementFolder
from wattio.kinds.measurement.schema import MeterEntry
from wattio.meters import parquet
from wattio.meters.samples import packed
from wattio.recording import Samples
from wattio.recording.journal import write_sources
from wattio.report import make, plots
from wattio.report.measurement import gather, phrases
from wattio.report.measurement import samples as measured_samples

from . import made_folder

GOLDEN = Path(__file__).parent / "golden" / "measured.html"
PLAIN = str.maketrans({"\N{NO-BREAK SPACE}": " ", "\N{NARROW NO-BREAK SPACE}": " "})
GAPS = [
    ("sequential/left, 2 clients", 0, 0),
    ("sequential/left, 2 clients", 0, 1),
    ("random/right, 4 clients", 1, 0),
]
FAILURES = [("sequential/right, 1 client", 2, 0), ("sequential/right, 1 client", 2, 1)]
RUNS = [
    (f"{load}/{system}, {clients}", repetition, attempt)
    for load in ("sequential", "random")
    for system in ("left", "right")
    for clients in ("1 client", "2 clients", "4 clients")
    for repetition in range(3)
    for attempt in (0, 1)
]
SMALL = made_folder.smaller(made_folder.STUDY, repetitions=2, clients="[1]")
KNOB = '\n[[knob]]\nname = "cpu.frequency"\nvalues = ["1.2 GHz", "3.6 GHz"]\n'


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_folder.write(tmp_path_factory.mktemp("measured"), gaps=GAPS, failures=FAILURES)


@pytest.fixture(scope="module")
def page(result: Path) -> str:
    return make(result).read_text(encoding="utf-8")


def said(path: Path) -> str:
    """The page as text, with plain spaces; its figures are made, but not drawn."""
    with patch.object(plots, "svg", return_value=b"<svg/>"):
        return words_of(make(path).read_text(encoding="utf-8"))


def words_of(page: str) -> str:
    """A page as text, with plain spaces."""
    text = re.sub(r"base64,[A-Za-z0-9+/=]+", "", page)
    text = re.sub(r"<(style|script).*?</\1>", "", text, flags=re.S)
    return re.sub(r"<[^>]+>", " ", text).translate(PLAIN)


def table(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_page_matches_the_golden_one(page: str) -> None:
    text = re.sub(r"base64,[A-Za-z0-9+/=]+", "base64,...", page)
    text = re.sub(r"(<(style|script)[^>]*>).*?(</\2>)", r"\1...\3", text, flags=re.S)
    # Every default: a new one is no change of the page.
    text = re.sub(r"(With every default</summary><pre>).*?(</pre>)", r"\1...\2", text, flags=re.S)
    if os.environ.get("WATTIO_UPDATE_GOLDEN"):
        GOLDEN.write_text(text, encoding="utf-8")
    assert text == GOLDEN.read_text(encoding="utf-8")


def test_made_again_every_file_is_the_same(result: Path, page: str) -> None:
    assert page
    files = {path.name: path.read_bytes() for path in (result / "report").iterdir()}
    make(result)
    assert {path.name: path.read_bytes() for path in (result / "report").iterdir()} == files
    names = [f"sequential-{name}" for name in ("rates", "efficiency", "edp", "power", "course")]
    names += ["random-rates", "session-0001", "invalid"]
    assert {f"{name}.{kind}" for name in names for kind in ("svg", "csv")} < files.keys()
    # What is done in a given time is never the same work: no product is drawn.
    assert "random-edp.svg" not in files


def test_phases_are_shaded_in_the_figure_to_be_looked_into(page: str) -> None:
    scripts = re.findall(r'<script type="application/json">(.*?)</script>', page, flags=re.S)
    panels = [panel for script in scripts for panel in json.loads(script)]
    shown = [[band["label"] for band in panel["bands"]] for panel in panels]
    assert shown == [
        *(["write", "read"], ["write", "read"]),
        *(["randread"], ["randread"]),
        ["INVALID", "ready-idle", "sequential", "random"],
        *(4 * [["write", "read", "INVALID"]]),
    ]
    for panel in panels:
        stretches = [end for band in panel["bands"] for end in band["stretches"]]
        assert all(0 <= start < end for start, end in stretches)
        assert max(end for _, end in stretches) == pytest.approx(panel["x"][-1], rel=0.1)


def test_page_stands_alone_and_escapes_what_others_wrote(page: str, result: Path) -> None:
    assert not re.search("<script[^>]* src", page)
    assert "<link" not in page
    for address in re.findall(r"""(?:src|href)=["']([^"'#]+)""", page):
        assert address.startswith("data:") or (result / "report" / address).is_file()
    assert "Two servers &amp; &lt;b&gt;three&lt;/b&gt;" in page
    assert "no answer from &lt;pdu&gt;" in page


def test_no_headline_crowns_what_cannot_be_told_from_another(result: Path) -> None:
    """What won had no winner, and the headline had one."""
    found = gather.gather(result)
    (phase,) = found.workloads[1].phases
    first, second = phase.rows[:2]
    value = first.metrics[phase.efficiency]
    near = replace(value, values=tuple(one * 1.0001 for one in value.values), mean=value.mean)
    rows = (first, replace(second, metrics=second.metrics | {phase.efficiency: near}))
    part = replace(found.workloads[1], phases=(replace(phase, rows=rows),))
    text = phrases.headline(part, found)
    assert text.startswith("random: no winner of randread for a joule: ")
    assert "cannot be told apart (" in text


def test_headline_says_what_is_best_and_what_is_not_compared(result: Path) -> None:
    found = gather.gather(result)
    sequential, random = found.workloads
    text = phrases.headline(sequential, found)
    assert text.startswith("sequential: write does the most for a joule on right, 4 clients, 6.0")
    assert "clearly before left, 4 clients with 5.1" in text
    assert "ESTIMATE" not in text
    least = phrases.details(sequential, found)[0]
    assert "takes the least energy on right with any number of clients; the most is 1." in least
    assert "differed from row to row" in phrases.details(random, found)[0]
    # A phase in which no sample of power lies is not compared either, and not for its work.
    (phase,) = random.phases
    bare = replace(phase.rows[0], metrics={"seconds": phase.rows[0].metrics["seconds"]})
    part = replace(random, phases=(replace(phase, rows=(bare, *phase.rows[1:])),))
    assert "is not known of every row" in phrases.details(part, found)[0]


def test_verdicts_are_counted_and_equal_reasons_stand_once(result: Path) -> None:
    found = gather.gather(result)
    assert phrases.counts(found) == (
        "40 iterations: 38 VALID, 0 WARN, 2 INVALID. 3 earlier attempts were INVALID and repeated."
        " INVALID ones are shown and never averaged (FAILED in 1, GAP in 1, MISSING in 1)."
    )
    reasons = {reason.code: reason for reason in phrases.reasons(found)}
    assert len(reasons) == len(phrases.reasons(found))
    assert len(reasons["GAP"].iterations) == 3
    assert list(reasons["GAP"].phases) == ["write", "randread"]
    assert reasons["FAILED"].example == "fio ended with 1"


def test_hundreds_of_equal_warnings_are_one_row(tmp_path: Path) -> None:
    rules = "\n[rules]\nsamples_min = 5000\n"
    path = made_folder.write(tmp_path, SMALL + rules)
    found = gather.gather(path)
    reasons = phrases.reasons(found)
    assert [reason.code for reason in reasons] == ["LOW_N", "LOW_N"]
    assert {len(reason.iterations) for reason in reasons} == {12}
    assert "12 iterations: 0 VALID, 12 WARN, 0 INVALID." in said(path)


@pytest.mark.usefixtures("page")
def test_invalid_iterations_are_in_no_mean(result: Path) -> None:
    rows = table(result / "report" / "sequential-rates.csv")
    used = {(row["phase"], row["run"]): row["n"] for row in rows}
    assert used["write", "sequential/left, 2 clients"] == "2"
    assert used["write", "sequential/left, 4 clients"] == "3"
    boxes = table(result / "report" / "sequential-power.csv")
    samples = {(row["phase"], row["run"]): int(row["samples"]) for row in boxes}
    per = samples["write", "sequential/left, 4 clients"] / 3
    seconds = 20000 / (60 * 4**0.6)
    assert per == pytest.approx(2 * seconds, rel=0.03)
    assert samples["write", "sequential/left, 2 clients"] == pytest.approx(
        2 * 2 * 10000 / (60 * 2**0.6), rel=0.03
    )


def test_share_of_the_peak_and_net_stand_beside(result: Path, page: str) -> None:
    text = words_of(page)
    for words in ("of peak", "total, gross", "total, net", "15.46 W: its mean over an idle hour"):
        assert words in text
    rows = table(result / "report" / "sequential-rates.csv")
    shares = [row for row in rows if row["metric"] == "peak_share"]
    rates = [row for row in rows if row["metric"] == "throughput_mib_s"]
    assert len(shares) == len(rates) == 12
    for share, rate in zip(shares, rates, strict=True):
        peak = 800.0 if rate["phase"] == "write" else 900.0
        assert float(share["mean"]) == pytest.approx(float(rate["mean"]) / peak)


def test_an_estimate_is_called_so_everywhere(tmp_path: Path) -> None:
    study = made_folder.only_estimate(SMALL)
    path = made_folder.write(tmp_path, study, estimate_only=True)
    text = said(path)
    assert "MiB/J (ESTIMATE)" in text
    for title in ("Efficiency", "Normalised energy-delay product", "Power in each phase"):
        assert f"{title}, ESTIMATE" in text
    assert "no meter measured the total of power" in text
    assert re.search(r"power\s+W\s+ESTIMATE", text)
    rows = table(path / "report" / "sequential-efficiency.csv")
    assert {row["metric"] for row in rows} == {
        "estimated_mib_per_joule",
        "estimated_mib_per_joule_net",
    }


def test_what_an_estimate_cannot_tell_apart_is_not_ranked(tmp_path: Path) -> None:
    """The right server is faster. Where it keeps cores busier for that, who knows what is less?"""
    study = made_folder.only_estimate(SMALL).partition("[[subtract]]")[0]
    polls = made_folder.write(
        tmp_path / "polls", study, estimate_only=True, busy={"left": 0.2, "right": 1.9}
    )
    text = said(polls)
    assert "sequential, write: the estimate cannot tell left, right apart: with its" in text
    assert "times the energy (ESTIMATE) of left" in text
    assert "Of the same work in write, the estimate cannot tell" in text
    assert "the order says nothing" in text
    assert "cannot tell, conditions stand in the order of the study" in text
    for ranking in ("takes the least energy", "has the least energy", "most for a joule on"):
        assert ranking not in text
    rows = table(polls / "report" / "winners.csv")
    names = [row["condition"] for row in rows if row["contest"] == "sequential, write"]
    assert names == ["left", "right"]
    sleeps = made_folder.write(
        tmp_path / "sleeps", study, estimate_only=True, busy={"left": 0.2, "right": 0.1}
    )
    text = said(sleeps)
    assert "sequential, write: right has the least energy (ESTIMATE), 1" in text
    assert "the estimate cannot tell" not in text


def test_core_seconds_stand_beside_a_meter_and_an_estimate(tmp_path: Path) -> None:
    path = made_folder.write(tmp_path, SMALL, busy={"left": 0.5, "right": 1.0})
    text = said(path)
    assert re.search(r"cores busy\s+core-s", text)
    rows = [row for row in table(path / "report" / "table.csv") if row["phase"] == "write"]
    mean = {(row["run"], row["metric"]): float(row["mean"]) for row in rows}
    (run,) = {name for name, _ in mean if "/left" in name}
    seconds = mean[run, "seconds"]
    assert mean[run, "cores_busy_s"] == pytest.approx(0.5 * seconds)
    assert mean[run, "cores_idle_s"] == pytest.approx(1.5 * seconds)
    assert mean[run, "C6.cores_idle_s"] == pytest.approx(seconds)
    by_hand = (48 + 2 * 0.4 + 0.5 * 6.8) * seconds
    assert mean[run, "model.estimated_energy_j"] == pytest.approx(by_hand)
    # The total is the meter's, and has no range.
    assert (run, "energy_j") in mean
    assert not any("estimated_energy_j_low" in metric for _, metric in mean)


def test_a_measured_total_is_not_called_an_estimate(result: Path) -> None:
    text = said(result)
    assert "Efficiency, ESTIMATE" not in text
    assert re.search(r"model\s+J\s+beside\s+ESTIMATE", text)
    assert "model, beside (ESTIMATE)" not in text  # It is drawn, not written.


def test_one_repetition_has_no_error_bars(tmp_path: Path) -> None:
    study = made_folder.smaller(SMALL, repetitions=1)
    text = said(made_folder.write(tmp_path, study))
    assert "n = 1, so there are no error bars." in text
    assert "one repetition does not tell how much of that is noise" in text
    assert "±" not in text.partition("How this was made")[0].replace("± sample deviation", "")


def test_a_campaign_of_invalid_ones_makes_a_page(tmp_path: Path) -> None:
    path = made_folder.write(tmp_path, gaps=RUNS)
    text = said(path)
    assert "No iteration may be used" in text
    assert "sequential: no efficiency is known, because no iteration may be used for it." in text
    files = {item.name for item in (path / "report").iterdir()}
    assert "invalid.svg" in files
    assert "sequential-rates.svg" not in files


@pytest.mark.parametrize("again", [True, False])
def test_an_iteration_whose_record_is_lost_stays_listed(tmp_path: Path, again: bool) -> None:
    """A machine that lost power left one cut off, and then no page could be made of the rest."""
    path = made_folder.write(tmp_path, SMALL)
    folder = MeasurementFolder(path)
    lost = next(one for one in folder.iterations() if one.run.name == "random/left, 1 client")
    record = folder.raw(lost.identity) / "iteration.json"
    record.write_text(record.read_text(encoding="utf-8")[:100], encoding="utf-8")
    if again:
        rederive.put_derived(folder, ())  # of no session, but what belongs to none is judged
    text = said(path)
    assert " 1 INVALID" in text
    assert "UNREADABLE in 1" in text
    assert "what a program left cannot be read" in text
    rows = [row for row in table(path / "report" / "verdicts.csv") if row["run"] == lost.run.name]
    told = [row["reason"] for row in rows if row["verdict"] == "INVALID"]
    assert len(told) == 1
    assert told[0].startswith("UNREADABLE: iteration.json: invalid JSON: ")


def test_knobs_are_on_the_axis_where_clients_do_not_vary(tmp_path: Path) -> None:
    path = made_folder.write(tmp_path, SMALL + KNOB)
    part = gather.gather(path).workloads[0]
    assert (part.x_name, part.x_labels) == ("cpu.frequency", ("1.2 GHz", "3.6 GHz"))
    assert [line.label for line in part.phases[0].lines] == ["left", "right"]
    # All did the same work, so all are compared.
    assert len(part.phases[0].comparisons) == 1
    assert "by cpu.frequency: 1.2 GHz, 3.6 GHz" in said(path)


def test_clients_come_first_and_knobs_make_series(tmp_path: Path) -> None:
    path = made_folder.write(tmp_path, made_folder.smaller(SMALL, clients="[4, 1]") + KNOB)
    part = gather.gather(path).workloads[0]
    assert (part.x_name, part.x_labels) == ("clients", ("1", "4"))
    assert [line.label for line in part.phases[0].lines] == [
        "left, cpu.frequency 1.2 GHz",
        "left, cpu.frequency 3.6 GHz",
        "right, cpu.frequency 1.2 GHz",
        "right, cpu.frequency 3.6 GHz",
    ]


def test_systems_stand_side_by_side_where_nothing_varies(tmp_path: Path) -> None:
    path = made_folder.write(tmp_path, SMALL)
    part = gather.gather(path).workloads[0]
    assert (part.x_name, part.x_labels) == (None, ("left", "right"))
    assert [phase.name for phase in part.phases] == ["write", "read"]
    assert "systems side by side" in said(path)


def test_many_phases_are_told_in_short(tmp_path: Path) -> None:
    phases = [f"phase-{number}" for number in range(8)]
    works = {
        **made_folder.WORKS,
        "random": [made_folder.Work(name, "stat", 1024, 60000, 900.0, 75.0) for name in phases],
    }
    path = made_folder.write(tmp_path, SMALL, works)
    text = said(path)
    assert "4 more phases are below." in text
    for name in phases:
        assert f"random: {name}" in text


def test_operations_that_share_a_phase_have_rows_of_their_own(tmp_path: Path) -> None:
    path = made_folder.write(tmp_path, SMALL)
    with sqlite3.connect(path / "catalog.sqlite") as catalog:
        for name, value, unit in (("iops", 123.0, "1/s"), ("throughput_mib_s", 456.0, "MiB/s")):
            catalog.execute(
                "INSERT INTO metrics SELECT iteration, 'read', ?, ?, ? FROM iterations"
                " WHERE run LIKE 'sequential/%'",
                (f"lookup.{name}", value, unit),
            )
    assert re.search(r"lookup\s+456\s", said(path))


def test_samples_that_joined_later_are_shown(tmp_path: Path) -> None:
    path = made_folder.write(tmp_path / "made", SMALL)
    recorded = parquet.read(path / "samples" / "0001.parquet")["pdu"]
    lines = [f"{at / 1e9:.3f},{1.1 * watts:.2f}" for at, watts in _pairs(recorded)]
    file = tmp_path / "scope.csv"
    file.write_text("\n".join(["seconds,power_w", *lines]) + "\n")
    entry = MeterEntry(name=f"csv:{file}", label="scope", covers=["server"], role="beside")
    attach.attach(MeasurementFolder(path), entry, in_place_of_totals=False)
    assert re.search(r"scope\s+csv:\S+\s+measured\s+beside\s+server", said(path))
    meters = {row["meter"] for row in table(path / "report" / "session-0001.csv")}
    assert meters == {"pdu", "model", "scope"}


def _pairs(samples: Samples) -> Iterator[tuple[int, float]]:
    return zip(samples.utc_ns.tolist(), samples.power_w.tolist(), strict=True)


def test_an_unfinished_study_says_so(tmp_path: Path) -> None:
    path = made_folder.write(tmp_path, SMALL)
    with sqlite3.connect(path / "catalog.sqlite") as catalog:
        for name in ("phases", "verdicts", "metrics", "iterations"):
            catalog.execute(f"DELETE FROM {name}")
    text = said(path)
    assert "This study is not complete" in text
    assert "No iteration may be used" in text


@pytest.mark.slow
@pytest.mark.usefixtures("undrawn")
def test_a_session_that_still_runs_is_shown(tmp_path: Path) -> None:
    path = made_folder.write(tmp_path, SMALL)
    make(path)
    kept = path / "samples" / "0001.parquet"
    recorded = parquet.read(kept)
    expected = table(path / "report" / "session-0001.csv")
    folder = path / "recording" / "0001"
    folder.mkdir()
    facts = made_folder.facts_of(estimate_only=False)
    write_sources(folder, {label: facts[label].name for label in recorded}, facts)
    for number, samples in enumerate(recorded.values()):
        content = b"".join(packed(reading) for reading in samples.readings())
        (folder / f"{number}.samples").write_bytes(content)
    kept.unlink()
    make(path)
    assert table(path / "report" / "session-0001.csv") == expected


def test_a_curve_keeps_the_mean_and_the_extremes(
    result: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = gather.gather(result).folder
    whole = folder.samples("0001")["pdu"]
    time_s = whole.monotonic_ns / 1e9
    stretch = (float(time_s[0]), float(time_s[-1]))
    asked = [measured_samples.Asked("pdu", 0.0, 1.0, total=True)]
    found = measured_samples.look(folder, "0001", asked, [stretch], [("all", stretch)])
    curve = found.curves["pdu", 0]
    assert curve.binned
    assert len(curve.time_s) <= measured_samples.POINTS
    assert curve.low_w.min() == whole.power_w.min()
    assert curve.high_w.max() == whole.power_w.max()
    assert (curve.low_w <= curve.mean_w).all()
    assert (curve.mean_w <= curve.high_w).all()
    assert sum(part.size for part in found.values_w["all"]) == len(whole)
    assert len(found.gaps["pdu"]) == 3
    # However the file is read, it is the same.
    monkeypatch.setattr(measured_samples, "_PIECE_ROWS", 1000)
    again = measured_samples.look(folder, "0001", asked, [stretch], [("all", stretch)])
    assert again.curves["pdu", 0].mean_w == pytest.approx(curve.mean_w)
    assert again.gaps == found.gaps
    assert sum(part.size for part in again.values_w["all"]) == len(whole)


def test_several_totals_are_summed(result: Path) -> None:
    folder = gather.gather(result).folder
    asked = [measured_samples.Asked(label, 0.0, 1.0, total=True) for label in ("pdu", "model")]
    found = measured_samples.look(folder, "0001", asked, [(103.0, 150.0)], [])
    pdu, both = found.curves["pdu", 0], found.curves[measured_samples.SUM, 0]
    assert both.mean_w == pytest.approx(1.8 * pdu.mean_w)


@pytest.mark.usefixtures("undrawn")
def test_the_command_takes_a_measurement(
    result: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "copy"
    shutil.copytree(result, path)
    with pytest.raises(SystemExit) as stop:
        main(["report", str(path)])
    assert stop.value.code == 0
    assert "report:" in capsys.readouterr().out
    (path / "samples" / "0001.parquet").write_bytes(b"nothing of the kind")
    with pytest.raises(SystemExit) as stop:
        main(["report", str(path)])
    assert stop.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1


APPROACHES = {
    f"{approach}-every{every}": [
        made_folder.Work("run", "write", made_folder.MIB, 40_000 // every, rate, 90.0)
    ]
    for every in (10, 20)
    for approach, rate in (("tp", 60.0), ("dc1", 75.0), ("dn3", 70.0))
}


def approaches(repetitions: int = 3) -> str:
    """A study whose conditions are workloads of their own, as one of I/O approaches has them."""
    head, _, rest = made_folder.STUDY.partition("[[workload]]")
    meters = rest[rest.index("[[meter]]") :]
    head = head.replace("clients = [1, 2, 4]\n", "").replace("repetitions = 3", f"{repetitions=}")
    system = '[[system]]\nname = "right"\nkind = "local"\noptions = { path = "/" }\n'
    jobs = '[{ name = "run", rw = "write", bs = "1 MiB", size = "1 GiB" }]'
    workloads = "".join(
        f'[[workload]]\nname = "{name}"\nkind = "fio"\noptions = {{ jobs = {jobs} }}\n'
        for name in APPROACHES
    )
    return head.replace(system, "") + workloads + meters


def test_workloads_of_equal_work_are_compared_and_a_winner_is_named(tmp_path: Path) -> None:
    """A report of I/O approaches was 28,000 pixels of single bars and named no winner."""
    path = made_folder.write(tmp_path, approaches(), APPROACHES)
    text = said(path)
    # The first figure; a single bar is none.
    assert text.index("Everything against the reference") < text.index("Power over an iteration")
    assert "Throughput" not in text.partition("How this was made")[0].partition("Power over")[0]
    assert not list((path / "report").glob("*-rates.svg"))
    assert re.search(
        r"tp-every10 and 2 more of equal work, run: dc1-every10 has the least energy,"
        r" \d+\.\d % less \(0\.\d\d. to 0\.\d\d.\) than tp-every10, and \d\.\d % less",
        text,
    )
    assert "tp-every20 and 2 more of equal work, run: dc1-every20" in text
    # Half of the output is other work: never in one comparison.
    rows = table(path / "report" / "winners.csv")
    contests = {row["contest"]: set() for row in rows}  # type: ignore[var-annotated]
    for row in rows:
        contests[row["contest"]].add(row["condition"])
    assert sorted(map(sorted, contests.values())) == [
        [f"{approach}-every{every}" for approach in ("dc1", "dn3", "tp")] for every in (10, 20)
    ]


def test_joules_of_no_sample_are_not_headlined(tmp_path: Path) -> None:
    """A phase too short for its meter was headlined with the joules between two samples around."""
    path = made_folder.write(tmp_path, SMALL)
    with sqlite3.connect(path / "catalog.sqlite") as catalog:
        catalog.execute("DELETE FROM metrics WHERE name LIKE '%power_samples'")
    found = gather.gather(path)
    for part in found.workloads:
        assert phrases.headline(part, found) == (
            f"{part.name}: no efficiency is known, because its phases are too short for the meter:"
            " none holds a sample of power."
        )
        assert not any("least energy" in text for text in phrases.details(part, found))
    text = said(path)
    assert "has the least time" in text
    assert "has the least energy" not in text
