"""Compaction of the store: adjacent files are merged into one, without deleted and purged rows.

Rules: only adjacent files are merged, so the order of the log is kept; four or more files of a size
tier or below are merged when the result reaches the next tier, so a row is written once per tier
(as in an LSM tree): ten times for a million rows; readers see no difference.
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
"""Size limit of one merge, which is done in memory: some hundred bytes per row. The bytes are
compressed; the merge takes several times as much memory."""


def chosen(files: Sequence[PartFile], bytes_max: int = MERGED_BYTES_MAX) -> Sequence[PartFile]:
    """The files of a partition, in the order of the log, that should be merged; () if none."""
    best: Sequence[PartFile] = ()
    for tier in range(_tier(max((each.rows for each in files), default=0)) + 1):
        suffix = _suffix(files, tier, bytes_max)
        if len(suffix) >= FAN_IN and _tier(sum(each.rows for each in suffix)) > tier:
            best = suffix
    return best


def _tier(rows: int) -> int:
    """The size tier of a file; each tier is FAN_IN times the one below it."""
    tier = 0
    while rows >= FAN_IN:
        rows //= FAN_IN
        tier += 1
    return tier


def _suffix(files: Sequence[PartFile], tier: int, bytes_max: int) -> Sequence[PartFile]:
    """The newest files of that tier or below, as many as fit."""
    begin, size, rows = len(files), 0, 0
    while begin and _tier(files[begin - 1].rows) <= tier:
        size += files[begin - 1].size
        rows += files[begin - 1].rows
        if size > bytes_max or rows > MERGED_ROWS_MAX:
            break
        begin -= 1
    return files[begin:]


def merge(store: DeltaStore, partition: int) -> int:
    """Merge once if due; returns the number of merged files. Raises StoreError, OSError."""
    snapshot = store.snapshot((partition,))
    files = snapshot.files(partition)
    old = chosen(files)
    if not old:
        return 0
    tables = [snapshot.everything(partition, each) for each in old]
    # A purge after lost records shows that the journal's number is known, so it is kept.
    is_whole = len(old) == len(files) and not snapshot.lost_to(partition)
    rows = merged(store.topic, partition, pa.concat_tables(tables), is_whole=is_whole)
    try:
        store.replace(partition, old, rows)
    except Overtaken:  # another replicator has merged them, with the same result
        return 0
    return len(old)


def merged(topic: str, partition: int, rows: pa.Table, *, is_whole: bool) -> pa.Table:
    """The smallest equivalent of these rows; `is_whole`: there are no rows before them."""
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
    """Offsets of the rows to remove, and of the rows that lose their values."""
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
