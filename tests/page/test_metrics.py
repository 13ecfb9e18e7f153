"""The metrics of both programs, read by Prometheus' own tool and by `wattiod`.

The programs run with a load that is made up; needs cargo and the package prometheus.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from page.examples import example, program

pytestmark = pytest.mark.system


@contextlib.contextmanager
def serving(name: str, *words: str) -> Iterator[str]:
    """The address of the metrics of an example that runs."""
    command = [str(example(name)), *words]
    served = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert served.stdout is not None
        yield served.stdout.readline().strip() + "metrics"
    finally:
        served.kill()
        served.wait()


@pytest.mark.skipif(shutil.which("promtool") is None, reason="needs the package prometheus")
@pytest.mark.parametrize(
    ("name", "words", "family"),
    [
        ("page", ["step_ms=20", "meter", "several"], "wattio_windows_total"),
        ("governed", ["step_ms=5"], "wattio_latency_seconds"),
    ],
)
def test_promtool_has_no_complaint(name: str, words: list[str], family: str) -> None:
    with serving(name, *words) as url, urllib.request.urlopen(url, timeout=10) as answer:
        page = answer.read()
    assert f"# TYPE {family} ".encode() in page
    check = ["promtool", "check", "metrics"]
    done = subprocess.run(check, input=page, capture_output=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_the_daemon_reads_the_latency_of_the_target(tmp_path: Path) -> None:
    config = tmp_path / "wattiod.toml"
    with serving("governed", "step_ms=5") as url:
        config.write_text(
            f"""
            name = "target"
            [latency]
            kind = "prometheus"
            url = "{url}"
            metric = "wattio_latency_seconds"
            [[group]]
            name = "all"
            cores = "0"
            """
        )
        command = [str(program("wattiod")), "doctor", str(config), "--json"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    findings = {one["what"]: one for one in json.loads(done.stdout)["findings"]}
    latency = findings["[latency]"]
    assert latency["ok"], latency
    assert latency["text"].startswith("answers: "), latency
    assert ", mean " in latency["text"], latency
