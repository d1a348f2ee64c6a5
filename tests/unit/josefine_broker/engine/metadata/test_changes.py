"""Metadata changes: pure, the same on every broker, and the same again from their bytes."""

from contextlib import suppress
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from josefine_broker.base.errors import CorruptData, ErrorCode, KafkaError
from josefine_broker.engine.metadata.apply import apply
from josefine_broker.engine.metadata.change_codec import decode_change, encode_change
from josefine_broker.engine.metadata.changes import (
    AllocateProducerIds,
    AlterIsr,
    AlterTopicConfig,
    At,
    BrokerState,
    Change,
    CreatePartitions,
    CreateTopic,
    Decision,
    DeleteTopic,
    FeatureLevel,
    IsrItem,
    Origin,
    PartitionState,
    ReassignItem,
    ReassignPartitions,
    RegisterBroker,
    SetFeatures,
    UnregisterBroker,
)
from josefine_broker.engine.metadata.image import (
    Address,
    BrokerEntry,
    Endpoint,
    FeatureRange,
    MetadataImage,
)
from josefine_broker.engine.metadata.log_completeness import Completeness, LogClaims

TERM = 1
NOW = At(TERM, 100)
BROKERS = {n: BrokerEntry(broker_id=n, endpoints=(), epoch=n, fenced=False) for n in range(1, 7)}
EMPTY = MetadataImage(cluster_id="c", brokers=BROKERS)
"""Six live brokers and no topic."""
ORDERS = CreateTopic(name="orders", topic_id=UUID(int=1), replicas=((1, 2), (2, 1)))

ids = st.integers(1, 6).map(lambda n: UUID(int=n))
names = st.sampled_from(["a", "b", "orders", "events", "ä"])
replicas = st.lists(st.tuples(st.integers(1, 3), st.integers(4, 6)), min_size=1, max_size=3).map(
    tuple
)
pairs = st.lists(
    st.tuples(st.sampled_from(["retention.ms", "segment.ms"]), st.sampled_from(["1", "2"])),
    max_size=2,
    unique_by=lambda pair: pair[0],
).map(tuple)
members = st.lists(st.integers(1, 6), max_size=3, unique=True).map(tuple)
changes = st.one_of(
    st.builds(
        RegisterBroker,
        broker_id=st.integers(1, 7),
        incarnation=st.sampled_from(["a", "b"]),
        endpoints=st.just((Endpoint("PLAINTEXT", "h", 1),)),
        rack=st.none() | st.just("r"),
        raft=st.none() | st.just(Address("h", 2)),
        admin=st.none() | st.just("http://h:3"),
        features=st.just(()) | st.just((FeatureRange("f", 1, 2),)),
        clean=st.booleans(),
        logs=st.none()
        | st.builds(
            LogClaims,
            default=st.sampled_from(Completeness),
            logs=st.dictionaries(
                st.tuples(ids, st.integers(0, 3)), st.sampled_from(Completeness), max_size=3
            ),
        ),
        previous_epoch=st.integers(-1, 3),
    ),
    st.builds(UnregisterBroker, broker_id=st.integers(1, 7)),
    st.builds(
        Decision,
        controller_term=st.sampled_from([TERM, TERM, TERM + 1]),
        reason=st.just("test"),
        brokers=st.lists(
            st.builds(
                BrokerState,
                st.integers(1, 7),
                st.integers(1, 8),
                st.booleans(),
                st.booleans(),
                st.booleans(),
            ),
            max_size=2,
        ).map(tuple),
        partitions=st.lists(
            st.builds(
                PartitionState,
                ids,
                st.integers(0, 3),
                st.integers(0, 2),
                st.integers(-1, 6),
                st.integers(0, 2),
                members,
                members,
                members,
                members,
                members,
            ),
            max_size=2,
        ).map(tuple),
    ),
    st.builds(
        AlterIsr,
        broker_id=st.integers(1, 3),
        broker_epoch=st.integers(1, 3),
        items=st.lists(
            st.builds(
                IsrItem,
                ids,
                st.integers(0, 3),
                st.integers(0, 2),
                st.integers(0, 2),
                members,
                members,
            ),
            max_size=2,
        ).map(tuple),
    ),
    st.builds(
        ReassignPartitions,
        items=st.lists(
            st.builds(ReassignItem, ids, st.integers(0, 3), st.none() | members), max_size=2
        ).map(tuple),
    ),
    st.builds(
        SetFeatures,
        levels=st.tuples(
            st.builds(
                FeatureLevel,
                name=st.just("f"),
                previous=st.integers(0, 3),
                level=st.integers(-1, 3),
            )
        ),
    ),
    st.builds(
        CreateTopic,
        name=names,
        topic_id=ids,
        replicas=replicas,
        config=pairs,
        offline=members,
    ),
    st.builds(DeleteTopic, topic_id=ids),
    st.builds(CreatePartitions, topic_id=ids, first_partition=st.integers(1, 3), replicas=replicas),
    st.builds(
        AlterTopicConfig,
        topic_id=ids,
        assign=pairs,
        remove=st.lists(st.just("segment.ms"), max_size=1).map(tuple),
    ),
    st.builds(
        AllocateProducerIds,
        broker_id=st.integers(1, 3),
        first_id=st.sampled_from([0, 10, 20]),
        count=st.just(10),
    ),
)


