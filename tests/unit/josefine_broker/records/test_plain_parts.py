"""The extension takes produce requests for several partitions only where the general path takes
every batch, with the same fields, and answers them with the same bytes."""

from __future__ import annotations

import struct
from contextlib import suppress
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from josefine_broker.engine.metadata.topic_config import TopicSettings
from josefine_broker.engine.validation.produced_batch import validate_batch
from josefine_broker.records.batch import parse_header, stamp_crc
from josefine_broker.records.builder import Record, build_batch
from josefine_broker.records.plain_produce import (
    FRAME_BYTES_MAX,
    PARTS_FRAME_BYTES_MAX,
    PARTS_MAX,
    PlainProduce,
    PlainRequest,
    compiled,
)
from josefine_broker.wire.apis import PRODUCE
from josefine_broker.wire.codec import decode_request, encode_response, parse_request_header
from josefine_broker.wire.produce import (
    ProducePartitionResponse,
    ProduceResponse,
    ProduceTopicResponse,
)
from tests.unit.josefine_broker.plain_frames import (
    EDITS,
    ID_SINCE,
    PLAIN_RECORDS,
    RECORDS,
    TOPIC_ID,
    VERSIONS,
    Topics,
    batch_with,
    edited,
    frame_of,
    frame_with,
)

SETTINGS = TopicSettings()
OTHER_ID = UUID(int=0x77007700)  # no change of one byte makes it the id of no topic
pytestmark = pytest.mark.skipif(compiled is None, reason="not compiled for this platform")


def extension() -> PlainProduce:
    assert compiled is not None
    return compiled


def by_the_general_path(frame: memoryview) -> list[PlainRequest]:
    """The fields of every batch, from the general codec and the validation."""
    header = parse_request_header(frame)
    request = decode_request(header, frame)
    assert request.transactional_id is None
    found: list[Any] = []
    for topic in request.topics:
        by_id = topic.topic_id is not None
        name = topic.topic_id.bytes if by_id else topic.name.encode()
        for part in topic.partitions:
            batch = parse_header(part.records)
            validated = validate_batch(SETTINGS, part.records, batch.max_timestamp_ms, is_loop=True)
            assert validated is not None
            assert validated.header == batch, "the validation changed it"
            single = frame_of(bytes(part.records))
            keyless = extension().survey([_parsed(single)])[4]
            found.append((
                (name, part.index, by_id), frame, header.correlation_id, header.api_version,
                request.acks, _place(part.records) - _place(frame), len(part.records),
                batch.record_count, batch.base_timestamp_ms, batch.max_timestamp_ms, keyless,
                request.timeout_ms, batch.producer_id, batch.producer_epoch, batch.base_sequence,
            ))  # fmt: skip
    return found


def _parsed(frame: memoryview) -> PlainRequest:
    found = extension().parse(frame)
    assert found is not None
    return found


def _place(data: memoryview) -> int:
    return int(np.frombuffer(data, np.uint8).ctypes.data)


def named(version: int, *partitions: list[tuple[int, bytes]]) -> Topics:
    """Topics of these partitions."""
    names: list[Any] = [TOPIC_ID, OTHER_ID, TOPIC_ID] if version >= ID_SINCE else ["a", "b", "a"]
    return list(zip(names, partitions, strict=False))


@st.composite
def requests(draw: st.DrawFn, records: Any = PLAIN_RECORDS) -> bytearray:
    version = draw(st.sampled_from(VERSIONS))
    batches = st.tuples(
        st.sampled_from([0, 1, 1, 70_000]), records.map(lambda each: bytes(build_batch(each)))
    )
    topics = draw(st.lists(st.lists(batches, min_size=1, max_size=3), min_size=1, max_size=3))
    acks = draw(st.sampled_from([1, -1]))
    return bytearray(frame_with(named(version, *topics), version=version, acks=acks))


@settings(max_examples=100, deadline=None)
@given(requests())
def test_a_plain_request_for_several_partitions_is_taken(frame: bytearray) -> None:
    view = memoryview(frame)
    wanted = by_the_general_path(view)

    found = extension().parse_parts(view)

    assert found == (wanted if len(wanted) > 1 else None)


@settings(max_examples=300, deadline=None)
@given(requests(RECORDS), EDITS)
def test_whatever_is_taken_the_general_path_takes_with_the_same_fields(
    frame: bytearray, edits: list[tuple[int, int, bytes]]
) -> None:
    changed = edited(frame, edits)

    found = extension().parse_parts(changed)

    if found is not None:
        assert found == by_the_general_path(changed)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_frame_that_is_cut_anywhere_or_changed_in_any_byte_is_not_misread(version: int) -> None:
    batch = batch_with(b"v")
    topics = named(version, [(0, batch), (1, batch)], [(2, batch)])
    whole = bytearray(frame_with(topics, version=version))
    offsets, starts = [1, 2, 3], [0, 0, 0]
    assert extension().parse_parts(memoryview(whole)) is not None
    for at in range(len(whole)):
        cut = memoryview(whole[:at])
        assert extension().parse_parts(cut) is None
        with pytest.raises(ValueError, match="not the frame"):
            extension().answer_parts(cut, offsets, starts)
        for value in (0, 1, 2, 0x7F, 0x80, 0xFF, whole[at] ^ 1):
            changed = memoryview(whole[:at] + bytes([value]) + whole[at + 1 :])
            found = extension().parse_parts(changed)
            if found is not None:
                assert found == by_the_general_path(changed), (at, value)
            with suppress(ValueError):
                extension().answer_parts(changed, offsets, starts)
    assert extension().parse_parts(memoryview(whole + b"\0")) is None


