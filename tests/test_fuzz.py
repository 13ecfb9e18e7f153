"""Every fuzz target compiles, and holds on its seeds and on seeds that are damaged.

Fuzzing itself needs a nightly compiler; a stable one makes programs that run once on each file that
they are given. The damage is drawn from a seed.
"""

from __future__ import annotations

import random
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from places import ROOT

FUZZ = ROOT / "fuzz"
TARGETS = [entry["name"] for entry in tomllib.loads((FUZZ / "Cargo.toml").read_text())["bin"]]
ELSEWHERE = {
    "daemon_config": "packaging/examples/*.toml",
    "trace": "tests/data/traces/*",
    "trace_rewrite": "tests/data/traces/*",
}
"""Seeds that lie in the tree anyway; the others' are `fuzz/seeds/TARGET`."""

DAMAGED_MOST = 300
BYTES_MOST = 4096


def seeds(target: str) -> list[bytes]:
    pattern = ELSEWHERE.get(target, f"fuzz/seeds/{target}")
    return [path.read_bytes() for path in sorted(ROOT.glob(pattern))]


def damaged(seed: bytes, draw: random.Random) -> bytes:
    """Cut off, with bytes changed, left out or said twice, or with other numbers in it."""
    content = bytearray(seed[:BYTES_MOST])
    for _ in range(draw.randint(1, 4)):
        at, length = draw.randrange(len(content) + 1), draw.randint(1, 16)
        kind = draw.randrange(5)
        if kind == 0:
            del content[at:]
        elif kind == 1:
            del content[at : at + length]
        elif kind == 2:
            content[at:at] = content[at : at + length]
        elif kind == 3:
            content[at : at + 1] = draw.randbytes(1)
        else:
            content[at : at + 1] = draw.choice([b"-1", b"99999999999999999999", b"1e400", b"\xff"])
    return bytes(content)


@pytest.fixture(scope="module")
def programs() -> Path:
    """Where the targets are once they are built."""
    if shutil.which("cargo") is None:
        pytest.skip("needs cargo")
    done = subprocess.run(
        ["cargo", "build", "--locked", "--quiet", "--manifest-path", FUZZ / "Cargo.toml"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return FUZZ / "target/debug"


def test_every_target_is_built_and_has_a_seed() -> None:
    files = {path.stem for path in (FUZZ / "fuzz_targets").glob("*.rs")}
    assert set(TARGETS) == files
    assert [target for target in TARGETS if not seeds(target)] == []
    assert {path.name for path in (FUZZ / "seeds").iterdir()} == files - set(ELSEWHERE)


@pytest.mark.system
@pytest.mark.parametrize("target", TARGETS)
def test_a_target_holds(target: str, programs: Path, tmp_path: Path) -> None:
    whole = seeds(target)
    draw = random.Random(target)
    each = DAMAGED_MOST // len(whole)
    inputs: Iterator[bytes] = (damaged(seed, draw) for seed in whole for _ in range(each))
    files = []
    for number, content in enumerate([*whole, *inputs]):
        files.append(tmp_path / str(number))
        files[-1].write_bytes(content)
    done = subprocess.run(
        [programs / target, *files], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stderr.count("Executed") == len(files)
