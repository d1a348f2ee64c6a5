"""Names, ids and requests that mean nothing: the codes here and, by the oracle, at Apache Kafka."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from typing import Any, get_type_hints
from uuid import UUID

import pytest

from josefine_broker.base.errors import ErrorCode
from josefine_broker.base.ids import LeaderEpoch
from josefine_broker.client.io_blocking import BlockingClient
from josefine_broker.records.builder import Record, build_batch
from josefine_broker.wire import apis, codec
from josefine_broker.wire import entities as e
from josefine_broker.wire import fetch as f
from josefine_broker.wire import produce as p
from tests.integration.raw import connect, read_exactly
from tests.support.waiting import wait_until

_E = ErrorCode
_IDS = itertools.count(1)
HOUR_MS = 3_600_000


class Asker:
    """Sends requests of our shapes, and reads the answers."""

    def __init__(self, bootstrap: str) -> None:
        self._connection = connect(bootstrap)

    def ask(self, key: int, request: Any, version: int | None = None) -> Any:
        version = apis.APIS[key].max_version if version is None else version
        number = next(_IDS)
        self._connection.sendall(b"".join(codec.encode_request(key, version, number, "t", request)))
        size = int.from_bytes(read_exactly(self._connection, 4), "big")
        told, answer = codec.decode_response(
            key, version, memoryview(read_exactly(self._connection, size))
        )
        assert told == number
        return answer

    def close(self) -> None:
        self._connection.close()


@pytest.fixture(scope="module")
def asker(bootstrap: str) -> Iterator[Asker]:
    found = Asker(bootstrap)
    yield found
    found.close()


@pytest.fixture
def topic(asker: Asker, client: BlockingClient, make_topic: Callable[..., str]) -> tuple[str, UUID]:
    name = make_topic()
    topic_id = wait_until(lambda: id_of(client, name), 30, "the topic's id")  # the oracle's is late
    assert topic_id is not None
    wish = (wish_of(topic_id),)
    wait_until(lambda: fetch(asker, wish, max_wait_ms=0) == {0}, 30, "the topic's leader")
    return name, topic_id


def id_of(client: BlockingClient, name: str) -> UUID | None:
    (entry,) = client.metadata([name]).topics.values()
    return entry.topic_id


def create(asker: Asker, *names: str) -> dict[str, ErrorCode]:
    topics = tuple(
        e.create_topics.CreatableTopic(
            name=name, num_partitions=1, replication_factor=1, assignments=(), configs=()
        )
        for name in names
    )
    request = e.create_topics.CreateTopicsRequest(topics=topics, timeout_ms=10_000)
    answer = asker.ask(apis.CREATE_TOPICS, request)
    return {each.name: each.error_code for each in answer.topics}


def test_names_that_no_new_topic_has(asker: Asker) -> None:
    assert create(asker, "small.answers") == {"small.answers": _E.none}
    assert create(asker, "small_answers", "small.answers", "__cluster_metadata", "a/b") == {
        "small_answers": _E.invalid_topic_exception,
        "small.answers": _E.topic_already_exists,
        "__cluster_metadata": _E.invalid_request,
        "a/b": _E.invalid_topic_exception,
    }


def test_topics_that_cannot_be_deleted(asker: Asker, topic: tuple[str, UUID]) -> None:
    state = e.delete_topics.DeleteTopicState
    wanted = (
        state(),
        state(name=topic[0], topic_id=topic[1]),
        state(name=topic[0]),
        state(topic_id=topic[1]),
        state(topic_id=UUID(int=7)),
    )
    request = e.delete_topics.DeleteTopicsRequest(topics=wanted, timeout_ms=10_000)

    answer = asker.ask(apis.DELETE_TOPICS, request)

    codes = sorted(each.error_code.name for each in answer.responses)
    assert codes == ["invalid_request"] * 3 + ["unknown_topic_id"]


def test_topic_that_is_asked_for_twice(asker: Asker, topic: tuple[str, UUID]) -> None:
    twice = (e.metadata.MetadataRequestTopic(name=topic[0]),) * 2
    request = e.metadata.MetadataRequest(topics=twice, allow_auto_topic_creation=False)
    assert len(asker.ask(apis.METADATA, request).topics) == 1

    def wish(offset: int) -> f.FetchPartition:
        return f.FetchPartition(0, LeaderEpoch(-1), offset, LeaderEpoch(-1), -1, 1_000)

    named = (f.FetchTopic("", topic[1], (wish(0), wish(5))),)
    answer = asker.ask(apis.FETCH, f.FetchRequest(-1, 0, 1, 1_000, 0, 0, -1, named))
    (found,) = answer.topics
    assert [part.error_code for part in found.partitions] == [_E.offset_out_of_range]

    unknown = (f.FetchTopic("", None, (wish(0),)),)
    answer = asker.ask(apis.FETCH, f.FetchRequest(-1, 0, 1, 1_000, 0, 0, -1, unknown))
    assert answer.topics[0].partitions[0].error_code == _E.unknown_topic_id


def test_group_without_a_name(
    asker: Asker, client: BlockingClient, topic: tuple[str, UUID]
) -> None:
    client.committed_offsets("", [])  # the coordinator is there, and read
    o = e.offset_commit

    def commit(topic_id: UUID | None) -> ErrorCode:
        part = o.OffsetCommitRequestPartition(partition_index=0, committed_offset=0)
        wanted = o.OffsetCommitRequestTopic(topic_id=topic_id, partitions=(part,))
        request = o.OffsetCommitRequest(
            group_id="", generation_id_or_member_epoch=-1, member_id="", topics=(wanted,)
        )
        code: ErrorCode = asker.ask(apis.OFFSET_COMMIT, request).topics[0].partitions[0].error_code
        return code

    assert (commit(None), commit(topic[1])) == (_E.unknown_topic_id, _E.none)

    groups = e.describe_groups.DescribeGroupsRequest(groups=("",))
    (group,) = asker.ask(apis.DESCRIBE_GROUPS, groups).groups
    assert (group.error_code, group.group_state) == (_E.none, "Empty")
    gone = e.delete_groups.DeleteGroupsRequest(groups_names=("",))
    codes = [asker.ask(apis.DELETE_GROUPS, gone).results[0].error_code for _ in range(2)]
    assert codes == [_E.none, _E.group_id_not_found]


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (2, "no-such-topic", _E.unknown_topic_or_partition),
        (2, "", _E.invalid_topic_exception),
        (2, "a/b", _E.invalid_topic_exception),
        (4, "99", _E.invalid_request),
        (4, "one", _E.invalid_request),
        (3, "x", _E.invalid_request),
    ],
)
def test_configs_of_what_is_not_there(asker: Asker, kind: int, name: str, code: ErrorCode) -> None:
    d = e.describe_configs
    resource = d.DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=None
    )

    answer = asker.ask(apis.DESCRIBE_CONFIGS, d.DescribeConfigsRequest(resources=(resource,)))

    assert answer.results[0].error_code is code


@pytest.mark.parametrize(
    ("types", "code"),
    [((), _E.none), ((2, 4), _E.none), ((8, 16, 32), _E.none), ((3,), _E.unsupported_version)],
)
def test_resources_with_a_configuration(
    asker: Asker, topic: tuple[str, UUID], types: tuple[int, ...], code: ErrorCode
) -> None:
    request = e.list_config_resources.ListConfigResourcesRequest(resource_types=types)

    answer = asker.ask(apis.LIST_CONFIG_RESOURCES, request)

    assert answer.error_code is code
    found = {(each.resource_name, each.resource_type) for each in answer.config_resources}
    assert ((topic[0], 2) in found, ("1", 4) in found) == (types in ((), (2, 4)),) * 2


@pytest.mark.parametrize("timestamp", [-5, -6])
def test_offsets_of_what_is_stored_elsewhere(
    asker: Asker, topic: tuple[str, UUID], timestamp: int
) -> None:
    part = e.list_offsets.ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    wanted = e.list_offsets.ListOffsetsTopic(name=topic[0], partitions=(part,))
    request = e.list_offsets.ListOffsetsRequest(replica_id=-1, topics=(wanted,))

    (found,) = asker.ask(apis.LIST_OFFSETS, request).topics[0].partitions

    assert (found.error_code, found.offset, found.timestamp) == (_E.none, -1, -1)


@pytest.mark.parametrize("transactional_id", [None, "t"])
@pytest.mark.parametrize("fields", [{"producer_id": 5}, {"producer_epoch": 0}])
def test_producer_id_without_its_epoch(
    asker: Asker, transactional_id: str | None, fields: dict[str, Any]
) -> None:
    request = e.init_producer_id.InitProducerIdRequest(
        transactional_id=transactional_id, transaction_timeout_ms=1_000, **fields
    )

    answer = asker.ask(apis.INIT_PRODUCER_ID, request, 5)

    assert answer.error_code is _E.invalid_request


def test_records_that_are_out_of_time(asker: Asker, topic: tuple[str, UUID]) -> None:
    now_ms = int(time.time() * 1_000)
    times = (now_ms, now_ms + 3 * HOUR_MS, now_ms, now_ms + 2 * HOUR_MS)
    batch = build_batch([Record(None, b"v", (), each) for each in times])
    part = p.ProducePartition(0, memoryview(bytearray(batch)))
    request = p.ProduceRequest(None, -1, 10_000, (p.ProduceTopic("", topic[1], (part,)),))

    (found,) = asker.ask(apis.PRODUCE, request).topics[0].partitions

    assert found.error_code == _E.invalid_timestamp
    assert [each.batch_index for each in found.record_errors] == [1, 3]


def test_replicas_to_be_moved_to_an_unknown_directory(
    asker: Asker, topic: tuple[str, UUID]
) -> None:
    a = e.alter_replica_log_dirs
    wanted = a.AlterReplicaLogDirTopic(name=topic[0], partitions=(0, 9))
    directory = a.AlterReplicaLogDir(path="/no/such", topics=(wanted,))

    answer = asker.ask(apis.ALTER_REPLICA_LOG_DIRS, a.AlterReplicaLogDirsRequest(dirs=(directory,)))

    codes = [part.error_code for part in answer.results[0].partitions]
    assert codes == [_E.log_dir_not_found] * 2


@pytest.mark.parametrize(
    "key",
    [
        apis.CREATE_DELEGATION_TOKEN, apis.RENEW_DELEGATION_TOKEN, apis.EXPIRE_DELEGATION_TOKEN,
        apis.DESCRIBE_DELEGATION_TOKEN,
    ],
)  # fmt: skip
def test_tokens_of_nobody(asker: Asker, key: int) -> None:
    answer = asker.ask(key, apis.APIS[key].request())

    assert answer.error_code is _E.delegation_token_request_not_allowed


def test_throttles_of_replication(asker: Asker, topic: tuple[str, UUID]) -> None:
    i = e.incremental_alter_configs

    def set_(kind: int, name: str, key: str, value: str) -> ErrorCode:
        config = i.AlterableConfig(name=key, config_operation=0, value=value)
        resource = i.AlterConfigsResource(resource_type=kind, resource_name=name, configs=(config,))
        answer = asker.ask(
            apis.INCREMENTAL_ALTER_CONFIGS, i.IncrementalAlterConfigsRequest(resources=(resource,))
        )
        code: ErrorCode = answer.responses[0].error_code
        return code

    replicas, rate = "leader.replication.throttled.replicas", "leader.replication.throttled.rate"
    values = ("0:1,0:2", "*", "", "0", "x:1", "*,0:1")
    codes = [set_(2, topic[0], replicas, value) for value in values]
    assert codes == [_E.none] * 3 + [_E.invalid_config] * 3
    rates = [set_(4, "1", rate, value) for value in ("1000000", "0", "x", "-1")]
    assert rates == [_E.none] * 2 + [_E.invalid_request] * 2


def fetch(asker: Asker, topics: tuple[f.FetchTopic, ...], **limits: int) -> set[int]:
    """The codes of the answer. It may wait for a second."""
    fields = {"max_wait_ms": 1_000, "min_bytes": 1, "max_bytes": 1 << 20, **limits}
    request = f.FetchRequest(-1, isolation_level=0, session_id=0, session_epoch=-1,
                             topics=topics, **fields)  # fmt: skip
    answer = asker.ask(apis.FETCH, request)
    return {part.error_code for topic in answer.topics for part in topic.partitions}


def fetched_in(asker: Asker, topics: tuple[f.FetchTopic, ...], **limits: int) -> float:
    """How many seconds a fetch waits."""
    begin = time.monotonic()
    fetch(asker, topics, **limits)
    return time.monotonic() - begin


def wish_of(topic_id: UUID, index: int = 0, max_bytes: int = 1 << 20) -> f.FetchTopic:
    part = f.FetchPartition(index, LeaderEpoch(-1), 0, LeaderEpoch(-1), -1, max_bytes)
    return f.FetchTopic("", topic_id, (part,))


def test_fetch_of_a_topic_and_of_an_unknown_one_waits(
    asker: Asker, topic: tuple[str, UUID]
) -> None:
    unknown = wish_of(UUID(int=7))

    assert fetched_in(asker, (unknown, wish_of(topic[1]))) >= 0.9
    assert fetched_in(asker, (wish_of(topic[1]), wish_of(topic[1], 9))) >= 0.9
    assert fetched_in(asker, (unknown,), max_wait_ms=30_000) < 20


def test_fetch_of_a_full_partition_does_not_wait(asker: Asker, topic: tuple[str, UUID]) -> None:
    for _ in range(4):
        batch = build_batch([Record(None, b"x" * 1_000, (), int(time.time() * 1_000))])
        part = p.ProducePartition(0, memoryview(bytearray(batch)))
        request = p.ProduceRequest(None, -1, 10_000, (p.ProduceTopic("", topic[1], (part,)),))
        assert asker.ask(apis.PRODUCE, request).topics[0].partitions[0].error_code == 0
    limits = {"min_bytes": 4_000, "max_wait_ms": 30_000}

    assert fetched_in(asker, (wish_of(topic[1], max_bytes=4_000),), **limits) < 20


def test_transactions_of_an_expression_that_is_none(asker: Asker) -> None:
    request = e.list_transactions.ListTransactionsRequest(transactional_id_pattern="(")

    code = asker.ask(apis.LIST_TRANSACTIONS, request).error_code

    assert code is _E.invalid_regular_expression


def test_vote_for_one_more_broker(asker: Asker) -> None:
    shape = apis.APIS[apis.ADD_RAFT_VOTER].request
    listener = get_type_hints(shape)["listeners"].__args__[0]
    at = listener(name="CONTROLLER", host="h", port=1)
    request = shape(voter_id=7, voter_directory_id=UUID(int=5), listeners=(at,))

    assert asker.ask(apis.ADD_RAFT_VOTER, request).error_code is _E.unsupported_version
