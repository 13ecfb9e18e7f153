"""Real OrangeFS and JULEA, where somebody has installed them: they are in no package.

Their folders are named by WATTIO_ORANGEFS and WATTIO_JULEA; without, the tests are skipped, and
`test_orangefs.py` and `test_julea.py` have doubles of their programs.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from wattio.systems import julea, orangefs
from wattio.systems.cluster import Cluster
from wattio.systems.commands import wait_until

from systems.test_clusters import (
    WRITTEN_BYTES,
    Case,
    carried_bytes,
    check_death,
    check_life,
    grown,
    leftovers,
    stored_bytes,
)

HERE = Path(__file__).parent

pytestmark = [pytest.mark.system, pytest.mark.installed, pytest.mark.timeout(120)]


def _orangefs(options: Mapping[str, Any], scratch: Path) -> Cluster:
    return orangefs.Storage(orangefs.Options.model_validate(options), scratch)


def _julea(options: Mapping[str, Any], scratch: Path) -> Cluster:
    return julea.Storage(julea.Options.model_validate(options), scratch)


ORANGEFS = Case("orangefs", _orangefs, {"io_servers": 2}, 1.0, "server 3")
JULEA = Case("julea", _julea, {"object_servers": 2}, 1.0, "server 2")
CASES = [ORANGEFS, JULEA]


def installed(case: Case, **more: object) -> dict[str, Any]:
    """Options of a case with the folder that it is installed below."""
    variable = f"WATTIO_{case.module.upper()}"
    folder = os.environ.get(variable)
    if folder is None:
        pytest.skip(f"{variable} names no folder that it is installed below")
    return {**case.options, "prefix": folder, "network": "namespaces", **more}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.module)
def test_it_keeps_files_says_who_died_and_leaves_nothing(
    need: Callable[..., None], tmp_path: Path, case: Case
) -> None:
    need(*case.programs, namespaces=True)
    storage = case.make(installed(case), tmp_path)

    def check(first: Path, second: Path) -> None:
        check_kept(storage, first, second)
        for number in range(8):
            (first / str(number)).unlink()
        (first / "one" / "below").mkdir(parents=True)
        shutil.rmtree(first / "one")
        assert wait_until(lambda: storage.unsettled() == 0, 60.0)
        assert storage.describe()["version"] is not None
        check_death(storage, case.victim)

    check_life(storage, tmp_path, check)


def check_kept(storage: Cluster, first: Path, second: Path) -> None:
    """What is written comes back at another client, and is once on the disks of the servers."""
    stored, carried = stored_bytes(storage), carried_bytes(storage)
    content = os.urandom(WRITTEN_BYTES // 8)
    for number in range(8):
        with (first / str(number)).open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    stored, carried = grown(stored, stored_bytes(storage)), grown(carried, carried_bytes(storage))
    # Servers note more than what is written, and the legs carry headers: none less, few more.
    assert WRITTEN_BYTES <= sum(stored) <= 1.3 * WRITTEN_BYTES
    assert WRITTEN_BYTES <= sum(carried) <= 1.3 * WRITTEN_BYTES
    assert min(stored) >= len(content)  # parts of files, or whole ones, on each
    assert all((second / str(number)).read_bytes() == content for number in range(8))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.module)
def test_what_a_killed_run_left_is_removed(
    need: Callable[..., None], tmp_path: Path, case: Case
) -> None:
    need(*case.programs, namespaces=True)
    options = installed(case)
    program = [sys.executable, str(HERE / "leaving.py"), case.module]
    storage = case.make(options, tmp_path)
    try:
        with subprocess.Popen(
            [*program, json.dumps(options), str(tmp_path)], stdout=subprocess.PIPE
        ) as run:
            assert run.stdout is not None
            assert run.stdout.readline() == b"ready\n"
            run.send_signal(signal.SIGKILL)
        assert len(leftovers(storage, tmp_path)) > 6
    finally:
        storage.clean()
    assert leftovers(storage, tmp_path) == []


@pytest.mark.parametrize(
    "more",
    [
        {"distribution": "twod_stripe", "metadata_servers": 2, "sync_data": True},
        {"distribution": "basic_dist", "method": "directio", "stripe": "1 MiB"},
        {
            "data_files": 1,
            "sync_metadata": False,
            "flow_buffer": "1 MiB",
            "flow_buffers": 4,
            "settings": {"DistrDirServersMax": "1"},
        },
    ],
    ids=str,
)
def test_orangefs_takes_every_option(
    need: Callable[..., None], tmp_path: Path, more: dict[str, Any]
) -> None:
    need(*ORANGEFS.programs, namespaces=True)
    works(ORANGEFS.make(installed(ORANGEFS, **more), tmp_path))


@pytest.mark.parametrize(
    "more",
    [
        {"object_backend": "gio", "kv_backend": "leveldb", "db_backend": "null"},
        {"kv_backend": "sqlite", "kv_servers": 2, "db_servers": 2, "stripe": "1 MiB"},
        {"kv_backend": "gdbm", "operation_size": "1 MiB", "connections": 2},
    ],
    ids=str,
)
def test_julea_takes_every_option(
    need: Callable[..., None], tmp_path: Path, more: dict[str, Any]
) -> None:
    need(*JULEA.programs, namespaces=True)
    works(JULEA.make(installed(JULEA, **more), tmp_path))


def works(storage: Cluster) -> None:
    """What one client writes another one reads."""
    content = os.urandom(1 << 20)
    try:
        storage.deploy()
        storage.start()
        first, second = storage.mount(2)
        (first.folder / "file").write_bytes(content)
        assert (second.folder / "file").read_bytes() == content
        storage.verify_mount()
    finally:
        storage.clean()
