"""Fixtures that differ between files only by their settings.

A file assigns one to the name that its tests take: `broker = broker_fixture(text__port=0)`. What
every file of a folder takes alike is in that folder's conftest.py instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal

import pytest

from josefine_broker.client.io_blocking import BlockingClient, NewTopic
from tests.support.broker import BrokerProcess
from tests.support.cluster import Cluster

Scope = Literal["session", "module", "function"]


def fixture_of(make: Callable[[], object], scope: Scope = "function") -> Any:
    """A fixture of what `make` returns, made again for every test or module."""

    @pytest.fixture(scope=scope)
    def made() -> object:
        return make()

    return made


def broker_fixture(*topics: NewTopic, scope: Scope = "module", **overrides: object) -> Any:
    """A fixture of one running broker that has these topics; `overrides` as for BrokerProcess."""

    @pytest.fixture(scope=scope)
    def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
        with BrokerProcess(tmp_path_factory.mktemp("broker"), **overrides) as process:
            if topics:
                with BlockingClient(process.bootstrap) as client:
                    client.create_topics([*topics])
                    for topic in topics:
                        client.partition_count(topic.name)
            yield process

    return running


def cluster_fixture(scope: Scope = "module", **settings: Any) -> Any:
    """A fixture of a running cluster; `settings` as for Cluster."""

    @pytest.fixture(scope=scope)
    def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
        with Cluster(tmp_path_factory.mktemp("cluster"), **settings) as cluster:
            yield cluster

    return running
