"""Folders of dumps and configurations that are damaged in any way: told, and nothing worse."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from wattio import cli
from wattio.errors import InputError, ResultError
from wattio.hpcio import Config, blocks
from wattio.hpcio.assembly import fields
from wattio.hpcio.inspection import inspect
from wattio.hpcio.manifest import parse as parse_manifest

from hpcio.made_dumps import Made

DAMAGES = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(st.characters(), max_size=20)
    | st.sampled_from(["f4", ")cmm,", "48=}=-=", "\ud800", "[/red]", 10**4000, math.inf]),
    lambda one: st.lists(one, max_size=3) | st.dictionaries(st.text(max_size=5), one, max_size=3),
    max_leaves=5,
)


@pytest.fixture
def store(tmp_path: Path) -> Made:
    """Step 1 is whole, of two writers; of step 2 one has left its note."""
    made = Made(tmp_path / "dumps", 2)
    for step, process in ((1, 0), (1, 1), (2, 0)):
        data = np.arange(6.0)
        block = blocks.make("u", process, data.shape, "f8", (12,), (6 * process,))
        made.part(step, process, (block, data))
    return made


def places(content: Any) -> Iterator[tuple[Any, Any]]:  # noqa: ANN401 (JSON)
    """Every value within: what holds it, and its key there."""
    if isinstance(content, dict | list):
        items = content.items() if isinstance(content, dict) else enumerate(content)
        for key, value in list(items):
            yield content, key
            yield from places(value)


@contextlib.contextmanager
def damaged(path: Path, at: int, value: object) -> Iterator[None]:
    """One value somewhere within a file of JSON is another one."""
    before = path.read_text()
    content = json.loads(before)
    found = list(places(content))
    holder, key = found[at % len(found)]
    holder[key] = value
    path.write_text(json.dumps(content))
    try:
        yield
    finally:
        path.write_text(before)


def looked_at(output: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By the command, as a table and as JSON."""
    for more in ([], ["--json"]):
        with pytest.raises(SystemExit) as ended:
            cli.main(["hpcio", "inspect", str(output), *more])
        assert ended.value.code in (0, 1)
        capsys.readouterr().out.encode()


@DAMAGES
@given(at=st.integers(0, 10**6), value=JSON)
def test_any_value_of_a_manifest(
    store: Made, capsys: pytest.CaptureFixture[str], at: int, value: object
) -> None:
    path = store.output / "dump-00000001" / "manifest.json"
    with damaged(path, at, value):
        looked_at(store.output, capsys)
        with contextlib.suppress(InputError, ResultError):
            fields(store.output, 1)


@DAMAGES
@given(at=st.integers(0, 10**6), value=JSON)
def test_any_value_of_a_note(
    store: Made, capsys: pytest.CaptureFixture[str], at: int, value: object
) -> None:
    path = store.output / "dump-00000002.partial" / "part-000000.json"
    with damaged(path, at, value):
        looked_at(store.output, capsys)


@DAMAGES
@given(name=st.sampled_from(["manifest.json", "part-000000.json"]), content=st.binary())
def test_any_bytes_for_a_manifest_or_a_note(store: Made, name: str, content: bytes) -> None:
    (path,) = store.output.glob(f"*/{name}")
    before = path.read_bytes()
    for damaged in (content, before[: len(content)], before + content):
        path.write_bytes(damaged)
        assert len(inspect(store.output)) == 2
    path.write_bytes(before)


@pytest.mark.parametrize("size", [0, 1, 100, 800, 2000])
def test_parts_that_are_cut_off(store: Made, size: int) -> None:
    path = store.output / "dump-00000001" / "part-000001.h5"
    path.write_bytes(path.read_bytes()[:size])
    assert "part-000001.h5: u/000001 cannot be read" in inspect(store.output)[0].problems[0]


def test_folders_where_files_should_be(store: Made, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("manifest.json", "part-000001.h5"):
        path = store.output / "dump-00000001" / name
        path.unlink()
        path.mkdir()
        looked_at(store.output, capsys)
    (store.output / "dump-00000002.partial" / "part-000001.json").mkdir()
    (store.output / "dump-00000003").mkdir()
    (store.output / "dump-00000004").touch()
    looked_at(store.output, capsys)
    assert [dump.step for dump in inspect(store.output)] == [1, 2, 3]


def test_a_dataset_that_claims_to_be_huge_is_not_read(store: Made) -> None:
    path = store.output / "dump-00000001" / "part-000001.h5"
    with h5py.File(path, "a") as file:
        del file["u/000001"]
        file.create_dataset("u/000001", (2**45,), "f8", chunks=(1024,))
    assert "its shape is (35184372088832,)" in inspect(store.output)[0].problems[0]


def test_a_huge_field_is_told_in_words() -> None:
    block = {"name": "u", "rank": 0, "shape": [1], "dtype": "<f4"}
    for extent in ([10**4000], [2**63], [1] * 33, [-1]):
        text = json.dumps(
            {"wattio_hpcio": 1, "step": 1, "approach": "tp", "ranks": [0]}
            | {"parts": [{"file": "part-000000.h5", "ranks": [0], "blocks": [block]}]}
        ).replace('"shape": [1]', f'"shape": {extent}')
        with pytest.raises(ResultError, match=r"parts\.0\.blocks\.0\.shape"):
            parse_manifest(text)


def test_names_that_look_like_markup(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "[" / "red]"
    output.mkdir(parents=True)
    Made(output, 1).note(1, 0, error="[/x] \ud800 [bold]full")
    looked_at(output, capsys)
    with pytest.raises(SystemExit):
        cli.main(["hpcio", "inspect", str(output)])
    told = capsys.readouterr().out
    assert "[/red]" in told.replace("\n", "")
    assert "[bold]full" in told


TOML = st.sampled_from(["approach", "writers", "buffer", "output", "compression", "sync", "x"])


@given(
    st.text() | st.dictionaries(TOML, JSON, max_size=4).map(lambda keys: "[hpcio]\n" + lines(keys))
)
def test_any_text_for_a_configuration(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.getbasetemp() / "any.toml"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    with contextlib.suppress(InputError):
        assert isinstance(Config.read(path), Config)


def lines(keys: dict[str, object]) -> str:
    return "".join(f"{key} = {json.dumps(value)}\n" for key, value in keys.items())


@pytest.mark.parametrize("dtype", [")cmm,", "48=}=-="])
def test_types_that_numpy_cannot_parse(dtype: str) -> None:
    with pytest.raises(InputError, match="variable u"):
        blocks.make("u", 0, (1,), dtype)
