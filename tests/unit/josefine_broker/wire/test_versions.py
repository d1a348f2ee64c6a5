"""Every listed version of every key but Produce and Fetch against kio, in both directions."""

import dataclasses
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from josefine_broker.base.errors import CorruptData, ErrorCode
from josefine_broker.wire import apis
from josefine_broker.wire import entities as e
from josefine_broker.wire.primitives import varint, write_nullable_compact_string
from josefine_broker.wire.schema import our_name
from josefine_broker.wire.versions import (
    REQUEST_SHIMS,
    RESPONSE_SHIMS,
    request_plan,
    response_plan,
)
from tests.unit.josefine_broker.wire.kio_entities import (
    GENERIC_KEY_VERSIONS,
    GENERIC_KEYS,
    entities,
    plain,
    schema,
    to_bytes,
)

DROPPED = frozenset(
    {
        # Metadata 8 to 10 only: Kafka took them back; read and dropped, written as their default.
        "include_cluster_authorized_operations",
        "cluster_authorized_operations",
    }
)


def shape_of(api_key: int, kind: str) -> type:
    spec = apis.APIS[api_key]
    return spec.request if kind == "request" else spec.response


def dropped_fields(api_key: int) -> frozenset[str]:
    """DescribeCluster has kept the two that Metadata gave up."""
    return frozenset() if api_key == apis.DESCRIBE_CLUSTER else DROPPED


def random_entity(data: st.DataObject, api_key: int, version: int, kind: str) -> Any:
    return data.draw(entities(schema(api_key, version, kind), dropped_fields(api_key)))


def assert_same_fields(ours: Any, theirs: Any) -> None:
    """Each field that both have is equal, all the way down."""
    if isinstance(theirs, SimpleNamespace):
        names = {field.name for field in dataclasses.fields(ours)}
        for name, value in vars(theirs).items():
            if name in names:
                assert_same_fields(getattr(ours, name), value)
    elif isinstance(theirs, tuple):
        assert len(ours) == len(theirs)
        for our_item, their_item in zip(ours, theirs, strict=True):
            assert_same_fields(our_item, their_item)
    else:
        assert ours == theirs


def is_shimmed(api_key: int, version: int, kind: str) -> bool:
    shims = REQUEST_SHIMS if kind == "request" else RESPONSE_SHIMS
    return api_key in shims and version <= shims[api_key].last_version


@pytest.mark.parametrize(("api_key", "version"), GENERIC_KEY_VERSIONS)
@pytest.mark.parametrize("kind", ["request", "response"])
@settings(max_examples=10)
@given(data=st.data())
def test_every_listed_version_round_trips_through_our_shape(
    api_key: int, version: int, kind: str, data: st.DataObject
) -> None:
    """Checklist row 17. kio's bytes → our shape → the same bytes; every field in its place."""
    theirs = random_entity(data, api_key, version, kind)
    plan = (request_plan if kind == "request" else response_plan)(api_key, version)
    body = to_bytes(theirs)

    ours, end = plan.read(memoryview(bytearray(body)), 0)
    written = bytearray()
    plan.write(written, ours)

    assert end == len(body)
    assert bytes(written) == body
    assert type(ours) is shape_of(api_key, kind)
    if not is_shimmed(api_key, version, kind):
        assert_same_fields(ours, plain(theirs))


@pytest.mark.parametrize("kind", ["request", "response"])
@pytest.mark.parametrize("api_key", GENERIC_KEYS)
def test_our_shape_has_every_field_of_the_newest_version(api_key: int, kind: str) -> None:
    newest = schema(api_key, apis.APIS[api_key].max_version, kind)
    shape = shape_of(api_key, kind)

    theirs = {our_name(field) for field in dataclasses.fields(newest)}

    assert theirs <= {field.name for field in dataclasses.fields(shape)}


@settings(max_examples=50)
@given(tag=st.integers(10, 2**31), value=st.binary(max_size=20))
def test_unknown_tagged_fields_are_ignored(tag: int, value: bytes) -> None:
    """KIP-482: a newer client may add tags to a version that we know."""
    body = bytearray(b"\x02")
    write_nullable_compact_string(body, "topic")
    body[1:1] = bytes(16)
    tagged = b"\x01" + varint(tag) + varint(len(value)) + value
    body += tagged + b"\x01\x00" + tagged

    request, end = request_plan(apis.METADATA, 12).read(bytes(body), 0)

    assert request.topics == (e.metadata.MetadataRequestTopic(name="topic"),)
    assert end == len(body)


def test_fields_that_a_version_lacks_have_our_default_and_what_only_it_has_is_dropped() -> None:
    """Where nothing is tagged, entities are made without their constructor."""
    committed = e.offset_commit.OffsetCommitRequestPartition(
        partition_index=3, committed_offset=7, committed_leader_epoch=9, committed_metadata="m"
    )
    topic = e.offset_commit.OffsetCommitRequestTopic(name="t", partitions=(committed,))
    request = e.offset_commit.OffsetCommitRequest(
        group_id="g", member_id="", group_instance_id="i", topics=(topic,)
    )
    body = bytearray()
    request_plan(apis.OFFSET_COMMIT, 5).write(body, request)

    read, _ = request_plan(apis.OFFSET_COMMIT, 5).read(bytes(body), 0)

    without_epoch = dataclasses.replace(committed, committed_leader_epoch=-1)
    assert read == dataclasses.replace(
        request,
        group_instance_id=None,
        topics=(dataclasses.replace(topic, partitions=(without_epoch,)),),
    )


