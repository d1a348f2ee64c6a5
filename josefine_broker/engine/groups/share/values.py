"""The values of a share partition: what is stored of it, and what its members ask and get.

Offsets are inclusive in `first` and `last`, as in the wire format; `end_offset` is exclusive. Times
are monotonic milliseconds.
"""

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple
from uuid import UUID

from josefine_broker.engine.groups.share.states import RecordEvent, RecordState

NO_START = -1
"""The start offset of a share partition of which nothing is stored yet: `share.auto.offset.reset`
decides where it starts."""
NO_COUNT = -1
"""Kafka's number for a count that is not known."""


class ShareKey(NamedTuple):
    """A share partition: a partition as one group reads it. The topic is named by its id: one that
    is created again has another."""

    group_id: str
    topic_id: UUID
    """With a name the new topic would start with the state of the deleted one, and skip records."""
    partition: int


class Limits(NamedTuple):
    """The configuration of a group that its share partitions need."""

    lock_ms: int = 30_000
    """`share.record.lock.duration.ms`: how long a member has a record."""
    deliveries_max: int = 5
    """`share.delivery.count.limit`: how often a record is delivered at most."""
    locks_max: int = 2_000
    """`share.partition.max.record.locks`: how many records of a partition are in flight at most,
    but for the last record batch."""
    has_dead_letters: bool = False
    """`errors.deadletterqueue.topic.name` is set: what no member can process gets a dead letter."""
    repeat_ms: int = 15_000
    """How long a write of the state that fails is repeated before the answers of members that wait
    for it are refused. Kafka's five tries take as long."""


class StateBatch(NamedTuple):
    """Consecutive records with the same state and delivery count."""

    first: int
    last: int
    state: RecordState
    """A leader never writes ACQUIRED: a lock is not stored."""
    deliveries: int
    """Deliveries that have ended; int16 in the log."""


class ShareState(NamedTuple):
    """What is stored of a share partition."""

    state_epoch: int = 0
    """Counts the initialisations: grows when the offsets of the group are altered."""
    leader_epoch: int = 0
    """Of the partition's leader that used it last: an older one may not write any more."""
    start_offset: int = NO_START
    """All records below it are finished."""
    batches: tuple[StateBatch, ...] = ()
    """Of the records from there on that are finished or were delivered, in order and without
    overlaps. Records that none of them names are available, without a delivery."""
    complete_count: int = NO_COUNT
    """How many of those are finished (KIP-1226)."""


class AckType(Enum):
    """The answer of a member for a record. The numbers are those of the wire format."""

    GAP = 0  # there was no record at this offset
    ACCEPT = 1  # processed
    RELEASE = 2  # not processed: another delivery may succeed
    REJECT = 3  # not processed, and no delivery can succeed
    RENEW = 4  # still being processed (KIP-1222)


# A gap is finished: compaction removed it (KIP-932, "Log compaction"), and it would hold up the
# start offset for ever. It is no rejected record: there is nothing to write a dead letter of.
EVENTS: dict[AckType, RecordEvent] = {
    AckType.GAP: RecordEvent.GAP,
    AckType.ACCEPT: RecordEvent.ACCEPT,
    AckType.RELEASE: RecordEvent.RELEASE,
    AckType.REJECT: RecordEvent.REJECT,
    AckType.RENEW: RecordEvent.RENEW,
}


class Ack(NamedTuple):
    """The acknowledgement of consecutive records: one type for all of them, or one for each."""

    first: int
    last: int
    types: Sequence[AckType]


class Found(NamedTuple):
    """A record batch that was read from the log."""

    first: int
    last: int
    is_data: bool = True
    """False: markers, or records of an aborted transaction that the group does not read."""


class Acquired(NamedTuple):
    """Consecutive records that a member got, and how often they have been delivered by now."""

    first: int
    last: int
    deliveries: int
