"""Calibration: known parameters are found again from runs made up with them, and bad fits told."""

from __future__ import annotations

import contextlib
import json
import math
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from wattio.analysis.statistics import Interval
from wattio.cli import hpcio_calibrate
from wattio.errors import InputError, ResultError
from wattio.models import calibrate, files, posterior, runs, scenario, validate
from wattio.models import fit as fitting
from wattio.models.approach import parse
from wattio.models.parameter import central
from wattio.models.runs import Run
from wattio.models.scenario import GIB, Application, Platform

from models.scenarios import platform

CELLS = 1000


@pytest.fixture(autouse=True)
def short_chains(monkeypatch: pytest.MonkeyPatch) -> None:
    """Enough for what these tests ask of the storage's rates, and quick."""
    monkeypatch.setattr(posterior, "TIMES_LEAST", 4)


def made(text: str, nodes: int, cores: int, every: int, noise: float = 0.0, seed: int = 0) -> Run:
    """A run as the model predicts it on such a part of a platform of round numbers, with noise."""
    machine = replace(truth(), nodes=nodes, cores=cores)
    values = central(machine.parameters)
    run = Application("miniapp", 40, every or 40, 2.0**28 if every else 0.0)
    found = scenario.predict(parse(text), machine, run, values)
    used = found.resources
    factor = math.exp(noise * np.random.default_rng(seed).normal())
    step_s = float(scenario.step_s_of(used, machine, run, values)) * factor
    rate = min(used.writers * 50e6, 400e6 / (1 + 0.05 * max(0, used.writers - 4)))
    parts = nodes if text.startswith("dc") else max(used.dedicated_nodes, 1)
    per_gib = {"t": 0.0, "c": 0.5, "n": 2.0}["t" if text == "tp" else text[1]]
    return Run(
        source=f"{text} {nodes} {cores} {every}",
        approach=parse(text),
        nodes=nodes,
        cores=cores,
        cells=CELLS,
        steps=40,
        output_every=every,
        dumps=40 // every if every else 0,
        dump_bytes=2**28 if every else 0,
        time_s=float(found.time_s) * factor,
        step_s=step_s,
        write_s=2**28 / rate if every else None,
        blocked_s=per_gib * 2**28 / parts / GIB if every else None,
        power_w=float(found.power_w_mean),
        is_estimate=False,
        stalls=0,
        is_whole=True,
    )


def truth() -> Platform:
    """What the runs are made up with."""
    return platform(nodes=4, cores=4)


def profile(noise: float = 0.0) -> list[Run]:
    """Runs without output, each twice."""
    shapes = [(n, c) for n in (1, 2, 4) for c in (1, 2, 3, 4)]
    return [
        made("tp", nodes, cores, 0, noise, seed) for seed, (nodes, cores) in enumerate(shapes * 2)
    ]


def written(everys: tuple[int, ...] = (1, 4)) -> list[Run]:
    """Runs with output by every approach, and by fewer writers."""
    found = [made(a, 4, 4, e) for a in ("tp", "dc:1", "dc:2", "dn:1", "dn:3") for e in everys]
    return found + [made("tp", 1, cores, 4) for cores in (1, 2, 3, 4)]


def test_known_parameters_are_found_again() -> None:
    found = calibrate.calibrate([*profile(), *written()], "made up", idle_power_w=400)
    numbers = {one.name: one for one in found.file.build().parameters}
    expected = central(truth().parameters)
    for name in ("base_s", "power_max_w", "copy_s_per_gib", "send_s_per_gib"):
        assert numbers[name].value == pytest.approx(expected[name], rel=1e-3)
    assert numbers["blocked_share"].value == pytest.approx(0.75, rel=0.05)
    assert numbers["idle_share"].value == pytest.approx(0.5)
    assert numbers["cores_speedup_4"].value == pytest.approx(4 / 1.15, rel=1e-6)
    assert numbers["nodes_speedup_4"].value == pytest.approx(4 / 1.03, rel=1e-6)
    assert numbers["client_bytes_s"].value == pytest.approx(50e6, rel=0.05)
    assert numbers["contention"].low < 0.05 < numbers["contention"].high
    assert found.is_good
    assumed = {name for name, one in numbers.items() if one.origin != "measured"}
    assert assumed == {"asleep_share", "size_exponent"}


