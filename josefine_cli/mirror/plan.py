"""The decisions of a mirror: what to append next, and when to stop. Pure: values in, values out.

Rules:
- a position is an offset of the source and of the target alike. The target's end is the only record
  of progress, so there is nothing to lose or to repair after a kill;
- offsets that the source no longer has become batches without records, which compaction leaves,
  too. Each append therefore starts where the target ends, and the broker refuses anything else;
- a mirror that cannot be exact stops with a verdict. It never skips, truncates or overwrites.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

from josefine_broker.base.errors import CorruptData, ErrorCode
from josefine_broker.base.ids import TopicPartition
from josefine_broker.records.batch import (
    MAGIC,
    NO_LEADER_EPOCH,
    BatchHeader,
    build_empty_batch,
    iter_batches,
)

EMPTY_OFFSETS_MAX = 1 << 30
"""Offsets that one batch without records takes: its last offset delta has 31 bits."""
_MAGIC_AT = 16


class Why(Enum):
    """Why a partition's mirror stopped, which needs a person."""

    RECREATED = "recreated"
    SHORTER = "source is shorter"
    DIFFERENT = "different history"
    DELETED = "records deleted before they were mirrored"
    UNKNOWN = "nothing left to compare"
    OLD_FORMAT = "old message format"
    FENCED = "another mirror, or a cut-over"
    REFUSED = "refused"


ADVICE: dict[Why, str] = {
    Why.RECREATED: "delete the mirrored topic, and mirror the new one",
    Why.SHORTER: "the source has lost records that are here (an unclean election, or it was "
    "restored): `josefine mirror cutover --as-is`, or delete the topic here and mirror it again",
    Why.DIFFERENT: "the source has other records at these offsets (an unclean election, or it was "
    "restored): `josefine mirror cutover --as-is`, or delete the topic here and mirror it again",
    Why.DELETED: "raise the source's retention, delete the mirrored topic and mirror again",
    Why.UNKNOWN: "delete the topic here and mirror it again, or `josefine mirror cutover --as-is`",
    Why.OLD_FORMAT: "records before message format v2 keep their offsets only when the source "
    "rewrites them: let them expire, or copy the topic with a consumer and a producer",
    Why.FENCED: "`josefine mirror status` shows which it is",
    Why.REFUSED: "the message has the reason",
}


class Verdict(NamedTuple):
    """The end of one partition's mirror."""

    why: Why
    text: str

    def __str__(self) -> str:
        return f"{self.text}: {ADVICE[self.why]}"


class Ends(NamedTuple):
    """The offsets that a side has: start inclusive, end exclusive."""

    start: int
    end: int


class Tail(NamedTuple):
    """The last batch of a mirrored partition, by which its source is recognized. The checksum
    covers all of a batch but its offset and leader epoch."""

    base_offset: int
    end_offset: int
    size_bytes: int
    crc: int


class Note(NamedTuple):
    """The source's leader epoch of the batches from an offset on."""

    offset: int
    epoch: int
    crc: int = -1
    """Of the batch at that offset; -1: none was there when the source had that epoch."""


class Append(NamedTuple):
    """What to append now, and the position after it."""

    parts: list[bytes | bytearray | memoryview]
    position: int
    epochs: tuple[Note, ...]
    """Of the first batch here of each of the source's leader epochs."""
    tail: Tail


def attach(source: Ends, target: Ends, *, is_blank: bool) -> Verdict | None:
    """Whether the target continues the source at its end. `is_blank`: it has no record, so nothing
    is missing between it and the source's start."""
    if target.end > source.end:
        return shorter(source.end, target.end)
    if target.end < source.start and not is_blank:
        return _deleted(target.end, source.start)
    return None


def tail_of(records: memoryview, end: int) -> Tail | None:
    """The batch with records that ends at `end`. None: there is none that the source must have,
    because compaction or retention has removed it, or it stands for removed offsets."""
    for _, header in iter_batches(records):
        if header.end_offset == end and header.record_count:
            return _tail(header)
    return None


def is_without_records(records: memoryview, end: int) -> bool:
    """Whether these batches reach `end` and none of them has a record."""
    reached = 0
    for _, header in iter_batches(records):
        if header.record_count:
            return False
        reached = header.end_offset
    return reached >= end


def has_tail(source: memoryview, tail: Tail) -> bool:
    """Whether these bytes of the source have the last mirrored batch as it was."""
    return any(_tail(header) == tail for _, header in iter_batches(source))


