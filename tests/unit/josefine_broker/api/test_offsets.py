"""ListOffsets, DeleteRecords, OffsetForLeaderEpoch."""

from collections.abc import Callable
from typing import Any

import pytest

from josefine_broker.api.list_offsets import LOOKUP_TIMEOUT_MS
from josefine_broker.base.errors import ErrorCode
from josefine_broker.engine.context import Context
from josefine_broker.host.log.lookup import LOOKUP_BYTES_MAX
from josefine_broker.records.builder import Record, build_batch
from josefine_broker.wire.entities import delete_records, list_offsets, offset_for_leader_epoch
from tests.unit.josefine_broker.api.replicas import Replicas
from tests.unit.josefine_broker.api.world import World, batch_of, values_in


def listed(world: World, timestamp: int, *, version: int = 11, **fields: Any) -> Any:
    e = list_offsets
    partition = e.ListOffsetsPartition(
        partition_index=fields.pop("partition", 0),
        timestamp=timestamp,
        current_leader_epoch=fields.pop("leader_epoch", -1),
    )
    topic = e.ListOffsetsTopic(name=fields.pop("topic", "orders"), partitions=(partition,))
    request = e.ListOffsetsRequest(replica_id=-1, topics=(topic,), **fields)
    return world.ask(2, request, version=version).topics[0].partitions[0]


def delete_before(world: World, offset: int, *, topic: str = "orders") -> Any:
    e = delete_records
    partition = e.DeleteRecordsPartition(partition_index=0, offset=offset)
    request = e.DeleteRecordsRequest(
        topics=(e.DeleteRecordsTopic(name=topic, partitions=(partition,)),), timeout_ms=1000
    )
    return world.ask(21, request).topics[0].partitions[0]


def epoch_end(world: World, leader_epoch: int, current: int = -1) -> Any:
    e = offset_for_leader_epoch
    partition = e.OffsetForLeaderPartition(
        partition=0, current_leader_epoch=current, leader_epoch=leader_epoch
    )
    topic = e.OffsetForLeaderTopic(topic="orders", partitions=(partition,))
    response = world.ask(23, e.OffsetForLeaderEpochRequest(topics=(topic,)))
    return response.topics[0].partitions[0]


@pytest.fixture
def timed_world() -> World:
    """Offsets 0 to 5 at 100, 300, 200, 400, 250, 400 ms, three to a batch."""
    world = World()
    world.create()
    for times in ((100, 300, 200), (400, 250, 400)):
        records = [Record(b"k", b"%d" % time, (), time) for time in times]
        world.produce(bytes(build_batch(records, compression=2)))
    return world


def test_earliest_and_latest_are_the_ends_of_the_log(timed_world: World) -> None:
    """Checklist row 22."""
    for version in (1, 11):
        assert listed(timed_world, -2, version=version).offset == 0
        latest = listed(timed_world, -1, version=version)
        assert (latest.offset, latest.timestamp, latest.leader_epoch) == (6, -1, 0)
    assert listed(timed_world, -1, isolation_level=1).offset == 6
    assert listed(timed_world, -4).offset == 0
    assert listed(timed_world, -5).offset == -1


@pytest.mark.parametrize(
    ("asked_ms", "offset", "found_ms"),
    [(0, 0, 100), (100, 0, 100), (101, 1, 300), (300, 1, 300), (301, 3, 400), (401, -1, -1)],
)
def test_timestamp_finds_the_first_record_not_older(
    timed_world: World, asked_ms: int, offset: int, found_ms: int
) -> None:
    """Checklist row 22."""
    found = listed(timed_world, asked_ms)

    assert (found.error_code, found.offset, found.timestamp) == (0, offset, found_ms)


def test_max_timestamp_is_a_record_with_the_newest_timestamp(timed_world: World) -> None:
    """KIP-734."""
    newest = listed(timed_world, -3)

    assert newest.timestamp == 400
    assert newest.offset in (3, 5)


