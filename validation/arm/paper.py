"""The paper's numbers: peaks, shares of them, capacity per watt, and idle power without switch."""

from __future__ import annotations

import math

from wattio.analysis import efficiency, peak
from wattio.analysis.peak import Part, Quantity, Rate

from validation.common.printed import Entry, Values, number

PAPER = "erxleben2022"
ARM, REFERENCE = f"{PAPER}.arm_cluster", f"{PAPER}.reference_cluster"
HEADLINE, BEST = f"{PAPER}.headline", f"{PAPER}.max_throughput"
PEAK, SETUP = f"{PAPER}.reference_peak", f"{PAPER}.reference_setup"
MEASURED = "measured: an input"
TABLE_1, TABLE_2, TEXT = "Table I", "Table II", "section IV"

WRITE = Quantity("throughput_mib_s", "write")
"""Table I is for writes. The rule is the same in any unit; the table's are MB/s and GB/s."""

INTEL_TB, SAMSUNG_TB = 4.0, 3.84
"""Section IV: reference 32 is Intel's P4510 of 4.0 TB; Samsung's model is the one of 3.84 TB."""

REFERENCE_DRIVES = (
    f"{SETUP}.supermicro_nodes",
    f"{SETUP}.supermicro_drives_per_node",
    f"{SETUP}.gigabyte_intel_drives",
    f"{SETUP}.gigabyte_samsung_drives",
)


def nodes_peak(*parts: Part) -> float:
    """The peak by the paper's rule. Raises ValueError where no part tells of it."""
    found = peak.limit(parts, WRITE, "nodes")
    if found is None:
        raise ValueError("a peak needs a network or disks")
    return found.mean


def equal_nodes_peak(nodes: float, per_node: float, network: float, device: float) -> float:
    """Table I: nodes with equal drives, in the unit of the rates."""
    return nodes_peak(
        Part("network", {WRITE: Rate(network)}, nodes=int(nodes)),
        Part("disk", {WRITE: Rate(device)}, nodes=int(nodes), per_node=int(per_node)),
    )


def gigabyte_peak_gb_s(
    network: float, intel: float, samsung: float, intels: float, samsungs: float
) -> float:
    """Table I, the node with two sorts of drives."""
    return nodes_peak(
        Part("network", {WRITE: Rate(network)}),
        Part("disk", {WRITE: Rate(intel)}, per_node=int(intels)),
        Part("disk", {WRITE: Rate(samsung)}, per_node=int(samsungs)),
    )


def reference_drives_tb(nodes: float, per_node: float, intels: float, samsungs: float) -> float:
    """The raw capacity of the drives that section IV lists."""
    return (nodes * per_node + intels) * INTEL_TB + samsungs * SAMSUNG_TB


def edp_ratio(
    slow_mib_s: float, fast_mib_s: float, slow_power_w: float, fast_power_w: float
) -> float:
    """Energy-delay product of the slower over the faster, for equal work of 1 MiB."""
    slow, fast = (
        efficiency.energy_delay_product(power_w / mib_s, 1 / mib_s)
        for mib_s, power_w in ((slow_mib_s, slow_power_w), (fast_mib_s, fast_power_w))
    )
    return slow / fast


def share_percent(mib_s: float, peak_bytes_s: float) -> float:
    """A throughput in MiB/s as per cent of a peak in bytes per second."""
    return 100 * efficiency.share_of_peak(mib_s * efficiency.MIB, peak_bytes_s)


def write_gain_percent(values: Values, arm: str, reference: str) -> float:
    """Gain of OrangeFS's best write per watt over the reference's, with powers by their names."""
    arm_w = number(values, f"{ARM}.{arm}") - number(values, f"{ARM}.switch_idle_power_w")
    ours = number(values, f"{BEST}.arm_orangefs.write_mib_s") / arm_w
    theirs = number(values, f"{BEST}.reference.write_mib_s")
    return 100 * (ours / theirs * number(values, f"{REFERENCE}.{reference}") - 1)


def entries(values: Values) -> list[Entry]:
    """Every number of Erxleben et al."""
    return [*_arm(), *_reference(values), *_headline(values), *_shares()]


def _inputs(section: str, where: str, *names: str, unit: str, text: str = MEASURED) -> list[Entry]:
    return [Entry(f"{section}.{name}", where, unit, text=text) for name in names]


