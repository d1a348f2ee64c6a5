"""For all tests: how several processes share them, the daily share of long proofs, failures told at
once, the figures that tests tell at the end, how long they took, and Hypothesis without its limits
of time, which measure a busy machine and not our code."""

from __future__ import annotations

import os
import signal
import threading
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

from tests.durations import CI_LIMIT_S, LIMIT_S, Recorder
from tests.shares import mark_the_rest_slow
from tests.support.processes import children_of_a_test

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.scheduler import Scheduler

settings.register_profile("no clock", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("no clock")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Scheduler:
    from tests.scheduler import Scheduler

    return Scheduler(config, log)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--share-seed",
        type=int,
        default=0,
        help="which cases of the long proofs belong to the tests of this day (tests/shares.py)",
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Iterator[None]:
    with children_of_a_test():
        return (yield)


@pytest.hookimpl(tryfirst=True)  # before -m looks at the marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    mark_the_rest_slow(items, config.getoption("--share-seed"))


class _Failures:
    """Says of each failure at once what failed: a whole run goes on for a quarter of an hour."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        terminal = self._config.pluginmanager.get_plugin("terminalreporter")
        if report.failed and terminal is not None:
            terminal.write_line(f"\nfailed at {report.when}: {report.nodeid}")
            terminal.write_line(report.longreprtext[-1_500:])


def pytest_configure(config: pytest.Config) -> None:
    # A shell lets its background jobs ignore Ctrl-C, and so would every command of a test.
    is_main = threading.current_thread() is threading.main_thread()
    if is_main and signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if not hasattr(config, "workerinput"):  # not in the processes that only run tests
        config.pluginmanager.register(_Failures(config))
        is_daily = config.getoption("markexpr") == "not slow"
        fails_at_s = CI_LIMIT_S if "CI" in os.environ else LIMIT_S
        config.pluginmanager.register(Recorder(is_daily=is_daily, fails_at_s=fails_at_s))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """A test tells a figure by `record_property("told", line)`: printing gets lost between
    processes."""
    for report in terminalreporter.getreports("passed"):
        for name, value in report.user_properties:
            if name == "told":
                terminalreporter.write_line(str(value))
