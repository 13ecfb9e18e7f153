"""Processor time of a process with its threads and children, against what they tell themselves."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from wattio.systems import processor_time

WORK = """
import sys, threading, time, subprocess
def burn(until_s):
    while time.thread_time() < until_s: pass
def threads():
    one = threading.Thread(target=burn, args=(0.12,)); one.start(); one.join()
kind = sys.argv[1]
if kind == "thread": threads()
elif kind == "ended child":
    subprocess.run([sys.executable, __file__, "burn"], check=True)
elif kind == "burn": burn(0.15)
elif kind == "child":
    child = subprocess.Popen([sys.executable, __file__, "wait"], stdin=subprocess.PIPE,
        stdout=subprocess.PIPE)
    child.stdout.readline()
elif kind == "wait": burn(0.15)
print("done", flush=True)
sys.stdin.readline()
"""


@pytest.mark.parametrize("kind", ["thread", "ended child", "child", "burn"])
def test_threads_and_children_count(kind: str, tmp_path: Path) -> None:
    script = tmp_path / "work.py"
    script.write_text(WORK)
    arguments = [sys.executable, str(script), kind]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"done\n"
        found_s = processor_time.of_tree(process.pid)
        again_s = processor_time.of_tree(process.pid)
        process.communicate(b"\n")
    # They burned as much by their own clocks; what starting took comes on top.
    assert 0.12 <= found_s < 10.0
    assert again_s >= found_s
    with pytest.raises(ProcessLookupError, match="is gone"):
        processor_time.of_tree(process.pid)
