"""A number in a file, with its interval and where it comes from."""

from __future__ import annotations

import math
from typing import Annotated, Generic, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, model_validator

from wattio._core import parse_quantity
from wattio.files.document import Strict
from wattio.models.parameter import Origin, Parameter


def _read_rate(value: object) -> float:
    if not isinstance(value, str) or not value.rstrip().endswith("/s"):
        raise ValueError(f'{value!r} is no data rate; write it as text, for example "60 MB/s"')
    return parse_quantity(value.rstrip().removesuffix("/s"), "data size")


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise ValueError(f"{value!r} is not finite")
    return value


BytesPerSecond = Annotated[
    float,
    BeforeValidator(_read_rate),
    PlainSerializer(lambda value: f"{value!r} B/s", return_type=str),
    Field(gt=0),
]
"""A data rate, in bytes per second: "60 MB/s"."""


def _read_energy(value: object) -> float:
    if not isinstance(value, str):
        raise ValueError(f'{value!r} has no unit; write it as text, for example "3324 kJ"')
    return parse_quantity(value, "energy")


Joules = Annotated[
    float,
    BeforeValidator(_read_energy),
    PlainSerializer(lambda value: f"{value!r} J", return_type=str),
    Field(gt=0),
]
"""Energy, in joules."""

Share = Annotated[float, Field(ge=0, le=1)]
"""A share of something, 0 to 1."""

NotNegative = Annotated[float, AfterValidator(_finite), Field(ge=0)]
"""A finite number without a unit, zero or above."""

Fraction = Annotated[float, AfterValidator(_finite), Field(gt=-1, le=1)]
"""Amdahl's sigma."""

Number = TypeVar("Number")


class GivenNumber(Strict, Generic[Number]):
    """A number of a file. `low` and `high` come together; without them it is exact."""

    value: Number  # the number
    low: Number | None = None  # lower end of its interval; comes with `high`
    high: Number | None = None  # upper end of its interval
    origin: Origin  # where it comes from
    how: str = ""  # in words

    @model_validator(mode="after")
    def _in_order(self) -> GivenNumber[Number]:
        if (self.low is None) != (self.high is None):
            raise ValueError("low and high come together")
        low, value, high = self.ends
        if not low <= value <= high:
            raise ValueError(f"low to high ({low:g} to {high:g}) does not hold the value {value:g}")
        return self

    @property
    def ends(self) -> tuple[float, float, float]:
        """Low, value, high."""
        low = self.value if self.low is None else self.low
        high = self.value if self.high is None else self.high
        return float(low), float(self.value), float(high)  # type: ignore[arg-type]

    def parameter(self, name: str, least: float = 0.0, most: float = math.inf) -> Parameter:
        """As the models take it; `name` carries the unit."""
        low, value, high = self.ends
        return Parameter(name, value, low, high, self.origin, self.how, least, most)
