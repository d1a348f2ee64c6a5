"""What was recorded of Apache Kafka, batch by batch: our broker refuses all that Kafka refuses,
with its error, and what it refuses beyond that is what no two readers agree on."""

from __future__ import annotations

import pytest

from josefine_broker.base.errors import ErrorCode
from josefine_broker.records.structure import WHY, Fault
from tests.compat.produced_batches import TOPICS, Case, batch, cases, good, load, record
from tests.unit.josefine_broker.api.world import NOW_MS, World, values_in

UNKNOWN, CORRUPT, INVALID = (
    ErrorCode.unknown_server_error.value,
    ErrorCode.corrupt_message.value,
    ErrorCode.invalid_record.value,
)
ACCEPTED = 0
STRICTER_KINDS = {
    "bytes_behind_batch",
    "bytes_behind_frame",
    "frame_twice",
    "header_value_negative",
    "key_negative",
    "key_wide",
    "length_beyond",
    "length_negative",
    "length_too_long",
    "length_too_short",
    "length_zero",
    "offset_negative",
    "offset_repeated",
    "offset_skipped",
    "value_negative",
}
"""Kafka takes these, and not every client reads them afterwards (COMPATIBILITY.md)."""
STRICTER_FAULTS = {
    Fault.OFFSET,
    Fault.LENGTH,
    Fault.KEY,
    Fault.VALUE,
    Fault.HEADER_VALUE,
    Fault.TOO_LONG,
}
IN_COMPRESSED = {Fault.HEADER_COUNT, Fault.HEADER_NAME}
"""Kafka looks at no record's length in a compressed batch: headers may lie behind its end there."""
FINAL = (
    INVALID,
    ErrorCode.unsupported_compression_type.value,
    ErrorCode.message_too_large.value,
)
"""Where Kafka has no name for what is wrong (-1)."""
OTHER_CODES = {
    "codec_5": (UNKNOWN, ErrorCode.unsupported_compression_type.value),
    "codec_6": (UNKNOWN, ErrorCode.unsupported_compression_type.value),
    "codec_7": (UNKNOWN, ErrorCode.unsupported_compression_type.value),
    "header_transactional": (ErrorCode.transactional_id_authorization_failed.value, INVALID),
    "header_transactional_no_producer": (
        ErrorCode.transactional_id_authorization_failed.value,
        INVALID,
    ),
}
"""Kind → Kafka's code and ours."""

REGRESSIONS = (
    "gzip/garbage", "snappy/garbage", "lz4/garbage", "zstd/garbage",
    "gzip/cut_more", "snappy/cut_more", "lz4/cut_more", "zstd/cut_more",
    "none/count_and_delta_more", "none/count_and_delta_less", "gzip/count_and_delta_more",
    "gzip/count_and_delta_less", "none/count_and_delta_most", "none/length_too_long",
    "none/length_too_short", "none/header_count_negative", "none/header_name_null",
    "none/header_name_negative", "gzip/header_count_negative", "gzip/header_name_null",
    "none/null_key_for_compacted", "gzip/null_key_for_compacted",
)  # fmt: skip
"""The 22 kinds that were acknowledged, and made readers fail."""


@pytest.fixture(scope="module")
def world() -> World:
    return our_world()


def our_world() -> World:
    """A broker in memory with the topics of the cases."""
    world = World()
    for name, configs in TOPICS.items():
        world.create(name, **{key.replace(".", "_"): value for key, value in configs.items()})
    return world


def may_differ(case: Case, theirs: int, ours: int, message: str) -> bool:
    """Whether COMPATIBILITY.md has a row for that."""
    if case.kind in OTHER_CODES:
        return OTHER_CODES[case.kind] == (theirs, ours)
    if theirs == UNKNOWN:
        return ours in FINAL
    if case.kind == "random" and theirs == ErrorCode.transactional_id_authorization_failed:
        return ours == INVALID
    if (theirs, ours) != (ACCEPTED, INVALID):
        return False
    if case.kind == "random":
        faults = STRICTER_FAULTS if case.codec == "none" else STRICTER_FAULTS | IN_COMPRESSED
        return (
            message.startswith("producer -")
            or message.endswith("a block length is cut")
            or any(message.endswith(WHY[fault]) for fault in faults)
        )
    return case.kind in STRICTER_KINDS


def test_every_recorded_batch_has_kafkas_verdict_or_one_that_is_documented(world: World) -> None:
    wrong = []
    for case, theirs in load():
        answer = world.produce(case.batch, topic=case.topic, acks=1)
        ours, message = answer.error_code, answer.error_message or ""
        if ours != theirs and not may_differ(case, theirs, ours, message):
            wrong.append(f"{case.name}: Kafka {theirs}, ours {ours} {message}")

    assert wrong == []


def test_whatever_is_accepted_can_be_read(world: World) -> None:
    for topic in TOPICS:
        offset = 0
        while (answer := world.fetch(offset, topic=topic)).records:
            values = values_in(answer)
            assert values
            offset += len(values)


@pytest.mark.parametrize("name", REGRESSIONS)
def test_a_batch_that_made_readers_fail_is_refused_and_moves_no_offset(
    world: World, name: str
) -> None:
    found = [case for case, _ in load() if case.name.startswith(name)]
    assert found
    for case in found:
        before = world.fetch(0, topic=case.topic).high_watermark

        answer = world.produce(case.batch, topic=case.topic)

        assert answer.error_code == INVALID, case.name
        assert answer.error_message
        assert world.fetch(0, topic=case.topic).high_watermark == before


def test_the_table_holds_what_its_command_makes() -> None:
    """But for bytes that another version of a compression library makes."""
    recorded = {case.name: case for case, _ in load()}
    made = {case.name: case for case in cases()}

    assert recorded.keys() == made.keys()
    assert [
        name for name in made if name.startswith("none/") and made[name] != recorded[name]
    ] == []


def test_a_keyless_record_for_a_compacted_topic_is_named(world: World) -> None:
    keyless = {"key_length": b"\x01", "key": b""}
    sent = batch([record(0), record(1, **keyless), record(2, **keyless)])

    answer = world.produce(sent, topic="compacted")

    assert answer.error_code == INVALID
    assert [error.batch_index for error in answer.record_errors] == [1, 2]
    assert answer.record_errors[0].message == WHY[Fault.NO_KEY]
    assert world.produce(batch(good()), topic="compacted").error_code == 0


def test_a_record_ahead_of_the_clock_is_named(world: World) -> None:
    ahead = NOW_MS + 2 * 3_600_000
    found = next(case for case, _ in load() if case.name == "zstd/far_ahead")

    answer = world.produce(found.batch, topic="plain")
    stated = world.produce(batch(good(), max_timestamp_ms=ahead), topic="plain")

    assert answer.error_code == ErrorCode.invalid_timestamp
    assert [error.batch_index for error in answer.record_errors] == [1]
    assert "message.timestamp.after.max.ms" in str(answer.record_errors[0].message)
    # What only the header states is put right, as Kafka does: no record is that far ahead.
    assert stated.error_code == 0
