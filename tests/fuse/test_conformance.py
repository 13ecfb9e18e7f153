"""The conformance of `wattio-host` on a mounted tree: `crates/host/tests/conformance/served.rs`."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from fuse.hosts import server
from fuse.mount import mounted, writes
from fuse.nodes import Link
from fuse.processors import CPU

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(shutil.which("cargo") is None, reason="needs cargo"),
]

REPOSITORY = Path(__file__).parents[2]


def conformance(root: Path, name: str) -> str:
    """Run one of the tests on a tree; what it says."""
    tests = ("cargo", "test", "--locked", "--workspace", "--test", "conformance_knobs")
    done = subprocess.run(
        [*tests, "--", "--ignored", "--show-output", "--exact", f"conformance::served::{name}"],
        cwd=REPOSITORY,
        env={**os.environ, "WATTIO_TEST_TREE": str(root)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout
    assert "skipped" not in done.stdout
    return done.stdout


def test_every_knob_conforms_and_leaves_the_tree_as_it_was() -> None:
    tree = server()
    with mounted(tree) as root:
        conformance(root, "knobs_of_a_served_tree")
        for path in ("cpu7/online", "cpufreq/policy0/scaling_max_freq"):
            assert writes(root, f"{CPU}/{path}")
        # The test leaves the governor `userspace`; everything else is as it was.
        changed = {
            path
            for path, node in tree.items()
            if not isinstance(node, Link) and (root / path).read_text() != f"{node.read(0.0)}\n"
        }
        assert {path.rpartition("/")[2] for path in changed} <= {
            "scaling_governor",
            "scaling_setspeed",
            "scaling_cur_freq",
        }


def test_sources_tell_what_the_tree_counts() -> None:
    with mounted(server()) as root:
        conformance(root, "sources_of_a_served_tree")
