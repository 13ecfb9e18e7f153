"""What is named is opened only if it is a file, and read only up to a size."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import Field
from wattio.errors import InputError, ResultError
from wattio.files import document
from wattio.files.named import open_file, read_bytes, read_once
from wattio.meters import parquet
from wattio.results import samples


def test_only_files_are_opened(tmp_path: Path) -> None:
    """Opening a FIFO waited for a writer, and all of /dev/zero was read."""
    os.mkfifo(tmp_path / "fifo")
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(tmp_path / "socket"))
        for name, kind in {
            tmp_path / "fifo": r"pipe \(FIFO\)",
            tmp_path / "socket": "socket",
            tmp_path: "folder",
            Path("/dev/zero"): "device",
        }.items():
            with pytest.raises(OSError, match=f"is a {kind}, not a file"):
                open_file(name)
            with pytest.raises(OSError, match="not a file"):
                read_once(name, 10)
            with pytest.raises(InputError, match=f"^{name}: cannot be read: is a {kind}, not a"):
                document.read(name)
    with pytest.raises(FileNotFoundError):
        open_file(tmp_path / "nosuch")


def test_a_file_is_read_up_to_a_size(tmp_path: Path) -> None:
    path = tmp_path / "large"
    path.write_bytes(b"x" * ((1 << 20) + 1))
    assert len(read_bytes(path)) == (1 << 20) + 1
    with pytest.raises(OSError, match="is larger than 1 MiB, the most that is read"):
        read_bytes(path, 1 << 20)
    path.write_bytes("\ufeffa = 1\r\nb = 2".encode())
    assert document.text_of(path) == "a = 1\nb = 2"


def test_a_pipe_without_a_name_is_read_once() -> None:
    """A shell's `<(...)`, as in `wattio import fio <(ssh host cat fio.json)`."""
    reader, writer = os.pipe()
    os.write(writer, b"text")
    os.close(writer)
    try:
        path = Path(f"/proc/self/fd/{reader}")
        with pytest.raises(OSError, match="is a pipe"):
            read_bytes(path)
        assert read_once(path, 10) == b"text"
    finally:
        os.close(reader)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("count = 'x'", "'x': must be a whole number"),
        ("count = 0", "0: must be greater than 0"),
        ("name = 5", "5: must be a text"),
        ("name = true", "true: must be a text"),
        ("is_on = 'yes'", "'yes': must be true or false"),
        ("listed = 5", "5: must be a list: [...]"),
        ("listed = { x = 1 }", "must be a list of tables: [[listed]] in place of [listed]"),
        ("some = []", "must have at least 1 item"),
        ("label = '/'", "'/': allowed are 1 to 8 of a to z, _ -, blanks, beginning with a to z"),
        ("table = 5", "5: must be a table: { key = ... }"),
        ("inner = 5", "5: must be a table: { key = ... }"),
    ],
)
def test_a_wrong_value_is_told_in_words(text: str, says: str) -> None:
    """A table was "a valid dictionary or instance of" a class that only we know."""

    class Inner(document.Strict):
        x: int = 1

    class Outer(document.Strict):
        count: int = Field(default=1, gt=0)
        name: str = ""
        is_on: bool = False
        listed: list[int] = Field(default_factory=list)
        some: list[int] = Field(default=[1], min_length=1)
        label: str = Field(default="", pattern="^[a-z][a-z_ -]{0,7}$")
        table: dict[str, int] = Field(default_factory=dict)
        inner: Inner = Inner()

    key = text.partition(" ")[0]
    with pytest.raises(InputError) as raised:
        document.validate(Outer, document.parse(Path("a.toml"), text))
    assert str(raised.value) == f"a.toml:1: {key}: {says}"


def test_known_names_do_not_run_into_each_other() -> None:
    """Runs of measurements are called like "seq/disk, 1 client"."""
    told = document.nearest("seq/disk", ["seq/disk, 1 client", "idle"])
    assert told.endswith('allowed: "seq/disk, 1 client", "idle"')
    assert document.nearest("x", ["a", "b"]) == "allowed: a, b"


@pytest.mark.parametrize("read", [parquet.read, samples.read])
def test_what_is_no_parquet_file_is_told_in_words(
    tmp_path: Path, read: Callable[[Path], object]
) -> None:
    for content in (b"x", b"x" * 100):
        path = tmp_path / "a.parquet"
        path.write_bytes(content)
        with pytest.raises(ResultError) as told:
            read(path)
        assert str(told.value) == f"{path}: cannot be read: is not a Parquet file, or was cut"
