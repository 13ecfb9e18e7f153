"""The thesis's chapters 1 to 4, but for the peaks: surveyed systems, machines, messages."""

from __future__ import annotations

from wattio.analysis import efficiency

from validation.arm import paper, paper_setup
from validation.arm.thesis import MEASURED, POWER, THESIS
from validation.common.named import given, listed, same
from validation.common.printed import Entry, Values, number

INTRODUCTION, RAID, GLUSTER = (f"{THESIS}.{name}" for name in ("introduction", "raid", "gluster"))
MOOSE, HARDWARE, MESSAGES = (f"{THESIS}.{name}" for name in ("moosefs", "hardware", "messages"))
MANUAL = "of a manual: not measured by the thesis"
CHOSEN = "a setting: an input"
GIB = 2.0**30

IN_PAPER = {
    "nodes": f"{paper_setup.ARM_SETUP}.nodes",
    "cores": f"{paper_setup.ARM_SETUP}.cores",
    "frequency_hz": f"{paper_setup.ARM_SETUP}.frequency_hz",
    "memory_gib": f"{paper_setup.ARM_SETUP}.memory_gib",
    "sata_ports": f"{paper_setup.ARM_SETUP}.sata_ports",
    "network_gbit_s": f"{paper_setup.ARM_SETUP}.network_gbit_s",
    "data_nodes": f"{paper.ARM}.data_nodes",
    "drives_per_node": f"{paper.ARM}.devices_per_node",
    "drive_tb": f"{paper_setup.ARM_SETUP}.drive_tb",
    "metadata_drives": f"{paper_setup.ARM_SETUP}.metadata_drives",
    "metadata_drive_gb": f"{paper_setup.ARM_SETUP}.metadata_drive_gb",
    "idle_power_w_std": f"{paper.ARM}.idle_power_w_std",
    "switch_idle_power_w": f"{paper.ARM}.switch_idle_power_w",
    "switch_idle_power_w_std": f"{paper.ARM}.switch_idle_power_w_std",
    "idle_measured_s": f"{paper_setup.ARM_SETUP}.idle_measured_s",
    "meter_rate_hz": f"{paper.ARM}.meter_rate_hz",
    "clients": f"{paper_setup.ARM_SETUP}.clients",
    "client_cores": f"{paper_setup.ARM_SETUP}.client_cores",
    "client_frequency_hz": f"{paper_setup.ARM_SETUP}.client_frequency_hz",
    "client_memory_gb": f"{paper_setup.ARM_SETUP}.client_memory_gb",
    "client_network_gbit_s": f"{paper_setup.ARM_SETUP}.client_network_gbit_s",
}
"""What both documents give of the ARM cluster, by its key in section 4.1 and the paper's."""


def drives_to_fill(gbit_s: float, drive_mib_s: float) -> float:
    """How many drives of a rate in MiB/s fill a network."""
    return gbit_s * 1e9 / 8 / efficiency.MIB / drive_mib_s


def entries(values: Values) -> list[Entry]:
    """Every number of chapters 1 to 4 that is not of a peak or of idle power."""
    return [
        *_introduction(),
        *_survey(),
        *_hardware(values),
        *_messages(values),
    ]


def _introduction() -> list[Entry]:
    network, hdd, nvme = (
        f"{INTRODUCTION}.{name}" for name in ("network_gbit_s", "hdd_mib_s", "nvme_mib_s")
    )
    where = "chapter 1"
    return [
        *listed(INTRODUCTION, where, ("network_gbit_s", "hdd_mib_s", "nvme_mib_s"), "assumed"),
        Entry(
            f"{INTRODUCTION}.hdds_saturated", where, "", drives_to_fill, (network, hdd), half=0.5
        ),
        Entry(
            f"{INTRODUCTION}.nvmes_saturated[0]",
            where,
            "",
            drives_to_fill,
            (network, nvme),
            bound="least",
        ),
        Entry(
            f"{INTRODUCTION}.nvmes_saturated[1]",
            where,
            "",
            drives_to_fill,
            (network, nvme),
            bound="most",
        ),
        same(f"{INTRODUCTION}.nodes", where, f"{HARDWARE}.nodes", "in section 4.1, too"),
    ]