def test_what_was_held_out_is_predicted() -> None:
    found = calibrate.calibrate([*profile(0.02), *written()], "made up")
    checked = validate.validate(found.file.build(), written((2, 5)))
    assert len(checked.compared) == 14
    assert checked.median_error is not None
    assert checked.median_error < 0.03
    assert all(one.regret < 0.02 for one in checked.rankings)
    assert [(one.ranks, one.pairs_right[1]) for one in checked.rankings] == [(16, 10), (16, 10)]
    assert not checked.left_out
    assert json.dumps(checked.as_object(), allow_nan=False)


def test_runs_of_another_number_of_ranks_are_predicted_on_theirs() -> None:
    """Nothing that was fitted to was written on so many."""
    fitted = [one for one in [*profile(), *written()] if not one.writes or one.nodes == 4]
    found = calibrate.calibrate(fitted, "made up")
    others = [
        made(text, 4, cores, every)
        for text in ("tp", "dc:1", "dn:1")
        for cores in (2, 3)
        for every in (1, 4)
    ]
    checked = validate.validate(found.file.build(), others)
    assert len(checked.compared) == len(others)
    assert checked.median_error is not None
    assert checked.median_error < 0.03
    assert {one.ranks for one in checked.rankings} == {8, 12}


def test_ranks_that_no_speedup_is_known_of_are_left_out() -> None:
    fitted = [one for one in [*profile(), *written()] if one.nodes < 4]
    found = calibrate.calibrate(fitted, "made up")
    checked = validate.validate(found.file.build(), [made("tp", 4, 4, 2)])
    assert not checked.compared
    assert "4 are asked for" in checked.left_out[0][1]


def test_a_line_knows_what_it_was_fitted_to_and_scales_steps_only() -> None:
    fitted = [made("tp", 4, 4, 0), *written((1, 4))]
    line = validate.straight_line(fitted)
    assert line is not None
    known = made("tp", 4, 4, 2)
    # By hand: seconds of 40 steps with 40 and with 10 dumps, 20 dumps between them.
    most, least = (made("tp", 4, 4, every).time_s for every in (1, 4))
    assert line.time_s(known) == pytest.approx(least + (most - least) / 3)
    assert line.time_s(replace(known, cells=2 * CELLS)) is None
    other = replace(made("tp", 4, 4, 0), cells=2 * CELLS)
    other = replace(other, step_s=3 * other.step_s)
    wider = validate.straight_line([*fitted, other])
    assert wider is not None
    dumps_s = (most - least) / 30
    steps_s = least - 10 * dumps_s
    found = wider.time_s(replace(known, cells=2 * CELLS))
    assert found == pytest.approx(3 * steps_s + 20 * dumps_s)
    assert line.time_s(replace(known, approach=parse("dc:3"))) is None
    assert validate.straight_line(profile()) is None


def test_scores_are_of_the_same_runs_and_say_where_the_model_loses() -> None:
    """The model names the slower one; the line and what always takes dc:1 name the faster."""
    run, other = made("dc:1", 4, 4, 2), made("tp", 4, 4, 2)
    compared = tuple(
        validate.Compared(one, measured, 1, Interval(model, 0.9 * model, 1.1 * model, 0.95), *line)
        for one, measured, model, line in (
            (run, 10.0, 12.0, (10.0, 10.0)),
            (other, 11.0, 11.0, (11.0, 10.0)),
        )
    )
    found = validate.scores([validate.Validation(compared, (), ())])
    model, line, always = found
    assert (model.pairs, line.pairs, always.pairs) == ((0, 1), (1, 1), (1, 1))
    assert (model.regret_mean, line.regret_mean) == pytest.approx((0.1, 0.0))
    assert (model.intervals, line.intervals) == ((1, 2), None)
    assert always.error_worst == pytest.approx(1 / 11)
    assert "a straight line by the median error" in validate.told(found)
    assert validate.scores([]) == []
    assert validate.told([]) == ""


def test_the_model_s_discrepancy_is_that_of_whole_runs() -> None:
    machine = replace(truth(), base_cells=CELLS)
    runs = [
        replace(run, time_s=run.time_s * factor)
        for run, factor in zip(written() * 4, [1.1, 1 / 1.1] * 100, strict=False)
    ]
    found, fit = fitting.discrepancy(runs, machine)
    assert found is not None
    assert found.value == pytest.approx(math.log(1.1))
    assert found.low < found.value < found.high
    assert fit.points == 4 * 14
    assert fitting.discrepancy(runs[:2], machine)[0] is None


