"""A follower's fetch that makes the leader append brings what was appended, at once."""

from __future__ import annotations

from typing import Any

from josefine_broker.engine.purgatory.purgatory import Parked, PartitionKey
from josefine_broker.wire.fetch import FetchResponse
from tests.unit.josefine_broker.api.replicas import FETCH, FETCH_VERSION, Replicas
from tests.unit.josefine_broker.api.world import fetch_request

ORDERS = ("orders", 0)


class AppendsBehind(Parked):
    """As a coordinator does once its record is committed: it goes on with the next."""

    def __init__(self, replicas: Replicas) -> None:
        super().__init__(1 << 40)
        self.replicas = replicas

    def try_complete(self, partition: PartitionKey | None, now_ms: int) -> bool:
        if self.replicas.high_watermark(1) < 1:
            return False
        self.replicas.produce(1, b"behind", acks=1)
        self.complete(None)
        return True


def fetch_by(replicas: Replicas, follower: int, offset: int) -> Any:
    request = fetch_request(offset, replica_id=follower, max_wait_ms=500)
    epoch = replicas.image.brokers[follower].epoch
    return replicas.ask(1, FETCH, request._replace(replica_epoch=epoch), FETCH_VERSION)


def test_fetch_that_confirms_a_record_brings_what_is_appended_because_of_that() -> None:
    """It waited for the whole of its time: what it had confirmed was written while it was read."""
    replicas = Replicas()
    replicas.create("orders")
    replicas.produce(1, b"first", acks=1)
    replicas.ctx[1].parked.park(AppendsBehind(replicas), partitions=[ORDERS])

    assert isinstance(fetch_by(replicas, 3, 1), Parked)
    answer = fetch_by(replicas, 2, 1)

    assert isinstance(answer, FetchResponse)
    records = answer.topics[0].partitions[0].records
    assert records
    assert replicas.log_end(1) == 2


def test_fetch_that_confirms_a_record_waits_when_nothing_follows() -> None:
    replicas = Replicas()
    replicas.create("orders")
    replicas.produce(1, b"first", acks=1)
    fetch_by(replicas, 3, 1)

    assert isinstance(fetch_by(replicas, 2, 1), Parked)
    assert replicas.high_watermark(1) == 1
