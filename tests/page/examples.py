"""The workspace's programs, and its examples that serve page and metrics of them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]


def example(name: str) -> Path:
    """An example of the workspace, built."""
    return _built("example", name)


def program(name: str) -> Path:
    """A program of the workspace, built."""
    return _built("bin", name)


def _built(kind: str, name: str) -> Path:
    """As tests are built: other features of other projects would compile all that needs them."""
    command = ["cargo", "test", "--no-run", "--quiet", "--locked", "--workspace"]
    built = subprocess.run(
        [*command, "--message-format=json"], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True
    )
    for message in map(json.loads, built.stdout.splitlines()):
        made = message.get("target", {})
        # The tests of a program have its name and kind, too.
        if made.get("name") == name and kind in made["kind"] and not message["profile"]["test"]:
            return Path(message["executable"])
    raise AssertionError(f"cargo builds no {kind} {name}")
