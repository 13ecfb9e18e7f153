"""Several applications under one daemon, on processors whose frequency they share."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from daemon.running import BINARY, Place, Running, ask, start

from fuse.hosts import server
from fuse.mount import let_run, mounted
from fuse.processors import CPU

pytestmark = pytest.mark.system

Status = dict[str, Any]
NATIVE = '"native"'


def fixed(frequency_share: float, cores_share: float = 1.0) -> str:
    settings = f"{{ frequency_share = {frequency_share}, cores_share = {cores_share} }}"
    return f'"fixed", settings = {settings}'


def configuration(one: str, other: str) -> str:
    """Two applications with half of the processors each; N and N + 4 share a core."""
    applications = "".join(
        f"""
[[application]]
name = "{name}"
policy = {{ name = {policy} }}
latency = {{ kind = "diskstats", devices = ["sda"] }}
[[application.group]]
name = "{name}"
cores = "{cores}"
"""
        for name, policy, cores in (("one", one, "0-3"), ("other", other, "4-7"))
    )
    knobs = ("cpu.frequency", "cpu.turbo", "cpu.epb")
    return f'name = "host"\n{applications}' + "".join(
        f'[[knob]]\nkind = "{knob}"\n' for knob in knobs
    )


@contextmanager
def governed(tree: Path, folder: Path, one: str, other: str) -> Iterator[tuple[Place, Running]]:
    """A daemon that acts on the tree."""
    place = Place(folder, configuration(one, other), keeper=False)
    with start("run", place, "--root", str(tree)) as running:
        yield place, running


@pytest.fixture
def tree() -> Iterator[Path]:
    with mounted(server()) as root:
        let_run(root)
        yield root


def limits_khz(tree: Path) -> set[int]:
    """What the policies are limited to."""
    files = (tree / f"{CPU}/cpufreq/policy{policy}/scaling_max_freq" for policy in range(4))
    return {int(file.read_text()) for file in files}


def boost(tree: Path) -> str:
    return (tree / f"{CPU}/cpufreq/boost").read_text().strip()


def biases(tree: Path) -> list[str]:
    files = (tree / f"{CPU}/cpu{cpu}/power/energy_perf_bias" for cpu in (0, 4))
    return [file.read_text().strip() for file in files]


def frequencies(status: Status) -> list[float]:
    """What each application is told that its cores run at."""
    return [group["frequency_hz"] for one in (status, *status["others"]) for group in one["groups"]]


def stepped(status: Status) -> bool:
    return all(one["counts"]["windows"] > 2 for one in (status, *status["others"]))


def turned(tree: Path, folder: Path, one: str, other: str, look: Callable[[Status], None]) -> None:
    """Looks at what two policies lead to, and that it is undone."""
    before = limits_khz(tree), boost(tree), biases(tree)
    with governed(tree, folder, one, other) as (place, running):
        look(place.wait_until(stepped))
        assert running.send(signal.SIGTERM).end() == 0, running.log
    assert (limits_khz(tree), boost(tree), biases(tree)) == before


def test_what_is_shared_is_as_fast_as_any_of_them_needs(tree: Path, tmp_path: Path) -> None:
    def full(status: Status) -> None:
        assert limits_khz(tree) == {2_600_000}
        assert frequencies(status) == [2.6e9, 2.6e9]
        assert boost(tree) == "1"
        assert biases(tree) == ["6", "6"], "nothing is saved, so nothing follows"

    turned(tree, tmp_path, NATIVE, fixed(0.4), full)

    def middle(status: Status) -> None:
        assert limits_khz(tree) == {1_800_000}
        assert frequencies(status) == [1.8e9, 1.8e9]
        assert boost(tree) == "0"
        assert biases(tree) == ["8", "8"]

    turned(tree, tmp_path, fixed(0.6), fixed(0.4), middle)


def test_each_is_told_apart_and_one_is_set_alone(tree: Path, tmp_path: Path) -> None:
    with governed(tree, tmp_path, '"pacer"', '"foresight"') as (place, running):
        status = place.wait_until(stepped)
        assert [status["application"], status["others"][0]["application"]] == ["one", "other"]
        socket = ("--socket", f"{tmp_path}/socket")
        command = [str(BINARY), "set", "plf", "0.05", "--application", "other", *socket]
        told = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
        assert told.stdout.startswith("other: the latency tolerance is now 0.05")
        status = ask("status", *socket)
        assert status["latency"]["tolerance"] != 0.05
        assert status["others"][0]["latency"]["tolerance"] == 0.05
        command[5] = "nobody"
        told = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        assert "there are: one, other" in told.stderr
        assert running.send(signal.SIGTERM).end() == 0, running.log


def test_windows_are_kept_for_each(tree: Path, tmp_path: Path) -> None:
    place = Place(tmp_path, configuration(NATIVE, fixed(0.4)), keeper=False)
    options = ("--root", str(tree), "--duration", "3 s", "--out", str(tmp_path / "results"))
    with start("run", place, *options) as running:
        assert running.end() == 0, running.log
    folders = sorted(path.name for path in (tmp_path / "results").iterdir())
    assert folders == ["host-one", "host-other"]
    assert sum("report:  wattio report" in line for line in running.log) == 2