def _arm() -> list[Entry]:
    powers = ("idle_power_w", "idle_power_w_std", "switch_idle_power_w", "switch_idle_power_w_std")
    idle, switch = f"{ARM}.idle_power_w", f"{ARM}.switch_idle_power_w"
    table = ("data_nodes", "devices_per_node", "network_mb_s_per_node", "device_mb_s")
    return [
        *_inputs(ARM, TEXT, *powers, "peak_power_w", unit="W"),
        *_inputs(ARM, TEXT, "meter_rate_hz", unit="Hz", text="given: an input"),
        *_inputs(ARM, TABLE_1, "data_nodes", "devices_per_node", unit="", text="given: an input"),
        Entry(
            f"{ARM}.data_devices",
            TEXT,
            "",
            lambda nodes, each: nodes * each,
            (f"{ARM}.data_nodes", f"{ARM}.devices_per_node"),
        ),
        Entry(
            f"{ARM}.net_idle_power_w", TEXT, "W", lambda all_w, less: all_w - less, (idle, switch)
        ),
        Entry(
            f"{ARM}.capacity_per_watt_tb_w",
            TEXT,
            "TB/W",
            lambda count, net_w: efficiency.capacity_tb_per_watt(count * efficiency.TB, net_w),
            (f"{ARM}.data_devices", f"{ARM}.net_idle_power_w"),
            "over the net idle power, and without the two SSDs for metadata; over all that was"
            f" metered, with the switch, it is {8 / 56.36:.3f}",
        ),
        *_inputs(
            ARM,
            TABLE_1,
            "network_mb_s_per_node",
            unit="MB/s",
            text=f"{MEASURED}; the thesis has 111.34 MiB/s = {111.34 * 1.048576:.1f} MB/s for"
            " writes over the same links, and TCP over Gigabit Ethernet with frames of 1500 bytes"
            " carries 117.7 at most",
        ),
        *_inputs(
            ARM,
            TABLE_1,
            "device_mb_s",
            unit="MB/s",
            text=f"{MEASURED}; the thesis has 140.09 MiB/s = {140.09 * 1.048576:.1f} MB/s; the"
            " network limits either way",
        ),
        Entry(
            f"{ARM}.tpp_mb_s", TABLE_1, "MB/s", equal_nodes_peak, tuple(f"{ARM}.{n}" for n in table)
        ),
    ]


def _reference(values: Values) -> list[Entry]:
    idle_w = number(values, f"{REFERENCE}.idle_power_w")
    implied_tb = number(values, f"{REFERENCE}.capacity_per_watt_tb_w") * idle_w
    listed_tb = reference_drives_tb(*(number(values, key) for key in REFERENCE_DRIVES))
    network, rate, drives, nodes, supermicro = (
        f"{PEAK}.supermicro_{name}"
        for name in ("network_gb_s", "drive_gb_s", "drives_per_node", "nodes", "tpp_gb_s")
    )
    gigabyte = tuple(
        f"{PEAK}.gigabyte_{name}"
        for name in ("network_gb_s", "intel_gb_s", "samsung_gb_s", "intel_drives", "samsung_drives")
    )
    both = (f"{PEAK}.supermicro_tpp_gb_s", f"{PEAK}.gigabyte_tpp_gb_s")
    return [
        *_inputs(REFERENCE, TEXT, "idle_power_w", "idle_power_w_std", "peak_power_w", unit="W"),
        *_inputs(REFERENCE, TEXT, "meter_period_s", unit="s", text="given: an input"),
        Entry(
            f"{REFERENCE}.capacity_per_watt_tb_w",
            TEXT,
            "TB/W",
            lambda power_w, *drives: efficiency.capacity_tb_per_watt(
                reference_drives_tb(*drives) * efficiency.TB, power_w
            ),
            (f"{REFERENCE}.idle_power_w", *REFERENCE_DRIVES),
            why=f"the printed value implies {implied_tb:.1f} TB; the drives that the text lists are"
            f" 13 of 4.0 TB and 8 of 3.84 TB, {listed_tb:.1f} TB. What was counted is not"
            " said; 13 of 4.0 TB alone give"
            f" {13 * 4.0 / idle_w:.3f}",
        ),
        Entry(supermicro, TABLE_1, "GB/s", equal_nodes_peak, (nodes, drives, network, rate)),
        Entry(f"{PEAK}.gigabyte_tpp_gb_s", TABLE_1, "GB/s", gigabyte_peak_gb_s, gigabyte),
        Entry(
            f"{REFERENCE}.tpp_gb_s",
            TABLE_1,
            "GB/s",
            lambda first, second: math.fsum((first, second)),
            both,
            "from datasheets",
            half=0.05,
        ),
    ]


