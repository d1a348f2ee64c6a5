"""What a reader with `isolation.level=read_committed` is given of a topic, by the client alone."""

from __future__ import annotations

from typing import NamedTuple

from josefine_arrow.batches.aborted_transactions import AbortedTransaction, aborted_batches
from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.io_blocking import BlockingClient
from josefine_broker.records.batch import iter_batches
from josefine_broker.records.reader import read_records


class Seen(NamedTuple):
    """A record's key and value."""

    key: bytes | None
    value: bytes | None


def committed_records(client: BlockingClient, topic: str) -> list[Seen]:
    """Of all partitions, each in its order, up to the first open transaction."""
    found: list[Seen] = []
    for index in range(client.partition_count(topic)):
        tp, offset = TopicPartition(topic, index), 0
        while True:
            part = client.fetch({tp: offset}, isolation_level=1, max_wait_ms=0)[tp]
            batches = [(pos, h) for pos, h in iter_batches(part.records)]
            if not batches:
                break
            facts = [
                (h.base_offset, h.attributes, h.producer_id, pos, h.size_bytes)
                for pos, h in batches
            ]
            aborted = [AbortedTransaction(a.producer_id, a.first_offset) for a in part.aborted]
            skipped = aborted_batches(facts, part.records, aborted)
            for (pos, header), skip in zip(batches, skipped, strict=True):
                offset = header.end_offset
                if not skip:
                    found += [Seen(r.key, r.value) for r in read_records(part.records[pos:])]
    return found