def test_empty_partition_has_no_timestamps() -> None:
    world = World()
    world.create()

    assert (listed(world, -3).offset, listed(world, 0).offset) == (-1, -1)
    assert (listed(world, -2).offset, listed(world, -1).offset) == (0, 0)


@pytest.mark.parametrize(("timestamp", "version"), [(-3, 6), (-4, 7), (-5, 8), (-9, 11)])
def test_special_timestamp_needs_its_version(
    timed_world: World, timestamp: int, version: int
) -> None:
    assert (
        listed(timed_world, timestamp, version=version).error_code == ErrorCode.unsupported_version
    )


def test_unknown_partition_and_epoch_have_their_errors(timed_world: World) -> None:
    assert listed(timed_world, -1, partition=5).error_code == ErrorCode.unknown_topic_or_partition
    assert listed(timed_world, -1, topic="no").error_code == ErrorCode.unknown_topic_or_partition
    assert listed(timed_world, -1, leader_epoch=7).error_code == ErrorCode.unknown_leader_epoch


@pytest.mark.parametrize("fields", [{"topic": "no"}, {"partition": 5}, {"leader_epoch": 7}])
def test_special_timestamp_is_checked_before_the_partition(
    timed_world: World, fields: dict[str, Any]
) -> None:
    """As in Kafka's ReplicaManager.fetchOffset."""
    assert listed(timed_world, -9, **fields).error_code == ErrorCode.unsupported_version


def test_partition_that_is_named_twice_is_refused_once_and_the_others_are_answered() -> None:
    world = World()
    world.create(partitions=2)
    e = list_offsets
    parts = [e.ListOffsetsPartition(partition_index=at, timestamp=-1) for at in (0, 1, 0)]
    again = e.ListOffsetsPartition(partition_index=0, timestamp=-9)
    topics = (
        e.ListOffsetsTopic(name="orders", partitions=tuple(parts)),
        e.ListOffsetsTopic(name="orders", partitions=(again,)),
    )

    answer = world.ask(2, e.ListOffsetsRequest(replica_id=-1, topics=topics), version=11)

    found = [
        (each.partition_index, each.error_code) for t in answer.topics for each in t.partitions
    ]
    assert found == [(0, ErrorCode.invalid_request), (1, ErrorCode.none)]


def test_deleted_records_are_out_of_range() -> None:
    """Checklist row 38."""
    world = World()
    world.create()
    for value in (b"a", b"b", b"c"):
        world.produce(batch_of(value))

    result = delete_before(world, 2)

    assert (result.error_code, result.low_watermark) == (ErrorCode.none, 2)
    assert world.fetch(1).error_code == ErrorCode.offset_out_of_range
    assert values_in(world.fetch(2)) == [b"c"]
    assert listed(world, -2).offset == 2
    assert listed(world.restart(), -2).offset == 2


def test_minus_one_deletes_up_to_the_high_watermark_and_offsets_go_on() -> None:
    """Checklist row 33."""
    world = World()
    world.create()
    world.produce(batch_of(b"a", b"b"))

    assert delete_before(world, -1).low_watermark == 2

    assert world.restart().produce().base_offset == 2


@pytest.mark.parametrize("offset", [7, -2])
def test_deleting_outside_the_log_is_out_of_range(timed_world: World, offset: int) -> None:
    result = delete_before(timed_world, offset)

    assert (result.error_code, result.low_watermark) == (ErrorCode.offset_out_of_range, -1)


def test_last_offset_counts_of_a_partition_that_is_named_twice(timed_world: World) -> None:
    """As in KafkaApis.handleDeleteRecordsRequest, also where the topic is named twice."""
    e = delete_records
    topics = tuple(
        e.DeleteRecordsTopic(
            name="orders",
            partitions=tuple(
                e.DeleteRecordsPartition(partition_index=index, offset=offset)
                for index, offset in parts
            ),
        )
        for parts in (((0, 1_000), (0, 4), (7, 0)), ((0, 2),))
    )

    answer = timed_world.ask(21, e.DeleteRecordsRequest(topics=topics, timeout_ms=1000))

    (topic,) = answer.topics
    assert [(each.partition_index, each.error_code) for each in topic.partitions] == [
        (0, ErrorCode.none),
        (7, ErrorCode.unknown_topic_or_partition),
    ]
    assert topic.partitions[0].low_watermark == 2


