"""The paper's machines, its benchmark and what it says of costs, number by number."""

from __future__ import annotations

from validation.arm.paper import ARM, MEASURED, PAPER, PEAK, SETUP, TABLE_1
from validation.common.named import given, listed, same, unit
from validation.common.printed import Entry, Values, number

INTRODUCTION, BENCHMARK = f"{PAPER}.introduction", f"{PAPER}.benchmark"
ARM_SETUP, DISCUSSION = f"{PAPER}.arm_setup", f"{PAPER}.discussion"
GIVEN = "given: an input"
SETUP_GIVEN = "given: what the machine is made of"
GENERAL = "said of such machines in general; not of one that was measured"
NETWORK_GB_S = 1 / 8
"""Gigabytes per second in a Gbit/s."""


def drives_to_fill(gbit_s: float, drive_gb_s: float) -> float:
    """How many drives of a rate fill a network."""
    return gbit_s * NETWORK_GB_S / drive_gb_s


def entries(values: Values) -> list[Entry]:
    """Every number of sections I, III, IV and V that is not of the results."""
    machines = _machines()
    return [
        *_introduction(),
        *_benchmark(),
        *machines,
        *given(values, SETUP, "section IV a", SETUP_GIVEN, machines),
        *given(values, ARM_SETUP, "section IV b", SETUP_GIVEN, machines),
        *_discussion(values),
    ]


def _introduction() -> list[Entry]:
    drives = f"{INTRODUCTION}.drives_for_fast_network"
    network = f"{INTRODUCTION}.fast_network_gbit_s"
    own = (f"{PEAK}.gigabyte_samsung_gb_s", f"{PEAK}.gigabyte_intel_gb_s")
    return [
        *listed(INTRODUCTION, "section I", ("x86_idle_power_w",), GENERAL, "least"),
        *listed(INTRODUCTION, "section I", _MOST, GENERAL, "most"),
        *listed(INTRODUCTION, "section I", ("fast_network_gbit_s",), GENERAL),
        Entry(
            f"{drives}[0]",
            "section I",
            "",
            drives_to_fill,
            (network, own[0]),
            "of the fastest drives in Table I, which are given for writes",
            bound="least",
        ),
        Entry(
            f"{drives}[1]",
            "section I",
            "",
            drives_to_fill,
            (network, own[1]),
            why="of the slower drives in Table I, which are given for writes; of the faster ones it"
            " takes 3.1. Three are enough where each gives 4.2 GB/s, as newer ones do for reads",
            bound="most",
        ),
    ]


_MOST = ("arm_maximum_power_w[0]", "arm_maximum_power_w[1]")


def _benchmark() -> list[Entry]:
    names = (
        "clients_most",
        "repetitions",
        "transfer_mib",
        "orangefs_stripe_kib",
        "reference_data_gib",
        "arm_data_gib",
        "edp_weight",
    )
    return [
        *listed(BENCHMARK, "section III", names, GIVEN),
        *listed(BENCHMARK, "section V", ("processes_per_client",), GIVEN),
    ]


def _machines() -> list[Entry]:
    nodes = (f"{SETUP}.supermicro_nodes", f"{PEAK}.gigabyte_nodes")
    arm_nodes = (
        f"{ARM}.data_nodes",
        f"{ARM_SETUP}.metadata_nodes",
        f"{ARM_SETUP}.nodes_without_drives",
    )
    found = [
        Entry(f"{SETUP}.nodes", "section IV a", "", lambda a, b: a + b, nodes, "of both sorts"),
        Entry(
            f"{ARM_SETUP}.nodes",
            "section IV b",
            "",
            lambda data, metadata, bare: data + metadata + bare,
            arm_nodes,
            "for data, for metadata, and without drives",
        ),
        *(
            Entry(
                f"{PEAK}.{sort}_network_gb_s",
                TABLE_1,
                "GB/s",
                lambda gbit_s: gbit_s * NETWORK_GB_S,
                (f"{SETUP}.network_gbit_s",),
                "from the network's rate in section IV",
            )
            for sort in ("supermicro", "gigabyte")
        ),
        *(
            same(f"{PEAK}.{name}", TABLE_1, f"{SETUP}.{name}", "in section IV, too")
            for name in (
                "supermicro_drives_per_node",
                "supermicro_nodes",
                "gigabyte_intel_drives",
                "gigabyte_samsung_drives",
            )
        ),
        same(
            f"{PEAK}.gigabyte_intel_gb_s",
            TABLE_1,
            f"{PEAK}.supermicro_drive_gb_s",
            "the drives are the same",
        ),
    ]
    sheets = ("supermicro_drive_gb_s", "gigabyte_samsung_gb_s", "gigabyte_nodes")
    return [*found, *listed(PEAK, TABLE_1, sheets, "of a datasheet: an input")]


def _discussion(values: Values) -> list[Entry]:
    cost, reference = (
        number(values, f"{DISCUSSION}.{name}") for name in ("arm_cost_eur", "reference_cost_eur")
    )
    best = f"{PAPER}.max_throughput"
    per_eur = [
        number(values, f"{best}.{system}.write_mib_s") / eur
        for system, eur in (("arm_orangefs", cost), ("reference", reference))
    ]
    costs = (
        f"given: an input. The reference costs {reference / cost:.1f} times as much; Table II's"
        f" best writes are {per_eur[0]:.3f} MiB/s per EUR (OrangeFS on ARM) and {per_eur[1]:.3f}"
    )
    rate = number(values, f"{DISCUSSION}.cached_read_mib_s")
    mib = 1024 * (
        number(values, f"{DISCUSSION}.cached_clients")
        * number(values, f"{DISCUSSION}.cached_file_gib")
    )
    slow = f"{MEASURED}; the {mib:.0f} MiB took {mib / rate:.0f} s"
    texts = {
        "arm_cost_eur": costs,
        "reference_cost_eur": costs,
        "cached_clients": GIVEN,
        "cached_file_gib": GIVEN,
        "cached_read_mib_s": slow,
    }
    return [
        *(
            Entry(f"{DISCUSSION}.{name}", "section V", unit(name), text=text)
            for name, text in texts.items()
        ),
        same(
            f"{DISCUSSION}.placement_groups",
            "section V",
            f"{ARM_SETUP}.placement_groups",
            "in section IV, too",
        ),
        same(
            f"{DISCUSSION}.orangefs_stripe_kib",
            "section V",
            f"{BENCHMARK}.orangefs_stripe_kib",
            "in section III, too",
        ),
    ]
