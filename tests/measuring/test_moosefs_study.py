"""The whole way on a real MooseFS: a metered study, killed, resumed, recomputed and reported."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from meters.pdu import OWN, missing, served_pdu
from wattio.errors import HostError
from wattio.kinds.measurement import recompute
from wattio.systems import mounts
from wattio.systems.moosefs import Options, Storage
from wattio.workloads import mpi_io

from measuring.test_pdu_study import WAVES
from measuring.test_running import ended, wait_for, wattio

PERIOD_S = 0.2

STUDY = """\
[study]
name = "trial"
kind = "measurement"
repetitions = 1
clients = [1, 2]
idle_before = "1 s"
idle_after = "1 s"
settle = "0.2 s"
repeat_invalid = 4

[[system]]
name = "local"
[[system]]
name = "moosefs"
options = { chunk_servers = 2, network = "namespaces" }

[[workload]]
name = "posix"
kind = "mpi_io"
options = { total = "64 MiB", transfer = "4 MiB" }

[[meter]]
name = "estimate:assumed"
label = "model"
covers = ["cluster"]
"""


def lacking() -> str | None:
    """What this machine lacks for these tests, if anything."""
    if os.geteuid() != 0:
        return "needs root for namespaces and mounts"
    try:
        Storage(Options(network="namespaces"), Path("/nonexistent")).probe()
        mpi_io.Work(mpi_io.Options.model_validate({"block": "4 MiB"}), Path("/")).probe()
    except HostError as error:
        return str(error)
    return missing()


pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(lacking() is not None, reason=lacking() or ""),
]


def test_a_killed_study_of_two_file_systems_ends_right(tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    path.write_text(STUDY)
    with served_pdu(tmp_path, WAVES) as pdu:
        meter = pdu.name(OWN["power_mw"], unit="mW", period=f"{PERIOD_S} s")
        process = wattio("run", path, "--no-report", "--meter", meter, folder=tmp_path)
        # One idle and two measured iterations are on the local system: the fourth is on MooseFS.
        folder = wait_for(tmp_path, 5, process)
        process.kill()
        ended(process)
        before = {item.identity for item in folder.iterations()}
        again = wattio("run", "--resume", folder.path, "--json", folder=tmp_path)
        code, out, err = ended(again)
    assert code == 0, err
    told = json.loads(out)
    assert told["complete"]
    usable = [item for item in folder.iterations() if item.usable]
    assert before <= {item.identity for item in folder.iterations()}
    assert len(usable) == 2 * (2 + 2)
    compared = 0
    for item in usable:
        for phase in folder.record(item.identity).phases:
            true_j = pdu.energy_j(phase.span.start.monotonic_ns, phase.span.end.monotonic_ns)
            said = [verdict.reason for verdict in item.verdicts]
            found = item.by_phase[phase.span.name].get("energy_j")
            # On a busy machine a meter may miss a phase of a second, which is said then.
            if found is None:
                assert any(reason.startswith(f"NO_ENERGY: {phase.span.name}") for reason in said)
                continue
            compared += 1
            assert abs(found[0] - true_j) <= 0.01 * true_j + PERIOD_S * 180.0
            # The estimate stands beside.
            if "model.estimated_energy_j" not in item.by_phase[phase.span.name]:
                assert any(f": {phase.span.name}: model" in reason for reason in said)
    assert compared >= len(usable) / 2
    estimates = [
        name
        for item in usable
        for part in item.by_phase.values()
        for name in part
        if "model.estimated" in name
    ]
    assert estimates
    assert recompute.compare(folder).differences == []
    assert Path(tmp_path / told["report"]).is_file()
    assert not (folder.path / "scratch").exists()
    assert not list(mounts.below(tmp_path))
