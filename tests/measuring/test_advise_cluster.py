"""`wattio advise cluster` on results: what is read of them, and what is told."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from wattio.analysis.peak import Quantity
from wattio.cli import main
from wattio.cli.advise_cluster import parse_rate
from wattio.errors import InputError
from wattio.kinds.measurement import phase_rates
from wattio.kinds.measurement.folder import MeasurementFolder

from . import made_folder

STUDY = made_folder.smaller(made_folder.STUDY, repetitions=3, clients="[1, 2]")
WORKS = {
    name: [replace(work, server_us=40.0) for work in works]
    for name, works in made_folder.WORKS.items()
}
PURCHASES = """\
[[purchase]]
name = "more disks\\u001b[31m"
part = "disk"
more_per_node = 1
price_eur = 100.0
power = "5 W"
[[purchase]]
name = "a node"
more_nodes = 1
"""


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_folder.write(tmp_path_factory.mktemp("cluster"), STUDY, WORKS)


def called(*words: str | Path) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["advise", "cluster", *map(str, words)])
    return int(ended.value.code or 0)


def test_what_is_read_is_what_the_catalog_holds(result: Path) -> None:
    folder = MeasurementFolder(result)
    peak = phase_rates.peak_of(folder)
    assert peak is not None
    found = {(one.run, one.phase): one for one in phase_rates.of_result(folder, peak)}
    assert not any(one.subject == "idle" for one in found.values())
    one = found["sequential/left, 2 clients", "write"]
    own = [item.by_phase["write"] for item in folder.iterations() if item.run.name == one.run]
    assert one.quantity == Quantity("throughput_mib_s", "write")
    assert one.rates == tuple(part["throughput_mib_s"][0] for part in own)
    assert one.powers_w == tuple(part["power_w_mean"][0] for part in own)
    assert (one.clients, one.cores, one.estimated) == (2, 2, False)
    assert one.server_cores == pytest.approx(
        sum(part["server_cpu_share"][0] for part in own) / len(own)
    )
    # Small reads come nearer to the peak of I/Os than to that of throughput.
    assert found["random/left, 1 client", "randread"].quantity == Quantity("iops", "read")


def test_an_invalid_repetition_says_nothing(tmp_path: Path) -> None:
    gaps = [("sequential/left, 1 client", 1, attempt) for attempt in (0, 1)]
    folder = MeasurementFolder(made_folder.write(tmp_path, STUDY, WORKS, gaps=gaps))
    peak = phase_rates.peak_of(folder)
    assert peak is not None
    found = {one.name: len(one.rates) for one in phase_rates.of_result(folder, peak)}
    assert found["sequential/left, 1 client: write"] == 2
    assert found["sequential/right, 1 client: write"] == 3


@pytest.mark.parametrize(
    ("facts", "share"),
    [
        ({}, 1.0),
        ({"goal": 2}, 2.0),
        ({"copies": 3, "copies_min": 1}, 3.0),
        ({"volume": "disperse", "bricks": 5, "redundancy": 1, "copies": 2}, 1.25),
        ({"volume": "replica", "bricks": 4, "copies": 2}, 2.0),
        ({"volume": "distribute", "copies": 2}, 1.0),
    ],
)
def test_copies_and_parity_are_those_that_a_system_tells(
    facts: dict[str, object], share: float
) -> None:
    assert phase_rates.stored_share(facts) == share


def test_purchases_are_for_the_runs_with_the_most_clients(
    result: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "p.toml").write_text(PURCHASES)
    words = ("--runs", result, "--purchases", tmp_path / "p.toml", "--rate", "2 GiB/s", "--json")
    assert called(*words) == 0
    text = capsys.readouterr().out
    told = json.loads(text)
    assert told["unpriced"] == told["without_power"] == ["a node"]
    phases = {(one["run"], one["phase"]): one for one in told["phases"]}
    few, most = (phases[f"sequential/left, {n}", "write"] for n in ("1 client", "2 clients"))
    assert len(few["estimates"]) == 1
    assert few["nodes"] is None
    nothing, disks, node = most["estimates"]
    assert (nothing["purchase"], node["gain_per_eur"]) == (None, None)
    # The peak knows one disk of 800 MiB/s and nothing else: another doubles what it allows.
    rate, of_limit = most["rate"]["estimate"], most["of_limit"]["estimate"]
    assert of_limit == pytest.approx(rate / 800, rel=1e-3)
    had = (1 + max(of_limit, 0.8)) / 2
    after = 1 / (1 / (had * 1600) + 1 / rate - 1 / (had * 800))
    assert disks["rate"]["estimate"] == pytest.approx(after, rel=5e-3)
    assert node["rate"]["estimate"] == pytest.approx(2 * rate, rel=1e-3)
    assert disks["rate"]["low"] < disks["rate"]["estimate"] < disks["rate"]["high"]
    assert most["nodes"]["now"] == 1
    assert most["nodes"]["joules_per_unit"]["estimate"] == pytest.approx(
        most["nodes"]["power_w"]["estimate"] / 2048, rel=1e-3
    )
    # Rates of I/Os have no nodes for so many bytes.
    assert phases["random/left, 2 clients", "randread"]["nodes"] is None
    assert called(*words) == 0
    assert capsys.readouterr().out == text


def test_everything_predicted_is_called_an_estimate(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = made_folder.only_estimate(STUDY).split("[[subtract]]")[0]
    result = made_folder.write(tmp_path, study, WORKS, estimate_only=True)
    (tmp_path / "p.toml").write_text(PURCHASES)
    words = ("--runs", result, "--purchases", tmp_path / "p.toml", "--rate", "2 GiB/s")
    assert called(*words) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "sequential/left, 2 clients: write: estimated, not measured (MiB/s, power by a" in out
    assert " W (estimated power)" in out
    assert "2 clients: write), estimated:" in " ".join(out.split())
    assert "a node: no price_eur, so no rate by euro" in out
    assert "Assumed:" in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "give a peak or --runs"),
        (("nowhere.toml",), "nowhere.toml"),
        (("arm-cluster/thesis-peak.toml", "--rate", "5 GiB"), "is not a rate"),
        (("arm-cluster/thesis-peak.toml", "--rate", "0 IO/s"), "is not a rate"),
        (("arm-cluster/thesis-peak.toml", "--draws", "5"), "1000 to 1000000 draws"),
        (("--runs", "/nowhere"), "not found"),
    ],
)
def test_what_cannot_be_advised_on_is_refused_in_a_line(
    words: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert called(*words) == 2
    captured = capsys.readouterr()
    assert message in " ".join(captured.err.split())
    assert captured.out == ""


def test_a_result_without_a_peak_needs_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = made_folder.write(tmp_path, STUDY.replace('peak = "peak.toml"\n', ""), WORKS)
    assert called("--runs", result) == 2
    assert "its study names no peak; give a peak.toml" in " ".join(capsys.readouterr().err.split())
    assert called(tmp_path / "peak.toml", "--runs", result) == 0
    assert called(tmp_path / "peak.toml", "--runs", result, result) == 2
    assert "names a folder twice" in capsys.readouterr().err


def test_rates_are_read_with_their_units() -> None:
    assert parse_rate("2 GiB/s") == ("throughput_mib_s", 2048.0)
    assert parse_rate("5000 IO/s") == ("iops", 5000.0)
    assert parse_rate("1.5 IO/s") == ("iops", 1.5)
    for text in ("2 GiB", "fast", "IO/s", "-1 GiB/s", "1 s/s", "٣ IO/s"):
        with pytest.raises(InputError, match="is not a rate"):
            parse_rate(text)
