from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from wattio.errors import InputError
from wattio.files import document
from wattio.files.document import Document
from wattio.kinds.measurement import plan, schema
from wattio.kinds.measurement.folder import MeasurementFolder
from wattio.kinds.measurement.overrides import Asked
from wattio.shipped import STUDIES
from wattio.simulator.native import NativeSimulator
from wattio.user_files import check_file

STUDY = """\
[study]
name = "disks"
kind = "measurement"
repetitions = 2
clients = [1, 2]
idle_after = "0 s"

[[system]]
name = "here"
kind = "local"

[[workload]]
name = "wait"
kind = "idle"
options = { duration = "10 s" }

[[knob]]
name = "cpu.frequency"
values = ["1 GHz", "2 GHz"]

[[meter]]
name = "csv:power.csv"
label = "pdu"
covers = ["server", "switch"]

[[meter]]
name = "estimate:assumed"
covers = ["server"]
role = "beside"

[[subtract]]
device = "switch"
power = "15.46 W"
source = "its mean over an idle hour"

[scale.small.study]
repetitions = 1
[scale.small.workload.wait]
clients = [1]
options = { duration = "1 s" }
"""


def given(text: str) -> Document:
    return document.parse(Path("/nowhere/study.toml"), text)


def changed(before: str, after: str) -> Document:
    assert before in STUDY
    return given(STUDY.replace(before, after))


def test_a_plan_holds_every_cell_repetition_and_idle_phase() -> None:
    made = plan.make(given(STUDY))
    assert len(made.iterations) == 1 + 2 * 2 * 2
    assert made.iterations[0].run.name == "idle/here, before"
    names = sorted({item.run.name for item in made.iterations[1:]})
    assert names[0] == "wait/here, 1 client, cpu.frequency=1 GHz"
    assert len(names) == 4
    assert len({item.identity for item in made.iterations}) == len(made.iterations)


def test_the_order_is_drawn_from_the_seed_and_nothing_else() -> None:
    orders = [[item.identity for item in plan.make(given(STUDY)).iterations] for _ in range(2)]
    assert orders[0] == orders[1]
    sequential = plan.make(changed("repetitions = 2", 'repetitions = 2\norder = "sequential"'))
    names = [item.run.name for item in sequential.iterations[1:]]
    assert names[:4] == sorted(names[:4])
    assert [item.run.name for item in plan.make(given(STUDY)).iterations[1:]] != names


def test_an_identity_changes_with_what_decides_the_result() -> None:
    before = {item.identity for item in plan.make(given(STUDY)).iterations[1:]}
    for other in ('settle = "9 s"', "drop_caches = false", "seed = 2"):
        after = plan.make(changed("repetitions = 2", f"repetitions = 2\n{other}"))
        assert not before & {item.identity for item in after.iterations[1:]}, other


def test_another_attempt_has_an_identity_of_its_own() -> None:
    made = plan.make(given(STUDY))
    first = made.iterations[1]
    second = made.again(first)
    third = made.again(second)
    assert len({first.identity, second.identity, third.identity}) == 3
    assert (third.attempt, third.repetition, third.run) == (2, first.repetition, first.run)


TWO = STUDY.replace("[[workload]]", '[[system]]\nname = "there"\nkind = "local"\n\n[[workload]]', 1)


def test_interleaved_systems_take_turns_within_each_repetition() -> None:
    """Each repetition holds every cell once, in an order of its own; each is brought up alone."""
    text = TWO.replace("repetitions = 2", 'repetitions = 3\norder = "interleaved"')
    made = plan.make(given(text))
    names = [item.run.name for item in made.iterations]
    idle, rest = names[:2], names[2:]
    assert idle == ["idle/here, before", "idle/there, before"]
    size = len(rest) // 3
    parts = [rest[start : start + size] for start in range(0, len(rest), size)]
    assert len(set(parts[0])) == size == 2 * 2 * 2
    assert {tuple(sorted(part)) for part in parts} == {tuple(sorted(parts[0]))}
    assert parts[0] != parts[1] != parts[2]
    assert [len(own) for own in made.stretches(made.iterations)] == [1] * len(names)
    assert [item.run.name for item in plan.make(given(text)).iterations] == names
    # Each with the identity that it has in any other order.
    others = plan.make(given(text.replace("interleaved", "sequential"))).iterations
    assert {item.identity for item in others} == {item.identity for item in made.iterations}


