"""A meter that is closed by one thread while another reads is let go of once, by the last."""

from __future__ import annotations

import threading

import pytest
from wattio.meters import MeterLost
from wattio.meters.guard import Guard


def test_it_is_let_go_of_at_once_where_nobody_reads() -> None:
    released: list[str] = []
    guard = Guard("pdu", lambda: released.append(threading.current_thread().name))
    with guard.question():
        pass
    assert released == []
    guard.close()
    guard.close()
    assert released == [threading.current_thread().name]
    with pytest.raises(MeterLost, match="pdu: is closed"), guard.question():
        pass


def test_the_reader_lets_go_where_it_comes_last() -> None:
    released: list[str] = []
    guard = Guard("pdu", lambda: released.append(threading.current_thread().name))
    reading, closed = threading.Event(), threading.Event()

    def read() -> None:
        with guard.question():
            reading.set()
            closed.wait()

    reader = threading.Thread(target=read, name="reader")
    reader.start()
    reading.wait()
    guard.close()
    assert released == []
    closed.set()
    reader.join()
    assert released == ["reader"]


def test_what_the_question_raises_comes_through() -> None:
    guard = Guard("pdu", lambda: None)
    with pytest.raises(ZeroDivisionError), guard.question():
        raise ZeroDivisionError
    with guard.question():
        pass
