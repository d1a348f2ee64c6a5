"""The record form of an action, and the event form for readers. Values only.

A record belongs to a journal if it has the header `journal.action`; its key is the journal's id,
its timestamp the time of the action, its other headers are the user's. A record without that
header, with an unknown kind of action, or an append without a value is None: other programs may
write to the topic too.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from josefine_broker.records.builder import Record
from josefine_journal.actions import (
    ACTION_HEADER,
    Action,
    Append,
    SeqRange,
    decode_action,
    encode_action,
)
from josefine_journal.errors import JournalError
from josefine_journal.events import Event, Events, JsonObject, PayloadMetadata
from josefine_journal.moved import MOVED_HEADER
from josefine_journal.payloads import decode_payload, encode_payload
from josefine_journal.reduction import Placed

Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionOffset:
    """The place of a record in its topic."""

    partition: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordMetadata:
    """Metadata of an append: in the action's header, and in the value."""

    header: JsonObject | None = None
    payload: PayloadMetadata = field(default_factory=PayloadMetadata)


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRecord:
    """One event with the data of its append. `timestamp_ms` is from the writer's clock."""

    event: Event
    timestamp_ms: int
    partition_offset: PartitionOffset
    origin: str | None
    version: str | None
    metadata: RecordMetadata
    headers: Headers


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionRecord:
    """One action with its place; `value` is the payload of an append, not decoded yet."""

    action: Action
    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    value: bytes | None
    headers: Headers
    tags: tuple[str, ...] = ()
    """The tags of its events, each once; set when the action is resolved."""
    expire_on_ms: int | None = None
    """Expiry of the journal unless another append follows; set when the action is resolved."""

    @property
    def placed(self) -> Placed:
        """The form for the rules of replication."""
        return Placed(offset=self.offset, action=self.action)

    @property
    def value_bytes(self) -> int:
        return 0 if self.value is None else len(self.value)

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} offset {self.offset}"


def encode_append(
    events: Sequence[Event],
    metadata: RecordMetadata,
    *,
    origin: str | None,
    version: str | None,
    expected_seq_nr: int | None,
) -> tuple[Append, bytes]:
    """The action and the value of one append.

    Raises JournalError for invalid events: none, out of order, not larger than the expected number,
    or not representable as JSON.
    """
    try:
        checked = Events(events=tuple(events), metadata=metadata.payload)
    except ValueError as error:
        raise JournalError(str(error)) from error
    # Every reader would refuse such an append; refused here, it never reaches the topic.
    first = checked.events[0].seq_nr
    if expected_seq_nr is not None and first <= expected_seq_nr:
        raise JournalError(f"event {first} is not after the expected number {expected_seq_nr}")
    kind, value = encode_payload(checked)
    numbers = SeqRange(first=first, last=checked.events[-1].seq_nr)
    action = Append(
        range=numbers,
        payload_type=kind,
        origin=origin,
        version=version,
        metadata=metadata.header,
        expected_seq_nr=expected_seq_nr,
    )
    return action, value


def headers_of(action: Action, headers: Headers, partitions: int | None = None) -> Headers:
    """The record's headers; `partitions` is the topic's count. Raises JournalError for a user's
    header with a reserved name."""
    if any(name == ACTION_HEADER for name, _ in headers):
        raise JournalError(f"a header cannot be named {ACTION_HEADER}: the name is reserved")
    return ((ACTION_HEADER, encode_action(action, partitions)), *headers)


def action_record(topic: str, partition: int, record: Record) -> ActionRecord | None:
    """The action of a record. Raises JournalError, with the record's place."""
    header = next((value for name, value in record.headers if name == ACTION_HEADER), None)
    if header is None:
        return None
    try:
        action = decode_action(header)
    except JournalError as error:
        raise JournalError(f"{topic}-{partition} offset {record.offset}: {error}") from error
    if action is None or (isinstance(action, Append) and record.value is None):
        return None
    return ActionRecord(
        action=action,
        topic=topic,
        partition=partition,
        offset=record.offset,
        timestamp_ms=record.timestamp_ms,
        value=record.value if isinstance(action, Append) else None,
        headers=tuple(each for each in record.headers if each[0] != ACTION_HEADER),
    )


def event_records(record: ActionRecord) -> list[EventRecord]:
    """The events of an append. Raises JournalError, with the record's place."""
    action = record.action
    assert isinstance(action, Append), record
    assert record.value is not None, record
    try:
        events = decode_payload(action.payload_type, record.value)
    except JournalError as error:
        raise JournalError(f"{record}: {error}") from error
    metadata = RecordMetadata(header=action.metadata, payload=events.metadata)
    headers = tuple(each for each in record.headers if each[0] != MOVED_HEADER)
    return [
        EventRecord(
            event=event,
            timestamp_ms=record.timestamp_ms,
            partition_offset=PartitionOffset(partition=record.partition, offset=record.offset),
            origin=action.origin,
            version=action.version,
            metadata=metadata,
            headers=headers,
        )
        for event in events.events
    ]
