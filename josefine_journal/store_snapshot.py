"""The store at one version: a journal's rows, found by key. Reads files, decides nothing.

Rules: a partition's files lie one behind the other in the log, so what is read file by file is in
order; a file that was read once stays open for the next read, a bounded number of them.
"""

import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
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
from josefine_journal.store_rows import APPEND, DELETE, OUTLINE_COLUMNS, PURGE, records_of, upgraded

FILES_OPEN_MAX = 256
SHORT_GROUPS_MAX = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class PartFile:
    """A file as the table's log names it. No keys: they are too long for the log."""

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
    """Files by path; the one that was not used longest is closed."""

    def __init__(self, files_max: int = FILES_OPEN_MAX) -> None:
        self._files_max = files_max
        self._open: OrderedDict[Path, StoreFile] = OrderedDict()
        self.lock = threading.RLock()
        """A file is read by one thread at a time."""

    def get(self, path: Path) -> StoreFile:
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
        path: Path,
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
        """What a file has of a journal of which it has little: it is read once."""

    def replicated(self, partition: int) -> int | None:
        found = self._ends[partition]
        return None if found is None else found.end

    def lost_to(self, partition: int) -> int:
        found = self._ends[partition]
        return 0 if found is None else found.lost_to

    def files(self, partition: int) -> Sequence[PartFile]:
        """In the order of the log."""
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
        # a delete names a number that was there, also where that append went away with it
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
        """Each file in the order of the log, a group of rows at a time."""
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
        """All rows of a file, as they are written now."""
        with self._open_files.lock:
            rows = self._open_files.get(self._path / file.path).everything()
        return upgraded(self.topic, partition, rows)

    def _rows(self, file: PartFile, keys: Sequence[str]) -> Any:
        """What an outline needs of these journals; None: the file has nothing of them."""
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
    """The largest number of the rows of a kind."""
    found = pc.max(rows.filter(pc.equal(rows["kind"], kind))[column]).as_py()
    return None if found is None else int(found)


def ends_of(actions: pa.Table) -> dict[int, list[StoredEnd]]:
    """Of each partition; more than one is not of our making."""
    found: dict[int, list[StoredEnd]] = {}
    for row in actions.select(["path", "size_bytes"]).to_pylist():
        if (end := stored_end(row["path"], row["size_bytes"])) is not None:
            found.setdefault(end.partition, []).append(end)
    return found


def files_of(actions: pa.Table) -> dict[int, tuple[PartFile, ...]]:
    """Of each partition, in the order of the log; the table's additions as delta-rs lists them."""
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
