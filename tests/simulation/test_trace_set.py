"""Folders of traces as loads of a study."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest
from places import ROOT
from wattio import _core
from wattio.errors import InputError, ResultError
from wattio.files import document
from wattio.kinds.simulation import execute, schema, trace_set
from wattio.kinds.simulation.folder import SimulationFolder
from wattio.kinds.simulation.trace_set import TraceSetEntry
from wattio.simulator.native import NativeSimulator

from simulation.test_study_end_to_end import called

SHIPPED = ROOT / "traces" / "pgbench.wtrace"
STUDY = """[study]
name = "laws"
kind = "simulation"
[traces]  # how to use them
servers = ["small", "dorado6000"]
rate_scales = [1, 20]
pieces = 2
stretch = "100 s"
[[policy]]
name = "pacer"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A long trace, one of two requests in 2 s, and a note."""
    (tmp_path / "long.wtrace").symlink_to(SHIPPED)
    rows = ["128166372003061629,usr,0,Read,0,4096,100", "128166372023061629,usr,0,Write,0,512,90"]
    (tmp_path / "short.csv").write_text("\n".join(rows) + "\n")
    (tmp_path / "README.txt").write_text("where these come from\n")
    return tmp_path


def study_of(text: str, tmp_path: Path) -> schema.SimulationStudy:
    return schema.from_document(document.parse(tmp_path / "study.toml", text))


def test_every_trace_is_played_on_every_server_at_every_rate(folder: Path) -> None:
    study = study_of(trace_set.with_folder(STUDY, folder), folder)
    # Two pieces of the long one, one of the short one: (2 + 1) x 2 servers x 2 rates.
    assert len(study.load) == 12
    names = [entry.name for entry in study.load]
    assert {"long.wtrace x20 small p2", "short.csv x1 dorado6000"} <= set(names)
    second = next(entry for entry in study.load if entry.name == "long.wtrace x20 small p2")
    assert second.duration == 100.0
    assert 100.0 < second.start < 160.0
    short = next(entry for entry in study.load if entry.name == "short.csv x20 small")
    assert short.time_scale == pytest.approx(50.0), "stretched from 2 s to 100 s"
    assert short.rate_scale == 20


def test_what_is_no_trace_is_left_out_and_named(folder: Path) -> None:
    entry = TraceSetEntry(servers=["small"])
    assert trace_set.expand(entry, folder).left_out == ["README.txt"]


def test_a_name_of_two_lines_is_told_in_one(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It went to the terminal as it was, and looked like a line of ours."""
    (folder / "a\nerror: all is lost\x1b[2J").touch()
    (folder / "study.toml").write_text(STUDY)
    assert called("run", str(folder / "study.toml"), "--dry-run", "--traces", str(folder)) == 0
    told = r"not traces, left out: README.txt, a\x0aerror: all is lost\x1b[2J"
    assert f"{told}, study.toml\n" in capsys.readouterr().err


