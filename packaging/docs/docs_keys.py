"""The page of every key of every file, of the models that read the files.

Run as a program it renews the tables of keys in guides, which people read without the site.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from types import NoneType
from typing import Any, Literal, get_args, get_origin

from docs_reference import head, row
from docs_rust import GUIDES, WATTIOD, guide_keys, of_rust, renewed, wattiod_keys, wattiod_tables
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

ROOT = Path(__file__).parents[2]

RUST = (
    (
        "Server descriptions",
        "crates/plant/src",
        "`--server FILE`, `server = FILE`. Copy one with `wattio new server NAME`.",
    ),
)
"""Title, folder of the structures that serde reads, and what to say first."""


def files() -> str:
    """The page."""
    front = (
        '# Keys of files\n\nFiles are TOML. Quantities carry their unit, as in `"10 s"`, `"8 KiB"`,'
        ' `"45 W"`. Unknown keys are refused. `wattio check FILE` says what a file is and what is'
        " wrong in it."
    )
    parts = [front]
    for title, about, models in _models():
        seen: set[type[BaseModel]] = set()
        tables = [table for model in models for table in _tables(model, "", seen)]
        parts += [f"## {title}\n\n{about}", _example(models[0]), *tables]
    for title, folder, about in RUST:
        parts += [f"## {title}\n\n{about}", *of_rust(ROOT / folder)]
    about = "The [guide](../wattiod.md) says what to choose; `wattiod check` says what is wrong."
    parts += [f"## Configuration of wattiod\n\n{about}", *wattiod_tables("###")]
    about = "The [guide](../target.md) has examples; `wattio-target check` says what is wrong."
    parts += [f"## Configuration of wattio-target\n\n{about}", guide_keys("target-config")]
    about = "The [guide](../io-library.md); `wattio-io-writer check` says what is wrong."
    parts += [f"## Configuration of libwattio_io\n\n{about}", guide_keys("io")]
    return "\n\n".join(parts) + "\n"


def _example(model: type[BaseModel]) -> str:
    """The example in the docstring of a model's module, if there is one."""
    module = inspect.getdoc(inspect.getmodule(model)) or ""
    found = re.search(r"(?m)^ {4}\[.*(?:\n(?: {4}.*)?)*", module)
    if found is None or "class " in found[0]:
        return ""
    lines = [line.removeprefix("    ") for line in found[0].rstrip().splitlines()]
    return "\n".join(["```toml", *lines, "```"])


def _models() -> list[tuple[str, str, list[type[BaseModel]]]]:
    from importlib import import_module

    from wattio.hpcio.config import Config
    from wattio.kinds.fleet.schema import FleetStudy
    from wattio.kinds.measurement.platform_file import PlatformFile as ComparedPlatforms
    from wattio.kinds.measurement.schema import MeasurementStudy
    from wattio.kinds.simulation.schema import SimulationStudy
    from wattio.models.files import ApplicationFile, PlatformFile
    from wattio.models.purchases import PurchasesFile
    from wattio.peak.file import PeakFile
    from wattio.simulator import profile
    from wattio.systems import KINDS as SYSTEMS
    from wattio.user_files import PolicyFile
    from wattio.workloads import KINDS as WORKLOADS

    found: list[tuple[str, str, list[type[BaseModel]]]] = [
        ("Simulation studies", '`kind = "simulation"`', [SimulationStudy]),
        ("Fleet studies", '`kind = "fleet"`', [FleetStudy]),
        ("Measurement studies", '`kind = "measurement"`', [MeasurementStudy]),
    ]
    for table, room, kinds in (
        ("workload", "workloads", WORKLOADS),
        ("system", "systems", SYSTEMS),
    ):
        for kind in kinds:
            module = import_module(
                f"wattio.{room}.{kinds[kind] if isinstance(kinds, dict) else kind}"
            )
            options = getattr(module, "Options", None)
            if options is not None:
                about = f'`options` of `[[{table}]]` with `kind = "{kind}"`'
                found.append((f"{table} {kind}", about, [options]))
    return [
        *found,
        ("Day profiles", "`wattio simulate --profile`", [profile._ProfileFile]),
        ("Policy files", "", [PolicyFile]),
        ("Theoretical peaks", "`wattio peak FILE`", [PeakFile]),
        ("Compared platforms", "`wattio compare --platform-file`", [ComparedPlatforms]),
        ("Purchases", "`wattio advise cluster --purchases`", [PurchasesFile]),
        ("Platforms", "`wattio advise io --platform`", [PlatformFile]),
        ("Applications", "`wattio advise io --application`", [ApplicationFile]),
        ("The I/O middleware", "`wattio hpcio run`, `hpcio.Config.read`", [Config]),
    ]


def _tables(model: type[BaseModel], place: str, seen: set[type[BaseModel]]) -> Iterator[str]:
    """A table of a model's keys, and then those of the tables in it."""
    if model in seen:
        return
    seen.add(model)
    comments = _comments(model)
    lines, inner = [head("key", "kind", "default", "meaning")], []
    for name, field in model.model_fields.items():
        key = field.alias or name
        nested = _nested(field.annotation)
        if nested is not None:
            many = get_origin(_plain(field.annotation)) is list
            inner.append((nested, f"{place}{key}." if not many else f"{place}{key}[]."))
        default = _default(field)
        meaning = comments.get(name) or (_first_words(nested) if nested else "")
        meaning = meaning[:1].upper() + meaning[1:]
        lines.append(row(f"`{key}`", _kind(field), default, meaning))
    name = place.rstrip(".")
    shown = f"[[{name[:-2]}]]" if name.endswith("[]") else f"[{name}]"
    title = f"`{shown.replace('[].', '.')}`" if place else ""
    yield f"### {title or 'The file'}\n\n{_first_words(model)}\n\n" + "\n".join(lines)
    for nested, deeper in inner:
        yield from _tables(nested, deeper, seen)


