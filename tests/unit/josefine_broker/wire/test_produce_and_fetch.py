"""The hand-written Produce and Fetch against kio: byte for byte, both directions, all versions."""

from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from josefine_broker.wire import (
    apis,
    codec,
    fetch,
    fetch_request,
    fetch_response,
    produce,
    produce_request,
    produce_response,
)
from tests.unit.josefine_broker.wire.kio_entities import (
    entities,
    from_bytes,
    plain,
    schema,
    to_bytes,
)

PRODUCE_VERSIONS = range(3, 14)
FETCH_VERSIONS = range(4, 19)
NOT_SENT = frozenset({"snapshot_id"})
"""Only Kafka's own metadata log has it (wire/fetch.py)."""


def field(value: SimpleNamespace, name: str, default: Any) -> Any:
    return getattr(value, name, default)


def topic_of(value: SimpleNamespace) -> tuple[str, Any]:
    return field(value, "name", field(value, "topic", "")), field(value, "topic_id", None)


def endpoints_of(value: SimpleNamespace) -> tuple[produce.NodeEndpoint, ...]:
    return tuple(
        produce.NodeEndpoint(end.node_id, end.host, end.port, end.rack)
        for end in field(value, "node_endpoints", ())
    )


def produce_request_of(theirs: SimpleNamespace) -> produce.ProduceRequest:
    topics = tuple(
        produce.ProduceTopic(
            *topic_of(topic),
            tuple(
                produce.ProducePartition(part.index, part.records) for part in topic.partition_data
            ),
        )
        for topic in theirs.topic_data
    )
    return produce.ProduceRequest(theirs.transactional_id, theirs.acks, theirs.timeout_ms, topics)


def produce_result_of(part: SimpleNamespace) -> produce.ProducePartitionResponse:
    leader = field(part, "current_leader", SimpleNamespace(leader_id=-1, leader_epoch=-1))
    return produce.ProducePartitionResponse(
        index=part.index,
        error_code=part.error_code,
        base_offset=part.base_offset,
        log_append_time_ms=part.log_append_time_ms,
        log_start_offset=field(part, "log_start_offset", -1),
        error_message=field(part, "error_message", None),
        record_errors=tuple(
            produce.RecordError(error.batch_index, error.batch_index_error_message)
            for error in field(part, "record_errors", ())
        ),
        leader_id=leader.leader_id,
        leader_epoch=leader.leader_epoch,
    )


def produce_response_of(theirs: SimpleNamespace) -> produce.ProduceResponse:
    topics = tuple(
        produce.ProduceTopicResponse(
            *topic_of(topic), tuple(map(produce_result_of, topic.partition_responses))
        )
        for topic in theirs.responses
    )
    return produce.ProduceResponse(topics, theirs.throttle_time_ms, endpoints_of(theirs))


def fetch_request_of(theirs: SimpleNamespace) -> fetch.FetchRequest:
    topics = tuple(
        fetch.FetchTopic(
            *topic_of(topic),
            tuple(
                fetch.FetchPartition(
                    index=part.partition,
                    current_leader_epoch=field(part, "current_leader_epoch", -1),
                    fetch_offset=part.fetch_offset,
                    last_fetched_epoch=field(part, "last_fetched_epoch", -1),
                    log_start_offset=field(part, "log_start_offset", -1),
                    max_bytes=part.partition_max_bytes,
                    replica_directory_id=field(part, "replica_directory_id", None),
                    high_watermark=field(part, "high_watermark", fetch.NO_HIGH_WATERMARK),
                )
                for part in topic.partitions
            ),
        )
        for topic in theirs.topics
    )
    replica_id = field(theirs, "replica_id", -1)
    state = field(theirs, "replica_state", SimpleNamespace(replica_id=replica_id, replica_epoch=-1))
    return fetch.FetchRequest(
        replica_id=state.replica_id,
        max_wait_ms=theirs.max_wait_ms,
        min_bytes=theirs.min_bytes,
        max_bytes=theirs.max_bytes,
        isolation_level=theirs.isolation_level,
        session_id=field(theirs, "session_id", 0),
        session_epoch=field(theirs, "session_epoch", -1),
        topics=topics,
        forgotten=tuple(
            fetch.ForgottenTopic(*topic_of(gone), gone.partitions)
            for gone in field(theirs, "forgotten_topics_data", ())
        ),
        rack_id=field(theirs, "rack_id", ""),
        replica_epoch=state.replica_epoch,
        cluster_id=field(theirs, "cluster_id", None),
    )


def pair_of(struct: SimpleNamespace | None, first: str, second: str) -> tuple[int, int] | None:
    if struct is None or (getattr(struct, first), getattr(struct, second)) == (-1, -1):
        return None
    return getattr(struct, first), getattr(struct, second)


