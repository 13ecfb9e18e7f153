"""The alert rules for Prometheus: of metrics that there are, and each fires when it should."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest
from places import ROOT

RULES = ROOT / "packaging" / "prometheus" / "wattiod.rules.yml"
PAGE = ROOT / "crates" / "wattiod" / "tests" / "metrics" / "golden.prom"
_NAME = r"\bwattio_\w+"


def test_rules_ask_for_metrics_that_the_daemon_has() -> None:
    told = set(re.findall(rf"^({_NAME})", PAGE.read_text(), re.MULTILINE))
    # An alert's group has a name of the same kind.
    asked = set(re.findall(_NAME, RULES.read_text())) - {"wattiod_savings"}
    assert asked
    assert asked <= told


@pytest.mark.system
@pytest.mark.skipif(shutil.which("promtool") is None, reason="needs the package prometheus")
def test_each_alert_fires_when_it_should_and_not_before() -> None:
    command = ["promtool", "test", "rules", "wattiod.test.yml"]
    done = subprocess.run(command, cwd=RULES.parent, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    alerts = re.findall(r"- alert: (\w+)", RULES.read_text())
    tests = (RULES.parent / "wattiod.test.yml").read_text()
    assert all(
        f'alertname="{alert}"' in tests or f"alertname: {alert}" in tests for alert in alerts
    )
