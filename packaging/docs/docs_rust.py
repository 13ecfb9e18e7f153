"""Tables of keys, of the comments of the Rust structures that read files.

A comment says what the key means. What it says as `Default: ...` and `Allowed: ...` has columns of
its own in the tables of programs' configurations.
"""

from __future__ import annotations

import functools
import re
import textwrap
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from docs_reference import head, row

ROOT = Path(__file__).parents[2]

GUIDES = {"target-config": ROOT / "docs" / "target.md", "io": ROOT / "docs" / "io-library.md"}
"""By crate, the guide that has a table of its configuration's keys."""

WATTIOD = ROOT / "docs" / "wattiod-keys.md"
"""The page of the keys of wattiod's configuration, which is made as a whole."""

_SKIPPED = {"PowerModel", "Coefficient", "CorePoint"}

_STRUCT = re.compile(
    r"((?:^[ \t]*///[^\n]*\n)*)((?:^#\[[^\n]*\n)*)^pub (?:struct|enum) (\w+) \{\n(.*?)^\}",
    re.M | re.S,
)
_FIELD = re.compile(
    r"((?:^ {4}///[^\n]*\n)+)((?:^ {4}#\[[^\n]*\n)*)^ {4}(?:pub )?(\w+): ([^\n]+),$", re.M
)


def of_rust(folder: Path) -> Iterator[str]:
    """A table for each structure that serde reads: keys and what their comments say."""
    for path in sorted(folder.rglob("*.rs")):
        for doc, attributes, name, body in _STRUCT.findall(path.read_text(encoding="utf-8")):
            if (
                "Deserialize" not in attributes
                or name in _SKIPPED
                or "deny_unknown" not in attributes
            ):
                continue
            lines = [
                row(f"`{_renamed(marks) or key}`", _rust_kind(kind), _said(said))
                for said, marks, key, kind in _FIELD.findall(body)
                if "skip" not in marks
            ]
            if lines:
                text = "\n".join([head("key", "kind", "meaning"), *lines])
                yield f"### {name}\n\n{_said(doc)}\n\n{text}"


_RUST_KINDS = {
    **{"String": "text", "PathBuf": "path", "bool": "true or false", "Seconds": "time with unit"},
    **{"f64": "number", "u32": "whole number", "usize": "whole number", "u64": "whole number"},
    **{"Watts": "power with unit", "Hertz": "frequency with unit", "Bytes": "data size with unit"},
}


def _rust_kind(kind: str) -> str:
    """A type of Rust in the words of the other tables."""
    if found := re.fullmatch(r"Option<(.*)>", kind):
        return _rust_kind(found[1])
    if found := re.fullmatch(r"Vec<(.*)>", kind):
        return f"list of {_rust_kind(found[1])}"
    return _RUST_KINDS.get(kind, f"`{kind}`")


def _renamed(attributes: str) -> str | None:
    found = re.search(r'rename = "([^"]+)"', attributes)
    return found[1] if found else None


def _said(comment: str) -> str:
    lines = (line.strip().removeprefix("///").strip() for line in comment.splitlines())
    return " ".join(lines)


def guide_keys(crate: str) -> str:
    """The table of every key of a crate's configuration, of the comments in its source."""
    first = ROOT / "crates" / crate / "src" / "config.rs"
    return _table(_guide_rows((first, "Config"), "", "required"))


def wattiod_keys() -> str:
    """The page of every key of wattiod's configuration, of the comments in its source."""
    sections = list(wattiod_tables("##"))
    tables = re.findall(r"(?m)^## `(\[.*\])`$", "\n".join(sections))
    places = (f"[`{table}`](#{re.sub(r'[^a-z]', '', table)})" for table in tables)
    front = (
        "The meaning of each key, its default and what is allowed. The operator's"
        " [guide](wattiod.md) says what to choose, and `wattiod check FILE` what is wrong."
        ' Quantities carry their unit, as in `"10 s"`, `"8 KiB"`, `"45 W"`. Unknown keys are'
        " refused. `tls.key` below `[service]` goes into `[service.tls]`, and `check[].file` below"
        " `[safety]` into each `[[safety.check]]`."
    )
    made = "<!-- packaging/docs/docs_keys.py writes this page, of comments in crates/host/src. -->"
    contents = _filled("Tables: " + " · ".join(places))
    parts = ["# Keys of wattiod's configuration", made, _filled(front), contents, *sections]
    return "\n\n".join(parts) + "\n"


def _filled(text: str) -> str:
    return textwrap.fill(text, 120, break_long_words=False, break_on_hyphens=False)


_Place = tuple[Path, str]
"""The file where a structure stands, and its name there."""


def wattiod_tables(mark: str) -> Iterator[str]:
    """A section for each table of wattiod's configuration."""
    source = ROOT / "crates" / "host" / "src"
    whole = (source / "config" / "mod.rs", "DaemonConfig")
    rows, tables = [], []
    for said, marks, field, kind in _FIELD.findall(_body(whole)):
        key = _renamed(marks) or field
        if place := _structure(whole[0], _bare(kind)):
            name = f"[[{key}]]" if kind.startswith("Vec<") else f"[{key}]"
            tables.append((name, _said(said), place))
        else:
            rows.append(_key_row(key, said, kind, "required"))
    yield f"{mark} The file\n\n{_filled(_about(whole))}\n\n{_table(rows)}"
    # An application has the same tables as the file.
    apart = {place for *_, place in tables}
    for name, about, place in tables:
        yield from _section(mark, name, about, place, apart)
    line = (source / "sources" / "exec" / "line.rs", "Line")
    lines = _table(_guide_rows(line, "", ""))
    yield f'{mark} Lines of `kind = "exec"`\n\n{_filled(_about(line))}\n\n{lines}'


