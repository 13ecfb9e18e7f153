"""One run between meters: energies of a sensor of known power, and of one that estimates."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from wattio import clock
from wattio.analysis.cores import TICK_S, Counter, Look, Ticks, as_plain
from wattio.clock import Instant, Span
from wattio.errors import InputError, ResultError, WorkloadFailed
from wattio.kinds.measurement import core_time
from wattio.kinds.measurement.one_run import SAMPLES, Energy, metered
from wattio.knobs.texts import Texts
from wattio.meters import parquet
from wattio.meters.meter import Facts, MeterRefused
from wattio.recording import journal

POWER_W = 42.5


@pytest.fixture
def sensor(tmp_path: Path) -> str:
    """A sensor of constant power, as the kernel shows it, that is new every 50 ms."""
    chip = tmp_path / "root/sys/class/hwmon/hwmon0"
    chip.mkdir(parents=True)
    (chip / "name").write_text("power_meter\n")
    (chip / "power1_average").write_text(f"{POWER_W * 1e6:.0f}\n")
    (chip / "power1_average_interval").write_text("50\n")
    return f"hwmon:power_meter/power1?root={tmp_path / 'root'}"


def work(seconds: float = 0.3) -> tuple[str, Span]:
    """Something that takes a while."""
    start = clock.now()
    while clock.now().monotonic_ns - start.monotonic_ns < seconds * 1e9:
        pass
    return "done", Span("run", start, clock.now())


def test_energy_of_a_known_power(tmp_path: Path, sensor: str) -> None:
    spans: list[Span] = []

    def noted() -> tuple[str, Span]:
        result, span = work()
        spans.append(span)
        return result, span

    measured = metered([sensor], tmp_path, noted)
    (found,) = measured.energies
    assert measured.result == "done"
    assert found.energy_j == pytest.approx(POWER_W * spans[0].seconds)
    assert found.power_w_mean == pytest.approx(POWER_W)
    assert found.troubles == ()
    told = found.as_dict(10)
    assert told["joules_per_dump"] == pytest.approx(POWER_W * spans[0].seconds / 10)
    assert told["estimate"] is False
    assert not any(name.startswith("estimated_") for name in told)
    [samples] = parquet.read(tmp_path / SAMPLES).values()
    # The recording goes on until it has reached beyond the end, by the sensor's own lag.
    assert samples.monotonic_ns[-1] >= spans[0].end.monotonic_ns


def test_meters_are_shown_side_by_side(tmp_path: Path, sensor: str) -> None:
    # An estimate says something every half second.
    measured = metered([sensor, "estimate:assumed"], tmp_path, lambda: work(0.3))
    found = measured.energies
    assert [one.facts.estimate for one in found] == [False, True]
    told = found[1].as_dict(1)
    assert told["estimated_energy_j_low"] < told["estimated_energy_j"]
    assert told["estimated_energy_j"] < told["estimated_energy_j_high"]
    assert "assumed" in told["by"]
    # Cores are told beside a real meter, too.
    assert measured.spent is not None


def test_a_span_without_a_sample_has_no_energy(tmp_path: Path, sensor: str) -> None:
    def instant() -> tuple[None, Span]:
        work()
        at = clock.now()
        return None, Span("run", at, Instant(at.utc_ns + 10, at.monotonic_ns + 10))

    (found,) = metered([sensor], tmp_path, instant).energies
    assert found.energy_j is None
    assert found.troubles == ("no sample within 0.00000001 s",)


def test_without_meters_only_cores_are_looked_at(tmp_path: Path) -> None:
    measured = metered([], tmp_path, work)
    assert (measured.result, measured.energies) == ("done", ())
    assert [path.name for path in tmp_path.iterdir()] == ["run.cores.jsonl"]


def test_busy_and_idle_make_up_the_time_of_all_cores(tmp_path: Path) -> None:
    """On this machine, by the kernel's ticks, whose columns are sampled.

    Other tests may take a core off and put it on again meanwhile: a look's length of it is lost.
    """
    spent = metered([], tmp_path, lambda: work(1.0)).spent
    assert spent is not None
    whole_s = spent.busy_s + spent.idle_s + spent.iowait_s + spent.steal_s
    cores = os.cpu_count() or 1
    assert spent.on_s <= cores * spent.seconds * (1 + 1e-9)
    assert whole_s == pytest.approx(spent.on_s, rel=0.1, abs=4 * cores * TICK_S)
    assert spent.busy_s > 0.2  # The loop of this test itself, on however busy a machine.


def test_an_estimate_is_of_the_ticks_at_the_very_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a program has read of the counters when it began and ended goes before looks."""

    def ends(_: str) -> core_time.Ends:
        return {0: Ticks(100, 0), 1: Ticks(0, 100)}, {0: Ticks(125, 5), 1: Ticks(10, 120)}

    # Two cores, whatever this machine has; they are busy for all of the time by the looks.
    def asking(_: Texts) -> core_time.Look:
        counter = Counter()

        def asked() -> Mapping[str, Any]:
            ticks = Ticks(round(clock.now().monotonic_ns / 1e9 / TICK_S), 0)
            seen = Look({0: ticks, 1: ticks})
            return as_plain(counter.take(clock.now().monotonic_ns / 1e9, seen))

        return asked

    monkeypatch.setattr(core_time, "asking", asking)
    measured = metered(["estimate:assumed"], tmp_path, work, ends)
    spent, (found,) = measured.spent, measured.energies
    assert spent is not None
    assert spent.on_s == pytest.approx(2 * spent.seconds)
    assert (spent.busy_s, spent.idle_s) == pytest.approx((0.35, 0.25))
    by_hand = 48 * spent.seconds + 0.4 * spent.on_s + 6.8 * 0.35 + 0.05e-3 * spent.requests
    assert found.energy_j == pytest.approx(by_hand)


