"""Produce by a mirror: offsets of the source, one session, nothing twice and no gap."""

from typing import Any
from uuid import UUID

import pytest

from josefine_broker.api.shared.topics import NewNames, new_topic
from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.ids import LeaderEpoch, ProducerEpoch, ProducerId
from josefine_broker.engine.metadata.changes import AlterTopicConfig
from josefine_broker.engine.partition.leader_epochs import LeaderEpochs
from josefine_broker.engine.partition.partition import Partition
from josefine_broker.engine.partition.producers import ProducerState
from josefine_broker.records.batch import (
    NO_LEADER_EPOCH,
    build_empty_batch,
    iter_batches,
    parse_header,
    stamp,
)
from josefine_broker.records.control import Marker, build_marker
from josefine_broker.wire.entities import write_txn_markers
from josefine_broker.wire.produce import (
    ProducePartition,
    ProducePartitionResponse,
    ProduceRequest,
    ProduceTopic,
)
from tests.unit.josefine_broker.api.world import World, batch_of

SOURCE, SESSION, ENDS = (f"josefine.mirror.{name}" for name in ("source", "session", "ends"))
ORDERS = ("mirrored", 0)
THEIRS = LeaderEpoch(40)


def mirror() -> World:
    """One broker with the topic `mirrored` of session `one`."""
    world = World()
    config: dict[str, Any] = {SOURCE: "other/id", SESSION: "one"}
    world.create("mirrored", **config)
    return world


def claim(world: World, session: str) -> None:
    topic_id = world.ctx.image.topics["mirrored"].topic_id
    world.propose(AlterTopicConfig(topic_id=topic_id, assign=((SESSION, session),)))


def cut_over(world: World, end: int) -> None:
    topic_id = world.ctx.image.topics["mirrored"].topic_id
    assign = ((ENDS, f"0:{end}"),)
    world.propose(AlterTopicConfig(topic_id=topic_id, assign=assign, remove=(SESSION,)))


def at(offset: int, *values: bytes, **fields: int) -> bytes:
    batch = bytearray(batch_of(*values, **fields))
    stamp(batch, 0, offset, THEIRS)
    return bytes(batch)


def append(
    world: World, *batches: bytes, session: str | None = "josefine-mirror:one", acks: int = -1
) -> ProducePartitionResponse:
    records = memoryview(bytearray(b"".join(batches)))
    topics = (ProduceTopic("mirrored", None, (ProducePartition(0, records),)),)
    answer = world.ask(0, ProduceRequest(session, acks, 1000, topics), version=11)
    found: ProducePartitionResponse = answer.topics[0].partitions[0]
    return found


def stored(world: World) -> list[bytes]:
    """The whole batches of the log, but for their leader epochs."""
    log = world.ctx.hosted.partitions[ORDERS].log
    found, offset = [], log.log_start_offset
    while offset < log.log_end_offset:
        data = memoryview(b"".join(log.read(offset, 1 << 20, end_offset=log.log_end_offset)))
        for pos, header in iter_batches(data):
            assert header.leader_epoch < THEIRS, "the source's epoch"
            batch = bytes(data[pos : pos + header.size_bytes])
            found.append(batch[:12] + batch[16:])
            offset = header.end_offset
    return found


def plain(*batches: bytes) -> list[bytes]:
    return [batch[:12] + batch[16:] for batch in batches]


def test_batches_keep_offsets_producers_and_bytes() -> None:
    world = mirror()
    sent = (
        bytes(build_empty_batch(0, 100, THEIRS)),
        at(100, b"a", b"b", producer_id=9, producer_epoch=3, base_sequence=77),
        at(102, b"c", compression=4),
    )
    answer = append(world, *sent)
    assert (answer.error_code, answer.base_offset) == (0, 0)
    assert stored(world) == plain(*sent)
    assert append(world, at(103, b"d")).base_offset == 103


def test_repeated_append_is_answered_and_stored_once() -> None:
    world = mirror()
    first, second, third = at(0, b"a"), at(1, b"b"), at(2, b"c")
    append(world, first, second)
    assert append(world, first, second).error_code == 0
    assert append(world, second, third).error_code == 0
    assert stored(world) == plain(first, second, third)