def test_a_system_stays_up_for_all_of_its_iterations_in_any_other_order() -> None:
    made = plan.make(given(TWO))
    found = [(own[0].run.system, len(own)) for own in made.stretches(made.iterations)]
    assert found == [("here", 9), ("there", 9)]
    # What is left of a plan that was stopped, too.
    left = [item for item in made.iterations if item.repetition == 1]
    assert [own[0].run.system for own in made.stretches(left)] == ["here", "there"]


DEVICE = STUDY.replace('kind = "local"', 'kind = "nbd"')


def test_what_needs_a_folder_is_not_run_on_a_block_device() -> None:
    """It would run in a folder beside the device, and measure that."""
    assert plan.make(given(DEVICE)).iterations
    run = 'kind = "command"\noptions = { run = ["true"] }'
    text = DEVICE.replace('kind = "idle"\noptions = { duration = "10 s" }', run)
    with pytest.raises(InputError, match=r'"command" needs a folder, but system "here" serves a'):
        plan.make(given(text))


def test_a_scale_changes_what_it_names_and_nothing_else() -> None:
    small = schema.from_document(given(STUDY), "small")
    assert small.study.repetitions == 1
    assert small.study.clients == [1, 2]
    assert small.workload[0].options == {"duration": "1 s"}
    assert small.workload[0].clients == [1]


def test_the_resolved_study_reads_back_as_itself(tmp_path: Path) -> None:
    from wattio.files import toml_text

    made = plan.make(given(STUDY), Asked("small"))
    path = tmp_path / "resolved.toml"
    path.write_text(toml_text.dump(made.resolved))
    again = schema.from_document(document.read(path))
    assert again == made.study.model_copy(update={"scale": {}})


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("clients = [1, 2]", "clients = [0]", "study.clients[1]"),
        ('kind = "local"', 'kind = "lokal"', 'system[1].kind: "lokal" is not known; did you mean'),
        ('kind = "idle"', 'kind = "idl"', 'workload[1].kind: "idl" is not known'),
        ('"10 s" }', '"10 s", x = 1 }', "workload[1].options.x: unknown key; allowed: duration"),
        ('name = "cpu.frequency"', 'name = "cpu.freq"', '"cpu.freq" is not a knob'),
        ('"1 GHz", "2 GHz"', "1, 2", "has no unit"),
        ('"1 GHz", "2 GHz"', '"-1 GHz"', '"-1 GHz": allowed is above 0 Hz'),
        ('"1 GHz", "2 GHz"', '"1 GHz", "1 GHz"', "knob[1].values: '1 GHz' is listed twice"),
        ("clients = [1, 2]", "clients = [2, 2]", "study.clients: 2 is listed twice"),
        ("clients = [1, 2]", "edp_weights = [1, 1]", "study.edp_weights: 1 is listed twice"),
        ("csv:power.csv", "cvs:power.csv", 'meter[1].name: meter "cvs:power.csv": unknown kind'),
        ('role = "beside"', 'role = "total"', '"server" is also covered by pdu'),
        ('device = "switch"', 'device = "swich"', 'no total covers "swich"; did you mean'),
        ('label = "pdu"', 'label = "estimate"', "is already taken by another meter"),
        ("[scale.small.workload.wait]", "[scale.small.workload.x]", "no workload has this name"),
        ("repetitions = 2", 'repetitions = 2\npeak = "none.toml"', "none.toml: cannot be read"),
    ],
)
def test_bad_input_is_refused_with_its_place(before: str, after: str, message: str) -> None:
    with pytest.raises(InputError) as refused:
        plan.make(changed(before, after), Asked("small"))
    assert "/nowhere/study.toml" in str(refused.value)
    assert message in str(refused.value)


