"""The thesis's chapter 5: how the file systems were set up, and its trials."""

from __future__ import annotations

from wattio.analysis import efficiency

from validation.arm import paper, paper_setup
from validation.arm.thesis import MEASURED, THESIS
from validation.arm.thesis_setup import CHOSEN, GIB, GLUSTER, HARDWARE, MOOSE
from validation.common.named import listed, same, unit
from validation.common.printed import Entry, Values, number

TRIALS, CEPH, ORANGE = (f"{THESIS}.{name}" for name in ("trials", "ceph", "orangefs"))
GLUSTER_SETUP, MOOSE_SETUP = f"{THESIS}.gluster_setup", f"{THESIS}.moosefs_setup"
DRAWN = "not reproduced here: it takes their cluster; the runs behind it are only drawn"


def least_redundancy(bricks: float) -> float:
    """The least redundancy that leaves a power of two of bricks for data."""
    left = int(bricks) - 1
    while left & (left - 1):
        left -= 1
    return bricks - left


def entries(values: Values) -> list[Entry]:
    """Every number of chapter 5."""
    return [*_trials(), *_ceph(), *_orangefs(values), *_gluster(), *_moosefs()]


def _trials() -> list[Entry]:
    where = "chapter 5"
    benchmark = paper_setup.BENCHMARK
    return [
        same(f"{TRIALS}.data_gib", where, f"{benchmark}.arm_data_gib", "in the paper, too"),
        *(
            same(f"{TRIALS}.{name}", where, f"{benchmark}.{name}", "in the paper, too")
            for name in ("clients_most", "transfer_mib", "repetitions")
        ),
        same(
            f"{TRIALS}.memory_percent", where, f"{THESIS}.ior.memory_percent", "in figure A.6, too"
        ),
    ]


def _ceph() -> list[Entry]:
    where = "section 5.1"
    chosen = ("monitor_cache_gib", "osd_memory_gib", "less_by", "metadata_placement_groups")
    return [
        *listed(CEPH, where, chosen, CHOSEN),
        *listed(
            CEPH, where, ("placement_groups_exponent[0]", "placement_groups_exponent[1]"), CHOSEN
        ),
        same(f"{CEPH}.usual_replicas", where, f"{paper.SETUP}.replicas", "in the paper, too"),
        same(
            f"{CEPH}.usual_replicas_waited_for",
            where,
            f"{paper.SETUP}.replicas_waited_for",
            "in the paper, too",
        ),
        *(
            Entry(
                f"{CEPH}.{name}",
                where,
                "",
                lambda usual, less: usual - less,
                (f"{CEPH}.usual_{name}", f"{CEPH}.less_by"),
                "the usual number less one, as the text says; the paper has the same",
            )
            for name in ("replicas", "replicas_waited_for")
        ),
        Entry(
            f"{CEPH}.placement_groups",
            where,
            "",
            lambda exponent: 2**exponent,
            (f"{CEPH}.placement_groups_exponent[0]",),
            "the least of those tried; the paper has the same",
        ),
    ]


def _orangefs(values: Values) -> list[Entry]:
    where = "section 5.2"
    discussion = paper_setup.DISCUSSION
    used = number(values, f"{THESIS}.tpp_used.baseline_mib_s")
    direct = number(values, f"{ORANGE}.direct_read_mib_s")
    share = 100 * efficiency.share_of_peak(direct, used)
    return [
        *listed(
            ORANGE, where, ("zfs_datasets", "zfs_record_kib", "zfs_metadata_record_kib"), CHOSEN
        ),
        *(
            same(f"{ORANGE}.{name}", where, f"{discussion}.{name}", "in the paper, too")
            for name in ("cached_clients", "cached_file_gib", "cached_read_mib_s")
        ),
        Entry(
            f"{ORANGE}.direct_read_mib_s",
            where,
            "MiB/s",
            text=f"{MEASURED}; {share:.1f} % of the peak that the thesis uses, and"
            f" {direct / number(values, f'{ORANGE}.cached_read_mib_s'):.0f} times the rate through"
            " the page cache",
        ),
    ]


def _gluster() -> list[Entry]:
    where = "section 5.3"
    bricks, redundancy = f"{GLUSTER_SETUP}.bricks", f"{GLUSTER_SETUP}.redundancy"
    factor = f"{GLUSTER}.stripe_factor_bytes"
    return [
        *listed(
            GLUSTER_SETUP,
            where,
            ("inode_bytes", "bricks", "redundancy"),
            CHOSEN,
        ),
        Entry(
            f"{GLUSTER_SETUP}.redundancy_of_four_bricks",
            where,
            "",
            least_redundancy,
            (f"{HARDWARE}.data_nodes",),
            "the least for which equation 3.1 gives a power of two",
        ),
        Entry(
            f"{GLUSTER_SETUP}.stripe_kib",
            where,
            "KiB",
            lambda each, count, less: each * (count - less) / 1024,
            (factor, bricks, redundancy),
            "equation 3.1",
        ),
    ]


def _moosefs() -> list[Entry]:
    where = "section 5.4"
    per_file = "metadata_bytes_per_file"
    left = f"{MOOSE_SETUP}.metadata_memory_gib"
    settings = ("trash_time_s", "replicas", "metadata_trash_time_s", "metadata_replicas")
    return [
        *(
            same(
                f"{MOOSE_SETUP}.{per_file}[{place}]",
                where,
                f"{MOOSE}.{per_file}[{place}]",
                "in section 3.4, too",
            )
            for place in (0, 1)
        ),
        *listed(MOOSE_SETUP, where, ("other_memory_gib",), "assumed"),
        Entry(
            left,
            where,
            unit(left),
            lambda all_gib, other: all_gib - other,
            (f"{HARDWARE}.memory_gib", f"{MOOSE_SETUP}.other_memory_gib"),
        ),
        Entry(
            f"{MOOSE_SETUP}.files",
            where,
            "files",
            lambda gib, most: gib * GIB / most,
            (left, f"{MOOSE_SETUP}.{per_file}[1]"),
            "with the most bytes of each",
        ),
        *listed(MOOSE_SETUP, where, settings, CHOSEN),
        *listed(MOOSE_SETUP, where, ("replicated_write_share",), f"{DRAWN} (figure 5.5)", "most"),
        same(
            f"{MOOSE_SETUP}.chunk_mib", "section 5.7", f"{MOOSE}.chunk_mib", "in section 3.4, too"
        ),
    ]
