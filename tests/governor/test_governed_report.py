"""The report of a governor: what it says, that it stands alone, and that estimates are called so.

The golden page is compared without its images, which depend on the version of Matplotlib. Set
WATTIO_UPDATE_GOLDEN=1 to write it anew, and look at it before committing.
"""

from __future__ import annotations

import csv
import json
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from wattio.cli import main
from wattio.kinds.governor import folder, journal
from wattio.report import make
from wattio.report.governor import gather, phrases
from wattio.report.plots import POINTS

from governor import governed_fake as fake

GOLDEN = Path(__file__).parent / "golden" / "governed.html"
COUNT = 400
PLAIN = str.maketrans({"\N{NO-BREAK SPACE}": " ", "\N{NARROW NO-BREAK SPACE}": " "})


def said(path: Path) -> tuple[str, str]:
    """Headline and details, with plain spaces."""
    found = gather.gather(path)
    details = " ".join(phrases.details(found))
    return phrases.headline(found).translate(PLAIN), details.translate(PLAIN)


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fake.write(tmp_path_factory.mktemp("governed") / "r", fake.windows(COUNT))


@pytest.fixture(scope="module")
def page(result: Path) -> str:
    return make(result).read_text(encoding="utf-8")


def test_page_matches_the_golden_one(page: str) -> None:
    text = re.sub(r"base64,[A-Za-z0-9+/=]+", "base64,...", page)
    text = re.sub(r"(<(style|script)[^>]*>).*?(</\2>)", r"\1...\3", text, flags=re.S)
    if os.environ.get("WATTIO_UPDATE_GOLDEN"):
        GOLDEN.write_text(text, encoding="utf-8")
    assert text == GOLDEN.read_text(encoding="utf-8")


def test_made_again_every_file_is_the_same(result: Path, page: str) -> None:
    assert page
    files = {path.name: path.read_bytes() for path in (result / "report").iterdir()}
    make(result)
    assert {path.name: path.read_bytes() for path in (result / "report").iterdir()} == files
    names = ("latency", "power", "cores", "states", "latency-distribution")
    assert {f"{name}.{kind}" for name in names for kind in ("svg", "csv")} < files.keys()


def test_page_stands_alone_and_escapes_what_others_wrote(page: str, result: Path) -> None:
    assert not re.search("<script[^>]* src", page)
    assert "<link" not in page
    for address in re.findall(r"""(?:src|href)=["']([^"'#]+)""", page):
        assert address.startswith("data:") or (result / "report" / address).is_file()
    assert "&lt;i&gt;sda&lt;/i&gt; is slow" in page
    assert "&lt;b&gt;the first&lt;/b&gt;" in page


def test_shadow_mode_says_what_would_have_been(tmp_path: Path) -> None:
    rows = fake.windows(COUNT)
    headline, details = said(fake.write(tmp_path / "r", rows))
    assert re.fullmatch(
        r"Over 3 min 20 s, pacer would have saved \d\d\.\d W on average \(estimate\),"
        r" \d\d\.\d % of the 104 W that full speed draws by the same estimate\."
        r" There is an estimate for 3 min 10 s of that time\.",
        headline,
    ), headline
    broken, counted = fake.bounded(rows)
    assert (
        f"It would have broken its bound, 20 % above the baseline, in {broken} of {counted}"
        " windows (estimate)." in details
    )
    assert re.search(r"It would have changed the setting \d+ times \(estimate\)\.", details)
    assert (
        "The model's median error is 4.0 %, 11.0 % at the 90th percentile, on 120 windows kept out"
        " of the fit." in details
    )


def test_run_mode_says_what_was(tmp_path: Path) -> None:
    rows = fake.windows(COUNT, "run")
    status = fake.summary(COUNT, fake.bounded(rows), "run")
    status["power"]["meter"] = "rapl:package-0"
    headline, details = said(fake.write(tmp_path / "r", rows, "run", status))
    assert "pacer saved" in headline
    assert re.search(r"The meter rapl:package-0 read \d+\.\d W\.", headline)
    assert "would" not in headline + details
    assert "It broke its bound, 20 % above the baseline, in" in details
    assert "requests took" in details


