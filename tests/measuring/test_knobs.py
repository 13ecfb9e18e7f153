"""Knobs of a study: what is written where, and that it is put back whatever happens."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from wattio.errors import HostError, InputError, WattioError
from wattio.knobs import knobs
from wattio.knobs.holder import Holder

from measuring.test_running import ASSUMED_METER

POLICIES = "sys/devices/system/cpu/cpufreq"
ADDRESS = f"file:/{POLICIES}/policy0/scaling_max_freq"

LOST = """
import sys
from functools import partial
from pathlib import Path
from wattio.cli import main
from wattio.kinds.measurement import execute
from wattio.knobs import holder, knobs
root = Path(sys.argv[1])
class Told(holder.Holder):
    def __enter__(self):
        super().__enter__()
        Path("holder.pid").write_text(str(self._process.pid))
        return self
execute.Holder = partial(Told, root / "snapshot.json", root)
knobs.assignments = partial(knobs.assignments, root=root)
main(["run", "study.toml", "--no-report"])
"""
"""A study whose knobs are those of a made-up host, and whose holder its workload knows."""

STUDY = (
    """
[study]
name = "trial"
kind = "measurement"
repetitions = 2
idle_before = "0 s"
idle_after = "0 s"
settle = "0 s"
drop_caches = false

[[system]]
name = "local"

[[workload]]
name = "kills"
kind = "command"
options = { run = ["./work.sh"], guess = "1 s" }

[[knob]]
name = "cpu.frequency"
values = ["0.8 GHz", "1.2 GHz"]