def test_unknown_tags_are_in_order() -> None:
    body = bytearray()
    request = e.heartbeat.HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    request_plan(apis.HEARTBEAT, 4).write(body, request)
    assert body.pop() == 0

    in_order, not_so = b"\x02\x05\x00\x06\x00", b"\x02\x06\x00\x05\x00"

    assert request_plan(apis.HEARTBEAT, 4).read(bytes(body + in_order), 0)[0] == request
    with pytest.raises(CorruptData, match="out of order"):
        request_plan(apis.HEARTBEAT, 4).read(bytes(body + not_so), 0)


def test_metadata_version_0_says_all_topics_by_naming_none() -> None:
    plan = request_plan(apis.METADATA, 0)

    assert plan.read(b"\x00\x00\x00\x00", 0)[0].topics is None
    assert request_plan(apis.METADATA, 1).read(b"\x00\x00\x00\x00", 0)[0].topics == ()


def test_older_find_coordinator_carries_one_key() -> None:
    request = e.find_coordinator.FindCoordinatorRequest(coordinator_keys=("group",))

    bodies = [bytearray(), bytearray()]
    request_plan(apis.FIND_COORDINATOR, 0).write(bodies[0], request)
    request_plan(apis.FIND_COORDINATOR, 4).write(bodies[1], request)

    assert bodies[0] == b"\x00\x05group"
    assert bodies[1] == b"\x00\x02\x06group\x00"
    assert request_plan(apis.FIND_COORDINATOR, 0).read(bodies[0], 0)[0] == request


def test_older_delete_topics_names_become_topics() -> None:
    request = e.delete_topics.DeleteTopicsRequest(
        topics=(e.delete_topics.DeleteTopicState(name="a"),), timeout_ms=7
    )

    for version in range(1, 7):
        body = bytearray()
        request_plan(apis.DELETE_TOPICS, version).write(body, request)
        assert request_plan(apis.DELETE_TOPICS, version).read(body, 0)[0] == request


def test_older_leave_group_names_one_member_and_has_its_error() -> None:
    leave = e.leave_group
    request = leave.LeaveGroupRequest(group_id="g", members=(leave.MemberIdentity(member_id="m"),))
    gone = leave.MemberResponse(member_id="m", error_code=ErrorCode.unknown_member_id)
    bodies = [bytearray(), bytearray()]

    request_plan(apis.LEAVE_GROUP, 2).write(bodies[0], request)
    response_plan(apis.LEAVE_GROUP, 0).write(bodies[1], leave.LeaveGroupResponse(members=(gone,)))

    assert bodies[0] == b"\x00\x01g\x00\x01m"
    assert request_plan(apis.LEAVE_GROUP, 2).read(bodies[0], 0)[0] == request
    assert bodies[1] == ErrorCode.unknown_member_id.to_bytes(2)


@pytest.mark.parametrize("version", [3, 4])
def test_bytes_that_claim_more_than_is_there_are_malformed(version: int) -> None:
    """The one of SyncGroup; since 4 its length is a varint."""
    body = bytearray()
    response = e.sync_group.SyncGroupResponse(assignment=b"12345")
    response_plan(apis.SYNC_GROUP, version).write(body, response)
    end = len(body) - (version >= 4)

    with pytest.raises(CorruptData):
        response_plan(apis.SYNC_GROUP, version).read(bytes(body[: end - 1]), 0)


def test_a_null_string_becomes_empty_where_the_version_cannot_carry_null() -> None:
    topic = e.metadata.MetadataResponseTopic(name=None, partitions=())
    response = e.metadata.MetadataResponse(brokers=(), topics=(topic,))

    body = bytearray()
    response_plan(apis.METADATA, 9).write(body, response)

    assert response_plan(apis.METADATA, 9).read(body, 0)[0].topics[0].name == ""


def test_an_error_code_nobody_knows_reads_as_unknown_server_error() -> None:
    body = b"\x00\x00\x00\x00\x7f\xff\x00\x00\x00\x00\x00\x00\x00\x01\x00\x02"

    response, _ = response_plan(apis.INIT_PRODUCER_ID, 0).read(body, 0)

    assert response.error_code is ErrorCode.unknown_server_error
    assert (response.producer_id, response.producer_epoch) == (1, 2)


def test_lists_that_java_cannot_take_as_null_are_empty_unless_given() -> None:
    """Java's admin client (spark-sql-kafka-0-10 is one) fails on a null list of KIP-966."""
    part = e.describe_topic_partitions.DescribeTopicPartitionsResponsePartition(
        partition_index=0, leader_id=1
    )

    assert part.eligible_leader_replicas == ()
    assert part.last_known_elr == ()
