"""Other projects' own test suites pass against brokers of this project: `./build.sh test foreign`.

Each suite is fetched and built below the user's cache, never here. Its outcomes are written to the
file that JOSEFINE_FOREIGN_RESULTS names. With JOSEFINE_COMPAT_WITH=apache-kafka a suite is run
against Apache Kafka instead, which tells whose fault a failure is.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import date
from pathlib import Path

import pytest

from tests.compat.brokers import WITH_APACHE_KAFKA
from tests.compat.matrix import commit
from tests.foreign.franz_go import FranzGo
from tests.foreign.kafka_python import KafkaPython
from tests.foreign.kafka_tools import KafkaTools
from tests.foreign.librdkafka import NO_AUTO_CREATE, Librdkafka
from tests.foreign.mirror_maker import MirrorMaker
from tests.foreign.results import TARGET, explained, share_passed, unexplained, write_results
from tests.foreign.spark_kafka import SparkKafka
from tests.foreign.suite import Needs, Suite, UnavailableError
from tests.support.apache_kafka import ApacheKafka, cluster_of_three
from tests.support.broker import BrokerProcess
from tests.support.cluster import REPLICATED, Cluster
from tests.support.ports import free_ports

pytestmark = [pytest.mark.slow, pytest.mark.timeout(7_200)]
SUITES: tuple[Suite, ...] = (
    KafkaTools(), KafkaPython(), FranzGo(), Librdkafka(), Librdkafka(NO_AUTO_CREATE),
    MirrorMaker(), SparkKafka(),
)  # fmt: skip
IN_THREE: Mapping[str, object] = {**REPLICATED}
WITH_ACLS: Mapping[str, object] = {
    "acls__enabled": True,
    "acls__allow_everyone_if_no_acl_found": True,
    "acls__inter_broker_principal": "User:brokers",
    "broker__inter_broker_listener": "INSIDE",
}
"""Denials hold for every client; brokers have a listener, and with it a name, of their own."""


@pytest.mark.parametrize("suite", SUITES, ids=lambda each: each.name)
def test_suite_passes(suite: Suite, tmp_path: Path) -> None:
    if why := suite.why_not():
        pytest.skip(why)
    try:
        suite.build()
    except UnavailableError as error:
        pytest.skip(str(error))
    scratch = tmp_path / "suite"
    scratch.mkdir()
    commit()  # the one that is measured, though others may come while the suite runs

    with brokers(suite.needs, tmp_path) as bootstrap:
        outcomes = explained(suite.run(bootstrap, scratch), suite.reasons, suite.excluded)

    results = os.environ.get("JOSEFINE_FOREIGN_RESULTS")
    if results and not WITH_APACHE_KAFKA:
        write_results(Path(results), suite, outcomes, date.today())
    assert unexplained(outcomes, suite.reasons) == []
    assert share_passed(Counter(each.result for each in outcomes.values())) >= TARGET


@contextmanager
def brokers(needs: Needs, directory: Path) -> Iterator[str]:
    """The addresses of brokers of ours, or of Apache Kafka's, that serve meanwhile."""
    if WITH_APACHE_KAFKA and needs.brokers > 1:
        with cluster_of_three(directory) as cluster:
            yield ",".join(each.bootstrap for each in cluster)
    elif WITH_APACHE_KAFKA:
        with ApacheKafka(directory / "kafka") as broker:
            yield broker.bootstrap
    elif needs.brokers > 1:
        overrides = {**IN_THREE, **(WITH_ACLS if needs.has_acls else {}), **needs.overrides}
        with Cluster(directory, needs.brokers, start=False, **overrides) as ours:
            if needs.has_acls:
                listen_for_each_other(ours)
            ours.start()
            yield ours.bootstrap
    else:
        with BrokerProcess(directory / "broker", **needs.overrides) as one:
            yield one.bootstrap


def listen_for_each_other(cluster: Cluster) -> None:
    """Give each broker the listener that `WITH_ACLS` speaks of."""
    for broker in cluster.brokers.values():
        clients, inside = free_ports(2)
        listeners = [f"PLAINTEXT://127.0.0.1:{clients}", f"INSIDE://127.0.0.1:{inside}"]
        broker.overrides = {**broker.overrides, "broker__listeners": listeners}