def test_no_workload_is_called_as_the_idle_system_is() -> None:
    """Its rows and those of ready-idle came together, and no report could be made of them."""
    text = STUDY.replace('name = "wait"\nkind = "idle"', 'name = "idle"')
    text = text.replace("[scale.small.workload.wait]", "[scale.small.workload.idle]")
    with pytest.raises(InputError) as refused:
        plan.make(given(text))
    told = str(refused.value)
    assert told.startswith('/nowhere/study.toml:13: workload[1].name: "idle" is what ')
    assert told.endswith('; give it another name, and kind = "idle"')


def test_what_a_model_file_says_decides_the_identity(tmp_path: Path) -> None:
    """A study once resumed with another model behind the same name, and mixed two."""
    path = tmp_path / "study.toml"
    path.write_text(STUDY.replace("estimate:assumed", "estimate:my.toml"))
    hashes = []
    for text in ("one", "one", "other"):
        (tmp_path / "my.toml").write_text(text)
        made = plan.make(document.read(path))
        hashes.append(made.short_hash)
    assert hashes[0] == hashes[1] != hashes[2]
    assert made.study.meter[1].name == f"estimate:{tmp_path}/my.toml"


def test_the_model_that_is_found_for_the_host_decides_the_identity(tmp_path: Path) -> None:
    """A host that was calibrated before a study was resumed had estimates of two models in it."""
    model = tmp_path / "etc/wattio/power-model.toml"
    model.parent.mkdir(parents=True)
    name = f"estimate:host?root={tmp_path}"
    source = changed("estimate:assumed", name)
    hashes = [plan.make(source).short_hash]
    for text in ("one", "one", "other"):
        model.write_text(text)
        hashes.append(plan.make(source).short_hash)
    assert hashes[1] == hashes[2]
    assert len(set(hashes)) == 3
    named = f"estimate:{model}?root={tmp_path}"
    assert plan.make(changed("estimate:assumed", named)).short_hash == hashes[-1]
    assert plan.make(source).study.meter[1].name == name


def test_a_meter_asked_for_takes_the_place_of_the_totals() -> None:
    made = plan.make(given(STUDY), Asked(meter="rapl:"))
    roles = [(meter.shown, meter.role, meter.covers) for meter in made.study.meter]
    assert roles[0] == ("rapl", "total", ["server", "switch"])
    assert [role for _, role, _ in roles[1:]] == ["beside", "beside"]


OPTIONAL = """
[[system]]
name = "there"
kind = "local"
optional = true
[[workload]]
name = "only-there"
kind = "idle"
systems = ["there"]
"""


def test_optional_systems_can_be_left_out_with_what_runs_on_them_alone() -> None:
    head, mark, scale = STUDY.partition("[scale")
    source = given(head + OPTIONAL + mark + scale)
    whole, part = plan.make(source), plan.make(source, Asked(without=("there",)))
    assert {item.run.system for item in whole.iterations} == {"here", "there"}
    assert {item.run.system for item in part.iterations} == {"here"}
    assert {item.run.subject for item in part.iterations} == {"idle", "wait"}
    # What is left is what it was.
    assert {item.identity for item in part.iterations} < {
        item.identity for item in whole.iterations
    }
    assert Asked.of_inputs(json.loads(json.dumps(part.inputs))) == Asked(without=("there",))
    with pytest.raises(InputError, match="none of the study's systems is available"):
        plan.make(source, Asked(without=("there", "here")))


def test_systems_have_folders_that_every_program_takes() -> None:
    """A blank in the name of a system ended ceph-fuse, which knows folders by a shell."""
    names = ["plain-1.x_y", "64 groups", "64-groups", "a=b, c", "a+b  c"]
    folders = [schema.SystemEntry(name=name).folder for name in names]
    assert folders[0] == names[0]
    assert all(re.fullmatch("[A-Za-z0-9._-]+", folder) for folder in folders)
    assert len(set(folders)) == len(names)


