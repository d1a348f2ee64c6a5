"""One broker for all compatibility tests, a fresh topic for each: clients are what differs here."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path

import pytest

from josefine_broker.client.io_blocking import BlockingClient, NewTopic
from tests.compat.brokers import WITH_APACHE_KAFKA, Broker, one
from tests.compat.matrix import ORACLE, OURS, write_matrix

_NUMBERS = itertools.count(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/compat" in str(item.path):
            item.add_marker(pytest.mark.compat)
            if WITH_APACHE_KAFKA and "cluster" in getattr(item, "fixturenames", ()):
                item.add_marker(pytest.mark.skip(reason="the oracle is one broker"))


_OUTCOMES: dict[str, str] = {}


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if "tests/compat" in report.nodeid and (report.when == "call" or report.skipped):
        _OUTCOMES[report.nodeid.partition("tests/compat/")[2]] = report.outcome


def pytest_sessionfinish(session: pytest.Session) -> None:
    """The matrix of COMPATIBILITY.md, where its file is named: by the process that hears of all."""
    if (file := os.environ.get("JOSEFINE_COMPAT_MATRIX")) and not hasattr(
        session.config, "workerinput"
    ):
        broker = ORACLE if WITH_APACHE_KAFKA else OURS
        write_matrix(Path(file), broker, _OUTCOMES, date.today())


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    # Tests choose timestamps long past: retention by time would delete the records.
    with one(tmp_path_factory.mktemp("compat"), log__retention_ms=None) as process:
        yield process


@pytest.fixture(scope="session")
def bootstrap(broker: Broker) -> str:
    return broker.bootstrap


@pytest.fixture
def client(bootstrap: str) -> Iterator[BlockingClient]:
    with BlockingClient(bootstrap) as client:
        yield client


@pytest.fixture
def make_topic(client: BlockingClient) -> Callable[..., str]:
    """`make_topic(partitions=1, **configs)`, dots of configuration names as underscores."""

    def make(partitions: int = 1, **configs: str) -> str:
        name = f"compat-{next(_NUMBERS)}"
        named = {key.replace("_", "."): value for key, value in configs.items()}
        client.create_topics([NewTopic(name, partitions, 1, named)])
        return name

    return make
