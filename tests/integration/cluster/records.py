"""Numbered records through our own client, for tests that compare what was acknowledged."""

from __future__ import annotations

from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.fetch import Positions
from josefine_broker.client.io_blocking import LATEST, BlockingClient, BlockingProducer
from josefine_broker.records.batch import iter_batches
from josefine_broker.records.reader import read_records

ACKS_ALL = -1


def produce(
    client: BlockingClient, topic: str, count: int, *, acks: int = ACKS_ALL, first: int = 0
) -> list[str]:
    """`count` records, their values numbered from `first`; returns when all are acknowledged."""
    values = [f"{number:06d}" for number in range(first, first + count)]
    producer = BlockingProducer(client, acks=acks, batch_bytes_max=1_000)
    for value in values:
        producer.send(topic, key=value.encode(), value=value.encode())
    producer.flush()
    return values


def read_all(client: BlockingClient, topic: str) -> list[str]:
    """Every value of a topic below the high watermarks, sorted."""
    tps = [TopicPartition(topic, index) for index in range(client.partition_count(topic))]
    ends = client.list_offsets(dict.fromkeys(tps, LATEST))
    positions = Positions()
    for tp in tps:
        positions.assign(tp, 0, ends[tp].offset)
    values: list[str] = []
    while not positions.finished:
        for tp, part in client.fetch(positions.wanted()).items():
            at = positions.position(tp) or 0
            for place, header in iter_batches(part.records):
                batch = part.records[place : place + header.size_bytes]
                records = read_records(batch)
                values += [(each.value or b"").decode() for each in records if each.offset >= at]
            positions.advance(tp, part.records)
    return sorted(values)