def _survey() -> list[Entry]:
    per_file = f"{MOOSE}.metadata_bytes_per_file"
    return [
        *listed(
            f"{THESIS}.interfaces",
            "section 2.1",
            ("fuse_more_context_switches",),
            "not reproduced here: said of how FUSE is built",
        ),
        *listed(RAID, "section 2.1", ("raid_5_failures",), "given: the rule of RAID 5"),
        Entry(
            f"{RAID}.raid_5_disks_more_than",
            "section 2.1",
            "",
            lambda least: least - 1,
            (f"{THESIS}.design.raid_5_disks",),
            why="the text contradicts itself: by section 6.6 three disks are enough, which is more"
            " than two",
        ),
        *listed(
            GLUSTER,
            "section 3.3",
            (
                "stripe_factor_bytes",
                "replica_failures",
                "dispersed_bricks",
                "dispersed_redundancy",
                "replicas_for_quorum",
            ),
            "given: a rule or an example",
        ),
        Entry(
            f"{GLUSTER}.replica_data_factor",
            "section 3.3",
            "x",
            lambda failures: failures + 1,
            (f"{GLUSTER}.replica_failures",),
        ),
        Entry(
            f"{GLUSTER}.dispersed_increase",
            "section 3.3",
            "",
            lambda bricks, redundancy: redundancy / (bricks - redundancy),
            (f"{GLUSTER}.dispersed_bricks", f"{GLUSTER}.dispersed_redundancy"),
            why="a third of what is stored is redundancy; the data grow by a half. Section 6.4.1"
            " counts the other way for five bricks: 25 % more, not a fifth",
        ),
        *listed(MOOSE, "section 3.4", ("metadata_saved_every_s", "chunk_mib"), MANUAL),
        *listed(
            MOOSE,
            "section 3.4",
            ("metadata_bytes_per_file[0]", "metadata_bytes_per_file[1]"),
            MANUAL,
        ),
        Entry(
            f"{MOOSE}.files_per_gib",
            "section 3.4",
            "files",
            lambda most: GIB / most,
            (f"{per_file}[1]",),
            "with the most bytes of each",
        ),
    ]


def _hardware(values: Values) -> list[Entry]:
    twice = [
        same(f"{HARDWARE}.{name}", "section 4.1", key, "in the paper, too")
        for name, key in IN_PAPER.items()
    ]
    idle = f"{POWER}.x86_idle_power_w"
    each_w = number(values, idle) / number(values, f"{HARDWARE}.reference_nodes")
    nodes = Entry(
        f"{HARDWARE}.reference_nodes",
        "section 4.1",
        "",
        lambda metadata, data: metadata + data,
        (f"{HARDWARE}.reference_metadata_nodes", f"{HARDWARE}.reference_data_nodes"),
        f"for metadata and for data, section 4.2; each of them idles at {each_w:.1f} W",
    )
    text = "given: what the machine is made of"
    return [*twice, nodes, *given(values, HARDWARE, "section 4.1", text, [*twice, nodes])]


def _messages(values: Values) -> list[Entry]:
    where = "section 4.3"
    each = f"{THESIS}.metadata_tpp.arm_read.network"
    pings, time_s, pipeline, rate = (
        f"{MESSAGES}.{name}" for name in ("pings", "pings_time_s", "pipeline", "pings_rate_iops")
    )
    return [
        *listed(MESSAGES, where, ("iperf_runtime_s", "iperf_repetitions", "access_kib"), CHOSEN),
        *listed(MESSAGES, where, ("pipeline", "pings"), CHOSEN),
        *listed(MESSAGES, where, ("pings_time_s",), MEASURED),
        Entry(
            rate,
            where,
            "IO/s",
            lambda count, seconds: count / seconds,
            (pings, time_s),
            f"{number(values, pings) / number(values, time_s) / number(values, f'{each}[1]'):.0f}"
            " times the serial rate of Table 4.2",
        ),
        Entry(
            f"{MESSAGES}.round_trip_ms",
            where,
            "ms",
            lambda iops: 1000 / iops,
            (f"{each}[1]",),
            "measured; ours is what the serial rate of Table 4.2 leaves for each ping",
            "from one ping to the next is a little more than the round trip",
        ),
        Entry(
            f"{MESSAGES}.pipelined_round_trip_ms",
            where,
            "ms",
            lambda under_way, count, seconds: 1000 * under_way * seconds / count,
            (pipeline, pings, time_s),
            "measured; ours by Little's law, of the pings under way and their rate",
            "the pipe is not full while it fills and empties",
        ),
        same(
            f"{MESSAGES}.processes_needed", where, pipeline, "one process for each ping under way"
        ),
        Entry(f"{MESSAGES}.client_iops", where, "IO/s", lambda iops: iops, (f"{each}[1]",)),
        Entry(
            f"{MESSAGES}.clients_iops",
            where,
            "IO/s",
            lambda clients, iops: clients * iops,
            (f"{each}[0]", f"{each}[1]"),
        ),
    ]
