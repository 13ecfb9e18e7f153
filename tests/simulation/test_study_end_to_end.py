"""A whole study on the real simulator: run, resume, recompute, compare, report."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from places import TRACES
from wattio import cli
from wattio.kinds.simulation.folder import SimulationFolder

from simulation.test_study_run import content

TRACE = TRACES / "synthetic.wtrace"

STUDY = f"""\
[study]
name = "end-to-end"
kind = "simulation"
seeds = [1, 2]

[[load]]
name = "steady"
server = "small"
pattern = "Rand_RW"
iops = 4000.0
warmup = "2 s"
duration = "4 s"

[[load]]
name = "day"
server = "small"
profile = "day.toml"
warmup = "2 s"

[[load]]
name = "recorded"
server = "small"
trace = "{TRACE}"

[[policy]]
name = "ondemand"
[[policy]]
name = "pacer"
label = "PACER"
settings = {{ plf = 0.2 }}
[[policy]]
name = "oracle"
loads = ["steady"]
settings = {{ plf = 0.2 }}

[[sweep]]
policy = "PACER"
setting = "plf"
values = [0.1, 0.2]
loads = ["steady"]
"""

PROFILE = """\
[profile]
name = "day"
represent = "2 s"
[[segment]]
span = "12 h"
pattern = "Rand_R"
iops = 2000.0
[[segment]]
span = "12 h"
pattern = "Seq_W"
iops = 300.0
"""


def called(*arguments: str) -> int:
    with pytest.raises(SystemExit) as caught:
        cli.main(list(arguments))
    assert isinstance(caught.value.code, int)
    return caught.value.code


def wrote_study(folder: Path) -> Path:
    (folder / "day.toml").write_text(PROFILE)
    study = folder / "study.toml"
    study.write_text(STUDY)
    return study


def result_in(results: Path) -> SimulationFolder:
    return SimulationFolder(next((results / "end-to-end").iterdir()))


def test_the_whole_way(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study = str(wrote_study(tmp_path))
    one, many = tmp_path / "one", tmp_path / "many"
    assert called("check", study) == 0
    capsys.readouterr()
    assert called("run", study, "--results", str(one), "--jobs", "1", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    rows = {(row["load"], row["label"]): row for row in found["summary"]}
    assert len(rows) == 11
    oracle = rows["steady", "oracle"]["metrics"]
    assert oracle["captured_share"] == 1
    assert oracle["saving_share"] > 0
    assert rows["steady", "PACER"]["metrics"]["captured_share"] <= 1.02
    for row in rows.values():
        parts = [row["metrics"][f"energy_{part}_j"] for part in ("cores", "drives", "rest")]
        assert sum(parts) == pytest.approx(row["metrics"]["energy_j"], rel=1e-9)

    assert called("run", study, "--results", str(many), "--jobs", "3", "--no-report") == 0
    assert content(result_in(one)) == content(result_in(many))
    assert called("recompute", str(result_in(one).path)) == 0
    capsys.readouterr()
    first, second = str(result_in(one).path), str(result_in(many).path)
    assert called("compare", first, second, "--json") == 0
    compared = json.loads(capsys.readouterr().out)["compared"]
    assert {ratio["ratio"] for pair in compared for ratio in pair["ratios"]} == {1.0}
    page = Path(found["report"]).read_text(encoding="utf-8")
    assert "PACER would" in page
    assert "one simulated second stands for 21600 s" in page


@pytest.mark.parametrize(
    "number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)]
)
def test_an_interrupted_study_goes_on_where_it_was(tmp_path: Path, number: signal.Signals) -> None:
    """A batch system's SIGTERM ended it without a word of how to go on."""
    study, results = wrote_study(tmp_path), tmp_path / "results"
    # Neither the oracle nor a sweep: what is interrupted is the same. So many seeds that not all is
    # done before a busy machine has sent the signal.
    seeds = list(range(8))
    text = STUDY.replace("seeds = [1, 2]", f"seeds = {seeds}")
    study.write_text(text[: text.index('[[policy]]\nname = "oracle"')])
    command = [sys.executable, "-m", "wattio.cli", "run", str(study)]
    command += ["--results", str(results), "--jobs", "1", "--no-report"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith("[2/"):
                process.send_signal(number)
                break
        message = process.stderr.read()
        assert process.wait(timeout=60) == 130, message
    assert "wattio run --resume" in message
    folder = result_in(results)
    done = len(folder.iterations())
    assert 2 <= done < 9 * len(seeds)
    assert called("run", "--resume", str(folder.path), "--no-report") == 0
    assert folder.complete()
    assert called("recompute", str(folder.path)) == 0


@pytest.mark.skipif(not os.environ.get("WATTIO_TRACES"), reason="WATTIO_TRACES is not set")
def test_a_study_of_a_trace_that_users_have(tmp_path: Path) -> None:
    trace = Path(os.environ["WATTIO_TRACES"]) / "cloudPhysicsIO.vscsi"
    study = tmp_path / "study.toml"
    study.write_text(
        '[study]\nname = "end-to-end"\nkind = "simulation"\n[[load]]\nname = "vm"\n'
        f'server = "small"\ntrace = "{trace}"\nduration = "120 s"\n'
        '[[policy]]\nname = "pacer"\n'
    )
    assert called("run", str(study), "--results", str(tmp_path / "results")) == 0
    assert called("recompute", str(result_in(tmp_path / "results").path)) == 0
