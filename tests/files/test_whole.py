"""Files that appear whole: what was there stays until then, with its mode and its links."""

from __future__ import annotations

from pathlib import Path

import pytest
from wattio.files.whole import whole_file, write_whole


def test_what_is_new_takes_the_place_of_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    for text in ("one", "another \u00e9"):
        write_whole(path, text)
        assert path.read_text(encoding="utf-8") == text
    assert list(tmp_path.iterdir()) == [path]


def test_it_is_not_seen_before_its_end(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_text("before")
    with whole_file(path) as part:
        part.write_text("after")
        assert path.read_text() == "before"
    assert path.read_text() == "after"


@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_after_an_error_all_is_as_before(
    tmp_path: Path, begun: bool, error: type[BaseException]
) -> None:
    path = tmp_path / "x.toml"
    path.write_text("before")
    with pytest.raises(error), whole_file(path) as part:  # noqa: PT012 (the error is its end)
        if begun:
            part.write_text("half")
        raise error
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_nothing_to_move_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), whole_file(tmp_path / "x.toml"):
        pass


def test_a_file_keeps_its_mode_and_a_link_leads_to_it_still(tmp_path: Path) -> None:
    path, link = tmp_path / "shared.toml", tmp_path / "link.toml"
    path.write_text("before")
    path.chmod(0o640)
    link.symlink_to(path.name)
    write_whole(link, "after")
    assert link.is_symlink()
    assert path.read_text() == "after"
    assert path.stat().st_mode & 0o777 == 0o640


def test_a_full_disk_is_told_of_the_file_that_was_asked_for(tmp_path: Path) -> None:
    """Its error names no file at all, and one of the part would name what nobody knows."""
    path = tmp_path / "x.toml"
    for error in (OSError(28, "full"), OSError(28, "full", str(tmp_path / ".x.toml.part"))):
        with pytest.raises(OSError, match="full") as raised, whole_file(path):
            raise error
        assert raised.value.filename == str(path)
