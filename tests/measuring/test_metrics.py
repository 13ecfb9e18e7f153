from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from wattio.analysis.peak import Part, Peak, Quantity, Rate
from wattio.kinds.measurement import derive, metrics
from wattio.kinds.measurement.derive import Rulebook, View
from wattio.kinds.measurement.record import Account, Phase
from wattio.kinds.measurement.schema import MeasurementStudy
from wattio.kinds.measurement.verdicts import Watched
from wattio.workloads.workload import Operation

from measuring import made

MIB = 1 << 20


def study(**more: object) -> MeasurementStudy:
    content = {
        "study": {"name": "s", "kind": "measurement"},
        "system": [{"name": "local"}],
        "workload": [{"name": "fio"}],
        "meter": [{"name": "csv:x", "covers": ["server"]}],
    }
    return MeasurementStudy.model_validate(content | more)


def written(seconds: float, mib: float = 1000.0) -> Operation:
    return Operation("write", "write", seconds, round(mib * MIB), 250, mib / seconds, 250 / seconds)


def pdu(step_s: float = 0.05, **more: object) -> Watched:
    """A meter of P(t) = 50 + t, in watts."""
    times = np.arange(0.0, 100.0, step_s)
    return made.watched(made.samples(times, lambda t: 50 + t), **more)  # type: ignore[arg-type]


def test_every_quantity_of_a_phase_by_hand() -> None:
    phase = made.span("write", 10.0, 30.0)
    found = metrics.of_phase(phase, [written(20.0)], [pdu()], study(), None)
    energy_j = 50 * 20 + (30**2 - 10**2) / 2
    expected = {
        "seconds": 20.0,
        "bytes": 1000.0 * MIB,
        "throughput_mib_s": 50.0,
        "energy_j": energy_j,
        "power_w_mean": energy_j / 20,
        "mib_per_joule": 1000 / energy_j,
        "mib_s_per_joule": 50 / energy_j,
        "iops_per_watt": 250 / energy_j,
        "edp_w1": energy_j * 20,
        "edp_w2": energy_j * 400,
        "power_w_min": 60.0,
        "power_w_p50": 70.0,
        "power_w_max": 80.0,
        "pdu.energy_j": energy_j,
    }
    for name, value in expected.items():
        assert found[name][0] == pytest.approx(value), name
    assert found["edp_w2"][1] == "J s^2"


def test_net_stands_beside_gross() -> None:
    subtracting = study(
        meter=[{"name": "csv:x", "label": "pdu", "covers": ["server", "switch"]}],
        subtract=[{"device": "switch", "power": "15.46 W", "source": "idle hour"}],
    )
    phase = made.span("write", 10.0, 30.0)
    found = metrics.of_phase(phase, [written(20.0)], [pdu()], subtracting, None)
    gross_j, net_j = found["energy_j"][0], found["energy_j_net"][0]
    assert gross_j - net_j == pytest.approx(15.46 * 20)
    assert found["mib_per_joule_net"][0] == pytest.approx(1000 / net_j)
    assert found["mib_per_joule"][0] == pytest.approx(1000 / gross_j)


def test_what_rests_on_an_estimate_is_called_so_everywhere() -> None:
    phase = made.span("write", 10.0, 30.0)
    found = metrics.of_phase(phase, [written(20.0)], [pdu(estimate=True)], study(), None)
    measured = {"seconds", "bytes", "operations", "throughput_mib_s", "iops"}
    for name in found:
        quantity = name.removeprefix("pdu.")
        assert quantity.startswith("estimated_") or quantity in measured, name


