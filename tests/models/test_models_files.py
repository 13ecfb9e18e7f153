"""Platform and application files, and `wattio advise io` as a user calls it."""

from __future__ import annotations

import contextlib
import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wattio import cli
from wattio.errors import InputError
from wattio.files import document
from wattio.hpcio import damaris
from wattio.hpcio.config import Config
from wattio.models import approach as approaches
from wattio.models import files
from wattio.models.approach import parse, resources

STUDY = Path(__file__).parents[2] / "studies" / "io-approaches"

APPLICATION = """\
[application]
name = "app"
iterations = 100
output_every = 10
output = "1 GiB"
"""
GIB = 1 << 30
PLATFORM = """\
[platform]
name = "small"
nodes = 8
cores_per_node = 4
[power]
max = { value = "200 W", low = "180 W", high = "220 W", origin = "measured", how = "a meter" }
idle_share = { value = 0.5, origin = "measured" }
blocked_share = { value = 0.75, low = 0.5, high = 1.0, origin = "assumed" }
[storage]
client = { value = "50 MB/s", origin = "measured" }
total = { value = "400 MB/s", low = "100 MB/s", high = "20 GB/s", origin = "assumed" }
contention = { value = 0.05, origin = "published" }
free_writers = { value = 4, origin = "assumed" }
[transfer]
copy_per_gib = { value = "0.5 s", origin = "measured" }
send_per_gib = { value = "0 s", origin = "assumed" }
[compute]
application = "app"
base = { value = "8 s", origin = "measured" }
cores = { points = [{ count = 1, speedup = 1.0 }, { count = 4, speedup = 3.5 }] }
nodes = { sigma = { value = 0.01, origin = "assumed" } }
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "app.toml").write_text(APPLICATION)
    (tmp_path / "platform.toml").write_text(PLATFORM)
    return tmp_path


def advise(*more: str) -> int:
    words = ["advise", "io", "--application", "app.toml", "--platform", "platform.toml", *more]
    with pytest.raises(SystemExit) as left:
        cli.main(words)
    return int(left.value.code or 0)


def test_a_file_is_written_as_it_is_read(place: Path) -> None:
    file = files.read_platform(place / "platform.toml")
    again = document.validate(files.PlatformFile, document.parse(place / "again", file.text()))
    assert again == file
    numbers = {one.name: one for one in file.build().parameters}
    assert numbers["client_bytes_s"].value == 50e6
    assert numbers["power_max_w"].low == 180
    assert numbers["cores_speedup_4"].origin == "measured"
    assert numbers["free_writers"].value == 4


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"50 MB/s"', '"50 MB"', "client.*data rate"),
        ('"50 MB/s"', "50", "client.*data rate"),
        ('low = "180 W"', 'low = "210 W"', "max.*does not contain the value"),
        ('low = "180 W", ', "", "max.*give both low and high"),
        ('low = "180 W"', 'low = "0 W"', "above 0 W"),
        ('origin = "published"', 'origin = "guessed"', "contention.*guessed"),
        ("idle_share = { value = 0.5", "idle_share = { value = 1.5", "idle_share"),
        ("count = 4", "count = 1", "rising counts"),
        ("sigma = {", "sgma = {", "sigma"),
        ("nodes = 8", "nodes = 0", "nodes"),
        ('"8 s"', '"0 s"', "base"),
        ('value = "8 s"', 'value = "8 s", low = "0.0000000000001 s", high = "9 s"', "base_s: the"),
        ('"50 MB/s"', '"0.0000000000001 B/s"', "client_bytes_s: the interval"),
        ("[compute]\n", '[compute]\npoints = "x"\n', "unknown key"),
        ("[transfer]", "[transfers]", "did you mean"),
    ],
)
def test_what_is_wrong_is_named(place: Path, old: str, new: str, message: str) -> None:
    path = place / "platform.toml"
    assert old in PLATFORM
    path.write_text(PLATFORM.replace(old, new, 1))
    with pytest.raises(InputError, match=message) as caught:
        files.read_platform(path)
    assert str(caught.value).startswith(str(path))


@pytest.mark.parametrize(
    ("observed", "message"),
    [
        ('approach = "dx"\nenergy = "1 kJ"', 'approach "dx" is not known'),
        ('approach = "dn:5000"\nenergy = "1 kJ"', "needs a number from 1 to 4096"),
        ('approach = "tp"', "no result of the run"),
        ('approach = "tp"\nenergy = "1 W"', "energy"),
        ('approach = "tp"\nhidden = true\noutput_every = 200', "is 200, but there are 100"),
    ],
)
def test_observed_runs_are_checked(place: Path, observed: str, message: str) -> None:
    rest = 'iterations = 100\noutput = "1 MB"\norigin = "measured"\nerror = 0.1\n'
    if "output_every" not in observed:
        rest += "output_every = 10\n"
    path = place / "platform.toml"
    path.write_text(f"{PLATFORM}\n[[observed]]\n{observed}\n{rest}")
    with pytest.raises(InputError, match=message):
        files.read_platform(path)


tables: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["value", "low", "high", "origin", "sigma"]), inner)
    ),
    max_leaves=6,
)


@given(
    part=st.sampled_from(["platform", "power", "storage", "transfer", "compute", "observed"]),
    key=st.sampled_from(["max", "client", "base", "cores", "nodes", "name", "total", "approach"]),
    content=tables,
)
def test_no_content_breaks_the_reading(part: str, key: str, content: object) -> None:
    whole = tomllib.loads(PLATFORM)
    inside = whole.setdefault(part, {})
    inside[key] = content
    given_text = document.Document(Path("platform.toml"), "", whole)
    with contextlib.suppress(InputError):
        document.validate(files.PlatformFile, given_text).build()


@given(st.text(max_size=300))
def test_no_text_breaks_the_reading(text: str) -> None:
    for model in (files.PlatformFile, files.ApplicationFile):
        with contextlib.suppress(InputError):
            document.validate(model, document.parse(Path("x.toml"), text))


def test_json_holds_the_ranking_and_a_configuration(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert advise("--json", "--draws", "2000", "--approaches", "tp, dc:1,dn:3") == 0
    found = json.loads(capsys.readouterr().out)
    assert [one["rank"] for one in found["approaches"]] == [1, 2, 3]
    assert sum(one["first_share"] for one in found["approaches"]) == pytest.approx(1)
    for one in found["approaches"]:
        for name in ("time_s", "power_w_mean", "energy_j"):
            assert one[name]["low"] <= one[name]["estimate"] <= one[name]["high"]
    assert found["inputs"]["published"] == ["contention"]
    assert found["measure_next"][0]["parameter"] == "storage_bytes_s"
    untold = [
        one["approach"]
        for one in found["approaches"][1:]
        if one["energy_ratio_to_first"]["low"] <= 1 <= one["energy_ratio_to_first"]["high"]
    ]
    assert found["energy_untold_from_first"] == untold
    winner = found["approaches"][0]["approach"]
    assert tomllib.loads(found["configuration"]["hpcio_toml"])["hpcio"]["approach"] in winner


def test_the_table_says_how_sure_it_is(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert advise("--draws", "1000", "--objective", "edp:2") == 0
    text = capsys.readouterr().out
    for part in ("predicted, not measured", "is the best in", "To be surer", "<architecture>"):
        assert part in text
    # Of its runs the file tells no times: whoever has them is told of the line.
    assert "run at two frequencies of output or more, a straight line" in " ".join(text.split())


def test_known_runs_that_the_draws_miss_are_told(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with (place / "platform.toml").open("a") as file:
        for approach, seconds, error in (("tp", 500, 1), ("dc:1", 501, 1)):
            file.write(
                f'[[observed]]\napproach = "{approach}"\niterations = 100\noutput_every = 10\n'
                f'output = "1 GiB"\ntime = "{seconds} s"\norigin = "measured"\nerror = {error}\n'
            )
    assert advise("--draws", "1000", "--json") == 0
    told = json.loads(capsys.readouterr().out)["observed"]
    assert told["runs"] == 2
    assert told["inside_95_percent"] == 2 - len(told["outside"])
    assert advise("--draws", "1000") == 0
    text = capsys.readouterr().out
    assert f"Of 2 known runs of the platform file, {told['inside_95_percent']} lie inside" in text
    assert text.count("outside: ") == len(told["outside"])
    assert text.count("reversed: ") == len(told["reversed"])
    assert "agree" not in text


def test_where_a_straight_line_is_the_better_guide_is_told(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Only `hpcio calibrate` did."""
    with (place / "platform.toml").open("a") as file:
        for approach, every in (("tp", 10), ("tp", 20), ("dc:1", 10)):
            file.write(
                f'[[observed]]\napproach = "{approach}"\niterations = 100\n'
                f'output_every = {every}\noutput = "1 GiB"\ntime = "500 s"\n'
                'origin = "measured"\nerror = 1\n'
            )
    assert advise("--draws", "1000", "--json") == 0
    assert json.loads(capsys.readouterr().out)["straight_line_possible"] == ["tp"]
    assert advise("--draws", "1000") == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "Times of tp are known at several frequencies of output: for the time at" in text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--objective", "joy"], "not an objective"),
        (["--approaches", "dc:9"], "none of a node"),
        (["--approaches", "tp,dn:5000"], "needs a number from 1 to 4096"),
        (["--approaches", "dn:15,dn:7"], "are the same on 8 nodes"),
        (["--approaches", "tp,tp"], "at most once"),
        (["--draws", "10"], "--draws"),
        (["--output-every", "101"], "--output-every"),
    ],
)
def test_bad_words_end_with_2(
    place: Path, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert advise(*words) == 2
    assert message in capsys.readouterr().err


def test_configurations_of_each_approach() -> None:
    for text, cores, nodes in (("tp", 0, 0), ("dc:2", 2, 0), ("dn:7", 0, 4)):
        approach = parse(text)
        xml = approaches.damaris_xml(approach, 32)
        assert f'<dedicated cores="{cores}" nodes="{nodes}"/>' in xml
        assert resources(approach, 32, 4).dedicated_nodes == nodes
        assert Config(**damaris.parse(xml, 32)).approach_text == text
        table = tomllib.loads(approaches.hpcio_toml(approach))["hpcio"]
        assert table["approach"] == approach.kind
        assert table.get("writers") == (2 if text == "dc:2" else None)
        assert table.get("ratio") == (7 if text == "dn:7" else None)


@pytest.mark.parametrize("text", ["tp", "dc:2", "dn:7"])
def test_our_middleware_reads_the_configuration(text: str, tmp_path: Path) -> None:
    path = tmp_path / "hpcio.toml"
    path.write_text(approaches.hpcio_toml(parse(text)))
    assert Config.read(path).approach_text == text


@pytest.mark.parametrize("name", ["nancy", "rennes"])
def test_the_document_s_clusters_can_be_read(name: str) -> None:
    file = files.read_platform(STUDY / "platforms" / f"{name}.toml")
    machine = file.build()
    run = files.read_application(STUDY / "cm1.toml")
    assert machine.application == run.name
    assert all(entry.origin == "published" for entry in file.observed)
    assert all(one.how for one in machine.numbers)


@pytest.mark.parametrize(
    ("text", "dump", "mib"),
    [
        ("dc:1", 2 * GIB, 512),  # 256 MiB for each of 8 nodes, with a reserve
        ("dc:1", 1 * GIB, 256),
        ("dn:3", 2 * GIB, 2048),  # 1 GiB for each of 2 nodes that write
        ("dn:3", 200 * GIB, 131072),
        ("tp", 200 * GIB, None),  # blocks may come one after the other
    ],
)
def test_the_buffer_holds_a_dump(text: str, dump: int, mib: int | None) -> None:
    """It was 256 MiB for every dump, and our middleware refused larger blocks."""
    approach = parse(text)
    used = resources(approach, 8, 4)
    buffer = approaches.buffer_bytes(used, dump)
    table = tomllib.loads(approaches.hpcio_toml(approach, buffer))["hpcio"]
    assert table.get("buffer") == (None if mib is None else f"{mib} MiB")
    xml = approaches.damaris_xml(approach, 8, buffer)
    assert damaris.parse(xml, 8)["buffer"] == f"{min((mib or 256) << 20, damaris.BUFFER_MAX)} B"


@pytest.mark.parametrize("size", ["2 GiB", "200 GiB"])
def test_the_buffer_is_that_of_the_winner(
    size: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "app.toml").write_text(APPLICATION.replace("1 GiB", size))
    words = ("--draws", "1000", "--approaches", "dc:1")
    assert advise(*words, "--json") == 0
    table = tomllib.loads(json.loads(capsys.readouterr().out)["configuration"]["hpcio_toml"])
    needed = "512 MiB" if size == "2 GiB" else "32768 MiB"
    assert table["hpcio"]["buffer"] == needed
    assert advise(*words) == 0
    text = capsys.readouterr().out
    assert f'buffer = "{needed}"' in text
    # What Damaris cannot have was an error of its own.
    assert ("Damaris has no larger buffer" in text) == (size == "200 GiB")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "{ sigma = { value = 0.01,",
            "{ sigma = { value = -0.5,",
            r":21: compute\.nodes\.sigma: -0\.5 gives no speedup on 8; allowed: above -0\.143",
        ),
        (
            "{ count = 4, speedup = 3.5 }",
            "{ count = 3, speedup = 2.8 }",
            r":20: compute\.cores\.points: the speedup over cores was given from 1 to 3, but 4",
        ),
        (
            'low = "180 W"',
            'low = "0 W"',
            r":6: power\.max: reaches down to 0 W",
        ),
    ],
)
def test_what_the_models_cannot_use_has_a_place_and_check_says_so(
    place: Path, old: str, new: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert old in PLATFORM
    (place / "platform.toml").write_text(PLATFORM.replace(old, new, 1))
    assert advise() == 2
    assert re.search(f"platform.toml{message}", capsys.readouterr().err)
    with pytest.raises(SystemExit) as left:
        cli.main(["check", "platform.toml"])
    assert left.value.code == 2
    assert re.search(f"platform.toml{message}", capsys.readouterr().err)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("base", "objective", "what"), [("1e306 s", "time", "energy"), ("1e60 s", "edp:9", "edp:9")]
)
def test_what_is_too_large_for_a_number_is_refused(
    base: str, objective: str, what: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was ranked as "nan", between warnings of NumPy."""
    text = PLATFORM.replace('base = { value = "8 s"', f'base = {{ value = "{base}"')
    (place / "platform.toml").write_text(text)
    assert advise("--draws", "1000", "--objective", objective) == 2
    assert f"tp: {what} is too large to be computed" in capsys.readouterr().err
