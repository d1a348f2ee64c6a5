"""What read_committed sees of a partition: up to the last stable offset, told what was aborted, on
the leader and on followers, behind restarts and deletions (KIP-98)."""

import pytest

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.context import Context
from josefine_broker.engine.partition.partition import ACKS_ALL
from josefine_broker.engine.purgatory.purgatory import Parked
from josefine_broker.engine.replicas.batches import append_built_batch, append_marker
from josefine_broker.records.builder import Record, build_batch
from josefine_broker.records.control import Marker
from josefine_broker.wire import entities as e
from josefine_broker.wire.fetch import AbortedTransaction, FetchPartitionResponse
from tests.unit.josefine_broker.api.replicas import Replicas
from tests.unit.josefine_broker.api.world import NOW_MS, World

TP = ("orders", 0)
LIST_OFFSETS = 2


class Producers:
    """Writes transactions where the test says, past the Produce API."""

    def __init__(self) -> None:
        self.sequences: dict[int, int] = {}

    def write(self, ctx: Context, producer_id: int, value: bytes) -> int:
        sequence = self.sequences.get(producer_id, 0)
        self.sequences[producer_id] = sequence + 1
        batch = build_batch(
            [Record(b"k", value)],
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=sequence,
            transactional=True,
        )
        hosted = ctx.hosted.partitions[TP]
        offset, _ = append_built_batch(
            ctx, TP, hosted, memoryview(batch), ACKS_ALL, NOW_MS, in_transaction=True
        )
        return offset

    def end(self, ctx: Context, producer_id: int, *, is_commit: bool, coordinator: int = 0) -> int:
        hosted = ctx.hosted.partitions[TP]
        marker = Marker(is_commit, coordinator)
        return append_marker(ctx, TP, hosted, (producer_id, 0), marker, NOW_MS)


@pytest.fixture
def producers() -> Producers:
    return Producers()


def stable(world: World) -> int:
    return int(world.fetch(0, isolation=1).last_stable_offset)


def latest(world: World, isolation: int) -> int:
    part = e.list_offsets.ListOffsetsPartition(partition_index=0, timestamp=-1)
    topic = e.list_offsets.ListOffsetsTopic(name="orders", partitions=(part,))
    request = e.list_offsets.ListOffsetsRequest(
        replica_id=-1, isolation_level=isolation, topics=(topic,)
    )
    return int(world.ask(LIST_OFFSETS, request).topics[0].partitions[0].offset)


def size_of(answer: FetchPartitionResponse) -> int:
    return sum(len(each) for each in answer.records or ())


def test_read_committed_ends_where_the_first_open_transaction_begins(
    world: World, producers: Producers
) -> None:
    producers.write(world.ctx, 1, b"a")
    producers.end(world.ctx, 1, is_commit=True)
    producers.write(world.ctx, 2, b"b")
    producers.write(world.ctx, 1, b"c")

    committed, uncommitted = world.fetch(0, isolation=1), world.fetch(0)

    assert committed.last_stable_offset == uncommitted.last_stable_offset == 2
    assert size_of(committed) < size_of(uncommitted)
    assert (latest(world, 1), latest(world, 0)) == (2, 4)
    assert size_of(world.fetch(2, isolation=1)) == 0
    producers.end(world.ctx, 1, is_commit=True)
    assert stable(world) == 2
    producers.end(world.ctx, 2, is_commit=True)
    assert stable(world) == latest(world, 1) == 6


def test_reader_is_told_of_the_aborted_transactions_of_what_it_got(
    world: World, producers: Producers
) -> None:
    for producer_id in (1, 2):
        producers.write(world.ctx, producer_id, b"x")
        producers.end(world.ctx, producer_id, is_commit=False)

    assert world.fetch(0, isolation=1).aborted_transactions == (
        AbortedTransaction(1, 0),
        AbortedTransaction(2, 2),
    )
    assert world.fetch(2, isolation=1).aborted_transactions == (AbortedTransaction(2, 2),)
    first = world.fetch(0, isolation=1, partition_max_bytes=1)
    assert first.aborted_transactions == (AbortedTransaction(1, 0),)
    assert world.fetch(0).aborted_transactions is None


