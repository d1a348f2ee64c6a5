"""The reader of one archive: the rows of a range of offsets of one partition, in offset order.

Rules: the newest version that was looked at is read, and looked at again when a range is not in it;
files are found by the statistics in the Delta log, row groups by those in the files; memory is
bounded by a window of offsets: that of some row groups, so that none is decoded twice, or a number
that shrinks for large records. The last windows are kept: a reader that takes small parts one after
another would have whole row groups decoded for each of them. So are the footers of the last files.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from deltalake import DeltaTable
from deltalake.exceptions import DeltaProtocolError, TableNotFoundError

from josefine_broker.base.errors import CorruptData
from josefine_lake.config.table_topic import TableTopic
from josefine_lake.writer.columns import ARCHIVE_SCHEMA
from josefine_lake.writer.delta_table import reached
from josefine_lake.writer.worlds import opened
from josefine_spark.base.topic_offsets import TopicOffsets
from pipelines.sinks.delta_log import DeltaLogReader
from pipelines.storage.folders import Folders

WINDOW = 16_384
"""Offsets that are read at a time, at first."""
WINDOW_MAX = 1 << 22
WINDOW_BYTES = 32 << 20
GROUPS_BYTES = 6 << 20
"""Of the row groups in a window, unless one of them is larger."""
KEPT_BYTES = 4 * WINDOW_BYTES
"""Of the windows that are kept, unless one is larger: one for each partition that is read at the
same time. Partitions are read in turn, so with a window too few each read would decode its own."""
OPEN_MAX = 64
"""Files whose footers are kept."""
NO_OFFSET = -1
PLAIN_READER = 1
"""Protocol version of tables whose files have exactly their rows, under the columns' names."""
HARMLESS = {"timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"}
"""Features of newer ones that change nothing of that."""
BOUNDS = ("min.partition", "max.partition", "min.offset", "max.offset")
ANY = (0, 2**31, 0, 2**63 - 1)
"""Of a file or row group without statistics, which may have any row."""


class Group(NamedTuple):
    """A row group: its first and last offset, its first and last partition, and its bytes."""

    first: int
    last: int
    low: int
    top: int
    size: int


class OpenFile(NamedTuple):
    """A file with its footer: pyarrow's fragment, and the row groups with rows of the topic."""

    fragment: Any
    groups: list[Group]

    def rows(self, wanted: Any, columns: list[str] | None = None) -> Any:
        """Some rows, an Arrow table of all columns or of these ones."""
        return self.fragment.to_table(schema=ARCHIVE_SCHEMA, columns=columns, filter=wanted)


def end_of(groups: Sequence[Group]) -> tuple[int, int]:
    """(where some groups of a partition end, their bytes), by their first offsets. Groups may
    overlap: all those that start before the end are among them."""
    until = size = 0
    for each in groups:
        if size >= GROUPS_BYTES and each.first >= until:
            break
        size += each.size
        if size > WINDOW_BYTES:
            return min(until, each.first), size
        until = max(until, each.last + 1)
    return until, size


class Window(NamedTuple):
    """All rows of a partition's offsets from `first` on, below `until`, in their order."""

    first: int
    until: int
    rows: Any
    offsets: Any
    """Of the rows, as numbers."""

    def between(self, offset: int, end: int) -> Any:
        """The rows of these offsets."""
        at, stop = self.offsets.searchsorted([offset, end])
        return self.rows.slice(at, stop - at)


