"""A snapshot of the store at one version: finds a journal's rows by key. Reads files, decides
nothing.

Rules: a partition's files cover consecutive ranges of the log, so a read file by file is in order;
a file stays open for the next read, up to a maximum number.
"""

import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from josefine_journal.errors import StoreError
from josefine_journal.events import SeqNr
from josefine_journal.ports import Outline
from josefine_journal.records import ActionRecord
from josefine_journal.reduction import Last
from josefine_journal.store_ends import StoredEnd, stored_end
from josefine_journal.store_files import StoreFile, appends_of
from josefine_journal.store_place import Place
from josefine_journal.store_rows import APPEND, DELETE, OUTLINE_COLUMNS, PURGE, records_of, upgraded

FILES_OPEN_MAX = 256
SHORT_GROUPS_MAX = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class PartFile:
    """A file in the table's log. It has no keys: they are too long for the log."""

    path: str
    size: int
    rows: int
    first_offset: int
    last_offset: int
    first_key: str | None
    last_key: str | None

    def may_have(self, key: str) -> bool:
        if self.first_key is None or self.last_key is None:
            return True
        return self.first_key <= key <= self.last_key


class OpenFiles:
    """Open files by path; the least recently used one is closed first."""

    def __init__(self, files_max: int = FILES_OPEN_MAX) -> None:
        self._files_max = files_max
        self._open: OrderedDict[Place, StoreFile] = OrderedDict()
        self.lock = threading.RLock()
        """Only one thread at a time reads a file."""

    def get(self, path: Place) -> StoreFile:
        """Raises StoreError."""
        file = self._open.get(path)
        if file is None:
            try:
                file = self._open[path] = StoreFile(path)
            except (OSError, pa.ArrowInvalid) as error:
                raise StoreError(f"file {path} of the store cannot be read: {error}") from error
            if len(self._open) > self._files_max:
                self._open.popitem(last=False)
        self._open.move_to_end(path)
        return file


