"""The power model from a sweep in a guest: real cpufreq, hot-plug and powercap of a kernel.

The guest has no Python, so its shell sweeps and tells what the kernel counted; from there on it is
wattio's own: utilisation, points, fit, file. Boots QEMU; run by `make guest` and
`make test-system`.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from wattio import _core, cli
from wattio.analysis.cores import parse_stat, shares
from wattio.calibration import host
from wattio.calibration.folder import DataFolder, Record
from wattio.calibration.points import Point

from guest.guest import Guest

pytestmark = [pytest.mark.system, pytest.mark.alone]

CPUS = 4
POINTS = 8
FREQUENCY_MAX_HZ = 2.4e9
TRUE_W = {"rest": 20.0, "core": 2.0, "core_frequency": 3.0, "busy": 4.0, "busy_frequency": 6.0}

Facts = dict[str, str]


def point(facts: Facts, number: int) -> Point:
    """What the guest told of one setting."""
    name = f"point{number}"
    khz, cores, load = facts[f"{name}.asked"].split()
    before, after = (
        parse_stat(facts[f"{name}.{moment}.stat"].replace(";", "\n"))
        for moment in ("before", "after")
    )
    span_ns = (int(facts[f"{name}.before.ns"]), int(facts[f"{name}.after.ns"]))
    phi = {
        core: int(facts[f"{name}.khz{core}"]) * 1e3 / FREQUENCY_MAX_HZ for core in range(int(cores))
    }
    work = host.counted(shares(before, after), phi, 0, span_ns)
    start_uj, end_uj = (int(facts[f"{name}.{at}.energy_uj"]) for at in ("before", "after"))
    return Point(
        number=number,
        is_idle=load == "0" and cores == str(CPUS) and khz == "2400000",
        frequency_hz=int(khz) * 1e3,
        cores=int(cores),
        load=float(load),
        readers=0,
        start_s=span_ns[0] / 1e9,
        end_s=span_ns[1] / 1e9,
        active=work.active,
        active_phi=work.active_phi,
        busy=work.busy,
        busy_phi=work.busy_phi,
        kiops=work.kiops,
        power_w=(end_uj - start_uj) / 1e6 / ((span_ns[1] - span_ns[0]) / 1e9),
    )


@pytest.fixture(scope="module")
def points(guest: Guest) -> list[Point]:
    script = Path(__file__).with_name("calibrate.sh").read_text()
    done = guest.run([], script, cpus=CPUS)
    assert done.exit_code == 0, done.output
    lines = (line.partition(" ") for line in done.output.splitlines())
    facts = {key: value.strip() for key, _, value in lines}
    return [point(facts, number) for number in range(1, POINTS + 1)]


def test_the_guests_kernel_did_what_was_asked(points: list[Point]) -> None:
    for each in points:
        assert each.active == each.cores
        assert each.frequency_hz is not None
        phi = each.frequency_hz / FREQUENCY_MAX_HZ
        assert each.active_phi == pytest.approx(each.cores * phi)
        # Emulated cores do work of their own when idle, and miss a tick when busy.
        assert each.busy / each.cores == pytest.approx(each.load, abs=0.25)


def test_the_coefficients_of_the_guest_come_out(points: list[Point], tmp_path: Path) -> None:
    data = DataFolder(tmp_path / "data")
    data.create()
    data.keep(
        Record(
            host="guest",
            begun="2026-01-31T12:00:00+00:00",
            meters=[],
            covers=["cpu"],
            frequency_max_hz=FREQUENCY_MAX_HZ,
            frequencies_hz=[1.2e9, 2.4e9],
            cores=[2, 4],
            loads=[0.0, 1.0],
            with_io=False,
            repeat=1,
            seed=1,
            settle_s=0.0,
            measure_s=1.5,
            lacks={},
        )
    )
    for each in points:
        data.add(each)
    out = tmp_path / "power-model.toml"
    with pytest.raises(SystemExit) as left:
        cli.main(["calibrate", "power", "--from", str(data.path), "--out", str(out)])
    assert left.value.code == 0
    told = json.loads((data.path / "fit.json").read_text())
    assert told["r_squared"] > 0.99
    assert {name for name, c in told["coefficients"].items() if c["origin"] == "measured"} == set(
        TRUE_W
    )
    model = _core.PowerModel(out.read_text())
    for cores, use, phi in [(4.0, 1.0, 1.0), (2.0, 0.0, 0.5), (3.0, 0.5, 0.75)]:
        active = TRUE_W["core"] + TRUE_W["core_frequency"] * phi
        busy = TRUE_W["busy"] + TRUE_W["busy_frequency"] * phi
        true_w = TRUE_W["rest"] + cores * (active + use * busy)
        assert model.power_w([(cores, use, phi)], 0.0) == pytest.approx(true_w, rel=0.1)
