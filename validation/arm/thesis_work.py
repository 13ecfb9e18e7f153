"""The thesis's chapters 6 and 7 and its appendix: workloads, examples, results in words."""

from __future__ import annotations

from wattio.analysis import efficiency

from validation.arm import thesis_systems
from validation.arm.thesis import MEASURED, POWER, THESIS
from validation.arm.thesis_setup import CHOSEN, HARDWARE
from validation.common.named import given, listed, same, unit
from validation.common.printed import Bound, Entry, Values, number

WORK, SOURCE, RESULTS = f"{THESIS}.workloads", f"{THESIS}.source", f"{THESIS}.results"
EXAMPLE, DESIGN = f"{THESIS}.example", f"{THESIS}.design"
MDTEST, IOR, FIO = f"{THESIS}.mdtest", f"{THESIS}.ior", f"{THESIS}.fio"
SCRIPT, COLLECTION = f"{THESIS}.script", f"{THESIS}.collection"
NO_MACHINE = "not reproduced here: it takes their cluster"


def entries(values: Values) -> list[Entry]:
    """Every number of chapters 6, 7 and the appendix."""
    return [
        *_workloads(),
        *_source(values),
        *_collection(),
        *_example(),
        *_results(values),
        *_design(),
        *given(values, f"{THESIS}.related", "chapter 7", "of other documents: cited there"),
        *given(values, FIO, "figures A.1 to A.4", f"{CHOSEN} of the tool"),
        *_appendix(values),
    ]


def _workloads() -> list[Entry]:
    where = "section 6.1"
    trials = thesis_systems.TRIALS
    items = f"{MDTEST}.tree_entries"
    return [
        *(
            same(f"{WORK}.{name}", where, f"{trials}.{name}", "in chapter 5, too")
            for name in (
                "clients_most",
                "data_gib",
                "transfer_mib",
                "memory_percent",
                "repetitions",
            )
        ),
        *listed(WORK, where, ("shifted_ranks",), CHOSEN),
        Entry(
            f"{WORK}.shared_directories",
            where,
            "",
            lambda branches, depth: sum(branches**level for level in range(int(depth) + 1)),
            (f"{MDTEST}.large_branches", f"{MDTEST}.large_depth"),
            "of the parameters in figure A.5: one directory, and one within it",
        ),
        Entry(
            f"{WORK}.large_directory_entries",
            where,
            "",
            lambda all_of_them, directories: all_of_them / directories,
            (f"{MDTEST}.entries", f"{WORK}.shared_directories"),
            "of the parameters in figure A.5, shared out to both directories; section 6.4.2 speaks"
            " of one directory that held a second",
        ),
        Entry(
            f"{WORK}.file_kib",
            where,
            "KiB",
            lambda size: size / 1024,
            (f"{MDTEST}.file_bytes",),
        ),
        *(
            same(f"{WORK}.{name}", where, f"{MDTEST}.{name}", "in figure A.5, too")
            for name in ("tree_branches", "tree_depth")
        ),
        Entry(
            f"{WORK}.tree_directory_entries",
            where,
            "",
            lambda count: count,
            (items,),
            why="figure A.5 asks for 1200 divided by the clients, from each; mdtest makes so"
            " many directories and so many files, both 1200 in each directory of the tree."
            " 600 of each would be 1200 entries of both kinds",
        ),
    ]


def _source(values: Values) -> list[Entry]:
    where = "section 6.1"
    names = ("all_gb", "directories", "files", "git_gb", "git_files", "git_directories", "phases")
    parts = tuple(f"{SOURCE}.{name}" for name in ("all_gb", "git_gb", "files", "git_files"))
    files, git_files = (number(values, key) for key in parts[2:])
    all_gb, git_gb = (span_of(values, key) for key in parts[:2])
    low = mean_kib(files, git_files, all_gb[0] - git_gb[1])
    high = mean_kib(files, git_files, all_gb[1] - git_gb[0])
    left_gb = number(values, parts[0]) - number(values, parts[1])
    return [
        *listed(SOURCE, where, names, "given: an input"),
        same(f"{SOURCE}.threads_per_client", where, f"{SCRIPT}.threads", "in figure A.7, too"),
        Entry(
            f"{SOURCE}.mean_file_kib",
            where,
            "KiB",
            lambda whole, git, files, git_files: mean_kib(files, git_files, whole - git),
            parts,
            why=f"the text contradicts itself: all less .git are {left_gb:.1f} GB in"
            f" {files - git_files:,.0f} files; with the rounding of both sizes {low:.2f} to"
            f" {high:.2f} KiB",
        ),
    ]