def with_attributes(attributes: int) -> bytes:
    batch = bytearray(batch_with(b"v", producer=(5, 0, 0)))
    struct.pack_into(">h", batch, 21, attributes)
    stamp_crc(batch)
    return bytes(batch)


GOOD = batch_with(b"v")


@pytest.mark.parametrize(
    "frame",
    [
        frame_of(GOOD),
        frame_of(GOOD, GOOD, version=8, acks=0),
        frame_of(GOOD, GOOD, acks=2),
        frame_of(GOOD, GOOD, transactional_id="t"),
        frame_of(GOOD, GOOD, topic="käse"),
        frame_of(GOOD, b""),
        frame_of(GOOD, GOOD[:-1] + b"x"),
        frame_of(GOOD, with_attributes(1)),
        frame_of(with_attributes(0x10), GOOD),
        frame_of(GOOD, batch_with(b"v", producer=(5, -1, 0))),
        frame_of(GOOD, batch_with(b"v" * FRAME_BYTES_MAX)),
        frame_of(*[batch_with(b"v" * 4000)] * (PARTS_FRAME_BYTES_MAX // 4000)),
        frame_of(*[GOOD] * (PARTS_MAX + 1)),
        frame_with([("a", [(0, GOOD), (1, GOOD)]), ("b", [])]),
        frame_with([]),
        memoryview(b""),
    ],
)
def test_what_is_not_plain_in_every_part_is_left_to_the_general_path(frame: memoryview) -> None:
    assert extension().parse_parts(frame) is None


@pytest.mark.parametrize("version", VERSIONS)
def test_as_many_batches_as_are_allowed_are_taken_and_answered(version: int) -> None:
    batches = [(n, GOOD) for n in range(PARTS_MAX)]
    frame = frame_with(named(version, batches[:-1], batches[-1:]), version=version)
    parts = extension().parse_parts(frame)
    assert parts is not None
    assert len(parts) == PARTS_MAX

    answer = extension().answer_parts(frame, [*range(PARTS_MAX)], [0] * PARTS_MAX)

    assert answer == encoded(frame, [*range(PARTS_MAX)], [0] * PARTS_MAX)


def encoded(frame: memoryview, offsets: list[int], starts: list[int]) -> bytes:
    """The general codec's answer."""
    header = parse_request_header(frame)
    left = iter(zip(offsets, starts, strict=True))
    topics = [
        ProduceTopicResponse(
            topic.name,
            topic.topic_id,
            [
                ProducePartitionResponse(part.index, 0, offset, -1, start)
                for part, (offset, start) in zip(topic.partitions, left, strict=False)
            ],
        )
        for topic in decode_request(header, frame).topics
    ]
    response = ProduceResponse(topics, 0, ())
    return b"".join(encode_response(PRODUCE, header.api_version, header.correlation_id, response))


@settings(max_examples=100, deadline=None)
@given(requests(), st.integers(0, 2**62), st.integers(0, 2**62))
def test_answers_are_those_of_the_general_codec(frame: bytearray, offset: int, start: int) -> None:
    view = memoryview(frame)
    count = len(by_the_general_path(view))
    offsets, starts = [offset + n for n in range(count)], [start + n for n in range(count)]

    assert extension().answer_parts(view, offsets, starts) == encoded(view, offsets, starts)


def test_offsets_that_are_not_those_of_the_frame_are_refused() -> None:
    frame = frame_of(GOOD, GOOD)
    answer: Any = extension().answer_parts
    for offsets, starts in (
        ([], []), ([1], [0]), ([1, 2, 3], [0, 0, 0]), ([1, 2], [0]), ([1] * 1025, [0] * 1025),
        ([1, None], [0, 0]), ([1, 2], [0, b"x"]), ([1, 2**70], [0, 0]), ((1, 2), [0, 0]),
    ):  # fmt: skip
        with pytest.raises((ValueError, TypeError, OverflowError)):
            answer(frame, offsets, starts)
    for other in (b"", bytes(PARTS_FRAME_BYTES_MAX + 1), None):
        with pytest.raises((ValueError, TypeError)):
            answer(other, [1, 2], [0, 0])


def test_records_of_every_part_are_checked() -> None:
    wrong = bytearray(build_batch([Record(b"k", b"v", (), 5), Record(b"k", b"w", (), 6)]))
    wrong[35 + 7] ^= 1  # the largest timestamp
    stamp_crc(wrong)
    for batches in ([bytes(wrong), GOOD], [GOOD, bytes(wrong)]):
        assert extension().parse_parts(frame_of(*batches)) is None
