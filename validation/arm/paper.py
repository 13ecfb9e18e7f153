"""The paper's numbers: peaks, shares of them, capacity per watt, and idle power without switch."""

from __future__ import annotations

from wattio.analysis import efficiency, peak
from wattio.analysis.peak import Part, Quantity, Rate

from validation.common.printed import Entry, Values, number

PAPER = "erxleben2022"
ARM, REFERENCE = f"{PAPER}.arm_cluster", f"{PAPER}.reference_cluster"
HEADLINE, BEST = f"{PAPER}.headline", f"{PAPER}.max_throughput"
MEASURED = "measured: an input"
TABLE_1, TABLE_2, TEXT = "Table I", "Table II", "section IV"

WRITE = Quantity("throughput_mib_s", "write")
"""Table I is for writes. The rule is the same in any unit; the table's are MB/s and GB/s."""

REFERENCE_PARTS = (
    Part("network", {WRITE: Rate(12.5)}, node="supermicro", nodes=3),
    Part("disk", {WRITE: Rate(2.9)}, node="supermicro", nodes=3, per_node=4),
    Part("network", {WRITE: Rate(12.5)}, node="gigabyte"),
    Part("disk", {WRITE: Rate(2.9)}, node="gigabyte"),
    Part("disk", {WRITE: Rate(4.0)}, node="gigabyte", per_node=8),
)
"""Table I, GB/s from datasheets; published.toml has their peak only."""

REFERENCE_DRIVES_TB = 13 * 4.0 + 8 * 3.84
"""Section IV: 13 Intel P4510 (reference 32 is the one of 4.0 TB), 8 Samsung of 3.84 TB."""


def nodes_peak(*parts: Part) -> float:
    """The peak by the paper's rule. Raises ValueError where no part tells of it."""
    found = peak.limit(parts, WRITE, "nodes")
    if found is None:
        raise ValueError("a peak needs a network or disks")
    return found.mean


def arm_peak_mb_s(nodes: float, per_node: float, network: float, device: float) -> float:
    """Table I, the ARM cluster."""
    return nodes_peak(
        Part("network", {WRITE: Rate(network)}, nodes=int(nodes)),
        Part("disk", {WRITE: Rate(device)}, nodes=int(nodes), per_node=int(per_node)),
    )


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
            f"{ARM}.tpp_mb_s", TABLE_1, "MB/s", arm_peak_mb_s, tuple(f"{ARM}.{n}" for n in table)
        ),
    ]


def _reference(values: Values) -> list[Entry]:
    idle_w = number(values, f"{REFERENCE}.idle_power_w")
    implied_tb = number(values, f"{REFERENCE}.capacity_per_watt_tb_w") * idle_w
    return [
        *_inputs(REFERENCE, TEXT, "idle_power_w", "idle_power_w_std", "peak_power_w", unit="W"),
        *_inputs(REFERENCE, TEXT, "meter_period_s", unit="s", text="given: an input"),
        Entry(
            f"{REFERENCE}.capacity_per_watt_tb_w",
            TEXT,
            "TB/W",
            lambda power_w: REFERENCE_DRIVES_TB / power_w,
            (f"{REFERENCE}.idle_power_w",),
            why=f"the printed value implies {implied_tb:.1f} TB; the drives that the text lists are"
            f" 13 of 4.0 TB and 8 of 3.84 TB, {REFERENCE_DRIVES_TB:.1f} TB. What was counted is not"
            " said; 13 of 4.0 TB alone give"
            f" {13 * 4.0 / idle_w:.3f}",
        ),
        Entry(
            f"{REFERENCE}.tpp_gb_s",
            TABLE_1,
            "GB/s",
            lambda: nodes_peak(*REFERENCE_PARTS),
            text="from datasheets; Table I's parts are 34.8 (limited by drives) and 12.5 (network)",
            half=0.05,
        ),
    ]


def _headline(values: Values) -> list[Entry]:
    capacity = (f"{ARM}.capacity_per_watt_tb_w", f"{REFERENCE}.capacity_per_watt_tb_w")
    fair = 8 / number(values, f"{ARM}.net_idle_power_w") / REFERENCE_DRIVES_TB
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
    ]


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
