"""The hash of a topic's committed records from offset 0 on, as librdkafka has them.

`python -m tests.proofs.hashing.librdkafka BOOTSTRAP TOPIC PARTITIONS` reads up to the end that each
partition has, and prints the last offsets, too.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from confluent_kafka import Consumer, KafkaError, TopicPartition

from tests.proofs.hashing.record_hash import Sum


def read(bootstrap: str, topic: str, partitions: int) -> dict[str, Any]:
    """Raises AssertionError for an error of the client."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "hash",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, at, 0) for at in range(partitions)])
    found, last = Sum(), dict.fromkeys(range(partitions), -1)
    ended: set[int] = set()
    try:
        while len(ended) < partitions:
            messages: list[Any] = consumer.consume(10_000, 0.5)
            for message in messages:
                error = message.error()
                if error is not None and error.code() == KafkaError._PARTITION_EOF:
                    ended.add(message.partition())
                    continue
                assert error is None, error
                partition, offset = message.partition(), message.offset()
                found.disorder += offset <= last[partition]
                last[partition] = offset
                found.add(
                    partition, offset, message.timestamp()[1], message.key(), message.value(),
                    message.headers() or (),
                )  # fmt: skip
    finally:
        consumer.close()
    return {**found.to_json(), "last": last}


if __name__ == "__main__":
    print(json.dumps(read(sys.argv[1], sys.argv[2], int(sys.argv[3]))))