def _first_words(model: type[BaseModel]) -> str:
    """The first paragraph of a model's own docstring, or of its generic one's."""
    docs = (vars(base).get("__doc__") for base in model.__mro__[:2])
    return " ".join((next(filter(None, docs), "")).split("\n\n")[0].split())


def _comments(model: type[BaseModel]) -> dict[str, str]:
    """The comments at the fields of a model and of those that it rests on."""
    found: dict[str, str] = {}
    for base in reversed(model.__mro__):
        if issubclass(base, BaseModel) and base is not BaseModel:
            found |= _own_comments(base)
    return found


@functools.cache
def _own_comments(model: type[BaseModel]) -> dict[str, str]:
    found: dict[str, str] = {}
    said: list[str] = []
    try:
        source = inspect.getsource(model)
    except (OSError, TypeError):  # A model that was made while the program runs.
        return {}
    for line in source.splitlines():
        text = line.strip()
        if text.startswith("# "):
            said.append(text[2:])
            continue
        field = re.match(r"(\w+): .*?(?:#\s*(.*))?$", text)
        if field and line.startswith("    ") and not line.startswith("     "):
            found[field[1]] = " ".join([*said, *([field[2]] if field[2] else [])])
        said = []
    return found


def _plain(annotation: Any) -> Any:  # noqa: ANN401 (an annotation)
    """An annotation without None and without what pydantic adds."""
    while hasattr(annotation, "__metadata__"):
        annotation = annotation.__origin__
    parts = [part for part in get_args(annotation) if part is not NoneType]
    if NoneType in get_args(annotation) and len(parts) == 1:
        return _plain(parts[0])
    return annotation


def _nested(annotation: Any) -> type[BaseModel] | None:  # noqa: ANN401
    annotation = _plain(annotation)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for part in get_args(annotation) if (found := _nested(part))), None)


def _kind(field: FieldInfo) -> str:
    """What a value may be, in words."""
    parts = list(dict.fromkeys(_words(field.annotation, field.metadata)))
    return " ".join(" ".join(parts).split())


def _words(annotation: Any, metadata: Any) -> Iterator[str]:  # noqa: ANN401
    quantity = _quantity(metadata)
    plain = annotation
    while hasattr(plain, "__metadata__"):
        metadata = [*metadata, *plain.__metadata__]
        quantity = quantity or _quantity(plain.__metadata__)
        plain = plain.__origin__
    choices = [part for part in get_args(plain) if part not in (NoneType, ...)]
    if get_origin(plain) is Literal:
        yield " or ".join(f"`{json_of(value)}`" for value in choices)
    elif get_origin(plain) in (list, tuple):
        yield "list of " + (" ".join(_words(choices[0], [])) if choices else "values")
    elif get_origin(plain) in (dict,):
        yield "table"
    elif choices:
        yield " or ".join(dict.fromkeys(" ".join(_words(part, [])) for part in choices))
    elif isinstance(plain, type) and issubclass(plain, BaseModel):
        yield "table"
    else:
        names = {float: "number", int: "whole number", str: "text", bool: "true or false"}
        yield quantity or names.get(plain, getattr(plain, "__name__", str(plain)))
    yield _limits(metadata)


def json_of(value: object) -> str:
    """A value as TOML writes it."""
    return f'"{value}"' if isinstance(value, str) else str(value).lower()


def _quantity(metadata: Any) -> str | None:  # noqa: ANN401
    """The kind of quantity that a reader of `files.quantity` takes."""
    for part in metadata:
        function = getattr(part, "func", None)
        if inspect.isfunction(function):
            kind = inspect.getclosurevars(function).nonlocals.get("kind")
            if kind is not None:
                return f"{kind} with unit"
    return None


_UNITS = {"time": "s", "data size": "B", "frequency": "Hz", "power": "W", "energy": "J"}
_BOUNDS = {"gt": "above", "ge": "at least", "lt": "below", "le": "at most"}


def _limits(metadata: Any) -> str:  # noqa: ANN401
    found = []
    for part in metadata:
        for inner in (part, *getattr(part, "metadata", ())):
            limits = [(word, getattr(inner, name, None)) for name, word in _BOUNDS.items()]
            found += [f"{word} {limit:.12g}" for word, limit in limits if limit is not None]
    return ", ".join(dict.fromkeys(found))


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.default
    if field.default_factory is not None or value is PydanticUndefined or value is None:
        return ""
    if quantity := _quantity(field.metadata):
        unit = _UNITS.get(quantity.removesuffix(" with unit"), "")
        for larger in ("KiB", "MiB", "GiB", "TiB") if unit.endswith("B") else ():
            if value >= 1024:
                value, unit = value / 1024, larger
        return f'`"{value:.12g} {unit}"`'
    return f"`{json_of(value)}`" if isinstance(value, bool | str | int | float) else ""


if __name__ == "__main__":
    for crate, guide in GUIDES.items():
        guide.write_text(renewed(guide.read_text(encoding="utf-8"), crate), encoding="utf-8")
    WATTIOD.write_text(wattiod_keys(), encoding="utf-8")
