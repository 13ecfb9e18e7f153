"""Memory for dumps: what others leave of theirs, how much is free, and what is held how long."""

from __future__ import annotations

import mmap
import socket
from pathlib import Path

import numpy as np
import pytest
from wattio.errors import HostError
from wattio.hpcio import leftovers, memory
from wattio.hpcio.free_memory import available_bytes
from wattio.hpcio.memory import Memory

NAME = "seen-by-name"
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


def test_a_buffer_beyond_what_is_free_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available_bytes", lambda: 4096)
    with pytest.raises(HostError, match=r"8192 B .* more than the 4096 B that are free"):
        Memory.create("test", 8192)


def opened() -> list[str]:
    links = [path for path in Path("/proc/self/fd").iterdir() if path.is_symlink()]
    return [link.name for link in links if f"wattio-{NAME}" in str(link.readlink())]


def mapped() -> int:
    return Path("/proc/self/maps").read_text().count(f"memfd:wattio-{NAME}")


def test_memory_that_cannot_be_mapped_is_not_kept_open(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(12, "no memory")

    monkeypatch.setattr(mmap, "mmap", refuse)
    with pytest.raises(HostError, match="cannot be mapped"):
        Memory.create(NAME, 4096)
    assert opened() == []


def test_closed_memory_stays_mapped_as_long_as_an_array_of_it_does() -> None:
    made = Memory.create(NAME, 4096)
    words = made.words(1, 2)
    words[0] = 5
    data = np.ndarray((4,), "i8", made.map, 0)
    made.close()
    assert (mapped(), data.tolist()) == (1, [0, 5, 0, 0])
    with pytest.raises(ValueError, match="released"):
        words[0] = 6
    del data
    assert (mapped(), opened()) == (0, [])


def test_a_segment_that_goes_while_it_is_looked_at_is_not_ours(tmp_path: Path) -> None:
    """A job that ended beside one that started once ended that one, too."""
    name = f"sm_segment.{socket.gethostname().partition('.')[0]}.0.1.0"
    assert not leftovers._is_ours(tmp_path / name, 2000)
