"""One sink's chain in an Iceberg table: its commits in the snapshots' summaries. Pure.

An own commit is a snapshot whose summary has our transaction id, its number and its offsets. The
walk goes from the current snapshot to its parents, past those of other writers. So after a rollback
to an older snapshot it finds the offsets of the rows that the table has again. Numbers never go
back: the table's property has the highest one. The property is committed with the snapshot and
outlives its expiry, but a rollback leaves it unchanged. So after our snapshot was expired, the
property counts only with proof that the rows are still there: the oldest remaining snapshot
directly follows ours, or one of the current manifests is ours.
(Iceberg's spec: Snapshots, Manifest Lists.)
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from josefine_spark.base.topic_offsets import TopicOffsets, flat
from pipelines.exactly_once.checkpoint_start import Unreadable
from pipelines.exactly_once.offset_chain import HandedOn, Tip
from pipelines.exactly_once.other_chains import OtherChain, name_of
from pipelines.sinks.delta_log import FORMAT

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

APP, NUMBER, SAID = "josefine.app-id", "josefine.txn-version", "josefine.commit"
"""Keys of a snapshot's summary: the commit's transaction id, its number, its metadata as JSON."""
PROPERTY = "josefine.chain."
"""Prefix of the table's property for a chain's newest commit; the transaction id follows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One commit of a chain. `snapshot`: its id. `rows_in`: the snapshot of the chain's last commit
    with rows, 0 without one; only in the table's property. `at_ms`: only in a snapshot."""

    app_id: str
    number: int
    said: Mapping[str, Any]
    snapshot: int
    rows_in: int = 0
    at_ms: int | None = None

    @property
    def handed_to(self) -> str | None:
        """The transaction id of the chain that continues after this commit under a new name."""
        return self.said.get("handed_to")

    def reached(self) -> TopicOffsets | None:
        """The offsets that it reached; None if they cannot be read."""
        if self.said.get("josefine") != FORMAT:
            return None
        try:
            return TopicOffsets(ends=flat(self.said["end"]), topic_ids=dict(self.said["topic_ids"]))
        except (KeyError, TypeError, ValueError, AttributeError):
            return None


def summary_of(app_id: str, number: int, said: Mapping[str, Any]) -> dict[str, str]:
    """A commit's entries in its snapshot's summary."""
    return {APP: app_id, NUMBER: str(number), SAID: json.dumps(said)}


def property_of(entry: Entry) -> dict[str, str]:
    """The same commit's entry in the table's properties."""
    value = {
        "txn_version": entry.number,
        "snapshot": entry.snapshot,
        "rows_in": entry.rows_in,
        "commit": entry.said,
    }
    return {f"{PROPERTY}{entry.app_id}": json.dumps(value)}


def entry_of(snapshot: Snapshot) -> Entry | None:
    """A snapshot's commit of a chain; None for another writer's."""
    summary = snapshot.summary
    app_id, number = (summary[APP], summary[NUMBER]) if summary else (None, None)
    if not app_id or not str(number).isdigit():
        return None
    said = _json(summary[SAID] if summary else None)
    return Entry(
        app_id=app_id,
        number=int(str(number)),
        said=said,
        snapshot=snapshot.snapshot_id,
        at_ms=snapshot.timestamp_ms,
    )


def kept(metadata: TableMetadata, app_id: str) -> Entry | None:
    """A chain's newest commit by the table's property."""
    value = _json(metadata.properties.get(f"{PROPERTY}{app_id}"))
    number, snapshot, said = (value.get(key) for key in ("txn_version", "snapshot", "commit"))
    if not isinstance(number, int) or not isinstance(snapshot, int) or not isinstance(said, dict):
        return None
    rows_in = value.get("rows_in")
    rows_in = rows_in if isinstance(rows_in, int) else 0
    return Entry(app_id=app_id, number=number, said=said, snapshot=snapshot, rows_in=rows_in)


def lineage(metadata: TableMetadata) -> list[Snapshot]:
    """The current snapshot and its parents, newest first, as far as they are not expired."""
    found = []
    by_id = {each.snapshot_id: each for each in metadata.snapshots}
    at = metadata.current_snapshot_id
    while at is not None and (snapshot := by_id.get(at)) is not None:
        found.append(snapshot)
        at = snapshot.parent_snapshot_id
    return found


def was_rolled_back(metadata: TableMetadata, snapshot: int) -> bool:
    """Whether the table has left this snapshot for an older one. An expired one is no sign."""
    is_there = any(each.snapshot_id == snapshot for each in metadata.snapshots)
    return is_there and all(each.snapshot_id != snapshot for each in lineage(metadata))


