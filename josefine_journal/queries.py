"""Queries over all journals of a store: ids, events with a tag, expired journals.

Rules: a query reads one snapshot, so only replicated events; purged journals and deleted events are
left out; each event is returned once, and those of a journal in order; memory grows with the number
of journals that have the tag or have expired, not with the store.
"""

import heapq
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, islice
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from josefine_journal.events import SeqNr
from josefine_journal.records import EventRecord, event_records
from josefine_journal.store_rows import APPEND, FILE_SCHEMA, PURGE, records_of
from josefine_journal.store_snapshot import DeltaSnapshot

T = TypeVar("T")

KEYS_AT_ONCE = 1_000
"""Journals per lookup."""


def ids(snapshot: DeltaSnapshot, partition: int) -> Iterator[str]:
    """The ids of the journals that have a last sequence number, sorted."""
    files = [_places(parts) for parts in snapshot.scans(partition, ("key", "offset", "kind"))]
    for key, rows in groupby(heapq.merge(*files), lambda place: place[0]):
        kinds = [kind for *_, kind in rows if kind in (APPEND, PURGE)]
        if kinds and kinds[-1] == APPEND:
            yield key


def _places(parts: Iterable[pa.Table]) -> Iterator[tuple[str, int, str]]:
    """(key, offset, kind), sorted in this order within a file and between files."""
    for part in parts:
        columns = (part[name].to_pylist() for name in ("key", "offset", "kind"))
        yield from zip(*columns, strict=True)


def expired(snapshot: DeltaSnapshot, partition: int, now_ms: int) -> Iterator[tuple[str, int]]:
    """The expired journals, each with the offset of its last append, which has the expiry."""
    found: dict[str, int] = {}
    columns = ("key", "offset", "kind", "expire_on_ms")
    for parts in snapshot.scans(partition, columns):
        for part in parts:
            rows = part.filter(pc.less_equal(part["expire_on_ms"], now_ms))
            found.update(zip(rows["key"].to_pylist(), rows["offset"].to_pylist(), strict=True))
    for keys in _by(KEYS_AT_ONCE, found):
        lasts = snapshot.lasts(partition, keys)
        yield from (
            (key, found[key]) for key in keys if key in lasts and lasts[key].offset == found[key]
        )


def tagged(snapshot: DeltaSnapshot, partition: int, tag: str) -> Iterator[tuple[str, EventRecord]]:
    """The events with that tag, each with its journal's id."""
    given: dict[str, SeqNr] = {}
    for parts in snapshot.scans(partition, FILE_SCHEMA.names):
        for part in parts:
            rows = _with_tag(part, tag)
            if not rows.num_rows:
                continue
            found = records_of(snapshot.topic, partition, rows)
            outlines = {key: snapshot.outline(partition, key) for key, _ in found}
            for key, record in found:
                outline = outlines[key]
                if record.offset < outline.begin_offset:
                    continue
                for each in event_records(record):
                    number = each.event.seq_nr
                    if number <= max(outline.deleted_to, given.get(key, 0)):
                        continue
                    if tag in each.event.tags:
                        given[key] = number
                        yield key, each


def _with_tag(rows: pa.Table, tag: str) -> pa.Table:
    """Appends with a value whose tags have it."""
    rows = rows.filter(pc.and_(pc.is_valid(rows["value"]), pc.is_valid(rows["tags"])))
    tags = rows["tags"].combine_chunks()
    parents = pc.list_parent_indices(tags)
    places = pc.unique(parents.filter(pc.equal(pc.list_flatten(tags), tag)))
    return rows.take(places)


def _by(count: int, values: Iterable[T]) -> Iterator[Sequence[T]]:
    """Groups of `count` values."""
    rest = iter(values)
    while part := list(islice(rest, count)):
        yield part
