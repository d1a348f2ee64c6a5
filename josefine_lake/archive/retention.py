"""Deletion from an archive by `retention.ms` and `retention.bytes`, those of the whole topic.

Rules: as a log does, each partition loses records from its start alone: those before the first file
that must stay. A file may go by time if its newest timestamp is old enough, by the statistics in
the Delta log; one without timestamps, or with some that are unknown, may not. It may go by bytes if
each of its partitions has as many bytes as it must keep in later files. One Delta commit deletes
the rows of all partitions; readers of older versions have the files until VACUUM. The settings are
read again before each deletion.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from josefine_lake.archive.partition_sizes import PartitionSizes, beyond_bytes

CHECK_MS = 300_000
"""How often to look for old records, as Kafka's `log.retention.check.interval.ms`."""


class Span(NamedTuple):
    """A data file by its statistics; `newest_ms` None: no time that may be relied on."""

    path: str
    low: int
    top: int
    first: int
    last: int
    newest_ms: int | None


class Table(Protocol):
    """An archive's table. `writer.delta_table.ChainedTable`."""

    folder: Any

    def actions(self) -> Any:
        """The data files of the newest version, as delta-rs has them; None without a table."""
        ...

    def delete_rows(self, predicate: str) -> None:
        """One commit without these rows."""
        ...


class Retention(NamedTuple):
    """What each partition keeps; None: no bound."""

    ms: int | None = None
    bytes: int | None = None


def delete_expired(
    table: Table, keep: Retention, now_ms: int, sizes: PartitionSizes
) -> dict[int, int]:
    """Partition → its new first offset, of those that lost records. `now_ms` is since 1970. Raises
    StoppedError, DeltaError, OSError."""
    actions = table.actions()
    spans = [] if actions is None or keep == Retention() else spans_of(actions)
    paths = set[str]()
    if keep.ms is not None:
        paths |= {each.path for each in spans if is_expired(each, now_ms - keep.ms)}
    if keep.bytes is not None and spans:
        paths |= beyond_bytes(sizes.of(table.folder.arrow(), file_bytes(actions)), keep.bytes)
    expired = [each for each in spans if each.path in paths]
    if not expired:
        return {}
    files = table.folder.arrow()
    kept = sorted(set(spans) - set(expired), key=lambda span: span.first)
    starts = {}
    for partition, (first, last) in _offsets(files, expired).items():
        start = min([last + 1, *_first_of(files, partition, kept)])
        if start > first:
            starts[partition] = start
    if starts:
        table.delete_rows(predicate(starts))
    return starts


def is_expired(span: Span, before_ms: int) -> bool:
    """Whether every record of a file is older."""
    return span.newest_ms is not None and span.newest_ms < before_ms


def file_bytes(actions: Any) -> dict[str, int]:
    """Path → bytes of each data file."""
    columns = (actions.column(name).to_pylist() for name in ("path", "size_bytes"))
    return dict(zip(*columns, strict=True))


def predicate(starts: Mapping[int, int]) -> str:
    """The rows below the new starts, in SQL."""
    parts = (f'("partition" = {at} AND "offset" < {start})' for at, start in sorted(starts.items()))
    return " OR ".join(parts)


def spans_of(actions: Any) -> list[Span]:
    """The files whose statistics are whole; one of another kind is of every partition and offset,
    and has no time."""
    rows = actions.num_rows
    names = ("min.partition", "max.partition", "min.offset", "max.offset")
    known = [_column(actions, name, rows) for name in names]
    times = [_times(actions, name, rows) for name in ("min.timestamp", "max.timestamp")]
    nulls = _column(actions, "null_count.timestamp", rows)
    found = []
    for at, path in enumerate(actions.column("path").to_pylist()):
        low, top, first, last = (column[at] for column in known)
        oldest_us, newest_us = (column[at] for column in times)
        is_timed = nulls[at] == 0 and oldest_us is not None and newest_us is not None
        is_timed = is_timed and oldest_us >= 0  # a producer without a clock sends -1
        newest_ms = newest_us // 1_000 if is_timed else None
        if None in (low, top, first, last):
            low, top, first, last, newest_ms = 0, 2**31, 0, 2**63 - 1, None
        found.append(Span(path, low, top, first, last, newest_ms))
    return found


def _column(actions: Any, name: str, rows: int) -> list[Any]:
    return actions.column(name).to_pylist() if name in actions.column_names else [None] * rows


def _times(actions: Any, name: str, rows: int) -> list[Any]:
    # As numbers: Python has no times after the year 9999.
    if name not in actions.column_names:
        return [None] * rows
    return actions.column(name).cast(pa.timestamp("us", "UTC")).cast(pa.int64()).to_pylist()


def _offsets(files: Any, spans: Sequence[Span]) -> dict[int, tuple[int, int]]:
    """Partition → its first and last offset in these files."""
    paths = [span.path for span in spans]
    rows = ds.dataset(paths, format="parquet", filesystem=files)
    found = rows.to_table(columns=["partition", "offset"])
    bounds = found.group_by("partition").aggregate([("offset", "min"), ("offset", "max")])
    return {row["partition"]: (row["offset_min"], row["offset_max"]) for row in bounds.to_pylist()}


def _first_of(files: Any, partition: int, spans: Iterable[Span]) -> Iterator[int]:
    """The first offset of a partition in files in the order of their first offsets; none if it is
    in none of them."""
    best: int | None = None
    for span in spans:
        if best is not None and span.first >= best:
            break
        if span.low <= partition <= span.top:
            rows = ds.dataset([span.path], format="parquet", filesystem=files).to_table(
                columns=["offset"], filter=pc.field("partition") == partition
            )
            if rows.num_rows:
                first = pc.min(rows.column("offset")).as_py()
                best = first if best is None else min(best, first)
    if best is not None:
        yield best