"""
    + ASSUMED_METER
)

KILLED = """
import sys, time
from pathlib import Path
from wattio.knobs.holder import Holder
with Holder(Path(sys.argv[1]), Path(sys.argv[2])) as holder:
    holder.put({sys.argv[3]: "800000"})
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A made-up host of twelve cores with a policy each, of which eleven can be switched off."""
    made = tmp_path / "root"
    for core in range(12):
        policy = made / POLICIES / f"policy{core}"
        policy.mkdir(parents=True)
        (policy / "scaling_max_freq").write_text("3600000\n")
        (policy / "scaling_min_freq").write_text("800000\n")
        folder = made / "sys/devices/system/cpu" / f"cpu{core}"
        folder.mkdir()
        if core:
            (folder / "online").write_text("1\n")
    (made / "run").mkdir()
    return made


def frequency(root: Path) -> str:
    return (root / POLICIES / "policy0/scaling_max_freq").read_text().strip()


def test_a_frequency_goes_to_every_policy_in_kilohertz(root: Path) -> None:
    found = knobs.assignments("cpu.frequency", "1.2 GHz", root)
    assert len(found) == 12
    assert set(found.values()) == {"1200000"}
    assert ADDRESS in found


def test_a_pinned_frequency_goes_to_both_limits(root: Path, tmp_path: Path) -> None:
    """Only the highest was capped; the document that the study follows has pinned both."""
    limits = [root / POLICIES / f"policy0/scaling_{end}_freq" for end in ("min", "max")]

    def pinned(value: str) -> tuple[dict[str, str], list[str]]:
        put = knobs.assignments("cpu.frequency_pinned", value, root)
        names = [address.rpartition("/")[2] for address in put][:2]
        return put, names

    with Holder(tmp_path / "state/snapshot.json", root) as holder:
        for value, khz, first in (
            ("1.2 GHz", "1200000", "scaling_min_freq"),
            ("2.4 GHz", "2400000", "scaling_max_freq"),  # Above the upper limit that is there,
            ("0.4 GHz", "400000", "scaling_min_freq"),  # or below both.
        ):
            put, names = pinned(value)
            assert len(put) == 24
            assert names[0] == first
            holder.put(put)
            assert [file.read_text().strip() for file in limits] == [khz, khz]
    assert [file.read_text().strip() for file in limits] == ["800000", "3600000"]


def test_a_policy_without_a_lower_limit_cannot_be_pinned(root: Path) -> None:
    (root / POLICIES / "policy3/scaling_min_freq").unlink()
    with pytest.raises(HostError, match=r"policy3/scaling_min_freq is missing"):
        knobs.assignments("cpu.frequency_pinned", "1.2 GHz", root)


@pytest.mark.parametrize("count", [1, 2, 7, 12])
def test_a_number_of_cores_leaves_so_many_on(root: Path, count: int) -> None:
    found = knobs.assignments("cpu.cores", count, root)
    # Core 0 has no switch: it is always on.
    assert 1 + list(found.values()).count("1") == count
    on = [int(place.split("/cpu")[-1].split("/")[0]) for place, v in found.items() if v == "1"]
    assert on == list(range(1, count))


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("cpu.frequency", 5, "has no unit"),
        ("cpu.frequency", "5 W", "cpu.frequency"),
        ("cpu.cores", 0, "is not a number of cores"),
        ("cpu.cores", "two", "is not a number of cores"),
        ("sata.alpm", "min_power", "did you mean"),
        ("disk.runtime", "off", "allowed: on, auto"),
        ("cpu.frequenzy", "1 GHz", 'did you mean "cpu.frequency"'),
    ],
)
def test_what_a_knob_cannot_take_is_refused(name: str, value: float | str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        knobs.check(name, [value])


def test_more_cores_than_there_are_cannot_be_on(root: Path) -> None:
    count = len(knobs.assignments("cpu.cores", 1, root)) + 1
    knobs.assignments("cpu.cores", count, root)
    with pytest.raises(HostError, match=f"cpu.cores: is {count + 1}; this host has {count} cores$"):
        knobs.assignments("cpu.cores", count + 1, root)


def test_a_host_without_the_knob_is_told(tmp_path: Path) -> None:
    with pytest.raises(HostError, match="this host has no cpufreq"):
        knobs.assignments("cpu.frequency", "1 GHz", tmp_path)


def test_old_values_come_back_at_the_end_and_after_an_error(root: Path, tmp_path: Path) -> None:
    snapshot = tmp_path / "state/snapshot.json"
    with Holder(snapshot, root) as holder:
        holder.put({ADDRESS: "800000"})
        assert frequency(root) == "800000"
        holder.put({ADDRESS: "1200000"})
        assert frequency(root) == "1200000"
    assert frequency(root) == "3600000"
    with pytest.raises(RuntimeError), Holder(snapshot, root) as holder:  # noqa: PT012
        holder.put({ADDRESS: "800000"})
        raise RuntimeError
    assert frequency(root) == "3600000"


def test_an_idle_stretch_finds_the_old_values_and_holding_goes_on(
    root: Path, tmp_path: Path
) -> None:
    with Holder(tmp_path / "state/snapshot.json", root) as holder:
        holder.put({ADDRESS: "800000"})
        holder.restore()
        assert frequency(root) == "3600000"
        holder.put({ADDRESS: "1200000"})
        assert frequency(root) == "1200000"
    assert frequency(root) == "3600000"


def test_old_values_come_back_when_the_study_is_killed(root: Path, tmp_path: Path) -> None:
    snapshot = tmp_path / "state/snapshot.json"
    study = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(snapshot), str(root), ADDRESS],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert study.stdout is not None
    assert study.stdout.readline() == "held\n"
    assert frequency(root) == "800000"
    study.kill()
    study.wait()
    end_s = time.monotonic() + 30
    while frequency(root) != "3600000":
        assert time.monotonic() < end_s, "nobody put it back"


def test_a_place_that_is_not_there_is_told_and_the_rest_put_back(
    root: Path, tmp_path: Path
) -> None:
    with Holder(tmp_path / "state/snapshot.json", root) as holder:
        holder.put({ADDRESS: "800000"})
        with pytest.raises(HostError, match="policy99"):
            holder.put({f"file:/{POLICIES}/policy99/scaling_max_freq": "1"})
    assert frequency(root) == "3600000"


@pytest.mark.parametrize("asked", [True, False])
def test_a_killed_holder_is_told_and_what_it_changed_is_put_back(
    root: Path, tmp_path: Path, asked: bool
) -> None:
    """The pipe to a killed holder was taken for the reader of the output, who had left.

    `wattio` ended with exit code 1 and without a word, and the frequency stayed as it was; where
    nothing was asked of the holder any more, even with exit code 0.
    """
    snapshot = tmp_path / "state/snapshot.json"
    told = r"was killed \(signal 9\); its changes have been undone"
    with pytest.raises(HostError, match=told), Holder(snapshot, root) as holder:  # noqa: PT012
        holder.put({ADDRESS: "800000"})
        process = holder._process
        assert process is not None
        process.kill()
        process.wait()
        if asked:
            holder.put({ADDRESS: "1200000"})
    assert frequency(root) == "3600000"
    assert not snapshot.exists()


def test_what_went_wrong_first_is_told_beside_a_killed_holder(root: Path, tmp_path: Path) -> None:
    told = r"^the meter is lost; besides, the process that held the knobs .* have been undone$"
    with (  # noqa: PT012
        pytest.raises(HostError, match=told),
        Holder(tmp_path / "snapshot.json", root) as holder,
    ):
        assert holder._process is not None
        holder._process.kill()
        raise WattioError("the meter is lost")


def test_an_answer_that_nobody_waited_for_is_no_complaint(root: Path, tmp_path: Path) -> None:
    """A Ctrl-C between question and answer left two answers, which were read as one."""
    with Holder(tmp_path / "snapshot.json", root) as holder:
        process = holder._process
        assert process is not None
        assert process.stdin is not None
        process.stdin.write(json.dumps({ADDRESS: "800000"}) + "\n")
    assert frequency(root) == "3600000"


def test_a_study_whose_holder_is_killed_says_so(root: Path, tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(STUDY)
    (tmp_path / "work.sh").write_text(f"#!/bin/sh\nkill -9 $(cat {tmp_path}/holder.pid)\n")
    (tmp_path / "work.sh").chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-c", LOST, str(root)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    last = done.stderr.splitlines()[-1]
    assert last.startswith("wattio: the process that held the knobs was killed (signal 9)")
    assert "have been undone; 1 of 4 iterations are kept in" in last
    assert "continue with: wattio run --resume" in last
    assert frequency(root) == "3600000"


def test_there_is_one_holder_at_a_time(root: Path, tmp_path: Path) -> None:
    snapshot = tmp_path / "state/snapshot.json"
    with Holder(snapshot, root), pytest.raises(HostError), Holder(snapshot, root):
        pass
