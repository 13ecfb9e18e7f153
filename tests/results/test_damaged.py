"""Result folders that were damaged: each command says which file, in one line."""

from __future__ import annotations

import copy
import itertools
import json
import os
import random
import shutil
import socket
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
import wattio
from governor import governed_fake
from measuring import made_folder
from wattio import cli
from wattio.errors import WattioError
from wattio.results.catalog import Catalog
from wattio.results.runs import WHOLE, Recorded, Run, Verdict

SIMULATION = """
[study]
name = "tiny"
kind = "simulation"

[[load]]
name = "a"
pattern = "Seq_W"
pressure = 0.05
server = "small"
duration = "1 s"

[[policy]]
name = "ondemand"
"""

FLEET = """
[study]
name = "fleet"
kind = "fleet"
duration = "1 h"
batch = 2

[[group]]
name = "g"
count = 2
server = "small"
day = { pressure_median = 0.05 }

[[policy]]
name = "ondemand"
"""


def called(*arguments: object) -> object:
    with pytest.raises(SystemExit) as ended:
        cli.main([*map(str, arguments)])
    return ended.value.code


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    place = tmp_path_factory.mktemp("whole")
    found = {}
    for name, text in (("tiny", SIMULATION), ("fleet", FLEET)):
        (place / f"{name}.toml").write_text(text)
        assert not called(
            "run", place / f"{name}.toml", "--results", place / "r", "--no-report", "--json"
        )
        (found[name],) = (place / "r" / name).iterdir()
    found["made"] = made_folder.write(place / "m", made_folder.smaller(made_folder.STUDY))
    return found


def _samples(folder: Path) -> None:
    for path in (folder / "samples").iterdir():
        path.write_bytes(b"\x00\xff" * 50)


