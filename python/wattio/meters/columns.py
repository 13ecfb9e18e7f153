"""Columns of power in text files of other programs: which they are, and what a line says.

Pure functions on text. Columns are of time and power, or of volts and amperes as an oscilloscope
saves them, by the names that loggers use, or by those that a name's query gives.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from types import MappingProxyType
from typing import NamedTuple
from zoneinfo import ZoneInfo

from wattio.clock import utc_ns_of

POWER_NAMES = ("power", "watts", "watt", "w", "p", "power_w")
VOLTS_NAMES = ("volts", "volt", "voltage", "v", "u", "vrms")
AMPERES_NAMES = ("amperes", "amps", "amp", "ampere", "current", "a", "i", "arms")
TIME_NAMES = ("utc_ns", "timestamp", "time", "datetime", "date time", "ts", "t", "utc", "seconds")
ENERGY_NAMES = (
    *("energy_j", "joules", "joule", "j", "energy", "energy_wh", "energy_kwh"),
    *("wh", "kwh", "watt-hours", "watthours", "watt hours"),
)
METER_NAMES = ("meter",)

UNITS = {"W": 1.0, "mW": 1e-3, "uW": 1e-6, "kW": 1e3, "MW": 1e6}
"""Units of power, in watts."""

ENERGY_UNITS = {
    **{"J": 1.0, "mJ": 1e-3, "uJ": 1e-6, "kJ": 1e3, "MJ": 1e6},
    **{"Wh": 3600.0, "mWh": 3.6, "kWh": 3.6e6, "MWh": 3.6e9},
}
"""Units of energy, in joules."""

_VOLTS = {"V": 1.0, "mV": 1e-3, "uV": 1e-6, "kV": 1e3}
_AMPERES = {"A": 1.0, "mA": 1e-3, "uA": 1e-6}
_TIMES_NS = {
    **{"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1},
    **{"min": 60_000_000_000, "h": 3_600_000_000_000},
    **{"sec": 1_000_000_000, "seconds": 1_000_000_000, "msec": 1_000_000, "usec": 1_000},
}
"""Units of time, in nanoseconds."""

_MICRO = str.maketrans("\N{MICRO SIGN}\N{GREEK SMALL LETTER MU}", "uu")
_SPELT = {
    **{"watt": "W", "volt": "V", "amp": "A", "ampere": "A", "joule": "J"},
    **{"watt-hour": "Wh", "watt hour": "Wh", "watthour": "Wh"},
}
_KIND = re.compile(r"[ _]?(rms|ac|dc)$", re.IGNORECASE)
"""What may stand behind a unit and does not change it."""

DELIMITERS = ";\t,|"
_COMMENT = ("#", "%", "//")
_NUMBER = re.compile(r"[+-]?(\d+([.,]\d*)?|[.,]\d+)([eE][+-]?\d+)?")
_UNIT = re.compile(r"\s*[\[(]\s*([^\])]*)\s*[\])]\s*$")
_FIRST_NS = 1e17  # 1973: what is smaller counts from a start of its own.
_LAST_NS = 2e19
_SINCE_1970_NS = (1_000_000_000, 1_000_000, 1_000, 1)


class Layout(NamedTuple):
    """How a file is written, and the places of what is read.

    `scale` makes watts of its power, or of volts times amperes, `energy_scale` joules of its
    counts, `time_ns` nanoseconds of its numbers of time; without it their size says what they are.
    """

    delimiter: str
    time: int
    power: int | None
    volts: int | None
    amperes: int | None
    energy: int | None
    meter: int | None
    scale: float
    energy_scale: float = 1.0
    time_ns: int | None = None


@dataclass(frozen=True)
class ColumnNames:
    """Columns that the user named, and what the numbers in them are."""

    time: str | None = None
    power: str | None = None
    volts: str | None = None
    amperes: str | None = None
    unit: str | None = None
    energy: str | None = None


class Row(NamedTuple):
    """What a line says: ns since 1970, or since the file's own start; watts; joules counted so far.

    `mark` is what the program that wrote it called that time.
    """

    time_ns: int
    absolute: bool
    power_w: float | None
    energy_j: float | None
    meter: str | None = None
    mark: str | None = None


def is_comment(line: str) -> bool:
    """Whether a line holds nothing, or a comment."""
    text = line.strip().lstrip("\ufeff")
    return not text or text.startswith(_COMMENT)


def is_text(line: str) -> bool:
    """Whether a line that was decoded is one, but for some letters of another encoding."""
    strange = sum(one == "\N{REPLACEMENT CHARACTER}" for one in line)
    control = any(ord(one) < 32 and one not in "\t\r\f" for one in line)
    return not control and 10 * strange <= len(line)


def split(line: str, delimiter: str) -> list[str]:
    """A line's fields, without quotes and blanks around them."""
    try:
        fields = next(csv.reader([line.rstrip("\r\n").replace("\0", "")], delimiter=delimiter), [])
    except csv.Error:
        fields = line.split(delimiter)
    return [field.strip() for field in fields]


