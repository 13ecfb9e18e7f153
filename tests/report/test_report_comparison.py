"""The page of `wattio compare A B --html FILE`: what the console says, with a figure."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import pytest
from simulation.test_study_run import carried_out
from wattio.cli import main

from report.test_report import PROFILE, STUDY

PLAIN = str.maketrans({"\N{NO-BREAK SPACE}": " ", "\N{NARROW NO-BREAK SPACE}": " "})


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("compared")
    (place / "a.bin").write_bytes(b"a trace")
    (place / "day.toml").write_text(PROFILE)
    (place / "study.toml").write_text(STUDY)
    return carried_out(place / "study.toml", place / "results").path


def run(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[object, str, str]:
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    shown = capsys.readouterr()
    return stop.value.code or 0, shown.out, shown.err


def test_one_page_of_two_runs(
    result: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sides = [f"{result}:day/native", f"{result}:day/PACER"]
    page = tmp_path / "compared.html"
    code, out, _ = run(["compare", *sides, "--html", str(page)], capsys)
    assert code == 0
    assert out.endswith(f"page: {page}\n")
    text = page.read_text(encoding="utf-8")
    assert "<script" not in text
    for address in re.findall(r'(?:src|href)="([^"#]+)"', text):
        assert address.startswith("data:") or (tmp_path / address).is_file()
    plain = re.sub(r"<[^>]+>", " ", text).translate(PLAIN)
    assert re.search(
        r"day/PACER against day/native: Beyond noise: mean power \d+\.\d % lower", plain
    )
    assert "better, beyond noise" in plain
    assert plain.count(str(result)) == 2
    _, out, _ = run(["compare", *sides, "--json"], capsys)
    (group,) = json.loads(out)["compared"]
    ratios = {one["metric"]: one for one in group["ratios"]}
    assert "paired t test" in group["test"]
    assert (group["level"], group["correction"], group["tests"]) == (0.05, "Holm", len(ratios))
    assert "paired t test of the logarithm of the ratio of means, over 2 pairs of seeds" in plain
    for one in ratios.values():
        assert one["beyond_noise"] == (one["p_holm"] < 0.05)
        assert one["p_holm"] >= one["p_alone"]
    with (tmp_path / "compared-ratios.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["metric"] for row in rows} == set(ratios)
    for row in rows:
        expected = ratios[row["metric"]]
        assert float(row["ratio"]) == expected["ratio"]
        assert [float(row["low"]), float(row["high"])] == expected["interval"]
        assert float(row["p_holm"]) == expected["p_holm"]


@pytest.mark.usefixtures("undrawn")
def test_a_whole_result_and_a_file_that_cannot_be(
    result: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "all.html"
    code, out, _ = run(["compare", *(2 * [str(result)]), "--html", str(page), "--json"], capsys)
    assert code == 0
    content = json.loads(out)
    assert content["page"] == str(page)
    text = page.read_text(encoding="utf-8")
    for pair in content["compared"]:
        assert pair["first"] in text
    assert "Nothing differs beyond noise." in text
    (tmp_path / "file").write_text("")
    code, _, err = run(
        ["compare", *(2 * [str(result)]), "--html", f"{tmp_path}/file/x.html"], capsys
    )
    assert code == 2
    assert err.count("\n") == 1
    assert f"there is no folder {tmp_path}/file" in err
