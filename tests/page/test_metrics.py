"""Prometheus' own tool finds nothing to say against what both programs tell it.

The programs run with a load that is made up; needs cargo and the package prometheus.
"""

from __future__ import annotations

import shutil
import subprocess
import urllib.request

import pytest

from page.examples import example

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(shutil.which("promtool") is None, reason="needs the package prometheus"),
]


@pytest.mark.parametrize(
    ("program", "words", "family"),
    [
        ("page", ["step_ms=20", "meter", "several"], "wattio_windows_total"),
        ("governed", ["step_ms=5"], "wattio_latency_seconds"),
    ],
)
def test_promtool_has_no_complaint(program: str, words: list[str], family: str) -> None:
    command = [str(example(program)), *words]
    served = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert served.stdout is not None
        url = served.stdout.readline().strip() + "metrics"
        with urllib.request.urlopen(url, timeout=10) as answer:
            page = answer.read()
    finally:
        served.kill()
        served.wait()
    assert f"# TYPE {family} ".encode() in page
    check = ["promtool", "check", "metrics"]
    done = subprocess.run(check, input=page, capture_output=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