def test_totals_are_summed_and_others_stand_beside() -> None:
    second = Watched.of(
        made.entry("rack2", covers=["rack2"]),
        made.facts("rack2"),
        made.samples(np.arange(0.0, 100.0, 1.3), lambda t: 10.0 + 0 * t),
    )
    beside = Watched.of(
        made.entry("model", role="beside"),
        made.facts("model", estimate=True),
        made.samples(np.arange(0.0, 100.0, 0.7), lambda t: 33.0 + 0 * t),
    )
    phase = made.span("write", 10.0, 30.0)
    found = metrics.of_phase(phase, [], [pdu(), second, beside], study(), None)
    assert found["energy_j"][0] == pytest.approx(
        found["pdu.energy_j"][0] + found["rack2.energy_j"][0]
    )
    assert found["rack2.energy_j"][0] == pytest.approx(200)
    assert found["model.estimated_energy_j"][0] == pytest.approx(660)
    assert found["power_w_p50"][0] == pytest.approx(80)


def test_what_stands_beside_spoils_no_iteration() -> None:
    whole = made.watched(made.samples(np.arange(0.0, 100.0, 0.5), lambda t: 50 + t))
    holed = Watched.of(
        made.entry("model", role="beside"),
        made.facts("model", estimate=True),
        made.samples(np.array([0.0, 1, 2, 30, 31, 99]), lambda t: 30.0 + t),
    )
    record = made.record(made.span("write", 10.0, 60.0))
    book = Rulebook(study(), None)
    view = View.__new__(View)
    view.watched, view.stills = [whole, holed], [[], []]
    found = derive.derive(record, derive.Results(), view, book)
    assert {verdict.verdict for verdict in found.verdicts} == {"WARN"}
    assert any("GAP: write: model" in verdict.reason for verdict in found.verdicts)
    assert "energy_j" in found.by_phase["write"]
    assert "model.estimated_energy_j" not in found.by_phase["write"]


@pytest.mark.parametrize(("estimate", "gone"), [(False, "energy_j"), (True, "estimated_energy_j")])
def test_without_a_meter_metrics_of_a_host_or_an_operation_of_its_name_stay(
    estimate: bool, gone: str
) -> None:
    """A gap of a node's outlet took the node's core-seconds and frequencies along."""
    meter = made.watched(made.samples(np.arange(0.0, 100.0), lambda t: 50 + t), "write")
    meter = replace(meter, facts=made.facts("write", estimate=estimate))
    phase = made.span("write", 10.0, 30.0)
    operations = [written(20.0), replace(written(20.0), operation="read")]
    found = metrics.of_phase(phase, operations, [meter], study(), None)
    found |= {"write.cores_busy_s": (3.0, "s"), "write.cpu_frequency_hz_mean": (1e9, "Hz")}
    left = metrics.without(found, meter)
    assert found.keys() - left.keys() == {f"write.{gone}"}
    assert {"write.throughput_mib_s", "write.cores_busy_s"} < left.keys()


def test_a_counter_is_preferred_and_bridges_what_samples_miss() -> None:
    times = np.arange(0.0, 100.0, 1.0)
    # Power that flickers between the samples: only the counter knows.
    energy_j = 80 * times
    recorded = made.samples(times, lambda t: 10.0 + 0 * t, energy_j=energy_j)
    counting = made.watched(recorded, counts_energy=True)
    phase = made.span("write", 10.25, 30.5)
    found = metrics.of_phase(phase, [], [counting], study(), None)
    assert found["energy_j"][0] == pytest.approx(80 * 20.25)


def test_energy_is_absent_where_a_total_said_nothing() -> None:
    silent = made.watched(made.samples(np.empty(0), lambda t: t))
    found = metrics.of_phase(made.span("write", 10.0, 30.0), [], [silent], study(), None)
    assert set(found) == {"seconds"}


def test_a_known_function_of_time_comes_out_within_a_sample() -> None:
    times = np.arange(0.0, 100.0, 1.0)
    recorded = made.samples(times, lambda t: 60 + 20 * np.sin(t / 3))
    phase = made.span("write", 7.3, 61.8)
    found = metrics.of_phase(phase, [], [made.watched(recorded)], study(), None)

    def integral(t: float) -> float:
        return 60 * t - 60 * math.cos(t / 3)

    assert found["energy_j"][0] == pytest.approx(integral(61.8) - integral(7.3), rel=0.01)


