"""From committed blocks to hosted partitions."""

from uuid import UUID

import pytest

from josefine_broker.base.errors import ErrorCode, Fatal, KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.engine.coordinators.loading_groups import forget_missing_topics
from josefine_broker.engine.coordinators.offsets_topic import coordinator_of, store_offsets
from josefine_broker.engine.groups.offsets import CommittedOffset
from josefine_broker.engine.metadata.change_codec import encode_change
from josefine_broker.engine.metadata.changes import (
    AlterTopicConfig,
    CreateTopic,
    Decision,
    DeleteTopic,
    Origin,
    PartitionState,
)
from josefine_broker.engine.metadata.image import OFFSETS_TOPIC
from josefine_broker.engine.metadata.log_completeness import Completeness
from josefine_broker.engine.metadata_quorum.apply_committed import (
    reconcile,
    retry_unopened,
    to_be_hosted,
)
from josefine_broker.engine.proposing import submit_change
from tests.simulation.memory_files import MemoryFiles
from tests.unit.josefine_broker.api.world import ELSEWHERE, TERM, World, batch_of, values_in

ORDERS = CreateTopic(name="orders", topic_id=UUID(int=1), replicas=((1,),))
AGAIN = CreateTopic(name="orders", topic_id=UUID(int=2), replicas=((1,),))
DELETED = DeleteTopic(topic_id=UUID(int=1))


def test_replayed_blocks_open_nothing_until_the_end() -> None:
    world = World()
    for change in (ORDERS, DELETED, AGAIN):
        world.apply(encode_change(change, ELSEWHERE), replaying=True)
    assert world.ctx.hosted.partitions == {}
    assert set(world.files.names) <= {"high-watermarks.checkpoint"}

    reconcile(world.ctx)

    assert list(world.ctx.hosted.partitions) == [("orders", 0)]
    assert world.ctx.hosted.partitions["orders", 0].topic_id == UUID(int=2)


def test_reconciling_the_same_image_again_changes_nothing() -> None:
    world = World()
    world.create()
    hosted = world.ctx.hosted.partitions["orders", 0]

    reconcile(world.ctx)

    assert world.ctx.hosted.partitions["orders", 0] is hosted


def test_topic_deleted_and_made_anew_in_one_step_is_another() -> None:
    world = World()
    world.raft.propose(encode_change(ORDERS, ELSEWHERE), 0)
    world.produce(batch_of(b"old"))
    for change in (DELETED, AGAIN):
        world.apply(encode_change(change, ELSEWHERE), replaying=True)

    reconcile(world.ctx)

    assert values_in(world.fetch(0)) == []
    assert world.produce(batch_of(b"new")).base_offset == 0


def test_payload_nobody_understands_is_fatal() -> None:
    world = World()
    before = world.ctx.image

    with pytest.raises(Fatal):
        world.apply(b'{"version":9}')

    assert world.ctx.image is before


def test_refused_change_leaves_image_and_partitions() -> None:
    world = World()
    world.create()
    before = world.ctx.image

    world.apply(encode_change(AGAIN, ELSEWHERE))

    assert world.ctx.image is before


def test_block_of_an_earlier_life_answers_nobody() -> None:
    world = World()
    world.raft.at_once = False
    proposal = submit_change(world.ctx, ORDERS, 1000)

    world.apply(encode_change(AGAIN, Origin(1, proposal.origin.number - 1)))
    assert not proposal.settled
    world.raft.deliver()

    assert proposal.error is not None
    assert proposal.error.code is ErrorCode.topic_already_exists


IDENTITY = "orders-0/partition.json"


def damaged() -> World:
    """One that cannot open the first partition of "orders"."""
    files = MemoryFiles()
    files.open(IDENTITY, create=True)
    return World(files=files)


def test_damaged_log_leaves_its_partition_unserved_until_a_restart_finds_it_mended() -> None:
    world = damaged()

    world.raft.propose(encode_change(ORDERS, ELSEWHERE), 0)
    assert world.produce().error_code == ErrorCode.kafka_storage_error
    assert world.fetch(0).error_code == ErrorCode.kafka_storage_error
    world.files.remove(IDENTITY)
    world.create("another")
    assert world.produce().error_code == ErrorCode.kafka_storage_error
    assert world.produce(topic="another").error_code == 0

    again = World(world.settings, files=world.files, history=world.raft.committed)

    assert again.produce().error_code == 0
    assert again.ctx.hosted.unopened == {}