@pytest.mark.parametrize(
    "other",
    [at(1, b"x"), at(3, b"x"), at(0, b"a", b"x"), at(0, b"x")],
    ids=["other bytes", "gap", "over the end", "other bytes before"],
)
def test_batch_of_another_history_is_refused(other: bytes) -> None:
    world = mirror()
    append(world, at(0, b"a"), at(1, b"b"))
    answer = append(world, other)
    assert answer.error_code == ErrorCode.invalid_record
    assert stored(world) == plain(at(0, b"a"), at(1, b"b"))


def test_damaged_batch_is_refused_and_nothing_before_it_stored() -> None:
    world = mirror()
    bad = bytearray(at(1, b"b"))
    bad[-1] ^= 1
    assert append(world, at(0, b"a"), bytes(bad)).error_code == ErrorCode.corrupt_message
    assert append(world, at(0, b"a"), at(1, b"b")[:-1]).error_code == ErrorCode.corrupt_message
    assert append(world, b"").error_code == ErrorCode.invalid_record
    assert stored(world) == []


@pytest.mark.parametrize("session", [None, "t", "josefine-mirror:", "josefine-mirror:two"])
def test_only_its_session_writes(session: str | None) -> None:
    world = mirror()
    answer = append(world, at(0, b"a"), session=session)
    assert answer.error_code == ErrorCode.policy_violation
    assert "mirror" in (answer.error_message or "")
    assert stored(world) == []


def test_older_session_is_refused_once_another_has_claimed_the_topic() -> None:
    world = mirror()
    append(world, at(0, b"a"))
    claim(world, "two")
    assert append(world, at(1, b"b")).error_code == ErrorCode.policy_violation
    assert append(world, at(1, b"b"), session="josefine-mirror:two").error_code == 0


def test_mirror_is_no_producer_after_its_cut_over() -> None:
    world = mirror()
    append(world, at(0, b"a"))
    cut_over(world, 1)
    assert append(world, at(1, b"b")).error_code == ErrorCode.policy_violation
    assert append(world, batch_of(b"b"), session=None).base_offset == 1


def test_aborted_transactions_are_those_of_the_source() -> None:
    world = mirror()
    fields = {"producer_id": 9, "producer_epoch": 3, "base_sequence": 0}
    transactional = at(0, b"a", transactional=True, **fields)
    marker = build_marker(
        ProducerId(9), ProducerEpoch(3), Marker(is_commit=False, coordinator_epoch=5), 1_000
    )
    stamp(marker, 0, 1, THEIRS)
    append(world, transactional)
    partition = world.ctx.hosted.partitions[ORDERS].partition
    assert (partition.high_watermark, partition.last_stable_offset) == (1, 0)
    append(world, bytes(marker), at(2, b"b"))
    assert (partition.high_watermark, partition.last_stable_offset) == (3, 3)
    assert len(partition.producers.transactions.aborted_between(0, 3)) == 1


def test_new_producer_is_not_taken_for_the_sources_after_the_cut_over() -> None:
    """Both clusters give out ids from 0: the batch would be acknowledged and lost."""
    world = mirror()
    same = {"producer_id": 0, "producer_epoch": 0, "base_sequence": 0}
    append(world, at(0, b"a", **same))
    cut_over(world, 1)
    batch = batch_of(b"b", **same)
    assert world.produce(batch, topic="mirrored").base_offset == 1
    assert world.produce(batch, topic="mirrored").base_offset == 1, "now it is a duplicate"
    again = world.restart()
    assert again.produce(batch, topic="mirrored").base_offset == 1
    follows = batch_of(b"c", **{**same, "base_sequence": 1})
    assert again.produce(follows, topic="mirrored").base_offset == 2
    assert parse_header(follows).producer_id == 0


def test_mirror_has_the_topic_id_of_its_source_unless_a_broker_is_away() -> None:
    world, theirs = World(brokers=2), UUID("6f1b7a0e-8f0e-4a53-9d43-0d7a9c0e7e11")
    source = {SOURCE: f"other/{theirs}", SESSION: "one"}
    names, limit = NewNames(world.ctx.image), world.ctx.partition_limit()
    assert new_topic(world.ctx, "a", names, limit, config=source.items()).topic_id == theirs
    for text in ("other/orders", "other/00000000-0000-0000-0000-000000000001", "nothing"):
        named = {**source, SOURCE: text}
        made = new_topic(world.ctx, f"t{len(text)}", names, limit, config=named.items())
        assert made.topic_id.version == 4
    world.fence(2)
    with pytest.raises(KafkaError, match="broker 2 is away"):
        new_topic(world.ctx, "b", names, limit, config=source.items())


