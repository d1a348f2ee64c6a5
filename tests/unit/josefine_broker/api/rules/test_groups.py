"""FindCoordinator, OffsetCommit, OffsetFetch, ListGroups: groups without members.

Those with members are in `unit/josefine_broker/api/test_group_members.py`."""

from typing import Any
from uuid import UUID

import pytest

from josefine_broker.base.errors import ErrorCode
from josefine_broker.engine.coordinators.loading_groups import shorten_offsets_log
from josefine_broker.engine.coordinators.offsets_topic import coordinator_of
from josefine_broker.engine.metadata.image import (
    JOSEFINE_VERSION,
    OFFSETS_TOPIC,
    TRANSACTIONS_LEVEL,
    TRANSACTIONS_TOPIC,
    FeatureRange,
)
from josefine_broker.engine.purgatory.purgatory import Parked
from josefine_broker.wire.entities import (
    delete_topics,
    find_coordinator,
    list_groups,
    offset_commit,
    offset_fetch,
)
from tests.unit.josefine_broker.api.world import World

Offsets = dict[tuple[str | UUID, int], int]


def find(world: World, *groups: str, key_type: int = 0) -> Any:
    e = find_coordinator
    return world.ask(10, e.FindCoordinatorRequest(key_type=key_type, coordinator_keys=groups))


def commit(world: World, offsets: Offsets, group: str = "g", **fields: Any) -> list[ErrorCode]:
    e = offset_commit
    topics = tuple(
        e.OffsetCommitRequestTopic(
            name="" if isinstance(topic, UUID) else topic,
            topic_id=topic if isinstance(topic, UUID) else None,
            partitions=(
                e.OffsetCommitRequestPartition(
                    partition_index=partition,
                    committed_offset=offset,
                    committed_leader_epoch=4,
                    committed_metadata=fields.get("metadata", "m"),
                ),
            ),
        )
        for (topic, partition), offset in offsets.items()
    )
    request = e.OffsetCommitRequest(
        group_id=group,
        member_id="",
        generation_id_or_member_epoch=fields.get("generation", -1),
        topics=topics,
    )
    response = world.ask(8, request, version=fields.get("version"))
    return [p.error_code for topic in response.topics for p in topic.partitions]


def committed(
    world: World, topics: dict[str | UUID, tuple[int, ...]] | None, group: str = "g"
) -> Any:
    e = offset_fetch
    wanted = None
    if topics is not None:
        wanted = tuple(
            e.OffsetFetchRequestTopics(
                name="" if isinstance(topic, UUID) else topic,
                topic_id=topic if isinstance(topic, UUID) else None,
                partition_indexes=indexes,
            )
            for topic, indexes in topics.items()
        )
    asked = e.OffsetFetchRequestGroup(group_id=group, topics=wanted)
    return world.ask(9, e.OffsetFetchRequest(groups=(asked,))).groups[0]


def offsets_of(group: Any) -> dict[tuple[str, int], int]:
    return {
        (topic.name, p.partition_index): p.committed_offset
        for topic in group.topics
        for p in topic.partitions
    }


@pytest.fixture
def group_world() -> World:
    world = World()
    world.create(partitions=3)
    find(world, "g")
    return world


def test_coordinator_is_found_and_its_topic_made() -> None:
    world = World()
    world.raft.at_once = False

    waiting = find(world, "a", "b")
    assert isinstance(waiting, Parked)
    world.raft.deliver()

    response: Any = waiting.response
    assert [(c.key, c.node_id, c.port) for c in response.coordinators] == [
        ("a", 1, 9091),
        ("b", 1, 9091),
    ]
    topic = world.ctx.image.topics[OFFSETS_TOPIC]
    assert len(topic.partitions) == world.settings.offsets.partitions
    assert ("cleanup.policy", "compact") in topic.config


def test_two_first_questions_make_one_topic() -> None:
    world = World()
    world.raft.at_once = False

    first, second = find(world, "a"), find(world, "a")
    world.raft.deliver()

    assert first.response.coordinators == second.response.coordinators
    assert first.response.coordinators[0].error_code == ErrorCode.none


