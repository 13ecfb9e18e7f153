"""What starved background work or broke the bound is bracketed wherever it is called a saving.

Only a study of simulations did so: the console of `wattio simulate`, a fleet's and a governor's
page told the same saving without brackets.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from governor import governed_fake as fake
from rich.console import Console
from wattio.analysis.soundness import BACKGROUND_FLOOR, sound
from wattio.cli import run_fleet, simulate
from wattio.files import document
from wattio.kinds.fleet.schema import FleetStudy, from_document
from wattio.kinds.fleet.summary import Policy
from wattio.report import make
from wattio.report.fleet import page as fleet_page
from wattio.report.governor import gather, phrases
from wattio.results.runs import Run
from wattio.simulator.simulation import Request

PLAIN = str.maketrans({"\N{NO-BREAK SPACE}": " ", "\N{NARROW NO-BREAK SPACE}": " "})

FLEET = """
[study]
name = "trial"
kind = "fleet"
duration = "1 h"

[[group]]
name = "web"
count = 3
server = "small"
day = { pressure_median = 0.1 }

[[policy]]
name = "pacer"
"""


@pytest.mark.parametrize(
    ("kept", "background", "is_sound"),
    [
        (True, None, True),
        (None, BACKGROUND_FLOOR, True),
        (None, 0.97, False),
        (False, None, False),
        (True, 0.0, False),
    ],
)
def test_what_may_be_called_saved(
    kept: bool | None, background: float | None, is_sound: bool
) -> None:
    assert sound(kept, background) == is_sound


def summary(policy: str, power_w: float) -> dict[str, Any]:
    return {"policy": policy, "server": "small", "ios": 10**6, "power_w_mean": power_w}


@pytest.mark.parametrize("background", [0.5, 1.0, None])
def test_simulate_brackets_what_starves(
    capsys: pytest.CaptureFixture[str], background: float | None
) -> None:
    result = summary("pacer", 60.0) | {"relative_to_native": {"background_rate": background}}
    request = Request("small", "pacer", {"pattern": "Rand_RW", "pressure": 0.1})
    simulate.show(result, summary("native", 100.0), request)
    told = " ".join(capsys.readouterr().out.split())
    bracketed = "pacer (350.6 kWh" in told
    assert bracketed == (background == 0.5), told
    assert ("50.0 % of the background work is left undone" in told) == bracketed


def of_fleet(background: float) -> tuple[Policy, FleetStudy]:
    run = Run("fleet", "", "pacer", {}, {"policy": "pacer", "plf": 0.2})
    metrics = {
        "power_w_fleet": (900.0, "W"),
        "saving_share": (0.321, "1"),
        "saving_share_low": (0.3, "1"),
        "saving_share_high": (0.34, "1"),
        "saving_w": (425.0, "W"),
        "saving_kwh_year": (3725.0, "kWh"),
        "saving_eur_year": (931.0, "EUR"),
        "saving_co2_t_year": (1.3, "t"),
        "servers_over_bound": (0, "1"),
        "relative_background_rate": (background, "1"),
    }
    columns = {"power_w_mean": np.full(3, 300.0)}
    study = from_document(document.parse(Path("trial.toml"), FLEET))
    return Policy(run, columns, columns, np.ones(3), metrics), study


def test_a_fleet_brackets_what_starves() -> None:
    policy, study = of_fleet(0.5)
    text = fleet_page.headline(policy, study).translate(PLAIN)
    assert "would save (32.1 %) of the power" in text
    assert "(425 W, 931 EUR and 1.30 t of CO\N{SUBSCRIPT TWO} a year)" in text
    assert text.endswith("with 50 % of the background work left undone.")
    console = Console(width=200)
    with console.capture() as shown:
        console.print(run_fleet._table([policy]))
    told = shown.get()
    assert "(32.1 %)" in told
    assert "(3,725 kWh, 931 EUR)" in told
    assert "(1.3 t)" in told
    whole, _ = of_fleet(1.0)
    assert "(" not in fleet_page.headline(whole, study).split(" of the power")[0]
    assert "undone" not in fleet_page.headline(whole, study)


def test_a_governor_brackets_what_broke_the_bound(tmp_path: Path) -> None:
    rows = fake.windows(400, "run")
    path = fake.write(tmp_path / "kept", rows, "run", fake.summary(400, mode="run"))
    kept = phrases.headline(gather.gather(path)).translate(PLAIN)
    assert "pacer saved (" not in kept
    for row in rows:
        row["latency_us_seen"] = row["latency_us_seen"] and 1.5 * row["latency_us_seen"]
    path = fake.write(tmp_path / "broken", rows, "run", fake.summary(400, mode="run"))
    found = gather.gather(path)
    text = phrases.headline(found).translate(PLAIN)
    watts = kept.split("saved ")[1].split(" on average")[0]
    assert f"pacer saved ({watts}) on average (estimate), (" in text
    page = make(path).read_text(encoding="utf-8").translate(PLAIN)
    assert " kg)" in page
    turns = {"condition": "governed", "pairs": 12, "power_w_full_speed": 65.0,
             "power_w_saved": {"mean": 9.1, "half_width": 0.8}, "power_is_estimate": False,
             "latency_change": {"mean": 0.6, "half_width": 0.02}}  # fmt: skip
    status = {**fake.summary(400, mode="run"), "alternation": turns}
    found = gather.gather(fake.write(tmp_path / "turns", rows, "run", status))
    assert "pacer saved (9.1 ± 0.8 W, 14.0 % of 65.0 W);" in phrases.by_turns(found).translate(
        PLAIN
    )
    assert replace(found, summary=None).sound is False