def test_samples_that_cannot_be_written_are_kept(
    tmp_path: Path, sensor: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of a run of hours went with their folder."""

    def full(path: Path, _: object) -> None:
        raise ResultError(f"{path}: cannot be written: No space left on device")

    monkeypatch.setattr(parquet, "write", full)
    with pytest.raises(ResultError, match="No space left on device; what was recorded is") as told:
        metered([sensor], tmp_path, work)
    (folder,) = tmp_path.glob(".power-*")
    command = f"wattio meter record --from {folder} --out {tmp_path / SAMPLES}"
    assert str(told.value).endswith(command)
    [samples] = journal.read_folder(folder).values()
    assert set(samples.power_w) == {POWER_W}


def test_samples_of_work_that_failed_are_not_kept(tmp_path: Path, sensor: str) -> None:
    def failing() -> tuple[str, Span]:
        work(0.1)
        raise WorkloadFailed("a rank has failed")

    with pytest.raises(WorkloadFailed):
        metered([sensor], tmp_path, failing)
    assert not list(tmp_path.glob(".power-*"))


def test_what_is_unknown_is_absent() -> None:
    nothing = Energy(Facts("pdu:", "", 1.0), None, None, ("lost: it does not answer",))
    told = nothing.as_dict(3)
    assert told == {"meter": "pdu:", "estimate": False, "troubles": ["lost: it does not answer"]}
    assert "joules_per_dump" not in Energy(Facts("pdu:", "", 1.0), 5.0, 1.0, ()).as_dict(0)


def test_meters_that_cannot_be_used(tmp_path: Path) -> None:
    def never() -> tuple[str, Span]:
        raise AssertionError("it was begun without its meters")

    with pytest.raises(InputError, match="is named twice"):
        metered(["estimate:assumed", "estimate:assumed"], tmp_path, never)
    with pytest.raises((InputError, MeterRefused)):
        metered([f"hwmon:none/power1?root={tmp_path}"], tmp_path, never)
