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
    ForgottenTopic,
)
from tests.unit.josefine_broker.plain_frames import EDITS, edited

VERSIONS = range(APIS[FETCH].min_version, APIS[FETCH].max_version + 1)
ID_SINCE = 13
TOPIC_ID = UUID(int=0x1234567890ABCDEF1234567890ABCDEF)
OTHER_ID = UUID(int=0x77)
FORGOTTEN = ForgottenTopic("orders", None, (0,))
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
    more: tuple[FetchPartition, ...] = (),
    **changes: object,
) -> memoryview:
    """A request, without its length prefix; `more` are partitions of a second topic, `changes`
    fields of the request."""
    by_id = version >= ID_SINCE
    topics = ((topic, TOPIC_ID, partitions), ("second", OTHER_ID, more))
    named = tuple(
        FetchTopic("" if by_id else name, topic_id if by_id else None, each)
        for name, topic_id, each in topics
        if each
    )
    request = FetchRequest(-1, 500, 1, 1 << 20, 0, 0, -1, named)._replace(**changes)
    whole = b"".join(encode_request(FETCH, version, correlation_id, client_id, request))
    return memoryview(bytearray(whole[4:]))


def taken_by_the_general_codec(frame: memoryview) -> PlainFetchRequest:
    """The same fields from the general codec, which also says that the request is plain."""
    header = parse_request_header(frame)
    request: FetchRequest = decode_request(header, frame)
    assert (request.replica_id, request.rack_id) == (-1, "")
    found = []
    for name, topic_id, partitions in request.topics:
        topic = name.encode() if header.api_version < ID_SINCE else raw_id(topic_id)
        for part in partitions:
            fields = part.index, part.current_leader_epoch, part.fetch_offset, part.max_bytes
            found.append((topic, *fields))
            is_consumers = part[3:5] == (-1, -1) and part[6:] == PARTITION[6:]
            assert is_consumers or not request.session_id
    gone = [
        (name.encode() if header.api_version < ID_SINCE else raw_id(topic_id), index)
        for name, topic_id, indexes in request.forgotten
        for index in indexes
    ]
    if request.session_id:
        assert request.session_epoch > 0
    else:
        assert request.session_epoch == -1
        assert found
        assert not gone
    return (
        tuple(found), header.correlation_id, header.api_version, request.max_wait_ms,
        request.min_bytes, request.max_bytes, request.isolation_level, request.session_id,
        request.session_epoch, tuple(gone),
    )  # fmt: skip


def raw_id(topic_id: UUID | None) -> bytes:
    return bytes(16) if topic_id is None else topic_id.bytes


@st.composite
def frames(draw: st.DrawFn) -> bytearray:
    """A request that is plain, or differs from a plain one in a field or two."""
    part = FetchPartition(
        draw(st.sampled_from([0, 1, 70_000])),
        draw(st.sampled_from([-1, 0, 3])),  # type: ignore[arg-type]
        draw(st.integers(0, 2**62)),
        draw(st.sampled_from([-1, -1, 4])),  # type: ignore[arg-type]
        draw(st.sampled_from([-1, -1, 4])),
        draw(st.integers(0, 2**31 - 1)),
    )
    session = {"session_id": 9, "session_epoch": 3}
    odd = draw(
        st.sampled_from(
            [
                {}, session, session, {"session_epoch": 0}, {"session_id": 9, "session_epoch": -1},
                {"replica_id": 2}, {"rack_id": "r"}, {"forgotten": (FORGOTTEN,)},
                {"forgotten": (FORGOTTEN,), **session}, {"forgotten": (FORGOTTEN,) * 2, **session},
            ]
        )
    )  # fmt: skip
    version = draw(st.sampled_from(VERSIONS))
    if version >= ID_SINCE:
        gone = ForgottenTopic("", TOPIC_ID, draw(st.sampled_from([(0,), (1, 70_000), ()])))
        odd = odd | {"forgotten": (gone,) * len(odd.get("forgotten", ()))}
    return bytearray(
        frame_of(
            *[part] * draw(st.sampled_from([1, 1, 1, 2, 64, 65])),
            version=version,
            more=draw(st.sampled_from([(), (), (PARTITION,), (PARTITION, PARTITION)])),
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
        frame_of(PARTITION, session_epoch=0),
        frame_of(PARTITION, session_id=9, session_epoch=0),
        frame_of(PARTITION, session_id=9, session_epoch=-1),
        frame_of(PARTITION, forgotten=(FORGOTTEN,)),
        frame_of(session_id=9, session_epoch=3, forgotten=(FORGOTTEN,) * 65),
        frame_of(session_id=9, session_epoch=3, forgotten=(ForgottenTopic("a", None, ()),)),
        frame_of(PARTITION._replace(log_start_offset=3), session_id=9, session_epoch=3),
        frame_of(PARTITION._replace(last_fetched_epoch=3), session_id=9, session_epoch=3),
        frame_of(PARTITION, rack_id="r"),
        frame_of(PARTITION, version=11, rack_id="r"),
        frame_of(*[PARTITION] * 65),
        frame_of(*[PARTITION] * 64, more=(PARTITION,)),
        frame_of(),
        frame_of(PARTITION, isolation_level=2),
    ],
)
def test_what_is_not_plain_is_left_to_the_general_path(frame: memoryview) -> None:
    assert extension().parse(frame) is None