@pytest.mark.parametrize(
    ("status", "why"),
    [
        ({"shadow": {"fitted": False, "why": "only one load level so far."}}, "only one load"),
        ({"shadow": None, "power": {"no_estimate": "no power model"}}, "no power model"),
        (
            {
                "shadow": {"fitted": False, "why": "the host is saturated"},
                "power": {"no_estimate": 'group "web" has nothing to set'},
            },
            'group "web" has nothing to set',
        ),
    ],
)
def test_no_estimate_says_why(tmp_path: Path, status: dict[str, Any], why: str) -> None:
    rows = fake.windows(COUNT)
    for row in rows:
        row["power_w_estimated"] = row["power_w_full_speed_estimated"] = None
    headline, _ = said(fake.write(tmp_path / "r", rows, status=fake.summary(COUNT) | status))
    assert "no estimate of what pacer would have saved, because " + why in headline
    # A shadow without a model is no VALID result: it used to be called one.
    shadow = status.get("shadow")
    verdicts = gather.gather(tmp_path / "r").recorded.verdicts
    found = [v.verdict for v in verdicts if v.reason.startswith("NO_ESTIMATE")]
    assert found == (["WARN"] if shadow else [])
    make(tmp_path / "r")
    assert not (tmp_path / "r" / "report" / "power.svg").exists()


def test_a_loss_is_not_called_a_saving(tmp_path: Path) -> None:
    rows = fake.windows(COUNT)
    for row in rows:
        row["power_w_full_speed_estimated"] = 20.0
    headline, _ = said(fake.write(tmp_path / "r", rows))
    assert re.search(r"pacer would have cost \d+\.\d W more on average \(estimate\)", headline)


def test_nothing_saved_is_said_plainly(tmp_path: Path) -> None:
    rows = fake.windows(COUNT)
    for row in rows:
        row["power_w_full_speed_estimated"] = row["power_w_estimated"]
    headline, _ = said(fake.write(tmp_path / "r", rows))
    assert headline == "Over 3 min 20 s, pacer would have saved nothing (estimate)."


BY_TURNS = {
    "condition": "governed",
    "pairs": 12,
    "power_w_full_speed": 65.0,
    "power_w_saved": {"mean": 9.1, "half_width": 0.8},
    "power_is_estimate": False,
    "latency_change": {"mean": 0.06, "half_width": 0.02},
}


def test_what_alternation_has_shown_is_told_and_is_no_doubt(tmp_path: Path) -> None:
    rows = fake.windows(COUNT, mode="run")
    for row in rows[100:300]:
        row["forced"] = journal.BY_TURNS
    power = {"meter": "rapl:sum", "model": None}
    status = {**fake.summary(COUNT, mode="run"), "alternation": BY_TURNS, "power": power}
    result = fake.write(tmp_path / "r", rows, mode="run", status=status)
    text = make(result).read_text(encoding="utf-8").translate(PLAIN)
    assert "9.1 ± 0.8 W, 14.0 % of 65.0 W" in text
    assert phrases.by_turns(gather.gather(result)).translate(PLAIN) == (
        "By turns with full speed, pacer saved 9.1 ± 0.8 W, 14.0 % of 65.0 W; mean latency "
        "+6.0 ± 2.0 % (12 pairs, 95 % intervals, measured by rapl:sum)."
    )
    # Fewer requests take less power, whatever was set.
    served = {**BY_TURNS, "requests_per_s_change": {"mean": -0.08, "half_width": 0.01}}
    status = {**fake.summary(COUNT, mode="run"), "alternation": served, "power": power}
    slower = fake.write(tmp_path / "slower", rows, mode="run", status=status)
    told = phrases.by_turns(gather.gather(slower)).translate(PLAIN)
    assert "; requests per second -8.0 ± 1.0 %: less was served, and part of the" in told
    # How it was made left that out.
    told = json.loads((result / "machine.json").read_text())
    told["options"] = ["--alternate", "600 s", "--governed-share", "50 %"]
    (result / "machine.json").write_text(json.dumps(told))
    text = make(result).read_text(encoding="utf-8").translate(PLAIN)
    assert "wattiod run --alternate &#39;600 s&#39; --governed-share &#39;50 %&#39; /etc" in text
    # What a model says of all the time, full speed too, stood above what was measured.
    assert text.index("By turns with full speed, pacer") < text.index("Over 3 min 20 s")
    chance = {**BY_TURNS, "power_w_saved": {"mean": 0.3, "half_width": 0.8}}
    status = {**fake.summary(COUNT, mode="run"), "alternation": chance, "power": power}
    result = fake.write(tmp_path / "chance", rows, mode="run", status=status)
    told = phrases.by_turns(gather.gather(result)).translate(PLAIN)
    assert "no saving by pacer can be told from chance yet (0.3 ± 0.8 W, 0.5 % of 65.0 W)" in told
    assert "+6.0 ± 2.0 %" in text
    assert "measured, rapl:sum; 95 % interval over 12 pairs" in text
    assert "FORCED" not in text
    daemon = Path(__file__).parents[2] / "crates" / "wattiod"
    for names_it in ("src/alternation.rs", "page/view.js"):
        assert f'"{journal.BY_TURNS}"' in (daemon / names_it).read_text()