def test_damaged_log_is_not_read_again_at_every_change() -> None:
    world = damaged()
    world.raft.propose(encode_change(ORDERS, ELSEWHERE), 0)
    opened: list[str] = []
    world.files.on_open = opened.append

    world.create("another")
    altered = AlterTopicConfig(topic_id=ORDERS.topic_id, assign=(("segment.ms", "70000"),))
    world.raft.propose(encode_change(altered, ELSEWHERE), 0)
    retry_unopened(world.ctx)

    assert [path for path in opened if path.startswith("orders-0")] == []


def test_log_that_the_disk_would_not_open_is_opened_without_a_change_of_the_image() -> None:
    world = World()
    world.create()
    world.produce()
    world.hosting.close(1)
    world.files.fails_to_open = "orders-0"
    again = World(world.settings, files=world.files, history=world.raft.committed)
    assert again.produce().error_code == ErrorCode.kafka_storage_error
    world.files.fails_to_open = ""
    again.ctx.storage.is_full = True
    retry_unopened(again.ctx)
    assert ("orders", 0) in again.ctx.hosted.unopened
    again.ctx.storage.is_full = False

    retry_unopened(again.ctx)

    assert again.produce().error_code == 0
    assert again.ctx.hosted.unopened == {}


def test_topic_can_be_made_on_a_full_disk_and_takes_records_when_there_is_room() -> None:
    world = World()
    world.files.space_bytes = 0

    world.raft.propose(encode_change(ORDERS, ELSEWHERE), 0)
    assert world.produce().error_code == ErrorCode.kafka_storage_error
    assert world.fetch(0).error_code == 0
    world.files.space_bytes = None

    assert world.produce().error_code == 0


def test_log_that_the_disk_does_not_let_go_ends_nothing() -> None:
    world = World()
    world.raft.propose(encode_change(ORDERS, ELSEWHERE), 0)
    world.create("another")
    world.produce()
    world.files.fails_to_rename = True

    world.raft.propose(encode_change(DELETED, ELSEWHERE), 0)

    assert world.produce().error_code == ErrorCode.unknown_topic_or_partition
    assert world.produce(topic="another").error_code == 0
    assert World(world.settings, files=world.files, history=world.raft.committed).produce(
        topic="another"
    )
    world.files.fails_to_rename = False
    again = World(world.settings, files=world.files, history=world.raft.committed)
    assert not [name for name in again.files.names if name.startswith("orders-0/")]


def test_unopened_partition_of_a_deleted_topic_is_forgotten() -> None:
    world = damaged()
    world.raft.propose(encode_change(ORDERS, ELSEWHERE), 0)

    world.raft.propose(encode_change(DELETED, ELSEWHERE), 0)

    assert world.ctx.hosted.unopened == {}
    assert world.produce().error_code == ErrorCode.unknown_topic_or_partition


def test_log_that_cannot_be_opened_leaves_only_its_partition_offline_at_start() -> None:
    world = damaged()
    world.apply(encode_change(ORDERS, ELSEWHERE), replaying=True)

    reconcile(world.ctx)

    assert world.produce().error_code == ErrorCode.kafka_storage_error


def test_election_alone_costs_the_disk_nothing() -> None:
    """1,000 partitions change their leader in one block."""
    world = World()
    world.create()
    world.produce()
    before = world.files.syncs

    elect_again(world)

    assert world.ctx.hosted.partitions["orders", 0].partition.epochs.starts == ((0, 0), (1, 1))
    assert world.files.syncs == before


@pytest.mark.parametrize("how", ["killed", "stopped", "rolled and killed"])
def test_leader_epochs_that_wrote_something_are_known_after_a_restart(how: str) -> None:
    world = World()
    world.create(segment_records="2")
    world.produce()
    elect_again(world)
    world.produce()
    if how == "rolled and killed":
        elect_again(world)
        world.produce()  # begins a segment: the first two batches are behind a snapshot
        assert "orders-0/leader-epochs.checkpoint" in world.files.names

    world = world.restart(clean=how == "stopped")

    starts = world.ctx.hosted.partitions["orders", 0].partition.epochs.starts
    assert starts[:2] == ((0, 0), (1, 1))
    assert len(starts) == (3 if how == "rolled and killed" else 2)