def test_deleting_below_the_start_again_changes_nothing(timed_world: World) -> None:
    delete_before(timed_world, 4)

    assert delete_before(timed_world, 1).low_watermark == 4
    assert timed_world.ctx.hosted.partitions["orders", 0].partition.epochs.starts == ((0, 4),)


def test_record_past_the_high_watermark_is_not_found(timed_world: World) -> None:
    """Followers may still lose it."""
    timed_world.ctx.hosted.partitions["orders", 0].partition.high_watermark = 3

    assert listed(timed_world, 300).offset == 1
    assert listed(timed_world, 400).offset == -1
    assert listed(timed_world, -1).offset == 3


def test_compacted_topic_keeps_its_records() -> None:
    world = World()
    world.create(cleanup_policy="compact")

    assert delete_before(world, -1).error_code == ErrorCode.policy_violation


@pytest.mark.parametrize("policy", ["", "delete", "compact,delete"])
def test_topic_that_is_not_only_compacted_lets_records_be_deleted(policy: str) -> None:
    world = World()
    world.create(cleanup_policy=policy)

    assert delete_before(world, -1).error_code == ErrorCode.none


def test_leader_epoch_ends_at_the_high_watermark(timed_world: World) -> None:
    """KIP-320."""
    answer = epoch_end(timed_world, 0)

    assert (answer.leader_epoch, answer.end_offset) == (0, 6)
    assert (epoch_end(timed_world, 4).leader_epoch, epoch_end(timed_world, 4).end_offset) == (
        -1,
        -1,
    )
    assert epoch_end(timed_world, 0, current=3).error_code == ErrorCode.unknown_leader_epoch


class Later:
    """Work that is done when the test says so."""

    def __init__(self, ctx: Context) -> None:
        self.jobs: list[Callable[[], None]] = []
        ctx.ports.work = self

    def __call__(
        self,
        job: Callable[[Callable[[], None]], Any],
        is_wanted: Callable[[], bool],
        done: Callable[[Any], None],
    ) -> None:
        def run() -> None:
            done(job(lambda: None) if is_wanted() else None)

        self.jobs.append(run)

    def run(self) -> None:
        self.jobs.pop(0)()


def asked(world: World, timestamp: int) -> Any:
    part = list_offsets.ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    topic = list_offsets.ListOffsetsTopic(name="orders", partitions=(part,))
    return world.ask(2, list_offsets.ListOffsetsRequest(replica_id=-1, topics=(topic,)))


def answered(token: Any) -> tuple[int, int]:
    assert token.done
    part = token.response.topics[0].partitions[0]
    return part.error_code, part.offset


def test_records_are_looked_at_beside_the_loop(timed_world: World) -> None:
    """What needs no look at them is answered at once."""
    later = Later(timed_world.ctx)

    assert asked(timed_world, -1).topics[0].partitions[0].offset == 6
    assert asked(timed_world, 500).topics[0].partitions[0].offset == -1
    assert later.jobs == []
    waiting = [asked(timed_world, 260), asked(timed_world, -3)]
    assert len(later.jobs) == 2
    assert not any(each.done for each in waiting)
    later.run()
    later.run()

    assert [answered(each) for each in waiting] == [(0, 1), (0, 3)]
    assert len(timed_world.ctx.parked) == 0


def test_lookup_whose_client_is_gone_or_whose_time_is_over_is_not_done(timed_world: World) -> None:
    later = Later(timed_world.ctx)
    gone, late = asked(timed_world, 260), asked(timed_world, 260)

    timed_world.ctx.parked.forget(gone)
    timed_world.advance(LOOKUP_TIMEOUT_MS)
    assert answered(late) == (ErrorCode.request_timed_out, -1)
    later.run()
    later.run()

    assert not gone.done


