"""The reader and writer for each (key, version): compiled once, with a literal table of shims.

Most versions of a message differ by added or removed fields: `schema.py` matches those by name. A
shim handles a changed structure. It gets the version's own structure as a SimpleNamespace and our
shape as an entity; `up` makes the second from the first (a request at the broker, a response at the
client), `down` the reverse.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import SimpleNamespace
from typing import Any, NamedTuple

from josefine_broker.base.errors import ErrorCode
from josefine_broker.base.schemas import load_request_schema, load_response_schema
from josefine_broker.wire import apis
from josefine_broker.wire import entities as e
from josefine_broker.wire.primitives import Buffer, Reader, Writer
from josefine_broker.wire.schema import compile_schema


class Shim(NamedTuple):
    """A change of structure: the last version with the old one, and both conversions."""

    last_version: int
    up: Callable[[Any], Any]
    down: Callable[[Any], Any]


class Plan(NamedTuple):
    """The reader and writer of one version of one message, for our shape."""

    read: Reader
    write: Writer


def _metadata_request_up(raw: Any) -> Any:
    """Version 0 has no null: there, no topics means all of them."""
    topics = tuple(e.metadata.MetadataRequestTopic(name=topic.name) for topic in raw.topics)
    return e.metadata.MetadataRequest(topics=topics or None)


def _metadata_request_down(entity: e.metadata.MetadataRequest) -> Any:
    return SimpleNamespace(topics=entity.topics or ())


def _find_coordinator_request_up(raw: Any) -> Any:
    """One key until 3, many since 4 (KIP-699); version 0 knows groups only."""
    return e.find_coordinator.FindCoordinatorRequest(
        key_type=getattr(raw, "key_type", 0), coordinator_keys=(raw.key,)
    )


def _find_coordinator_request_down(entity: e.find_coordinator.FindCoordinatorRequest) -> Any:
    (key,) = entity.coordinator_keys
    return SimpleNamespace(key=key, key_type=entity.key_type)


def _find_coordinator_response_up(raw: Any) -> Any:
    coordinator = e.find_coordinator.Coordinator(
        key="",
        node_id=raw.node_id,
        host=raw.host,
        port=raw.port,
        error_code=raw.error_code,
        error_message=getattr(raw, "error_message", None),
    )
    return e.find_coordinator.FindCoordinatorResponse(
        throttle_time_ms=getattr(raw, "throttle_time_ms", 0), coordinators=(coordinator,)
    )


def _find_coordinator_response_down(
    entity: e.find_coordinator.FindCoordinatorResponse,
) -> Any:
    (coordinator,) = entity.coordinators
    return SimpleNamespace(
        throttle_time_ms=entity.throttle_time_ms,
        error_code=coordinator.error_code,
        error_message=coordinator.error_message,
        node_id=coordinator.node_id,
        host=coordinator.host,
        port=coordinator.port,
    )


def _offset_fetch_request_up(raw: Any) -> Any:
    """One group until 7, many since 8 (KIP-709)."""
    topics = raw.topics and tuple(
        e.offset_fetch.OffsetFetchRequestTopics(
            name=topic.name, partition_indexes=topic.partition_indexes
        )
        for topic in raw.topics
    )
    group = e.offset_fetch.OffsetFetchRequestGroup(group_id=raw.group_id, topics=topics)
    return e.offset_fetch.OffsetFetchRequest(
        groups=(group,), require_stable=getattr(raw, "require_stable", False)
    )


def _offset_fetch_request_down(entity: e.offset_fetch.OffsetFetchRequest) -> Any:
    (group,) = entity.groups
    return SimpleNamespace(
        group_id=group.group_id, topics=group.topics, require_stable=entity.require_stable
    )


def _offset_fetch_response_up(raw: Any) -> Any:
    topics = tuple(
        e.offset_fetch.OffsetFetchResponseTopics(
            name=topic.name,
            partitions=tuple(
                e.offset_fetch.OffsetFetchResponsePartitions(**vars(partition))
                for partition in topic.partitions
            ),
        )
        for topic in raw.topics
    )
    group = e.offset_fetch.OffsetFetchResponseGroup(
        group_id="", topics=topics, error_code=getattr(raw, "error_code", ErrorCode.none)
    )
    return e.offset_fetch.OffsetFetchResponse(
        throttle_time_ms=getattr(raw, "throttle_time_ms", 0), groups=(group,)
    )


def _offset_fetch_response_down(entity: e.offset_fetch.OffsetFetchResponse) -> Any:
    (group,) = entity.groups
    return SimpleNamespace(
        throttle_time_ms=entity.throttle_time_ms,
        error_code=group.error_code,
        topics=group.topics,
    )


def _delete_topics_request_up(raw: Any) -> Any:
    """Names until 5, names or ids since 6 (KIP-516)."""
    topics = tuple(e.delete_topics.DeleteTopicState(name=name) for name in raw.topic_names)
    return e.delete_topics.DeleteTopicsRequest(topics=topics, timeout_ms=raw.timeout_ms)


def _delete_topics_request_down(entity: e.delete_topics.DeleteTopicsRequest) -> Any:
    names = tuple(topic.name for topic in entity.topics)
    return SimpleNamespace(topic_names=names, timeout_ms=entity.timeout_ms)


def _leave_group_request_up(raw: Any) -> Any:
    """One member until 2, many since 3 (KIP-345)."""
    member = e.leave_group.MemberIdentity(member_id=raw.member_id)
    return e.leave_group.LeaveGroupRequest(group_id=raw.group_id, members=(member,))


def _leave_group_request_down(entity: e.leave_group.LeaveGroupRequest) -> Any:
    (member,) = entity.members
    return SimpleNamespace(group_id=entity.group_id, member_id=member.member_id)


def _leave_group_response_up(raw: Any) -> Any:
    return e.leave_group.LeaveGroupResponse(
        throttle_time_ms=getattr(raw, "throttle_time_ms", 0), error_code=raw.error_code
    )


def _leave_group_response_down(entity: e.leave_group.LeaveGroupResponse) -> Any:
    """The single member's error becomes the answer's."""
    codes = (entity.error_code, *(each.error_code for each in entity.members))
    return SimpleNamespace(
        throttle_time_ms=entity.throttle_time_ms,
        error_code=next((code for code in codes if code), ErrorCode.none),
    )


def _add_partitions_to_txn_request_up(raw: Any) -> Any:
    """One transaction until 3, many since 4 (KIP-890)."""
    topics = tuple(
        e.add_partitions_to_txn.AddPartitionsToTxnTopic(
            name=topic.name, partitions=topic.partitions
        )
        for topic in raw.v3_and_below_topics
    )
    transaction = e.add_partitions_to_txn.AddPartitionsToTxnTransaction(
        transactional_id=raw.v3_and_below_transactional_id,
        producer_id=raw.v3_and_below_producer_id,
        producer_epoch=raw.v3_and_below_producer_epoch,
        topics=topics,
    )
    return e.add_partitions_to_txn.AddPartitionsToTxnRequest(transactions=(transaction,))


def _add_partitions_to_txn_request_down(
    entity: e.add_partitions_to_txn.AddPartitionsToTxnRequest,
) -> Any:
    (transaction,) = entity.transactions
    return SimpleNamespace(
        v3_and_below_transactional_id=transaction.transactional_id,
        v3_and_below_producer_id=transaction.producer_id,
        v3_and_below_producer_epoch=transaction.producer_epoch,
        v3_and_below_topics=transaction.topics,
    )


def _add_partitions_to_txn_response_up(raw: Any) -> Any:
    shapes = e.add_partitions_to_txn
    topics = tuple(
        shapes.AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=tuple(
                shapes.AddPartitionsToTxnPartitionResult(**vars(part))
                for part in topic.results_by_partition
            ),
        )
        for topic in raw.results_by_topic_v3_and_below
    )
    result = shapes.AddPartitionsToTxnResult(transactional_id="", topic_results=topics)
    return shapes.AddPartitionsToTxnResponse(
        throttle_time_ms=raw.throttle_time_ms, results_by_transaction=(result,)
    )


def _add_partitions_to_txn_response_down(
    entity: e.add_partitions_to_txn.AddPartitionsToTxnResponse,
) -> Any:
    (result,) = entity.results_by_transaction
    return SimpleNamespace(
        throttle_time_ms=entity.throttle_time_ms,
        results_by_topic_v3_and_below=result.topic_results,
    )


REQUEST_SHIMS: dict[int, Shim] = {
    apis.METADATA: Shim(0, _metadata_request_up, _metadata_request_down),
    apis.FIND_COORDINATOR: Shim(3, _find_coordinator_request_up, _find_coordinator_request_down),
    apis.OFFSET_FETCH: Shim(7, _offset_fetch_request_up, _offset_fetch_request_down),
    apis.LEAVE_GROUP: Shim(2, _leave_group_request_up, _leave_group_request_down),
    apis.DELETE_TOPICS: Shim(5, _delete_topics_request_up, _delete_topics_request_down),
    apis.ADD_PARTITIONS_TO_TXN: Shim(
        3, _add_partitions_to_txn_request_up, _add_partitions_to_txn_request_down
    ),
}

RESPONSE_SHIMS: dict[int, Shim] = {
    apis.FIND_COORDINATOR: Shim(3, _find_coordinator_response_up, _find_coordinator_response_down),
    apis.OFFSET_FETCH: Shim(7, _offset_fetch_response_up, _offset_fetch_response_down),
    apis.LEAVE_GROUP: Shim(2, _leave_group_response_up, _leave_group_response_down),
    apis.ADD_PARTITIONS_TO_TXN: Shim(
        3, _add_partitions_to_txn_response_up, _add_partitions_to_txn_response_down
    ),
}


@cache
def request_plan(api_key: int, api_version: int) -> Plan:
    """The plan of a supported version's request."""
    version = load_request_schema(api_key, api_version)
    return _plan(version, apis.APIS[api_key].request, REQUEST_SHIMS.get(api_key), api_version)


@cache
def response_plan(api_key: int, api_version: int) -> Plan:
    """The plan of a supported version's response."""
    version = load_response_schema(api_key, api_version)
    return _plan(version, apis.APIS[api_key].response, RESPONSE_SHIMS.get(api_key), api_version)


def _plan(version: type, shape: type, shim: Shim | None, api_version: int) -> Plan:
    if shim is None or api_version > shim.last_version:
        return Plan(*compile_schema(version, shape))
    read_raw, write_raw = compile_schema(version, None)
    up, down = shim.up, shim.down

    def read(buf: Buffer, pos: int) -> tuple[Any, int]:
        raw, pos = read_raw(buf, pos)
        return up(raw), pos

    def write(out: bytearray, entity: Any) -> None:
        write_raw(out, down(entity))

    return Plan(read, write)
