"""Power by a model: this host's counters, through the model that the daemon and simulator use."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wattio import _core, clock
from wattio.analysis.cores import parse_diskstats
from wattio.clock import Instant
from wattio.errors import InputError
from wattio.meters import estimate, open_meter
from wattio.meters.here import found_here
from wattio.meters.meter import MeterLost
from wattio.simulator.native import NativeSimulator
from wattio.user_files import check_file

MODEL = """
name = "bench server"
meter = "snmp://pdu"
r_squared = 0.998
frequency_max = "2 GHz"
frequency_bound_share = 0.5
rest = { watts = 30.0, origin = "measured" }
core = { watts = 1.0, origin = "measured" }
core_frequency = { watts = 2.0, origin = "measured" }
busy = { watts = 4.0, origin = "measured" }
busy_frequency = { watts = 8.0, origin = "measured" }
io = { watts = 0.5, origin = "measured" }
"""


class Host:
    """A folder shaped like a host of two cores and one disk with a partition."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "root"
        (self.root / "proc").mkdir(parents=True)
        self.say(busy=0, idle=0, requests=0)

    def say(self, busy: int, idle: int, requests: int) -> None:
        rows = [f"cpu{core} {busy} 0 0 {idle} 0 0 0 0 0 0" for core in (0, 1)]
        self._write("proc/stat", "cpu  1 2 3 4\n" + "\n".join(rows) + "\nintr 5\n")
        disk = f"{requests} 0 0 0 {requests} 0 0 0 0 0 0"
        lines = f" 8 0 sda {disk}\n 8 1 sda1 {disk}\n 253 0 dm-0 {disk}\n 7 0 loop0 {disk}\n"
        self._write("proc/diskstats", lines)

    def frequency(self, core: int, khz: str) -> None:
        folder = self.root / f"sys/devices/system/cpu/cpu{core}/cpufreq"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "scaling_cur_freq").write_text(khz)

    def state(self, core: int, number: int, name: str, time_us: int) -> None:
        folder = self.root / f"sys/devices/system/cpu/cpu{core}/cpuidle/state{number}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "name").write_text(f"{name}\n")
        (folder / "time").write_text(f"{time_us}\n")

    def _write(self, path: str, text: str) -> None:
        (self.root / path).write_text(text)


def test_the_power_is_the_models_for_what_the_host_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = Host(tmp_path)
    (tmp_path / "power-model.toml").write_text(MODEL)
    moments = iter(Instant(10**18 + s * 10**9, s * 10**9) for s in (0, 0, 2, 2, 2, 2))
    monkeypatch.setattr(clock, "now", lambda: next(moments))
    meter = open_meter(f"estimate:{tmp_path}/power-model.toml?root={host.root}")
    assert meter.facts.estimate
    assert "fitted to a meter" in meter.facts.what
    assert meter.read().power_w is None
    host.say(busy=50, idle=150, requests=1000)
    host.frequency(0, "1000000\n")
    # Core 0 at half speed, core 1 at full; 2,000 requests in 2 s, counted once.
    by_hand = 30 + (1 + 2 * 0.5) + (1 + 2) + 0.25 * (4 + 8 * 0.5) + 0.25 * (4 + 8) + 0.5
    reading = meter.read()
    assert reading.power_w == pytest.approx(by_hand)
    # Sooner than the ticks can tell, the last answer stands.
    host.say(busy=51, idle=150, requests=1000)
    assert meter.read().power_w == reading.power_w


