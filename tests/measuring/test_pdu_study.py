"""A study with a PDU whose power is known: energies are right, and a frozen meter is found out."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

import pytest
from meters.pdu import OWN, Load, Pdu, missing, served_pdu
from wattio.kinds.measurement import recompute
from wattio.kinds.measurement.folder import MeasurementFolder
from wattio.results.runs import Recorded

from measuring.test_running import PAUSE_S, ended, wait_for, wattio

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(missing() is not None, reason=missing() or ""),
]

PERIOD_S = 0.1

STUDY = """\
[study]
name = "trial"
kind = "measurement"
repetitions = REPETITIONS
idle_before = "1 s"
idle_after = "1 s"
settle = "0.2 s"
drop_caches = false
# On a busy machine a sample may come late, which is a gap; the iteration is tried again then.
repeat_invalid = REPEAT
order = "sequential"

[[system]]
name = "local"

[[workload]]
name = "spin"
kind = "command"
# timeout ends with 124 when it has ended the loop, as it is meant to.
options = { run = ["sh", "-c", "timeout 1 sh -c 'while :; do :; done'; exit 0"] }

[[meter]]
name = "NAME"
label = "pdu"
covers = ["server"]

[[meter]]
name = "estimate:assumed"
label = "model"
covers = ["server"]
role = "beside"
"""

WAVES = Load(tuple((float(t), 120.0 + 60.0 * (t % 2)) for t in range(0, 600)))
"""Power that goes up for a second and down for a second, for ten minutes."""


def begin(folder: Path, pdu: Pdu, repetitions: int, repeat: int) -> Path:
    """Write the study that is metered by a PDU."""
    name = pdu.name(OWN["power_mw"], unit="mW", period=f"{PERIOD_S} s")
    path = folder / "study.toml"
    text = STUDY.replace("NAME", name).replace("REPETITIONS", str(repetitions))
    path.write_text(text.replace("REPEAT", str(repeat)))
    return path


def touched(folder: MeasurementFolder, item: Recorded, start_ns: int, end_ns: int) -> bool:
    """Whether a phase of an iteration lies in a stretch of time, but for its first period."""
    begin_ns = start_ns + round(PERIOD_S * 1e9)
    return any(
        min(phase.span.end.monotonic_ns, end_ns) > max(phase.span.start.monotonic_ns, begin_ns)
        for phase in folder.record(item.identity).phases
    )


def test_energies_of_a_killed_and_resumed_study_are_those_of_the_pdu(tmp_path: Path) -> None:
    with served_pdu(tmp_path, WAVES) as pdu:
        path = begin(tmp_path, pdu, repetitions=5, repeat=4)
        process = wattio("run", path, "--no-report", folder=tmp_path)
        folder = wait_for(tmp_path, 3, process)
        process.kill()
        ended(process)
        again = wattio("run", "--resume", folder.path, "--no-report", "--json", folder=tmp_path)
        code, out, err = ended(again)
    assert code == 0, err
    assert json.loads(out)["complete"]
    iterations = [item for item in folder.iterations() if item.usable]
    assert len(iterations) == 7
    for item in iterations:
        for phase in folder.record(item.identity).phases:
            start_ns, end_ns = phase.span.start.monotonic_ns, phase.span.end.monotonic_ns
            true_j = pdu.energy_j(start_ns, end_ns)
            found_j = item.by_phase[phase.span.name]["energy_j"][0]
            one_sample_j = PERIOD_S * 180.0
            assert abs(found_j - true_j) <= 0.01 * true_j + one_sample_j
    assert recompute.compare(folder).differences == []


def test_a_frozen_pdu_makes_exactly_the_touched_iterations_invalid(tmp_path: Path) -> None:
    with served_pdu(tmp_path, WAVES) as pdu:
        path = begin(tmp_path, pdu, repetitions=8, repeat=0)
        process = wattio("run", path, "--no-report", "--json", folder=tmp_path)
        wait_for(tmp_path, 3, process)
        frozen_ns = time.monotonic_ns()
        pdu.freeze()
        # Long enough for 20 of the meter's periods, whatever else the machine does.
        while time.monotonic_ns() < frozen_ns + 6 * 10**9:
            threading.Event().wait(PAUSE_S)
        pdu.recover()
        recovered_ns = time.monotonic_ns()
        code, out, err = ended(process)
    assert code == 1, err
    (found,) = (tmp_path / "results").glob("trial/*")
    folder = MeasurementFolder(found)
    iterations = folder.iterations()
    frozen = {item.identity for item in iterations if "FROZEN" in reasons(item)}
    # The freeze was asked for a moment after the clock was read, and seen at the next answer.
    slack_ns = round(2 * PERIOD_S * 1e9)
    surely = {
        item.identity
        for item in iterations
        if touched(folder, item, frozen_ns + slack_ns, recovered_ns - slack_ns)
    }
    maybe = {
        item.identity
        for item in iterations
        if touched(folder, item, frozen_ns - slack_ns, recovered_ns + slack_ns)
    }
    assert surely
    assert surely <= frozen <= maybe
    assert len(frozen) < len(iterations)
    invalid = [item for item in iterations if not item.usable]
    assert frozen <= {item.identity for item in invalid}
    assert len(json.loads(out)["invalid"]) == len(invalid)
    assert recompute.compare(folder).differences == []


def reasons(item: Recorded) -> set[str]:
    """Why an iteration is INVALID."""
    found = [verdict.reason for verdict in item.verdicts if verdict.verdict == "INVALID"]
    return {reason.partition(":")[0] for reason in found}