def test_several_operations_of_a_phase_add_up_and_stand_by_themselves() -> None:
    both = [
        Operation("read", "mixed", 10.0, 70 * MIB, 70, 7.0, 7.0, {"mean": 100.0}),
        Operation("write", "mixed", 10.0, 30 * MIB, 30, 3.0, 3.0, {"mean": 300.0}),
    ]
    found = metrics.of_phase(made.span("mixed", 0.0, 10.0), both, [pdu()], study(), None)
    assert found["throughput_mib_s"][0] == 10.0
    assert found["iops"][0] == 10.0
    assert found["read.latency_us_mean"] == (100.0, "us")
    assert "latency_us_mean" not in found


def test_files_are_over_the_time_of_all_and_cost_joules() -> None:
    copied = Operation("copy", "copy", 10.0, 50 * MIB, files=200, files_per_s=20.0)
    phase = made.span("copy", 10.0, 20.0)
    found = metrics.of_phase(phase, [copied], [pdu()], study(), None)
    assert found["files"] == (200.0, "1")
    assert found["files_per_s"] == (20.0, "1/s")
    assert found["energy_j_per_file"][0] == pytest.approx(found["energy_j"][0] / 200)
    assert found["files_per_joule"][0] == pytest.approx(200 / found["energy_j"][0])
    assert {"iops", "operations", "energy_j_per_io"}.isdisjoint(found)
    # Deletes that went on after it cost energy, too; the rate is of the time before.
    charged = metrics.of_phase(
        made.span("copy", 10.0, 30.0), [copied], [pdu()], study(), None, deletes_s=10.0
    )
    assert charged["files_per_s"] == (20.0, "1/s")
    assert charged["energy_j_per_file"][0] == pytest.approx(charged["energy_j"][0] / 200)


def rated(name: str, count: int, iops: float, **more: object) -> Operation:
    return Operation(name, "remove", count / iops, operations=count, iops=iops, **more)  # type: ignore[arg-type]


def test_a_rate_over_operations_in_turn_is_what_they_did_over_all_of_their_time() -> None:
    """mdtest removes directories, then files, then the tree; their rates were added up.

    214, 347 and 1431 a second came out as 1992, which nothing had ever done in a second.
    """
    names = {"directory_removal": (500, 214.0), "file_removal": (500, 347.0)}
    turns = [rated(name, *one, in_turn=True) for name, one in names.items()]
    turns.append(rated("tree_removal", 1, 1431.0, in_turn=True))
    seconds = 500 / 214 + 500 / 347 + 1 / 1431
    phase = made.span("remove", 10.0, 10.0 + seconds)
    found = metrics.of_phase(phase, turns, [pdu()], study(), None)
    assert found["iops"][0] == pytest.approx(1001 / seconds)
    assert round(found["iops"][0]) == 265
    assert found["tree_removal.iops"] == (1431.0, "1/s")
    assert found["energy_j_per_io"][0] == pytest.approx(found["energy_j"][0] / 1001)
    assert found["iops_per_watt"][0] == pytest.approx(1001 / found["energy_j"][0])
    # One whose time nobody knows: there is no rate over all of them.
    untold = replace(turns[0], seconds=None, operations=None)
    assert "iops" not in metrics.of_operations([untold, *turns[1:]])


def test_a_repeated_operation_is_one_of_its_name() -> None:
    """Of three writes in one step the last alone was told, and their throughput was the sum."""
    writes = [replace(written(seconds), in_turn=True) for seconds in (2.0, 3.0, 5.0)]
    peak = Peak("one", (Part("disk", {Quantity("throughput_mib_s", "write"): Rate(400.0)}),))
    phase = made.span("write", 10.0, 20.0)
    found = metrics.of_phase(phase, writes, [pdu()], study(), peak)
    assert found["throughput_mib_s"] == found["write.throughput_mib_s"] == (300.0, "MiB/s")
    assert found["iops"][0] == pytest.approx(75.0)
    assert found["peak_share"][0] == pytest.approx(0.75)