def test_what_grows_with_bytes_is_told_by_dumps_of_two_sizes() -> None:
    """A quarter of the bytes in half of the time: the exponent is 1/2."""
    large = written()
    small = [
        replace(run, dump_bytes=run.dump_bytes // 4, write_s=(run.write_s or 0) / 2)
        for run in large
    ]
    numbers, _ = fitting.storage([*large, *small], 1)
    assert numbers["size_exponent"].value == pytest.approx(0.5, abs=0.05)
    assert "size_exponent" not in fitting.storage(large, 1)[0]


def test_an_interval_holds_the_truth_about_as_often_as_it_says() -> None:
    inside = 0
    for start in range(40):
        shapes = [(n, c) for n in (1, 2) for c in (1, 2, 4)] * 2
        noisy = [made("tp", n, c, 0, 0.05, 1000 * start + at) for at, (n, c) in enumerate(shapes)]
        base = fitting.computing(noisy).base
        inside += base.low <= 8.0 <= base.high
    assert inside >= 34


def test_cores_that_depend_on_nodes_are_a_bad_fit() -> None:
    """Emulated nodes share one machine's cores, which the document's equation (2) leaves out."""
    shared = [replace(run, step_s=1 / min(2, run.nodes * run.cores)) for run in profile()]
    fit = fitting.computing(shared).fit
    assert not fit.is_good
    assert "BAD" in str(fit)


def test_runs_that_tell_too_little_are_refused() -> None:
    with pytest.raises(InputError, match="output-every 0"):
        fitting.computing([run for run in profile() if run.cores > 1])
    with pytest.raises(InputError, match="do not separate cores from nodes"):
        fitting.computing([made("tp", 1, 1, 0), made("tp", 2, 2, 0)])
    with pytest.raises(InputError, match="no run wrote"):
        fitting.storage(profile(), 1)


def test_runs_of_which_no_interval_tells_anything_are_refused_in_words() -> None:
    """It was said that compute.cores.points[2].high must be less than 1000000000."""
    twice = [made("tp", nodes, cores, 0) for nodes, cores in ((1, 1), (1, 2), (2, 1), (2, 2))]
    twice[3] = replace(twice[3], step_s=twice[3].step_s * 20, cells=2 * CELLS)
    told = "of 2 grids, scatter too widely to tell 3 numbers .* and with one grid$"
    with pytest.raises(InputError, match=told):
        fitting.computing(twice)


def test_cores_of_different_speeds_are_refused() -> None:
    slow = [replace(run, core_share=0.2) for run in [*profile(), *written()]]
    assert calibrate.calibrate(slow, "made up").is_good
    with pytest.raises(InputError, match=r"different --core-share \(20 %, none\)"):
        calibrate.calibrate([*slow, made("tp", 4, 4, 4)], "made up")


@pytest.mark.parametrize(
    ("option", "values"),
    [
        ("compression", ("none", "gzip:1")),
        ("sync", (False, True)),
        ("aggregation", ("dump", "writer")),
        ("checksum", (False, True)),
    ],
)
def test_runs_that_write_in_different_ways_are_refused(
    option: str, values: tuple[Any, Any]
) -> None:
    one, other = (replace(run, **{option: value}) for run in written()[:1] for value in values)
    calibrate.check_alike([one, one])
    calibrate.check_alike([one, written()[0]])  # of an older version, which did not tell it
    calibrate.check_alike([one, replace(profile()[0], **{option: values[1]})])
    told = ", ".join(sorted(str(value).lower() for value in values))
    with pytest.raises(InputError, match=rf"different --{option} \({told}\)"):
        calibrate.check_alike([one, other])


def test_ranks_that_wrote_by_themselves_tell_nothing_of_handing_over() -> None:
    """Their blocked time is their own writing."""
    runs = written()
    through = [
        replace(run, written_through=1, blocked_s=50.0, write_s=50.0)
        for run in runs
        if str(run.approach) == "dc:1"
    ]
    assert fitting.handing_over([*runs, *through], "dc") == fitting.handing_over(runs, "dc")
    assert fitting.storage([*runs, *through], 1) == fitting.storage(runs, 1)
    checked = validate.validate(truth(), through)
    assert not checked.compared
    assert {why for _, why in checked.left_out} == {
        "ranks that compute wrote by themselves, as the buffer was full"
    }


def test_full_power_is_that_of_runs_whose_ranks_all_compute() -> None:
    tp, dc = (replace(made(text, 4, 4, 0), power_w=w) for text, w in (("tp", 800), ("dc:2", 500)))
    found, fit = fitting.power_max_w([tp, dc, made("tp", 4, 4, 4)])
    assert found is not None
    assert (found.value, fit.points) == (200, 1)
    # Four nodes of one rank and one node of four: nothing ran on all of four by four.
    apart = [made("tp", 4, 1, 0), made("tp", 1, 4, 0)]
    assert runs.largest(apart) == (4, 4)
    assert fitting.power_max_w(apart)[0] is None


def test_what_no_run_tells_is_assumed_and_wide() -> None:
    bare = [replace(run, power_w=None) for run in [*profile(), made("tp", 4, 4, 4)]]
    found = calibrate.calibrate(bare, "made up")
    assumed = {one.name for one in found.file.build().parameters if one.origin == "assumed"}
    assert assumed == set(fitting.NOT_MEASURED)
    estimated = [replace(run, is_estimate=True) for run in [*profile(), made("tp", 4, 4, 4)]]
    found = calibrate.calibrate(estimated, "made up", idle_power_w=400)
    assert found.is_good
    power = found.file.power
    assert power.max.origin == power.idle_share.origin == "assumed"
    assert power.max.how.startswith("not measured (estimate): ")
    assert "not measured (estimate)" in power.idle_share.how
    # Eight watts are as little known as 200 are with no run that tells of power.
    low, value, high = power.max.ends
    assert (low / value, high / value) == pytest.approx((50 / 200, 500 / 200))
    (fit,) = (fit for fit in found.fits if fit.what == "power of a computing node")
    assert not fit.is_good
    assert not fit.is_bad
    assert str(fit) == f"{fit.what}: not measured (estimate), 2 points scatter by 0.0 %"
    assert str(replace(fit, scatter=None, points=1)).endswith(": not measured (estimate), 1 point")


def test_an_estimate_of_power_tells_nothing_of_waiting() -> None:
    runs = [*profile(), *written()]
    metered = calibrate.calibrate(runs, "made up").file.build().parameters
    estimates = [replace(run, is_estimate=True) for run in runs]
    estimated = calibrate.calibrate(estimates, "made up").file.build().parameters
    origins = [
        {one.name: one.origin for one in found}["blocked_share"] for found in (metered, estimated)
    ]
    assert origins == ["measured", "assumed"]


def test_what_a_dump_takes_of_the_simulation_is_found() -> None:
    runs = [*profile(), *written()]
    before = calibrate.calibrate(runs, "made up").file
    assert before.transfer.make_per_gib is before.transfer.leave is None
    dumped = [
        replace(
            run,
            # 0.25 GiB of a dump, and 3 s for a GiB of a computing rank's.
            make_s=3 / 4 / (run.resources.compute_nodes * run.resources.compute_cores),
            blocked_s=(run.write_s or 0) + 0.2 if str(run.approach) == "tp" else run.blocked_s,
        )
        for run in written()
    ]
    found = calibrate.calibrate([*profile(), *dumped], "made up")
    assert found.is_good
    numbers = {one.name: one for one in found.file.build().parameters}
    assert numbers["make_s_per_gib"].value == pytest.approx(3.0)
    assert numbers["leave_s"].value == pytest.approx(0.2)
    assert "make_per_gib" in tomllib.loads(found.file.text())["transfer"]
    one = made("tp", 4, 4, 4)
    predicted = [
        float(scenario.predict(one.approach, platform, one.application, central(p)).time_s)
        for platform, p in ((f.build(), f.build().parameters) for f in (before, found.file))
    ]
    each = 0.2 + 3 / 4 / 16
    assert predicted[1] - predicted[0] == pytest.approx(one.dumps * each, rel=0.01)


def test_ranking_counts_pairs_and_regret() -> None:
    approaches = [parse(text) for text in ("tp", "dc:1", "dc:2")]
    ranking = validate.Ranking(
        4, 1, 1, tuple(approaches), (approaches[1], approaches[0], approaches[2]), 0.1
    )
    assert ranking.pairs_right == (2, 3)


def content(**changed: object) -> dict[str, Any]:
    """A result as `wattio hpcio run --json` prints it."""
    found: dict[str, Any] = {
        "approach": "dc:1",
        "ranks": 8,
        "nodes": 2,
        "grid": [64, 64, 32],
        "steps": 30,
        "output_every": 10,
        "dumps": 3,
        "dump_bytes": 3145728,
        "wall_s": 3.0,
        "drain_s": 0.5,
        "step_s_mean": 0.1,
        "blocked_s_slowest_rank_mean": 0.01,
        "write_s_slowest_rank_mean": 0.07,
        "stalls": 0,
        "drops": 0,
        "errors": [],
        "energy": [
            {"meter": "estimate:assumed", "estimate": True, "estimated_power_w_mean": 60.0},
            {"meter": "rapl:", "estimate": False, "power_w_mean": 50.0},
        ],
    }
    return found | changed


def test_a_result_is_read() -> None:
    run = runs.parse(json.dumps(content()), "x.json")
    assert (run.nodes, run.cores, run.cells, run.time_s) == (2, 4, 64 * 64 * 32, 2.5)
    assert (run.power_w, run.is_estimate, run.is_whole) == (50.0, False, True)
    assert run.resources.writers == 2
    assert not runs.parse(json.dumps(content(drops=1)), "x").is_whole
    assert runs.parse(json.dumps(content(energy=[])), "x").power_w is None
    assert (run.make_s, run.core_share, run.compression, run.sync) == (None,) * 4
    assert run.is_usable
    told = runs.parse(json.dumps(content(compression="none", sync=False, written_through=2)), "x")
    assert (told.compression, told.sync, told.is_usable) == ("none", False, False)
    assert runs.parse(json.dumps(content(core_share=0.2)), "x").core_share == 0.2
    making = content(dump_s_mean=0.3, blocked_s_mean=0.1)
    assert runs.parse(json.dumps(making), "x").make_s == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"grid": [1, 2]}, "three numbers"),
        ({"ranks": 7}, "7 ranks on 2 nodes"),
        ({"approach": "dc:4"}, "none of a node"),
        ({"wall_s": 0.1}, "no time"),
        ({"wall_s": "1"}, "not a number of seconds"),
        ({"step_s_mean": 0}, "not above 0"),
        ({"dumps": True}, "is not a count"),
        ({"output_every": 0}, "one every 0"),
        ({"dump_bytes": 0}, "dumps of 0 B"),
        ({"energy": [{"power_w_mean": -1}]}, "power_w_mean: -1 is not a number of watts"),
        ({"core_share": 20}, "core_share: 20 is not a share"),
        ({"sync": 1}, "sync: 1 has the wrong type"),
        ({"written_through": None}, "is not a count"),
    ],
)
def test_an_impossible_result_is_refused(changed: dict[str, object], message: str) -> None:
    with pytest.raises(ResultError, match=message):
        runs.parse(json.dumps(content(**changed)), "x.json")