def test_a_damaged_trace_is_left_out_with_what_is_wrong(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was called no trace, among the notes."""
    with (folder / "damaged.csv").open("w") as file:
        file.write((folder / "short.csv").read_text() + "cut off,usr\n")
    (folder / "nothing.csv").touch()
    found = trace_set.expand(TraceSetEntry(servers=["small"]), folder)
    assert found.left_out == ["README.txt", "nothing.csv"]
    (told,) = found.unusable
    assert told.startswith("damaged.csv: msr trace, record 3 (line 3, ")
    (folder / "study.toml").write_text(STUDY)
    words = ("run", str(folder / "study.toml"), "--dry-run", "--traces")
    assert called(*words, str(folder)) == 0
    assert f"left out: {told}\n" in capsys.readouterr().err
    assert called(*words, str(folder / "nosuch")) == 2
    assert f"--traces {folder / 'nosuch'}: is not a folder" in capsys.readouterr().err


def test_a_folder_is_put_into_the_study_once(folder: Path) -> None:
    once = trace_set.with_folder(STUDY, folder)
    assert trace_set.with_folder(once, folder) == once
    assert "# how to use them" in once
    with pytest.raises(InputError, match=r"no table \[traces\]"):
        trace_set.with_folder("[study]\n", folder)


@pytest.mark.parametrize("name", ["traces 🐦", 'of "old"', "a\\b", "a\nb"])
def test_any_name_of_a_folder_can_be_put_into_a_study(name: str, tmp_path: Path) -> None:
    text = trace_set.with_folder(STUDY, tmp_path / name)
    named = document.parse(tmp_path / "study.toml", text).content["traces"]["folder"]
    assert named == str(tmp_path / name)


def test_a_folder_whose_name_is_not_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="its name must be text in UTF-8"):
        trace_set.with_folder(STUDY, tmp_path / os.fsdecode(b"old-\xff"))


SHORT = STUDY.replace("[1, 20]", "[1]").replace('"small", "dorado6000"', '"small"')


@pytest.fixture
def begun(folder: Path) -> SimulationFolder:
    """A study that was begun with `--traces`; nothing of it has run."""
    (folder / "long.wtrace").unlink()
    study = folder / "study.toml"
    study.write_text(SHORT)
    simulator = NativeSimulator()
    plan = execute.prepare(document.read(study), simulator, folder)
    return SimulationFolder.create(plan, folder / "results", datetime(2026, 1, 2, tzinfo=UTC))


def test_a_study_of_a_folder_of_traces_goes_on(begun: SimulationFolder, folder: Path) -> None:
    words = ["--resume", str(begun.path), "--no-report"]
    study = str(folder / "study.toml")
    assert called("run", study, "--traces", str(folder), *words, "--dry-run") == 0
    assert called("run", study, *words, "--dry-run") == 0
    assert called("run", *words) == 0
    assert begun.complete()
    assert called("run", study, "--traces", str(folder / "results"), *words) == 2


@pytest.mark.parametrize(
    ("old", "new"),
    [("[traces]", "[traces] # other"), ("pieces = 2", "pieces = 1"), ("[traces]", "")],
)
def test_a_changed_study_of_a_folder_of_traces_does_not_go_on(
    old: str, new: str, begun: SimulationFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    study = begun.study_source().path
    study.write_text(study.read_text().replace(old, new))
    assert called("run", "--resume", str(begun.path)) == 2
    assert "has changed since" in capsys.readouterr().err


def test_a_study_that_is_no_longer_text_has_changed(begun: SimulationFolder) -> None:
    begun.study_source().path.write_bytes(b"\xff")
    with pytest.raises(ResultError, match="has changed since"):
        begun.unchanged_source()


def test_a_folder_of_traces_is_for_simulations(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert called("run", "arm-cluster", "--traces", str(tmp_path)) == 2
    assert "--traces is for studies of kind simulation" in capsys.readouterr().err


def test_a_folder_without_traces_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    text = trace_set.with_folder(STUDY, tmp_path / "empty")
    with pytest.raises(InputError, match=r"traces\.folder: .* holds no readable trace"):
        study_of(text, tmp_path)


def test_without_a_folder_a_study_plays_its_own_loads(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="at least one load"):
        study_of(STUDY, tmp_path)
    load = '[[load]]\nname = "own"\nserver = "small"\ntrace = "own.wtrace"\n'
    assert [entry.name for entry in study_of(STUDY + load, tmp_path).load] == ["own"]


def test_names_that_begin_alike_stay_apart(folder: Path) -> None:
    """Two traces that had 24 characters in common could not be in one study."""
    for part in ("a", "b"):
        (folder / f"production-database-2024-{part}.csv").symlink_to(folder / "short.csv")
    (folder / "short csv").symlink_to(folder / "short.csv")
    (folder / "short-csv").symlink_to(folder / "short.csv")
    servers = []
    for part in ("old", "new"):
        (folder / part).mkdir()
        path = folder / part / "server.toml"
        path.write_text(_core.built_in_servers()["small"])
        servers.append(str(path))
    text = STUDY.replace('"small", "dorado6000"', ", ".join(f'"{path}"' for path in servers))
    text = text.replace("rate_scales = [1, 20]", "rate_scales = [1, 1.0000001, 20]")
    names = [entry.name for entry in study_of(trace_set.with_folder(text, folder), folder).load]
    assert len(set(names)) == len(names) == (2 + 5) * 2 * 3
    assert len([name for name in names if name.startswith("production-databa")]) == 2 * 2 * 3
    assert any(name.startswith("long.wtrace x20 server-") for name in names)
    # Further traces do not rename those there are.
    (folder / "another.csv").symlink_to(folder / "short.csv")
    more = [entry.name for entry in study_of(trace_set.with_folder(text, folder), folder).load]
    assert set(names) < set(more)
