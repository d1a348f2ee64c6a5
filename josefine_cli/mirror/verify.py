"""The comparison of a mirrored topic with its source, by checksums of offset ranges.

A checksum covers every byte of the batches in its range but their leader epochs. Batches without
records do not count: compaction leaves some, and the mirror fills gaps with them. Where records are
compacted, each side removes them in its own time, so records are compared at the offsets that both
have.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import NamedTuple

from josefine_broker.base.errors import ErrorCode
from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.fetch import records_between
from josefine_broker.client.io_blocking import BlockingClient
from josefine_broker.records.batch import LENGTH_OVERHEAD_BYTES, iter_batches, verify
from josefine_broker.records.builder import Record
from josefine_cli.base.errors import UserError
from josefine_cli.mirror.plan import Ends

_EPOCH_END = LENGTH_OVERHEAD_BYTES + 4
_Batch = tuple[int, int, bytes]
"""Base offset, end offset, and the digest of the batch without its leader epoch."""


class Checked(NamedTuple):
    """The result for one partition."""

    start: int
    end: int
    batches: int
    digest: str
    """Of all ranges."""
    wrong: str = ""
    """The first difference; empty: there is none."""


def check_partition(
    source: BlockingClient, target: BlockingClient, tp: TopicPartition, shared: Ends
) -> Checked:
    """Compare the batches of the offsets that both sides have. Raises KafkaError, UserError."""
    whole, count = hashlib.sha256(), 0
    ours = _batches(target, tp, shared)
    for theirs in _batches(source, tp, shared):
        mine = next(ours, None)
        if mine != theirs:
            at = theirs[0] if mine is None else min(mine[0], theirs[0])
            wrong = f"the batches at offset {at} differ"
            return Checked(shared.start, shared.end, count, "", wrong)
        whole.update(theirs[2])
        count += 1
    more = next(ours, None)
    wrong = "" if more is None else f"the source has no batch at offset {more[0]}"
    return Checked(shared.start, shared.end, count, whole.hexdigest()[:16], wrong)


def check_compacted(
    source: BlockingClient, target: BlockingClient, tp: TopicPartition, shared: Ends
) -> Checked:
    """Compare the records at the offsets that both sides have. Raises KafkaError, UserError."""
    whole, count = hashlib.sha256(), 0
    ours = _records(target, tp, shared)
    mine = next(ours, None)
    for theirs in _records(source, tp, shared):
        while mine is not None and mine.offset < theirs.offset:
            mine = next(ours, None)
        if mine is None:
            break
        if mine.offset > theirs.offset:
            continue
        if mine != theirs:
            wrong = f"the records at offset {theirs.offset} differ"
            return Checked(shared.start, shared.end, count, "", wrong)
        whole.update(repr(mine).encode())
        count += 1
    return Checked(shared.start, shared.end, count, whole.hexdigest()[:16])


def _chunks(client: BlockingClient, tp: TopicPartition, shared: Ends) -> Iterator[memoryview]:
    """The bytes of these offsets, in fetches. Raises KafkaError, UserError."""
    offset = shared.start
    while offset < shared.end:
        fetched = client.fetch({tp: offset}, max_wait_ms=0).get(tp)
        if fetched is None:
            continue
        if fetched.error_code is not ErrorCode.none:
            raise UserError(f"{tp} at offset {offset}: {fetched.error_code.name}: verify again")
        data, before = memoryview(fetched.records), offset
        for _, header in iter_batches(data):
            offset = max(offset, header.end_offset)
        if offset == before:
            return  # only batches that were removed are left below the end
        yield data


def _batches(client: BlockingClient, tp: TopicPartition, shared: Ends) -> Iterator[_Batch]:
    for data in _chunks(client, tp, shared):
        for at, header in iter_batches(data):
            if header.base_offset >= shared.end:
                return
            if not header.record_count or header.end_offset <= shared.start:
                continue
            verify(data, at, header)
            digest = hashlib.sha256(data[at : at + LENGTH_OVERHEAD_BYTES])
            digest.update(data[at + _EPOCH_END : at + header.size_bytes])
            yield header.base_offset, header.end_offset, digest.digest()


def _records(client: BlockingClient, tp: TopicPartition, shared: Ends) -> Iterator[Record]:
    offset = shared.start
    for data in _chunks(client, tp, shared):
        for record in records_between(data, offset, shared.end):
            yield record
            offset = record.offset + 1