scalars: Any = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)


@given(
    st.dictionaries(
        st.sampled_from(list(content())),
        scalars | st.lists(scalars, max_size=3) | st.dictionaries(st.text(max_size=5), scalars),
    )
)
def test_no_content_breaks_the_reading(changed: dict[str, object]) -> None:
    with contextlib.suppress(ResultError):
        runs.parse(json.dumps(content(**changed)), "x.json")


@given(st.text(max_size=100))
def test_no_text_breaks_the_reading(text: str) -> None:
    with contextlib.suppress(ResultError):
        runs.parse(text, "x.json")


def test_results_are_found_in_folders(tmp_path: Path) -> None:
    text = json.dumps(content())
    (tmp_path / "a" / "run").mkdir(parents=True)
    (tmp_path / "a" / "run" / "result.json").write_text(text)
    (tmp_path / "b.json").write_text(text)
    assert len(runs.read([tmp_path])) == 2
    assert len(runs.read([tmp_path / "a", tmp_path / "b.json"])) == 2
    (tmp_path / "c.jsonl").write_text(f"{text}\n{text}\n")
    assert len(runs.read([tmp_path])) == 4
    (tmp_path / "d.jsonl").write_text(f"{text}\nx\n")
    with pytest.raises(ResultError, match=r"d\.jsonl:2: is not JSON"):
        runs.read([tmp_path])
    (tmp_path / "empty").mkdir()
    with pytest.raises(ResultError, match="holds no result"):
        runs.read([tmp_path / "empty"])


