"""Networks that break between brokers: cut off, one-way, slow; each host in a namespace."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from josefine_broker.base.errors import KafkaError
from josefine_broker.client.io_blocking import BlockingClient, NewTopic
from josefine_broker.client.session import Policy
from tests.support.cluster import REPLICATED
from tests.support.namespaces import CLIENT, KAFKA_PORT, Lab, NamespaceCluster
from tests.support.waiting import wait_until
from tests.support.workload import Workload, check, read_back

DELAY_MS = 40


@pytest.fixture
def namespace_cluster(tmp_path: Path) -> Iterator[NamespaceCluster]:
    with Lab(1, 2, 3) as lab, NamespaceCluster(tmp_path, lab, **REPLICATED) as cluster:
        lab.inside(CLIENT, lambda: _create(cluster))
        yield cluster


def _create(cluster: NamespaceCluster) -> None:
    cluster.wait_settled()  # a starved broker may have been fenced again
    with BlockingClient(cluster.bootstrap) as client:
        client.create_topics([NewTopic("load", partitions=1)])


def _check(cluster: NamespaceCluster, load: Workload) -> None:
    found = cluster.lab.inside(CLIENT, lambda: read_back(cluster.bootstrap, "load", 1))
    assert load.account.failed == []
    check(load.account, found)
    cluster.wait_settled()


def _loaded(cluster: NamespaceCluster) -> Workload:
    load = Workload(cluster.bootstrap, "load")
    cluster.lab.inside(CLIENT, load.start)
    return load


@pytest.mark.long_proof(share=3, among="histories of clusters")
@pytest.mark.parametrize("victim", ["leader", "controller"])
def test_broker_that_was_cut_off_lost_nothing_that_was_acknowledged(
    namespace_cluster: NamespaceCluster, victim: str
) -> None:
    """Checklist rows 4 and 94."""
    with _loaded(namespace_cluster) as load:
        who = (
            namespace_cluster.controller()
            if victim == "controller"
            else namespace_cluster.leader_of("load")
        )
        namespace_cluster.lab.cut(who)
        wait_until(
            lambda: namespace_cluster.partition("load", 0).get("leader") not in (who, -1, None),
            60,
            "another leader",
        )
        load.wait_acknowledged(200)
        namespace_cluster.lab.mend(who)
        namespace_cluster.wait_settled()
        load.wait_acknowledged(100)
    _check(namespace_cluster, load)


@pytest.mark.long_proof(share=3, among="histories of clusters")
def test_minority_alone_commits_nothing_and_follows_when_it_is_back(
    namespace_cluster: NamespaceCluster,
) -> None:
    """Checklist rows 4 and 94. A change asked of the minority is refused, and applied nowhere when
    it is back: where its block was appended, that is on a dead branch."""
    namespace_cluster.wait_settled()
    who = namespace_cluster.controller()
    left = [id_ for id_ in namespace_cluster.voters if id_ != who]
    namespace_cluster.lab.cut(who)
    before = namespace_cluster.raft_seen_from(who)["commit"]
    with pytest.raises(KafkaError, match=r"request_timed_out.*no controller"):  # its own word
        namespace_cluster.lab.inside(
            who, lambda: _create_at(namespace_cluster, "never", [who], timeout_ms=4_000)
        )
    assert namespace_cluster.raft_seen_from(who)["commit"] == before
    wait_until(
        lambda: any(
            namespace_cluster.view(id_).get("raft", {}).get("role") == "leader" for id_ in left
        ),
        60,
        "a leader of the majority",
    )
    namespace_cluster.lab.inside(CLIENT, lambda: _create_at(namespace_cluster, "another", left))
    namespace_cluster.lab.mend(who)

    views = namespace_cluster.wait_settled()

    assert all(view["raft"]["commit"] > before for view in views)
    assert len({view["image"]["digest"] for view in views}) == 1
    assert {each["topic"] for view in views for each in view["partitions"]} == {"load", "another"}


def _create_at(
    cluster: NamespaceCluster, topic: str, brokers: list[int], timeout_ms: int = 30_000
) -> None:
    some = ",".join(f"{cluster.lab.address(id_)}:{KAFKA_PORT}" for id_ in brokers)
    with BlockingClient(some, policy=Policy(request_timeout_ms=timeout_ms)) as client:
        client.create_topics([NewTopic(topic, partitions=1, replication_factor=1)])


@pytest.mark.long_proof(share=3, among="histories of clusters")
def test_leader_that_reaches_nobody_but_hears_everybody_is_replaced(
    namespace_cluster: NamespaceCluster,
) -> None:
    with _loaded(namespace_cluster) as load:
        who = namespace_cluster.leader_of("load")
        others = [id_ for id_ in namespace_cluster.voters if id_ != who]
        for other in others:
            namespace_cluster.lab.deafen(who, other)
        wait_until(
            lambda: any(
                each.get("leader") not in (who, -1, None)
                for id_ in others
                for each in namespace_cluster.view(id_).get("partitions", ())
                if each["topic"] == "load"
            ),
            60,
            "another leader",
        )
        load.wait_acknowledged(100)
        for other in others:
            namespace_cluster.lab.undeafen(who, other)
        namespace_cluster.wait_settled()
        load.wait_acknowledged(100)
    _check(namespace_cluster, load)


@pytest.mark.long_proof(share=3, among="histories of clusters")
def test_slow_network_only_slows(tmp_path: Path) -> None:
    with (
        Lab(1, 2, 3) as lab,
        NamespaceCluster(tmp_path, lab, **REPLICATED) as cluster,
    ):
        lab.inside(CLIENT, lambda: _create(cluster))
        with _loaded(cluster) as load:
            for id_ in cluster.voters:
                lab.delay(id_, DELAY_MS)
            load.wait_acknowledged(200)
            reached_s = lab.inside(CLIENT, lambda: _connect_s(lab.address(1)))
            assert reached_s >= DELAY_MS / 1_000
        _check(cluster, load)


def _connect_s(address: str) -> float:
    began_s = time.monotonic()
    with socket.create_connection((address, KAFKA_PORT), timeout=30):
        return time.monotonic() - began_s