def bound(text: str, windows_over: int, over_share: float, *, kept: bool) -> dict[str, Any]:
    account = {"windows": 300, "windows_over": windows_over, "requests_over_share": over_share}
    return {"bound": text, "statistic": text.split()[0], **account, "kept": kept}


def test_of_several_bounds_each_is_told_by_its_name(tmp_path: Path) -> None:
    """The account of a percentile was told as that of the bound on the mean, and doubted."""
    bounds = [
        bound("p99 2 ms run", 40, 0.0134, kept=False),
        bound("mean 20% run", 2, 0.1, kept=True),
    ]
    status = {**fake.summary(COUNT, (40, 300), mode="run"), "bounds": bounds}
    rows = fake.windows(COUNT, mode="run")
    result = fake.write(tmp_path / "r", rows, mode="run", status=status)
    text = make(result).read_text(encoding="utf-8").translate(PLAIN)
    assert "windows above p99 2 ms run, while saving" in text
    assert "ACCOUNT" not in text
    told = phrases.details(gather.gather(result))[0].translate(PLAIN)
    assert told == (
        "It broke its bound p99 2 ms run in 40 of 300 windows, with 1.34 % of their requests above "
        "it, and did not keep it over the run. It broke its bound mean 20% run in 2 of 300 windows."
    )
    alone = {**status, "bounds": bounds[1:]}
    result = fake.write(tmp_path / "alone", rows, mode="run", status=alone)
    assert "ACCOUNT" in make(result).read_text(encoding="utf-8")


@pytest.mark.parametrize("count", [0, 1, 2])
def test_few_windows_make_a_page_too(tmp_path: Path, count: int) -> None:
    path = fake.write(tmp_path / "r", fake.windows(count))
    text = make(path).read_text(encoding="utf-8")
    assert ("recorded no window" in text) == (count == 0)
    assert ("The numbers below must not be used." in text) == (count == 0)


def test_what_a_coarse_source_cannot_tell_from_none_is_not_said_to_be_none(tmp_path: Path) -> None:
    """A log of whole milliseconds without any had a mean of 0.500 µs, "measured"."""
    rows = fake.windows(70)
    for row in rows:
        row["latency_us_mean"] = row["latency_us_p99"] = 0.5 if row["requests"] else None
        row["histogram"] = [[1.0, row["requests"]]] if row["requests"] else None
    status = fake.summary(70)
    status["latency"]["latency_us_resolution"] = 1000.0
    path = fake.write(tmp_path / "r", rows, status=status)
    text = re.sub(r"<[^>]+>|\s", " ", make(path).read_text(encoding="utf-8"))
    text = re.sub(r" +", " ", text.replace("&#160;", " "))
    assert "mean latency &lt; 1.00 ms measured, in steps of 1.00 ms" in text
    assert "99th percentile &lt; 1.00 ms measured, in steps of 1.00 ms; upper edge" in text
    assert "0.500" not in text


