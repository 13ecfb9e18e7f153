"""Studies whose clients are on other hosts: here an `ssh` that reaches this machine."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from hosts.conftest import local_ssh as local_ssh
from wattio.kinds.measurement.folder import MeasurementFolder

from measuring.test_running import ASSUMED_METER, ended, ended_usable, result, wait_for, wattio

STUDY = (
    """\
[study]
name = "trial"
kind = "measurement"
repetitions = 2
clients = [1, 3]
idle_before = "0.2 s"
idle_after = "0 s"
settle = "0 s"
drop_caches = false
repeat_invalid = 1

[hosts]
clients = "{name}[1-2]"
lease = "5 s"

[[system]]
name = "shared"
kind = "mounted"
options = {{ path = "{path}", shared = false }}

[[workload]]
name = "own"
kind = "command"
options = {{ run = ["./work.sh"], guess = "1 s" }}

"""
    + ASSUMED_METER
)

WORK = """\
#!/bin/sh
echo "begin write" >&$WATTIO_PHASES
dd if=/dev/zero of="$WATTIO_FOLDER/data$WATTIO_CLIENT" bs=1M count=2 2>/dev/null
sleep 0.3
echo "end write" >&$WATTIO_PHASES
echo "result write bytes=2097152" >&$WATTIO_PHASES
"""


@pytest.fixture
def study(tmp_path: Path, local_ssh: Path) -> Path:
    (tmp_path / "mount").mkdir()
    path = tmp_path / "study.toml"
    name = f"h{os.getpid()}x"
    path.write_text(STUDY.format(name=name, path=tmp_path / "mount"))
    (tmp_path / "work.sh").write_text(WORK)
    (tmp_path / "work.sh").chmod(0o755)
    return path


@pytest.mark.slow
def test_clients_are_on_hosts_and_their_clocks_are_kept(study: Path) -> None:
    ended_usable(study, study.parent)
    folder = MeasurementFolder(result(study.parent))
    records = [folder.record(item.identity) for item in folder.iterations()]
    own = [record for record in records if record.module == "command"]
    assert len(own) == 4
    for record in own:
        assert all(drift.off_s < 0.01 and drift.drifted_s < 0.01 for drift in record.hosts.values())
        assert all(facts["cores"] > 0 for facts in record.system["hosts"].values())
    assert {len(record.hosts) for record in own} == {1, 2}
    for item in folder.iterations():
        assert item.usable, item.verdicts
        if item.run.subject == "own":
            clients = item.run.settings["clients"]
            assert item.by_phase["write"]["bytes"][0] == 2097152 * clients
    assert list((study.parent / "mount").iterdir()) == []
    page = (folder.path / "report" / "index.html").read_text()
    names = list(own[0].system["hosts"])
    assert f"{names[0]}, {names[1]}: {own[0].system['hosts'][names[0]]['cores']} cores" in page


@pytest.mark.slow
def test_a_host_that_is_lost_stops_the_study_and_it_goes_on_later(
    study: Path, local_ssh: Path
) -> None:
    """What was measured until then is kept."""
    working = local_ssh.read_text()
    gone = study.parent / "gone"
    refusal = f"[ -e {gone} ] && {{ echo no route to host >&2; exit 255; }}"
    local_ssh.write_text(working.replace("exec /bin", f"{refusal}; exec /bin"))
    process = wattio("run", study, folder=study.parent)
    wait_for(study.parent, 2, process)
    agents = _agents_of(process.pid)
    gone.touch()
    os.kill(agents[0], signal.SIGKILL)
    code, _, err = ended(process)
    assert code == 2, err
    assert "no route to host" in err
    assert "wattio run --resume" in err
    gone.unlink()
    folder = result(study.parent)
    code, _, err = ended(wattio("run", "--resume", folder, folder=study.parent))
    assert code == 0, err


def _agents_of(pid: int) -> list[int]:
    """The agents that a study has started, by whichever thread."""
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    children = [int(word) for task in tasks for word in task.read_text().split()]
    words = {child: Path(f"/proc/{child}/cmdline").read_bytes() for child in children}
    return [child for child, said in words.items() if b"wattio-agent" in said]
