"""The thesis's numbers: theoretical peaks from the parts of Tables 4.1 and 4.2, and idle power."""

from __future__ import annotations

from collections.abc import Callable

from wattio.analysis import peak
from wattio.analysis.peak import Kind, Part, Quantity, Rate

from validation.common.printed import Entry, Values, number

THESIS = "thesis2022"
POWER = f"{THESIS}.power"
MEASURED = "measured: an input"

KINDS: tuple[Kind, ...] = ("memory", "network", "disk")
QUANTITY = Quantity("iops", "read")
"""Equation 4.1 does the same for each quantity; this one stands for all four."""


def sums_peak(kinds: tuple[Kind, ...]) -> Callable[..., float]:
    """Equation 4.1 for parts of these kinds, given as units and rate of each in turn."""

    def of(*numbers: float) -> float:
        pairs = zip(kinds, numbers[::2], numbers[1::2], strict=True)
        parts = [
            Part(kind, {QUANTITY: Rate(rate)}, per_node=int(units)) for kind, units, rate in pairs
        ]
        found = peak.limit(parts, QUANTITY, "thesis")
        if found is None:
            raise ValueError("a peak needs a network or disks")
        return found.mean

    return of


def entries(values: Values) -> list[Entry]:
    """Every number of the thesis."""
    return [
        *_table("throughput_tpp", "tpp_mib_s", "Table 4.1", "MiB/s", values),
        *_table("metadata_tpp", "tpp_iops", "Table 4.2", "IOPS", values),
        _used(values),
        *_power(),
    ]


def _table(name: str, peak_name: str, where: str, unit: str, values: Values) -> list[Entry]:
    """Parts and peak of each row of a table."""
    found = []
    for row in ("arm_read", "arm_write", "x86_read", "x86_write"):
        at = f"{THESIS}.{name}.{row}"
        kinds = tuple(kind for kind in KINDS if f"{at}.{kind}[0]" in values)
        takes = tuple(f"{at}.{kind}[{place}]" for kind in kinds for place in (0, 1))
        spreads = [f"{at}.{kind}[2]" for kind in kinds if f"{at}.{kind}[2]" in values]
        found += [
            Entry(key, where, "units", text="given: an input")
            if key.endswith("[0]")
            else Entry(key, where, unit, text=MEASURED)
            for key in (*takes, *spreads)
        ]
        half, why = _printing(name, row)
        found.append(
            Entry(
                f"{at}.{peak_name}",
                "section 4.3",
                unit,
                sums_peak(kinds),
                takes,
                _noise(at, kinds, values),
                why,
                half=half,
            )
        )
    return found


def _noise(at: str, kinds: tuple[Kind, ...], values: Values) -> str:
    """The peak's deviation by those of its parts, and whether noise could exchange two of them."""
    parts = []
    for kind in kinds:
        units, rate = (int(number(values, f"{at}.{kind}[0]")), number(values, f"{at}.{kind}[1]"))
        spread = f"{at}.{kind}[2]"
        deviation = number(values, spread) if spread in values else None
        parts.append(Part(kind, {QUANTITY: Rate(rate, deviation)}, per_node=units))
    found = peak.limit(parts, QUANTITY, "thesis")
    if found is None:
        raise ValueError("a peak needs a network or disks")
    text = f"limited by the {found.limiting[0]}"
    if found.deviation is not None:
        text += f", ± {found.deviation:.2f} by the deviations of its units"
    if found.contested:
        least, following = sorted(found.totals, key=lambda total: total.mean)[:2]
        text += (
            f"; contested: {following.kind} gives {following.mean:.1f} ± {following.deviation:.1f},"
            f" within the noise of {least.mean:.1f}"
        )
    return text


def _printing(name: str, row: str) -> tuple[float | None, str]:
    """How a peak is rounded in print, and why it differs where it does."""
    if name == "throughput_tpp":
        return None, ""
    if row.startswith("x86"):
        return 0.5, ""
    if row == "arm_read":
        return 50.0, "printed as 9.4 k-IOPS, cut off; 9484 rounds to 9.5"
    return 500.0, ""  # "10 k-IOPS"


def _used(values: Values) -> Entry:
    """The baseline, which is one peak rounded, for both clusters and both directions."""
    at = f"{THESIS}.throughput_tpp"
    highest = number(values, f"{at}.x86_read.tpp_mib_s")
    used = number(values, f"{THESIS}.tpp_used.baseline_mib_s")
    return Entry(
        f"{THESIS}.tpp_used.baseline_mib_s",
        "section 4.3",
        "MiB/s",
        min,
        tuple(f"{at}.{row}.tpp_mib_s" for row in ("arm_read", "arm_write", "x86_read")),
        "the least of the peaks, used for all; shares of the x86 cluster come out"
        f" {100 * (highest / used - 1):.1f} % too high by it",
        half=0.5,
    )


def _power() -> list[Entry]:
    paper = "erxleben2022.arm_cluster"
    return [
        Entry(f"{POWER}.x86_idle_power_w", "section 4.1", "W", text=MEASURED),
        Entry(f"{POWER}.x86_idle_power_w_std", "section 4.1", "W", text=MEASURED),
        Entry(f"{POWER}.arm_idle_power_w", "section 4.1", "W", text=f"{MEASURED}, as the paper's"),
        Entry(
            f"{POWER}.arm_net_idle_power_w",
            "section 4.1",
            "W",
            lambda all_w, switch_w: all_w - switch_w,
            (f"{POWER}.arm_idle_power_w", f"{paper}.switch_idle_power_w"),
        ),
    ]