def test_replay_after_the_cut_over_forgets_the_sources_producers_again() -> None:
    """A follower that truncates its log rebuilds the producers from it."""
    producers = ProducerState()
    same = {"producer_id": 0, "producer_epoch": 0, "base_sequence": 0}
    theirs = at(0, b"a", transactional=True, **same)
    ended = Marker(is_commit=False, coordinator_epoch=5)
    aborts = build_marker(ProducerId(0), ProducerEpoch(0), ended, 1_000)
    stamp(aborts, 0, 1, THEIRS)
    ours = at(2, b"b", **same)
    producers.forget_mirrored(2)
    for batch in (theirs, bytes(aborts)):
        producers.take(parse_header(batch), batch, 0)
    assert producers.check(parse_header(ours)) is None
    assert len(producers) == 0
    assert [each.first_offset for each in producers.transactions.aborted] == [0]
    producers.take(parse_header(ours), ours, 0)
    assert producers.check(parse_header(ours)) is not None, "a duplicate of ours"
    again = ProducerState()
    again.forget_mirrored(2)
    again.restore(producers.snapshot())
    assert again.check(parse_header(ours)) is not None


@pytest.mark.parametrize("epoch", [None, 1])
def test_what_clients_write_below_the_end_after_an_unclean_election_is_remembered(
    epoch: int | None,
) -> None:
    """The log lost what was mirrored from offset 1 on; the cut-over was in leader epoch 1. Without
    its number (an older mirror) a retry is stored twice, and nothing is ever lost."""
    producers, epochs = ProducerState(), LeaderEpochs()
    same = {"producer_id": 0, "producer_epoch": 0, "base_sequence": 0}
    theirs, ours = (bytes(at(offset, b"a", **same)) for offset in (0, 1))
    epochs.assign(LeaderEpoch(1), 0)
    cut = (5, NO_LEADER_EPOCH if epoch is None else LeaderEpoch(epoch), epochs)
    producers.forget_mirrored(*cut)
    producers.take(parse_header(theirs), theirs, 0)
    epochs.assign(LeaderEpoch(2), 1)
    assert producers.check(parse_header(ours)) is None, "not taken for the one of the source"
    producers.take(parse_header(ours), ours, 0)
    is_duplicate = producers.check(parse_header(ours)) is not None
    again = ProducerState()
    again.restore(producers.snapshot())
    again.forget_mirrored(*cut)
    assert is_duplicate is (again.check(parse_header(ours)) is not None) is (epoch is not None)


def test_followers_first_batch_of_a_later_epoch_is_remembered() -> None:
    producers, epochs = ProducerState(), LeaderEpochs([(LeaderEpoch(1), 0)])
    partition = Partition(producers, epochs)
    producers.forget_mirrored(5, LeaderEpoch(1), epochs)
    batch = bytearray(batch_of(b"b", producer_id=0, producer_epoch=0, base_sequence=0))
    stamp(batch, 0, 1, LeaderEpoch(2))
    header = parse_header(batch)
    assert header.leader_epoch == 2
    partition.copied(header, batch, 0)
    assert producers.check(header) is not None


def test_marker_of_a_local_transaction_takes_no_offset_of_the_source() -> None:
    """The topic became a mirror after it was added to the transaction."""
    world = mirror()
    topic = write_txn_markers.WritableTxnMarkerTopic(name="mirrored", partition_indexes=(0,))
    marker = write_txn_markers.WritableTxnMarker(
        producer_id=7, producer_epoch=0, transaction_result=True, topics=(topic,),
        coordinator_epoch=0, transaction_version=0,
    )  # fmt: skip
    answer = world.ask(27, write_txn_markers.WriteTxnMarkersRequest(markers=(marker,)))
    (result,) = answer.markers[0].topics[0].partitions
    assert result.error_code is ErrorCode.none
    assert world.ctx.hosted.partitions[ORDERS].log.log_end_offset == 0
