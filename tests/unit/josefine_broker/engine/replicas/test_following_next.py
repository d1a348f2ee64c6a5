"""The round of a follower that acks=all waits for: the next request is sent after the append that
it acknowledges, and before the rest of the work. `test_caught_up.py` compares it with the general
path step by step."""

from __future__ import annotations

import pytest

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.partition.replica_fetch import CopyState, FetchLimits, ReplicaFetcher
from josefine_broker.engine.replicas.following import hear
from josefine_broker.engine.replicas.following_next import NextBatches, next_batches
from josefine_broker.host.log.log import PartitionLog
from josefine_broker.records.batch import HEADER_BYTES
from josefine_broker.wire.codec import decode_response
from josefine_broker.wire.fetch import FetchRequest, FetchResponse
from josefine_broker.wire.replica_frames import encode_replica_response
from tests.unit.josefine_broker.api.replicas import Replicas

VERSION = 18


class Follower:
    """Broker 2, which has everything but one batch, and the leader's answer with that."""

    def __init__(self, **config: str) -> None:
        self.cluster = Replicas(2)
        self.cluster.create(replicas=((1, 2),), **config)
        self.cluster.run()
        self.cluster.produce(1, b"first", acks=1)
        self.cluster.run()
        self.ctx = self.cluster.ctx[2]
        self.fetcher: ReplicaFetcher = self.ctx.hosted.fetchers.by_leader[1]
        (self.copy,) = self.fetcher
        (waiting,) = self.cluster.waiting
        self.number = waiting.number
        self.request: FetchRequest = waiting.answer._request
        self.cluster.produce(1, b"second", acks=1)
        self.response: FetchResponse = waiting.answer.response

    @property
    def frame(self) -> memoryview:
        buffers = encode_replica_response(VERSION, self.number, self.response)
        assert buffers is not None
        return memoryview(bytearray(b"".join(buffers)))[4:]

    def rounds(self) -> NextBatches:
        found = next_batches(self.ctx, self.fetcher, self.number, self.request)
        assert found is not None
        return found

    def state(self) -> tuple[object, ...]:
        hosted = self.cluster.hosted(2)
        copy = self.copy
        place = copy.state, copy.fetch_offset, copy.request_number
        return *place, hosted.log.log_end_offset, hosted.partition.high_watermark


def test_the_next_request_acknowledges_a_batch_that_is_in_the_log() -> None:
    follower = Follower()
    log, rounds = follower.cluster.hosted(2).log, follower.rounds()

    number, _, offset = rounds.take(follower.number, follower.frame) or (0, 0, 0)

    assert number == follower.number + 1
    assert offset == log.log_end_offset == log.durable_end_offset == 2
    assert follower.copy.state is CopyState.ASKED
    assert follower.ctx.hosted.counters.replicated_batches == 1  # of the first batch
    rounds.finish()
    assert follower.ctx.hosted.counters.replicated_batches == 2
    assert follower.cluster.records(1) == follower.cluster.records(2)


def test_a_batch_that_cannot_be_written_is_not_acknowledged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    follower = Follower()
    rounds, before = follower.rounds(), follower.state()

    def refused(*_: object) -> int:
        raise KafkaError(ErrorCode.kafka_storage_error, "disk full")

    with monkeypatch.context() as patch:
        patch.setattr(PartitionLog, "append", refused)
        assert rounds.take(follower.number, follower.frame) is None
    assert follower.state() == before

    assert rounds.take(follower.number, follower.frame) is not None
    rounds.finish()
    assert follower.cluster.log_end(2) == 2


@pytest.mark.parametrize("at", [HEADER_BYTES - 1, 17, 0], ids=["records", "checksum", "offset"])
def test_a_damaged_batch_is_not_written(at: int) -> None:
    follower = Follower()
    rounds, before = follower.rounds(), follower.state()
    topic = follower.response.topics[0]
    batch = bytearray(b"".join(bytes(each) for each in topic.partitions[0].records or ()))
    batch[at] ^= 1
    part = topic.partitions[0]._replace(records=(batch,))
    topics = (topic._replace(partitions=(part,)),)
    follower.response = follower.response._replace(topics=topics)

    assert rounds.take(follower.number, follower.frame) is None
    assert follower.state() == before


def test_what_must_be_synced_first_is_left_to_the_general_path() -> None:
    follower = Follower(flush_messages="1")
    rounds, before = follower.rounds(), follower.state()

    assert rounds.take(follower.number, follower.frame) is None
    assert follower.state() == before


def test_an_answer_counts_only_while_nothing_else_has_changed() -> None:
    follower = Follower()
    rounds, frame = follower.rounds(), follower.frame

    assert rounds.take(follower.number + 1, frame) is None
    follower.fetcher.pause(follower.copy.key, follower.ctx.clock.monotonic_ms() + 5)
    assert rounds.take(follower.number, frame) is None

    follower = Follower()
    rounds = follower.rounds()
    follower.cluster.lead(1)  # another leader epoch: the answer is to a request of the last one
    assert rounds.take(follower.number, follower.frame) is None
    number, response = decode_response(1, VERSION, follower.frame)
    hear(follower.ctx, follower.fetcher, number, response)
    assert follower.cluster.log_end(2) == 1
    follower.cluster.advance(FetchLimits().backoff_ms)
    follower.cluster.run()
    assert follower.cluster.records(1) == follower.cluster.records(2)