def test_nothing_known_but_the_time_makes_a_page_too(tmp_path: Path) -> None:
    keys = ("utc_ns", "monotonic_ns", "dt_s", "cores")
    rows = [{key: row[key] for key in keys} for row in fake.windows(70)]
    path = fake.write(tmp_path / "r", rows, status=fake.summary(70))
    (path / "raw" / "summary.json").unlink()
    text = make(path).read_text(encoding="utf-8")
    assert "because the daemon ended before it wrote a summary" in text
    assert not (path / "report" / "latency.svg").exists()


def test_many_windows_are_averaged_by_energy_and_requests(tmp_path: Path) -> None:
    rows = fake.windows(1001)
    found = gather.gather(fake.write(tmp_path / "r", rows))
    assert found.step == 5
    first = rows[:5]
    requests = sum(row["requests"] for row in first)
    mean_us = sum(row["requests"] * row["latency_us_mean"] for row in first) / requests
    assert found.series["latency_us_mean"][0] == pytest.approx(mean_us)
    energy_j = np.nansum(found.series["power_w_estimated"] * found.series["span_s"])
    estimated = found.get("energy_j_estimated")
    assert estimated is not None
    assert energy_j == pytest.approx(estimated, rel=1e-9)
    assert found.series["violations"].sum() == fake.bounded(rows)[0]


@pytest.mark.usefixtures("undrawn")
def test_gaps_in_time_are_gaps_in_curves(tmp_path: Path) -> None:
    rows = fake.windows(200)
    del rows[100:150]
    path = fake.write(tmp_path / "r", rows)
    make(path)
    with (path / "report" / "latency.csv").open(newline="") as file:
        ends = [(float(row["start_s"]), float(row["end_s"])) for row in csv.DictReader(file)]
    assert (ends[99], ends[100]) == ((49.5, 50.0), (75.0, 75.5))


@pytest.mark.usefixtures("undrawn")
def test_a_long_journal_in_pieces_makes_a_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder, "PIECE", 300)
    path = fake.write(tmp_path / "r", fake.windows(5000))
    make(path)
    assert len(list((path / "samples").iterdir())) == 17
    with (path / "report" / "power.csv").open(newline="") as file:
        assert len(list(csv.DictReader(file))) <= POINTS


def test_duration_in_words() -> None:
    spans = (0.5, 89.0, 150.0, 11_520.0, 86_400.0 * 2 + 4 * 3600, 3600.0)
    texts = [phrases.duration(span).translate(PLAIN) for span in spans]
    assert texts == ["0.500 s", "89 s", "2 min 30 s", "3 h 12 min", "2 d 4 h", "1 h"]


def run(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    shown = capsys.readouterr()
    code = stop.value.code
    return code if isinstance(code, int) else 0, shown.out, shown.err


def test_commands_take_a_governor_s_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = fake.write(tmp_path / "r", fake.windows(COUNT))
    code, _, err = run(["recompute", str(path)], capsys)
    assert (code, "wattio report" in err) == (2, True)
    code, out, _ = run(["report", str(path), "--json"], capsys)
    assert code == 0
    assert json.loads(out)["report"] == str(path / "report" / "index.html")
    code, out, _ = run(["recompute", str(path), "--json"], capsys)
    assert code == 0
    assert json.loads(out)["differences"] == []


def test_other_commands_say_that_it_is_not_theirs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = fake.write(tmp_path / "r", fake.windows(5))
    make(path)
    for arguments in (["compare", str(path), str(path)], ["run", "--resume", str(path)]):
        code, _, err = run(arguments, capsys)
        assert (code, "was left by wattiod" in err) == (2, True)


def test_garbage_is_one_message(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = fake.write(tmp_path / "r", fake.windows(5))
    events = path / "raw" / "events.jsonl"
    events.write_text('{"utc_ns": 1, "severity": "loud", "message": ""}\n')
    code, _, err = run(["report", str(path)], capsys)
    assert code == 2
    assert err.count("\n") == 1
    assert "raw/events.jsonl:1: severity: must be 'info', 'warning' or 'error'" in err
