"""Delta logs of folders on this machine: a table's state at a version, a chain there, a commit.

A commit is one file that is linked to its name: the link fails if another writer took the version,
so a commit is based on exactly the version that was read.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from pipelines.base.errors import RunError
from pipelines.deploy.table_actions import TableState, files_to_copy
from pipelines.exactly_once.offset_chain import Tip
from pipelines.exactly_once.other_chains import ChainName
from pipelines.sinks.delta_log import DeltaLogReader, LogEntry, lines_of
from pipelines.storage.files import FolderFiles

_DRAFT = ".deploy.tmp"
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint(?:\.\d{10}\.(\d{10}))?\.parquet")


class UpTo(FolderFiles):
    """The files of a table as they were at a version: later commits are hidden."""

    def __init__(self, version: int) -> None:
        self._last = f"{version:020d}.json"

    def names(self, folder: str) -> list[str]:
        """Names of the log sort by their version."""
        return [name for name in super().names(folder) if name <= self._last]


class TableLog:
    """One table's folder, and the chain of one name in it."""

    def __init__(self, path: str, name: ChainName) -> None:
        self.path = path
        self.name = name
        self._folder = Path(path) / "_delta_log"

    def reader(self, version: int | None = None) -> DeltaLogReader:
        """A reader of the chain, up to `version`."""
        files = FolderFiles() if version is None else UpTo(version)
        return DeltaLogReader(files, self.path, self.name.app_id)

    def tip(self, version: int | None = None) -> tuple[Tip | None, int]:
        """(the chain's newest commit, the newest version), as they were at `version`. Raises
        RunError if the commit's offsets cannot be read."""
        found, newest = self.reader(version).last_tip()
        if found is not None and not isinstance(found, Tip):
            raise RunError(f"{self.path}: the end offsets of {self.name} cannot be read: {found}")
        has_offsets = found is not None and found.reached.ends
        return found if has_offsets else None, newest

    def txn_version(self) -> int:
        """The chain's highest transaction version, also of commits that were taken back."""
        found, _ = self.reader().last_tip()
        return found.txn_version if found is not None else 0

    def own(self) -> Iterator[LogEntry]:
        """The chain's commits, newest first."""
        return self.reader().own()

    def state(self, version: int | None = None, since: TableState | None = None) -> TableState:
        """The table at a version, or the newest one. `since`: an earlier state that was read; the
        log is read on from there. Raises RunError if the log lacks a part."""
        versions = self.reader(version).versions()
        if version is not None and versions[-1:] != ([version] if version >= 0 else []):
            what = f"{self.path}: version {version} cannot be read: its log entry was deleted"
            raise RunError(what)
        if not versions:
            return TableState()
        last = versions[-1]
        newest = max(self._checkpoints(last), default=-1)
        state = TableState() if since is None else since
        if newest > state.version:
            state = TableState(version=newest).with_actions(newest, self._rows(newest))
        for at in range(state.version + 1, last + 1):
            try:
                text = (self._folder / f"{at:020d}.json").read_text(encoding="utf-8")
            except FileNotFoundError:
                what = f"{self.path}: version {last} cannot be read: the log lacks version {at}"
                raise RunError(what) from None
            actions = (json.loads(line) for line in lines_of(text))
            state = state.with_actions(at, actions)
        return state

    def _checkpoints(self, last: int) -> set[int]:
        """The versions up to `last` that have a whole checkpoint of the classic kind."""
        parts: Counter[tuple[int, int]] = Counter()
        for path in self._folder.iterdir():
            if found := _CHECKPOINT.fullmatch(path.name):
                parts[int(found[1]), int(found[2] or 1)] += 1
        return {at for (at, wanted), count in parts.items() if count == wanted and at <= last}

    def _rows(self, version: int) -> Iterator[dict[str, Any]]:
        """The actions of a checkpoint, as a commit file has them."""
        import pyarrow.parquet as pq

        wanted = ("protocol", "metaData", "add", "domainMetadata")
        for part in sorted(self._folder.glob(f"{version:020d}.checkpoint*.parquet")):
            file = pq.ParquetFile(part)
            # By leaves: the statistics as a struct, next to their text, would double the time.
            leaves = [leaf.path for leaf in map(file.schema.column, range(len(file.schema)))]
            columns = [
                leaf
                for leaf in leaves
                if leaf.partition(".")[0] in wanted and "_parsed." not in leaf
            ]
            for batch in file.iter_batches(columns=columns):
                for key in batch.schema.names:
                    # A row has one action: all other columns of it are null.
                    for one in batch.column(key).drop_null().to_pylist(maps_as_pydicts="strict"):
                        yield {key: _without_nulls(one)}

    def missing_files(self, state: TableState) -> list[str]:
        """The files of a state that are not there any more: VACUUM has deleted them."""
        folder = self.path.rstrip("/")
        return [name for name in files_to_copy(state) if not os.path.exists(f"{folder}/{name}")]

    def commit(self, version: int, text: str) -> bool:
        """Commit as `version`; False if another writer has it."""
        self._folder.mkdir(parents=True, exist_ok=True)
        target = self._folder / f"{version:020d}.json"
        draft = _draft_of(target)
        with draft.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(draft, target)
        except FileExistsError:
            return False
        finally:
            draft.unlink()
        # Spark's own check of a folder on this machine is not atomic: see what the version has.
        return target.read_text(encoding="utf-8") == text


def _without_nulls(value: dict[str, Any]) -> dict[str, Any]:
    """A struct of a checkpoint without what a commit file does not have."""
    kept = {}
    for key, one in value.items():
        if one is None or key.endswith("_parsed"):
            continue
        is_struct = isinstance(one, dict) and key in ("format", "deletionVector")
        kept[key] = _without_nulls(one) if is_struct else one
    return kept


def link_files(shadow: str, live: str, state: TableState) -> None:
    """Give the files of the shadow's state to the live table's folder: links where the file system
    has them, else copies. No version names them yet; a repetition finds and skips them."""
    for name in files_to_copy(state):
        source, target = Path(shadow) / name, Path(live) / name
        if target.exists() and target.stat().st_size == source.stat().st_size:
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        draft = _draft_of(target)
        draft.unlink(missing_ok=True)
        try:
            os.link(source, draft)
        except OSError:
            shutil.copyfile(source, draft)
        # VACUUM goes by this time, and would take a file of an old shadow for one left over.
        os.utime(draft)
        draft.rename(target)


def _draft_of(target: Path) -> Path:
    """The name under which this process makes a file: readers and VACUUM pass over it."""
    return target.with_name(f".{target.name}.{os.getpid()}{_DRAFT}")


def remove_drafts(table: str) -> None:
    """Remove the drafts that killed commands have left; nothing else ever would."""
    for draft in Path(table).rglob(f".*{_DRAFT}"):
        pid = draft.name.removesuffix(_DRAFT).rpartition(".")[2]
        if pid == str(os.getpid()) or not Path("/proc", pid).exists():
            draft.unlink(missing_ok=True)


def remove_folder(path: str) -> None:
    """Remove a folder at once: a killed removal leaves nothing under the folder's own name."""
    away = f"{path.rstrip('/')}__removed"
    with suppress(FileNotFoundError):
        shutil.rmtree(away)
    with suppress(FileNotFoundError):
        Path(path).rename(away)
        shutil.rmtree(away)
