"""The study of block servers, in miniature: real servers, from the file to the report."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from wattio.files import document
from wattio.kinds.measurement import plan as planning
from wattio.kinds.measurement.folder import MeasurementFolder
from wattio.kinds.measurement.overrides import Asked
from wattio.kinds.measurement.plan import MeasurementPlan
from wattio.shipped import study_file
from wattio.systems import servers
from wattio.systems.nbd_servers import SERVERS

STUDY = """\
[study]
name = "servers"
kind = "measurement"
repetitions = 1
order = "interleaved"
idle_before = "0 s"
idle_after = "300 ms"
settle = "0 s"
drop_caches = false

[[system]]
name = "nbdkit"
kind = "nbd"
options = { server = "nbdkit", size = "16 MiB" }
[[system]]
name = "nbdkit-memory"
kind = "nbd"
options = { server = "nbdkit", form = "memory", size = "16 MiB" }

[[workload]]
name = "requests"
kind = "fio"
[[workload.options.jobs]]
name = "depth-1"
rw = "randread"
bs = "4 KiB"
size = "16 MiB"
runtime = "400 ms"
time_based = true
ioengine = "nbd"
[[workload.options.jobs]]
name = "ramped"
rw = "randread"
bs = "4 KiB"
size = "16 MiB"
runtime = "400 ms"
ramp_time = "200 ms"
time_based = true
ioengine = "nbd"
[[workload]]
name = "standby"
kind = "idle"
options = { duration = "300 ms" }
[[workload]]
name = "training"
kind = "training"
clients = [2]
options = { model = "cosmoflow-h100", factor = 0.2, dataset = "16 MiB", steps = 30 }

[[meter]]
name = "estimate:assumed"
covers = ["host"]
[rules]
samples_min = 2
"""


def planned(scale: str | None) -> MeasurementPlan:
    return planning.make(document.read(study_file("target")), Asked(scale))


@pytest.mark.parametrize("scale", [None, "medium", "small", "small-peers"])
def test_the_study_is_whole_at_each_scale(scale: str | None) -> None:
    """Every server of the table is in the whole of it; the same loads decide at each scale."""
    made = planned(scale)
    used = {str(entry.options["server"]) for entry in made.study.system}
    assert used == set(SERVERS) - ({"wattio-target"} if scale == "small-peers" else set())
    roles = {entry.name: entry.role for entry in made.study.system}
    assert roles.pop("nbdkit-memory") == "beside"
    governed = {"wattio-target-polling", "wattio-target-pacer", "wattio-target-foresight"}
    assert governed <= set(roles) or scale == "small-peers"
    assert roles.pop("wattio-target-polling", "beside") == "beside"
    assert {roles.pop(name) for name in list(roles) if "wattio" in name} <= {"own"}
    assert set(roles.values()) == {"peer"}
    jobs = made.study.workload[0].options["jobs"]
    assert [one["name"] for one in jobs] == ["cold", "depth-1", "rate-5000", "saturation"]


@pytest.mark.parametrize(("scale", "seconds_least"), [(None, 5), ("medium", 2)])
def test_training_is_that_of_both_versions_of_mlperf_storage(
    scale: str | None, seconds_least: float
) -> None:
    """v0.5 is what document 002 measures; each lasts some seconds, so that a law can act."""
    made = planned(scale)
    trained = [one for one in made.study.workload if one.kind == "training"]
    assert {str(one.options["model"]) for one in trained} == {
        "unet3d-v0.5",
        "bert-v0.5",
        "unet3d-h100",
        "resnet50-h100",
        "cosmoflow-h100",
    }
    for one in trained:
        assert seconds_least <= made.work(one).seconds_guess(1) <= 15


@pytest.mark.parametrize(("scale", "seconds_most"), [("medium", 1800), ("small", 300)])
def test_shorter_forms_take_no_longer_than_they_say(scale: str, seconds_most: float) -> None:
    """By what its workloads guess, with half a second for each server's start and its end."""
    made = planned(scale)
    seconds = 0.0
    for one in made.iterations:
        assert one.cell is not None
        work = made.work(one.cell.workload)
        settle_s = made.study.study.settle * len(work.steps())
        seconds += work.seconds_guess(1) + settle_s + 1.0
    assert seconds < seconds_most


@pytest.mark.system
@pytest.mark.timeout(120)
def test_real_servers_from_the_study_to_the_report(tmp_path: Path) -> None:
    for program in ("nbdkit", "fio"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    (tmp_path / "study.toml").write_text(STUDY)
    command = [sys.executable, "-m", "wattio.cli", "run", str(tmp_path / "study.toml")]
    done = subprocess.run(
        [*command, "--results", str(tmp_path / "results")],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert servers.running({"nbdkit"}, tmp_path) == []
    (path,) = (tmp_path / "results" / "servers").iterdir()
    folder = MeasurementFolder(path)
    found = {item.run.name: item for item in folder.iterations()}
    assert len(found) == 2 * 3 + 2  # with idle ones after
    for name in ("nbdkit", "nbdkit-memory"):
        requests = found[f"requests/{name}, 1 client"]
        assert requests.usable
        alone = requests.by_phase["depth-1"]
        # Not how much it was, but that there is something, in the unit that it is said to have.
        assert 0.1 < alone["server_cpu_us_per_io"][0] < 1e6
        assert 0 < alone["server_cpu_share"][0] < 64
        assert "server_cpu_us_per_io" not in requests.by_phase["ramped"]
        assert "estimated_energy_j_per_io" in alone
        assert "energy_j_per_io" not in alone
        standby = found[f"standby/{name}, 1 client"].by_phase["idle"]
        assert "server_cpu_share" in standby
        assert "server_cpu_us_per_io" not in standby
        training = found[f"training/{name}, 2 clients"].by_phase["train"]
        assert 0 < training["accelerator_utilisation"][0] <= 1
        assert found[f"idle/{name}, after"].by_phase["idle"]["server_cpu_share"][0] < 1
    page = (path / "report" / "index.html").read_text()
    text = re.sub(r"<[^>]+>", " ", page)
    for words in ("processor time per I/O", "Processor time of the servers", "accelerators"):
        assert words in text
    record = folder.record(found["requests/nbdkit, 1 client"].identity)
    assert set(record.accounts) == {"depth-1", "ramped"}
    assert record.system["settings"] == {}
    assert "--unix" in record.system["command"]
