"""More partitions than the process may open files: all are served, and all of it can be undone."""

from __future__ import annotations

import os
from pathlib import Path

from confluent_kafka import Producer

from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.io_blocking import BlockingClient, NewTopic
from josefine_broker.client.offsets import LATEST
from tests.integration.raw import api_versions_request, connect, read_response
from tests.support.broker import BrokerProcess

DESCRIPTORS, PARTITIONS = 160, 400


def test_more_partitions_than_descriptors_are_served_restarted_and_deleted(tmp_path: Path) -> None:
    """Once it was a lock-out that no restart ended: every connection was reset."""
    prefix = ("prlimit", f"--nofile={DESCRIPTORS}:{DESCRIPTORS}")
    with BrokerProcess(tmp_path, prefix=prefix) as broker:
        with BlockingClient(broker.bootstrap) as admin:
            admin.create_topics([NewTopic("big", PARTITIONS)])
        producer = Producer({"bootstrap.servers": broker.bootstrap, "acks": 1})
        for partition in range(PARTITIONS):
            producer.produce("big", b"record", partition=partition)
        assert not producer.flush(60)
        assert len(os.listdir(f"/proc/{broker.pid}/fd")) < DESCRIPTORS
        broker.kill()
        broker.start()

        with BlockingClient(broker.bootstrap) as admin:
            ends = admin.list_offsets({TopicPartition("big", n): LATEST for n in range(PARTITIONS)})
            assert {each.offset for each in ends.values()} == {1}
            assert len(ends) == PARTITIONS
            admin.delete_topics(["big"])
        strangers = [connect(broker.bootstrap) for _ in range(20)]
        for number, each in enumerate(strangers):
            each.sendall(api_versions_request(number))
            assert read_response(each)[0] == number
            each.close()
