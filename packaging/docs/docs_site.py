"""Hook of mkdocs: adds the pages that are made of code, and mends links that leave docs/.

Made are the tutorial (of its notebook) and the reference: commands (of the command line), keys of
files (of the models that read them), policies (of their parameter files), metrics (of metrics.toml
beside this file), and the Python interface (of docstrings).
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import docs_keys
import docs_metrics
import docs_reference

ROOT = Path(__file__).parents[2]
_LINK = re.compile(r"\[([^\]\[]+)\]\((?!https?:|#)([^)\s]+)\)")
_GLOSSARY = ("## Glossary", "\n\nMore about each room")
_OUT = re.compile(r"^(?:\.\./)+")


def pages() -> dict[str, str]:
    """Path and Markdown of every page that is made of code."""
    notebook = json.loads((ROOT / "docs" / "tutorial.ipynb").read_text(encoding="utf-8"))
    return {
        "tutorial.md": tutorial(notebook),
        "reference/commands.md": docs_reference.commands(),
        "reference/files.md": docs_keys.files(),
        "reference/policies.md": docs_reference.policies(),
        "reference/metrics.md": metrics(),
        "reference/python.md": docs_reference.python(),
        "glossary.md": glossary(),
    }


def metrics() -> str:
    """The metrics of results, and then those that programs offer to Prometheus."""
    programs = (f"{part}\n" for part in docs_metrics.programs())
    return "\n".join([docs_reference.metrics(), *programs])


def tutorial(notebook: dict[str, Any]) -> str:
    """A notebook as a page: its code is shown as code."""
    parts = []
    for cell in notebook["cells"]:
        text = "".join(cell["source"])
        parts.append(text if cell["cell_type"] == "markdown" else f"```python\n{text}\n```")
    note = "This page is `docs/tutorial.ipynb`, a notebook to run."
    return "\n\n".join([parts[0], note, *parts[1:]]) + "\n"


def glossary() -> str:
    """The glossary of ARCHITECTURE.md as a page. Raises ValueError where it is not found there."""
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    head, follows = _GLOSSARY
    table, end, _ = text.partition(head)[2].partition(follows)
    if not end:
        raise ValueError(f'ARCHITECTURE.md: "{follows.strip()}" does not follow "{head}"')
    return f"# Glossary\n{table}\n"


def mended(text: str) -> str:
    """Links that leave docs/ as what they are: paths in the source tree."""

    def told(link: re.Match[str]) -> str:
        shown, target = link[1], link[2]
        if not target.startswith("../"):
            return link[0]
        path = _OUT.sub("", target)
        return f"{shown}" if shown.strip("`") == path.rstrip("/") else f"{shown} (`{path}`)"

    return _LINK.sub(told, text)


def on_files(files: Any, config: Any) -> Any:  # noqa: ANN401 (mkdocs has no types)
    """Add the pages."""
    from mkdocs.structure.files import File

    for path, text in pages().items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:  # noqa: ANN401
    """Mend the links of a page that people wrote."""
    return markdown if page.file.generated_by else mended(markdown)
