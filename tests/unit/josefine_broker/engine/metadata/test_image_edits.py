"""Edits of an image share what is unchanged, so that readers see changes by identity."""

from dataclasses import replace
from uuid import UUID

from josefine_broker.base.ids import LeaderEpoch
from josefine_broker.engine.metadata.changes import IsrItem
from josefine_broker.engine.metadata.image_edits import (
    each_partition,
    with_items,
    with_partitions,
    with_topic,
    with_topics,
)
from tests.unit.josefine_broker.engine.metadata.images import (
    TOPIC,
    TOPIC_ID,
    image_of,
    partition,
)

IMAGE = image_of([partition((1, 2)), partition((2, 3))])
ENTRY = IMAGE.topics[TOPIC]


def item(number: int, topic_id: UUID = TOPIC_ID) -> IsrItem:
    return IsrItem(topic_id, number, LeaderEpoch(3), 7, (1,))


def test_an_edit_that_changes_nothing_is_the_image_itself() -> None:
    assert each_partition(IMAGE, lambda topic_id, index, entry: entry) is IMAGE
    assert with_topics(IMAGE, [ENTRY]) is IMAGE
    assert with_partitions(ENTRY, list(ENTRY.partitions)) is ENTRY
    assert with_items(IMAGE, [item(0)], lambda entry, _: entry) is IMAGE


def test_only_the_changed_partition_is_another_object() -> None:
    new = replace(ENTRY.partitions[1], leader=3)

    found = each_partition(IMAGE, lambda topic_id, index, entry: new if index == 1 else entry)

    first, second = found.topics[TOPIC].partitions
    assert first is ENTRY.partitions[0]
    assert second is new
    assert found.brokers is IMAGE.brokers
    assert IMAGE.topics[TOPIC] is ENTRY


def test_items_change_their_partitions_and_unknown_ones_nothing() -> None:
    items = [item(0), item(1), item(9), item(-1), item(0, UUID(int=9))]
    changed = []

    def make(entry, each):
        changed.append(each.partition)
        return replace(entry, leader_epoch=entry.leader_epoch + 1)

    found = with_items(IMAGE, items, make)

    assert changed == [0, 1]
    assert [each.leader_epoch for each in found.topics[TOPIC].partitions] == [4, 4]


def test_a_topic_is_added_or_takes_the_place_of_its_name() -> None:
    other = replace(ENTRY, name="other")

    assert [*with_topic(IMAGE, other).topics] == [TOPIC, "other"]
    assert with_topic(IMAGE, replace(ENTRY, partitions=())).topics[TOPIC].partitions == ()
