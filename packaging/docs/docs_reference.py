"""Pages of the reference that are made of the command line, policies, metrics and docstrings."""

from __future__ import annotations

import inspect
import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

METRICS = Path(__file__).with_name("metrics.toml")


def row(*cells: object) -> str:
    """A row of a table in Markdown."""
    return (
        "| " + " | ".join(str(cell).replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"
    )


def head(*cells: str) -> str:
    """The first two rows of a table."""
    return row(*cells) + "\n" + row(*("---" for _ in cells))


def commands() -> str:
    """Every command with its options and examples, of the command line itself."""
    from wattio.cli import build

    text = build().generate_docs(output_format="markdown", max_heading_level=3)
    start = text.index("## wattio simulate")
    front = (
        "# Commands\n\n`wattio COMMAND --help` says the same. Exit codes: 0 done, 1 a problem was"
    )
    front += (
        " found (also of the machine: a full disk), 2 input that cannot be used, 130 stopped.\n\n"
    )
    return front + text[start:]


def policies() -> str:
    """Every policy with every hyperparameter."""
    from wattio import _core

    parts = [
        "# Policies\n\n`wattio simulate --list` shows the same. Settings of studies and of wattiod."
    ]
    for name, policy in json.loads(_core.policies()).items():
        parts.append(f"## {name}\n\n{policy['doc']}")
        if not policy["parameters"]:
            continue
        lines = [head("setting", "unit", "default", "range", "meaning", "source")]
        for item in policy["parameters"]:
            ends = (item["minimum"], item["maximum"])
            span = "" if ends == (None, None) else f"{ends[0]} to {ends[1]}"
            default = str(item["default"]).lower()
            first = row(
                f"`{item['name']}`", item["unit"], default, span, item["doc"], item["source"]
            )
            lines.append(first)
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def metrics() -> str:
    """Every metric with its unit and formula, of metrics.toml."""
    content = tomllib.loads(METRICS.read_text(encoding="utf-8"))
    parts = [f"# Metrics\n\n{content['about']}"]
    for part in content["part"]:
        lines = [head("metric", "unit", "what it is")]
        lines += [row(f"`{m['name']}`", m["unit"], m["is"]) for m in part["metric"]]
        parts.append(f"## {part['title']}\n\n{part.get('about', '')}\n\n" + "\n".join(lines))
    return "\n\n".join(parts) + "\n"


def python() -> str:
    """What `import wattio` offers, of its docstrings."""
    import wattio

    parts = ["# Python", code(inspect.getdoc(wattio) or "")]
    for name in ("simulate", "run", "open"):
        function = getattr(wattio, name)
        lines = inspect.getsource(function).splitlines()
        shown = "\n".join(lines[: next(i for i, line in enumerate(lines) if '"""' in line)])
        shown = shown.replace("open_result(", "open(").rstrip(":")
        text = inspect.getdoc(function) or ""
        parts.append(f"## wattio.{name}\n\n```python\n{shown}\n```\n\n{text}")
    for name in ("Simulated", "Result", "Table", "Figure"):
        parts.append(f"## wattio.{name}\n\n" + "\n".join(members(getattr(wattio, name))))
    return "\n\n".join(parts) + "\n"


def code(text: str) -> str:
    """A docstring whose indented part is code."""
    lines = [
        line.removeprefix("    ") if line.startswith("    ") else line for line in text.split("\n")
    ]
    at = next(i for i, line in enumerate(text.split("\n")) if line.startswith("    "))
    end = max(i for i, line in enumerate(text.split("\n")) if line.startswith("    "))
    return "\n".join([*lines[:at], "```python", *lines[at : end + 1], "```", *lines[end + 1 :]])


def members(kind: type[Any]) -> Iterator[str]:
    """The docstring of a class, and those of its public members."""
    yield inspect.getdoc(kind) or ""
    yield ""
    for name, member in vars(kind).items():
        if name.startswith("_") or not (
            callable(member) or isinstance(member, property | classmethod)
        ):
            continue
        text = " ".join((inspect.getdoc(member) or "").split())
        shown = name if isinstance(member, property) else f"{name}()"
        yield f"- `{shown}`: {text}"