def is_whole(snapshots: list[Snapshot]) -> bool:
    """Whether a lineage goes back to the table's first snapshot. A missing parent id is no proof:
    PyIceberg removes it when it expires the parent."""
    return bool(snapshots) and snapshots[-1].sequence_number == 1


def entries(metadata: TableMetadata) -> Iterator[Entry]:
    """The chains' commits whose rows the table has, newest first, as far as snapshots remain."""
    return filter(None, map(entry_of, lineage(metadata)))


def chains(metadata: TableMetadata) -> list[str]:
    """The transaction ids that the table's properties name."""
    return [key.removeprefix(PROPERTY) for key in metadata.properties if key.startswith(PROPERTY)]


def newest_number(metadata: TableMetadata, app_id: str) -> int:
    """The highest number of a chain, also of commits that a rollback took back; 0 without one."""
    found = [each.number for each in everywhere(metadata, app_id)]
    entry = kept(metadata, app_id)
    return max([*found, entry.number if entry else 0], default=0)


def newest_snapshot(metadata: TableMetadata, app_id: str) -> int:
    """The snapshot of a chain's newest commit whose rows the table has; 0 without one."""
    own = (each.snapshot for each in entries(metadata) if app_id in (each.app_id, each.handed_to))
    return next(own, 0)


def runs_of(metadata: TableMetadata, app_id: str) -> dict[int, set[str]]:
    """Number → the runs that committed it, in all remaining snapshots."""
    found: dict[int, set[str]] = {}
    last = kept(metadata, app_id)
    for entry in (*everywhere(metadata, app_id), *([last] if last else [])):
        found.setdefault(entry.number, set()).add(str(entry.said.get("run", "")))
    return found


def everywhere(metadata: TableMetadata, app_id: str) -> Iterator[Entry]:
    """A chain's commits in all remaining snapshots, also those that a rollback took back."""
    every = filter(None, map(entry_of, metadata.snapshots))
    return (entry for entry in every if entry.app_id == app_id)


def last_tip(
    metadata: TableMetadata, app_id: str, added_by: Callable[[], Collection[int]]
) -> Tip | Unreadable | HandedOn | None:
    """The end of a chain, as `DeltaLogReader.last_tip` for a Delta table.

    `added_by`: the ids of the snapshots that added the current one's manifests; called only if
    snapshots were expired.
    """
    number = newest_number(metadata, app_id)
    for entry in entries(metadata):
        if entry.app_id == app_id or entry.handed_to == app_id:
            return _end_at(entry, app_id, number)
    snapshots, last = lineage(metadata), kept(metadata, app_id)
    if number == 0:
        return None
    if is_whole(snapshots):
        # The table was rolled back to a snapshot before our first commit: it has no rows of ours.
        return Tip(reached=TopicOffsets(), txn_version=number)
    if last is not None and snapshots:
        follows = snapshots[-1].parent_snapshot_id == last.snapshot
        if follows or (last.rows_in and last.rows_in in added_by()):
            return _end_at(last, app_id, number)
    hint = "the snapshot of its last commit was expired"
    if last is not None:
        hint = f"{hint}; the table's property has of that commit: {json.dumps(last.said)}"
    return Unreadable(txn_version=number, hint=hint)


def _end_at(entry: Entry, app_id: str, number: int) -> Tip | Unreadable | HandedOn:
    """The end of the chain at this commit. `number`: the highest of the chain."""
    if entry.app_id == app_id and entry.handed_to:
        return HandedOn(to=entry.handed_to, txn_version=number)
    reached = entry.reached()
    if reached is None:
        hint = f"snapshot {entry.snapshot} has our commit but no offsets that we can read"
        return Unreadable(txn_version=number, hint=hint)
    return Tip(reached=reached, txn_version=number, said=entry.said)


def other_chains(metadata: TableMetadata, app_id: str) -> list[OtherChain]:
    """The chains of other names whose rows the table has and that were not handed on."""
    newest: dict[str, Entry] = {}
    for entry in entries(metadata):
        for each in (entry.handed_to, entry.app_id):
            if each:
                newest.setdefault(each, entry)
    if not is_whole(lineage(metadata)):
        for each in chains(metadata):
            last = kept(metadata, each)
            if last is not None:
                newest.setdefault(each, last)
    found = []
    for each, last in newest.items():
        name = name_of(each)
        if name is not None and each != app_id and last.handed_to in (None, each):
            found.append(OtherChain(name=name, reached=last.reached()))
    return sorted(found, key=lambda other: other.name.app_id)


def _json(text: object) -> dict[str, Any]:
    try:
        value = json.loads(text) if isinstance(text, str) else None
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