def field_of(fields: list[str], place: int) -> str:
    """A field by its place. Raises ValueError where the line is too short."""
    if place >= len(fields):
        have = "1 field" if len(fields) == 1 else f"{len(fields)} fields"
        raise ValueError(f"has {have}, needs at least {place + 1}")
    return fields[place]


def find_layout(header: str, wanted: ColumnNames) -> Layout:
    """The columns of a header line. Raises ValueError: what is missing, and what is there."""
    from wattio.files.document import nearest

    header = header.lstrip("\ufeff")
    if not is_text(header):
        raise ValueError("is not text; a header line with column names is needed")
    delimiter = max(DELIMITERS, key=header.count)
    if not header.count(delimiter):
        raise ValueError("the header has one column; time and power or energy are needed")
    names = split(header, delimiter)
    bare = [_UNIT.sub("", name).strip().lower() for name in names]

    def place(given: str | None, known: Sequence[str]) -> int | None:
        if given is None:
            return next((bare.index(name) for name in known if name in bare), None)
        for candidates in (names, bare):
            if given in candidates:
                return candidates.index(given)
        raise ValueError(f'no column "{given}"; {nearest(given, names)}')

    time = place(wanted.time, TIME_NAMES)
    energy = place(wanted.energy, ENERGY_NAMES)
    volts = amperes = power = None
    if wanted.volts is not None or wanted.amperes is not None:
        volts, amperes = place(wanted.volts, VOLTS_NAMES), place(wanted.amperes, AMPERES_NAMES)
    else:
        power = place(wanted.power, POWER_NAMES)
        by_unit = power_columns(header) if power is None and energy is None else []
        if len(by_unit) == 1:
            power = names.index(by_unit[0])
        if power is None:
            volts, amperes = place(None, VOLTS_NAMES), place(None, AMPERES_NAMES)
    there = ", ".join(names)
    if time is None:
        raise ValueError(f"no column of time; name it with ?time=; columns: {there}")
    if energy is None and power is None and (volts is None or amperes is None):
        raise ValueError(
            "no column of power; name it with ?power=, ?energy=, or ?volts= and ?amperes=;"
            f" columns: {there}"
        )
    # The unit that is given is that of the power, where there is any.
    alone = power is None and energy is not None
    given = wanted.unit if alone else None
    energy_scale = 1.0 if energy is None else _scale(names[energy], given, ENERGY_UNITS)
    if power is not None:
        scale = _scale(names[power], wanted.unit, UNITS)
    elif volts is not None and amperes is not None:
        scale = _scale(names[volts], None, _VOLTS) * _scale(names[amperes], None, _AMPERES)
    else:
        scale = 1.0
    time_ns = _TIMES_NS.get(_unit(names[time], _TIMES_NS) or "")
    meter = place(None, METER_NAMES)
    return Layout(
        delimiter, time, power, volts, amperes, energy, meter, scale, energy_scale, time_ns
    )


