"""Spark's checkpoint of one sink: its planned and committed batches with their offsets.

Reads `offsets/N` (written before a batch runs) and `commits/N` (after it). Three methods write:
`set_aside` renames the whole folder when the user trusts the table instead, `sweep` makes room for
a first batch, and `continues` records the table's end offsets from which a new checkpoint starts.
Without that record, the very first batch of a sink looks like a batch after a deleted table.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Protocol

from josefine_spark.base.topic_offsets import ByPartition, TopicOffsets, flat, nested
from pipelines.base.errors import RunError
from pipelines.exactly_once.checkpoint_start import Checkpoint, Recorded
from pipelines.exactly_once.offset_chain import Batch, together

CONTINUES = "continues.json"
"""In the checkpoint's folder; Spark ignores it."""


class Files(Protocol):
    """The file system operations used here (`hadoop.HadoopFiles`, or a folder in a unit test)."""

    def read_text(self, path: str) -> str | None: ...

    def names(self, folder: str) -> list[str]: ...

    def rename(self, path: str, new_path: str) -> None: ...

    def remove(self, path: str) -> None: ...

    def write_text(self, path: str, text: str) -> None: ...


class CheckpointFiles:
    """One sink's checkpoint folder. `parse` reads the source's offset JSON."""

    def __init__(self, files: Files, folder: str, parse: Callable[[str], TopicOffsets]) -> None:
        self._files = files
        self.folder = folder
        self._parse = parse
        # Batch number and offsets that were read last: the next batch starts where they end.
        self._last: tuple[int, TopicOffsets] | None = None

    def read(self) -> Checkpoint | None:
        """The newest planned and committed batches; None when there is no checkpoint."""
        planned_id = max(self._ids("offsets"), default=None)
        committed_id = max(self._ids("commits"), default=None)
        # Spark writes `offsets/N` before `commits/N`, and deletes old ones of both.
        if planned_id is None:
            if committed_id is None:
                return None
            return Checkpoint(planned=None, committed=None, damaged=self._damage(committed_id))
        committed = None
        if committed_id is not None:
            recorded = self._recorded(committed_id)
            # A commit without its offsets: the table's end cannot be compared with it.
            if recorded is None:
                damaged = self._damage(committed_id)
                planned = self._recorded(planned_id)
                return Checkpoint(planned=planned, committed=None, damaged=damaged)
            committed = recorded
        planned = self._recorded(planned_id)
        if committed is not None:
            return Checkpoint(planned=planned, committed=committed)
        try:
            return Checkpoint(planned=planned, committed=None, continues=self._continues())
        except (TypeError, ValueError, AttributeError):
            # Not ignored: without it a first batch would look like one after a deleted table.
            damaged = f"{CONTINUES} is not what was written"
            return Checkpoint(planned=planned, committed=None, damaged=damaged)

    def continues(self, ends: ByPartition) -> None:
        """Record the table's end offsets, from which an empty checkpoint starts; {} for none."""
        path = f"{self.folder}/{CONTINUES}"
        # Nothing to note in a new checkpoint; an old note is overwritten also by an empty one.
        if ends or self._files.read_text(path) is not None:
            self._files.write_text(path, json.dumps(nested(ends)))

    def _continues(self) -> ByPartition:
        """Raises as `flat`. A driver that died during the write has planned nothing."""
        text = self._files.read_text(f"{self.folder}/{CONTINUES}")
        return {} if text is None else flat(json.loads(text))

    def batch(self, batch_id: int) -> Batch:
        """A planned batch's start and end. Batch 0 has no start: it is in its offsets' `first`."""
        offsets = self._offsets(batch_id)
        if offsets is None:
            raise RunError(f"{self.folder}/offsets/{batch_id} is not there: was it removed?")
        # Its start is in `first` of its own offsets.
        if batch_id == 0:
            start: ByPartition = {}
        elif self._last is not None and self._last[0] == batch_id - 1:
            start = self._last[1].ends
        else:
            before = self._offsets(batch_id - 1)
            if before is None:
                path = f"{self.folder}/offsets/{batch_id - 1}"
                raise RunError(f"{path} is not there: where batch {batch_id} starts is unknown")
            start = before.ends
        self._last = (batch_id, offsets)
        return Batch(start=start, end=offsets)

    def query_id(self) -> str:
        """Spark's id of the query, for the Delta log; "" when the checkpoint has none."""
        text = self._files.read_text(f"{self.folder}/metadata")
        return str(json.loads(text).get("id", "")) if text else ""

    def has_state(self) -> bool:
        """Whether the checkpoint has operator state of any batch."""
        return bool(self._files.names(f"{self.folder}/state"))

    def state_store(self) -> str:
        """The class of the state store of the newest batch; "" if none is named."""
        batch_id = max(self._ids("offsets"), default=None)
        text = self._files.read_text(f"{self.folder}/offsets/{batch_id}")
        if batch_id is None or text is None or text.count("\n") < 1:
            return ""
        # Version line, then the batch's metadata; a dash in logs of Spark 1.
        said = text.splitlines()[1]
        conf = json.loads(said).get("conf", {}) if said.startswith("{") else {}
        return str(conf.get("spark.sql.streaming.stateStore.providerClass", ""))

    def write(self, name: str, text: str) -> None:
        """Write or replace a file of the checkpoint, whole or not at all."""
        path = f"{self.folder}/{name}"
        folder, _, last = path.rpartition("/")
        # Spark ignores names like this, and `sweep` removes them from `offsets`.
        draft = f"{folder}/.{last}.tmp"
        self._files.write_text(draft, text)
        if self._files.read_text(path) is not None:
            self._files.remove(path)
        self._files.rename(draft, path)

    def set_aside(self) -> str:
        """Rename the folder to the first free `<folder>.set-aside-N`; returns the new path."""
        parent, _, name = self.folder.rpartition("/")
        taken = set(self._files.names(parent))
        # Earlier ones are kept: each may be the only trace of what was read.
        n = next(n for n in range(1, len(taken) + 2) if f"{name}.set-aside-{n}" not in taken)
        new_path = f"{self.folder}.set-aside-{n}"
        self._files.rename(self.folder, new_path)
        return new_path

    def sweep(self) -> None:
        """Remove the temporary files of a driver that was killed during its first offset write.

        Only for a checkpoint without a batch. Spark refuses to start a query over such files:
        STATE_STORE_CHECKPOINT_LOCATION_NOT_EMPTY.
        """
        folder = f"{self.folder}/offsets"
        for name in self._files.names(folder):
            if name.startswith(".") and name.endswith(".tmp"):
                self._files.remove(f"{folder}/{name}")

    def _ids(self, log: str) -> list[int]:
        """Batch numbers in one of Spark's two logs, in no order; temporary files have no number
        as name."""
        return [int(n) for n in self._files.names(f"{self.folder}/{log}") if n.isdigit()]

    def _damage(self, batch_id: int) -> str:
        """For a batch whose commit is there without its plan."""
        return f"commits/{batch_id} is there, offsets/{batch_id} is not"

    def _recorded(self, batch_id: int) -> Recorded | None:
        """A batch of the offset log; None if it is not there."""
        offsets = self._offsets(batch_id)
        return None if offsets is None else Recorded(batch=batch_id, end=offsets)

    def _offsets(self, batch_id: int) -> TopicOffsets | None:
        """The end offsets of all sources of a batch; None without its file. Raises RunError for
        another format: to guess an offset could write rows twice."""
        path = f"{self.folder}/offsets/{batch_id}"
        text = self._files.read_text(path)
        if text is None:
            return None
        lines = text.splitlines()
        # Version line, batch metadata, one line per source. Joined streams have several sources,
        # which share no topic. The line of a source that has not started is a dash.
        if len(lines) < 3 or lines[0] != "v1":
            raise RunError(f"{path} is not an offset log of version 1 with a source")
        try:
            return together(self._parse(line) for line in lines[2:] if line != "-")
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise RunError(f"{path}: the source's offsets cannot be read: {error}") from error