def test_who_looks_for_transactions_that_are_off_is_told_by_the_broker_it_asks() -> None:
    """librdkafka takes no other code than one of rights as the end of its search."""
    world = World(features=(FeatureRange(JOSEFINE_VERSION, 1, TRANSACTIONS_LEVEL - 1),))
    (coordinator,) = find(world, "t", key_type=1).coordinators

    assert (coordinator.error_code, coordinator.node_id) == (ErrorCode.none, world.ctx.broker_id)
    assert TRANSACTIONS_TOPIC not in world.ctx.image.topics


def test_committed_offsets_are_fetched_and_survive_a_crash(group_world: World) -> None:
    """Checklist row 23, as far as groups without members go."""
    assert commit(group_world, {("orders", 0): 5, ("orders", 2): 7}) == [ErrorCode.none] * 2
    assert commit(group_world, {("orders", 0): 6}) == [ErrorCode.none]
    commit(group_world, {("orders", 0): 1}, group="other")

    for each in (group_world, group_world.restart(), group_world.restart()):
        group = committed(each, {"orders": (0, 1, 2)})
        assert offsets_of(group) == {("orders", 0): 6, ("orders", 1): -1, ("orders", 2): 7}
        assert group.error_code == ErrorCode.none
        assert offsets_of(committed(each, None)) == {("orders", 0): 6, ("orders", 2): 7}


def test_metadata_and_leader_epoch_come_back(group_world: World) -> None:
    commit(group_world, {("orders", 0): 5}, metadata="note")

    (partition,) = committed(group_world, {"orders": (0,)}).topics[0].partitions

    assert (partition.metadata, partition.committed_leader_epoch) == ("note", 4)


def test_topics_by_id_are_found(group_world: World) -> None:
    """Version 10."""
    topic_id = group_world.ctx.image.topics["orders"].topic_id

    codes = commit(group_world, {(topic_id, 0): 5, (UUID(int=9), 0): 5})
    group = committed(group_world, {topic_id: (0,), UUID(int=9): (0,)})

    assert codes == [ErrorCode.none, ErrorCode.unknown_topic_id]
    known, unknown = group.topics
    assert (known.topic_id, known.partitions[0].committed_offset) == (topic_id, 5)
    assert unknown.partitions[0].error_code == ErrorCode.unknown_topic_id


def test_unknown_partition_is_refused_alone(group_world: World) -> None:
    asked = {("orders", 0): 5, ("orders", 9): 5, ("orders", -1): 5, ("nope", 0): 5}

    codes = commit(group_world, asked)

    unknown = ErrorCode.unknown_topic_or_partition
    assert codes == [ErrorCode.none, unknown, unknown, unknown]


def test_long_metadata_is_refused(group_world: World) -> None:
    assert commit(group_world, {("orders", 0): 5}, metadata="x" * 4097) == [
        ErrorCode.offset_metadata_too_large
    ]


def test_generation_of_a_group_that_is_not_there_is_refused(group_world: World) -> None:
    """Since version 9 the group is not found (KIP-848)."""
    for version, code in ((8, ErrorCode.illegal_generation), (9, ErrorCode.group_id_not_found)):
        assert commit(group_world, {("orders", 0): 5}, generation=3, version=version) == [code]


def test_before_anybody_asked_for_a_coordinator_there_is_none() -> None:
    world = World()
    world.create()

    assert commit(world, {("orders", 0): 5}) == [ErrorCode.not_coordinator]
    group = committed(world, {"orders": (0,)})
    assert group.error_code == ErrorCode.not_coordinator
    assert group.topics[0].partitions[0].error_code == ErrorCode.not_coordinator


def test_full_disk_is_told_as_a_coordinator_not_available(group_world: World) -> None:
    group_world.files.space_bytes = 0

    assert commit(group_world, {("orders", 0): 5}) == [ErrorCode.coordinator_not_available]
    assert offsets_of(committed(group_world, {"orders": (0,)})) == {("orders", 0): -1}


def test_long_offsets_log_is_shortened_and_says_the_same(group_world: World) -> None:
    for offset in range(50):
        commit(group_world, {("orders", 0): offset})
    commit(group_world, {("orders", 1): 7, ("orders", 2): 8})
    commit(group_world, {("orders", 0): 3}, group="other")
    tp, hosted = coordinator_of(group_world.ctx, "g")

    shorten_offsets_log(group_world.ctx, tp, hosted, hosted.log.size_bytes)
    assert hosted.log.log_start_offset == 0
    shorten_offsets_log(group_world.ctx, tp, hosted, hosted.log.size_bytes - 1)

    assert hosted.log.log_end_offset - hosted.log.log_start_offset == 3
    for each in (group_world, group_world.restart()):
        assert offsets_of(committed(each, None)) == {
            ("orders", 0): 49,
            ("orders", 1): 7,
            ("orders", 2): 8,
        }
        assert offsets_of(committed(each, None, "other")) == {("orders", 0): 3}


