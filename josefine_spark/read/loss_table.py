"""The loss table: a Delta table with one row per lost range that a stream skipped, written exactly
once.

Rules: the offset of a batch contains the losses that it skipped (`batch_offsets.py`). They are
written when Spark continues from that offset, also after a crash or a restart; a loss that a task
finds is written by the task, at its end. A row and a Delta transaction with its name are one
commit, and a name that the table already has is not written again. A failed write stops the query;
the row is written after the restart. delta-rs (the package deltalake) writes the table, because a
source's processes have no Spark session.
"""

import contextlib
import importlib.util
from collections.abc import Iterable
from typing import NamedTuple

from josefine_spark.base.errors import LossTableError, OptionError
from josefine_spark.base.topic_offsets import TopicOffsets

TRIES_MAX = 10
"""Attempts of one append: tasks that find losses at the same time also append at the same time."""


class LostRange(NamedTuple):
    """One row. `end_offset` None: the topic was recreated, so the number of records is unknown."""

    topic: str
    topic_id: str
    partition: int
    start_offset: int
    end_offset: int | None

    @property
    def app_id(self) -> str:
        """The Delta transaction of this row: equal for the same loss, whichever process writes."""
        return (
            f"josefine-loss:{self.topic}:{self.topic_id}:{self.partition}:"
            f"{self.start_offset}:{self.end_offset}"
        )


def lost_ranges(offsets: TopicOffsets) -> list[LostRange]:
    """The ranges that the batch with the end `offsets` skipped."""
    return [
        LostRange(tp.topic, offsets.topic_ids.get(tp.topic, ""), tp.partition, since, until)
        for tp, (since, until) in sorted(offsets.lost.items())
    ]


def check_writable() -> None:
    """Raises OptionError without the package that writes the table."""
    if importlib.util.find_spec("deltalake") is None:
        raise OptionError(
            "lossTable needs the package deltalake on the driver and on the executors: "
            "pip install deltalake"
        )


def record(path: str, ranges: Iterable[LostRange], now_ms: int) -> int:
    """Append the ranges that the table does not have; returns how many. Raises LossTableError.

    Several tasks may append at once: a range that two of them report is still one row.
    """
    from deltalake.exceptions import CommitFailedError, DeltaError

    wanted = list(ranges)
    try:
        for _ in range(TRIES_MAX - 1):
            with contextlib.suppress(CommitFailedError):
                return _append(path, wanted, now_ms)
        return _append(path, wanted, now_ms)
    except (DeltaError, OSError) as error:
        raise LossTableError(f"lossTable {path}: the lost ranges cannot be written: {error}") from (
            error
        )


def _append(path: str, wanted: Iterable[LostRange], now_ms: int) -> int:
    """Append against the version that was checked: a concurrent append of a name conflicts."""
    import pyarrow as pa
    from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

    schema = pa.schema(
        [
            ("topic", pa.string()),
            ("topic_id", pa.string()),
            ("partition", pa.int32()),
            ("start_offset", pa.int64()),
            ("end_offset", pa.int64()),
            ("recorded_at", pa.timestamp("us", tz="UTC")),
        ]
    )
    table = DeltaTable.create(path, schema, mode="ignore")
    new = [one for one in wanted if table.transaction_version(one.app_id) is None]
    if not new:
        return 0
    rows = [{**one._asdict(), "recorded_at": now_ms * 1000} for one in new]
    names = [Transaction(one.app_id, 1) for one in new]
    write_deltalake(
        table,
        pa.Table.from_pylist(rows, schema=schema),
        mode="append",
        commit_properties=CommitProperties(app_transactions=names),
    )
    return len(new)
