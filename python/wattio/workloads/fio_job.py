"""fio's job files: cut into groups that run one after the other, and written for a client.

A job file with `stonewall` holds several phases. Each becomes an invocation of its own, because
older versions of fio do not tell when a job began.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from wattio.errors import InputError

_BARRIERS = ("stonewall", "wait_for_previous", "wait_for")
GLOBAL = "global"
"""Name of sections whose lines hold for the jobs after them."""

NAME_BYTES = 128
"""Most bytes of a section's name, as fio has it."""

_NO_NAMES = ("", ".", "..")
_HEADER = re.compile(r"\[(.*)\]\s*")
_COMMENT = (";", "#")


@dataclass(frozen=True)
class Section:
    """A section of a job file: its name, and its lines without comments."""

    name: str
    lines: tuple[str, ...]

    def value(self, *keys: str) -> str | None:
        """What the last of these keys is set to; an option that only stands there is "1"."""
        for line in reversed(self.lines):
            key, _, value = (part.strip() for part in line.partition("="))
            if key in keys:
                return value or "1"
        return None


@dataclass(frozen=True)
class Group:
    """Jobs that run side by side, with the global sections that stand before them."""

    name: str
    sections: tuple[Section, ...]

    def value(self, job: Section, key: str) -> str | None:
        """What a key is set to for a job of this group: in its section, or a global one before."""
        before = self.sections[: self.sections.index(job)]
        for one in (job, *(one for one in reversed(before) if one.name == GLOBAL)):
            if (value := one.value(key)) is not None:
                return value
        return None

    def text(self, folder: Path, settings: dict[str, str]) -> str:
        """A job file of this group alone, for a client that works in `folder`."""
        head = list(settings.items())
        if "replay_redirect" not in settings:
            # fio 3.33 crashes where a trace is replayed in a directory.
            head.insert(0, ("directory", escaped(folder)))
        lines = ["[global]", *(f"{key}={value}" for key, value in head)]
        for section in self.sections:
            lines += ["", f"[{section.name}]", *filter(_runs_alone, section.lines)]
        return "\n".join(lines) + "\n"


def _runs_alone(line: str) -> bool:
    """Whether a line says anything in a file of one group: there is nobody to wait for."""
    return line.partition("=")[0].strip() not in _BARRIERS


def escaped(folder: Path) -> str:
    """A folder as fio takes it: a colon separates several."""
    return str(folder).replace(":", "\\:")


def groups(text: str, name: str) -> list[Group]:
    """The groups of a job file, in their order; each is named by its first job.

    `name` stands in messages. Raises InputError where there is no job, where two groups have one
    name, for names that no folder can have, and for what would make fio work elsewhere than in the
    clients' folders.
    """
    found: list[list[Section]] = []
    common: list[Section] = []
    for section in _sections(text, name):
        _refuse(section, name)
        if section.name == GLOBAL:
            common.append(section)
            continue
        if not found or _barrier(section, common):
            found.append([])
        known = [one for one in common if one not in found[-1]]
        found[-1] += [*known, section]
    if not found:
        raise InputError(f"{name}: holds no job: no section other than [global]")
    done = [Group(_first_job(sections), tuple(sections)) for sections in found]
    names = [one.name for one in done]
    for one in names:
        if names.count(one) > 1:
            raise InputError(f"{name}: [{one}] begins two groups; give each its own name")
    return done


def _first_job(sections: list[Section]) -> str:
    return next(one.name for one in sections if one.name != GLOBAL)


def _barrier(section: Section, common: list[Section]) -> bool:
    """Whether a job waits for those before it."""
    for one in (section, *reversed(common)):
        if (value := one.value(*_BARRIERS)) is not None:
            return value != "0"
    return False


def _sections(text: str, name: str) -> list[Section]:
    heads: list[tuple[str, list[str]]] = []
    for number, line in enumerate(text.split("\n"), start=1):
        stripped = line.strip()
        if not stripped or stripped.startswith(_COMMENT):
            continue
        if "\0" in stripped:
            raise InputError(f"{name}:{number}: is not a text file: it contains a NUL byte")
        if header := _HEADER.fullmatch(stripped):
            heads.append((header[1], []))
        elif not heads:
            raise InputError(f"{name}:{number}: {stripped!r} is before the first [section]")
        else:
            heads[-1][1].append(stripped)
    return [Section(head, tuple(lines)) for head, lines in heads]


def _refuse(section: Section, name: str) -> None:
    where = f"{name}: [{section.name}]"
    if section.name in _NO_NAMES or "/" in section.name:
        raise InputError(
            f"{where}: results are kept by the names of jobs, and this cannot name a folder;"
            ' allowed: any but "", "." and "..", without "/"'
        )
    if len(section.name.encode()) > NAME_BYTES:
        raise InputError(f"{where}: the name is longer than {NAME_BYTES} bytes")
    if section.value("directory") is not None:
        raise InputError(f"{where}: directory is set by wattio, to the client's folder; remove it")
    for path in re.split(r"(?<!\\):", section.value("filename") or ""):
        if path.startswith("/") or ".." in Path(path).parts:
            raise InputError(
                f"{where}: filename {path!r} leads out of the client's folder; give a plain name"
            )
    for line in section.lines:
        if line.split(maxsplit=1)[0] == "include":
            raise InputError(f"{where}: include is not supported; insert that file's lines")
