"""`topic_defaults.unclean_leader_election_enable` with real brokers: a partition goes on without
the records that only its lost leader had."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from josefine_broker.client.io_blocking import BlockingClient, NewTopic
from tests.integration.cluster.records import produce, read_all
from tests.support.cluster import Cluster
from tests.support.waiting import wait_until

TOPIC = "goes-on"


def test_partition_without_a_replica_in_sync_goes_on_where_the_default_allows_it(
    tmp_path: Path,
) -> None:
    settings: dict[str, Any] = {"topic_defaults__unclean_leader_election_enable": True}
    with Cluster(tmp_path, **settings) as cluster, BlockingClient(cluster.bootstrap) as client:
        client.create_topics([NewTopic(TOPIC, partitions=1, replication_factor=2)])
        kept = produce(client, TOPIC, 10)
        leader = cluster.leader_of(TOPIC)
        (follower,) = (id_ for id_ in cluster.partition(TOPIC, 0)["replicas"] if id_ != leader)
        cluster.kill(follower)
        wait_until(lambda: cluster.partition(TOPIC, 0).get("isr") == [leader], 60, "the ISR alone")
        produce(client, TOPIC, 5, first=10)

        cluster.kill(leader)
        cluster.restart(follower)

        assert cluster.leader_of(TOPIC, but=leader) == follower
        assert read_all(client, TOPIC) == kept
