"""The power model of a calibrated host in a simulated server."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from places import ROOT
from wattio import _core
from wattio.cli import main
from wattio.errors import InputError
from wattio.files import toml_text
from wattio.simulator import server_power
from wattio.simulator.native import NativeSimulator
from wattio.simulator.simulation import Request

SMALL = _core.built_in_servers()["small"]
DORADO = _core.built_in_servers()["dorado6000"]
TERMS = ("rest", "core", "core_frequency", "busy", "busy_frequency", "io")
watts = st.floats(0, 50, allow_nan=False)


def model(directory: Path, highest: str = "3.0 GHz", **terms: float) -> Path:
    """A measured model of these watts; what is not given is 0 W."""
    lines = ['name = "host"', f'frequency_max = "{highest}"', "frequency_bound_share = 0.5"]
    lines += [
        f'{name} = {{ watts = {terms.get(name, 0.0)!r}, origin = "measured" }}' for name in TERMS
    ]
    path = directory / "power-model.toml"
    path.write_text("\n".join(lines) + "\n")
    return path


def watts_of(text: str, frequency_hz: float) -> tuple[float, float]:
    """What a sleeping and a running core draw, by the words of the description's fields."""
    cores = tomllib.loads(text)["cores"]
    highest_hz = _core.parse_quantity(cores["frequency_max"], "frequency")

    def power(key: str) -> float:
        return _core.parse_quantity(cores[key], "power")

    share = frequency_hz / highest_hz
    running = power("static_power") + power("dynamic_power") * share
    if cores["idle"] == "polling":
        return running, running
    return power("idle_power") + power("idle_frequency_power") * share, running


@given(core=watts, core_phi=watts, busy=watts, busy_phi=watts, ghz=st.floats(0.8, 3.0))
def test_cores_draw_what_the_model_says(
    tmp_path_factory: pytest.TempPathFactory,
    core: float,
    core_phi: float,
    busy: float,
    busy_phi: float,
    ghz: float,
) -> None:
    directory = tmp_path_factory.mktemp("model")
    terms = {"core": core, "core_frequency": core_phi, "busy": busy, "busy_frequency": busy_phi}
    path = model(directory, "3.2 GHz", rest=40.0, **terms)
    reference = _core.PowerModel(path.read_text())
    idle, running = watts_of(server_power.apply(SMALL, path).text, ghz * 1e9)
    for utilisation, found in ((0.0, idle), (1.0, running)):
        expected = reference.power_w([(1.0, utilisation, ghz / 3.2)], 0.0) - 40.0
        assert found == pytest.approx(expected, rel=1e-9, abs=1e-9)
    polling, _ = watts_of(server_power.apply(DORADO, path).text, 2e9)
    expected = reference.power_w([(1.0, 1.0, 2 / 3.2)], 0.0) - 40.0
    assert polling == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_all_but_the_cores_power_is_kept(tmp_path: Path) -> None:
    applied = server_power.apply(SMALL, model(tmp_path, core=1.0, busy=2.0, rest=99.0, io=3.0))
    before, after = tomllib.loads(SMALL), tomllib.loads(applied.text)
    for content in (before, after):
        assert content.pop("assumptions")
        for key in ("static_power", "dynamic_power", "idle_power", "idle_frequency_power"):
            content["cores"].pop(key, None)
        content["cores"].pop("voltage", None)
    assert before == after
    assert (applied.facts["rest_w"], applied.facts["io_w"]) == (99.0, 3.0)


def test_the_assumed_model_is_that_of_the_small_server() -> None:
    """It says of itself that it is made of servers/small.toml: both agree at full frequency."""
    path = ROOT / "servers" / "assumed-power-model.toml"
    applied = server_power.apply(SMALL, path)
    idle, running = watts_of(applied.text, 3e9)
    assert [idle, running] == pytest.approx([0.4, 7.2])
    assert applied.facts["not_measured"] == ["core", "core_frequency", "busy", "busy_frequency"]


def test_a_run_draws_what_the_model_says(tmp_path: Path) -> None:
    load = {"pattern": "Rand_RW", "pressure": 0.05}
    request = Request("small", "native", load, duration_s=1.0, warmup_s=1.0)
    path = model(tmp_path, core=1.0, core_frequency=2.0)
    modelled = Request(**{**request.__dict__, "power_model": str(path)})
    plain, found = NativeSimulator().simulate(request), NativeSimulator().simulate(modelled)
    # All 16 cores are on at full frequency, and work adds nothing: 3 W each.
    assert found.summary["energy_by_component_j"]["cores"] == pytest.approx(48.0, rel=1e-9)
    for component in ("drives", "rest"):
        ours = found.summary["energy_by_component_j"][component]
        assert ours == pytest.approx(plain.summary["energy_by_component_j"][component])
    assert found.summary["latency_us_mean"] == plain.summary["latency_us_mean"]
    assert found.summary["power_model"]["name"] == "host"


def run(*words: str | Path) -> int:
    with pytest.raises(SystemExit) as left:
        main([str(word) for word in words])
    return int(left.value.code or 0)


SHORT = ("--server", "small", "--pressure", "0.05", "--duration", "1 s", "--warmup", "1 s")


def test_the_command_says_what_was_taken(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = model(tmp_path, "2.0 GHz", core=1.0, busy=2.0, busy_frequency=4.0, rest=77.0)
    assert run("simulate", *SHORT, "--power-model", path) == 0
    shown = " ".join(capsys.readouterr().out.split())
    for part in (
        "(host): running 3 W + 6 W at full frequency, idle 1 W + 0 W",
        "extrapolated: the server goes to 3 GHz, the model only to 2 GHz",
        "kept of the description: the drives and the rest",
        "its rest 77 W",
    ):
        assert part in shown
    assert run("oracle", *SHORT, "--power-model", path, "--json") == 0
    found = json.loads(capsys.readouterr().out)["power_model"]
    assert found["cores"] == {
        "running_w": 3.0,
        "running_frequency_w": 6.0,
        "idle_w": 1.0,
        "idle_frequency_w": 0.0,
    }


def test_a_model_that_cannot_be_used_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = model(tmp_path, core=1.0)
    path.write_text(path.read_text().replace("watts = 1.0", "watts = -1.0"))
    assert run("simulate", *SHORT, "--power-model", path) == 2
    assert "power-model.toml: core.watts: is -1; allowed is 0 to 100000 W" in " ".join(
        capsys.readouterr().err.split()
    )
    with pytest.raises(InputError, match=r"missing\.toml: cannot be read: No such file"):
        server_power.apply(SMALL, tmp_path / "missing.toml")
    path.write_bytes(b"\xff")
    with pytest.raises(InputError, match="is not text in UTF-8"):
        server_power.apply(SMALL, path)


def test_plain_data_is_written_as_toml() -> None:
    content = tomllib.loads(DORADO)
    assert tomllib.loads(toml_text.dump(content)) == content
