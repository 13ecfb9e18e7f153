"""The workspace's programs, and its examples that serve page and metrics of them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]


def example(name: str) -> Path:
    """An example of the workspace, built."""
    return _built("--example", name)


def program(name: str) -> Path:
    """A program of the workspace, built."""
    return _built("--bin", name)


def _built(kind: str, name: str) -> Path:
    command = ["cargo", "build", "--quiet", "--locked", "--workspace", kind, name]
    built = subprocess.run(
        [*command, "--message-format=json"], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True
    )
    messages = map(json.loads, built.stdout.splitlines())
    paths = [message.get("executable") for message in messages if message.get("executable")]
    return Path(paths[-1])
