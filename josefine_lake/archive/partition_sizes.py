"""The bytes that each partition has in each data file of an archive, for `retention.bytes`.

Rules: the bytes are those of the compressed files, so an archive keeps at least as many as its
topic promises; a file of several partitions is shared by the numbers of their rows. A file never
changes, so each is read once, and only two narrow columns of it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any, NamedTuple

import pyarrow.dataset as ds


class Part(NamedTuple):
    """A partition's records in one file: the first offset, and their bytes."""

    first: int
    bytes: int


Parts = Mapping[int, Part]
"""Partition → its part of one file."""


class PartitionSizes:
    """Mutable: what was read of the files that the last call named."""

    def __init__(self) -> None:
        self._known: dict[str, Parts] = {}

    def of(self, files: Any, sizes: Mapping[str, int]) -> Mapping[str, Parts]:
        """Path → its parts. `files`: Arrow's file system of the table; `sizes`: path → bytes.
        Raises OSError."""
        self._known = {
            path: self._known.get(path) or _parts(files, path, size) for path, size in sizes.items()
        }
        return self._known


def beyond_bytes(files: Mapping[str, Parts], bytes_min: int) -> set[str]:
    """The paths of the files without which every partition still has `bytes_min`, or what it has
    from its start on in later files."""
    by_partition = defaultdict[int, list[tuple[Part, str]]](list)
    for path, parts in files.items():
        for partition, part in parts.items():
            by_partition[partition].append((part, path))
    needed = set[str]()
    for found in by_partition.values():
        kept_bytes = 0
        for part, path in sorted(found, reverse=True):
            if kept_bytes >= bytes_min:
                break
            needed.add(path)
            kept_bytes += part.bytes
    return {path for path, parts in files.items() if parts} - needed


def _parts(files: Any, path: str, size: int) -> Parts:
    rows = ds.dataset([path], format="parquet", filesystem=files)
    found = rows.to_table(columns=["partition", "offset"])
    counted = found.group_by("partition").aggregate([("offset", "min"), ("offset", "count")])
    return {
        row["partition"]: Part(row["offset_min"], size * row["offset_count"] // found.num_rows)
        for row in counted.to_pylist()
    }
