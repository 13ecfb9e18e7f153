"""Quantities in TOML files: strings with a unit on the outside, SI floats on the inside."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Field, PlainSerializer

from wattio._core import parse_quantity

_BASE_UNIT = {"time": "s", "data size": "B", "frequency": "Hz", "power": "W", "energy": "J"}


def _reader(kind: str) -> BeforeValidator:
    example = {"time": "10 s", "data size": "8 KiB"}.get(kind, f"1 {_BASE_UNIT[kind]}")

    def read(value: object) -> float:
        if not isinstance(value, str):
            raise ValueError(f'{value!r} has no unit; write it as text, for example "{example}"')
        return parse_quantity(value, kind)

    return BeforeValidator(read)


def _writer(kind: str) -> PlainSerializer:
    return PlainSerializer(lambda value: f"{value!r} {_BASE_UNIT[kind]}", return_type=str)


Seconds = Annotated[float, _reader("time"), _writer("time"), Field(gt=0)]
"""A span of time, in seconds; above zero."""

SecondsOrZero = Annotated[float, _reader("time"), _writer("time"), Field(ge=0)]
"""A span of time, in seconds; may be zero."""

Bytes = Annotated[float, _reader("data size"), _writer("data size"), Field(ge=512, le=2**26)]
"""The size of an I/O, in bytes: 512 B to 64 MiB."""

Size = Annotated[float, _reader("data size"), _writer("data size"), Field(ge=1)]
"""An amount of data, in bytes."""

Watts = Annotated[float, _reader("power"), _writer("power"), Field(ge=0)]
"""Power, in watts."""
