"""The extension for plain produce requests takes only what the general path takes, with the same
fields, and makes the same bytes; its oracle is the general codec and the validation."""

from __future__ import annotations

import struct
from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from josefine_broker.base.errors import CorruptData, KafkaError
from josefine_broker.engine.metadata.topic_config import TopicSettings
from josefine_broker.engine.validation.produced_batch import validate_batch
from josefine_broker.records.batch import (
    HEADER_BYTES,
    LENGTH_OVERHEAD_BYTES,
    parse_header,
    stamp,
    stamp_crc,
)
from josefine_broker.records.builder import Record, build_batch
from josefine_broker.records.plain_produce import (
    FRAME_BYTES_MAX,
    PlainProduce,
    PlainRequest,
    compiled,
    load,
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
    NOW_MS,
    PLAIN_RECORDS,
    TOPIC_ID,
    VERSIONS,
    batch_with,
    edited,
    frame_of,
    frames,
)

SETTINGS = TopicSettings()
pytestmark = pytest.mark.skipif(compiled is None, reason="not compiled for this platform")


def extension() -> PlainProduce:
    assert compiled is not None
    return compiled


def taken_by_the_general_path(frame: memoryview) -> PlainRequest | None:
    """The same fields from the general codec and the validation; None for what is not plain."""
    header = parse_request_header(frame)
    request = decode_request(header, frame)
    (topic,) = request.topics
    (part,) = topic.partitions
    batch = parse_header(part.records)
    validated = validate_batch(SETTINGS, part.records, batch.max_timestamp_ms, is_loop=True)
    assert request.transactional_id is None
    assert validated is not None
    assert validated.header == batch, "the validation changed it"
    by_id = topic.topic_id is not None
    name = topic.topic_id.bytes if by_id else topic.name.encode()
    start = len(frame) - len(part.records) - (3 if header.api_version >= 9 else 0)
    assert frame[start : start + len(part.records)] == part.records
    keyless = _is_refused_if_compacted(part.records)
    return (
        (name, part.index, by_id), frame, header.correlation_id, header.api_version, request.acks,
        start, len(part.records), batch.record_count, batch.base_timestamp_ms,
        batch.max_timestamp_ms, keyless, request.timeout_ms, batch.producer_id,
        batch.producer_epoch, batch.base_sequence,
    )  # fmt: skip


def _is_refused_if_compacted(records: memoryview) -> bool:
    compacted = replace(SETTINGS, log=replace(SETTINGS.log, cleanup_policy=frozenset({"compact"})))
    try:
        validate_batch(compacted, records, parse_header(records).max_timestamp_ms)
    except KafkaError:
        return True
    return False


@settings(max_examples=300, deadline=None)
@given(frames(), EDITS)
def test_whatever_the_extension_takes_the_general_path_takes_with_the_same_fields(
    frame: bytearray, edits: list[tuple[int, int, bytes]]
) -> None:
    changed = edited(frame, edits)

    found = extension().parse(changed)

    if found is not None:
        assert found == taken_by_the_general_path(changed)


def test_records_damaged_in_any_byte_are_not_misread() -> None:
    records = [
        Record(b"k", b"v" * 3, (("h", b"x"), ("i", None)), NOW_MS),
        Record(None, None, (), NOW_MS + 70),
    ]
    whole = build_batch(records)
    taken = 0
    for at in range(HEADER_BYTES, len(whole)):
        old = whole[at]
        values = {0, 1, 2, 3, 5, 0x7F, 0x80, 0xFF, old - 2 & 0xFF, old + 2 & 0xFF, old ^ 1}
        changes = [bytes([value]) for value in values] + [b"", bytes([old | 0x80, 0])]
        for inserted in changes:
            batch = whole[:at] + inserted + whole[at + 1 :]
            # With its old length and checksum, no damage would get as far as the records.
            struct.pack_into(">i", batch, 8, len(batch) - LENGTH_OVERHEAD_BYTES)
            stamp_crc(batch)
            frame = frame_of(bytes(batch))

            found = extension().parse(frame)

            if found is not None:
                assert found == taken_by_the_general_path(frame), (at, inserted)
                taken += 1
    assert taken > 50, "keys, values and headers may have any bytes"


