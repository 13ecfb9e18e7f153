"""What comes with wattio and is found by name: studies and traces.

A path that leads somewhere is always taken as it is. Only one that leads nowhere is looked for
among what is shipped, so `wattio run quickstart` works in any folder, and so do
`studies/quickstart/study.toml`, `io-approaches/cm1.toml` and the trace `pgbench`. Servers are
found by name in the native module (`wattio._core.built_in_servers`).
"""

from __future__ import annotations

import os
from pathlib import Path

from wattio.errors import InputError

DATA = Path(__file__).parent / "data"
"""The folder of what is shipped."""

STUDIES = DATA / "studies"
TRACES = DATA / "traces"
TRACE_SUFFIX = ".wtrace"


def studies() -> dict[str, Path]:
    """The folder of each study that is shipped, by its name."""
    return {path.parent.name: path.parent for path in sorted(STUDIES.glob("*/study.toml"))}


def examples() -> dict[str, tuple[Path, ...]]:
    """The study files of each folder that is shipped, by its name: study.toml, or several."""
    found = {}
    for folder in sorted(STUDIES.iterdir()):
        names = ["study.toml"] if (folder / "study.toml").exists() else _studies_in(folder)
        if names:
            found[folder.name] = tuple(folder / name for name in names)
    return found


def named_studies() -> dict[str, Path]:
    """Each study file that is shipped, by what `wattio run` takes: pacer, two-clusters/arm.toml."""
    return {
        name if file.name == "study.toml" else f"{name}/{file.name}": file
        for name, files in examples().items()
        for file in files
    }


def traces() -> dict[str, Path]:
    """Each trace that is shipped, by its name."""
    return {path.stem: path for path in sorted(TRACES.glob(f"*{TRACE_SUFFIX}"))}


def located(path: str | os.PathLike[str], base: Path | None = None) -> Path:
    """The path, below `base` where it is relative; what is shipped under it if nothing is there.

    A path that leads nowhere at all is returned as it came, for the reader's own message.
    """
    asked = Path(path)
    own = asked if base is None else base / asked
    if asked.is_absolute() or ".." in asked.parts or asked == Path() or own.exists():
        return own
    for room in (STUDIES, TRACES, DATA):
        for found in (room / asked, room / f"{asked}{TRACE_SUFFIX}"):
            if found.exists():
                return found
    return own


def study_file(path: str | os.PathLike[str]) -> Path:
    """The study file that a path, a folder with a study.toml or the name of a study stands for.

    A folder without one does not stand in the way of a study of its name, as `target` of a checkout
    that has been built. Raises InputError where there is nothing of that name.
    """
    found = located(path)
    named = studies().get(os.fspath(path))
    if named is not None and found.is_dir() and not (found / "study.toml").exists():
        found = named
    if not found.exists() and found.suffix != ".toml":
        known = ", ".join(named_studies())
        raise InputError(f"{path}: there is no such file or folder; studies by name are {known}")
    if not found.is_dir():
        return found
    if not (found / "study.toml").exists() and (others := _studies_in(found)):
        named_so = ", ".join(f"{path}/{other}" for other in others)
        raise InputError(f"{path}: has no study.toml; name one of its files: {named_so}")
    return found / "study.toml"


def _studies_in(folder: Path) -> list[str]:
    """Files of a folder that have a study in them, by name."""
    texts = (
        (path.name, path.read_bytes()) for path in sorted(folder.glob("*.toml")) if path.is_file()
    )
    return [name for name, text in texts if b"\n[study]" in b"\n" + text]