@pytest.mark.parametrize("command", ["report", "recompute", "compare", "run --resume"])
@pytest.mark.parametrize(
    ("kind", "damage", "said"),
    [
        ("tiny", _samples, ".parquet: cannot be read: "),
        ("fleet", _samples, ".parquet"),
        ("tiny", lambda at: (at / "catalog.sqlite").write_bytes(b""), "it is empty"),
        ("tiny", lambda at: (at / "inputs.json").write_text("[]"), "is not a JSON object"),
        ("tiny", lambda at: (at / "inputs.json").write_bytes(b"\xff"), "is not text in UTF-8"),
        ("fleet", lambda at: (at / "inputs.json").write_text("{}"), 'inputs.json: has no "'),
    ],
)
def test_damage_is_one_line_that_names_the_file(
    command: str,
    kind: str,
    damage: Callable[[Path], object],
    said: str,
    whole: dict[str, Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = tmp_path / "r"
    shutil.copytree(whole[kind], folder)
    damage(folder)
    capsys.readouterr()
    places = [folder, folder] if command == "compare" else [folder]
    code = called(*command.split(), *places)
    err = capsys.readouterr().err
    assert (code, err.count("\n")) == (2, 1), err
    assert said in err
    assert str(folder) in err


WRONG: list[Any] = [None, 7, -1.5, "x", [], {}, True, [None], {"x": 7}]
"""What stands in place of a value; where it is of the right type after all, no harm is done."""

DAMAGED = 3


def places(content: Any, at: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:  # noqa: ANN401 (of JSON)
    """Where a document holds something, at any depth; of lists, the ends."""
    if isinstance(content, dict):
        entries: list[tuple[str | int, Any]] = list(content.items())
    elif isinstance(content, list):
        entries = [(index, content[index]) for index in {0, len(content) - 1} if content]
    else:
        return
    for key, value in entries:
        yield (*at, key)
        yield from places(value, (*at, key))


def damaged(content: Any, draw: random.Random) -> tuple[Any, str]:  # noqa: ANN401 (of JSON)
    """A document in which a key is missing or holds something else; and what was done."""
    content = copy.deepcopy(content)
    *way, last = draw.choice(list(places(content)))
    holder = content
    for key in way:
        holder = holder[key]
    if draw.random() < 0.3:
        del holder[last]
        return content, f"without {[*way, last]}"
    holder[last] = draw.choice(WRONG)
    return content, f"{[*way, last]} = {holder[last]!r}"


def documents(folder: Path) -> list[Path]:
    """What wattio wrote as JSON; of raw files, one iteration's."""
    raw = sorted(folder.glob("raw/*.json")) + sorted(folder.glob("raw/*/iteration.json"))
    return [folder / "machine.json", folder / "inputs.json", *raw[:1]]


@pytest.mark.parametrize("command", ["report", "recompute", "compare", "open"])
@pytest.mark.parametrize("kind", ["tiny", "fleet", "made"])
def test_keys_that_are_missing_or_of_a_wrong_type_are_told_with_their_file(
    command: str,
    kind: str,
    whole: dict[str, Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Each was a traceback in a file of its own: KeyError, TypeError, AttributeError."""
    draw = random.Random(f"{command} {kind}")
    for number in range(DAMAGED):
        folder = tmp_path / str(number) / "r"
        shutil.copytree(whole[kind], folder)
        path = documents(folder)[number % 3]
        content, done = damaged(json.loads(path.read_text(encoding="utf-8")), draw)
        path.write_text(json.dumps(content), encoding="utf-8")
        capsys.readouterr()
        assert_told(command, folder, f"{path.name}: {done}", capsys)


def assert_told(
    command: str, folder: Path, done: str, capsys: pytest.CaptureFixture[str]
) -> tuple[int, str]:
    """Whether a command does its work, or says in one line what is wrong; its code and words."""
    capsys.readouterr()
    if command == "open":
        try:
            found = wattio.open(folder)
            assert found.summary is not None
            assert all(found.table(name) is not None for name in found.tables())
        except WattioError as error:
            code, err = 2, f"{error}\n"
        else:
            code, err = 0, ""
    else:
        places_of = [folder, folder] if command == "compare" else [folder]
        ended = called(command, *places_of)
        code = ended if isinstance(ended, int) else 0
        err = capsys.readouterr().err
    shown = f"{done}: {err}"
    assert code in (0, 1, 2), shown
    assert "internal error" not in err, shown
    if code == 2:
        assert err.count("\n") == 1, shown
        assert str(folder) in err, shown
    return code, err


TABLES = ("runs", "iterations", "phases", "verdicts", "metrics")


def changed(folder: Path, statement: str) -> None:
    """Do something to a catalog that wattio does not."""
    with sqlite3.connect(folder / "catalog.sqlite", isolation_level=None) as connection:
        connection.execute("PRAGMA foreign_keys = OFF")
        connection.execute(statement)
    connection.close()


def damages(catalog: Path) -> list[str]:
    """Statements that each take one thing from a catalog: a table, a column, a row, a metric."""
    found = []
    with sqlite3.connect(catalog) as connection:
        for table in TABLES:
            found += [f"DROP TABLE {table}", f"DELETE FROM {table}"]
            columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
            found += [f"ALTER TABLE {table} RENAME COLUMN {name} TO gone" for name in columns]
            rows = connection.execute(f"SELECT rowid FROM {table}").fetchall()
            found += [f"DELETE FROM {table} WHERE rowid = {row}" for (row,) in rows[:3]]
        for (name,) in connection.execute("SELECT DISTINCT name FROM metrics"):
            found.append(f"DELETE FROM metrics WHERE name = '{name}'")
        for column in ("settings", "facts"):
            for text in ("", "[]", "{}", '{"policy": 7}', '{"plf": "x"}', '{"policy": "x"}'):
                found.append(f"UPDATE runs SET {column} = '{text}'")
    connection.close()
    return found


@pytest.fixture(scope="module")
def results(whole: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A result of each kind; what a daemon left has its catalog derived."""
    rows = governed_fake.windows(60)
    governed = governed_fake.write(tmp_path_factory.mktemp("governed") / "r", rows)
    assert not called("report", governed)
    return {**whole, "governed": governed}


@pytest.mark.parametrize(
    ("kind", "statement", "said"),
    [
        ("tiny", "DELETE FROM verdicts", "table verdicts: has none of iteration "),
        ("tiny", "DELETE FROM metrics", "table metrics: has none of iteration "),
        ("tiny", "DELETE FROM metrics WHERE name = 'power_w_mean'", '): has no "power_w_mean": '),
        ("tiny", "DELETE FROM metrics WHERE name = 'energy_rest_j'", '): has no "energy_rest_j": '),
        ("tiny", "DELETE FROM runs", 'table runs: has no "a/'),
        ("tiny", "DELETE FROM iterations", "table iterations: has no "),
        ("tiny", "UPDATE runs SET facts = '{}'", 'table runs: facts of a/native: has no "policy"'),
        ("tiny", "UPDATE verdicts SET verdict = 'x'", "allowed: VALID, WARN, INVALID"),
        ("tiny", "UPDATE runs SET subject = 'b'", '"a/native" is of subject and condition "b/'),
        ("tiny", "DROP TABLE phases", "cannot be read: no such table: phases"),
        ("fleet", "DELETE FROM verdicts", "table verdicts: has none of iteration "),
        ("made", "DELETE FROM phases", 'table phases: has no "'),
        ("made", "UPDATE runs SET system = 'b'", 'is of the system "b"; those of the study are'),
        ("governed", "DELETE FROM verdicts", "table verdicts: has none of iteration "),
    ],
)
def test_what_a_catalog_lacks_is_told_with_its_table(
    kind: str,
    statement: str,
    said: str,
    results: dict[str, Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Rows that were deleted were an internal error: KeyError and an identity."""
    folder = tmp_path / "r"
    shutil.copytree(results[kind], folder)
    changed(folder, statement)
    code, err = assert_told("report", folder, statement, capsys)
    assert code == 2
    assert f"{folder / 'catalog.sqlite'}: " in err
    assert said in err


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        *itertools.product(["report", "recompute", "compare", "open"], ["tiny", "fleet", "made"]),
        # It is not compared at all.
        *itertools.product(["report", "recompute", "open"], ["governed"]),
    ],
)
def test_whatever_is_taken_from_a_catalog_is_told_in_one_line(
    command: str,
    kind: str,
    results: dict[str, Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    draw = random.Random(f"{command} {kind}")
    for number, statement in enumerate(
        draw.sample(damages(results[kind] / "catalog.sqlite"), 2 * DAMAGED)
    ):
        folder = tmp_path / str(number) / "r"
        shutil.copytree(results[kind], folder)
        changed(folder, statement)
        assert_told(command, folder, statement, capsys)


PLACES = {
    "tiny": ["machine.json", "catalog.sqlite", "inputs.json", "study.toml", "raw/*.json", "lock"],
    "fleet": ["resolved.toml", "samples/*.parquet"],
    "made": ["raw/*/iteration.json", "samples/*"],
    "governed": ["raw/windows.jsonl", "raw/summary.json", "derived.json", "samples/*.parquet"],
}


@pytest.mark.parametrize("command", ["report", "recompute", "compare", "open", "run --resume"])
@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind, names in PLACES.items() for name in names]
)
def test_a_pipe_in_place_of_a_file_is_refused_with_its_name(
    kind: str,
    name: str,
    command: str,
    results: dict[str, Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Whoever read it waited for somebody to write, for ever."""
    folder = tmp_path / "r"
    shutil.copytree(results[kind], folder)
    place = min(folder.glob(name), default=folder / name)
    place.unlink(missing_ok=True)
    os.mkfifo(place)
    capsys.readouterr()
    if command == "open":
        with pytest.raises(WattioError, match=rf"^{place}: is a pipe \(FIFO\), not a file$"):
            wattio.open(folder)
        return
    assert called(*command.split(), *[folder] * (2 if command == "compare" else 1)) == 2
    assert capsys.readouterr().err == f"wattio: {place}: is a pipe (FIFO), not a file\n"


def test_what_is_no_result_folder_is_not_searched(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`wattio report /` went through the whole system, and told of the first device in it."""
    (tmp_path / "a").mkdir()
    os.mkfifo(tmp_path / "a" / "pipe")
    assert called("report", tmp_path) == 2
    told = f"wattio: {tmp_path}: is not a result folder: it has no usable machine.json\n"
    assert capsys.readouterr().err == told


def test_a_folder_in_place_of_machine_json_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was taken for a simulation's."""
    (tmp_path / "machine.json").mkdir()
    assert called("report", tmp_path) == 2
    told = f"wattio: {tmp_path / 'machine.json'}: is a folder, not a file\n"
    assert capsys.readouterr().err == told


def test_a_link_to_a_device_is_refused_and_a_socket_is_nobodys_file(
    whole: dict[str, Path], tmp_path: Path
) -> None:
    folder = tmp_path / "r"
    shutil.copytree(whole["tiny"], folder)
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(folder / "raw" / "s"))
    assert wattio.open(folder).summary
    (folder / "raw" / "loop").symlink_to(folder)
    assert wattio.open(folder).summary
    (folder / "raw" / "x").symlink_to("/dev/zero")
    with pytest.raises(WattioError, match=r"/raw/x: is a device, not a file$"):
        wattio.open(folder)


@pytest.mark.parametrize("value", ["9e999", "-9e999", "1e308"])
@pytest.mark.parametrize(
    ("kind", "command"),
    [
        (kind, command)
        for kind in ("tiny", "fleet", "made", "governed")
        for command in ("report", "compare", "open")
        # What a governor did is not compared at all.
        if (kind, command) != ("governed", "compare")
    ],
)
def test_a_metric_that_is_no_finite_number_is_told_with_its_name(
    kind: str,
    command: str,
    value: str,
    results: dict[str, Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It was an OverflowError where a count was taken, or an error of the figures' axes."""
    folder = tmp_path / "r"
    shutil.copytree(results[kind], folder)
    changed(folder, f"UPDATE metrics SET value = {value}")
    code, err = assert_told(command, folder, value, capsys)
    assert (code, ", not a finite number of at most 1e+100: the file" in err) == (2, True), err
    assert f"{folder / 'catalog.sqlite'}: table metrics: " in err


def test_a_metric_that_could_not_be_computed_is_absent(tmp_path: Path) -> None:
    """NaN was "NOT NULL constraint failed", and infinity was kept."""
    run = Run("a", "s", "native", {})
    found = {"a_w": (float("nan"), "W"), "b_w": (float("inf"), "W"), "c_w": (1.0, "W")}
    with Catalog(tmp_path / "catalog.sqlite") as catalog:
        catalog.add_runs([run])
        ended = Recorded("k", run, 0, 0, 0, (Verdict("VALID", ""),), {WHOLE: found})
        catalog.add(ended, [], "simulation")
        (read,) = catalog.iterations()
    assert read.metrics == {"c_w": (1.0, "W")}


def test_a_fleet_without_its_reference_is_told(
    whole: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "r"
    shutil.copytree(whole["fleet"], folder)
    changed(folder, """UPDATE runs SET facts = '{"policy": "x", "plf": 0.1}'""")
    code, err = assert_told("recompute", folder, "no native", capsys)
    assert (code, "table runs: has none of the policy native" in err) == (2, True), err


@pytest.mark.parametrize(
    ("taken", "said"),
    [
        ("* EXCLUDE (state) FROM '{}'", 'has no "state": the file is damaged'),
        ("* FROM '{}' LIMIT 0", "holds no window: the file is damaged"),
    ],
)
def test_what_samples_lack_is_told_with_their_file(
    taken: str,
    said: str,
    whole: dict[str, Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = tmp_path / "r"
    shutil.copytree(whole["tiny"], folder)
    for path in sorted((folder / "samples").glob("*.parquet")):
        beside = tmp_path / path.name
        duckdb.sql(f"COPY (SELECT {taken.format(path)}) TO '{beside}' (FORMAT parquet)")
        beside.replace(path)
    code, err = assert_told("report", folder, taken, capsys)
    assert (code, said in err) == (2, True), err
    assert f"{folder}/samples/" in err
