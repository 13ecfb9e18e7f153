"""The numbers of the document on HDD and SSD under frequency scaling, each with its formula."""

from __future__ import annotations

from wattio.analysis import efficiency

from validation.common.named import unit
from validation.common.printed import Entry, Values, number

SECTION = "dvfs_fio"
TASK = f"{SECTION}.method"
MACHINE = f"{SECTION}.machine"
CUT_SHORT = f"{SECTION}.write.hdd"
"""What ran into the time limit."""

MEASURED = "measured: an input"


def misnamed_efficiency(mib_s: float, energy_j: float) -> float:
    """What the document prints as MB/J: the data rate over the energy, times 1024."""
    return 1024 * efficiency.data_rate_per_energy(mib_s * efficiency.MIB, 1.0, energy_j)


def task_energy_j(file_bytes: float, limit_s: float, mib_s: float, power_w: float) -> float:
    """Energy of moving the file at a rate, or of as much of it as the time limit allows."""
    return power_w * min(limit_s, file_bytes / efficiency.MIB / mib_s)


def ratio(first: float, second: float) -> float:
    """The first over the second."""
    return first / second


def efficiency_ratio(ssd_mib_s: float, ssd_j: float, hdd_mib_s: float, hdd_j: float) -> float:
    """How many times more efficient the SSD is, by the document's measure."""
    return misnamed_efficiency(ssd_mib_s, ssd_j) / misnamed_efficiency(hdd_mib_s, hdd_j)


def moved_mib(values: Values, where: str) -> float:
    """Data moved, in MiB: energy over power is the time, times the rate."""
    mib_s, power_w, energy_j = (
        number(values, f"{where}.{name}") for name in ("mib_s", "power_w", "energy_j")
    )
    return energy_j / power_w * mib_s


def entries(values: Values) -> list[Entry]:
    """Every number of the document."""
    found = [
        Entry(f"{TASK}.{name}", "section 3", unit, text=text)
        for name, unit, text in (
            ("block_bytes", "B", "given: an input"),
            ("file_bytes", "B", _file_text(values)),
            ("repetitions", "", "given: an input"),
            ("time_limit_s", "s", _limit_text(values)),
            ("buffered", "", "given: an input"),
            ("processor", "", "given: an input"),
            ("meter", "", "given: an input"),
        )
    ]
    found += _machine(values)
    for operation in ("read", "write"):
        found += _of(operation, values)
    found.append(Entry(f"{SECTION}.note.efficiency", "", text="how it is computed, found here"))
    return found


def rated_power_w(values: Values, device: str) -> float:
    """What a drive draws at most by its label: the voltage times the current."""
    at = f"{MACHINE}.{device}"
    return number(values, f"{at}.voltage_v") * number(values, f"{at}.current_a")


def _machine(values: Values) -> list[Entry]:
    """The processor's frequencies, and the drives by their labels."""
    frequencies = ("frequency_min_hz", "frequency_max_hz", "frequency_without_turbo_hz")
    texts = {
        "frequency_max_hz": "given: an input; with turbo, which was off, so not reached",
    }
    found = [
        Entry(f"{MACHINE}.{name}", "section 3", "Hz", text=texts.get(name, "given: an input"))
        for name in frequencies
    ]
    rated_w = {device: rated_power_w(values, device) for device in ("ssd", "hdd")}
    apart_w = {
        operation: number(values, f"{SECTION}.{operation}.hdd.power_w")
        - number(values, f"{SECTION}.{operation}.ssd.power_w")
        for operation in ("read", "write")
    }
    label = (
        f"given: an input. By voltage and current the SSD draws at most {rated_w['ssd']:.2f} W and"
        f" the HDD {rated_w['hdd']:.2f} W, {rated_w['hdd'] - rated_w['ssd']:.2f} W apart; the"
        f" system's power was {apart_w['read']:.1f} W (read) and {apart_w['write']:.1f} W (write)"
        " apart, so the drives' 5 V are not all of it"
    )
    for device, names in (
        ("ssd", ("capacity_gb", "voltage_v", "current_a")),
        ("hdd", ("capacity_gb", "voltage_v", "current_a", "rotation_per_min")),
    ):
        found += [
            Entry(
                f"{MACHINE}.{device}.{name}",
                "section 3",
                unit(name),
                text=label if name in ("voltage_v", "current_a") else "given: an input",
            )
            for name in names
        ]
    return found


