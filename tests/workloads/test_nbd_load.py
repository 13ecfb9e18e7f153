"""The open load over NBD: what is sent when, and what goes wrong with servers."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from wattio.errors import Cancelled, WorkloadFailed
from wattio.workloads import nbd_load
from wattio.workloads.nbd_load import OpenLoad, ask, drawn

from .nbd_fake import listening, serving

DISK = bytes(1 << 20)
LOAD = OpenLoad(
    rate_per_s=4000.0,
    requests=400,
    size_bytes=4096,
    read_share=0.7,
    region_bytes=len(DISK),
    connections=2,
    seed=3,
)
MS = 1_000_000


def test_every_request_is_answered_after_it_was_sent_and_sent_after_it_was_due(
    tmp_path: Path,
) -> None:
    looks: list[int] = []
    with listening(tmp_path / "s", serving(DISK, piece=1000)) as uri:
        found = ask(uri, LOAD, looks.append, 5 * MS, threading.Event())
    assert len(found.due_ns) == LOAD.requests
    assert (found.sent_ns >= found.due_ns).all()
    assert (found.done_ns > found.sent_ns).all()
    assert 0 < (~found.is_read).sum() < LOAD.requests / 2
    assert looks[0] == 0
    assert looks[-1] >= found.done_ns.max()
    assert len(looks) >= 3


@given(
    rate=st.floats(1, 1e6),
    requests=st.integers(1, 2000),
    share=st.floats(0, 1),
    seed=st.integers(0, 9),
)
def test_what_is_drawn_is_ascending_and_one_seed_is_one_load(
    rate: float, requests: int, share: float, seed: int
) -> None:
    load = OpenLoad(rate, requests, 4096, share, 1 << 20, seed=seed)
    due_ns, is_read = drawn(load)
    assert (np.diff(due_ns) >= 0).all()
    again_ns, again = drawn(load)
    assert (due_ns == again_ns).all()
    assert (is_read == again).all()
    if share in (0.0, 1.0):
        assert is_read.mean() == share


def test_the_rate_is_what_was_asked_for() -> None:
    due_ns, is_read = drawn(OpenLoad(5e4, 100_000, 4096, 0.7, 1 << 20))
    assert due_ns[-1] / 1e9 == pytest.approx(2.0, rel=0.02)
    assert is_read.mean() == pytest.approx(0.7, abs=0.01)


def test_an_error_of_the_server_is_told(tmp_path: Path) -> None:
    beyond = OpenLoad(1000.0, 10, 4096, 1.0, 16 * len(DISK))
    with (
        listening(tmp_path / "s", serving(DISK)) as uri,
        pytest.raises(WorkloadFailed, match="sent error 22"),
    ):
        ask(uri, beyond, lambda _: None, MS, threading.Event())


def test_a_server_that_falls_silent_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nbd_load, "_SILENCE_S", 0.05)
    with (
        listening(tmp_path / "s", serving(DISK, answers=20)) as uri,
        pytest.raises(WorkloadFailed, match="no answer from the server"),
    ):
        ask(uri, LOAD, lambda _: None, MS, threading.Event())


def test_a_server_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(WorkloadFailed, match="No such file"):
        ask(f"nbd+unix:///?socket={tmp_path}/s", LOAD, lambda _: None, MS, threading.Event())


def test_it_stops_when_it_is_told_to(tmp_path: Path) -> None:
    cancelled = threading.Event()
    with (
        listening(tmp_path / "s", serving(DISK)) as uri,
        pytest.raises(Cancelled),
    ):
        ask(uri, LOAD, lambda at: cancelled.set() if at else None, MS, cancelled)
