"""What changes a study from outside: a scale, meters, hosts, a peak, systems that are not there.

Where its systems keep their data belongs here, too: it is no part of a study, but a measurement
that goes on has to go on in the same place.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from wattio.errors import InputError
from wattio.files import document
from wattio.kinds.measurement.schema import HostsEntry, MeasurementStudy, MeterEntry
from wattio.meters import kind_of
from wattio.meters.name import OF_FILES, of_file

_NO_FILES = ("assumed", "host")
"""What stands for a model in the name of an estimate, beside its file."""


@dataclass(frozen=True)
class Asked:
    """What changes a study from outside: a scale of its own, other meters, other hosts."""

    scale: str | None = None
    meter: str | None = None  # in place of the totals
    each: str | None = None  # the devices of which each has such a meter
    peak_file: str | None = None  # of the theoretical peak
    clients: str | None = None  # hosts of the clients
    servers: str | None = None
    ssh: tuple[str, ...] | None = None  # options of ssh
    scratch: str | None = None  # where systems keep their data, if not in the result folder
    without: tuple[str, ...] = ()  # optional systems that were not there

    @classmethod
    def of_inputs(cls, inputs: Mapping[str, Any]) -> Asked:
        """As a result folder keeps it; older ones know less."""
        known = {field.name: inputs.get(field.name) for field in fields(cls)}
        # JSON has lists in place of tuples.
        given: dict[str, Any] = {
            key: tuple(it) if isinstance(it, list) else it
            for key, it in known.items()
            if it is not None
        }
        return cls(**given)


def without_systems(study: MeasurementStudy, names: Sequence[str]) -> MeasurementStudy:
    """The study without some systems, and without workloads that ran on no other."""
    if not names:
        return study
    systems = [entry for entry in study.system if entry.name not in names]
    works = []
    for entry in study.workload:
        own = None if entry.systems is None else [n for n in entry.systems if n not in names]
        if own != []:
            works.append(entry.model_copy(update={"systems": own}))
    if not systems or not works:
        raise InputError("none of the study's systems is available; all are optional")
    return study.model_copy(update={"system": systems, "workload": works})


def with_hosts(study: MeasurementStudy, asked: Asked) -> MeasurementStudy:
    """The study with its clients, and servers, on the hosts that were asked for. InputError."""
    given: dict[str, Any] = {"clients": asked.clients, "servers": asked.servers}
    given["ssh"] = None if asked.ssh is None else list(asked.ssh)
    given = {key: value for key, value in given.items() if value is not None}
    if not given:
        return study
    if study.hosts is None and asked.clients is None:
        raise InputError("--hosts: names no hosts for the clients, and the study has none")
    own = {} if study.hosts is None else study.hosts.model_dump(exclude_unset=True)
    entry = document.check(HostsEntry, own | given, "--hosts, --servers, --ssh")
    return study.model_copy(update={"hosts": entry})


def located(study: MeasurementStudy, base: Path) -> MeasurementStudy:
    """The study with the files that its meters name as whole paths."""
    entries = [
        entry.model_copy(update={"name": located_name(entry.name, base)}) for entry in study.meter
    ]
    return study.model_copy(update={"meter": entries})


def located_name(name: str, base: Path) -> str:
    """A meter's name with its file's path made whole; other names as they are."""
    scheme, _, rest = name.partition(":")
    path, mark, query = rest.partition("?")
    if scheme not in OF_FILES or not path or path in _NO_FILES:
        return name
    return f"{of_file(scheme, str(base / unquote(path, errors='surrogateescape')))}{mark}{query}"


def with_meter(
    study: MeasurementStudy, name: str | None, each: str | None = None
) -> MeasurementStudy:
    """The study with a meter in place of its totals, which are shown beside it from then on.

    It covers what they covered; or there is one for each of the devices `each`. Raises InputError
    for what is no meter's name.
    """
    if name is None:
        if each is not None:
            raise InputError("--each needs a --meter with numbers in brackets, one for each")
        return study
    taken = {meter.shown for meter in study.meter}
    added = _added(study, name, each, taken)
    for meter in added:
        kind_of(meter.name)
        if meter.shown in taken:
            raise InputError(f'--each: "{meter.shown}" is already the label of another meter')
    beside = [meter.model_copy(update={"role": "beside"}) for meter in study.meter]
    return study.model_copy(update={"meter": [*added, *beside]})


def _added(
    study: MeasurementStudy, name: str, each: str | None, taken: Collection[str]
) -> list[MeterEntry]:
    if each is not None:
        try:
            # Both texts are looked at as they are written out.
            return MeterEntry.model_construct(name=name, each=each).apart()
        except ValueError as error:
            raise InputError(f"--meter, --each: {error}") from None
    kind_of(name)
    covered = [device for meter in study.meter if meter.role == "total" for device in meter.covers]
    label = name.partition(":")[0]
    label = f"{label}-total" if label in taken else label
    return [MeterEntry(name=name, label=label, covers=covered)]
