"""Options of the test suite."""

from __future__ import annotations

import pytest
from hypothesis import settings

# A machine that is busy with other things makes a test slow, not wrong.
settings.register_profile("wattio", deadline=None)
settings.load_profile("wattio")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--no-skips",
        action="store_true",
        help="fail when a test is skipped: for machines that have all a test may need",
    )


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, exitstatus: int, config: pytest.Config
) -> None:
    skipped = terminalreporter.stats.get("skipped", [])
    if config.getoption("--no-skips") and skipped:
        terminalreporter.write_line("skipped, which --no-skips does not allow:", red=True)
        for report in skipped:
            terminalreporter.write_line(f"  {report.nodeid}: {report.longrepr}")


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    skipped = getattr(reporter, "stats", {}).get("skipped", [])
    if session.config.getoption("--no-skips") and skipped and exitstatus == 0:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
