"""The host as Python measures and turns it, on made-up trees."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wattio import _core
from wattio.cli import main
from wattio.errors import HostError, InputError

CONFIG = """\
name = "nas"

[latency]
kind = "diskstats"
devices = ["sda"]

[[group]]
name = "all"
cores = "0-3"
"""

LIMIT = "sys/devices/system/cpu/cpufreq/policy0/scaling_max_freq"
OTHER = "sys/devices/system/cpu/cpufreq/policy1/scaling_max_freq"


def say(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(f"{text}\n")


def value(root: Path, path: str) -> str:
    return (root / path).read_text().strip()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    say(tmp_path, "proc/sys/kernel/random/boot_id", "0d9a")
    for place in (LIMIT, OTHER):
        say(tmp_path, place, "3000000")
    return tmp_path


def held(root: Path) -> _core.HeldKnobs:
    return _core.HeldKnobs(str(root), str(root / "snapshot.json"))


def test_meters_are_found_and_read(tmp_path: Path) -> None:
    assert _core.power_meters(str(tmp_path)) == []
    say(tmp_path, "sys/class/hwmon/hwmon0/name", "power_meter")
    say(tmp_path, "sys/class/hwmon/hwmon0/power1_input", "61500000")
    (found,) = _core.power_meters(str(tmp_path))
    assert (found["name"], found["trouble"]) == ("hwmon:power_meter/power1", None)
    meter = _core.PowerMeter("hwmon:power_meter/power1", str(tmp_path))
    assert meter.name == "hwmon:power_meter/power1"
    first = meter.read()
    assert first == (61.5, 0.0)
    second = meter.read()
    assert second is not None
    assert second[0] == 61.5
    assert second[1] > 0


def test_energy_counters_wrap_and_their_first_reading_has_no_power(tmp_path: Path) -> None:
    zone = "sys/class/powercap/intel-rapl:0"
    say(tmp_path, f"{zone}/name", "package-0")
    say(tmp_path, f"{zone}/max_energy_range_uj", "1000000")
    say(tmp_path, f"{zone}/energy_uj", "900000")
    meter = _core.PowerMeter("rapl:package-0", str(tmp_path))
    assert meter.read() is None
    say(tmp_path, f"{zone}/energy_uj", "400000")
    reading = meter.read()
    assert reading is not None
    assert reading[1] == pytest.approx(0.5)
    assert reading[0] > 0


def test_an_unknown_meter_is_said(tmp_path: Path) -> None:
    with pytest.raises(HostError, match="rapl:package-9"):
        _core.PowerMeter("rapl:package-9", str(tmp_path))


def test_knobs_are_put_back_at_the_end_of_with(root: Path) -> None:
    with held(root) as knobs:
        assert knobs.restored_at_open == []
        assert knobs.read(f"file:/{LIMIT}") == "3000000"
        knobs.write(f"file:/{LIMIT}", "1200000")
        knobs.write(f"file:/{LIMIT}", "1500000")
        assert value(root, LIMIT) == "1500000"
        saved = json.loads((root / "snapshot.json").read_text())["saved"]
        assert [(place["address"], place["value"]) for place in saved] == [
            (f"file:/{LIMIT}", "3000000")
        ]
    assert value(root, LIMIT) == "3000000"
    assert not (root / "snapshot.json").exists()


def test_an_error_within_with_is_not_hidden_and_restores(root: Path) -> None:
    def fail() -> None:
        with held(root) as knobs:
            knobs.write(f"file:/{LIMIT}", "1200000")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert value(root, LIMIT) == "3000000"


def test_what_a_killed_holder_left_is_put_back_by_the_next(root: Path) -> None:
    say(root, LIMIT, "1200000")
    saved = {"address": f"file:/{LIMIT}", "value": "3000000", "knob": "python"}
    content = {"version": 1, "boot_id": "0d9a", "saved": [saved]}
    (root / "snapshot.json").write_text(json.dumps(content))
    assert held(root).restored_at_open == [f"file:/{LIMIT}"]
    assert value(root, LIMIT) == "3000000"


def test_a_snapshot_that_is_none_is_left_alone(root: Path) -> None:
    (root / "snapshot.json").write_text("{")
    with pytest.raises(HostError, match="not a snapshot"):
        held(root)
    assert (root / "snapshot.json").read_text() == "{"


def test_what_somebody_else_changes_is_theirs(root: Path) -> None:
    with held(root) as knobs:
        knobs.write(f"file:/{LIMIT}", "1200000")
        say(root, LIMIT, "2000000")
        with pytest.raises(HostError, match="somebody else"):
            knobs.write(f"file:/{LIMIT}", "1500000")
        with pytest.raises(HostError, match="somebody else"):
            knobs.write(f"file:/{LIMIT}", "1800000")
        knobs.write(f"file:/{OTHER}", "1800000")
        assert knobs.restore() == [f"file:/{OTHER}"]
    assert value(root, LIMIT) == "2000000"


def test_places_that_are_not_there_or_no_places(root: Path) -> None:
    with held(root) as knobs:
        with pytest.raises(HostError, match="gone"):
            knobs.read("file:/sys/nothing")
        with pytest.raises(HostError, match="gone"):
            knobs.write("file:/sys/nothing", "1")
        with pytest.raises(HostError, match="scheme"):
            knobs.write("ftp:/x", "1")
        with pytest.raises(InputError, match="not an address"):
            knobs.read("nothing")


@given(st.text(), st.text())
def test_no_configuration_breaks_the_check(text: str, more: str) -> None:
    for content in (text, f"{CONFIG}{more}"):
        with contextlib.suppress(InputError):
            _core.check_daemon_config(content, "wattiod.toml")


def checked(path: Path, capsys: pytest.CaptureFixture[str]) -> tuple[object, str]:
    with pytest.raises(SystemExit) as stop:
        main(["check", str(path)])
    shown = capsys.readouterr()
    return stop.value.code, shown.out + shown.err


def test_check_knows_a_daemon_s_configuration(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "wattiod.toml"
    path.write_text(f'{CONFIG}[policy]\nname = "pacer"\nsettings = {{ plf = 0.1 }}\n')
    assert checked(path, capsys) == (0, f"ok: {path}: configuration of wattiod for nas\n")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("[safety]\nstale_after_windows = 0.5\n", ": safety.stale_after_windows: is 0.5"),
        ("[policy]\nsettings = { plff = 0.1 }\n", ": policy.settings.plff: "),
        ('[service]\nlisten = "everywhere"\n', ": line 11: "),
    ],
)
def test_check_says_what_wattiod_would(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: str, message: str
) -> None:
    path = tmp_path / "wattiod.toml"
    path.write_text(CONFIG + change)
    code, text = checked(path, capsys)
    assert code == 2
    assert text.startswith(f"wattio: {path}{message}")


def test_a_configuration_without_a_source_is_a_configuration(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "wattiod.toml"
    path.write_text('name = "nas"\n[policy]\n[[group]]\nname = "all"\ncores = "0"\n')
    code, text = checked(path, capsys)
    assert code == 2
    assert "latency" in text
