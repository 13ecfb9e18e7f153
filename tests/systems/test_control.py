"""A program's status over its control socket."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wattio.errors import SystemFailed
from wattio.systems import control


@contextmanager
def answering(path: Path, answer: bytes) -> Iterator[list[bytes]]:
    """One who answers one question; what it was asked."""
    asked: list[bytes] = []
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()

        def serve() -> None:
            connection, _ = listener.accept()
            with connection, connection.makefile("rb") as lines:
                asked.append(lines.readline())
                connection.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield asked
        thread.join(10)


def test_the_status_is_what_was_answered(tmp_path: Path) -> None:
    line = b'{"answer":"status","status":{"policy":"pacer","counts":{"windows":3}}}\n'
    with answering(tmp_path / "c", line + b"more") as asked:
        found = control.inspect(tmp_path / "c")
    assert found == {"policy": "pacer", "counts": {"windows": 3}}
    assert asked == [b'{"op":"inspect"}\n']


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (b"", "the answer has no line end"),
        (b'{"answer":"status","status":{}}', "the answer has no line end"),
        (b"no\n", "the answer is not JSON"),
        (b'{"status":{"power":NaN}}\n', "NaN is not a number"),
        (b"[1]\n", r"is not a status: b'\[1\]"),
        (b'{"answer":"refused","message":"no"}\n', "is not a status: .*refused"),
    ],
)
def test_what_is_no_status_is_told(tmp_path: Path, answer: bytes, message: str) -> None:
    with answering(tmp_path / "c", answer), pytest.raises(SystemFailed, match=message):
        control.inspect(tmp_path / "c")


def test_nobody_at_the_socket_is_told(tmp_path: Path) -> None:
    with pytest.raises(SystemFailed, match=r"/c: no status: No such file"):
        control.inspect(tmp_path / "c")


@given(st.binary())
def test_no_bytes_break_it(line: bytes) -> None:
    with suppress(SystemFailed):
        assert isinstance(control.status_of(line, "x"), dict)
