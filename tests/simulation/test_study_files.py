"""Study and profile files: what is read, and what is refused with file, line and key."""

from __future__ import annotations

from pathlib import Path

import pytest
from wattio import _core
from wattio.errors import InputError
from wattio.files import document, toml_text
from wattio.kinds.simulation import execute, plan, promises
from wattio.results.runs import Run, Setting
from wattio.simulator import profile
from wattio.simulator.native import NativeSimulator, Simulator

from simulation.study_fake import FakeSimulator

STUDY = """\
[study]
name = "small"
kind = "simulation"
seeds = [1, 2]

[[load]]
name = "steady"
server = "dorado6000"
pattern = "Rand_RW"
pressure = 0.1
duration = "40 s"

[[policy]]
name = "pacer"
label = "PACER"
settings = { plf = 0.2 }

[[sweep]]
policy = "PACER"
setting = "plf"
values = [0.1, 0.2]
"""

PROFILE = """\
[profile]
name = "day"
represent = "12.5 s"

[[segment]]
span = "1 h"
pattern = "Rand_RW"
pressure = 0.04

[[segment]]
span = "3 h"
pattern = "Seq_W"
pressure = 0.5
io_bytes = "64 KiB"
"""


def made(tmp_path: Path, text: str, simulator: Simulator | None = None) -> plan.SimulationPlan:
    path = tmp_path / "study.toml"
    path.write_text(text)
    return execute.prepare(document.read(path), simulator or FakeSimulator())


def refused(tmp_path: Path, text: str) -> str:
    with pytest.raises(InputError) as caught:
        made(tmp_path, text)
    return str(caught.value).removeprefix(str(tmp_path))


def test_plan_adds_native_and_leaves_out_the_sweep_point_that_is_the_policy(
    tmp_path: Path,
) -> None:
    found = made(tmp_path, STUDY)
    names = list(dict.fromkeys(iteration.run.name for iteration in found.iterations))
    assert names == ["steady/native", "steady/PACER", "steady/PACER plf=0.1"]
    assert [iteration.seed for iteration in found.iterations[:2]] == [1, 2]
    assert len({iteration.identity for iteration in found.iterations}) == 6
    assert found.iterations[-1].run.plf == 0.1


def test_resolved_study_has_every_default_and_is_itself_a_study(tmp_path: Path) -> None:
    (tmp_path / "day.toml").write_text(PROFILE)
    text = STUDY + '[[load]]\nname = "day"\nserver = "small"\nprofile = "day.toml"\n'
    first = made(tmp_path, text)
    resolved = toml_text.dump(first.resolved)
    assert 'window = "0.5 s"' in resolved
    assert 'warmup = "10.0 s"' in resolved
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    again = made(elsewhere, resolved)
    assert toml_text.dump(again.resolved) == resolved
    assert [i.identity for i in again.iterations] == [i.identity for i in first.iterations]


def test_identity_follows_content_not_place(tmp_path: Path) -> None:
    text = STUDY.replace('pattern = "Rand_RW"\npressure = 0.1\n', 'trace = "a.bin"\n')
    folders = [tmp_path / name for name in ("one", "two")]
    for folder in folders:
        folder.mkdir()
        (folder / "a.bin").write_bytes(b"same")
    first, second = (made(folder, text).short_hash for folder in folders)
    assert first == second
    (folders[1] / "a.bin").write_bytes(b"other")
    assert made(folders[1], text).short_hash != first


@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("pressure = 0.1", "pressure = {}", "load[1].pressure: {} {}above 0 and at most 1"),
        ("pressure = 0.1", "iops = {}", "load[1].iops: {} {}above 0"),
        ("seeds", "plf = {}\nseeds", "study.plf: {} {}above 0 and at most 10"),
        ("plf = 0.2", "plf = {}", "policy[1].settings.plf: {} {}a finite number"),
    ],
)
def test_what_is_no_number_is_refused_by_key(
    old: str, new: str, expected: str, value: str, tmp_path: Path
) -> None:
    assert old in STUDY
    message = refused(tmp_path, STUDY.replace(old, new.format(value), 1))
    said = "is not a number that can be used; allowed is "
    assert expected.format(value, said) in message