@settings(max_examples=60, deadline=None)
@given(PLAIN_RECORDS, st.sampled_from(VERSIONS), st.sampled_from([1, -1]))
def test_a_plain_request_of_every_version_is_taken(
    records: list[Record], version: int, acks: int
) -> None:
    frame = frame_of(bytes(build_batch(records)), version=version, acks=acks)

    found = extension().parse(frame)

    assert found is not None
    assert found == taken_by_the_general_path(frame)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_frame_that_is_cut_anywhere_or_changed_in_any_byte_is_not_misread(version: int) -> None:
    whole = bytearray(frame_of(batch_with(b"v" * 20), version=version))
    for at in range(len(whole)):
        assert extension().parse(memoryview(whole[:at])) is None
        for value in (0, 1, 0x7F, 0x80, 0xFF, whole[at] ^ 1):
            changed = whole[:at] + bytes([value]) + whole[at + 1 :]
            found = extension().parse(memoryview(changed))
            if found is not None:
                assert found == taken_by_the_general_path(memoryview(changed)), (at, value)
    assert extension().parse(memoryview(whole + b"\0")) is None


@pytest.mark.parametrize(
    "frame",
    [
        frame_of(batch_with(b"v"), version=8, acks=0),
        frame_of(batch_with(b"v"), transactional_id="t"),
        frame_of(batch_with(b"v"), batch_with(b"v")),
        frame_of(batch_with(b"v"), topic="käse"),
        frame_of(batch_with(b"v"), client_id="ä"),
        frame_of(b""),
        frame_of(batch_with(b"v" * FRAME_BYTES_MAX)),
        memoryview(b""),
    ],
)
def test_what_is_not_plain_is_left_to_the_general_path(frame: memoryview) -> None:
    assert extension().parse(frame) is None


@pytest.mark.parametrize("version", VERSIONS)
def test_a_batch_of_an_idempotent_producer_is_plain(version: int) -> None:
    frame = frame_of(batch_with(b"v", producer=(2**63 - 1, 2**15 - 1, 2**31 - 1)), version=version)

    found = extension().parse(frame)

    assert found is not None
    assert found[12:] == (2**63 - 1, 2**15 - 1, 2**31 - 1)
    assert found == taken_by_the_general_path(frame)
    assert extension().survey([found])[6]


@pytest.mark.parametrize("producer", [(-2, 0, 0), (5, -1, 0), (5, 0, -1), (-(2**63), 0, 0)])
def test_a_producer_with_a_field_below_zero_is_left_to_the_general_path(
    producer: tuple[int, int, int],
) -> None:
    assert extension().parse(frame_of(batch_with(b"v", producer=producer))) is None


@pytest.mark.parametrize("attributes", [0x10, 0x20, 0x30, 1, 8, 0x100])
def test_transactional_and_compressed_batches_are_left_to_the_general_path(attributes: int) -> None:
    batch = bytearray(batch_with(b"v", producer=(5, 0, 0)))
    struct.pack_into(">h", batch, 21, attributes)
    stamp_crc(batch)

    assert extension().parse(frame_of(bytes(batch))) is None


@pytest.mark.parametrize("at", [27, 35, 57, 23])
def test_a_batch_whose_header_differs_from_its_records_is_left_to_the_general_path(at: int) -> None:
    batch = bytearray(batch_with(b"v", b"w"))
    assert extension().parse(frame_of(bytes(batch))) is not None

    batch[at + (7 if at in (27, 35) else 3)] ^= 1
    stamp_crc(batch)

    assert extension().parse(frame_of(bytes(batch))) is None


def test_an_index_entry_is_due_once_a_whole_interval_follows_the_last_one() -> None:
    request = extension().parse(frame_of(batch_with(b"v")))
    assert request is not None
    size = request[6]

    def marks(interval: int) -> list[int]:
        found = extension().assemble([request] * 3, 3 * size, 0, 0, 0, -1, interval, -1)
        return [position for _, position, _ in found[4]]

    assert marks(size) == [0, size, 2 * size]
    assert marks(size + 1) == [0, 2 * size]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(PLAIN_RECORDS, min_size=1, max_size=6),
    st.integers(0, 2**40),
    st.integers(0, 9),
    st.integers(0, 5000),
    st.sampled_from([0, 100, 4096]),
)
def test_assembled_batches_are_the_stamped_ones_and_are_indexed_as_one_by_one(
    records: list[list[Record]], base_offset: int, epoch: int, position: int, interval: int
) -> None:
    batches = [bytearray(build_batch(each)) for each in records]
    requests = [extension().parse(frame_of(bytes(batch))) for batch in batches]
    size = sum(map(len, batches))

    found = extension().assemble(
        [each for each in requests if each is not None],
        size, base_offset, epoch, position, position - 50 if position > 50 else -1, interval, -1,
    )  # fmt: skip

    marks, last, max_ms, max_offset = [], position - 50 if position > 50 else -1, -1, -1
    offset, at = base_offset, position
    for batch in batches:
        header = parse_header(batch)
        stamp(batch, 0, offset, epoch)  # type: ignore[arg-type]
        if last < 0 or at - last >= interval:
            marks.append((offset, at, max_ms))
            last = at
        if header.max_timestamp_ms > max_ms:
            max_ms, max_offset = header.max_timestamp_ms, offset
        offset, at = offset + header.record_count, at + len(batch)
    assert found == (b"".join(batches), offset, max_ms, max_offset, marks)


