"""What cores ran at: looked at on made-up hosts, and put beside what was asked for."""

from __future__ import annotations

from pathlib import Path

import pytest
from wattio.clock import Instant
from wattio.kinds.measurement import derive, frequencies, system_status
from wattio.kinds.measurement.derive import Rulebook, View
from wattio.kinds.measurement.record import Phase
from wattio.kinds.measurement.system_status import Answer
from wattio.knobs.texts import here

from measuring import made
from measuring.test_metrics import study

POLICIES = "sys/devices/system/cpu/cpufreq"


def policy(root: Path, number: int, cores: str, **files: int) -> None:
    folder = root / POLICIES / f"policy{number}"
    folder.mkdir(parents=True)
    (folder / "affected_cpus").write_text(f"{cores}\n")
    for name, khz in files.items():
        (folder / name).write_text(f"{khz}\n")


def looked(*times: tuple[float, list[int]]) -> list[Answer]:
    at = [made.instant(at_s) for at_s, _ in times]
    return [Answer(at, {"khz": khz}) for at, (_, khz) in zip(at, times, strict=True)]


def test_each_core_counts_and_what_a_core_really_ran_at_comes_first(tmp_path: Path) -> None:
    policy(tmp_path, 0, "0 1", scaling_cur_freq=800_000)
    policy(tmp_path, 2, "2", scaling_cur_freq=3_600_000)
    look = frequencies.asking(here(tmp_path))
    assert look is not None
    assert look() == {"source": "scaling_cur_freq", "khz": [800_000, 800_000, 3_600_000]}
    (tmp_path / POLICIES / "policy2/cpuinfo_avg_freq").write_text("3400000\n")
    look = frequencies.asking(here(tmp_path))
    assert look is not None
    assert look() == {"source": "cpuinfo_avg_freq", "khz": [3_400_000]}
    # Cores that are switched off meanwhile tell nothing, and end nothing.
    (tmp_path / POLICIES / "policy2/cpuinfo_avg_freq").write_text("<unknown>\n")
    assert look() == {"source": "cpuinfo_avg_freq", "khz": []}


def test_a_host_without_cpufreq_is_not_asked(tmp_path: Path) -> None:
    look = frequencies.asking(here(tmp_path))
    assert look is None
    with system_status.kept(look, 0.0, tmp_path, "step", frequencies.KIND):
        pass
    assert system_status.read(tmp_path, "step", frequencies.KIND) == ()


def test_a_phase_has_the_looks_within_it() -> None:
    looks = looked((9.9, [3]), (10.0, [1_000_000, 2_000_000]), (11.0, [3_000_000]), (12.1, [3]))
    found = frequencies.of_phase(made.span("write", 10.0, 12.0), looks)
    assert found == {
        "cpu_frequency_hz_mean": (pytest.approx(2e9), "Hz"),
        "cpu_frequency_hz_min": (1e9, "Hz"),
        "cpu_frequency_hz_max": (3e9, "Hz"),
    }
    assert frequencies.of_phase(made.span("write", 10.1, 10.9), looks) == {}
    odd = [Answer(Instant(0, 5), {"khz": what}) for what in (None, "x", [None, True, "3"])]
    assert frequencies.of_phase(made.span("write", 0.0, 1.0), odd) == {}


def test_it_is_kept_beside_a_step_and_becomes_metrics_of_its_phases(tmp_path: Path) -> None:
    (tmp_path / "step.frequency.jsonl").write_text(
        f'{{"at": {list(made.instant(11.0))}, "status": {{"khz": [2000000]}}}}\n'
    )
    span = made.span("phase", 10.0, 12.0)
    record = made.record(span, phases=(Phase("step", span),), module=None)
    view = View({"csv": made.facts()}, {}, book := Rulebook(study(), None))
    results = derive.read_results(tmp_path, record)
    found = derive.derive(record, results, view, book).by_phase["phase"]
    assert found["cpu_frequency_hz_mean"] == (2e9, "Hz")


@pytest.mark.parametrize(
    ("knob", "khz", "doubt"),
    [
        ("cpu.frequency_pinned", 1_200_000, None),
        ("cpu.frequency_pinned", 1_000_000, "write: cores ran at 1 GHz, and"),
        ("cpu.frequency_pinned", 2_400_000, "write: cores ran at 2.4 GHz, and"),
        ("cpu.frequency", 800_000, None),
        ("cpu.frequency", 2_400_000, "write: cores ran at up to 2.4 GHz, and cpu.frequency is"),
        ("cpu.cores", 2_400_000, None),
    ],
)
def test_another_frequency_than_the_asked_one_is_a_doubt(
    knob: str, khz: int, doubt: str | None
) -> None:
    span, looks = made.span("write", 10.0, 12.0), looked((11.0, [khz]))
    found = list(frequencies.doubts(span, looks, {knob: "1.2 GHz"}))
    assert len(found) == (doubt is not None)
    assert all(text.startswith(doubt or "") for text in found)