def fetch_result_of(part: SimpleNamespace) -> fetch.FetchPartitionResponse:
    aborted = part.aborted_transactions
    return fetch.FetchPartitionResponse(
        index=part.partition_index,
        error_code=part.error_code,
        high_watermark=part.high_watermark,
        last_stable_offset=part.last_stable_offset,
        log_start_offset=field(part, "log_start_offset", -1),
        aborted_transactions=aborted
        if aborted is None
        else tuple(fetch.AbortedTransaction(a.producer_id, a.first_offset) for a in aborted),
        preferred_read_replica=field(part, "preferred_read_replica", -1),
        records=None if part.records is None else (part.records,) if part.records else (),
        diverging=pair_of(field(part, "diverging_epoch", None), "epoch", "end_offset"),
        leader=pair_of(field(part, "current_leader", None), "leader_id", "leader_epoch"),
    )


def fetch_response_of(theirs: SimpleNamespace) -> fetch.FetchResponse:
    return fetch.FetchResponse(
        throttle_ms=theirs.throttle_time_ms,
        error_code=field(theirs, "error_code", 0),
        session_id=field(theirs, "session_id", 0),
        topics=tuple(
            fetch.FetchTopicResponse(
                *topic_of(topic), tuple(map(fetch_result_of, topic.partitions))
            )
            for topic in theirs.responses
        ),
        node_endpoints=endpoints_of(theirs),
    )


def assert_equal_to_kio(theirs: Any, version: int, decode: Any, encode: Any, ours_of: Any) -> None:
    body = to_bytes(theirs)
    frame = memoryview(bytearray(b"head") + body)

    ours, end = decode(frame, 4, version)

    assert ours == ours_of(plain(theirs))
    assert end == len(frame)
    assert b"".join(encode(bytearray(), ours, version)) == body


def each_message(versions: range) -> Any:
    return pytest.mark.parametrize("version", versions)


@each_message(PRODUCE_VERSIONS)
@settings(max_examples=25)
@given(data=st.data())
def test_produce_request_equals_kio(version: int, data: st.DataObject) -> None:
    """Checklist rows 17, 18."""
    theirs = data.draw(entities(schema(apis.PRODUCE, version, "request")))

    assert_equal_to_kio(
        theirs,
        version,
        produce_request.decode_request,
        produce_request.encode_request,
        produce_request_of,
    )


@each_message(PRODUCE_VERSIONS)
@settings(max_examples=25)
@given(data=st.data())
def test_produce_response_equals_kio(version: int, data: st.DataObject) -> None:
    """Checklist rows 17, 18."""
    theirs = data.draw(entities(schema(apis.PRODUCE, version, "response")))

    assert_equal_to_kio(
        theirs,
        version,
        produce_response.decode_response,
        produce_response.encode_response,
        produce_response_of,
    )


@each_message(FETCH_VERSIONS)
@settings(max_examples=25)
@given(data=st.data())
def test_fetch_request_equals_kio(version: int, data: st.DataObject) -> None:
    """Checklist rows 17, 18."""
    theirs = data.draw(entities(schema(apis.FETCH, version, "request")))

    assert_equal_to_kio(
        theirs,
        version,
        fetch_request.decode_request,
        fetch_request.encode_request,
        fetch_request_of,
    )


@each_message(FETCH_VERSIONS)
@settings(max_examples=25)
@given(data=st.data())
def test_fetch_response_equals_kio(version: int, data: st.DataObject) -> None:
    """Checklist rows 17, 18."""
    theirs = data.draw(entities(schema(apis.FETCH, version, "response"), NOT_SENT))

    assert_equal_to_kio(
        theirs,
        version,
        fetch_response.decode_response,
        fetch_response.encode_response,
        fetch_response_of,
    )


def one_batch(records: memoryview) -> produce.ProduceRequest:
    part = produce.ProducePartition(0, records)
    return produce.ProduceRequest(None, -1, 1000, (produce.ProduceTopic("t", None, (part,)),))


@pytest.mark.parametrize("version", [3, 8, 9, 12])
def test_produced_records_are_a_writable_slice_of_the_frame(version: int) -> None:
    buffers = codec.encode_request(0, version, 1, "c", one_batch(memoryview(b"records")))
    frame = memoryview(bytearray(b"".join(buffers))[4:])
    header = codec.parse_request_header(frame)

    records = codec.decode_request(header, frame).topics[0].partitions[0].records
    records[:3] = b"REC"

    assert bytes(records) == b"RECords"
    assert b"RECords" in bytes(frame)


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_fetched_records_go_out_as_the_buffers_of_the_log(version: int) -> None:
    slices = [memoryview(b"first batch"), b"second batch"]
    part = fetch.FetchPartitionResponse(0, records=slices)
    response = fetch.FetchResponse(topics=[fetch.FetchTopicResponse("t", None, [part])])

    buffers = codec.encode_response(apis.FETCH, version, 1, response)

    assert [buffer for buffer in buffers if buffer is slices[0] or buffer is slices[1]] == slices
    size = int.from_bytes(bytes(buffers[0][:4]), "big")
    assert size == sum(map(len, buffers)) - 4


