"""The target under laws: what is measured of it, and the simulation that it is held against."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from wattio import _core
from wattio.calibration.target import description, governed
from wattio.calibration.target.fit import fit
from wattio.calibration.target.governed import Governed
from wattio.calibration.target.threads import Did
from wattio.workloads import nbd_load
from wattio.workloads.nbd_load import Answers, Look, OpenLoad

from calibration.test_target_fit import all_points, data_of, record, run

MEASURED = Governed(
    policy="native",
    idle="block",
    rate_per_s=5000.0,
    learning_s=2.0,
    span_s=10.0,
    windows_bounded=0,
    windows_over=0,
    reactors_on=2.0,
    busy=0.2,
    latency_us=50.0,
    wait_share=0.0,
)


@pytest.fixture
def servers(tmp_path: Path) -> Callable[[str], Path]:
    found = fit(all_points(), reactors=1)

    def of(idle: str) -> Path:
        path = tmp_path / f"{idle}.toml"
        path.write_text(description.text(found, record(reactors=4), idle))
        return path

    return of


def test_the_description_under_a_law_turns_no_frequency(servers: Callable[[str], Path]) -> None:
    """A law that could lower it in the simulation alone would save there what nobody can save."""
    for idle, wakes in (("block", True), ("poll", False)):
        cores = json.loads(_core.check_server(servers(idle).read_text()))["cores"]
        assert cores["frequency_min"] == cores["frequency_max"]
        assert ("wake" in cores) == wakes


def test_reactors_that_poll_are_busy_while_they_are_on_and_answer_sooner(
    servers: Callable[[str], Path],
) -> None:
    block = governed.foresee(servers("block"), MEASURED, 4096)
    polling = MEASURED.model_copy(update={"idle": "poll"})
    poll = governed.foresee(servers("poll"), polling, 4096)
    assert block.reactors_on == poll.reactors_on == poll.busy == 4.0
    assert 0 < block.busy < 1
    assert poll.latency_us < block.latency_us
    assert poll.off("latency_us") == pytest.approx(poll.latency_us / 50.0 - 1)


@pytest.mark.parametrize("policy", ["pacer", "foresight"])
def test_a_law_takes_reactors_away_in_the_simulation(
    servers: Callable[[str], Path], policy: str
) -> None:
    ruled = MEASURED.model_copy(
        update={"policy": policy, "idle": "poll", "learning_s": 60.0, "span_s": 60.0}
    )
    found = governed.foresee(servers("poll"), ruled, 4096)
    assert 1 <= found.reactors_on < 2


def test_what_a_law_learned_from_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten seconds, of which the first four are slow and on all reactors."""
    sent_ns = np.arange(1000) * 10_000_000
    done_ns = sent_ns + np.where(sent_ns < 4e9, 900_000, 40_000)

    def ask(uri: str, load: OpenLoad, look: Look, every_ns: int, _: threading.Event) -> Answers:
        for at_ns in range(0, 10_000_000_000, every_ns):
            look(at_ns)
        return Answers(np.ones(1000, bool), sent_ns, sent_ns, done_ns)

    def counts(at_s: float, on_s: float, bounded: int, over: int) -> dict[str, object]:
        told = {"reactors_on_s": on_s, "windows_bounded": bounded, "violations": over}
        return {"utc_ns": int(at_s * 1e9), "counts": told}

    class Reactors:
        def __init__(self) -> None:
            self.told: Iterator[Did] = iter([Did(1 << 30, 0, 9), Did((1 << 30) + 1500000000, 6, 9)])

        def reactors(self) -> Did:
            return next(self.told)

    told = iter([counts(104.0, 8.0, 1, 1), counts(110.0, 15.0, 11, 3)])
    monkeypatch.setattr(nbd_load, "ask", ask)
    found = governed.measure(
        "nbd+unix:///",
        lambda: next(told),
        Reactors(),  # type: ignore[arg-type]
        ("pacer", "block"),
        OpenLoad(100.0, 1000, 4096, 1.0, 1 << 20),
        threading.Event(),
    )
    assert (found.windows_over, found.windows_bounded) == (2, 10)
    assert found.reactors_on == pytest.approx(7.0 / 6.0)
    assert found.latency_us == pytest.approx(40.0)
    assert found.busy == pytest.approx(0.25, rel=0.01)
    assert found.learning_s == 4.0


def test_what_was_governed_is_kept_and_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = [MEASURED.model_dump(), MEASURED.model_dump() | {"policy": "pacer", "wait_share": 0.5}]
    data = data_of(tmp_path / "d", all_points(), reactors=2, governed=kept)
    assert run("--from", data, "--out", tmp_path / "server.toml") == 1
    told = capsys.readouterr().out
    assert "under laws, idle = block" in told
    assert "1 of them had reactors wait for more than 2%" in told
    assert run("--from", data, "--out", tmp_path / "server.toml", "--json") == 1
    first, second = json.loads(capsys.readouterr().out)["governed"]
    assert first["reactors_on_predicted"] == 2.0
    assert second["policy"] == "pacer"


def test_one_reactor_leaves_nothing_to_govern(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("--out", tmp_path / "server.toml", "--governed", "20 s") == 2
    assert "--reactors 2 or more" in capsys.readouterr().err