def power_columns(header: str) -> list[str]:
    """Names of the columns that have a unit of power behind them."""
    names = split(header.lstrip("\ufeff"), max(DELIMITERS, key=header.count))
    return [name for name in names if _UNIT.search(name) and _unit(name, UNITS) in UNITS]


def _scale(column: str, unit: str | None, units: Mapping[str, float]) -> float:
    """Watts, or joules, for one of a column's numbers, by the unit given, or by its name."""
    found = _unit(column, units) if unit is None else unit
    if found is None:
        return 1.0
    if found not in units:
        of = "" if unit else f' of column "{column}"'
        raise ValueError(f'unit "{found}"{of} is not known; allowed: {", ".join(units)}')
    return units[found]


def _unit(column: str, units: Mapping[str, float]) -> str | None:
    """The unit in brackets behind a column's name, or the one that the name ends in, if any.

    It is one of `units` where it is only written in another way: Vrms, µW, KWH. Small and large
    m are milli and mega; but at the end of a name in small letters, as in `energy_mj`, m is milli.
    """
    behind = _UNIT.search(column)
    if behind:
        word = behind[1].strip()
    elif "_" in column:
        word = column.strip().rpartition("_")[2]
    else:
        word = column.strip()
    word = _KIND.sub("", word).translate(_MICRO)
    word = _SPELT.get(word.lower().rstrip("s"), word)
    if word in units:
        return word
    for unit in units:
        # Whole words in capitals are common, but M and m differ.
        if unit.casefold() == word.casefold() and (unit[0] in "mM") <= (unit[0] == word[0]):
            return unit
    return word if behind and word else None


def parse_row(
    line: str,
    layout: Layout,
    decimal: str | None = None,
    zone: tzinfo = UTC,
    before_ns: Mapping[str | None, int] = MappingProxyType({}),
) -> Row:
    """What a line of data says. Raises ValueError that says which field is wrong.

    `decimal` is what stands before decimals; where nobody said, what `point` takes it for.
    `before_ns` has the time of each meter's row before.
    """
    commas_part = layout.delimiter == ","
    fields = split(line, layout.delimiter)

    def value(place: int | None) -> float | None:
        text = "" if place is None else field_of(fields, place)
        return None if text.lower() in _ABSENT else number(point(text, decimal, commas_part))

    time_text = point(field_of(fields, layout.time), decimal, commas_part)
    meter = None if layout.meter is None else field_of(fields, layout.meter)
    time_ns, absolute = parse_time(time_text, zone, layout.time_ns, before_ns.get(meter))
    power_w = value(layout.power)
    volts, amperes = value(layout.volts), value(layout.amperes)
    if power_w is not None:
        power_w *= layout.scale
    elif volts is not None and amperes is not None:
        power_w = volts * amperes * layout.scale
    if power_w is not None and not math.isfinite(power_w):
        raise ValueError(f"a power of {power_w} W is not possible")
    energy = value(layout.energy)
    energy_j = None if energy is None else energy * layout.energy_scale
    if energy_j is not None and not math.isfinite(energy_j):
        raise ValueError(f"an energy of {energy_j} J is not possible")
    return Row(time_ns, absolute, power_w, energy_j, meter)


_INFINITE = (f"{sign}{word}" for sign in ("", "-", "+") for word in ("inf", "infinity"))
_ABSENT = frozenset(
    ("", "-", "--", "nan", "null", "none", "n/a", "na", "ovl", "o.l", "overflow", *_INFINITE)
)
"""What loggers write where there is no value: nothing measured, or beyond the range."""

_GROUPED = re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+(\.\d*)?")