def test_a_load_may_name_a_power_model(tmp_path: Path) -> None:
    native = NativeSimulator()
    model = tmp_path / "power-model.toml"
    model.write_text(_core.assumed_power_model())
    text = STUDY.replace("[[policy]]", 'power_model = "power-model.toml"\n\n[[policy]]', 1)
    plain, found = made(tmp_path, STUDY, native), made(tmp_path, text, native)
    assert found.short_hash != plain.short_hash
    assert found.iterations[0].request.power_model == str(model)
    described = found.servers[f"dorado6000 with {model}"]
    execute = described["cores"]["static_power"]
    assert _core.parse_quantity(execute, "power") == pytest.approx(0.4 + 0.8)
    assert plain.servers["dorado6000"]["cores"]["static_power"] == "2.5 W"
    resolved = toml_text.dump(found.resolved)
    again = made(tmp_path, resolved, native)
    assert toml_text.dump(again.resolved) == resolved
    assert again.short_hash == found.short_hash
    # What the file says decides the result.
    model.write_text(_core.assumed_power_model().replace("watts = 6.0", "watts = 7.0"))
    assert made(tmp_path, text, native).short_hash != found.short_hash
    model.write_text(_core.assumed_power_model().replace("watts = 6.0", "wats = 7.0"))
    with pytest.raises(InputError) as caught:
        made(tmp_path, text, native)
    message = str(caught.value)
    assert "load[1].power_model" in message
    assert "power-model.toml: line" in message


def test_a_trace_may_say_how_it_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("1,R,0,512\n")
    columns = "time=0:s,op=1,lba=2:bytes,size=3:bytes"
    text = STUDY.replace('pattern = "Rand_RW"\npressure = 0.1\n', 'trace = "a.csv"\n')
    plain = made(tmp_path, text)
    assert "columns" not in plain.iterations[0].request.load
    described = text.replace('trace = "a.csv"', f'trace = "a.csv"\ncolumns = "{columns}"')
    found = made(tmp_path, described)
    assert found.iterations[0].request.load["columns"] == columns
    assert found.short_hash != plain.short_hash
    resolved = toml_text.dump(found.resolved)
    assert toml_text.dump(made(tmp_path, resolved).resolved) == resolved
    message = refused(tmp_path, described.replace("op=1,", ""))
    assert "load[1]" in message
    assert "columns: op is missing; an example:" in message
    message = refused(tmp_path, described.replace("columns =", 'format = "spc"\ncolumns ='))
    assert "format and columns exclude each other" in message
    message = refused(tmp_path, STUDY.replace("pressure", 'format = "spc"\npressure'))
    assert "format cannot be used with pattern" in message


def test_a_load_may_have_bounds_of_its_own(tmp_path: Path) -> None:
    """Every load of a study was held to a bound on its mean, whatever its users ask for."""
    alone = STUDY[: STUDY.index("[[sweep]]")]
    text = alone.replace("[[policy]]", 'bounds = ["p99 20%", "mean 2 ms window"]\n\n[[policy]]')
    plain, found = made(tmp_path, alone), made(tmp_path, text)
    assert plain.iterations[0].request.bounds == ()
    told = ("p99 20% run", "mean 2 ms window")
    assert {iteration.request.bounds for iteration in found.iterations} == {told}
    assert {promises.told(i.run) for i in plain.iterations} == {"mean 20% run"}
    run = found.iterations[-1].run
    assert promises.told(run) == " and ".join(told)
    assert promises.kind(run) == "p99 and mean"
    assert promises.latency(run) == ("latency_us_p99", "p99 latency")
    identities = [{iteration.identity for iteration in one.iterations} for one in (plain, found)]
    assert not identities[0] & identities[1]
    resolved = toml_text.dump(found.resolved)
    assert toml_text.dump(made(tmp_path, resolved).resolved) == resolved
    assert "bounds" not in toml_text.dump(plain.resolved)


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ('["p101 20%"]', '"p101 20%" is not a bound: "p101" is not a statistic'),
        ('["mean"]', '"mean" is not a bound'),
        ('"p99 20%"', "load[1].bounds: "),
        ("[]", "load[1].bounds: "),
        (str(4 * ["mean 20%"]).replace("'", '"'), "load[1].bounds: "),
    ],
)
def test_bounds_that_are_none_are_refused(tmp_path: Path, bounds: str, message: str) -> None:
    text = STUDY.replace("[[policy]]", f"bounds = {bounds}\n\n[[policy]]", 1)
    told = refused(tmp_path, text)
    assert "/study.toml:13: load[1].bounds" in told
    assert message in told


