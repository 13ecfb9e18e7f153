"""What cores did in a phase: looks at made-up machines, this one's and others'."""

from __future__ import annotations

from pathlib import Path

import pytest
from wattio.analysis.cores import Ticks
from wattio.errors import ResultError
from wattio.kinds.measurement import core_time, overrides, system_status
from wattio.kinds.measurement.system_status import Answer
from wattio.knobs.texts import here

from measuring import made


def say(root: Path, busy: int, idle: int, cores: int = 2) -> None:
    (root / "proc").mkdir(exist_ok=True)
    lines = [f"cpu{core} {busy} 0 0 {idle} 0 0 0 0\n" for core in range(cores)]
    (root / "proc/stat").write_text("".join(lines))


def looks(root: Path, *stories: tuple[float, int, int]) -> list[Answer]:
    """Looks at moments in seconds, at ticks busy and idle of both cores."""
    say(root, 0, 0)
    look = core_time.asking(here(root))
    assert look is not None
    found = []
    for at_s, busy, idle in stories:
        say(root, busy, idle)
        found.append(Answer(made.instant(at_s), look()))
    return found


def test_a_phase_has_its_part_of_the_looks_around_it(tmp_path: Path) -> None:
    every = looks(tmp_path, (10.0, 0, 0), (11.0, 100, 0), (12.0, 100, 100))
    spent = core_time.spent(made.span("write", 10.5, 11.5), every)
    assert spent is not None
    assert (spent.busy_s, spent.idle_s) == pytest.approx((1.0, 1.0))
    found = core_time.of_phase(spent, {})
    assert found["cores_busy_s"][0] == pytest.approx(1.0)
    assert core_time.spent(made.span("write", 9.0, 11.5), every) is None
    assert core_time.of_phase(None, {}) == {}


def test_ticks_at_the_very_ends_go_before_looks_unless_cores_came_or_went(tmp_path: Path) -> None:
    ends = {0: Ticks(0, 0), 1: Ticks(0, 0)}, {0: Ticks(30, 70), 1: Ticks(10, 90)}
    span = made.span("run", 0.0, 1.0)
    alone = core_time.spent(span, (), ends)
    assert alone is not None
    assert (alone.busy_s, alone.idle_s, alone.on_s) == pytest.approx((0.4, 1.6, 2.0))
    came = {0: Ticks(0, 0)}, ends[1]
    assert core_time.spent(span, (), came) is None


def test_a_machine_without_counters_is_not_asked_and_one_that_goes_away_tells_nothing(
    tmp_path: Path,
) -> None:
    assert core_time.asking(here(tmp_path)) is None
    say(tmp_path, 1, 1)
    look = core_time.asking(here(tmp_path))
    assert look is not None
    assert look()
    (tmp_path / "proc/stat").unlink()
    assert look() == {}


def test_other_machines_are_told_by_their_names(tmp_path: Path) -> None:
    own = looks(tmp_path, (10.0, 0, 0), (12.0, 50, 150))
    there = [Answer(one.at, {"hosts": {"node5": one.status, "node6": {}}}) for one in own]
    found = core_time.spent_at_hosts(made.span("write", 10.0, 12.0), there)
    assert list(found) == ["node5"]
    named = core_time.of_phase(None, found)
    assert named["node5.cores_busy_s"][0] == pytest.approx(1.0)
    assert named["node5.cores_idle_s"][0] == pytest.approx(3.0)


@pytest.mark.parametrize("status", [{"seconds": "many"}, {"seconds": 1.0}, {"states_s": 3}])
def test_looks_that_are_none_are_refused(tmp_path: Path, status: dict[str, object]) -> None:
    every = [Answer(made.instant(at), status) for at in (0.0, 1.0)]
    with pytest.raises(ResultError, match="records of core use: cannot be read"):
        core_time.spent(made.span("write", 0.0, 1.0), every)
    with system_status.kept(lambda: status, 0.0, tmp_path, "write", core_time.KIND):
        pass
    with pytest.raises(ResultError, match="records of core use: cannot be read"):
        core_time.read(tmp_path, "write")


def test_what_stands_for_a_model_is_no_file() -> None:
    base = Path("/studies")
    for name in ("estimate:host", "estimate:assumed", "estimate:host?root=/made"):
        assert overrides.located_name(name, base) == name
    assert overrides.located_name("estimate:own.toml", base) == "estimate:/studies/own.toml"
    told = "csv:/studies/%23 1/a%23.csv?power=p%23"
    assert overrides.located_name("csv:a%23.csv?power=p%23", Path("/studies/# 1")) == told