def test_what_ends_early_beside_others_adds_no_more_than_it_did() -> None:
    """Two operations side by side, of 20 s and of 10 s: their sum is over 20 s."""
    both = [written(20.0), replace(written(10.0), operation="read")]
    found = metrics.of_operations(both)
    assert found["throughput_mib_s"][0] == pytest.approx(2000 / 20)
    assert found["iops"][0] == pytest.approx(500 / 20)
    untimed = [replace(one, seconds=None, bytes=None) for one in both]
    assert metrics.of_operations(untimed)["throughput_mib_s"][0] == pytest.approx(150)


def test_no_more_was_moved_in_a_phase_than_there_was() -> None:
    """IOR wrote for 0.12 s of 0.87 s, and its rate was taken for the whole: 6.9 MiB/J for 0.96."""
    phase = made.span("write", 10.0, 10.87)
    short = written(0.12, mib=53.0)
    found = metrics.of_phase(phase, [short], [pdu()], study(), None)
    assert found["throughput_mib_s"][0] == pytest.approx(53 / 0.12)
    assert found["mib_per_joule"][0] == pytest.approx(53 / found["energy_j"][0])
    # Clients' own times may be longer than what they share: there the rate is the phase's.
    longer = metrics.of_phase(phase, [written(2.0)], [pdu()], study(), None)
    assert longer["mib_per_joule"][0] == pytest.approx(500 / longer["power_w_mean"][0])


@pytest.mark.parametrize("each_us", [7.5, 120.0])
def test_what_servers_took_is_over_all_operations_of_the_step(each_us: float) -> None:
    account = Account(cpu_s=500 * each_us / 1e6, seconds=4.0)
    both = [written(20.0), written(10.0)]  # of 250 operations each
    phase = made.span("write", 10.0, 30.0)
    found = metrics.of_phase(phase, both, [pdu()], study(), None, account)
    units = {"server_cpu_us_per_io": "us", "server_cpu_share": "1", "energy_j_per_io": "J"}
    assert {name: found[name][1] for name in units} == units
    assert found["server_cpu_us_per_io"][0] == pytest.approx(each_us)
    assert found["server_cpu_share"][0] == pytest.approx(500 * each_us / 1e6 / 4.0)
    power_w, iops = found["power_w_mean"][0], found["iops"][0]
    assert found["energy_j_per_io"][0] == pytest.approx(power_w / iops)
    # A ramp is in the account, and not in the operations.
    ramped = [replace(one, uncounted="a ramp") for one in both]
    alone = {"server_cpu_share", "server_cpu_s"}
    assert set(metrics.of_servers(account, ramped)) == alone
    assert set(metrics.of_servers(account, [])) == alone
    assert found["server_cpu_s"] == (account.cpu_s, "s")
    assert "server_cpu_share" not in metrics.of_phase(phase, both, [pdu()], study(), None)


def test_an_account_of_a_step_of_several_phases_is_none_of_a_phase() -> None:
    first, second = made.span("a", 10.0, 12.0), made.span("b", 12.0, 14.0)
    accounts = {"step": Account(1.0, 4.0), "alone": Account(1.0, 2.0)}
    phases = (
        Phase("step", first),
        Phase("step", second),
        Phase("alone", made.span("c", 14.0, 16.0)),
    )
    record = made.record(first, second, phases=phases, accounts=accounts)
    view = View({"csv": made.facts()}, {}, book := Rulebook(study(), None))
    found = derive.derive(record, derive.Results(), view, book).by_phase
    assert [name for name, own in found.items() if "server_cpu_share" in own] == ["c"]


def test_the_share_of_the_peak() -> None:
    rates = {Quantity("throughput_mib_s", "write"): Rate(111.34)}
    peak = Peak("arm", (Part("network", rates, nodes=4),))
    found = metrics.of_phase(made.span("write", 0.0, 20.0), [written(20.0)], [], study(), peak)
    assert found["peak_share"][0] == pytest.approx(50 / 445.36)