def test_the_assumed_model_is_there_and_says_what_it_is() -> None:
    meter = open_meter("estimate:assumed")
    assert meter.facts.estimate
    assert "assumed coefficients" in meter.facts.what
    assert [found.name for found in estimate.find()] == ["estimate:assumed"]
    assert meter.read().energy_j == 0
    meter.close()
    with pytest.raises(MeterLost, match="is closed"):
        meter.read()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (MODEL.replace("watts = 30.0", "watts = -3.0"), "rest.watts"),
        (MODEL.replace("name =", "nome ="), "did you mean `name`"),
        ("[", "model.toml"),
    ],
)
def test_a_wrong_model_names_file_and_key_in_the_same_words(
    tmp_path: Path, text: str, says: str
) -> None:
    path = tmp_path / "model.toml"
    path.write_text(text)
    with pytest.raises(InputError, match=says) as raised:
        open_meter(f"estimate:{path}")
    assert "model.toml" in str(raised.value)
    if text != "[":
        with pytest.raises(InputError) as checked:
            check_file(path, NativeSimulator())
        assert str(checked.value) == str(raised.value)


def test_no_file_and_no_name_are_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        open_meter(f"estimate:{tmp_path}/none.toml")
    with pytest.raises(InputError, match="no model given"):
        open_meter("estimate:")


def test_check_knows_a_power_model(tmp_path: Path) -> None:
    path = tmp_path / "power-model.toml"
    path.write_text(MODEL)
    found = check_file(path, NativeSimulator())
    assert found == "power model of bench server, every coefficient measured"
    path.write_text(_core.assumed_power_model())
    assert "not all of it measured" in check_file(path, NativeSimulator())


def test_a_host_that_tells_nothing_is_lost(tmp_path: Path) -> None:
    with pytest.raises(MeterLost, match="/proc/stat: cannot be read"):
        open_meter(f"estimate:assumed?root={tmp_path}").read()
    with pytest.raises(MeterLost, match="lists no core"):
        estimate.parse_stat("intr 5\n")


def test_a_look_in_between_adds_nothing_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Energy is that between the first and the last look, however many there are between."""
    host = Host(tmp_path)
    moments = iter(Instant(10**18 + ms * 10**6, ms * 10**6) for ms in (0, 0, 30, 30, 1000, 1000))
    monkeypatch.setattr(clock, "now", lambda: next(moments))
    meter = open_meter(f"estimate:assumed?root={host.root}")
    host.say(busy=2, idle=1, requests=0)
    assert meter.read().energy_j == 0
    host.say(busy=4, idle=2, requests=0)
    assert meter.read().power_w is None  # After 30 ms: too soon for a power, not for joules.
    host.say(busy=52, idle=51, requests=0)
    reading = meter.read()
    assert reading.energy_j == pytest.approx(48 + 2 * 0.4 + 2 * 0.5 * (0.8 + 6.0))
    assert reading.power_w == pytest.approx(reading.energy_j)


CHILD = """
import os, select, sys, time
end = time.monotonic() + 0.4
if sys.argv[1] == "polls":
    while time.monotonic() < end:
        pass
else:
    select.select([], [], [], 0.4)
"""


def test_a_writer_that_sleeps_costs_less_than_one_that_polls(tmp_path: Path) -> None:
    """What two real processes took of a core, on a made-up host that does nothing else."""

    def energy_j(how: str) -> float:
        host = Host(tmp_path / how)
        meter = open_meter(f"estimate:assumed?root={host.root}")
        meter.read()
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", CHILD, how], check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        busy_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        host.say(busy=round(100 * busy_s), idle=0, requests=0)
        reading = meter.read()
        assert reading.energy_j is not None
        assert reading.power_w is not None
        # Both take as long as they take; the machine's own joules are not what is compared.
        return reading.energy_j - reading.energy_j / reading.power_w * (48 + 2 * 0.4)

    (tmp_path / "sleeps").mkdir()
    (tmp_path / "polls").mkdir()
    assert energy_j("polls") > energy_j("sleeps")


def test_the_loop_of_an_idle_core_costs_as_work_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """cpuidle's state POLL: idle to /proc/stat, and not to the supply."""

    def power_w(folder: str, polled_us: int) -> float:
        moments = iter(Instant(10**18 + s * 10**9, s * 10**9) for s in (0, 0, 2, 2))
        monkeypatch.setattr(clock, "now", lambda: next(moments))
        (tmp_path / folder).mkdir()
        host = Host(tmp_path / folder)
        host.state(0, 0, "POLL", 0)
        host.state(0, 1, "C6", 0)
        meter = open_meter(f"estimate:assumed?root={host.root}")
        meter.read()
        host.say(busy=0, idle=200, requests=0)
        host.state(0, 0, "POLL", polled_us)
        host.state(0, 1, "C6", 2_000_000 - polled_us)
        found = meter.read().power_w
        assert found is not None
        return found

    assert power_w("deep", 0) == pytest.approx(48.8)
    assert power_w("loop", 500_000) == pytest.approx(48.8 + 0.25 * 6.8)


