"""What a study does at its hosts: knobs, looks at processors and frequencies."""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hosts.conftest import local_ssh as local_ssh
from hosts.test_host import until
from wattio.errors import HostError, HostLost, HostRefused, InputError
from wattio.files import document
from wattio.hosts.host import Access, Host
from wattio.hosts.hosts import Hosts
from wattio.kinds.measurement import foreign_load, frequencies, plan, record, study_hosts, verdicts
from wattio.kinds.measurement.foreign_load import Others
from wattio.kinds.measurement.plan import MeasurementPlan
from wattio.kinds.measurement.schema import Rules
from wattio.kinds.measurement.system_status import Answer
from wattio.knobs import knobs

from measuring import made

STUDY = """\
[study]
name = "trial"
kind = "measurement"

[hosts]
clients = "NAME1"
servers = "NAME[2-3]"

[[system]]
name = "local"

[[workload]]
name = "wait"
kind = "idle"
options = { duration = "1 s" }

[[knob]]
name = "disk.runtime"
values = ["on", "auto"]
ON

[[meter]]
name = "estimate:assumed"
covers = ["host"]
"""


def planned(name: str = "n", on: str = "") -> MeasurementPlan:
    text = STUDY.replace("NAME", name).replace("ON", on)
    return plan.make(document.parse(Path("/nowhere/study.toml"), text))


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the knob of all "hosts" is: they are this machine."""
    path = tmp_path / "sda/control"
    path.parent.mkdir()
    path.write_text("on\n")
    own = replace(knobs.KNOBS["disk.runtime"], files=str(tmp_path / "sd*/control")[1:])
    monkeypatch.setitem(knobs.KNOBS, "disk.runtime", own)
    return path


@pytest.fixture
def hosts(local_ssh: Path) -> Iterator[Hosts]:
    name = f"e{uuid.uuid4().hex[:12]}x"
    with Hosts([f"{name}{number}" for number in (1, 2, 3)], Access()) as made_up:
        yield made_up


def of(hosts: Hosts, on: str = "") -> MeasurementPlan:
    return planned(hosts.names[0][:-1], on)


def test_knobs_are_set_on_the_servers_where_nothing_else_is_said() -> None:
    entry = planned().study.hosts
    assert entry is not None
    for on, names in (
        ("", ["n2", "n3"]),
        ('on = "clients"', ["n1"]),
        ('on = "servers"', ["n2", "n3"]),
        ('on = "here"', []),
    ):
        made_so = planned(on=on)
        assert entry.knob_names(made_so.study.knob[0]) == names
        assert study_hosts.turns_here(made_so, "disk.runtime") is (names == [])


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('servers = "NAME[2-3]"', ""),
        ('[hosts]\nclients = "NAME1"\nservers = "NAME[2-3]"\n', ""),
    ],
)
def test_a_knob_on_hosts_that_are_not_named_is_refused(before: str, after: str) -> None:
    text = STUDY.replace(before, after).replace("NAME", "n").replace("ON", 'on = "servers"')
    with pytest.raises(InputError, match=r"knob\[1\].on.*\[hosts\] names none"):
        plan.make(document.parse(Path("/nowhere/study.toml"), text))


def test_a_knob_is_turned_at_hosts_and_back(hosts: Hosts, disk: Path) -> None:
    study = of(hosts, 'on = "clients"')
    study_hosts.turn(study, hosts, {"disk.runtime": "auto"})
    assert disk.read_text() == "auto"
    study_hosts.turn(study, hosts, {})  # An idle iteration finds it as it was.
    assert disk.read_text() == "on"
    study_hosts.turn(study, hosts, {"disk.runtime": "auto"})
    hosts[hosts.names[0]].close()
    assert disk.read_text() == "on"
    # A host that is lost is left out: what needs it will be INVALID.
    study_hosts.turn(study, hosts, {"disk.runtime": "auto"})
    assert disk.read_text() == "on"


def test_a_host_without_the_knob_is_named(hosts: Hosts, disk: Path) -> None:
    disk.unlink()
    name = hosts.names[1]
    first = next(iter(study_hosts.looks(of(hosts), hosts)))
    with pytest.raises(HostError, match=f"{name}: disk.runtime: this host has no SCSI or ATA"):
        first()


def commands(host: Host) -> list[str]:
    """The programs that a run has at a host."""
    found = []
    for pid in host.ask("ours", marks=[host.mark]):
        with contextlib.suppress(OSError):
            found.append(Path(f"/proc/{pid}/comm").read_text().strip())
    return found


def test_what_a_run_has_at_its_hosts_is_not_that_of_others(hosts: Hosts) -> None:
    host = hosts[hosts.names[0]]
    running = host.begin(["sh", "-c", "setsid sleep 600 & sleep 600"], timeout_s=600)
    try:
        # Both of them, the one that left its session, too; until then they are shells still.
        assert until(lambda: commands(host).count("sleep") == 2)
        # They are on this machine's kernel, and looked at once, with it.
        assert set(study_hosts.busy(hosts, [])) == {""}
        # On kernels of their own each is looked at; two on one kernel are one machine.
        for at, boot in zip(hosts, ("a", "b", "b"), strict=True):
            at.facts = {**at.facts, "boot": boot}
        assert set(study_hosts.busy(hosts, [])) == {"", *hosts.names[:2]}
        hosts[hosts.names[0]].close()
        assert set(study_hosts.busy(hosts, [])) == {"", hosts.names[1]}
    finally:
        host.close()
    with pytest.raises(HostLost):
        running.wait(60.0)


def test_what_others_took_at_a_host_is_told_by_its_name(tmp_path: Path) -> None:
    span = made.span("write", 10.0, 12.0)
    kept = replace(
        made.record(span),
        others={"step": Others(0.01, 4, 10.0)},
        others_at={"n2": {"step": Others(8.0, 4, 10.0)}},
    )
    kept.write(tmp_path)
    assert record.read(tmp_path) == kept
    found = [one.reason for one in verdicts.of_record(kept, (), Rules()) if "BUSY" in one.reason]
    (text,) = found
    assert text == "BUSY: step: other processes took 8 core-seconds, 20 % of n2's 4 cores"


def cpufreq(khz: str, cores: str) -> Mapping[str, str]:
    folder = "sys/devices/system/cpu/cpufreq/policy0"
    return {f"{folder}/scaling_cur_freq": khz, f"{folder}/affected_cpus": cores}


def test_frequencies_of_hosts_are_told_by_their_names(hosts: Hosts) -> None:
    names = hosts.names

    def told(khz: str) -> object:
        def texts(patterns: Sequence[str]) -> Mapping[str, str]:
            return {
                path: text
                for path, text in cpufreq(khz, "0 1").items()
                if path.rpartition("/")[2] in {one.rpartition("/")[2] for one in patterns}
            }

        return texts

    for at, khz in zip(hosts, ("1000000", "2000000", "x"), strict=True):
        at.facts = {**at.facts, "has_cpufreq": True}
        at.texts = told(khz)  # type: ignore[method-assign,assignment]
    look = study_hosts.frequency_look(hosts)
    assert look is not None
    status = look()
    assert status["hosts"] == {
        names[0]: {"source": "scaling_cur_freq", "khz": [1_000_000] * 2},
        names[1]: {"source": "scaling_cur_freq", "khz": [2_000_000] * 2},
    }
    looks = [Answer(made.instant(11.0), status)]
    span = made.span("write", 10.0, 12.0)
    found = frequencies.of_phase(span, looks)
    assert found[f"{names[1]}.cpu_frequency_hz_mean"] == (2e9, "Hz")
    doubts = list(frequencies.doubts(span, looks, {"cpu.frequency": "1 GHz"}, names[1]))
    assert doubts == [f"write: cores of {names[1]} ran at up to 2 GHz, and cpu.frequency is 1 GHz"]
    assert not list(frequencies.doubts(span, looks, {"cpu.frequency": "1 GHz"}, names[0]))
    # This machine's are not those of a host that tells none.
    here = [Answer(made.instant(11.0), {"khz": [2_000_000]})]
    assert not list(frequencies.doubts(span, here, {"cpu.frequency": "1 GHz"}, names[0]))


def test_a_host_that_is_lost_hides_no_other_that_refuses(
    hosts: Hosts, disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first complaint was taken for all: a knob stayed unset, and nobody said so."""
    lost, refusing = hosts.names[1:]

    def loses(*_: object, **__: object) -> None:
        raise HostLost(f"{lost}: the connection is lost")

    monkeypatch.setattr(hosts[lost], "ask", loses)
    ask = hosts[refusing].ask

    def refuses(what: str, **details: Any) -> Any:  # noqa: ANN401 (as the host's own)
        if what == "hold":
            raise HostRefused(f"{refusing}: Read-only file system")
        return ask(what, **details)

    monkeypatch.setattr(hosts[refusing], "ask", refuses)
    with pytest.raises(HostError, match=f"disk.runtime: {refusing}: Read-only file system"):
        study_hosts.turn(of(hosts), hosts, {"disk.runtime": "auto"})
    assert disk.read_text() == "on\n"


def test_looks_of_others_are_at_this_process_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Where there are no hosts nobody has to know which kernel this is.
    monkeypatch.setattr(study_hosts, "_BOOT", tmp_path / "nowhere")
    found = study_hosts.busy(None, [os.getpid()])
    assert isinstance(found[""], foreign_load.Look)
