"""CONS topic subscription-id from [to]: the records of the subscription's partition between two
positions, each an offset or a time, read through Fetch on the leader, up to the high watermark.

Rules: the second position is exclusive; without it the reading ends at the partition's end when the
command arrived, so a reply includes everything acknowledged before: a new leader that does not know
its high watermark yet is asked again. A reply has a bounded number of records and bytes, at least
one record if there is one, and reports whether there are more. An offset past the end gives an
empty reply, a deleted offset starts at the current log start. A time means the first record at or
after it, otherwise the end.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from josefine_broker.base.acls import Operation
from josefine_broker.base.errors import CorruptData, ErrorCode
from josefine_broker.base.ids import LeaderEpoch
from josefine_broker.base.moments import moment_ms
from josefine_broker.engine.metadata.image import NO_LEADER
from josefine_broker.records.batch import iter_batches
from josefine_broker.records.builder import Record
from josefine_broker.records.reader import read_records
from josefine_broker.text.asking import Work, ask, deadline_of, pause
from josefine_broker.text.creating import partition_count
from josefine_broker.text.errors import NOT_THE_LEADER, TextError, error, shown
from josefine_broker.text.front import Client, Front
from josefine_broker.text.messages import ok, shown_record
from josefine_broker.text.subscribing import keep
from josefine_broker.text.subscriptions import parse_id
from josefine_broker.wire import apis
from josefine_broker.wire.entities import list_offsets as lo
from josefine_broker.wire.fetch import FetchPartition, FetchRequest, FetchTopic

BATCH_RECORDS_BYTES_MAX = 16 * 1024 * 1024
"""Limit of one batch, decompressed on the broker's thread: about 50 ms."""

RECORD_OVERHEAD_BYTES = 64
"""JSON around a record's texts."""

OFFSET_MAX = 2**63 - 1
EARLIEST, LATEST = -2, -1
NOT_FOUND = -1
NO_EPOCH = LeaderEpoch(-1)
LATER = frozenset(
    {
        ErrorCode.not_leader_or_follower,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.unknown_topic_id,
        ErrorCode.leader_not_available,
        ErrorCode.offset_not_available,
        ErrorCode.kafka_storage_error,
    }
)
"""Retriable errors."""


class Place(NamedTuple):
    """The partition that is read, and the deadline."""

    topic: str
    partition: int
    deadline_ms: int

    @property
    def name(self) -> str:
        return f"{shown(self.topic)}-{self.partition}"


class Offset(NamedTuple):
    """A position by number."""

    offset: int


class Moment(NamedTuple):
    """A position by time."""

    timestamp_ms: int


@dataclass(slots=True)
class Room:
    """The remaining room of a reply."""

    records: int
    bytes: int

    def take(self, size: int) -> bool:
        """Whether there was room for a record of this size."""
        self.records -= 1
        self.bytes -= size
        return self.records >= 0 and self.bytes >= 0


class Page(NamedTuple):
    """The records that were read, and whether more follow."""

    records: list[Record]
    is_more: bool


def consume(front: Front, _client: Client, fields: list[str]) -> Work[str]:
    """The reply. Raises TextError."""
    if len(fields) < 3 or not all(fields[:3]):
        return error("subscriptionId and offset value are a required field")
    topic, text, *places = fields
    begin, *behind = [_parse_place(each) for each in places]
    count = partition_count(front, topic, Operation.READ)
    id_ = parse_id(text)
    if id_ is None or id_.partition >= count:
        return error(f"there is no subscription '{shown(text)}' of topic '{shown(topic)}'")
    place = Place(topic, id_.partition, deadline_of(front))
    if front.settings.is_strict and _leader(front, place) != front.ctx.broker_id:
        return NOT_THE_LEADER
    offset = yield from _resolved(front, place, begin)
    end = (yield from _resolved(front, place, behind[0])) if behind else OFFSET_MAX
    if end < offset:
        return error(f"the end, offset {end}, lies before the beginning, offset {offset}")
    refusal = yield from keep(front, topic, text, offset)
    if refusal:
        return refusal
    latest = yield from _listed(front, place, LATEST)
    page = yield from read(front, place, offset, min(end, latest))
    return ok([shown_record(each) for each in page.records], is_more=page.is_more)


def _parse_place(text: str) -> Offset | Moment:
    """Raises TextError."""
    if text.isascii() and text.isdigit() and len(text) < 20:
        offset = int(text)
        if offset > OFFSET_MAX:
            raise TextError(error(f"the offset must not be more than {OFFSET_MAX}"))
        return Offset(offset)
    timestamp_ms = moment_ms(text)
    if timestamp_ms is None or timestamp_ms < 0:
        forms = "a whole number of 0 or more, or a time like 2013-01-01T05:00:00Z"
        raise TextError(error(f"the offset must be {forms}, not '{shown(text)}'"))
    return Moment(timestamp_ms)


def _resolved(front: Front, place: Place, where: Offset | Moment) -> Work[int]:
    """The offset of a position. Raises TextError."""
    if isinstance(where, Offset):
        return where.offset
    offset = yield from _listed(front, place, where.timestamp_ms)
    if offset == NOT_FOUND:
        offset = yield from _listed(front, place, LATEST)
    return offset