class ArchiveTable:
    """See the module. Mutable: the version that was looked at last."""

    def __init__(self, archive: TableTopic, env: Mapping[str, str]) -> None:
        """Raises StoppedTable for a place that cannot be read."""
        self.archive = archive
        self._folder = opened(archive, Folders({}, env), archive.location)
        name = archive.chain
        self._log = DeltaLogReader(self._folder.files, self._folder.path, name.app_id)
        self.offsets = TopicOffsets()
        """What the archive has, with the topic's id."""
        self.looked_s = 0.0
        """When, by the process's clock."""
        self._files: list[tuple[str, int, int, int, int]] = []
        self._starts: dict[int, int] = {}
        self._open: dict[str, OpenFile] = {}
        """By the path of files that were read; the one that was read last is the last one."""
        self._window = WINDOW
        self._kept: dict[int, Window] = {}
        """By partition; the one that was used last is the last one."""

    def look(self) -> None:
        """Look at the newest version. Raises DeltaError, OSError."""
        # Without offsets the next read looks again: an older version is not read after an error.
        self.offsets = TopicOffsets()
        tip, newest = self._log.last_tip()
        self.looked_s = time.monotonic()
        self._starts.clear()  # retention moves them
        self._kept.clear()
        self._open.clear()
        try:
            options = dict(self._folder.options) or None
            # That which has these offsets: a RESTORE may come between.
            version = None if newest < 0 else newest
            table = DeltaTable(self._folder.path, version, storage_options=options)
        except TableNotFoundError:
            self._files = []
            return
        self._refuse_others(table)
        actions = pa.table(table.get_add_actions(flatten=True))
        paths = actions.column("path").to_pylist()
        known = [_column(actions, name, len(paths)) for name in BOUNDS]
        files = [
            (path, *(default if at is None else at for at, default in zip(of, ANY, strict=True)))
            for path, *of in zip(paths, *known, strict=True)
        ]
        self._files = sorted(files, key=lambda each: each[3])
        self.offsets = reached(tip)

    def _refuse_others(self, table: DeltaTable) -> None:
        """Raise DeltaProtocolError for a table whose files have more than its rows: records that
        somebody has erased would be served again."""
        protocol = table.protocol()
        features = {*(protocol.reader_features or ())} - HARMLESS
        if protocol.min_reader_version == 2:
            features |= {"columnMapping"}
        if protocol.min_reader_version > PLAIN_READER and features:
            name = min(features)
            raise DeltaProtocolError(
                f"the archive {self.archive.location} has the table feature {name}, which its "
                f"reader does not know: drop it (ALTER TABLE ... DROP FEATURE {name})"
            )

    def end(self, partition: int) -> int:
        """The end of what the archive has of a partition at the last look."""
        found = [end for tp, end in self.offsets.ends.items() if tp.partition == partition]
        return found[0] if found else 0

    def start(self, partition: int) -> int:
        """The first archived offset; NO_OFFSET without any. Raises OSError, CorruptData."""
        if partition in self._starts:
            return self._starts[partition]
        best = NO_OFFSET
        for path, low, top, first, _ in self._files:
            if best != NO_OFFSET and first >= best:
                break
            if low <= partition <= top:
                rows = self._opened(path).rows(self._of(partition), ["offset"])
                if rows.num_rows:
                    found = pc.min(rows.column("offset")).as_py()
                    best = found if best == NO_OFFSET else min(best, found)
        if best != NO_OFFSET:
            self._starts[partition] = best
        return best

    def at_time(self, partition: int, time_ms: int, end: int) -> tuple[int, int] | None:
        """(offset, timestamp in ms) of the first record below `end` that is not older. Raises
        OSError, CorruptData."""
        best: tuple[int, int] | None = None
        since = pa.scalar(time_ms * 1000, pa.int64()).cast(pa.timestamp("us", tz="UTC"))
        wanted = self._of(partition) & (pc.field("offset") < end)
        wanted &= pc.field("timestamp") >= since
        for path, low, top, first, _ in self._files:
            if first >= end or (best is not None and first > best[0]):
                break
            if low <= partition <= top:
                rows = self._opened(path).rows(wanted, ["offset", "timestamp"])
                if rows.num_rows:
                    row = rows.sort_by("offset").slice(0, 1)
                    time_us = row.column("timestamp").cast("int64")[0].as_py()
                    found = row.column("offset")[0].as_py(), time_us // 1000
                    best = found if best is None else min(best, found)
        return best

    def epoch_end(self, partition: int, epoch: int, end: int) -> tuple[int, int] | None:
        """(offset of the first record below `end` of a later leader epoch, the largest epoch of the
        records before it, or `epoch` without any). None: no record below `end` is of a later one.
        Raises OSError, CorruptData."""
        later = pc.field("leader_epoch") > epoch
        first_later: int | None = None
        for path, low, top, first, _ in self._files:
            if first >= end or (first_later is not None and first > first_later):
                break
            if low <= partition <= top:
                found = self._offsets(path, partition, end, later)
                if found.num_rows:
                    at = pc.min(found.column("offset")).as_py()
                    first_later = at if first_later is None else min(first_later, at)
        if first_later is None:
            return None
        newest = (-1, epoch)
        for path, low, top, first, last in sorted(self._files, key=lambda each: -each[4]):
            if last <= newest[0]:
                break
            if low <= partition <= top and first < first_later:
                found = self._offsets(path, partition, first_later, ~later)
                if found.num_rows:
                    row = found.sort_by([("offset", "descending")]).slice(0, 1).to_pylist()[0]
                    newest = max(newest, (row["offset"], row["leader_epoch"]))
        return first_later, newest[1]

    def _offsets(self, path: str, partition: int, end: int, wanted: Any) -> Any:
        """The offsets and leader epochs below `end` of the wanted rows of a partition in a file."""
        rows = self._of(partition) & (pc.field("offset") < end) & wanted
        return self._opened(path).rows(rows, ["offset", "leader_epoch"])

    def rows(self, partition: int, offset: int, end: int) -> tuple[Any, int]:
        """(some rows from `offset` on, below `end`; the end of the range that they are all of).
        Empty only if there is none up to `end`. Raises OSError, CorruptData."""
        found = ARCHIVE_SCHEMA.empty_table()
        while offset < end and not found.num_rows:
            window = self._kept.pop(partition, None)
            if window is None or not window.first <= offset < window.until:
                window = self._read(partition, offset, end)
            self._kept[partition] = window
            while len(self._kept) > 1 and self._kept_bytes() > KEPT_BYTES:
                del self._kept[next(iter(self._kept))]
            found, offset = window.between(offset, end), min(window.until, end)
        return found, offset

    def _kept_bytes(self) -> int:
        return sum(each.rows.nbytes for each in self._kept.values())

    def _read(self, partition: int, offset: int, end: int) -> Window:
        until = min(end, self._groups_end(partition, offset, end) or offset + self._window)
        found = self._between(partition, offset, until)
        if found.nbytes > WINDOW_BYTES and self._window > 1:
            self._window = max(1, self._window // 4)
        elif found.nbytes < WINDOW_BYTES // 8:
            self._window = min(WINDOW_MAX, self._window * 2)
        return Window(offset, until, found, found.column("offset").to_numpy())

    def _paths(self, partition: int, offset: int, end: int) -> list[tuple[int, str]]:
        """(first offset, path) of the files that may have some of these offsets, in their order."""
        return [
            (first, path)
            for path, low, top, first, last in self._files
            if low <= partition <= top and first < end and last >= offset
        ]

    def _groups_end(self, partition: int, offset: int, end: int) -> int:
        """Where some row groups from `offset` on end; 0 if they are too large, or not known."""
        until = size = 0
        groups: list[Group] = []
        for first, path in self._paths(partition, offset, end):
            if size >= GROUPS_BYTES and first >= until:
                break
            # One with other partitions, too: its bytes are decoded as well.
            of = [g for g in self._opened(path).groups if g.low <= partition <= g.top]
            groups = sorted([*groups, *(each for each in of if each.last >= offset)])
            until, size = end_of(groups)
        return until if until > offset else 0

    def _between(self, partition: int, offset: int, end: int) -> Any:
        paths = [path for _, path in self._paths(partition, offset, end)]
        if not paths:
            return ARCHIVE_SCHEMA.empty_table()
        place = pc.field("offset")
        wanted = self._of(partition) & (place >= offset) & (place < end)
        found = pa.concat_tables([self._opened(path).rows(wanted) for path in paths])
        offsets = found.column("offset").to_numpy()
        # Sorting copies all values; the rows of one file are in their order already.
        found = found if (offsets[1:] > offsets[:-1]).all() else found.sort_by("offset")
        # Of one piece: each part of it that is read would be copied into one otherwise.
        return found.combine_chunks()

    def _of(self, partition: int) -> Any:
        """The rows of a partition: another topic may have its archive in the same table."""
        topic = pc.field("topic") == self.archive.topic
        return topic & (pc.field("partition") == partition)

    def _opened(self, path: str) -> OpenFile:
        """A file of the archive. Raises OSError, CorruptData."""
        found = self._open.pop(path, None)
        if found is None:
            try:
                files = ds.dataset(
                    [path], schema=ARCHIVE_SCHEMA, format="parquet", filesystem=self._folder.arrow()
                )
                (fragment,) = files.get_fragments()
                found = OpenFile(fragment, [*_groups_of(fragment, self.archive.topic)])
            except pa.ArrowInvalid as error:
                raise CorruptData(f"{self.archive.location}: {error}") from error
        self._open[path] = found
        if len(self._open) > OPEN_MAX:
            del self._open[next(iter(self._open))]
        return found


def _groups_of(fragment: Any, topic: str) -> Iterator[Group]:
    for group in fragment.row_groups:
        known = group.statistics or {}
        topics = known.get("topic")
        if topics and not topics["min"] <= topic <= topics["max"]:
            continue
        low, top, first, last = ANY
        if {"partition", "offset"} <= known.keys():
            partitions, offsets = known["partition"], known["offset"]
            low, top, first, last = (
                of[at] for of in (partitions, offsets) for at in ("min", "max")
            )
        yield Group(first, last, low, top, group.total_byte_size)


def _column(actions: Any, name: str, rows: int) -> list[Any]:
    found = actions.column(name).to_pylist() if name in actions.column_names else []
    return found or [None] * rows