def _headline(values: Values) -> list[Entry]:
    capacity = (f"{ARM}.capacity_per_watt_tb_w", f"{REFERENCE}.capacity_per_watt_tb_w")
    listed_tb = reference_drives_tb(*(number(values, key) for key in REFERENCE_DRIVES))
    fair = 8 / number(values, f"{ARM}.net_idle_power_w") / listed_tb
    fair *= number(values, f"{REFERENCE}.idle_power_w")
    low = write_gain_percent(values, "peak_power_w", "idle_power_w")
    high = write_gain_percent(values, "idle_power_w", "peak_power_w")
    return [
        Entry(
            f"{HEADLINE}.write_efficiency_gain_percent",
            "abstract",
            "%",
            text="mean powers of the runs are only drawn. With Table II's best writes and each"
            f" cluster between its idle and its highest power it is {low:.0f} to {high:.0f} %",
        ),
        Entry(
            f"{HEADLINE}.capacity_per_watt_gain",
            "section V",
            "x",
            lambda ours, theirs: ours / theirs,
            capacity,
            f"with all the drives that the text lists it is {fair:.2f} x",
        ),
        Entry(f"{HEADLINE}.tpp_rule", TABLE_1, text="the rule `nodes`"),
        Entry(
            f"{HEADLINE}.capacity_per_watt_gain_least",
            "section VI",
            "x",
            lambda ours, theirs: ours / theirs,
            capacity,
            f"with all the drives that the text lists it is {fair:.2f} x, which is not",
            bound="least",
        ),
        Entry(
            f"{HEADLINE}.orangefs_tpp_percent",
            "section V",
            "%",
            lambda write, read: (write + read) / 2,
            tuple(f"{BEST}.arm_orangefs.{name}_tpp_percent" for name in ("write", "read")),
            "said as about; ours is the mean of Table II's two",
            half=5.0,
        ),
        Entry(f"{HEADLINE}.edp_gain", "section V", "x", text=_edp_text(values), bound="most"),
    ]


def _edp_text(values: Values) -> str:
    """What Table II and the cluster's least and most power allow for the ratio of EDPs."""
    least_w = number(values, f"{ARM}.net_idle_power_w")
    most_w = number(values, f"{ARM}.peak_power_w") - number(values, f"{ARM}.switch_idle_power_w")
    told = []
    for name in ("write", "read"):
        slow, fast = (
            number(values, f"{BEST}.{one}.{name}_mib_s") for one in ("arm_cephfs", "arm_orangefs")
        )
        low = edp_ratio(slow, fast, least_w, most_w)
        high = edp_ratio(slow, fast, most_w, least_w)
        told.append(f"{low:.1f} to {high:.1f} for {name}s")
    return (
        "said as up to; energies and times of the runs are only drawn, client by client. Table II's"
        f" best rates, with each run between idle and highest power, give {' and '.join(told)}; so"
        " the largest ratio is of runs further apart than the best ones"
    )


def _shares() -> list[Entry]:
    found = []
    for system, peak_key, scale in (
        ("arm_cephfs", f"{ARM}.tpp_mb_s", 1e6),
        ("arm_orangefs", f"{ARM}.tpp_mb_s", 1e6),
        ("reference", f"{REFERENCE}.tpp_gb_s", 1e9),
    ):
        for operation in ("write", "read"):
            rate = f"{BEST}.{system}.{operation}_mib_s"
            found += [
                Entry(rate, TABLE_2, "MiB/s", text=MEASURED),
                Entry(
                    f"{BEST}.{system}.{operation}_tpp_percent",
                    TABLE_2,
                    "%",
                    lambda mib_s, peak, scale=scale: share_percent(mib_s, peak * scale),
                    (rate, peak_key),
                ),
            ]
    return found
