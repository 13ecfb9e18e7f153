"""How much memory is free for dumps."""

from __future__ import annotations

from pathlib import Path

import pytest
from wattio.hpcio.free_memory import available_bytes

GIB = 1 << 30


def put(root: Path, files: dict[str, object]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"{text}\n")
    return root


def host(root: Path, groups: str) -> Path:
    meminfo = f"MemTotal: {16 << 20} kB\nMemAvailable: {8 << 20} kB"
    return put(root, {"proc/meminfo": meminfo, "proc/self/cgroup": groups})


def test_what_the_host_has_is_free(tmp_path: Path) -> None:
    assert available_bytes(tmp_path) is None
    assert available_bytes(host(tmp_path, "0::/job")) == 8 * GIB


def test_a_group_above_may_leave_less(tmp_path: Path) -> None:
    """Pages of files are no obstacle: those of dumps that have been written are such."""
    root = host(tmp_path, "1:name=systemd:/job/step\n0::/job/step")
    slice_ = "sys/fs/cgroup/job"
    files = {"memory.max": 4 * GIB, "memory.current": 3 * GIB}
    stat = f"anon {GIB}\nfile {2 * GIB}\nactive_file {GIB}\ninactive_file 4096"
    put(root, {f"{slice_}/{name}": text for name, text in {**files, "memory.stat": stat}.items()})
    own = {"memory.max": "max", "memory.current": 2 * GIB, "memory.stat": stat}
    put(root, {f"{slice_}/step/{name}": text for name, text in own.items()})
    assert available_bytes(root) == 2 * GIB + 4096
    put(root, {f"{slice_}/step/memory.max": GIB})
    assert available_bytes(root) == 4096


@pytest.mark.parametrize("path", ["/", "/docker/elsewhere", "/../.."])
def test_groups_of_the_first_version(tmp_path: Path, path: str) -> None:
    """In a container the group's own files may be at the top, whatever its path is outside."""
    root = host(tmp_path, f"4:cpu,memory:{path}\n0::/")
    files = {
        "memory.limit_in_bytes": 2 * GIB,
        "memory.usage_in_bytes": GIB,
        "memory.stat": f"inactive_file 1\ntotal_inactive_file {GIB // 2}",
    }
    put(root, {f"sys/fs/cgroup/memory/{name}": text for name, text in files.items()})
    assert available_bytes(root) == GIB + GIB // 2
    put(root, {"sys/fs/cgroup/memory/memory.limit_in_bytes": 0x7FFFFFFFFFFFF000})
    assert available_bytes(root) == 8 * GIB
