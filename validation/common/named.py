"""What a published number is called and counted in, read from its key: `idle_power_w_std`."""

from __future__ import annotations

import re
from collections.abc import Iterable

from validation.common.printed import Bound, Entry, Values

UNITS = {
    "mib_s": "MiB/s",
    "mb_s": "MB/s",
    "gb_s": "GB/s",
    "gbit_s": "Gbit/s",
    "tb_w": "TB/W",
    "per_min": "1/min",
    "percent": "%",
    "bytes": "B",
    "kib": "KiB",
    "mib": "MiB",
    "gib": "GiB",
    "mb": "MB",
    "gb": "GB",
    "tb": "TB",
    "iops": "IO/s",
    "eur": "EUR",
    "hz": "Hz",
    "ms": "ms",
    "w": "W",
    "j": "J",
    "s": "s",
    "v": "V",
    "a": "A",
}
"""Ends of keys that are units, the longer before those that they end with."""

NAMES = {
    "arm": "ARM",
    "cephfs": "CephFS",
    "edp": "EDP",
    "glusterfs": "GlusterFS",
    "hdd": "HDD",
    "hdds": "HDDs",
    "mpiio": "MPI-IO",
    "moosefs": "MooseFS",
    "nvme": "NVMe",
    "nvmes": "NVMe drives",
    "orangefs": "OrangeFS",
    "osd": "OSD",
    "osds": "OSDs",
    "raid": "RAID",
    "sata": "SATA",
    "ssd": "SSD",
    "std": "deviation",
    "tpp": "TPP",
    "zfs": "ZFS",
}
"""Words of keys that are written in another way."""

_UNIT = re.compile(rf"(?<!_per)_({'|'.join(UNITS)})(?=_|\[|$)")
_PLACE = re.compile(r"\[(\d+)\]")


def unit(key: str) -> str:
    """The unit that a key names; empty for a count, a factor or a word."""
    found = _UNIT.findall(key.rpartition(".")[2])
    return UNITS[found[-1]] if found else ""


def claim(key: str) -> str:
    """A key below its table in words, without its unit; places in lists count from 1."""
    name = ", ".join(key.split(".")[2:])
    place = _PLACE.search(name)
    words = _PLACE.sub("", name)
    last = list(_UNIT.finditer(words))
    if last:
        words = words[: last[-1].start()] + words[last[-1].end() :]
    words = re.sub(r"_std$", ",_std", words)
    words = re.sub(r"[a-z]+", lambda word: NAMES.get(word[0], word[0]), words).replace("_", " ")
    return f"{words} ({int(place[1]) + 1})" if place else words


def given(
    values: Values, table: str, where: str, text: str, known: Iterable[Entry] = ()
) -> list[Entry]:
    """Entries of all numbers of a table that `known` has none of: not computed, reason `text`."""
    others = {entry.key for entry in known}
    return [
        Entry(key, where, unit(key), text=text)
        for key in values
        if key.startswith(f"{table}.") and key not in others
    ]


def listed(
    table: str, where: str, names: Iterable[str], text: str, bound: Bound = ""
) -> list[Entry]:
    """Entries of numbers of a table that are not computed, by name, for the reason `text`."""
    keys = [f"{table}.{name}" for name in names]
    return [Entry(key, where, unit(key), text=text, bound=bound) for key in keys]


def same(key: str, where: str, as_in: str, said: str) -> Entry:
    """A number that is given a second time, set against the first."""
    return Entry(key, where, unit(key), lambda first: first, (as_in,), f"given twice: {said}")
