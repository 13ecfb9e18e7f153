"""What `import wattio` offers: simulate, run, open, tables and figures."""

from __future__ import annotations

import gc
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import wattio
from wattio.errors import InputError, ResultError

STUDY = """
[study]
name = "tiny"
kind = "simulation"

[[load]]
name = "steady"
server = "small"
pattern = "Rand_RW"
pressure = 0.1
duration = "6 s"
warmup = "1 s"

[[policy]]
name = "ondemand"
"""


PHASE: dict[str, object] = {"span_s": 2.0, "pattern": "Rand_RW", "pressure": 0.1}


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> wattio.Result:
    folder = tmp_path_factory.mktemp("api")
    (folder / "study.toml").write_text(STUDY)
    names: list[str] = []
    done = wattio.run(folder, results=folder / "results", jobs=1, ended=names.append)
    assert names == ["steady/native seed 1", "steady/ondemand seed 1"]
    return done


def test_importing_loads_nothing_else() -> None:
    """`import wattio` is quick: no NumPy, no native module, before something is asked for."""
    code = (
        "import sys, wattio; wattio.__version__;"
        "assert not {'numpy', 'wattio._core', 'duckdb'} & set(sys.modules);"
        "assert 'run' in dir(wattio)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_what_is_listed_is_there() -> None:
    for name in wattio.__all__:
        assert getattr(wattio, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = wattio.nothing


def test_a_simulation_stands_beside_its_twin() -> None:
    done = wattio.simulate("small", policy="ondemand", duration_s=5.0, warmup_s=1.0)
    ratio = done.summary["power_w_mean"] / done.native_summary["power_w_mean"]
    assert done.saving_share == pytest.approx(1 - ratio)
    assert done.bound_kept is done.bounds[0]["kept"]
    assert done.bounds[0]["bound"] == "mean 20% run"
    # The windows sum up to the run's energy.
    assert np.sum(done.windows["energy_j"]) == pytest.approx(done.summary["energy_j"])
    assert "native" in done._repr_html_()
    assert "e+" not in done.windows._repr_html_()  # A frequency was shown as 1.6e+09.
    assert "ondemand on small" in repr(done)


def test_the_shipped_trace_is_found_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = wattio.simulate(policy="ondemand", trace="pgbench", time_scale=0.1, duration_s=2.0)
    assert done.summary["ios"] > 0


def test_a_trace_of_another_form_is_read_as_it_is_described(tmp_path: Path) -> None:
    """Only the command line could read one."""
    lines = [f"{at * 1000},{'RW'[at % 2]},{at * 8},4096\n" for at in range(3000)]
    (tmp_path / "own.csv").write_text("".join(lines))
    columns = "time=0:us,op=1,lba=2:sectors,size=3:bytes"
    done = wattio.simulate(policy="ondemand", trace=tmp_path / "own.csv", columns=columns)
    assert done.summary["ios"] == 3000
    assert done.native_summary["ios"] == 3000


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"trace": "pgbench", "iops": 10.0}, "trace and iops exclude each other"),
        ({"plf": 0.1, "bounds": ["mean 10%"]}, "bounds and plf exclude each other"),
        ({"pressure": 0.0}, "pressure 0.0: allowed is above 0"),
        ({"policy": "oracel"}, 'unknown policy "oracel"; did you mean "oracle"?'),
        ({"server": "nowhere"}, 'unknown server "nowhere"'),
        # All of these were taken and had no effect.
        ({"rate_scale": 2.0}, "rate_scale cannot be used with pattern"),
        ({"pressure": 0.1, "columns": "time=0:us"}, "columns cannot be used with pressure"),
        ({"trace": "pgbench", "clients": 3}, "clients cannot be used with trace"),
        ({"trace": "pgbench", "pattern": "Rand_W"}, "pattern cannot be used with trace"),
        ({"profile": "quickstart/day.toml", "start_s": 1.0}, "start_s cannot be used with profile"),
        ({"phases": [PHASE | {"presure": 1.0}]}, r'phases\[1\]: .* did you mean "pressure"\?'),
        ({"phases": [PHASE, {"pressure": 0.1}]}, r"phases\[2\]: span_s is required"),
        ({"phases": "day"}, "phases='day': must be a list"),
        ({"trace": "pgbench", "format": "scp"}, "scp"),
        ({"bounds": "p99 20% run"}, r'must be a list, as in bounds=\["p99 20% run"\]'),
        ({"plf": float("nan")}, "pacer: plf: nan is not a number that can be used"),
        ({"seed": -1}, "seed=-1: allowed is 0 to 18446744073709551615"),
        ({"policy": "oracle", "settings": {"trials": 1}}, 'did you mean "trial_s"?'),
    ],
)
def test_what_cannot_be_simulated_is_refused(arguments: dict[str, object], told: str) -> None:
    with pytest.raises(InputError, match=told):
        wattio.simulate(**arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"server": 5}, "server=5: must be a text or a path"),
        ({"policy": None}, "policy=None: must be a text"),
        ({"settings": [("plf", 1)]}, "must be a table, such as a dict"),
        ({"bounds": 5}, "bounds=5: must be a list"),
        ({"bounds": [5]}, "a bound=5: must be a text"),
        ({"plf": "a"}, "plf='a': must be a number"),
        ({"pressure": "x"}, "pressure='x': must be a number"),
        ({"iops": True}, "iops=True: must be a number"),
        ({"open_loop": "no"}, "open_loop='no': must be True or False"),
        ({"clients": 1.5}, "clients=1.5: must be a whole number"),
        ({"trace": ["a"]}, "must be a text or a path"),
        ({"trace": "pgbench", "time_scale": None}, "time_scale=None: must be a number"),
        ({"phases": 5}, "phases=5: must be a list"),
        ({"phases": [{1: 2}]}, 'unknown key "1"'),
        ({"duration_s": "1 s"}, "duration_s='1 s': must be a number"),
        ({"seed": "x"}, "seed='x': must be a whole number"),
        ({"power_model": b"x"}, "must be a text or a path"),
    ],
)
def test_what_is_of_the_wrong_type_is_told(arguments: dict[str, Any], told: str) -> None:
    """It was a TypeError from somewhere within, or a place in JSON that nobody wrote."""
    with pytest.raises(InputError, match=re.escape(told)):
        wattio.simulate(**arguments)