def as_content(run: Run) -> dict[str, Any]:
    """A made-up run as `wattio hpcio run --json` would tell of it."""
    return content(
        approach=str(run.approach),
        ranks=run.nodes * run.cores,
        nodes=run.nodes,
        grid=[run.cells, 1, 1],
        steps=run.steps,
        output_every=run.output_every,
        dumps=run.dumps,
        dump_bytes=run.dump_bytes,
        wall_s=run.time_s,
        drain_s=0.0,
        step_s_mean=run.step_s,
        blocked_s_slowest_rank_mean=run.blocked_s,
        write_s_slowest_rank_mean=run.write_s,
        energy=[{"power_w_mean": run.power_w}],
    )


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    for name, all_ in (("fit", [*profile(), *written()]), ("held", written((2,)))):
        (tmp_path / name).mkdir()
        for at, run in enumerate(all_):
            # No two real runs take equally long.
            own = replace(run, time_s=run.time_s + 1e-9 * (at + 100 * (name == "held")))
            (tmp_path / name / f"{at}.json").write_text(json.dumps(as_content(own)))
    return tmp_path / "fit", tmp_path / "held"


def test_the_command_writes_a_platform_that_advice_reads(
    folders: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "platform.toml"
    fit, held = folders
    more = {"held_out": (held,), "idle_power": "400 W", "as_json": True}
    assert hpcio_calibrate.calibrate(results=(fit,), out=out, **more) == 0  # type: ignore[arg-type]
    told = json.loads(capsys.readouterr().out)
    assert told["is_good"]
    assert told["held_out"]["median_error"] < 0.03
    assert files.read_platform(out).build().nodes == 4
    assert hpcio_calibrate.calibrate(results=(fit,), out=out, held_out=(held,)) == 0
    text = capsys.readouterr().out
    for part in ("steps without output", "held out", "fastest first", "platform file"):
        assert part in text


def test_a_full_disk_leaves_the_platform_that_was_there(
    folders: tuple[Path, Path], tmp_path: Path, full_disk: None
) -> None:
    out = tmp_path / "platform.toml"
    out.write_bytes(b"the one of before")
    with pytest.raises(InputError, match=r"--out: .*: cannot be written: No space left"):
        hpcio_calibrate.calibrate(results=(folders[0],), out=out)
    assert out.read_bytes() == b"the one of before"


def test_bad_fits_end_with_1(folders: tuple[Path, Path], tmp_path: Path) -> None:
    fit, _ = folders
    for path in list(fit.glob("*.json"))[:10]:
        told = json.loads(path.read_text())
        path.write_text(json.dumps(told | {"step_s_mean": 5 * told["step_s_mean"]}))
    assert hpcio_calibrate.calibrate(results=(fit,), out=tmp_path / "platform.toml") == 1


def test_what_is_fitted_to_is_not_held_out(folders: tuple[Path, Path], tmp_path: Path) -> None:
    fit, held = folders
    again = tmp_path / "again"
    again.symlink_to(fit)
    out = tmp_path / "platform.toml"
    for both in (fit, fit / "0.json", again):
        with pytest.raises(InputError, match=r"0\.json is also among --results"):
            hpcio_calibrate.calibrate(results=(fit,), held_out=(held, both), out=out)
    assert not out.exists()


def test_runs_are_not_replaced_by_what_is_fitted_to_them(folders: tuple[Path, Path]) -> None:
    fit, held = folders
    for out in (fit / "3.json", held / "0.json"):
        before = out.read_bytes()
        with pytest.raises(InputError, match=r"--out: .*json is what is read; name another file"):
            hpcio_calibrate.calibrate(results=(fit,), held_out=(held,), out=out)
        assert out.read_bytes() == before


def test_copies_of_a_run_are_no_repetitions(folders: tuple[Path, Path], tmp_path: Path) -> None:
    """Intervals shrank with each copy, and of what was held out the fit knew the answer."""
    fit, held = folders
    out = tmp_path / "platform.toml"
    copies = tmp_path / "all.jsonl"
    copies.write_text(json.dumps(json.loads((fit / "3.json").read_text())) + "\n")
    with pytest.raises(InputError, match=r"3\.json and .*all\.jsonl:1 are one run: give it once"):
        hpcio_calibrate.calibrate(results=(fit, copies), out=out)
    with pytest.raises(InputError, match=r"all\.jsonl:1 is the run .*3\.json of --results"):
        hpcio_calibrate.calibrate(results=(fit,), held_out=(held, copies), out=out)
    assert not out.exists()


def test_bad_words_are_refused(folders: tuple[Path, Path], tmp_path: Path) -> None:
    fit, _ = folders
    out = tmp_path / "platform.toml"
    with pytest.raises(InputError, match="--idle-power"):
        hpcio_calibrate.calibrate(results=(fit,), out=out, idle_power="60 V")
    with pytest.raises(InputError, match="--out"):
        hpcio_calibrate.calibrate(results=(fit,), out=tmp_path / "no" / "p.toml")
