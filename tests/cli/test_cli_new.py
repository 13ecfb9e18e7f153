"""`wattio new`, and what is shipped found by name: in an empty folder, as a stranger works."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from wattio import shipped
from wattio.cli import main
from wattio.files import document
from wattio.kinds.fleet import schema as fleet
from wattio.kinds.measurement import schema as measurement


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def called(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(list(words))
    return int(ended.value.code or 0)


@pytest.mark.parametrize("example", shipped.examples())
def test_every_example_becomes_a_study_of_ones_own(
    example: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert called("new", "study", "mine", "--from", example) == 0
    told = capsys.readouterr().out
    for file in shipped.examples()[example]:
        made = document.read(Path("mine") / file.name)
        part = "" if file.stem == "study" else f"-{file.stem}"
        assert made.content["study"]["name"] == f"mine{part}"
        assert f"wattio run {example}" not in made.text
        assert f"results/{example}" not in made.text
        path = str(made.path) if part else "mine"
        assert f"wattio run {path}\n" in told
        assert called("check", path) == 0, capsys.readouterr().err


def test_every_folder_of_studies_is_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    """That of two clusters has two studies and no study.toml, and could not be copied."""
    folders = {path.name for path in shipped.STUDIES.iterdir() if path.is_dir()}
    assert shipped.examples().keys() == folders
    assert called("new", "study", "--list") == 0
    names = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert len(set(names)) == len(names)
    assert {name.partition("/")[0] for name in names} == folders
    # What is listed is what `wattio run` takes; one of two was listed twice, by no such name.
    for name in names:
        assert b"[study]" in shipped.study_file(name).read_bytes()


def test_every_name_that_is_listed_can_be_copied() -> None:
    """`two-clusters/arm.toml` was listed, and refused with the name of its folder."""
    for number, name in enumerate(shipped.named_studies()):
        assert called("new", "study", f"mine{number}", "--from", name) == 0
        copied = {path.name for path in Path(f"mine{number}").glob("*.toml")}
        assert (Path(name).name if "/" in name else "study.toml") in copied


def test_nothing_is_overwritten(capsys: pytest.CaptureFixture[str]) -> None:
    Path("mine").mkdir()
    Path("mine.toml").write_text("kept")
    assert called("new", "study", "mine") == 2
    assert called("new", "server", "mine") == 2
    assert capsys.readouterr().err.count("already exists") == 2
    assert not list(Path("mine").iterdir())
    assert Path("mine.toml").read_text() == "kept"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("study",), "a name is required"),
        (("server",), "a name is required, as in: wattio new server my-server"),
        (("study", "mine", "--from", "quickstar"), 'did you mean "quickstart"'),
        (("server", "mine", "--from", "smal"), 'did you mean "small"'),
        (("study", "a/b"), "does not exist"),
        (("study", "..."), "is not a valid name"),
        (("study", "naïve\x1b"), "is not a valid name"),
    ],
)
def test_what_cannot_be_made_is_told(
    words: tuple[str, ...], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert called("new", *words) == 2
    assert told in capsys.readouterr().err
    assert not list(Path().iterdir())


def test_servers_to_begin_from_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert called("new", "server", "--list") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["dorado6000", "small"]
    assert (
        lines[1].split(maxsplit=1)[1] == "small x86 server: 16 cores with C-states, 4 NVMe drives"
    )


def test_a_server_of_ones_own_is_simulated(capsys: pytest.CaptureFixture[str]) -> None:
    assert called("new", "server", "mine", "--from", "dorado6000") == 0
    assert called("check", "mine.toml") == 0
    assert "server description mine" in capsys.readouterr().out


def test_what_is_there_goes_before_what_is_shipped() -> None:
    assert shipped.study_file("quickstart") == shipped.STUDIES / "quickstart" / "study.toml"
    Path("quickstart").mkdir()
    Path("quickstart/study.toml").touch()
    assert shipped.study_file("quickstart") == Path("quickstart/study.toml")
    assert shipped.located("pgbench").is_file()
    Path("pgbench").write_text("")
    assert shipped.located("pgbench") == Path("pgbench")


def test_a_folder_that_holds_no_study_hides_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`wattio run target` in a checkout that was built found cargo's folder, and no study in it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "target").mkdir()
    assert shipped.study_file("target") == shipped.STUDIES / "target" / "study.toml"
    (tmp_path / "target" / "study.toml").touch()
    assert shipped.study_file("target") == Path("target") / "study.toml"
    (tmp_path / "unknown").mkdir()
    assert shipped.study_file("unknown") == Path("unknown") / "study.toml"


@pytest.mark.parametrize(
    "path",
    [
        "studies/quickstart/study.toml",
        "traces/pgbench.wtrace",
        "io-approaches/platforms/nancy.toml",
    ],
)
def test_paths_of_a_checkout_lead_to_what_is_shipped(path: str) -> None:
    assert shipped.located(path).is_file()


def test_no_scale_promises_what_another_one_does() -> None:
    """A trial without a hard disk had the title of the study of hard disks and frequencies."""
    scales = 0
    for path in sorted(shipped.STUDIES.rglob("*.toml")):
        source = document.read(path)
        kind = source.content.get("study", {}).get("kind")
        schema = {"measurement": measurement, "fleet": fleet}.get(kind)
        if schema is None:
            continue
        named = list(source.content.get("scale", {}))
        titles = [schema.from_document(source, name).study.description for name in (None, *named)]
        assert len(set(titles)) == len(titles), path
        assert all(titles), path
        scales += len(named)
    assert scales >= 16


@pytest.mark.parametrize("path", ["../data/traces/pgbench.wtrace", "", "no/such", "/quickstart"])
def test_other_paths_stay_what_they_are(path: str) -> None:
    assert shipped.located(path) == Path(path)


def test_a_study_of_an_unknown_name_is_told_with_those_that_there_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert called("run", "nosuch") == 2
    assert "studies by name are arm-cluster" in capsys.readouterr().err


def test_a_full_disk_leaves_nothing_and_is_told_with_the_path(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Empty files were left, and nobody was told where."""

    def full(path: Path, text: str, **_: object) -> int:
        with path.open("w") as file:
            file.write(text[:10])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_text", full)
    assert called("new", "study", "mine") == 1
    assert capsys.readouterr().err == "wattio: mine/day.toml: No space left on device\n"
    assert called("new", "server", "mine") == 1
    assert capsys.readouterr().err == "wattio: mine.toml: No space left on device\n"
    assert not list(Path().iterdir())