PDU = "snmp://public@pdu/apc-rpdu2?outlet=[1-3]"
EACH = f"""
[[meter]]
name = "{PDU}"
each = "node[1-3]"
"""


def test_each_device_has_a_meter_of_its_own() -> None:
    head, mark, scale = STUDY.partition("[scale")
    made = plan.make(given(head + EACH + mark + scale))
    own = [meter for meter in made.study.meter if meter.name.startswith("snmp")]
    assert [(one.shown, one.covers) for one in own] == [
        (f"node{number}", [f"node{number}"]) for number in (1, 2, 3)
    ]
    assert [one.name[-1] for one in own] == ["1", "2", "3"]
    apart = "".join(
        f'[[meter]]\nname = "{one.name}"\nlabel = "{one.shown}"\ncovers = ["{one.shown}"]\n'
        for one in own
    )
    # Written one by one they are the same study.
    again = plan.make(given(head + apart + mark + scale))
    assert [item.identity for item in again.iterations] == [
        item.identity for item in made.iterations
    ]


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("[1-3]", "[1-4]", "3 devices, but 4 names of meters"),
        ("[1-3]", "=3", 'has no ranges; write one, as in "[1-9]"'),
        ('each = "node[1-3]"', 'each = "node[1-3]"\ncovers = ["a"]', "remove covers and label"),
        ('each = "node[1-3]"', "", "names no device that it measures"),
        ('"node[1-3]"', '"node[3-1]"', "write them as"),
    ],
)
def test_meters_of_each_device_that_do_not_agree_are_refused(
    before: str, after: str, message: str
) -> None:
    head, mark, scale = STUDY.partition("[scale")
    changed_text = EACH.replace(before, after, 1)
    with pytest.raises(InputError, match=f"study.toml:.*{re.escape(message)}"):
        plan.make(given(head + changed_text + mark + scale))


def test_hosts_and_their_meters_can_be_asked_for() -> None:
    peak = str(STUDIES / "arm-cluster" / "thesis-peak.toml")
    asked = Asked("small", PDU, "n[1-3]", peak, "n[1-2]", "n3", ("-F", "x"))
    made = plan.make(given(STUDY), asked)
    assert made.peak is not None
    assert made.peak_text == Path(peak).read_text()
    assert made.study.hosts is not None
    assert made.study.hosts.client_names() == ["n1", "n2"]
    assert made.study.hosts.server_names() == ["n3"]
    assert made.study.hosts.ssh == ["-F", "x"]
    totals = [meter for meter in made.study.meter if meter.role == "total"]
    assert [meter.covers for meter in totals] == [["n1"], ["n2"], ["n3"]]
    assert Asked.of_inputs(json.loads(json.dumps(made.inputs))) == asked
    elsewhere = plan.make(given(STUDY), replace(asked, servers="n4"))
    assert not {item.identity for item in made.iterations} & {
        item.identity for item in elsewhere.iterations
    }
    assert Asked.of_inputs({"scale": None, "meter": None}) == Asked()


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (Asked(peak_file="/nonexistent/peak.toml"), "--peak /nonexistent/peak.toml: cannot"),
        (Asked(servers="n1"), "--hosts: names no hosts for the clients"),
        (Asked(clients="n[1-"), "--hosts, --servers, --ssh: clients: "),
        (Asked(each="n1"), "--each needs a --meter"),
        (Asked(meter="rapl:", each="n1"), "--meter, --each: "),
        (Asked(meter=PDU, each="n[1-2]"), "2 devices, but 3 names of meters"),
        (Asked(meter=PDU, each="pdu,n1,n2"), '"pdu" is already the label of another meter'),
    ],
)
def test_hosts_and_meters_that_do_not_agree_are_refused(asked: Asked, message: str) -> None:
    with pytest.raises(InputError, match=message):
        plan.make(given(STUDY), asked)