def span_of(values: Values, key: str) -> tuple[float, float]:
    """From where to where numbers round to a printed one. Raises TypeError for a word."""
    value = values[key]
    if isinstance(value, str):
        raise TypeError(f"{key} is a word")
    return value.span


def mean_kib(files: float, other_files: float, gigabytes: float) -> float:
    """Mean size of the files that are left, in KiB, of their bytes in gigabytes."""
    return gigabytes * 1e9 / (files - other_files) / 1024


def _collection() -> list[Entry]:
    where = "section 6.2"
    return [
        same(f"{COLLECTION}.meter_rate_hz", where, f"{HARDWARE}.meter_rate_hz", "in section 4.1"),
        same(f"{COLLECTION}.repetitions", where, f"{WORK}.repetitions", "in section 6.1, too"),
    ]


def _example() -> list[Entry]:
    where = "section 6.3"
    names = ("power_w[0]", "power_w[1]", "time_s[0]", "time_s[1]")
    return [
        *listed(EXAMPLE, where, names, "given: an example"),
        *(
            Entry(
                f"{EXAMPLE}.energy_j[{place}]",
                where,
                "J",
                lambda power_w, seconds: power_w * seconds,
                (f"{EXAMPLE}.power_w[{place}]", f"{EXAMPLE}.time_s[{place}]"),
            )
            for place in (0, 1)
        ),
        same(
            f"{EXAMPLE}.edp_weight", where, "erxleben2022.benchmark.edp_weight", "in the paper, too"
        ),
        same(
            f"{EXAMPLE}.reference_drive_gb",
            where,
            f"{HARDWARE}.reference_drive_gb",
            "in section 4.1, too",
        ),
    ]


def of(name: str, where: str, text: str, bound: Bound = "") -> Entry:
    """A result that is not computed: its key below the table, where it stands, and why."""
    return Entry(f"{RESULTS}.{name}", where, unit(name), text=text, bound=bound)


def _results(values: Values) -> list[Entry]:
    used = number(values, f"{THESIS}.tpp_used.baseline_mib_s")
    idle_w = number(values, f"{POWER}.arm_net_idle_power_w")
    reference_w = number(values, f"{POWER}.x86_idle_power_w")
    drawn = f"{NO_MACHINE}; said of a figure"

    found = []
    for system in ("orangefs", "moosefs", "glusterfs"):
        name = f"{system}_write_tpp_percent"
        rate = number(values, f"{RESULTS}.{name}") / 100 * used
        found.append(of(name, "section 6.4.1", f"{drawn}: {rate:.0f} of {used:.0f} MiB/s"))
    shared = number(values, f"{RESULTS}.mpiio_glusterfs_mib_s")
    percent = 100 * efficiency.share_of_peak(shared, used)
    found += [
        of(
            "mpiio_glusterfs_mib_s",
            "section 6.4.1",
            f"{drawn}: {percent:.1f} % of the peak; at the net idle power at most"
            f" {efficiency.rate_per_watt([shared], [idle_w])[0]:.2f} MiB/J",
        ),
        Entry(
            f"{RESULTS}.erasure_more_data_percent",
            "section 6.4.1",
            "%",
            lambda bricks, redundancy: 100 * redundancy / (bricks - redundancy),
            (
                f"{thesis_systems.GLUSTER_SETUP}.bricks",
                f"{thesis_systems.GLUSTER_SETUP}.redundancy",
            ),
        ),
    ]
    return found + _metadata(values, reference_w, idle_w) + _energy(values, idle_w)