@pytest.mark.parametrize("clean", [True, False], ids=["stopped", "killed"])
@pytest.mark.parametrize("how", ["lost", "damaged"])
def test_leader_epochs_whose_checkpoint_is_not_right_are_read_from_the_batches(
    how: str, clean: bool
) -> None:
    """From all of them: those behind a producer snapshot are not all, and epochs that begin too
    late tell a follower that its log agrees where it does not."""
    world = World()
    world.create(segment_records="2")
    for _ in range(3):
        world.produce()
        elect_again(world)
    starts = world.ctx.hosted.partitions["orders", 0].partition.epochs.starts[:3]
    path = "orders-0/leader-epochs.checkpoint"
    if clean:
        world.hosting.close(1)
    if how == "lost":
        del world.files.names[path]
    else:
        world.files.names[path].data[-1] ^= 1

    world = world.restart()

    assert starts == ((0, 0), (1, 1), (2, 2))
    assert world.ctx.hosted.partitions["orders", 0].partition.epochs.starts[:3] == starts


@pytest.mark.parametrize("bit", [0x40, 0x01], ids=["far", "next"])
def test_batch_of_a_leader_epoch_that_there_was_not_yet_leaves_the_log_unserved(bit: int) -> None:
    """It lies outside the batch's checksum. A restart says that the log is shorter, and cuts it."""
    world = World()
    world.create()
    world.produce(batch_of(b"a"))
    world.produce(batch_of(b"b"))
    (path,) = (name for name in world.files.names if name.endswith(".log"))
    size = len(world.files.names[path].data) // 2
    world.files.names[path].data[size + 15] ^= bit

    world = world.restart()

    unopened = world.ctx.hosted.unopened["orders", 0]
    assert unopened.is_damaged
    assert "from offset 1, but the newest is 0: the log is damaged there" in unopened.reason
    assert world.produce().error_code == ErrorCode.kafka_storage_error

    again = World(world.settings, files=world.files, history=world.raft.committed, reconciled=False)
    claims = again.hosting.prepare(to_be_hosted(again.ctx))
    again.follow()

    assert claims.of((again.topic_id(), 0)) is not Completeness.COMPLETE
    assert values_in(again.fetch(0)) == [b"a"]
    assert again.produce(batch_of(b"c")).base_offset == 1


def elect_again(world: World) -> None:
    """The same leader at a new epoch."""
    topic = world.ctx.image.topics["orders"]
    old = topic.partitions[0]
    state = PartitionState.of(topic.topic_id, 0, old, old)._replace(
        leader_epoch=old.leader_epoch + 1
    )
    world.propose(Decision(controller_term=TERM, reason="again", partitions=(state,)))


def test_settings_reach_every_partition_of_their_topic() -> None:
    world = World()
    topic_id = world.create(partitions=2)
    change = AlterTopicConfig(topic_id=topic_id, assign=(("max.message.bytes", "10"),))

    world.raft.propose(encode_change(change, ELSEWHERE), 0)

    for partition in (0, 1):
        assert world.produce(partition=partition).error_code == ErrorCode.message_too_large


def test_group_of_another_brokers_partition_is_not_ours() -> None:
    world = World(brokers=2)
    change = CreateTopic(name=OFFSETS_TOPIC, topic_id=UUID(int=3), replicas=((2,),))
    world.raft.propose(encode_change(change, ELSEWHERE), 0)

    with pytest.raises(KafkaError) as raised:
        coordinator_of(world.ctx, "g")

    assert raised.value.code is ErrorCode.not_coordinator


def test_offsets_are_forgotten_though_the_disk_is_full() -> None:
    world = World()
    world.create(OFFSETS_TOPIC)
    tp = TopicPartition("orders", 0)
    store_offsets(world.ctx, "g", [(tp, CommittedOffset(5, -1, "", 0))])
    world.files.space_bytes = 0

    forget_missing_topics(world.ctx)

    assert world.ctx.clients.groups.coordinator.group_ids == []


@pytest.mark.parametrize("clean", [True, False])
def test_logs_recovered_before_they_count_are_those_that_are_opened(clean: bool) -> None:
    """A start reads its logs on another thread, while this one answers the other brokers."""
    world = World()
    world.create(partitions=2, segment_records="2")
    for value in (b"a", b"b", b"c"):
        world.produce(batch_of(value), partition=1)
    if clean:
        world.hosting.close(1)
    again = World(world.settings, files=world.files, history=world.raft.committed, reconciled=False)

    again.hosting.prepare(to_be_hosted(again.ctx))
    opened = set(again.files.names)
    again.follow()

    assert set(again.files.names) == opened
    assert values_in(again.fetch(0, partition=1)) == [b"a", b"b"]
    assert again.produce(batch_of(b"d"), partition=1).base_offset == 3
    assert again.hosting.prepared == 0


