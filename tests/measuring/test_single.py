"""One run between meters: energies of a sensor of known power, and of one that estimates."""

from __future__ import annotations

from pathlib import Path

import pytest
from wattio import clock
from wattio.clock import Instant, Span
from wattio.errors import InputError
from wattio.kinds.measurement.single import SAMPLES, Energy, metered
from wattio.meters import parquet
from wattio.meters.meter import Facts, MeterRefused

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

    result, [found] = metered([sensor], tmp_path, noted)
    assert result == "done"
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
    _, found = metered([sensor, "estimate:assumed"], tmp_path, lambda: work(1.1))
    assert [one.facts.estimate for one in found] == [False, True]
    assert "estimated_energy_j" in found[1].as_dict(1)


def test_a_span_without_a_sample_has_no_energy(tmp_path: Path, sensor: str) -> None:
    def instant() -> tuple[None, Span]:
        work()
        at = clock.now()
        return None, Span("run", at, Instant(at.utc_ns + 10, at.monotonic_ns + 10))

    _, [found] = metered([sensor], tmp_path, instant)
    assert found.energy_j is None
    assert found.troubles == ("it has no sample within 1e-08 s",)


def test_without_meters_nothing_is_recorded(tmp_path: Path) -> None:
    assert metered([], tmp_path, work) == ("done", [])
    assert list(tmp_path.iterdir()) == []


def test_what_is_unknown_is_absent() -> None:
    nothing = Energy(Facts("pdu:", "", 1.0), None, None, ("lost: it does not answer",))
    told = nothing.as_dict(3)
    assert told == {"meter": "pdu:", "estimate": False, "troubles": ["lost: it does not answer"]}
    assert "joules_per_dump" not in Energy(Facts("pdu:", "", 1.0), 5.0, 1.0, ()).as_dict(0)


def test_meters_that_cannot_be_used(tmp_path: Path) -> None:
    def never() -> tuple[str, Span]:
        raise AssertionError("it was begun without its meters")

    with pytest.raises(InputError, match="is there twice"):
        metered(["estimate:assumed", "estimate:assumed"], tmp_path, never)
    with pytest.raises((InputError, MeterRefused)):
        metered([f"hwmon:none/power1?root={tmp_path}"], tmp_path, never)