def _of(operation: str, values: Values) -> list[Entry]:
    where = f"{SECTION}.{operation}"
    section = f"section 4, {operation}"
    found = []
    for device in ("hdd", "ssd"):
        at = f"{where}.{device}"
        seconds = number(values, f"{at}.energy_j") / number(values, f"{at}.power_w")
        moved = moved_mib(values, at)
        implied = f"over its power {seconds:.1f} s, so {moved:.0f} MiB were moved"
        found += [
            Entry(f"{at}.mib_s", section, "MiB/s", text=MEASURED),
            Entry(f"{at}.power_w", section, "W", text=MEASURED),
            Entry(
                f"{at}.energy_j",
                section,
                "J",
                task_energy_j,
                (f"{TASK}.file_bytes", f"{TASK}.time_limit_s", f"{at}.mib_s", f"{at}.power_w"),
                f"measured; ours from file, rate and power; {implied}",
                "the run ended a little after the limit" if at == CUT_SHORT else "",
            ),
            Entry(
                f"{at}.published_efficiency",
                "section 5",
                "",
                misnamed_efficiency,
                (f"{at}.mib_s", f"{at}.energy_j"),
                _efficiency_text(values, at),
                _slip(values) if at == CUT_SHORT else "",
            ),
        ]
    rates, joules, watts = (
        (f"{where}.ssd.{name}", f"{where}.hdd.{name}") for name in ("mib_s", "energy_j", "power_w")
    )
    both = (rates[0], joules[0], rates[1], joules[1])
    short = "" if operation == "read" else _energy_text(values)
    unequal = "; not for equal work, see energy" if short else ""
    found += [
        Entry(
            f"{where}.ratios.efficiency",
            "abstract",
            "x",
            efficiency_ratio,
            both,
            f"a ratio of rate over energy{unequal}",
        ),
        Entry(f"{where}.ratios.throughput", section, "x", ratio, rates),
        Entry(f"{where}.ratios.energy", section, "x", ratio, joules[::-1], short),
    ]
    if operation == "write":
        found.append(
            Entry(
                f"{where}.ratios.power_percent",
                section,
                "%",
                lambda ssd, hdd: 100 * efficiency.saving(ssd, hdd),
                watts,
            )
        )
    return found


def _file_text(values: Values) -> str:
    file_mib = number(values, f"{TASK}.file_bytes") / efficiency.MIB
    moved = [
        moved_mib(values, f"{SECTION}.{which}") for which in ("read.hdd", "read.ssd", "write.ssd")
    ]
    return (
        f"given as 5 GB: power, energy and rate give {min(moved):.0f} to {max(moved):.0f} MiB"
        f" moved, so it is {file_mib:.0f} MiB, and the text's MB are MiB"
    )


def _limit_text(values: Values) -> str:
    at = f"{SECTION}.write.hdd"
    seconds = number(values, f"{at}.energy_j") / number(values, f"{at}.power_w")
    return (
        f"given: an input; the HDD's write took {seconds:.1f} s, so it ran into it and moved"
        f" {moved_mib(values, at):.0f} MiB only"
    )


def _energy_text(values: Values) -> str:
    at = f"{SECTION}.write"
    hdd = number(values, f"{at}.hdd.energy_j")
    whole = hdd * number(values, f"{TASK}.file_bytes") / efficiency.MIB
    whole /= moved_mib(values, f"{at}.hdd")
    ssd = number(values, f"{at}.ssd.energy_j")
    return (
        f"the HDD's write was cut short; for the whole file at its rate and power it takes"
        f" {whole:.0f} J, and the ratio of the writes is {whole / ssd:.2f}"
    )


def _efficiency_text(values: Values, at: str) -> str:
    mib_s, energy_j = number(values, f"{at}.mib_s"), number(values, f"{at}.energy_j")
    per_joule = efficiency.mib_per_joule(moved_mib(values, at) * efficiency.MIB, energy_j)
    return (
        f"printed as MB/J, but it is 1024 x {mib_s / energy_j:.4g} (MiB/s)/J, which is data over"
        f" the energy-delay product; data per energy is {per_joule:.2f} MiB/J"
    )


def _slip(values: Values) -> str:
    at = f"{SECTION}.write"
    ssd = misnamed_efficiency(
        number(values, f"{at}.ssd.mib_s"), number(values, f"{at}.ssd.energy_j")
    )
    needed = ssd / number(values, f"{at}.ratios.efficiency")
    return f"a slip in print: the document's own ratio of 14.17 needs {needed:.2f}"
