"""Keeps the store's files few: neighbours in the log become one file, and what deletes and purges
took goes away with it.

Rules: files are merged with their neighbours only, so the order of the log stays; four or more of a
size or less are merged when that makes a larger size, so a row is written once per size (as in an
LSM tree): ten times for a million rows; nothing that a reader can tell changes.
"""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from josefine_journal.actions import Purge
from josefine_journal.delta_store import DeltaStore
from josefine_journal.errors import Overtaken
from josefine_journal.resolving import least
from josefine_journal.store_rows import APPEND, FILE_SCHEMA, records_of
from josefine_journal.store_snapshot import PartFile

FAN_IN = 4
MERGED_BYTES_MAX = 64 * 1024 * 1024
MERGED_ROWS_MAX = 2_000_000
"""Of the files of one merge, which is done in memory: some hundred bytes a row. The bytes are
compressed ones; several times that much is taken meanwhile."""


def chosen(files: Sequence[PartFile], bytes_max: int = MERGED_BYTES_MAX) -> Sequence[PartFile]:
    """Which of a partition's files, in the order of the log, are to be one; none of them: ()."""
    best: Sequence[PartFile] = ()
    for tier in range(_tier(max((each.rows for each in files), default=0)) + 1):
        suffix = _suffix(files, tier, bytes_max)
        if len(suffix) >= FAN_IN and _tier(sum(each.rows for each in suffix)) > tier:
            best = suffix
    return best


def _tier(rows: int) -> int:
    """Sizes, each FAN_IN times the one below it."""
    tier = 0
    while rows >= FAN_IN:
        rows //= FAN_IN
        tier += 1
    return tier


def _suffix(files: Sequence[PartFile], tier: int, bytes_max: int) -> Sequence[PartFile]:
    """The newest files, as far as they are of that size or less, and fit."""
    begin, size, rows = len(files), 0, 0
    while begin and _tier(files[begin - 1].rows) <= tier:
        size += files[begin - 1].size
        rows += files[begin - 1].rows
        if size > bytes_max or rows > MERGED_ROWS_MAX:
            break
        begin -= 1
    return files[begin:]


def merge(store: DeltaStore, partition: int) -> int:
    """Merge once if that is due; how many files became one. Raises StoreError, OSError."""
    snapshot = store.snapshot((partition,))
    files = snapshot.files(partition)
    old = chosen(files)
    if not old:
        return 0
    tables = [snapshot.everything(partition, each) for each in old]
    # A purge after lost records says that the journal's number is known: it stays.
    is_whole = len(old) == len(files) and not snapshot.lost_to(partition)
    rows = merged(store.topic, partition, pa.concat_tables(tables), is_whole=is_whole)
    try:
        store.replace(partition, old, rows)
    except Overtaken:  # another replicator merges: its work is as good
        return 0
    return len(old)


def merged(topic: str, partition: int, rows: pa.Table, *, is_whole: bool) -> pa.Table:
    """The least of these rows that amounts to the same; `is_whole`: nothing stands before them."""
    rows = rows.select(FILE_SCHEMA.names).sort_by([("key", "ascending"), ("offset", "ascending")])
    special = pc.unique(rows.filter(pc.not_equal(rows["kind"], APPEND))["key"])
    if not len(special):
        return rows
    taken_of = rows.filter(pc.is_in(rows["key"], value_set=special))
    gone, emptied = _taken(topic, partition, taken_of, is_whole)
    is_emptied = pc.is_in(rows["offset"], value_set=pa.array(emptied, pa.int64()))
    values = pc.if_else(is_emptied, pa.scalar(None, pa.binary()), rows["value"])
    rows = rows.set_column(FILE_SCHEMA.get_field_index("value"), FILE_SCHEMA.field("value"), values)
    untagged = pc.if_else(is_emptied, pa.scalar(None, rows["tags"].type), rows["tags"])
    rows = rows.set_column(FILE_SCHEMA.get_field_index("tags"), FILE_SCHEMA.field("tags"), untagged)
    is_gone = pc.is_in(rows["offset"], value_set=pa.array(gone, pa.int64()))
    return rows.filter(pc.invert(is_gone))


def _taken(
    topic: str, partition: int, rows: pa.Table, is_whole: bool
) -> tuple[list[int], list[int]]:
    """Offsets of the rows that go away, and of those whose values do."""
    marker = pa.array([b""] * rows.num_rows, pa.binary())
    light = rows.set_column(
        FILE_SCHEMA.get_field_index("value"), FILE_SCHEMA.field("value"), marker
    )
    gone: set[int] = set()
    emptied: list[int] = []
    found = records_of(topic, partition, light)
    journals: dict[str, list[int]] = {}
    for at, (key, record) in enumerate(found):
        journals.setdefault(key, []).append(at)
        gone.add(record.offset)
    for places in journals.values():
        kept = least(found[at][1] for at in places)
        if is_whole and kept and isinstance(kept[0].action, Purge):
            kept = kept[1:]
        gone -= {each.offset for each in kept}
        emptied += [each.offset for each in kept if each.value is None]
    return sorted(gone), emptied