def test_a_point_that_two_sweeps_have_is_run_once(tmp_path: Path) -> None:
    """The second one ended the study with what the catalog said of it."""
    again = '[[sweep]]\npolicy = "PACER"\nsetting = "plf"\nvalues = [0.1, 0.3]\n'
    twice = 'loads = ["steady", "steady"]\n'
    found = made(tmp_path, f"{STUDY}{twice}\n{again}")
    names = [(one.run.condition, one.seed) for one in found.iterations]
    assert len(names) == len(set(names))
    assert ("PACER plf=0.3", 1) in names


def test_a_point_of_a_sweep_is_not_called_as_a_policy_is(tmp_path: Path) -> None:
    other = '[[policy]]\nname = "ondemand"\nlabel = "PACER plf=0.1"\n'
    told = refused(tmp_path, STUDY.replace("[[sweep]]", f"{other}\n[[sweep]]"))
    assert 'sweep[1].values: "PACER plf=0.1" is the label of a policy' in told


def test_a_sweep_of_what_bounds_take_the_place_of_is_refused(tmp_path: Path) -> None:
    text = STUDY.replace("[[policy]]", 'bounds = ["p99 20%"]\n\n[[policy]]', 1)
    told = refused(tmp_path, text)
    assert '/study.toml:22: sweep[1].setting: changes nothing on load "steady"' in told


def test_an_oracle_on_another_statistic_is_held_to_it() -> None:
    settings: dict[str, Setting] = {"plf": 0.1, "statistic": "p99"}
    run = Run("steady", "small", "oracle", settings, {"policy": "oracle", "plf": 0.1})
    assert not promises.are_given(run)  # As results of earlier versions have it.
    assert promises.told(run) == "p99 10% run"
    other = Run("steady", "small", "pacer", {}, {"policy": "pacer", "plf": 0.1})
    assert promises.told(other) == "mean 10% run"


def test_phases_become_a_request(tmp_path: Path) -> None:
    text = STUDY.replace(
        'pattern = "Rand_RW"\npressure = 0.1\nduration = "40 s"\n',
        'phases = [\n  { span = "20 s", pattern = "Rand_RW", pressure = 0.03 },\n'
        '  { span = "20 s", pattern = "Rand_RW", pressure = 1.0, io_bytes = "32 KiB" },\n]\n',
    )
    found = made(tmp_path, text)
    assert found.iterations[0].request.load == {
        "phases": [
            {"span_s": 20.0, "pattern": "Rand_RW", "pressure": 0.03},
            {"span_s": 20.0, "pattern": "Rand_RW", "pressure": 1.0, "io_bytes": 32768.0},
        ]
    }
    resolved = toml_text.dump(found.resolved)
    assert toml_text.dump(made(tmp_path, resolved).resolved) == resolved


