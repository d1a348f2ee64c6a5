"""The ranges that a stream passed over, as rows of a Delta table: each once, whatever is repeated.

Rules: a loss stands in the offset of the batch that passed over it (`batch_offsets.py`), and is
written when Spark goes on from that offset, so also behind a crash or a restart; a loss that a
task meets is written by the task, at its end. Its row and a
Delta transaction of its name are one commit, and a name that the table has is not written again. A
table that cannot be written stops the query: the row is written when it starts again.
Written by delta-rs (the package deltalake): a source's processes have no Spark.
"""

import contextlib
import importlib.util
from collections.abc import Iterable
from typing import NamedTuple

from josefine_spark.base.errors import LossTableError, OptionError
from josefine_spark.base.topic_offsets import TopicOffsets

TRIES_MAX = 10
"""Of one append: tasks that lose something at the same time append at the same time."""


class LostRange(NamedTuple):
    """One row. `end_offset` None: the topic was created again, nobody knows how much there was."""

    topic: str
    topic_id: str
    partition: int
    start_offset: int
    end_offset: int | None

    @property
    def app_id(self) -> str:
        """The transaction of this row: equal for the same loss, whoever writes it."""
        return (
            f"josefine-loss:{self.topic}:{self.topic_id}:{self.partition}:"
            f"{self.start_offset}:{self.end_offset}"
        )


def lost_ranges(offsets: TopicOffsets) -> list[LostRange]:
    """What the batch that ended at `offsets` passed over."""
    return [
        LostRange(tp.topic, offsets.topic_ids.get(tp.topic, ""), tp.partition, since, until)
        for tp, (since, until) in sorted(offsets.lost.items())
    ]


def check_writable() -> None:
    """Raises OptionError without the package that writes the table."""
    if importlib.util.find_spec("deltalake") is None:
        raise OptionError(
            "lossTable needs the package deltalake, where the driver runs and where executors do: "
            "pip install deltalake"
        )


def record(path: str, ranges: Iterable[LostRange], now_ms: int) -> int:
    """Append those that the table does not have; how many. Raises LossTableError.

    Several tasks may do so at once: a range that two of them tell is one row all the same.
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
    """Against the same state of the table as was looked at: another append of a name conflicts."""
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
