"""What was written has to come back, at another client."""

from __future__ import annotations

from pathlib import Path

import pytest
from wattio.errors import SystemFailed
from wattio.kinds.measurement import integrity_file
from wattio.workloads.workload import Place


def test_what_was_written_comes_back(tmp_path: Path) -> None:
    places = [Place(tmp_path), Place(tmp_path)]
    integrity_file.write(places)
    integrity_file.check(places)


@pytest.mark.parametrize("at", [0, 4096, (1 << 20) - 1])
def test_one_byte_that_changed_is_seen(tmp_path: Path, at: int) -> None:
    places = [Place(tmp_path)]
    integrity_file.write(places)
    path = tmp_path / integrity_file.NAME
    found = bytearray(path.read_bytes())
    found[at] ^= 1
    path.write_bytes(found)
    with pytest.raises(SystemFailed, match=r"client 1: .* differs from what was written"):
        integrity_file.check(places)


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    missing = [Place(tmp_path), Place(tmp_path / "none")]
    integrity_file.write(missing)
    with pytest.raises(SystemFailed, match=r"client 2: .* cannot be read: No such file"):
        integrity_file.check(missing)
    with pytest.raises(SystemFailed, match=r"client 1: .* cannot be written: No such file"):
        integrity_file.write(missing[1:])