def test_the_model_of_a_host_is_found_where_the_user_has_put_it(tmp_path: Path) -> None:
    host = Host(tmp_path)
    name = f"estimate:host?root={host.root}"
    assert "assumed coefficients" in open_meter(name).facts.what
    (host.root / "etc/models").mkdir(parents=True)
    (host.root / "etc/models/own.toml").write_text(MODEL)
    (host.root / "etc/wattiod.toml").write_text('[power]\nmodel = "models/own.toml"\n')
    facts = open_meter(name).facts
    assert "bench server" in facts.what
    assert "etc/models/own.toml" in facts.what
    assert facts.estimate
    config = host.root / "etc/wattiod.toml"
    config.write_text(config.read_text(), encoding="utf-8-sig")
    assert "bench server" in open_meter(name).facts.what
    (host.root / "etc/wattio").mkdir()
    (host.root / "etc/wattio/power-model.toml").write_text(MODEL.replace("bench", "other"))
    assert "other server" in open_meter(name).facts.what


@pytest.mark.parametrize(
    "text", ["", "[power]\n", "power = 3\n", '[power]\nmodel = "assumed"\n', "["]
)
def test_a_daemon_that_names_no_model_leaves_the_assumed_one(tmp_path: Path, text: str) -> None:
    host = Host(tmp_path)
    (host.root / "etc").mkdir()
    (host.root / "etc/wattiod.toml").write_text(text)
    assert estimate.model_of_host(host.root) == "assumed"


def test_a_sensor_that_lives_goes_before_every_model(tmp_path: Path) -> None:
    host = Host(tmp_path)
    assert found_here(host.root) == (f"estimate:host?root={host.root}",)
    chip = host.root / "sys/class/hwmon/hwmon0"
    chip.mkdir(parents=True)
    (chip / "name").write_text("power_meter\n")
    (chip / "power1_average").write_text("0\n")
    assert found_here(host.root) == (f"estimate:host?root={host.root}",)
    (chip / "power1_average").write_text("42500000\n")
    assert found_here(host.root) == (f"hwmon:power_meter/power1?root={host.root}",)


def test_ranges_are_those_of_the_fit_or_half_to_double(tmp_path: Path) -> None:
    facts = open_meter("estimate:assumed").facts
    assert facts.model is not None
    assert facts.model["watts"]["rest"] == [24.0, 48.0, 96.0]
    assert "half to double, assumed" in facts.what
    path = tmp_path / "model.toml"
    path.write_text(MODEL.replace("watts = 30.0,", "watts = 30.0, interval_w = [28.0, 31.0],"))
    facts = open_meter(f"estimate:{path}").facts
    assert facts.model is not None
    assert facts.model["watts"]["rest"] == [28.0, 30.0, 31.0]
    assert facts.model["watts"]["io"] == [0.25, 0.5, 1.0]
    assert "95 % intervals of the fit, and half to double, assumed of core," in facts.what


@given(st.text(max_size=200))
def test_no_text_breaks_the_parsers(text: str) -> None:
    assert parse_diskstats(text) >= 0
    for shown in (text, "cpu0 " + text, "cpu0 1 1 1 1 1 1 1\n" + text):
        try:
            estimate.parse_stat(shown)
        except MeterLost:
            continue