def test_records_deleted_while_they_were_looked_for_are_not_found(timed_world: World) -> None:
    later = Later(timed_world.ctx)
    token = asked(timed_world, 260)
    delete_before(timed_world, 3)

    later.run()
    assert not token.done, "looked for once more"
    later.run()

    assert answered(token) == (0, 3)


def test_replica_that_no_longer_leads_does_not_answer_a_lookup() -> None:
    world = World(brokers=2)
    world.create(partitions=1)
    world.produce(batch_of(b"a", timestamp_ms=5))
    later = Later(world.ctx)
    token = asked(world, 1)
    world.delete("orders")
    world.create()

    later.run()

    assert answered(token) == (ErrorCode.not_leader_or_follower, -1)


def test_batch_that_expands_too_far_is_refused_for_good(timed_world: World) -> None:
    value = bytes(LOOKUP_BYTES_MAX)
    records = [Record(None, value, (), 500), Record(None, b"", (), 600)]
    timed_world.produce(bytes(build_batch(records, compression=1)))

    found = listed(timed_world, 550)

    assert found.error_code == ErrorCode.message_too_large
    assert listed(timed_world, 260).offset == 1


def asked_at(cluster: Replicas, timestamp: int) -> Any:
    e = list_offsets
    partition = e.ListOffsetsPartition(
        partition_index=0, timestamp=timestamp, current_leader_epoch=-1
    )
    topic = e.ListOffsetsTopic(name="orders", partitions=(partition,))
    request = e.ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=(topic,))
    return cluster.ask(1, 2, request, 9)


def listed_at(cluster: Replicas, timestamp: int) -> Any:
    return asked_at(cluster, timestamp).topics[0].partitions[0]


@pytest.mark.parametrize("leader", [1, 2])
def test_leadership_that_moved_during_a_lookup_is_told(leader: int) -> None:
    """What was found was committed in the epoch before; a client that knows of the new one asks
    who leads in it."""
    cluster = Replicas(2)
    cluster.create(replicas=((1, 2),))
    cluster.run()
    cluster.produce(1, b"a")
    cluster.run()
    later = Later(cluster.ctx[1])
    token = asked_at(cluster, 1)
    cluster.lead(leader)

    later.run()

    code = ErrorCode.not_leader_or_follower if leader == 2 else ErrorCode.fenced_leader_epoch
    assert answered(token) == (code, -1)


def test_record_that_is_not_committed_is_not_the_one_with_the_largest_timestamp() -> None:
    """It may go with its leader, and another get its offset."""
    cluster = Replicas(2)
    cluster.create(replicas=((1, 2),))
    cluster.run()
    cluster.produce(1, b"a", acks=1)

    assert listed_at(cluster, -3).offset == -1
    cluster.run()
    assert listed_at(cluster, -3).offset == 0


def test_earliest_offset_comes_with_the_epoch_that_wrote_it() -> None:
    """KIP-320: a reader that names the latest one instead would never notice a truncation."""
    cluster = Replicas(2)
    cluster.create(replicas=((1, 2),))
    cluster.run()
    cluster.produce(1, b"a")
    cluster.run()

    cluster.lead(1)
    cluster.run()

    assert [
        (listed_at(cluster, t).offset, listed_at(cluster, t).leader_epoch) for t in (-2, -1)
    ] == [
        (0, 0),
        (1, 1),
    ]


def test_latest_epoch_ends_at_the_log_end_committed_or_not() -> None:
    """KIP-320: the watermark of a new leader may be behind what a client has read of the old one;
    told that, it would take its position for truncated."""
    e = offset_for_leader_epoch
    cluster = Replicas(2)
    cluster.create(replicas=((1, 2),))
    cluster.run()
    cluster.produce(1, b"a", acks=1)
    partition = e.OffsetForLeaderPartition(partition=0, current_leader_epoch=0, leader_epoch=0)
    topic = e.OffsetForLeaderTopic(topic="orders", partitions=(partition,))

    answer = cluster.ask(1, 23, e.OffsetForLeaderEpochRequest(topics=(topic,)))

    assert cluster.high_watermark(1) == 0
    assert answer.topics[0].partitions[0].end_offset == 1
