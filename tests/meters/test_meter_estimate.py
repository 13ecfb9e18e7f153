"""Power by a model: this host's counters, through the model that the daemon and simulator use."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wattio import _core, clock
from wattio.clock import Instant
from wattio.errors import InputError
from wattio.meters import estimate, open_meter
from wattio.meters.estimate import Ticks
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
    assert meter.read().energy_j is None
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
    with pytest.raises(InputError, match="names no model"):
        open_meter("estimate:")


def test_check_knows_a_power_model(tmp_path: Path) -> None:
    path = tmp_path / "power-model.toml"
    path.write_text(MODEL)
    found = check_file(path, NativeSimulator())
    assert found == "power model of bench server, every coefficient measured"
    path.write_text(_core.assumed_power_model())
    assert "not all of it measured" in check_file(path, NativeSimulator())


def test_a_core_that_came_on_or_went_back_counts_as_idle() -> None:
    old = {0: Ticks(10, 100), 1: Ticks(50, 100)}
    new = {0: Ticks(30, 140), 1: Ticks(5, 200), 2: Ticks(900, 900)}
    assert estimate.shares(old, new) == {0: 0.5, 1: 0.0, 2: 0.0}


def test_a_host_that_tells_nothing_is_lost(tmp_path: Path) -> None:
    with pytest.raises(MeterLost, match="/proc/stat: cannot be read"):
        open_meter(f"estimate:assumed?root={tmp_path}").read()
    with pytest.raises(MeterLost, match="lists no core"):
        estimate.parse_stat("intr 5\n")


@given(st.text(max_size=200))
def test_no_text_breaks_the_parsers(text: str) -> None:
    assert estimate.parse_diskstats(text) >= 0
    for shown in (text, "cpu0 " + text, "cpu0 1 1 1 1 1 1 1\n" + text):
        try:
            estimate.parse_stat(shown)
        except MeterLost:
            continue