def test_produce_request_records_are_not_copied_by_the_client() -> None:
    records = memoryview(b"a batch")

    buffers = codec.encode_request(apis.PRODUCE, 12, 1, "c", one_batch(records))

    assert any(buffer is records for buffer in buffers)


ENDPOINTS = (produce.NodeEndpoint(1, "host", 9092),)


@each_message(PRODUCE_VERSIONS)
def test_an_older_produce_response_drops_what_it_cannot_carry(version: int) -> None:
    """Handlers fill in everything; kio must still be able to read what goes out."""
    part = produce.ProducePartitionResponse(
        1, 6, 2, 3000, 4, "why", (produce.RecordError(0, "this one"),), 5, 6
    )
    topic = produce.ProduceTopicResponse("t", UUID(int=1), [part])
    response = produce.ProduceResponse([topic], 7, ENDPOINTS)

    body = b"".join(produce_response.encode_response(bytearray(), response, version))

    theirs = from_bytes(schema(apis.PRODUCE, version, "response"), body)
    assert theirs.responses[0].partition_responses[0].base_offset == 2
    assert b"".join(produce_response.encode_response(bytearray(), response, version)) == to_bytes(
        theirs
    )


@each_message(FETCH_VERSIONS)
def test_an_older_fetch_response_drops_what_it_cannot_carry(version: int) -> None:
    part = fetch.FetchPartitionResponse(
        1, 74, 2, 3, 4, (fetch.AbortedTransaction(5, 6),), 7, (b"records",), (8, 9), (10, 11)
    )
    topic = fetch.FetchTopicResponse("t", UUID(int=1), [part])
    response = fetch.FetchResponse(1, 0, 2, [topic], ENDPOINTS)

    body = b"".join(fetch_response.encode_response(bytearray(), response, version))

    theirs = from_bytes(schema(apis.FETCH, version, "response"), body)
    assert theirs.responses[0].partitions[0].records == b"records"


@each_message(FETCH_VERSIONS)
def test_an_older_fetch_request_drops_what_it_cannot_carry(version: int) -> None:
    part = fetch.FetchPartition(1, 2, 3, 4, 5, 6, UUID(int=7), 8)
    request = fetch.FetchRequest(
        replica_id=1,
        max_wait_ms=2,
        min_bytes=3,
        max_bytes=4,
        isolation_level=1,
        session_id=5,
        session_epoch=6,
        topics=(fetch.FetchTopic("t", UUID(int=8), (part,)),),
        forgotten=(fetch.ForgottenTopic("g", UUID(int=9), (1, 2)),),
        rack_id="rack",
        replica_epoch=10,
        cluster_id="cluster",
    )

    body = b"".join(fetch_request.encode_request(bytearray(), request, version))

    theirs = from_bytes(schema(apis.FETCH, version, "request"), body)
    assert theirs.topics[0].partitions[0].fetch_offset == 3


def test_produce_before_record_batches_has_no_transaction_and_less_of_an_answer() -> None:
    """Versions 0 to 2, by hand from the protocol guide, for kio has no schema of them."""
    request = b"\x00\x01" + b"\x00\x00\x03\xe8" + b"\x00\x00\x00\x01\x00\x01t"
    request += b"\x00\x00\x00\x01" + b"\x00\x00\x00\x05" + b"\x00\x00\x00\x02ab"
    numbers = b"\x00\x00\x00\x05\x00\x07" + bytes(7) + b"\x09"
    topics = b"\x00\x00\x00\x01\x00\x01t\x00\x00\x00\x01"
    append_time, throttle = bytes(7) + b"\x08", b"\x00\x00\x00\x06"
    answers = [
        topics + numbers,
        topics + numbers + throttle,
        topics + numbers + append_time + throttle,
    ]

    for version, answer in enumerate(answers):
        decoded, end = produce_request.decode_request(memoryview(request), 0, version)
        part = produce.ProducePartition(5, memoryview(b"ab"))
        topic = produce.ProduceTopic("t", None, (part,))
        assert decoded == produce.ProduceRequest(None, 1, 1000, (topic,))
        assert end == len(request)
        out = produce_request.encode_request(bytearray(), decoded, version)
        assert b"".join(out) == request

        result = produce.ProducePartitionResponse(5, 7, 9, 8 if version == 2 else -1)
        response = produce.ProduceResponse(
            (produce.ProduceTopicResponse("t", None, (result,)),), 6 if version else 0
        )
        written = produce_response.encode_response(bytearray(), response, version)
        assert b"".join(written) == answer
        assert produce_response.decode_response(answer, 0, version) == (response, len(answer))
