"""DeleteRecords with real brokers: what was answered is deleted on every live replica."""

from __future__ import annotations

import re
from pathlib import Path

from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.io_blocking import EARLIEST, BlockingClient, NewTopic
from tests.integration.cluster.records import produce
from tests.support.cluster import REPLICATED, Cluster

TOPIC = "cut"
TP = TopicPartition(TOPIC, 0)
START = re.compile(
    rf'^josefine_log_start_offset{{partition="0",topic="{TOPIC}"}} (\S+)$', re.MULTILINE
)


def start_at(cluster: Cluster, broker_id: int) -> float:
    found = START.search(cluster.broker(broker_id).get("/metrics")[1])
    assert found is not None
    return float(found.group(1))


def test_answered_deletion_is_on_every_live_replica(tmp_path: Path) -> None:
    with Cluster(tmp_path, **REPLICATED) as cluster, BlockingClient(cluster.bootstrap) as client:
        client.create_topics([NewTopic(TOPIC, partitions=1)])
        produce(client, TOPIC, 50)

        assert client.delete_records({TP: 30}) == {TP: 30}
        assert [start_at(cluster, each) for each in cluster.voters] == [30.0] * 3

        leader = cluster.leader_of(TOPIC)
        follower = next(each for each in cluster.voters if each != leader)
        cluster.kill(follower)
        assert client.delete_records({TP: 40}) == {TP: 40}
        assert [start_at(cluster, each) for each in cluster.alive] == [40.0] * 2

        cluster.kill(leader)
        cluster.restart(follower)
        cluster.leader_of(TOPIC, but=leader)
        assert client.list_offsets({TP: EARLIEST})[TP].offset == 40