def check_tail(source: memoryview, tail: Tail, *, compacts: bool) -> Verdict | None:
    """Compare the last mirrored batch with the source's bytes from its offset on. It is there as it
    was, unless the source went back and wrote other records. A compacted source may have removed
    its records."""
    for _, header in iter_batches(source):
        if header.end_offset <= tail.base_offset:
            continue
        if header.base_offset >= tail.end_offset:
            break
        if _tail(header) == tail:
            return None
        same_offsets = (header.base_offset, header.end_offset) == tail[:2]
        return None if compacts and same_offsets else _differs(header.base_offset)
    return None if compacts else _differs(tail.base_offset)


def continue_with(position: int, records: memoryview) -> Append | Verdict | None:
    """What to append of the source's bytes that were fetched from `position` on, or from its first
    offset on if that is later; None: no batch is complete."""
    if len(records) > _MAGIC_AT and records[_MAGIC_AT] < MAGIC:
        return Verdict(
            Why.OLD_FORMAT, f"offset {position} is in message format v{records[_MAGIC_AT]}"
        )
    parts: list[bytes | bytearray | memoryview] = []
    start = end = 0
    next_offset = position
    epochs: list[Note] = []
    last: BatchHeader | None = None
    try:
        for at, header in iter_batches(records):
            if header.base_offset < next_offset:
                return _differs(header.base_offset)
            # Compaction removed what is between: the target's log must have no hole.
            if header.base_offset > next_offset:
                if end > start:
                    parts.append(records[start:end])
                parts += fill(next_offset, header.base_offset)
                start = at
            end, next_offset = at + header.size_bytes, header.end_offset
            if last is None or header.leader_epoch != last.leader_epoch:
                epochs.append(Note(header.base_offset, header.leader_epoch, header.crc))
            last = header
    except CorruptData as error:
        if last is None:
            return Verdict(Why.REFUSED, f"offset {position} of the source is unreadable: {error}")
    if last is None:
        return None
    parts.append(records[start:end])
    return Append(parts, next_offset, tuple(epochs), _tail(last))


def fill(start: int, end: int) -> list[bytes | bytearray | memoryview]:
    """Batches without records for the offsets from `start` to `end`."""
    return [
        build_empty_batch(at, min(at + EMPTY_OFFSETS_MAX, end), NO_LEADER_EPOCH)
        for at in range(start, end, EMPTY_OFFSETS_MAX)
    ]


def fetch_failed(code: ErrorCode, position: int, source: Ends) -> Verdict | None:
    """The verdict on an error of the source that a retry does not pass; None: fetch again."""
    if code is not ErrorCode.offset_out_of_range:
        return Verdict(Why.REFUSED, f"the source refused a fetch at offset {position}: {code.name}")
    return attach(source, Ends(position, position), is_blank=False)


def append_failed(code: ErrorCode, message: str) -> Verdict:
    """The verdict on an error of the target that a retry does not pass."""
    why = {ErrorCode.policy_violation: Why.FENCED, ErrorCode.invalid_record: Why.DIFFERENT}
    return Verdict(why.get(code, Why.REFUSED), message)


def group_moves(
    theirs: Mapping[TopicPartition, int],
    ours: Mapping[TopicPartition, int],
    copied: Mapping[TopicPartition, int],
) -> dict[TopicPartition, int]:
    """The offsets to commit for a group here, of those that it has at the source. `copied`: what
    this mirror committed last. A group that is further here than that reads here already, and
    would get the records again."""
    return {
        tp: offset
        for tp, offset in theirs.items()
        if offset != ours.get(tp) and (offset > ours.get(tp, -1) or copied.get(tp) == ours.get(tp))
    }


def shorter(source_end: int, target_end: int) -> Verdict:
    """The verdict on a source that lacks records which are here."""
    text = f"the source ends at offset {source_end}, the mirror at {target_end}"
    return Verdict(Why.SHORTER, text)


def _deleted(position: int, source_start: int) -> Verdict:
    text = f"the source has deleted the records from offset {position} to {source_start}"
    return Verdict(Why.DELETED, text)


def _differs(offset: int) -> Verdict:
    return Verdict(Why.DIFFERENT, f"the source has another batch at offset {offset}")


def _tail(header: BatchHeader) -> Tail:
    return Tail(header.base_offset, header.end_offset, header.size_bytes, header.crc)