@pytest.mark.parametrize("version", range(7, 19))
def test_an_incremental_request_is_taken_with_and_without_partitions(version: int) -> None:
    session = {"session_id": 9, "session_epoch": 3}
    first = ("", TOPIC_ID) if version >= ID_SINCE else ("orders", None)
    second = ("", OTHER_ID) if version >= ID_SINCE else ("second", None)
    gone = ForgottenTopic(*first, (0, 70_000)), ForgottenTopic(*second, tuple(range(62)))
    for parts, more, forgotten in (
        ((), (), ()), ((PARTITION,) * 3, (), gone[:1]), ((PARTITION,) * 63, (PARTITION,), gone),
    ):  # fmt: skip
        frame = frame_of(*parts, version=version, more=more, forgotten=forgotten, **session)

        assert extension().parse(frame) is not None
        assert extension().parse(frame) == taken_by_the_general_codec(frame)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("isolation", [0, 1])
def test_answers_are_those_of_the_general_codec(version: int, isolation: int) -> None:
    request = extension().parse(frame_of(PARTITION, version=version, isolation_level=isolation))
    assert request is not None
    by_id, session_id = version >= ID_SINCE, 0x7654321 if version >= 7 else 0
    for sizes in ((), (0,), (126, 127), (128, 16_383, 0), (16_384, 1 << 21), (1,) * 64):
        topics: dict[str, list[FetchPartitionResponse]] = {}
        parts, records = [], []
        for n, size in enumerate(sizes):
            name, topic_id = (("orders", TOPIC_ID), ("second", OTHER_ID))[n > 1]
            records.append(b"r" * size)
            aborted = () if isolation else None
            answer = FetchPartitionResponse(n, 0, 1 << 40, 90 + n, 3, aborted, -1, (records[-1],))
            topics.setdefault(name, []).append(answer)
            topic = raw_id(topic_id) if by_id else name.encode()
            parts.append((topic, n, 1 << 40, 90 + n, 3, size))

        pieces = extension().answer(request, session_id, parts)

        ids = {"orders": TOPIC_ID, "second": OTHER_ID}
        named = [
            FetchTopicResponse("" if by_id else name, ids[name] if by_id else None, each)
            for name, each in topics.items()
        ]
        whole = encode_response(FETCH, version, 7, FetchResponse(0, 0, session_id, named))
        assert len(pieces) == len(sizes) + 1
        joined = b"".join(each for pair in zip(pieces, records, strict=False) for each in pair)
        assert joined + pieces[-1] == b"".join(whole)


def test_parsed_requests_that_were_tampered_with_are_refused_without_a_wild_read() -> None:
    request = extension().parse(frame_of(PARTITION))
    assert request is not None
    part = (b"orders", 0, 1, 1, 1, 1)
    odd: list[object] = [-1, 0, 2**31, 2**62, None, b"x", 2**70, (), b"x" * 127, [part] * 65]
    for value in odd:
        for field in range(10):
            changed = (*request[:field], value, *request[field + 1 :])
            with suppress(TypeError, ValueError, OverflowError):
                extension().answer(changed, 0, [part])  # type: ignore[arg-type]
        for field in range(6):
            changed = (*part[:field], value, *part[field + 1 :])
            with suppress(TypeError, ValueError, OverflowError):
                extension().answer(request, 0, [part, changed])  # type: ignore[list-item]
        with suppress(TypeError, ValueError, OverflowError):
            extension().answer(request, value, value)  # type: ignore[arg-type]
    for records_bytes in (-1, 2**31, 2**62, 2**31 - 1):
        with pytest.raises(ValueError, match="size"):
            extension().answer(request, 0, [(b"orders", 0, 1, 1, 1, records_bytes)])
    with pytest.raises(ValueError, match="parts"):
        extension().answer(request, 0, [part] * 65)


def test_a_platform_without_a_binary_has_no_plain_path() -> None:
    assert load("plan9_pdp11") is None