def test_results_and_studies_are_paths() -> None:
    with pytest.raises(InputError, match="path=5: must be a text or a path"):
        wattio.open(5)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="study=None: must be a text or a path"):
        wattio.run(None)  # type: ignore[arg-type]


def test_numbers_may_be_those_of_numpy() -> None:
    """Seeds of `np.arange` could not be used."""
    numbers: dict[str, Any] = {"duration_s": np.int64(1), "warmup_s": np.float32(0)}
    numbers |= {"seed": np.int64(2), "open_loop": np.bool_(False)}
    numbers["settings"] = {"plf": np.float32(0.5)}
    found = wattio.simulate(**numbers)
    again = wattio.simulate(seed=2, settings={"plf": 0.5}, duration_s=1, warmup_s=0)
    for name in ("power_w_mean", "latency_us_mean", "iops_mean"):
        assert found.summary[name] == again.summary[name]


def test_a_result_is_opened_again(result: wattio.Result) -> None:
    again = wattio.open(result.path)
    assert again == result
    assert again.kind == "simulation"
    native, ondemand = again.summary
    assert (native.run.condition, ondemand.run.condition) == ("native", "ondemand")
    table = again.table()
    assert list(table["condition"]) == ["native", "ondemand"]
    assert table["power_w_mean"][1] == ondemand.mean("power_w_mean")
    assert "ondemand" in again._repr_html_()


def test_every_table_can_be_had(result: wattio.Result) -> None:
    for name in result.tables():
        table = result.table(name)
        assert table.rows > 0 or name == "verdicts"
        assert {len(column) for column in table.values()} <= {table.rows}
        frame, arrow = table.to_pandas(), table.to_arrow()
        assert list(frame.columns) == list(table) == arrow.column_names
        assert len(frame) == arrow.num_rows == table.rows
    samples = result.table("samples")
    metrics = result.table("metrics")
    energy = metrics["value"][(metrics["name"] == "energy_j") & (metrics["condition"] == "native")]
    own = metrics["iteration"][metrics["condition"] == "native"][0]
    assert np.sum(samples["energy_j"][samples["iteration"] == own]) == pytest.approx(energy[0])
    with pytest.raises(InputError, match='did you mean "samples"'):
        result.table("sample")
    with pytest.raises(InputError, match='did you mean "energy_j"'):
        samples["energy"]


def test_figures_are_objects_that_show_themselves(result: wattio.Result) -> None:
    figures = result.figures()
    assert figures
    for figure in figures:
        assert "<svg" in figure._repr_svg_()
        assert figure.table.rows > 0


def test_figures_are_made_elsewhere_and_kept_while_they_are_in_use(result: wattio.Result) -> None:
    """A report appeared in a folder in which nothing is changed, or which cannot be written."""
    before = {path: path.stat().st_mtime_ns for path in result.path.rglob("*")}
    opened = wattio.open(result.path)
    figures = opened.figures()
    place = figures[0].path.parent
    assert not place.is_relative_to(result.path)
    assert opened.figures() == figures
    last = figures[-1]
    del opened, figures
    gc.collect()
    assert "<svg" in last.svg
    del last
    gc.collect()
    assert not place.exists()
    assert {path: path.stat().st_mtime_ns for path in result.path.rglob("*")} == before


def test_a_folder_that_is_no_result_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ResultError, match="is not a result folder"):
        wattio.open(tmp_path)


def test_options_of_other_kinds_are_refused(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(STUDY)
    with pytest.raises(InputError, match="meter is for studies of kind measurement"):
        wattio.run(tmp_path, meter="rapl:package-0", results=tmp_path)
    with pytest.raises(InputError, match="studies by name are arm-cluster"):
        wattio.run("nosuch")
    assert list(tmp_path.iterdir()) == [tmp_path / "study.toml"]
