"""The frames of a follower's plain fetch are the codec's: the same bytes, the same shapes."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from josefine_broker.wire.apis import FETCH
from josefine_broker.wire.codec import (
    decode_request,
    decode_response,
    encode_request,
    encode_response,
    parse_request_header,
)
from josefine_broker.wire.fetch import (
    AbortedTransaction,
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    FetchTopicResponse,
    ForgottenTopic,
)
from josefine_broker.wire.produce import NodeEndpoint
from josefine_broker.wire.replica_frames import (
    RepeatedAnswer,
    RepeatedRequest,
    decode_replica_request,
    decode_replica_response,
    encode_replica_request,
    encode_replica_response,
    session_of,
)
from tests.unit.josefine_broker.plain_frames import EDITS, edited

TOPIC_ID, CLIENT = UUID(int=0x1234567890ABCDEF1234567890ABCDEF), "replica-2"
VERSIONS = st.sampled_from([15, 16, 17, 18])
INT32, INT64 = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
PART = FetchPartition(3, 5, 70, 4, 2, 1 << 20)  # type: ignore[arg-type]
RESULT = FetchPartitionResponse(3, 0, 70, 69, 2, None, -1, (b"r" * 100,))


def request_of(*parts: FetchPartition, **fields: Any) -> FetchRequest:
    topics = (FetchTopic("", TOPIC_ID, parts),) if parts else ()
    request = FetchRequest(2, 500, 1, 1 << 24, 0, 9, 7, topics, replica_epoch=11)
    return request._replace(**fields)


def response_of(*parts: FetchPartitionResponse, **fields: Any) -> FetchResponse:
    topics = (FetchTopicResponse("", TOPIC_ID, parts),) if parts else ()
    return FetchResponse(0, 0, 9, topics)._replace(**fields)


def request_frame(version: int, request: FetchRequest, client: str | None = CLIENT) -> bytes:
    return b"".join(encode_request(FETCH, version, 77, client, request))


def response_frame(version: int, response: FetchResponse) -> bytes:
    return b"".join(encode_response(FETCH, version, 77, response))


PARTS = st.builds(
    FetchPartition, INT32, INT32, INT64, INT32, INT64, INT32,
    st.sampled_from([None, None, TOPIC_ID]), st.sampled_from([2**63 - 1, 2**63 - 1, 5]),
)  # fmt: skip
REQUESTS = st.builds(
    FetchRequest, st.sampled_from([2, 2, 0, -1]), INT32, INT32, INT32, st.sampled_from([0, 1]),
    st.sampled_from([9, 0]), st.sampled_from([7, 7, 0, -1]),
    st.sampled_from([0, 1, 1, 1, 2]).flatmap(
        lambda n: st.tuples(st.lists(PARTS, min_size=n, max_size=n)).map(
            lambda found: (FetchTopic("", TOPIC_ID, tuple(found[0])),) if found[0] else ()
        )
    ),
    st.sampled_from([(), (), (ForgottenTopic("", TOPIC_ID, (0,)),)]),
    st.sampled_from(["", "", "r"]), st.sampled_from([11, -1]), st.sampled_from([None, None, "c"]),
)  # fmt: skip
RESULTS = st.builds(
    FetchPartitionResponse, INT32, st.sampled_from([0, 0, 0, 6]), INT64, INT64, INT64,
    st.sampled_from([None, None, (), (AbortedTransaction(1, 2),)]), st.sampled_from([-1, -1, 3]),
    st.sampled_from([None, (), (b"r" * 10,), (b"r" * 126,), (b"a" * 120, b"b" * 20_000)]),
    st.sampled_from([None, None, None, (1, 2)]), st.sampled_from([None, None, None, (1, 2)]),
)  # fmt: skip
RESPONSES = st.builds(
    FetchResponse, st.sampled_from([0, 5]), st.sampled_from([0, 0, 70]), INT32,
    st.lists(RESULTS, max_size=2).map(
        lambda found: [FetchTopicResponse("", TOPIC_ID, found)] if found else []
    ),
    st.sampled_from([(), (), (NodeEndpoint(1, "h", 2, None),)]),
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(VERSIONS, REQUESTS, st.sampled_from(["", CLIENT, "ä"]))
def test_a_plain_request_has_the_codecs_bytes_and_is_read_as_the_codec_reads_it(
    version: int, request: FetchRequest, client: str
) -> None:
    frame = request_frame(version, request, client)

    made = encode_replica_request(version, 77, client, request)

    assert made in (None, frame)
    is_plain = (
        sum(len(topic.partitions) for topic in request.topics) <= 1
        and not (request.forgotten or request.rack_id or request.cluster_id)
        and all(part[6:] == PART[6:] for topic in request.topics for part in topic.partitions)
    )
    assert (made is not None) is (is_plain and request.replica_id >= 0)
    view = memoryview(frame)[4:]
    header = parse_request_header(view)
    read = decode_replica_request(header, view)
    assert read in (None, decode_request(header, view))
    if is_plain and request.replica_id >= 0 and request.session_epoch > 0:
        assert read is not None


@settings(max_examples=300, deadline=None)
@given(VERSIONS, RESPONSES)
def test_a_plain_answer_has_the_codecs_bytes_and_is_read_as_the_codec_reads_it(
    version: int, response: FetchResponse
) -> None:
    frame = response_frame(version, response)

    made = encode_replica_response(version, 77, response)

    assert made is None or b"".join(made) == frame
    read = decode_replica_response(version, memoryview(frame)[4:])
    assert read is None or read == decode_response(FETCH, version, memoryview(frame)[4:])
    parts = [part for topic in response.topics for part in topic.partitions]
    is_plain = not (response.error_code or response.node_endpoints or len(parts) > 1) and all(
        part[1] == 0 and part[5] is None and part[7] is not None and part[8:] == (None, None)
        for part in parts
    )
    if is_plain:
        assert made is not None
        assert read is not None


@settings(max_examples=300, deadline=None)
@given(VERSIONS, st.sampled_from([(), (PART,)]), EDITS)
def test_what_is_taken_of_a_damaged_request_is_what_the_codec_reads(
    version: int, parts: tuple[FetchPartition, ...], edits: Any
) -> None:
    changed = edited(bytearray(request_frame(version, request_of(*parts))[4:]), edits)
    try:
        header = parse_request_header(changed)
    except Exception:
        return

    found = decode_replica_request(header, changed)

    assert found is None or found == decode_request(header, changed)


@settings(max_examples=300, deadline=None)
@given(VERSIONS, st.sampled_from([(), (RESULT,), (RESULT._replace(records=()),)]), EDITS)
def test_what_is_taken_of_a_damaged_answer_is_what_the_codec_reads(
    version: int, parts: tuple[FetchPartitionResponse, ...], edits: Any
) -> None:
    changed = edited(bytearray(response_frame(version, response_of(*parts))[4:]), edits)

    found = decode_replica_response(version, changed)

    assert found is None or found == decode_response(FETCH, version, changed)


@pytest.mark.parametrize("version", [15, 18])
def test_every_changed_byte_of_a_plain_frame_is_read_alike_or_left_to_the_codec(
    version: int,
) -> None:
    request = request_frame(version, request_of(PART))[4:]
    response = response_frame(version, response_of(RESULT))[4:]
    for at in range(max(len(request), len(response))):
        for value in (0, 1, 2, 3, 0x7F, 0x80, 0xFF):
            if 8 <= at < len(request):  # key, version and correlation id are the header's
                changed = bytearray(request)
                changed[at] = value
                try:
                    header = parse_request_header(changed)
                except Exception:
                    continue
                taken = decode_replica_request(header, memoryview(changed))
                assert taken is None or taken == decode_request(header, memoryview(changed)), at
            if at < len(response):
                changed = bytearray(response)
                changed[at] = value
                heard = decode_replica_response(version, memoryview(changed))
                assert heard is None or heard == decode_response(
                    FETCH, version, memoryview(changed)
                )


@pytest.mark.parametrize(
    "fields",
    [{"replica_id": -1}, {"session_epoch": 0}, {"session_epoch": -1}, {"rack_id": "r"},
     {"forgotten": (ForgottenTopic("", TOPIC_ID, (0,)),)}, {"cluster_id": "c"}],
)  # fmt: skip
def test_a_request_that_is_not_a_followers_next_one_is_left_to_the_codec(
    fields: dict[str, Any],
) -> None:
    frame = memoryview(request_frame(18, request_of(PART, **fields)))[4:]

    assert decode_replica_request(parse_request_header(frame), frame) is None


@pytest.mark.parametrize("version", [13, 14, 19])
def test_versions_without_the_senders_tag_are_left_to_the_codec(version: int) -> None:
    assert encode_replica_request(version, 7, CLIENT, request_of(PART)) is None
    assert encode_replica_response(version, 7, response_of(RESULT)) is None
    frame = memoryview(response_frame(18, response_of(RESULT)))[4:]
    assert decode_replica_response(version, frame) is None


@settings(max_examples=60)
@given(VERSIONS, INT32, INT32, INT64, st.sampled_from(["", "r", "replica-12"]), EDITS)
def test_the_next_request_for_a_partition_differs_in_three_numbers(
    version: int, correlation_id: int, epoch: int, offset: int, client: str, edits: Any
) -> None:
    first = encode_replica_request(version, 77, client, request_of(PART))
    part = PART._replace(fetch_offset=offset)
    request = request_of(part, session_epoch=epoch)
    frame = encode_replica_request(version, correlation_id, client, request)
    assert first is not None
    assert frame is not None
    repeated = RepeatedRequest(memoryview(first)[4:])

    assert repeated.frame(correlation_id, epoch, offset) == frame
    view = memoryview(frame)[4:]
    assert session_of(view) == request.session_id
    assert repeated.read(view) == (correlation_id, epoch, offset)
    other = edited(bytearray(view), edits)
    found = repeated.read(other)
    assert found is None or repeated.frame(*found)[4:] == other


@settings(max_examples=60)
@given(VERSIONS, RESULTS, EDITS)
def test_an_answer_with_records_of_one_partition_is_read_as_the_codec_reads_it(
    version: int, result: FetchPartitionResponse, edits: Any
) -> None:
    frame = response_frame(version, response_of(result))
    repeated = RepeatedAnswer(9, TOPIC_ID.bytes, result.index)
    for view in (memoryview(frame)[4:], edited(bytearray(frame[4:]), edits)):
        found = repeated.read(view)
        if found is None:
            continue
        _, response = decode_response(FETCH, version, view)
        (topic,) = response.topics
        (part,) = topic.partitions
        assert (response.session_id, topic.topic_id, part.index) == (9, TOPIC_ID, result.index)
        assert response.error_code == part.error_code == response.throttle_ms == 0
        assert part.aborted_transactions is part.diverging is part.leader is None
        records = b"".join(bytes(each) for each in part.records)
        assert found[:2] == (part.high_watermark, part.log_start_offset)
        assert bytes(found[2]) == records


def test_the_usual_answer_with_records_is_read() -> None:
    frame = response_frame(18, response_of(RESULT))
    found = RepeatedAnswer(9, TOPIC_ID.bytes, RESULT.index).read(memoryview(frame)[4:])
    assert found is not None
    assert found[:2] == (RESULT.high_watermark, RESULT.log_start_offset)
    assert bytes(found[2]) == b"r" * 100
    others = (9, TOPIC_ID.bytes, RESULT.index + 1), (8, TOPIC_ID.bytes, RESULT.index)
    assert [RepeatedAnswer(*each).read(memoryview(frame)[4:]) for each in others] == [None, None]