def point(text: str, decimal: str | None, commas_part: bool) -> str:
    """A number with a point before its decimals; what is no number as it is. Raises ValueError.

    With `decimal="."` commas part thousands, and with "," they stand before decimals. Where nobody
    said they stand before decimals, too, unless several of them, or a point behind, show that they
    part thousands. In a file whose fields are parted by commas (`commas_part`), "1,234" may be
    either, and is refused.
    """
    grouped = _GROUPED.fullmatch(text) is not None
    if "," not in text or not (grouped or _NUMBER.fullmatch(text)):
        return text
    if grouped and decimal is None:
        if text.count(",") > 1 or "." in text:
            decimal = "."
        elif commas_part:
            either = f"{text.replace(',', '.')} or {text.replace(',', '')}"
            raise ValueError(f'"{text}" may be {either}; add ?decimal=, or ?decimal=. to the name')
    if decimal != ".":
        return text.replace(",", ".")
    if not grouped:
        raise ValueError(f'"{text[:40]}" is not a number with commas between thousands')
    return text.replace(",", "")


def number(text: str) -> float:
    """A number with a point or a comma before its decimals. Raises ValueError."""
    if not _NUMBER.fullmatch(text):
        raise ValueError(f'"{text[:40]}" is not a number')
    return float(text.replace(",", "."))


def parse_zone(text: str) -> tzinfo:
    """A zone of time by its distance from UTC (+02:00) or its name (Europe/Berlin). ValueError."""
    try:
        return datetime.strptime(text, "%z").tzinfo or UTC
    except ValueError:
        pass
    try:
        return ZoneInfo(text)
    except (ValueError, OSError, KeyError):
        hint = "write a distance from UTC such as +02:00, or a name such as Europe/Berlin"
        raise ValueError(f'zone "{text[:40]}" is not known; {hint}') from None


def parse_time(
    text: str, zone: tzinfo = UTC, unit_ns: int | None = None, before_ns: int | None = None
) -> tuple[int, bool]:
    """Nanoseconds of a time, and whether they count from 1970. Raises ValueError.

    ISO 8601 (in `zone` where none stands), or a number: of units of `unit_ns`; without it seconds,
    ms, us or ns since 1970 by its size, seconds below 1973. What is below 1973 counts from a start
    of its own. `before_ns` is the time before it, by which one is known that clocks show twice.
    """
    if _NUMBER.fullmatch(text):
        return _number_ns(text.replace(",", "."), unit_ns)
    try:
        moment = datetime.fromisoformat(text.replace(",", "."))
    except ValueError:
        raise ValueError(f'"{text[:40]}" is not a time: neither ISO 8601 nor a number') from None
    try:
        return _checked(utc_ns_of(moment, moment.tzinfo or zone, before_ns)), True
    except OverflowError:
        raise ValueError(f'"{text[:40]}" is not a valid time') from None


def _number_ns(text: str, unit_ns: int | None) -> tuple[int, bool]:
    value = float(text)
    units = (unit_ns,) if unit_ns else _SINCE_1970_NS
    unit = next((one for one in units if abs(value) * one <= _LAST_NS), None)
    if unit is None:
        raise ValueError(f'"{text[:40]}" is not a valid time')
    if abs(value) * unit < _FIRST_NS:
        return round(value * unit), False
    # A whole number has more digits than a float.
    whole, _, rest = text.partition(".")
    if whole.lstrip("+-").isdigit() and (not rest or rest.isdigit()):
        return _checked(int(whole) * unit + round(float(f"0.{rest or 0}") * unit)), True
    return _checked(round(value * unit)), True


def _checked(time_ns: int) -> int:
    if not 0 <= time_ns < 2**63:
        raise ValueError("is before 1970 or after 2262")
    return time_ns


def wanted_of(query: Mapping[str, str]) -> ColumnNames:
    """The columns that a name's query gives."""
    return ColumnNames(*map(query.get, ("time", "power", "volts", "amperes", "unit", "energy")))
