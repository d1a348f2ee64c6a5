"""The newest archived offset of each partition, by which a log with other records is noticed.

An unclean election, or brokers that were restored from a copy, may end a log before what the
archive has and continue it with other records. Offsets do not show that once the log is long
enough; the leader epoch of the offset does. It is in the metadata of each of the archive's commits.
A marker or an aborted record counts, too: after the election a record may have its offset. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from josefine_broker.base.archive_note import ArchivedRecord, archived_record
from josefine_broker.base.ids import TopicPartition
from josefine_broker.records.batch import NO_LEADER_EPOCH, iter_batches
from josefine_lake.writer.topic_reader import Read

FACT = "newest"
"""The key in a commit's metadata."""
ByRecord = Mapping[TopicPartition, ArchivedRecord]


def fact_of(newest: ByRecord) -> dict[str, Any]:
    """Partition → [offset, leader epoch]."""
    return {FACT: {str(tp.partition): [*each] for tp, each in sorted(newest.items())}}


def newest_of(said: Mapping[str, Any], topic: str) -> dict[TopicPartition, ArchivedRecord]:
    """The records in a commit's metadata; empty if it has none that can be read."""
    try:
        pairs = {
            TopicPartition(topic, int(partition)): archived_record(pair)
            for partition, pair in dict(said.get(FACT) or {}).items()
        }
    except (ValueError, TypeError, OverflowError):
        return {}
    return {tp: each for tp, each in pairs.items() if each is not None}


def ends_of(
    records: Any, position: int, next_offset: int
) -> tuple[ArchivedRecord, ArchivedRecord] | None:
    """The offsets `position` and the last one below `next_offset` with the leader epochs of their
    batches; None without any."""
    first = last = None
    for _, header in iter_batches(records):
        if header.end_offset <= position:
            continue
        if header.end_offset > next_offset:
            break
        if first is None:
            first = ArchivedRecord(max(position, header.base_offset), header.leader_epoch)
        last = ArchivedRecord(header.end_offset - 1, header.leader_epoch)
    return None if first is None or last is None else (first, last)


def records_in(read: Read) -> tuple[ArchivedRecord, ArchivedRecord] | None:
    """The first and the last offset of a read; None without any."""
    if read.ends is not None:
        return read.ends
    some = [each for each in read.batches if each.num_rows]
    return (_at(some[0], 0), _at(some[-1], some[-1].num_rows - 1)) if some else None


def has_new_leader(known: ArchivedRecord | None, first: ArchivedRecord) -> bool:
    """Whether another leader wrote the record that follows: it may have ended the log before."""
    return known is not None and first.leader_epoch != known.leader_epoch


def is_there(reads: Iterable[Read], tp: TopicPartition, wanted: ArchivedRecord) -> bool | None:
    """Whether a read from its offset on has the record; None: the read shows nothing of it."""
    for read in reads:
        found = records_in(read)
        if read.partition == tp and found is not None:
            first = found[0]
            # An archived batch has no epoch: brokers have deleted the record, so they had it.
            return first == wanted or first.leader_epoch == NO_LEADER_EPOCH
    return None


def _at(batch: Any, row: int) -> ArchivedRecord:
    offset, epoch = (batch.column(name)[row].as_py() for name in ("offset", "leader_epoch"))
    return ArchivedRecord(offset, NO_LEADER_EPOCH if epoch is None else epoch)