@pytest.mark.parametrize(
    "scale",
    [
        "study = 3",
        'system = "x"',
        "rules = true",
        "workload.wait = 3",
        "workload.wait.options = 3",
        "system.here = []",
    ],
)
def test_a_scale_of_wrong_types_is_refused(scale: str, tmp_path: Path) -> None:
    """Each ended in a traceback, and `wattio check` passed it."""
    head, _, _ = STUDY.partition("[scale")
    source = given(f"{head}[scale.small]\n{scale}\n")
    with pytest.raises(InputError, match=r"study.toml:\d+: scale.small.*must be a table"):
        schema.from_document(source, "small")
    (tmp_path / "study.toml").write_text(source.text)
    with pytest.raises(InputError, match="must be a table"):
        check_file(tmp_path / "study.toml", NativeSimulator())


@pytest.mark.parametrize(
    ("scale", "message"),
    [
        ("study.repetition = 1", "scale.small.study.repetition: unknown key; did you mean"),
        ("workload.wait.kin = 'idle'", "scale.small.workload.wait.kin: unknown key"),
        ("knob = [{ name = 'cpu.cores' }]", "knob[1].values: is required"),
    ],
)
def test_a_wrong_key_of_a_scale_is_told_where_it_stands(scale: str, message: str) -> None:
    """It was told as a key of [study], with the line of that table."""
    head, _, _ = STUDY.partition("[scale")
    text = f"{head}[scale.small]\n{scale}\n"
    line = text.count("\n") if "knob" not in scale else None
    with pytest.raises(InputError) as refused:
        schema.from_document(given(text), "small")
    assert message in str(refused.value)
    assert line is None or f"study.toml:{line}: " in str(refused.value)


@pytest.mark.parametrize(
    ("scale", "key"),
    [
        ("workload.wait.options = { duration = 'soon' }", "workload.wait.options.duration"),
        ("system.here.options = { sice = '1 GiB' }", "system.here.options.sice"),
    ],
)
def test_a_wrong_option_of_a_scale_is_told_where_it_stands(scale: str, key: str) -> None:
    """It was told as one of [[workload]], with the line of that table."""
    head, _, _ = STUDY.partition("[scale")
    text = f"{head}[scale.small]\n{scale}\n"
    with pytest.raises(InputError) as refused:
        plan.make(given(text), Asked("small"))
    told = f"study.toml:{text.count(chr(10))}: scale.small.{key}: "
    assert told in str(refused.value)


@pytest.mark.parametrize(
    "line",
    [
        'options = { duration = "1 s\\u0000" }',
        'kind = "fio"\noptions = { jobs = [{ name = "a\\u0000", rw = "read" }] }',
    ],
)
def test_a_name_with_a_nul_is_refused(line: str) -> None:
    text = STUDY.replace('kind = "idle"\noptions = { duration = "10 s" }', line)
    with pytest.raises(InputError, match="holds the character NUL"):
        given(text)
    for name in ("csv:power\\u0000.csv", "estimate:\\u0000"):
        with pytest.raises(InputError, match="holds the character NUL"):
            given(STUDY.replace("csv:power.csv", name))


def test_an_unknown_scale_is_refused() -> None:
    with pytest.raises(InputError, match='has no scale "tiny"; allowed: small'):
        plan.make(given(STUDY), Asked("tiny"))


def test_secrets_in_names_of_meters_are_hidden_or_for_the_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    path.write_text(STUDY.replace("csv:power.csv", "snmp://hush-hush@pdu/apc-rpdu2?outlet=1"))
    asked = Asked(meter="redfish://me:hush-hush@bmc")
    made = MeasurementFolder.create(
        plan.make(document.read(path), asked), tmp_path, datetime.now(UTC)
    )
    telling = {
        file.name: file.stat().st_mode & 0o777
        for file in made.path.rglob("*")
        if file.is_file() and b"hush-hush" in file.read_bytes()
    }
    assert telling == {"study.toml": 0o600, "inputs.json": 0o600}
    assert "hush-hush" not in made.public_study_text()
    assert "snmp://***@pdu" in made.public_study_text()
    assert [meter["name"] for meter in made.resolved()["meter"]] == [
        "redfish://me:***@bmc",
        "snmp://***@pdu/apc-rpdu2?outlet=1",
        "estimate:assumed",
    ]