def test_offsets_topic_is_among_the_logs_that_are_cleaned(group_world: World) -> None:
    """A log of commits that nobody needs any more would grow until the next coordinator."""
    cleaned = {each.tp.topic for each in group_world.hosting.compacted() if each is not None}

    assert cleaned == {OFFSETS_TOPIC}


def test_full_disk_leaves_the_offsets_log_long(group_world: World) -> None:
    commit(group_world, {("orders", 0): 5})
    tp, hosted = coordinator_of(group_world.ctx, "g")
    group_world.files.space_bytes = 0

    shorten_offsets_log(group_world.ctx, tp, hosted, 0)
    group_world.files.space_bytes = None

    assert hosted.log.log_start_offset == 0
    assert offsets_of(committed(group_world.restart(), None)) == {("orders", 0): 5}


def test_groups_with_offsets_are_listed(group_world: World) -> None:
    commit(group_world, {("orders", 0): 5}, group="b")
    commit(group_world, {("orders", 0): 5}, group="a")

    def listed(**filters: Any) -> list[str]:
        response = group_world.ask(16, list_groups.ListGroupsRequest(**filters))
        return [group.group_id for group in response.groups]

    assert listed() == ["a", "b"]
    assert listed(states_filter=("empty",)) == ["a", "b"]
    assert listed(states_filter=("Stable",)) == []
    assert listed(types_filter=("consumer",)) == []


def test_offsets_of_a_deleted_topic_go_with_it(group_world: World) -> None:
    commit(group_world, {("orders", 0): 5})
    group_world.create("kept")
    commit(group_world, {("kept", 0): 6})
    gone = delete_topics.DeleteTopicState(name="orders")
    group_world.ask(20, delete_topics.DeleteTopicsRequest(topics=(gone,), timeout_ms=1000))
    group_world.create()

    for each in (group_world, group_world.restart()):
        assert offsets_of(committed(each, None)) == {("kept", 0): 6}


def test_clients_may_not_produce_to_the_offsets_topic(group_world: World) -> None:
    answer = group_world.produce(topic=OFFSETS_TOPIC)

    assert answer.error_code == ErrorCode.invalid_topic_exception


def test_all_that_a_group_committed_is_told_by_topic_each_with_its_own(group_world: World) -> None:
    group_world.create("payments", partitions=2)
    commit(group_world, {("orders", 0): 5, ("orders", 2): 7})
    commit(group_world, {("payments", 1): 9})

    group = committed(group_world, None)

    told = {topic.name: [p.partition_index for p in topic.partitions] for topic in group.topics}
    assert told == {"orders": [0, 2], "payments": [1]}


def test_topics_of_committed_offsets_carry_their_id_however_they_were_asked_for(
    group_world: World,
) -> None:
    """KIP-848: versions that carry ids only would else name no topic."""
    commit(group_world, {("orders", 0): 5})
    topic_id = group_world.ctx.image.topics["orders"].topic_id

    for wanted in ({"orders": (0,)}, {topic_id: (0,)}, None):
        (topic,) = committed(group_world, wanted).topics
        assert topic.topic_id == topic_id


def test_unknown_partition_is_reported_also_to_who_may_not_commit() -> None:
    """As Kafka does: the group never sees such a partition. Found by tests/oracle."""
    world = World()
    world.create()
    find(world, "g")

    asked: Offsets = {("orders", 0): 1, ("orders", 9): 1, ("no", 0): 1}
    for version, code in ((9, ErrorCode.group_id_not_found), (8, ErrorCode.illegal_generation)):
        unknown = ErrorCode.unknown_topic_or_partition
        answer = commit(world, asked, generation=3, version=version)
        assert answer == [code, unknown, unknown]
    nobodys = commit(world, {(UUID(int=5), 0): 1}, generation=3, version=10)
    assert nobodys == [ErrorCode.unknown_topic_id]
