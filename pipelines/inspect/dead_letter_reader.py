"""Reader of a pipeline's dead letters with delta-rs, on this machine or in S3, without a JVM.

It returns what `dead_letters.summary` returns. It returns None where only Spark can read: a table
of the catalog, another store, a Delta feature that delta-rs lacks, no delta-rs.
"""

from __future__ import annotations

import importlib.util
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from pipelines.dead_letters.replay_table import LETTER
from pipelines.dead_letters.summary import VALUES, letter_as_text
from pipelines.formats.decode import UNREADABLE_REASON
from pipelines.inspect.writable_folders import table_folder
from pipelines.model.pipeline import Pipeline
from pipelines.storage.folders import TableFolder
from pipelines.storage.location import StorageError, why_failed

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.dataset as ds

_KEY = ("source", *LETTER)
_ORDER = ("timestamp", "topic", "partition", "offset", "sink")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Counts as (source, reason, number), the largest first, and the newest dead letters."""

    counts: Sequence[tuple[str, str, int]]
    newest: Sequence[dict[str, Any]]


def read_summary(
    pipeline: Pipeline, many: int, *, every: bool, env: Mapping[str, str]
) -> Summary | None:
    """The summary of the dead letters not replayed, with `every` of all; None: use Spark. Raises
    StorageError: Spark would wait far longer for the same store."""
    if pipeline.dead_letter_path is None or importlib.util.find_spec("deltalake") is None:
        return None
    folder = table_folder(pipeline, pipeline.dead_letter_path, env)
    if folder is None:
        return None
    import pyarrow as pa
    from deltalake.exceptions import DeltaError

    try:
        return _read(pipeline, folder, many, every=every)
    # Spark may read it, and names what is wrong if it cannot. An overflow is a year after 9999.
    except (DeltaError, pa.ArrowException, OverflowError):
        return None
    except OSError as error:
        if folder.at is None:
            return None
        raise StorageError(why_failed(folder.at, str(error))) from error


def _read(pipeline: Pipeline, folder: TableFolder, many: int, *, every: bool) -> Summary:
    dead = _dataset(folder)
    if dead is None:
        return Summary(counts=(), newest=())
    done = None if every else _replayed(pipeline, folder.next_to("_replayed"))
    # Without keys and values, which may be large: they are read of the newest dead letters only.
    keys = _without(_with_sink(dead.to_table(columns=_there(dead, *_KEY, "reason"))), done)
    return Summary(counts=_counts(keys), newest=_newest(dead, keys, done, many))


def _dataset(folder: TableFolder) -> ds.Dataset | None:
    """A Delta table as an Arrow dataset; None if there is no table, or not one commit yet."""
    if not any(n.endswith(".json") for n in folder.files.names(f"{folder.path}/_delta_log")):
        return None
    from deltalake import DeltaTable

    table = DeltaTable(folder.path, storage_options=dict(folder.options))
    return table.to_pyarrow_dataset(filesystem=folder.arrow())


def _replayed(pipeline: Pipeline, folder: TableFolder) -> pa.Table | None:
    import pyarrow.dataset as ds

    table = _dataset(folder)
    if table is None:
        return None
    ours = (ds.field("pipeline") == pipeline.name) & ds.field("source").isin([*pipeline.sources])
    found = table.to_table(columns=_there(table, "pipeline", *_KEY)).filter(ours)
    return _with_sink(found).select([*_KEY])


def _there(table: ds.Dataset, *names: str) -> list[str]:
    """The columns that a table has: `sink` and `stage` are newer than some tables."""
    return [name for name in names if name in table.schema.names]


def _with_sink(letters: pa.Table) -> pa.Table:
    """Rows with the column `sink`, "" where it is null: Arrow joins no null with another."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if "sink" not in letters.schema.names:
        return letters.append_column("sink", pa.array([""] * letters.num_rows, pa.string()))
    at = letters.schema.names.index("sink")
    column = pc.fill_null(letters["sink"].cast(pa.string()), "")
    return letters.set_column(at, "sink", column)


def _without(letters: pa.Table, done: pa.Table | None) -> pa.Table:
    return letters if done is None else letters.join(done, [*_KEY], join_type="left anti")


def _counts(keys: pa.Table) -> list[tuple[str, str, int]]:
    # Each unreadable batch has its own offsets in its reason: remove them to group all of them.
    offsets = re.compile(f"^{UNREADABLE_REASON}[0-9]+ to [0-9]+")
    counts: Counter[tuple[str, str]] = Counter()
    groups = keys.group_by(["source", "sink", "reason"]).aggregate([([], "count_all")])
    for row in groups.to_pylist():
        reason = offsets.sub("unreadable batch", row["reason"])
        if row["sink"]:
            without_values = re.sub(VALUES, "'…'", reason)
            reason = f"sink {row['sink']}: {without_values}"
        counts[row["source"], reason] += row["count_all"]
    return sorted(((*each, n) for each, n in counts.items()), key=lambda c: (-c[2], c[0], c[1]))


def _newest(
    dead: ds.Dataset, keys: pa.Table, done: pa.Table | None, many: int
) -> list[dict[str, Any]]:
    import pyarrow as pa
    import pyarrow.compute as pc

    found = _latest(keys, many)
    if not found.num_rows:
        return []
    first = found["timestamp"][-1]
    columns = _there(dead, *_KEY, "reason", "key", "value", "stage")
    batches = dead.to_batches(columns=columns)
    if first.is_valid:
        # Not as the scan's filter: that skips files by Delta's statistics, which cut times to
        # milliseconds; such a scan has lost a row after the year 9999.
        batches = (b.filter(pc.greater_equal(b["timestamp"], first)) for b in batches)
    since = pa.Table.from_batches(batches, pa.schema([dead.schema.field(c) for c in columns]))
    letters = _latest(_without(_with_sink(since), done), many)
    # Microseconds, as Delta stores them: a datetime would end at the year 9999 with a ValueError.
    times = letters["timestamp"].cast("int64").to_pylist()
    rows = letters.drop_columns(["timestamp"]).to_pylist()
    told = [{**row, "timestamp": _utc(at)} for row, at in zip(rows, times, strict=True)]
    return [letter_as_text(row) for row in told]


def _latest(letters: pa.Table, many: int) -> pa.Table:
    return letters.sort_by([(name, "descending") for name in _ORDER]).slice(0, many)


def _utc(micros: int | None) -> str | None:
    if micros is None:
        return None
    at = _EPOCH + timedelta(microseconds=micros)
    return f"{at.replace(tzinfo=None).isoformat(timespec='milliseconds')}Z"