class DeltaSnapshot:
    """See `josefine_journal.ports.Snapshot`. Raises StoreError for a file that cannot be read."""

    def __init__(
        self,
        *,
        topic: str,
        path: Place,
        ends: Mapping[int, StoredEnd | None],
        files: Mapping[int, Sequence[PartFile]],
        open_files: OpenFiles,
    ) -> None:
        self.topic = topic
        self._path = path
        self._ends = ends
        self._files = files
        self._open_files = open_files
        self._short: dict[tuple[str, str], pa.Table] = {}
        """Cache of journals with few rows, by file and journal: they are read once."""

    def replicated(self, partition: int) -> int | None:
        found = self._ends[partition]
        return None if found is None else found.end

    def lost_to(self, partition: int) -> int:
        found = self._ends[partition]
        return 0 if found is None else found.lost_to

    def files(self, partition: int) -> Sequence[PartFile]:
        """The files of a partition in the order of the log."""
        return self._files[partition]

    def outline(self, partition: int, key: str) -> Outline:
        pointer, deleted_to, at, purged = 0, 0, None, None
        for file in reversed(self._files[partition]):  # a purge ends the search
            rows = self._rows(file, (key,))
            if rows is None or not rows.num_rows:
                continue
            purged = _most(rows, "offset", PURGE)
            if purged is not None:
                rows = rows.filter(pc.greater(rows["offset"], purged))
            pointer = max(pointer, _most(rows, "last_seq_nr", APPEND) or 0)
            deleted_to = max(deleted_to, _most(rows, "last_seq_nr", DELETE) or 0)
            if at is None:
                at = _most(rows, "offset", APPEND)
            if purged is not None:
                break
        # A delete has a number that existed, even if a merge has removed that append since.
        last = None if at is None else Last(seq_nr=SeqNr(max(pointer, deleted_to)), offset=at)
        return Outline(last=last, deleted_to=deleted_to, begin_offset=purged or 0)

    def lasts(self, partition: int, keys: Sequence[str]) -> Mapping[str, Last]:
        found: dict[str, Last] = {}
        for file in self._files[partition]:
            rows = self._rows(file, keys)
            for row in () if rows is None else rows.to_pylist():
                key, number = row["key"], row["last_seq_nr"]
                before = found.get(key)
                match row["kind"]:
                    case "purge":
                        found.pop(key, None)
                    case "append":
                        furthest = max(number, 0 if before is None else before.seq_nr)
                        found[key] = Last(seq_nr=SeqNr(furthest), offset=row["offset"])
                    case "delete" if before is not None and number > before.seq_nr:
                        found[key] = Last(seq_nr=SeqNr(number), offset=before.offset)
        return found

    def appends(
        self, partition: int, key: str, outline: Outline, begin: int
    ) -> Iterator[list[ActionRecord]]:
        for file in self._files[partition]:
            if not file.may_have(key):
                continue
            short = self._short.get((file.path, key))
            if short is not None:
                part = appends_of(short, key, outline.begin_offset, begin)
                if part.num_rows:
                    yield [record for _, record in records_of(self.topic, partition, part)]
                continue
            with self._open_files.lock:
                parts = self._open_files.get(self._path / file.path).appends(
                    key, outline.begin_offset, begin
                )
                part = next(parts, None)
            while part is not None:
                yield [record for _, record in records_of(self.topic, partition, part)]
                with self._open_files.lock:
                    part = next(parts, None)

    def history(self, partition: int) -> Iterator[list[tuple[str, ActionRecord]]]:
        for file in self._files[partition]:
            rows = self.everything(partition, file).sort_by("offset")
            yield records_of(self.topic, partition, rows)

    def scans(self, partition: int, columns: Sequence[str]) -> Iterator[Iterator[pa.Table]]:
        """Each file in the order of the log, one row group at a time."""
        for file in self._files[partition]:
            yield self._scan(partition, file, columns)

    def _scan(self, partition: int, file: PartFile, columns: Sequence[str]) -> Iterator[pa.Table]:
        with self._open_files.lock:
            groups = self._open_files.get(self._path / file.path).group_count
        for number in range(groups):
            with self._open_files.lock:
                opened = self._open_files.get(self._path / file.path)
                rows = opened.group(number, columns)
                if rows is None:
                    rows = upgraded(self.topic, partition, opened.group(number, None))
            yield rows.select(columns)

    def everything(self, partition: int, file: PartFile) -> pa.Table:
        """All rows of a file, upgraded to the current columns."""
        with self._open_files.lock:
            rows = self._open_files.get(self._path / file.path).everything()
        return upgraded(self.topic, partition, rows)

    def _rows(self, file: PartFile, keys: Sequence[str]) -> Any:
        """The rows of these journals for an outline; None: the file has none."""
        wanted = [key for key in keys if file.may_have(key)]
        if not wanted:
            return None
        with self._open_files.lock:
            opened = self._open_files.get(self._path / file.path)
            groups = opened.groups_of_any(wanted)
            if not groups:
                return None
            if len(keys) == 1 and len(groups) <= SHORT_GROUPS_MAX:
                rows = self._short[file.path, keys[0]] = opened.read(groups, wanted)
                return rows
            return opened.read(groups, wanted, OUTLINE_COLUMNS)


def _most(rows: pa.Table, column: str, kind: str) -> int | None:
    """The largest number among the rows of a kind."""
    found = pc.max(rows.filter(pc.equal(rows["kind"], kind))[column]).as_py()
    return None if found is None else int(found)


def ends_of(actions: pa.Table) -> dict[int, list[StoredEnd]]:
    """The ends of each partition; more than one was not written by this program."""
    found: dict[int, list[StoredEnd]] = {}
    for row in actions.select(["path", "size_bytes"]).to_pylist():
        if (end := stored_end(row["path"], row["size_bytes"])) is not None:
            found.setdefault(end.partition, []).append(end)
    return found


def files_of(actions: pa.Table) -> dict[int, tuple[PartFile, ...]]:
    """The files of each partition in the order of the log, from delta-rs's list of add actions."""
    found: dict[int, list[PartFile]] = {}
    for row in actions.to_pylist():
        if stored_end(row["path"], row["size_bytes"]) is not None:
            continue
        file = PartFile(
            path=row["path"],
            size=row["size_bytes"],
            rows=row["num_records"],
            first_offset=row["min.offset"],
            last_offset=row["max.offset"],
            first_key=row.get("min.key"),
            last_key=row.get("max.key"),
        )
        found.setdefault(int(row["partition.partition"]), []).append(file)
    return {p: tuple(sorted(files, key=lambda f: f.first_offset)) for p, files in found.items()}
