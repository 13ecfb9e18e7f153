"""The one configuration of the three approaches: a table of TOML, or a Damaris XML file.

[hpcio]
approach = "dc"            # "tp": all ranks write; "dc": dedicated cores; "dn": nodes
writers = 1                # dc: ranks of each node that write
ratio = 3                  # dn: computing nodes for each node that writes
ranks_per_node = 4         # ranks of each emulated node; without it, nodes are machines
buffer = "256 MiB"         # memory of each node for dumps that are not yet written
when_full = "block"        # or "drop_oldest"
output = "dumps"
existing = "refuse"        # dumps of before: or "overwrite", "keep_apart"
compression = "none"       # or "gzip:1" to "gzip:9"
checksum = true            # CRC-32 of each block
sync = false               # bring files to the disk before a dump becomes visible
fields = true              # fields.h5 of each dump, and dumps.xdmf
grace = "20 s"             # for what was accepted, after a signal or the death of ranks
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PlainSerializer, model_validator

from wattio.errors import InputError
from wattio.files import document, toml_text
from wattio.files.document import Strict
from wattio.files.quantity import SecondsOrZero, Size
from wattio.hpcio import damaris

Name = Literal["tp", "dc", "dn"]
WhenFull = Literal["block", "drop_oldest"]
Existing = Literal["refuse", "overwrite", "keep_apart"]

FORMS = ("tp", "dc:N", "dn:R")
"""Approaches on a command line: N writers of each node, R nodes for each one that writes."""

_MIB = 1 << 20
_NUMBER_MAX = 4096
_SHOWN = 40
_COMPRESSION = re.compile(r"none|gzip:[1-9]")


def _folder(value: object) -> object:
    if isinstance(value, str) and (not value or "\0" in value):
        raise ValueError("allowed: a path")
    return Path(value) if isinstance(value, str) else value


Folder = Annotated[Path, BeforeValidator(_folder), PlainSerializer(str, return_type=str)]


Buffer = Annotated[Size, Field(ge=65536, le=2.0**52)]


class Config(Strict):
    """How dumps reach their files; the same on all ranks."""

    approach: Name = "tp"  # all ranks write, dedicated cores, dedicated nodes
    writers: int = Field(default=1, ge=1, le=_NUMBER_MAX)  # dc: ranks of each node that write
    # Dn: computing nodes for each node that writes.
    ratio: int = Field(default=1, ge=1, le=_NUMBER_MAX)
    # Ranks of each emulated node on one machine; without it, nodes are machines.
    ranks_per_node: int | None = Field(default=None, ge=1, le=_NUMBER_MAX)
    # Memory of each node for dumps that are not yet written.
    buffer: Buffer = 256.0 * _MIB
    when_full: WhenFull = "block"  # what happens to a dump that finds no room in it
    output: Folder = Path("dumps")  # the folder of the dumps
    existing: Existing = "refuse"  # what happens to dumps of earlier jobs
    compression: str = "none"  # "none", or "gzip:1" to "gzip:9"
    checksum: bool = True  # CRC-32 of each block
    sync: bool = False  # bring files to the disk before a dump becomes visible
    fields: bool = True  # each dump gets fields.h5, the folder dumps.xdmf
    # How long a writer goes on with what was accepted after a signal, or when ranks have died.
    grace: SecondsOrZero = Field(default=20.0, le=86400)
    hdf5: Folder | None = None  # the HDF5 library that writers load; that of h5py, or the machine's
    program: Folder | None = None  # of the writers; the package's own

    @model_validator(mode="after")
    def _known(self) -> Config:
        if not _COMPRESSION.fullmatch(self.compression):
            raise ValueError(
                f'compression = "{self.compression}" is not known; allowed: none, gzip:1 to gzip:9'
            )
        return self

    def text(self, hdf5: Path | None = None) -> str:
        """As a file that libwattio_io reads; `hdf5` is the library where none is named."""
        table = self.model_dump(mode="json", exclude_none=True)
        table |= {"buffer": f"{self.buffer!r} B", "grace": f"{self.grace!r} s"}
        if hdf5 is not None:
            table.setdefault("hdf5", str(hdf5))
        return toml_text.dump({"hpcio": table})

    @classmethod
    def read(cls, path: Path | str, nodes: int | None = None) -> Config:
        """Read the `[hpcio]` table of a TOML file, or a Damaris XML file. Raises InputError.

        `nodes` is the number of nodes of the job, which a Damaris file counts dedicated nodes
        against.
        """
        path = Path(path)
        if path.suffix.lower() == ".xml":
            # A file has no word for it, and a program that runs again is to write again.
            keys = {"existing": "overwrite", **damaris.read(path, nodes)}
            return document.check(cls, keys, f"{path}: <architecture>")
        found = document.read(path)
        table = found.content.get("hpcio")
        if not isinstance(table, dict):
            other = document.another_kind(found.content, ("hpcio",))
            raise InputError(f"{path}: {other or 'has no table [hpcio]'}")
        return document.validate_part(cls, table, found, ("hpcio",))

    @property
    def approach_text(self) -> str:
        """The approach as one writes it on a command line."""
        number = {"tp": "", "dc": f":{self.writers}", "dn": f":{self.ratio}"}
        return self.approach + number[self.approach]


def parse_approach(text: str) -> dict[str, Any]:
    """The keys of `Config` that `tp`, `dc:N` or `dn:R` stands for. Raises InputError.

    >>> parse_approach("dc:2")
    {'approach': 'dc', 'writers': 2}
    """
    name, colon, number = text.strip().partition(":")
    if name == "tp" and not colon:
        return {"approach": "tp"}
    key = {"dc": "writers", "dn": "ratio"}.get(name)
    if key is None:
        known = document.nearest(text, FORMS)
        raise InputError(f'approach "{text[:_SHOWN]}" is not known; {known}')
    if not re.fullmatch(r"[1-9][0-9]{0,3}", number, re.ASCII) or int(number) > _NUMBER_MAX:
        given = f'approach "{text[:_SHOWN]}"'
        raise InputError(f"{given} needs a number from 1 to {_NUMBER_MAX}: {name}:1")
    return {"approach": name, key: int(number)}