def after(history: list[Change]) -> MetadataImage:
    image = EMPTY
    for height, change in enumerate(history, 10):
        try:
            image = apply(image, change, At(TERM, height))
        except KafkaError:
            continue
    return image


@given(changes, st.integers(0, 5), st.integers(0, 2**48))
def test_change_survives_its_bytes(change: Change, broker_id: int, number: int) -> None:
    origin = Origin(broker_id, number)

    assert decode_change(encode_change(change, origin)) == (change, origin)


@given(st.lists(changes, max_size=20))
def test_same_changes_give_the_same_digest_and_image_survives_its_bytes(
    history: list[Change],
) -> None:
    """Checklist row 10, as far as one broker goes."""
    replayed = [decode_change(encode_change(change, Origin(1, 1)))[0] for change in history]

    image = after(history)

    assert after(replayed).digest() == image.digest()
    assert MetadataImage.from_bytes(image.to_bytes()) == image


@given(st.lists(changes, max_size=10), changes)
def test_apply_leaves_the_image_it_was_given(history: list[Change], change: Change) -> None:
    image = after(history)
    before = image.to_bytes()

    after([*history, change])
    with suppress(KafkaError):
        apply(image, change, NOW)

    assert image.to_bytes() == before


@given(st.lists(changes, max_size=25))
def test_topics_by_id_and_by_name_are_the_same(history: list[Change]) -> None:
    image = after(history)

    assert {image.topics[n].topic_id: n for n in image.topics} == dict(image.topic_names)


def test_topic_comes_with_all_partitions_led_by_the_first_replica() -> None:
    """Checklist row 20: one atomic metadata command."""
    topic = apply(EMPTY, ORDERS, NOW).topics["orders"]

    assert [p.leader for p in topic.partitions] == [1, 2]
    assert [p.isr for p in topic.partitions] == [(1, 2), (2, 1)]
    assert {p.leader_epoch for p in topic.partitions} == {0}


def test_second_creation_of_a_name_is_refused() -> None:
    other = CreateTopic(name="orders", topic_id=UUID(int=2), replicas=((1,),))

    with pytest.raises(KafkaError) as raised:
        apply(after([ORDERS]), other, NOW)

    assert raised.value.code is ErrorCode.topic_already_exists


def test_deletion_by_id_spares_the_topic_made_anew() -> None:
    anew = CreateTopic(name="orders", topic_id=UUID(int=2), replicas=((1,),))
    image = after([ORDERS, DeleteTopic(topic_id=UUID(int=1)), anew])

    with pytest.raises(KafkaError) as raised:
        apply(image, DeleteTopic(topic_id=UUID(int=1)), NOW)

    assert raised.value.code is ErrorCode.unknown_topic_or_partition
    assert image.topics["orders"].topic_id == UUID(int=2)


def test_partitions_are_added_only_to_as_many_as_were_seen() -> None:
    image = apply(EMPTY, ORDERS, NOW)
    grow = CreatePartitions(topic_id=UUID(int=1), first_partition=2, replicas=((1, 2),))

    grown = apply(image, grow, NOW)

    assert len(grown.topics["orders"].partitions) == 3
    with pytest.raises(KafkaError):
        apply(grown, grow, NOW)


def test_producer_ids_are_given_out_once() -> None:
    take = AllocateProducerIds(broker_id=1, first_id=0, count=1000)

    image = apply(EMPTY, take, NOW)

    assert image.next_producer_id == 1000
    with pytest.raises(KafkaError):
        apply(image, take, NOW)


def test_config_is_set_and_removed() -> None:
    image = apply(EMPTY, ORDERS, NOW)
    both = AlterTopicConfig(topic_id=UUID(int=1), assign=(("b", "1"), ("a", "2")))

    image = apply(image, both, NOW)
    image = apply(image, AlterTopicConfig(topic_id=UUID(int=1), remove=("b",)), NOW)

    assert image.topics["orders"].config == (("a", "2"),)


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"not json",
        b"[]",
        b'{"version":2,"kind":"create_topic","origin":[1,1],"change":{}}',
        b'{"version":1,"kind":"unheard_of","origin":[1,1],"change":{}}',
        b'{"version":1,"kind":"create_topic","origin":[1,1],"change":{}}',
        b'{"version":1,"kind":"delete_topic","origin":[1],"change":{"id":"00"}}',
    ],
)
def test_payload_that_is_no_change_of_ours_is_corrupt(payload: bytes) -> None:
    with pytest.raises(CorruptData):
        decode_change(payload)


@pytest.mark.parametrize("data", [b"", b"{}", b'{"version":1}', b'{"version":9}'])
def test_bytes_that_are_no_image_are_corrupt(data: bytes) -> None:
    with pytest.raises(CorruptData):
        MetadataImage.from_bytes(data)
