"""Signals that ask a program to end, and those that it was started to ignore."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from importlib import import_module

import pytest
from wattio import signals
from wattio.executors.interrupts import undisturbed
from wattio.signals import ENDING, SLICE_S, ended_by_signals, flagged, handled, noted


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


def test_what_is_written_is_written_to_its_end(number: signal.Signals) -> None:
    """It was only where Ctrl-C came, though SIGTERM ends a study in the same way."""
    written: list[bool] = []

    def write() -> None:
        with ended_by_signals(), undisturbed():
            signal.raise_signal(number)
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


def test_a_flag_is_set_by_the_first_signal_and_the_second_ends(number: signal.Signals) -> None:
    """`wattio peak` ended at its own pace whatever one pressed, and a handler could wait for the
    lock that its own thread held."""
    with flagged() as flag:
        assert not flag.is_set()
        assert not flag.wait(0)
        signal.raise_signal(number)
        assert flag.is_set()
        assert flag.wait(60)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(number)


def test_a_flag_that_is_waited_for_is_set_within_the_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The handler runs in the thread that waits, in the middle of it."""
    slept: list[float] = []

    def sleep(span_s: float) -> None:
        slept.append(span_s)
        signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(time, "sleep", sleep)
    with flagged() as flag:
        assert flag.wait(60)
    assert slept == [SLICE_S]


@pytest.mark.parametrize("module", ["peak", "hpcio_run"])
def test_handlers_of_signals_set_no_event(module: str) -> None:
    """Setting one takes its lock, which the thread that is interrupted may hold."""
    command = import_module(f"wattio.cli.{module}")
    assert command.signals is signals
    assert not hasattr(command, "handled")