def test_a_trace_has_no_warmup_of_its_own_accord(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(b"trace")
    text = STUDY.replace('pattern = "Rand_RW"\npressure = 0.1\n', 'trace = "a.bin"\n')
    assert made(tmp_path, text).iterations[0].request.warmup_s == 0
    assert made(tmp_path, STUDY).iterations[0].request.warmup_s == 10


def test_repetitions_are_draws_of_their_own(tmp_path: Path) -> None:
    found = made(tmp_path, STUDY.replace("seeds = [1, 2]", "seeds = [1]\nrepetitions = 3"))
    seeds = [iteration.request.seed for iteration in found.iterations[:3]]
    assert seeds[0] == 1
    assert len(set(seeds)) == 3


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "pressure =",
            "presure =",
            '/study.toml:10: load[1].presure: unknown key; did you mean "pressure"?',
        ),
        ("seeds = [1, 2]", "seeds = [1, 1]", "/study.toml:4: study.seeds: 1 is listed twice"),
        ("[[policy]]", "[policy]", "/study.toml:13: policy: must be a list of tables: [[policy]]"),
        ('"40 s"', "40", "/study.toml:11: load[1].duration: 40 has no unit"),
        ('"40 s"', '"40 parsecs"', "/study.toml:11: load[1].duration: "),
        ('duration = "40 s"', "", "/study.toml:6: load[1]: a pattern has no end"),
        (
            '"Rand_RW"',
            '"Rand_WR"',
            '/study.toml:9: load[1].pattern: "Rand_WR" is not known; did you mean',
        ),
        ("0.1\n", "1.5\n", "/study.toml:10: load[1].pressure: 1.5: must be less"),
        (
            '"simulation"',
            '"simulatoin"',
            "/study.toml:3: study.kind: 'simulatoin' is not known; did you",
        ),
        (
            'server = "dorado6000"',
            'server = "nonesuch"',
            "/study.toml:8: load[1].server: no server",
        ),
        ('name = "pacer"', 'name = "pacr"', "/study.toml:13: policy[1]: unknown policy 'pacr'"),
        ("{ plf", "{ pfl", "/study.toml:13: policy[1]: pacer has no setting 'pfl'"),
        (
            'policy = "PACER"',
            'policy = "PACR"',
            "/study.toml:19: sweep[1].policy: no policy is named",
        ),
        ('setting = "plf"', 'setting = "pfl"', "/study.toml:20: sweep[1].setting: pacer has no"),
        (
            'pattern = "Rand_RW"\npressure = 0.1\n',
            'profile = "days.toml"\n',
            "/study.toml:9: load[1].profile: ",
        ),
        ("[study]\n", "[study\n", "/study.toml: is not valid TOML: "),
        ("[[load]]", "[[laod]]", '/study.toml:6: laod: unknown key; did you mean "load"?'),
        ('name = "small"\n', "", "/study.toml:1: study.name: is required"),
    ],
)
def test_refusals_name_line_and_key(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert refused(tmp_path, STUDY.replace(old, new, 1)).startswith(message)


def test_each_wrong_key_is_told_once(tmp_path: Path) -> None:
    text = STUDY.replace("seeds = [1, 2]", "seeds = 3").replace("pressure =", "presure =")
    lines = refused(tmp_path, text.replace('"40 s"', '"40 parsecs"')).splitlines()
    where = [line.rpartition("study.toml:")[2].split(": ")[:2] for line in lines]
    assert where == [
        ["10", "load[1].presure"],
        ["4", "study.seeds"],
        ["11", "load[1].duration"],
    ]
    many = STUDY + "".join(f"x{number} = {number}\n" for number in range(12))
    assert refused(tmp_path, many).splitlines()[8:] == ["(and 4 more)"]


def test_a_load_has_one_source(tmp_path: Path) -> None:
    message = refused(tmp_path, STUDY.replace("pressure", 'trace = "x"\npressure'))
    assert "give exactly one of pattern, trace, profile, phases; got pattern and trace" in message


def test_keys_of_another_source_are_refused(tmp_path: Path) -> None:
    message = refused(tmp_path, STUDY.replace("pressure", "rate_scale = 2.0\npressure"))
    assert "rate_scale cannot be used with pattern" in message


def test_names_are_taken_once(tmp_path: Path) -> None:
    again = '[[policy]]\nname = "oracle"\nlabel = "PACER"\n'
    assert '"PACER" is already taken by another policy' in refused(tmp_path, STUDY + again)


def test_profile_totals(tmp_path: Path) -> None:
    path = tmp_path / "day.toml"
    path.write_text(PROFILE)
    day = profile.load(path)
    assert day.span_s == 4 * 3600
    assert day.simulated_s == 25
    assert day.compression == 576
    assert day.segments[0].pattern == profile.PATTERNS["Rand_RW"]
    assert day.segments[1].pattern.io_bytes == 65536


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("pressure = 0.5", "", "/day.toml:10: segment[2]: needs just one of pressure and iops"),
        ('"64 KiB"', "65536", "/day.toml:14: segment[2].io_bytes: 65536 has no unit"),
        ("represent", "represents", "/day.toml:3: profile.represents: unknown key; did you mean"),
        ('"3 h"', '"0 h"', "/day.toml:11: segment[2].span: "),
    ],
)
def test_profile_refusals(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = tmp_path / "day.toml"
    path.write_text(PROFILE.replace(old, new))
    with pytest.raises(InputError) as caught:
        profile.load(path)
    assert str(caught.value).removeprefix(str(tmp_path)).startswith(message)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nowhere\.toml: cannot be read"):
        document.read(tmp_path / "nowhere.toml")