def read(front: Front, place: Place, offset: int, end: int) -> Work[Page]:
    """The records before `end` that fit into one reply. Raises TextError."""
    records: list[Record] = []
    room = Room(front.settings.reply_records_max, front.settings.reply_bytes_max)
    while offset < end:
        part = yield from _fetch(front, place, offset)
        if part is None:
            start = yield from _listed(front, place, EARLIEST)
            if start <= offset:
                return Page(records, is_more=False)
            offset = start
            continue
        end_offset, is_full = take_records(part, offset, end, records, room)
        is_end = end_offset >= end
        is_stuck = end_offset == offset and not (yield from pause(front, place.deadline_ms))
        if is_full or is_end or is_stuck:
            return Page(records, is_more=not is_end)
        # A fetch may end at a segment, or at a new leader's lower high watermark.
        offset = end_offset
    return Page(records, is_more=False)


def take_records(
    part: Any, offset: int, end: int, records: list[Record], room: Room
) -> tuple[int, bool]:
    """Add the records from `offset` to `end`; returns where they end, and whether one did not fit.
    Raises TextError."""
    end_offset = offset
    try:
        for record, after in _records(part, offset):
            if record is not None:
                if record.offset >= end:
                    return end, False
                if not room.take(_size(record)) and records:
                    return end_offset, True
                records.append(record)
            end_offset = after
    except CorruptData as damage:
        why = f"the records at offset {end_offset} cannot be read: {damage}"
        raise TextError(error(why)) from damage
    return end_offset, False


def _records(part: Any, offset: int) -> Iterator[tuple[Record | None, int]]:
    """(record, offset after it); after each batch (None, its end). Raises CorruptData."""
    data = memoryview(b"".join(part.records or ()))
    for pos, header in iter_batches(data):
        if header.end_offset <= offset:
            continue
        if not header.is_control:
            batch = data[pos : pos + header.size_bytes]
            for record in read_records(batch, bytes_max=BATCH_RECORDS_BYTES_MAX):
                if record.offset >= offset:
                    yield record, record.offset + 1
        yield None, header.end_offset


def _size(record: Record) -> int:
    texts = (record.key, record.value, *(value for _, value in record.headers))
    return RECORD_OVERHEAD_BYTES + sum(len(each) for each in texts if each)


def _fetch(front: Front, place: Place, offset: int) -> Work[Any]:
    """The partition's part of the answer; None: the offset is outside the log. Raises TextError."""
    size = front.settings.reply_bytes_max
    part = FetchPartition(place.partition, NO_EPOCH, offset, NO_EPOCH, -1, size)

    def request() -> FetchRequest:
        topic_id = front.ctx.image.topics[place.topic].topic_id
        topics = (FetchTopic(place.topic, topic_id, (part,)),)
        return FetchRequest(-1, 0, 0, size, 0, 0, -1, topics)

    answer = yield from _ask_leader(front, place, apis.FETCH, request)
    found = answer.topics[0].partitions[0]
    return None if found.error_code == ErrorCode.offset_out_of_range else found


def _listed(front: Front, place: Place, timestamp_ms: int) -> Work[int]:
    """The offset of a time, or of Kafka's special timestamps; NOT_FOUND: it is past every record.
    Raises TextError."""
    part = lo.ListOffsetsPartition(partition_index=place.partition, timestamp=timestamp_ms)
    topic = lo.ListOffsetsTopic(name=place.topic, partitions=(part,))
    request = lo.ListOffsetsRequest(replica_id=-1, topics=(topic,))
    answer = yield from _ask_leader(front, place, apis.LIST_OFFSETS, lambda: request)
    offset: int = answer.topics[0].partitions[0].offset
    return offset


def _ask_leader(front: Front, place: Place, api_key: int, request: Any) -> Work[Any]:
    """An answer without a retriable error. Raises TextError."""
    why = "nobody leads it"
    while True:
        leader = _leader(front, place)
        if leader != NO_LEADER:
            answer = yield from ask(front, leader, api_key, request(), place.deadline_ms)
            code = _code(answer)
            if code in (ErrorCode.none, ErrorCode.offset_out_of_range):
                return answer
            if answer is not None and code not in LATER:
                raise TextError(error(f"{place.name} was not read: {_words(code)}"))
            why = "its leader did not answer" if answer is None else _words(code)
        if not (yield from pause(front, place.deadline_ms)):
            raise TextError(error(f"{place.name} was not read in time: {why}"))


def _leader(front: Front, place: Place) -> int:
    """Raises TextError when the topic is gone."""
    entry = front.ctx.image.partition(place.topic, place.partition)
    if entry is None:
        raise TextError(error(f"there is no topic '{shown(place.topic)}'"))
    return entry.leader


def _code(answer: Any) -> ErrorCode:
    """The error of the one partition, or of the whole answer."""
    if answer is None:
        return ErrorCode.unknown_server_error
    if not answer.topics:
        return ErrorCode(answer.error_code)
    return ErrorCode(answer.topics[0].partitions[0].error_code)


def _words(code: ErrorCode) -> str:
    return code.name.replace("_", " ")
