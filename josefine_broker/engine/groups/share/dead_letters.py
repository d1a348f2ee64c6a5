"""Dead letters of a share group (KIP-1191): a record for each record that no member can process.

Rules: a letter names its record in headers, which are Kafka's; key and value are the record's if
the group copies records, and otherwise absent. A record that is too large for the topic is only
named: that is better than none. Dead letters are written at least once: the headers `topic`,
`partition`, `offset` and `group` are equal in one that came twice.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from josefine_broker.base.errors import ErrorCode
from josefine_broker.engine.groups.share.spans import Span
from josefine_broker.records.builder import Record, RecordBatchBuilder, encode_record

HEADER_PREFIX = "__dlq.errors."
REJECTED = "Offset rejected by client."
EXHAUSTED = "Offset delivery count exceeded the threshold."
"""Kafka's texts of the header `message`, which consumers of dead letters look at."""
LETTERS_MAX = 500
"""Dead letters of one batch."""
LETTERS_RETRY_MS, LETTERS_RETRY_MAX_MS = 1_000, 30_000
"""The first and the longest pause after a write that may succeed later."""

HOPELESS = frozenset(
    {
        ErrorCode.invalid_config,
        ErrorCode.invalid_record,
        ErrorCode.invalid_timestamp,
        ErrorCode.invalid_topic_exception,
        ErrorCode.message_too_large,
        ErrorCode.policy_violation,
        ErrorCode.unsupported_for_message_format,
    }
)
"""Errors that no repetition changes: the records are archived without dead letters, as in Kafka.
After any other the write is repeated without end: Kafka stops after five times, and loses them."""


class Origin(NamedTuple):
    """Where dead letters come from."""

    topic: str
    partition: int
    group_id: str


class Letter(NamedTuple):
    """What is to be written of one record."""

    offset: int
    deliveries: int
    message: str


def letters_of(spans: Iterable[Span], deliveries_max: int) -> list[Letter]:
    """A letter for each record. Why its delivery ended is not stored: after a change of the leader
    it follows from the count."""
    return [
        Letter(
            offset,
            each.deliveries,
            REJECTED if each.is_rejected or each.deliveries < deliveries_max else EXHAUSTED,
        )
        for each in spans
        for offset in range(each.first, each.last + 1)
    ]


def build_letters(
    origin: Origin,
    letters: Sequence[Letter],
    records: Mapping[int, Record],
    now_ms: int,
    bytes_max: int,
) -> tuple[bytearray, int]:
    """A batch of at most `bytes_max`, and how many of the dead letters it has: one at least.
    `records`: the copied ones, by offset."""
    builder, count = RecordBatchBuilder(), 0
    for letter in letters:
        headers = _headers(origin, letter)
        record = records.get(letter.offset, Record())
        key, value = record.key, record.value
        # A record alone may be too large for the topic of dead letters.
        size = builder.size_bytes + len(encode_record(count, 0, key, value, headers))
        if size > bytes_max:
            if count:
                break
            key = value = None
        builder.append(key, value, headers, now_ms)
        count += 1
    return builder.build(), count


def _headers(origin: Origin, letter: Letter) -> tuple[tuple[str, bytes], ...]:
    # As texts, also the numbers: consumers that know Kafka's dead letters read them so.
    found = {
        "topic": origin.topic,
        "partition": origin.partition,
        "offset": letter.offset,
        "group": origin.group_id,
        "delivery.count": letter.deliveries,
        "message": letter.message,
    }
    return tuple((HEADER_PREFIX + name, str(value).encode()) for name, value in found.items())