def _metadata(values: Values, reference_w: float, idle_w: float) -> list[Entry]:
    where, energy = "section 6.4.2", "section 6.5.2"
    peak = number(values, f"{THESIS}.metadata_tpp.arm_read.tpp_iops")
    cached = number(values, f"{RESULTS}.cached_stat_iops")
    peaks = [
        efficiency.iops_per_watt(
            number(values, f"{THESIS}.metadata_tpp.{row}.tpp_iops"), reference_w
        )
        for row in ("x86_read", "x86_write")
    ]
    rates = {
        name: number(values, f"{RESULTS}.moosefs_{name}_creations_per_joule") * idle_w
        for name in ("file", "directory")
    }
    return [
        of(
            "cached_stat_iops",
            where,
            f"{MEASURED}, of the client's cache: {cached / peak:.0f} times the peak for reads",
        ),
        same(f"{RESULTS}.entries", where, f"{MDTEST}.entries", "in figure A.5, too"),
        Entry(
            f"{RESULTS}.entries_of_three_clients",
            where,
            "",
            lambda count, clients: count // clients * clients,
            (f"{MDTEST}.entries", f"{IOR}.clients[2]"),
            "each of three clients makes a third, cut off",
        ),
        of(
            "reference_operations_per_joule",
            energy,
            f"{NO_MACHINE}; said of a figure, for most measurements: below. Its peaks of Table 4.2"
            f" over its idle power are {peaks[0]:.2f} (read) and {peaks[1]:.2f} IO/J (write), below"
            " 1, too",
            "most",
        ),
        *(
            of(
                f"moosefs_{name}_creations_per_joule",
                energy,
                f"{NO_MACHINE}; said of a figure. At the net idle power it takes {rate:.0f}"
                " creations a second or more",
                "least" if name == "file" else "",
            )
            for name, rate in rates.items()
        ),
        of(
            "creation_over_stat_energy",
            energy,
            f"{NO_MACHINE}; said of a figure, as up to one order of magnitude",
            "most",
        ),
    ]


def _energy(values: Values, idle_w: float) -> list[Entry]:
    found = []
    for system in ("glusterfs", "orangefs"):
        seconds = number(values, f"{RESULTS}.compile_{system}_s")
        found.append(
            of(
                f"compile_{system}_s",
                "section 6.4.3",
                f"{NO_MACHINE}; said as about, of the first iteration with one client. At the net"
                f" idle power alone it is {idle_w * seconds / 1e6:.2f} MJ",
            )
        )
    gross = number(values, f"{POWER}.x86_idle_power_w") / number(
        values, f"{POWER}.arm_idle_power_w"
    )
    return [
        *found,
        Entry(
            f"{RESULTS}.reference_power_factor",
            "section 6.5.1",
            "x",
            lambda theirs, ours: theirs / ours,
            (f"{POWER}.x86_idle_power_w", f"{POWER}.arm_net_idle_power_w"),
            f"without the switch; with it {gross:.1f} x, which is not more than ten. The reference"
            " has five nodes and the ARM cluster six",
            bound="least",
        ),
        of(
            "power_missing_s",
            "section 6.5.3",
            "of one run: a failure of the meter's host, said as about ten minutes",
        ),
    ]


def _design() -> list[Entry]:
    where = "section 6.6"
    names = ("raid_5_disks", "raid_6_disks")
    other = ("other_board_gbit_s", "other_board_memory_gb")
    return [
        same(f"{DESIGN}.disks_per_node", where, f"{HARDWARE}.sata_ports", "in section 4.1, too"),
        Entry(
            f"{DESIGN}.capacity_lost",
            where,
            "",
            lambda disks: 1 - 1 / disks,
            (f"{DESIGN}.disks_per_node",),
            "of disks that mirror each other",
        ),
        *listed(DESIGN, where, names, "given: the rule of RAID 5 and of RAID 6"),
        *listed(DESIGN, where, other, "of a datasheet: not measured"),
    ]


def _appendix(values: Values) -> list[Entry]:
    figure_5, figure_6, figure_7 = "figure A.5", "figure A.6", "figure A.7"
    told = [
        same(f"{MDTEST}.iterations", figure_5, f"{WORK}.repetitions", "in section 6.1, too"),
        same(f"{IOR}.repetitions", figure_6, f"{WORK}.repetitions", "in section 6.1, too"),
        same(f"{IOR}.transfer_mib", figure_6, f"{WORK}.transfer_mib", "in section 6.1, too"),
        same(f"{SCRIPT}.iterations", figure_7, f"{WORK}.repetitions", "in section 6.1, too"),
        same(f"{SCRIPT}.clients_most", figure_7, f"{WORK}.clients_most", "in section 6.1, too"),
        *(
            Entry(
                f"{IOR}.block_gib[{place}]",
                figure_6,
                "GiB",
                lambda all_gib, clients: all_gib / clients,
                (f"{WORK}.data_gib", f"{IOR}.clients[{place}]"),
                "so that all clients together write the same",
            )
            for place in range(4)
        ),
    ]
    return [
        *told,
        *given(values, MDTEST, figure_5, CHOSEN, told),
        *given(values, IOR, figure_6, CHOSEN, told),
        *given(values, SCRIPT, figure_7, CHOSEN, told),
    ]