def test_transactions_are_found_again_at_a_restart(world: World, producers: Producers) -> None:
    producers.write(world.ctx, 1, b"a")
    producers.end(world.ctx, 1, is_commit=False)
    producers.write(world.ctx, 2, b"b")
    for is_clean in (True, False):
        world = world.restart(clean=is_clean)

        answer = world.fetch(0, isolation=1)

        assert answer.last_stable_offset == 2
        assert answer.aborted_transactions == (AbortedTransaction(1, 0),)
    producers.end(world.ctx, 2, is_commit=True)
    assert stable(world) == 4


def test_reader_that_waits_is_not_woken_by_what_it_may_not_see(
    world: World, producers: Producers
) -> None:
    producers.write(world.ctx, 1, b"a")
    waiting = world.fetch(0, isolation=1, max_wait_ms=1_000, min_bytes=100)
    assert isinstance(waiting, Parked)

    producers.write(world.ctx, 1, b"b")
    producers.write(world.ctx, 2, b"c")
    assert not waiting.done

    producers.end(world.ctx, 1, is_commit=True)
    assert waiting.done, "the first transaction is over: what it wrote can be read"


def test_transaction_before_the_log_start_hides_nothing_before_it(
    world: World, producers: Producers
) -> None:
    producers.write(world.ctx, 1, b"a")
    producers.write(world.ctx, 2, b"b")
    producers.end(world.ctx, 2, is_commit=False)
    hosted = world.ctx.hosted.partitions[TP]
    hosted.log.delete_before(2)
    hosted.partition.started_at(2)

    answer = world.fetch(2, isolation=1)

    assert (answer.last_stable_offset, size_of(answer)) == (2, 0)
    assert latest(world, 1) == 2
    producers.end(world.ctx, 1, is_commit=True)
    answer = world.fetch(2, isolation=1)
    assert answer.aborted_transactions == (AbortedTransaction(2, 1),)


def test_marker_is_refused_by_a_log_that_cannot_be_written(
    world: World, producers: Producers
) -> None:
    producers.write(world.ctx, 1, b"a")
    world.ctx.storage.is_full = True

    with pytest.raises(KafkaError) as raised:
        producers.end(world.ctx, 1, is_commit=True)

    assert raised.value.code is ErrorCode.kafka_storage_error
    assert stable(world) == 0


def follow_watermark(cluster: Replicas) -> None:
    """Until followers have the leader's, which they hear with an answer of its own."""
    cluster.run()
    cluster.advance(cluster.settings.replica_fetch.wait_ms)
    cluster.run()


def test_marker_counts_when_it_is_on_every_replica_and_followers_say_the_same(
    producers: Producers,
) -> None:
    """A consumer may read at either of them (KIP-392)."""
    cluster = Replicas()
    cluster.create()
    leader = cluster.ctx[cluster.entry().leader]
    producers.write(leader, 1, b"a")
    cluster.run()
    producers.end(leader, 1, is_commit=False)
    assert leader.hosted.partitions[TP].partition.last_stable_offset == 0

    follow_watermark(cluster)

    for broker_id, ctx in cluster.ctx.items():
        partition = ctx.hosted.partitions[TP].partition
        assert partition.last_stable_offset == 2
        answer = cluster.fetch(broker_id, isolation=1)
        assert answer.aborted_transactions == (AbortedTransaction(1, 0),)


def test_follower_that_is_cut_below_a_marker_has_the_transaction_open_again(
    producers: Producers,
) -> None:
    cluster = Replicas()
    cluster.create()
    old = cluster.entry().leader
    producers.write(cluster.ctx[old], 1, b"a")
    cluster.run()
    producers.end(cluster.ctx[old], 1, is_commit=True)  # nobody else has it
    cluster.kill(old)
    new = cluster.ctx[cluster.entry().leader]
    assert new.hosted.partitions[TP].partition.producers.transactions.open_of(1) is not None

    cluster.start(old)
    cluster.run()
    assert cluster.ctx[old].hosted.partitions[TP].partition.last_stable_offset == 0
    producers.end(new, 1, is_commit=True, coordinator=1)
    follow_watermark(cluster)

    for ctx in cluster.ctx.values():
        assert ctx.hosted.partitions[TP].partition.last_stable_offset == 2
