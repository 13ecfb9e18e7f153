"""Ranks and writers of libwattio_io are killed at random moments: what was durable stays whole."""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
from functools import partial
from pathlib import Path

import pytest
from wattio.hpcio.inspection import inspect

from hpcio import io_library
from hpcio.io_library import serve
from hpcio.waiting import until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("cargo") is None, reason="needs cargo"),
]

KILLS = 40
SEED = 20261123

RANK = """
config, meeting, rank, told = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
one = Rank(config, meeting, rank, 2)
generator = np.random.default_rng(rank)
one.declare("u", (50, 200), "f8", (100, 200), (50 * rank, 0))
one.declare("n", (3,), "i4")
durable = open(told, "w", buffering=1)
settled = 0
for step in range(100000):
    try:
        one.dump(step, u=generator.random((50, 200)), n=np.full(3, step, "i4"))
    except Failed as error:
        assert error.code == STEP_FAILED, error
    while settled <= step:
        try:
            if not one.is_durable(settled):
                break
            durable.write(f"{settled}\\n")
        except Failed as error:
            assert error.code == STEP_FAILED, error
        settled += 1
"""


def test_what_was_durable_is_whole_whoever_was_killed(tmp_path: Path) -> None:
    draw = random.Random(SEED)
    kept = 0
    for number in range(KILLS):
        place = tmp_path / str(number)
        place.mkdir()
        policy = draw.choice(["block", "drop_oldest"])
        config = io_library.configure(
            place, buffer="512 KiB", when_full=policy, grace="5 s", checksum=draw.random() < 0.5
        )
        meeting = place / "socket"
        writer = serve(config, meeting, 2)
        told = [place / f"durable{rank}" for rank in range(2)]
        ranks = [
            io_library.child(RANK, config, meeting, rank, told[rank], quiet=True)
            for rank in range(2)
        ]
        everybody: list[subprocess.Popen[str]] = [writer, *ranks]
        # From the first dumps to some dozens later.
        wanted = draw.randrange(1, 30)
        until(partial(have, told, wanted))
        draw.choice(everybody).send_signal(draw.choice([signal.SIGKILL, signal.SIGTERM]))
        for process in draw.sample(ranks, 2):
            process.kill()
        for process in everybody:
            process.wait(30)
        durable = {int(line) for path in told for line in path.read_text().split("\n")[:-1]}
        found = {dump.step: dump for dump in inspect(place / "dumps")}
        for step in durable:
            assert found[step].whole, (number, step, found[step].problems)
        for dump in found.values():
            assert not dump.whole or dump.problems == [], (number, dump.step, dump.problems)
            assert dump.whole or dump.problems, (number, dump.step)
        kept += len(durable)
        # The next job can use the folder.
        again = io_library.Rank(io_library.configure(place, existing="keep_apart"), place / "again")
        again.close()
        shutil.rmtree(place)
    assert kept > KILLS


def have(told: list[Path], wanted: int) -> bool:
    """Whether each rank has seen so many of its dumps become durable."""
    return all(path.exists() and path.read_text().count("\n") >= wanted for path in told)
