"""What a report says of servers that tell their processor time."""

from __future__ import annotations

import re
from pathlib import Path
from unittest.mock import patch

import pytest
from wattio.report import make, plots
from wattio.report.measurement import gather, servers, winners

from . import made_folder
from .made_folder import SERVED, Work

PLAIN = str.maketrans({"\N{NO-BREAK SPACE}": " ", "\N{MULTIPLICATION SIGN}": "x"})
WORKS = {"random": [Work("randread", "read", 4096, 0, 9000.0, 78.0, timed=80.0, server_us=30.0)]}


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_folder.write(tmp_path_factory.mktemp("served"), SERVED, WORKS)


def test_each_is_compared_with_the_best_of_the_peers(result: Path) -> None:
    """`right` takes half, and is what is compared; `floor` takes as much as `left`, beside it."""
    found = gather.gather(result)
    (contest,) = servers.contests(found)
    assert [one.name for one in contest.conditions] == ["left", "right", "floor"]
    assert [one.competes for one in contest.conditions] == [True, True, False]
    assert contest.beside == "shown beside, does not compete"
    ratio = contest.ratio(contest.conditions[1], contest.conditions[0])
    assert ratio is not None
    assert ratio.estimate == pytest.approx(0.5)
    assert ratio.low <= 0.5 <= ratio.high
    # Nothing else is said of the same phase.
    assert list(winners.contests(found)) == [contest]
    (sentence,) = servers.sentences(found)
    assert sentence.startswith("random, randread: right has the least processor time per I/O, 50.0")


def test_one_of_ours_that_does_not_win_is_told_too(tmp_path: Path) -> None:
    text = SERVED.replace('"own"', '"x"').replace('name = "left"', 'name = "left"\nrole = "own"')
    path = made_folder.write(tmp_path, text.replace('role = "x"', 'role = "peer"'), WORKS)
    (sentence,) = servers.sentences(gather.gather(path))
    assert "right, the reference, has the least processor time" in sentence
    told = r"left takes 2\.00x \([\d.]+x to [\d.]+x\) that of right\."
    assert re.search(told, sentence.translate(PLAIN))


def test_the_page_has_it(result: Path) -> None:
    with patch.object(plots, "svg", return_value=b"<svg/>"):
        page = make(result).read_text(encoding="utf-8")
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page)).translate(PLAIN)
    assert "Processor time of the servers" in text
    assert re.search(r"right 15\.2 µs ± 0\.150 µs 0\.50x [\d.]+x to [\d.]+x 15\.\d %", text)


def test_nothing_is_asked_of_idle_servers(tmp_path: Path) -> None:
    """They have a share of a core, and nothing for each request."""
    folder = made_folder.write(tmp_path, SERVED, WORKS)
    found = gather.gather(folder)
    phase = found.workloads[0].phases[0]
    for row in phase.rows:
        for name in (servers.PER_IO, "operations"):
            row.metrics.pop(name)
    (sentence,) = servers.sentences(found)
    assert re.fullmatch(
        r"random, randread: servers of which nothing is asked take 1\d\.\d{4}.% of a core \(right\)"
        r" to 2\d\.\d{4}.% \((left|floor)\)\.",
        sentence,
    )
