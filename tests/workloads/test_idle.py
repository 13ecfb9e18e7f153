"""Idling: a span of the length that was asked for, stopped on request."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import pytest
from wattio.errors import Cancelled, ResultError, WorkloadFailed
from wattio.workloads import idle
from wattio.workloads.workload import Context, Place

from .nbd_fake import listening, serving


def test_it_waits_and_says_so(tmp_path: Path) -> None:
    work = idle.Work(idle.Options.model_validate({"duration": "20 ms"}), tmp_path)
    work.probe()
    context = Context((), tmp_path)
    work.prepare(context)
    (span,) = work.run("idle", context)
    work.clean(context)
    assert span.name == "idle"
    assert span.seconds >= 0.02
    (found,) = idle.results(tmp_path)
    assert (found.operation, found.phase, found.seconds) == ("idle", "idle", span.seconds)
    assert found.start_utc_ns == span.start.utc_ns
    assert work.steps() == ("idle",)
    assert work.seconds_guess(3) == work.describe()["seconds"] == 0.02


def test_clients_of_a_device_are_connected_meanwhile(tmp_path: Path) -> None:
    """A server of which nothing is asked has clients; one without any is another state."""
    left = threading.Event()
    serve = serving(bytes(4096))

    def handle(connection: socket.socket) -> None:
        serve(connection)
        left.set()

    work = idle.Work(idle.Options.model_validate({"duration": "10 ms"}), tmp_path)
    with listening(tmp_path / "s", handle) as uri:
        work.run("idle", Context((Place(tmp_path, uri=uri),), tmp_path))
        assert left.wait(10)  # it came, and said goodbye
    with pytest.raises(WorkloadFailed, match=r"idle: .*No such file"):
        work.run("idle", Context((Place(tmp_path, uri=uri + "-gone"),), tmp_path))


def test_it_can_be_stopped(tmp_path: Path) -> None:
    cancelled = threading.Event()
    cancelled.set()
    work = idle.Work(idle.Options.model_validate({"duration": "1 h"}), tmp_path)
    with pytest.raises(Cancelled):
        work.run("idle", Context((), tmp_path, cancelled))


def test_a_damaged_record_is_told(tmp_path: Path) -> None:
    with pytest.raises(ResultError, match="cannot be read"):
        idle.results(tmp_path)
    (tmp_path / idle.FILE).write_text("{}")
    with pytest.raises(ResultError, match="is damaged"):
        idle.results(tmp_path)