@pytest.mark.parametrize("version", VERSIONS)
def test_answers_are_those_of_the_general_codec(version: int) -> None:
    requests = [
        extension().parse(
            frame_of(batch_with(*[b"v"] * n), version=version, index=n, correlation_id=-n)
        )
        for n in (1, 2, 3)
    ]

    found = extension().answers([each for each in requests if each is not None], 1 << 40, 17)

    offset = 1 << 40
    by_id = version >= ID_SINCE
    for n, answer in zip((1, 2, 3), found, strict=True):
        part = ProducePartitionResponse(n, 0, offset, -1, 17)
        topic = ProduceTopicResponse(
            None if by_id else "orders", TOPIC_ID if by_id else None, (part,)
        )
        whole = encode_response(PRODUCE, version, -n, ProduceResponse((topic,), 0, ()))
        assert answer == b"".join(whole)
        offset += n


def test_a_survey_sums_up_its_requests() -> None:
    first, second, third = (
        extension().parse(frame)
        for frame in (
            frame_of(batch_with(b"v", b"w", timestamp_ms=50)),
            frame_of(batch_with(b"v", timestamp_ms=70, key=None), acks=-1),
            frame_of(batch_with(b"v", timestamp_ms=-1)),
        )
    )
    assert first is not None
    assert second is not None
    assert third is not None

    assert extension().survey([first]) == (2, first[6], 50, 50, False, False, False)
    assert extension().survey([first, second, third]) == (
        4, first[6] + second[6] + third[6], 50, 70, True, True, False,
    )  # fmt: skip


def test_parsed_requests_that_were_tampered_with_are_refused_without_a_wild_read() -> None:
    request = extension().parse(frame_of(batch_with(b"v")))
    assert request is not None
    size = request[6]
    odd: list[Record] = [-1, 0, 60, 2**31, 2**62, -(2**63), None, b"x", 2**70]
    for field in range(len(request)):
        for value in [*odd, (), (b"x",), (None, 0, False), (b"x" * 127, 0, False), (b"x", None, 0)]:
            changed = (*request[:field], value, *request[field + 1 :])
            for call in (
                lambda one: extension().survey([one]),
                lambda one: extension().assemble([one], size, 0, 0, 0, -1, 4096, -1),
                lambda one: extension().answers([one], 0, 0),
            ):
                with suppress(TypeError, ValueError, OverflowError):
                    call(changed)
    for wrong in (0, -1, size - 1, size + 1, 2**62):
        with pytest.raises(ValueError, match=r"size|frame"):
            extension().assemble([request], wrong, 0, 0, 0, -1, 4096, -1)
    for requests in ([], [request] * 4097, (request,), [request[:5]], [None]):
        with pytest.raises((TypeError, ValueError)):
            extension().survey(requests)  # type: ignore[arg-type]


def test_a_platform_without_a_binary_has_no_plain_path() -> None:
    assert load("plan9_pdp11") is None


def test_a_damaged_checksum_is_never_plain() -> None:
    frame = frame_of(batch_with(b"v" * 40))
    batch_at = len(frame) - 3 - len(batch_with(b"v" * 40))
    for at in range(batch_at + 17, len(frame) - 3):
        frame[at] ^= 0x10
        assert extension().parse(frame) is None, at
        with pytest.raises((CorruptData, KafkaError)):
            taken_by_the_general_path(frame)
        frame[at] ^= 0x10
    assert struct.unpack_from(">b", frame, batch_at + 16) == (2,)
