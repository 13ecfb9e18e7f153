"""Options of the test suite."""

from __future__ import annotations

import errno
import os
import signal
from pathlib import Path

import pytest
from hypothesis import settings

# A shell has what it starts in the background ignore SIGINT, and what that starts, too: tests that
# stop a program by it would wait for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A machine that is busy with other things makes a test slow, not wrong.
settings.register_profile("wattio", deadline=None)
settings.load_profile("wattio")


@pytest.fixture(scope="session", autouse=True)
def _hang_ups() -> None:
    """What `nohup` starts ignores SIGHUP, and what that starts, too: tests end programs by it.

    Who runs tests outlives a terminal as before: this changes what it starts.
    """
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda *_: None)


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures are made and not written, which takes longest: for tests of a page's words."""
    from wattio.report import plots

    monkeypatch.setattr(plots, "svg", lambda _: b"<svg/>")


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a text that is written from now on, the beginning finds room and the rest does not."""
    write_text = Path.write_text

    def begun(path: Path, text: str, encoding: str | None = None) -> int:
        write_text(path, text[:9], encoding)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_text", begun)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--no-skips",
        action="store_true",
        help="fail when a test is skipped: for machines that have all a test may need",
    )


LONG_S = 900
"""For tests marked `slow` or `system`: of minutes, and of a guest that boots."""


LONGEST = (
    "test_fresh_machine.py",
    "test_debian_packages.py",
    "test_package_installed.py",
    "test_documented_commands.py",
    "test_page.py",
    "test_hpcio_parallel_hdf5.py",
    "test_hpcio_failures.py",
    "test_validation_io.py",
    "test_fuzz.py",
)
"""Files that take minutes, the longest first: begun last, they would be waited for."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The time limit of pyproject.toml is for quick tests; others have another."""
    last = len(LONGEST)
    items.sort(
        key=lambda item: LONGEST.index(item.path.name) if item.path.name in LONGEST else last
    )
    for item in items:
        own = item.get_closest_marker("timeout") is not None
        if not own and any(item.get_closest_marker(name) for name in ("slow", "system")):
            item.add_marker(pytest.mark.timeout(LONG_S))


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, exitstatus: int, config: pytest.Config
) -> None:
    for report in terminalreporter.stats.get("passed", []):
        for told in (value for name, value in report.user_properties if name == "told"):
            terminalreporter.write_line(f"{report.nodeid}: {told}")
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
