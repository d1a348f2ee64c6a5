"""The extension for plain fetch requests takes only what the general codec reads, with the same
fields, and encodes the same bytes."""

from __future__ import annotations

from contextlib import suppress
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from josefine_broker.records.plain_fetch import PlainFetch, PlainFetchRequest, compiled, load
from josefine_broker.wire.apis import APIS, FETCH
from josefine_broker.wire.codec import (
    decode_request,
    encode_request,
    encode_response,
    parse_request_header,
)
from josefine_broker.wire.fetch import (
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    FetchTopicResponse,
)
from tests.unit.josefine_broker.plain_frames import EDITS, edited

VERSIONS = range(APIS[FETCH].min_version, APIS[FETCH].max_version + 1)
ID_SINCE = 13
TOPIC_ID = UUID(int=0x1234567890ABCDEF1234567890ABCDEF)
PARTITION = FetchPartition(0, -1, 5, -1, -1, 1 << 20)  # type: ignore[arg-type]
pytestmark = pytest.mark.skipif(compiled is None, reason="not compiled for this platform")


def extension() -> PlainFetch:
    assert compiled is not None
    return compiled


def frame_of(
    *partitions: FetchPartition,
    version: int = 12,
    topic: str = "orders",
    client_id: str | None = "client",
    correlation_id: int = 7,
    **changes: object,
) -> memoryview:
    """A request, without its length prefix; `changes` are fields of the request."""
    by_id = version >= ID_SINCE
    named = FetchTopic("" if by_id else topic, TOPIC_ID if by_id else None, partitions)
    request = FetchRequest(-1, 500, 1, 1 << 20, 0, 0, -1, (named,))._replace(**changes)
    whole = b"".join(encode_request(FETCH, version, correlation_id, client_id, request))
    return memoryview(bytearray(whole[4:]))


def taken_by_the_general_codec(frame: memoryview) -> PlainFetchRequest:
    """The same fields from the general codec, which also says that the request is plain."""
    header = parse_request_header(frame)
    request: FetchRequest = decode_request(header, frame)
    (topic,) = request.topics
    (part,) = topic.partitions
    assert (request.replica_id, request.session_id, request.session_epoch) == (-1, 0, -1)
    assert (request.forgotten, request.rack_id) == ((), "")
    by_id = topic.topic_id is not None
    name = topic.topic_id.bytes if topic.topic_id is not None else topic.name.encode()
    return (
        (name, part.index, by_id), header.correlation_id, header.api_version, request.min_bytes,
        request.max_bytes, request.isolation_level, part.current_leader_epoch, part.fetch_offset,
        part.max_bytes,
    )  # fmt: skip


@st.composite
def frames(draw: st.DrawFn) -> bytearray:
    """A request that is plain, or differs from a plain one in a field or two."""
    part = FetchPartition(
        draw(st.sampled_from([0, 1, 70_000])),
        draw(st.sampled_from([-1, 0, 3])),  # type: ignore[arg-type]
        draw(st.integers(0, 2**62)),
        -1,  # type: ignore[arg-type]
        -1,
        draw(st.integers(0, 2**31 - 1)),
    )
    odd = draw(
        st.sampled_from(
            [{}, {}, {"replica_id": 2}, {"session_id": 9, "session_epoch": 3}, {"rack_id": "r"}]
        )
    )
    return bytearray(
        frame_of(
            *[part] * draw(st.sampled_from([1, 1, 1, 2])),
            version=draw(st.sampled_from(VERSIONS)),
            topic=draw(st.sampled_from(["orders", "o", "t" * 126, "t" * 127, "käse"])),
            client_id=draw(st.sampled_from([None, "", "client", "ä"])),
            correlation_id=draw(st.integers(-(2**31), 2**31 - 1)),
            min_bytes=draw(st.integers(0, 2**31 - 1)),
            max_bytes=draw(st.integers(0, 2**31 - 1)),
            isolation_level=draw(st.sampled_from([0, 1, 2])),
            **odd,
        )
    )


@settings(max_examples=300, deadline=None)
@given(frames(), EDITS)
def test_whatever_the_extension_takes_the_general_codec_reads_with_the_same_fields(
    frame: bytearray, edits: list[tuple[int, int, bytes]]
) -> None:
    changed = edited(frame, edits)

    found = extension().parse(changed)

    if found is not None:
        assert found == taken_by_the_general_codec(changed)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_plain_request_of_every_version_is_taken_and_none_that_is_cut_or_longer(
    version: int,
) -> None:
    whole = frame_of(PARTITION, version=version, isolation_level=1)

    found = extension().parse(whole)

    assert found is not None
    assert found == taken_by_the_general_codec(whole)
    for at in range(len(whole)):
        assert extension().parse(whole[:at]) is None
        for value in (0, 1, 0x7F, 0x80, 0xFF):
            changed = bytearray(whole)
            changed[at] = value
            again = extension().parse(memoryview(changed))
            if again is not None:
                assert again == taken_by_the_general_codec(memoryview(changed)), (at, value)
    assert extension().parse(memoryview(bytes(whole) + b"\0")) is None


@pytest.mark.parametrize(
    "frame",
    [
        frame_of(PARTITION, replica_id=2),
        frame_of(PARTITION, session_id=9, session_epoch=3),
        frame_of(PARTITION, session_epoch=0),
        frame_of(PARTITION, rack_id="r"),
        frame_of(PARTITION, version=11, rack_id="r"),
        frame_of(PARTITION, PARTITION),
        frame_of(),
        frame_of(PARTITION, isolation_level=2),
    ],
)
def test_what_is_not_plain_is_left_to_the_general_path(frame: memoryview) -> None:
    assert extension().parse(frame) is None


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("isolation", [0, 1])
def test_answers_are_those_of_the_general_codec(version: int, isolation: int) -> None:
    request = extension().parse(frame_of(PARTITION, version=version, isolation_level=isolation))
    assert request is not None
    by_id = version >= ID_SINCE
    for size in (1, 126, 127, 128, 16_383, 16_384, 1 << 21):
        records = b"r" * size

        before, after = extension().answer(request, 1 << 40, 90, 3, size)

        aborted = () if isolation else None
        part = FetchPartitionResponse(0, 0, 1 << 40, 90, 3, aborted, -1, (records,))
        topic = FetchTopicResponse("" if by_id else "orders", TOPIC_ID if by_id else None, (part,))
        whole = encode_response(FETCH, version, 7, FetchResponse(topics=(topic,)))
        assert before + records + after == b"".join(whole)


def test_parsed_requests_that_were_tampered_with_are_refused_without_a_wild_read() -> None:
    request = extension().parse(frame_of(PARTITION))
    assert request is not None
    odd: list[object] = [-1, 0, 2**31, 2**62, None, b"x", 2**70, (), (b"x" * 127, 0, False)]
    for field in range(9):
        for value in odd:
            changed = (*request[:field], value, *request[field + 1 :])
            with suppress(TypeError, ValueError, OverflowError):
                extension().answer(changed, 0, 0, 0, 1)  # type: ignore[arg-type]
    for records_bytes in (-1, 2**31, 2**62):
        with pytest.raises(ValueError, match="size"):
            extension().answer(request, 0, 0, 0, records_bytes)


def test_a_platform_without_a_binary_has_no_plain_path() -> None:
    assert load("plan9_pdp11") is None
