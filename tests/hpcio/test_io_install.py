"""What `make install-io` asks of a machine: a compiler and cargo, as its guide says."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from hpcio.launching import path_without

ROOT = Path(__file__).parents[2]
NEEDS = ["packaging/needs.sh", "1.88"]


def run(path: str, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PATH": path}
    return subprocess.run(
        words, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=60
    )


def test_the_library_needs_no_python(tmp_path: Path) -> None:
    """A cluster's login node with cargo and cc was told to install Python and venv."""
    # Nor apt-get, which would bring what is missing.
    path = path_without(tmp_path / "bin", "python", "apt")
    whole = run(path, *NEEDS)
    assert whole.returncode == 2
    assert "Python 3.11 to 3.14" in whole.stderr
    library = run(path, *NEEDS, "--library")
    assert (library.returncode, library.stderr) == (0, "")
    made = run(path, "make", "--dry-run", "install-io", f"PREFIX={tmp_path}")
    # Within another make it also says where it is.
    assert made.returncode == 0, made.stderr
    assert "python" not in made.stdout
    first = next(line for line in made.stdout.splitlines() if not line.startswith("make"))
    assert first.endswith("needs.sh 1.88 --library")


def test_what_the_library_lacks_is_named_without_python(tmp_path: Path) -> None:
    path = path_without(tmp_path / "bin", "python", "apt", "cargo")
    told = run(path, *NEEDS, "--library")
    assert told.returncode == 2
    assert told.stderr.startswith("wattio needs cargo 1.88 or newer; on Debian")
    assert "python" not in told.stderr.lower()
    assert told.stderr.count("\n") == 1
