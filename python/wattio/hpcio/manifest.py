"""The manifest of a whole dump: which files, ranks and blocks it consists of."""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from wattio.errors import InputError, ResultError
from wattio.hpcio import blocks, dumps, parts
from wattio.hpcio.blocks import Block

_CRC = ',"crc32":'
"""What stands before the checksum of a manifest: a checksum of all that stands before this."""


class _ManifestPart(BaseModel):
    """Base of what the manifest tells: later versions may tell more."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=False)


Number = Annotated[int, Field(ge=0, lt=2**63)]
Extent = Annotated[tuple[Number, ...], Field(max_length=32)]
"""A shape or an offset: HDF5 has no more dimensions."""


class BlockFact(_ManifestPart):
    """A block as the manifest tells it."""

    name: str
    rank: Number
    shape: Extent
    dtype: str = Field(pattern=r"^[<>=|]?[biufc][0-9]{1,2}$")
    global_shape: Extent | None = None
    offset: Extent | None = None
    crc32: int | None = None
    attributes: dict[str, float | str] = {}

    @model_validator(mode="after")
    def _possible(self) -> BlockFact:
        try:
            blocks.make(
                self.name, self.rank, self.shape, self.dtype, self.global_shape, self.offset
            )
        except InputError as error:
            raise ValueError(str(error)) from error
        return self

    @property
    def block(self) -> Block:
        """The block."""
        return Block(self.name, self.rank, self.shape, self.dtype, self.global_shape, self.offset)


class PartFact(_ManifestPart):
    """A part file as the manifest tells it."""

    file: str = Field(pattern=r"^part-[0-9]{6,}\.h5$")
    ranks: tuple[Number, ...]
    blocks: tuple[BlockFact, ...]


class Manifest(_ManifestPart):
    """What a whole dump consists of."""

    wattio_hpcio: int = Field(ge=parts.VERSION, le=parts.VERSION)
    step: Number
    job: str | None = None
    approach: str
    attributes: dict[str, float | str] = {}
    fields: bool = False
    """Whether there is `fields.h5`; those of before do not tell."""

    ranks: tuple[Number, ...]
    parts: tuple[PartFact, ...]

    @property
    def blocks(self) -> list[BlockFact]:
        """All blocks, part by part."""
        return [block for part in self.parts for block in part.blocks]


def parse(text: str) -> Manifest:
    """Read the text of a manifest. Raises ResultError."""
    try:
        return Manifest.model_validate(json.loads(text))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise ResultError(f"manifest: {place}: {first['msg']}") from error
    except (ValueError, RecursionError) as error:
        raise ResultError(f"manifest: is not JSON: {error}") from error


def read(folder: Path) -> Manifest:
    """The manifest of a dump. Raises ResultError."""
    try:
        text = (folder / dumps.MANIFEST).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ResultError(f"manifest: cannot be read: {error}") from error
    check(text)
    return parse(text)


def check(text: str) -> None:
    """Hold a manifest's text against its own checksum, where it has one. Raises ResultError."""
    body, mark, told = text.rpartition(_CRC)
    digits = told.strip().removesuffix("}")
    if mark and not (digits.isdecimal() and int(digits) == zlib.crc32(body.encode())):
        raise ResultError("manifest: is damaged: its checksum is wrong")