def test_log_recovered_for_a_topic_that_was_made_anew_is_not_the_new_ones() -> None:
    world = World()
    world.propose(ORDERS)
    world.produce(batch_of(b"old"))
    again = World(world.settings, files=world.files, history=world.raft.committed, reconciled=False)
    again.hosting.prepare(to_be_hosted(again.ctx))

    for change in (DELETED, AGAIN):
        again.apply(encode_change(change, ELSEWHERE), replaying=True)
    again.follow()

    assert again.produce(batch_of(b"new")).base_offset == 0


@pytest.mark.parametrize(
    ("replicas", "lost", "found"),
    [
        (3, 1, Completeness.UNSYNCED),
        (3, 0, Completeness.COMPLETE),
        (1, 1, Completeness.UNSYNCED),
    ],
    ids=["one of three", "nothing lost", "the only one"],
)
def test_log_cut_below_its_own_high_watermark_by_a_loss_of_power_asks_the_others_first(
    replicas: int, lost: int, found: Completeness
) -> None:
    """The last in-sync replica, cut by a power loss below what it knew to be committed, led; the
    others, which had those records, halted. The only copy leads on: nobody has more."""
    world = World()
    world.create()
    for value in (b"a", b"b", b"c"):
        world.produce(batch_of(value))
    world.hosting.checkpoint_high_watermarks()
    (path,) = (name for name in world.files.names if name.endswith(".log"))
    data = world.files.names[path].data
    del data[len(data) - lost * (len(data) // 3) :]

    again = World(world.settings, files=world.files, history=world.raft.committed, reconciled=False)
    assert again.manager.may_lack_unsynced
    (wanted,) = to_be_hosted(again.ctx)
    assert wanted.is_only_replica
    claims = again.hosting.prepare([wanted._replace(is_only_replica=replicas == 1)])

    assert claims.of((wanted.topic_id, 0)) is found
    hosted = again.hosting.open(wanted.tp, wanted.topic_id, wanted.settings, 0)
    assert hosted.ends_in_damage is (replicas == 3 and lost == 1)


def test_partitions_that_went_elsewhere_meanwhile_are_removed_at_the_start() -> None:
    world = World(brokers=2)
    world.propose(ORDERS)
    world.create("kept")
    world.create("deleted")
    for topic in ("orders", "kept", "deleted"):
        world.produce(batch_of(topic.encode()), topic=topic)
    world.hosting.close(1)
    history = list(world.raft.committed)
    old = world.ctx.image.topics["orders"].partitions[0]
    moved = PartitionState.of(UUID(int=1), 0, old, old)._replace(
        replicas=(2,), isr=(2,), leader=2, leader_epoch=1
    )
    history += [
        encode_change(each, ELSEWHERE)
        for each in (
            Decision(controller_term=TERM, reason="moved", partitions=(moved,)),
            DeleteTopic(topic_id=world.ctx.image.topics["deleted"].topic_id),
        )
    ]

    again = World(world.settings, files=world.files, history=history)

    assert {name.split("/")[0] for name in again.files.names if "/" in name} == {"kept-0"}
    assert values_in(again.fetch(0, topic="kept")) == [b"kept"]


def test_partition_that_could_not_be_opened_is_not_taken_for_a_stray() -> None:
    world = World()
    world.create()
    world.produce()
    world.hosting.close(1)
    world.files.names["orders-0/partition.json"].data[:] = b"{"
    before = {name for name in world.files.names if name.startswith("orders-0/")}

    again = World(world.settings, files=world.files, history=world.raft.committed)

    assert again.produce().error_code == ErrorCode.kafka_storage_error
    assert {name for name in again.files.names if name.startswith("orders-0/")} == before


def test_partition_on_a_failing_disk_is_not_taken_for_a_stray() -> None:
    world = World()
    world.create()
    world.produce()
    world.files.names["orders-0/00000000000000000000.log"].data[:] = b"\x00" * 100
    world.files.names["orders-0/log-start.checkpoint"] = world.files.names[
        "orders-0/partition.new.json"
    ]

    again = World(world.settings, files=world.files, history=world.raft.committed)

    assert list(again.ctx.hosted.unopened) == [("orders", 0)]
    assert "orders-0/00000000000000000000.log" in again.files.names
