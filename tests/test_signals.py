"""Signals that ask a program to end, and those that it was started to ignore."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator

import pytest
from wattio.executors.interrupts import undisturbed
from wattio.signals import ENDING, ended_by_signals, handled, noted


@pytest.fixture(params=ENDING)
def number(request: pytest.FixtureRequest) -> Iterator[signal.Signals]:
    """A signal to end, whose handling a test may change."""
    chosen = signal.Signals(request.param)
    before = signal.getsignal(chosen)
    yield chosen
    signal.signal(chosen, before)


def test_a_signal_is_handled_for_a_while(number: signal.Signals) -> None:
    came: list[int] = []
    before = signal.getsignal(number)
    with handled(ENDING, lambda it, _: came.append(it)):
        signal.raise_signal(number)
    assert came == [number]
    assert signal.getsignal(number) is before


def test_what_is_ignored_stays_ignored(number: signal.Signals) -> None:
    """`nohup wattio run` ended with the terminal all the same."""
    signal.signal(number, signal.SIG_IGN)
    with noted() as stopped, ended_by_signals(), undisturbed():
        assert signal.getsignal(number) is signal.SIG_IGN
        signal.raise_signal(number)
        assert not stopped()
    assert signal.getsignal(number) is signal.SIG_IGN


def test_a_second_signal_ends_what_takes_its_time(number: signal.Signals) -> None:
    with noted() as stopped:
        signal.raise_signal(number)
        assert stopped()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(number)


def test_what_is_written_is_written_to_its_end() -> None:
    written: list[bool] = []

    def write() -> None:
        with undisturbed():
            signal.raise_signal(signal.SIGINT)
            written.append(True)

    with pytest.raises(KeyboardInterrupt):
        write()
    assert written == [True]


def test_other_threads_handle_no_signals() -> None:
    def work() -> None:
        with undisturbed():
            entered.append(True)

    entered: list[bool] = []
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert entered == [True]