def _section(mark: str, name: str, about: str, place: _Place, apart: set[_Place]) -> Iterator[str]:
    """A table's keys, or those of each of its kinds; then the tables in it that have kinds."""
    title = f"{mark} `{name}`\n\n{_filled(about)}"
    if _has_kinds(place):
        yield title
        yield from (_kind_section(mark, name, place, *variant) for variant in _variants(place))
        return
    inner = name.strip("[]")
    yield f"{title}\n\n{_table(_guide_rows(place, '', 'required', f'{inner}.', apart))}"
    for _, _, field, kind in _FIELD.findall(_body(place)):
        choice = _structure(place[0], _bare(kind))
        for *_, variant in _variants(choice) if choice and choice not in apart else ():
            other = _structure(choice[0], variant) if choice else None
            if other and _has_kinds(other):
                yield from _section(mark, f"[{inner}.{field}]", _about(other), other, apart)


def _kind_section(
    mark: str, name: str, place: _Place, said: str, marks: str, variant: str, kind: str
) -> str:
    word = _renamed(marks) or re.sub(r"(?<!^)(?=[A-Z])", "-", variant).lower()
    own = _structure(place[0], kind)
    about = _said(said) if own is None or _about(own).startswith("The table") else _about(own)
    keys = _table(_guide_rows(own, "", "required")) if own else "It has no other keys."
    return f'{mark}# `{name}`, `kind = "{word}"`\n\n{_filled(about)}\n\n{keys}'


def _table(rows: Iterable[str]) -> str:
    return "\n".join([head("key", "meaning", "default", "allowed"), *rows])


def _guide_rows(
    place: _Place,
    before: str,
    required: str,
    table: str = "",
    apart: Collection[_Place] = (),
) -> Iterator[str]:
    """A row for each key, also of the tables in it that are not told apart."""
    for said, marks, field, kind in _FIELD.findall(_body(place)):
        key = f"{before}{_renamed(marks) or field}"
        inner = _structure(place[0], _bare(kind))
        # One of a few words is a value.
        if inner is None or inner in apart or not _FIELD.search(_body(inner)):
            yield _key_row(key, said, kind, required)
            continue
        many, maybe = kind.startswith("Vec<"), kind.startswith("Option<")
        deeper = f"required in `[{table}{key}]`" if maybe else required
        yield from _guide_rows(inner, f"{key}{'[]' if many else ''}.", deeper, table, apart)


def _key_row(key: str, said: str, kind: str, required: str) -> str:
    text = _said(said)
    told = {
        word: "".join(re.findall(rf"{word}: (.+?)\.(?= |$)", text))
        for word in ("Default", "Allowed")
    }
    meaning = re.sub(r" ?(?:Default|Allowed): .+?\.(?= |$)", "", text).rstrip(".")
    default = told["Default"] or ("none" if kind.startswith("Option<") else required)
    allowed = told["Allowed"] or ("`true`, `false`" if kind == "bool" else "")
    return row(f"`{key}`", meaning, default, allowed)


_VARIANT = re.compile(
    r"((?:^ {4}///[^\n]*\n)+)((?:^ {4}#\[[^\n]*\n)*)^ {4}(\w+)\(([\w:]+)\),$", re.M
)


@functools.cache
def _structures(path: Path) -> dict[str, tuple[str, str, str]]:
    """Comment, attributes and body of each structure in a file."""
    found = _STRUCT.findall(path.read_text(encoding="utf-8"))
    return {name: (comment, marks, body) for comment, marks, name, body in found}


def _about(place: _Place) -> str:
    return _said(_structures(place[0])[place[1]][0])


def _has_kinds(place: _Place) -> bool:
    return 'tag = "kind"' in _structures(place[0])[place[1]][1]


def _body(place: _Place) -> str:
    return _structures(place[0])[place[1]][2]


def _variants(place: _Place) -> list[tuple[str, str, str, str]]:
    return _VARIANT.findall(_body(place))


def _bare(kind: str) -> str:
    return kind.removeprefix("Vec<").removeprefix("Option<").rstrip(">")


def _structure(path: Path, kind: str) -> _Place | None:
    """The structure that a file means by a type, found as Rust does; None for any other type."""
    *modules, name = kind.split("::")
    if not modules and name in _structures(path):
        return path, name
    first = (modules or [name])[0]
    here = path.parent if path.stem == "mod" else path.with_suffix("")
    if modules and (first in ("crate", "super") or _module(here / first)):
        source = next(folder for folder in path.parents if folder.name == "src")
        for module in modules:
            here = {"crate": source, "super": here.parent}.get(module, here / module)
        file = _module(here)
        return _structure(file, name) if file else None
    if not re.fullmatch(r"\w+", first):
        return None
    uses = rf"(?m)^(?:pub )?use ((?:\w+::)+)(?:{{[^}}]*\b)?{first}\b"
    used = re.search(uses, path.read_text(encoding="utf-8"))
    return _structure(path, used[1] + kind) if used else None


def _module(folder: Path) -> Path | None:
    files = (folder / "mod.rs", folder.with_suffix(".rs"))
    return next((file for file in files if file.exists()), None)


_TABLE = re.compile(r"(?m)(?<=^<!-- keys -->\n)(?:^\|.*\n)*")


def renewed(guide: str, crate: str) -> str:
    """A crate's guide with the table as it is to be."""
    return _TABLE.sub(lambda _: guide_keys(crate) + "\n", guide)
