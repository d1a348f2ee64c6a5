"""The ranges that a stream passed over, as rows of a Delta table: each once, whatever is repeated.

Rules: a loss stands in the offset of the batch that passed over it (`batch_ends.py`), and is
written when Spark goes on from that offset, so also behind a crash or a restart; its row and a
Delta transaction of its name are one commit, and a name that the table has is not written again. A
table that cannot be written stops the query: the row is written when it starts again.
Written by delta-rs (the package deltalake): a source's process on the driver has no Spark.
"""

import importlib.util
from collections.abc import Iterable
from typing import Any, NamedTuple

from josefine_spark.errors import LossTableError, OptionError
from josefine_spark.topic_offsets import TopicOffsets


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
        raise OptionError("lossTable needs the package deltalake: pip install deltalake")


def record(path: str, ranges: Iterable[LostRange], now_ms: int) -> int:
    """Append those that the table does not have; how many. Raises LossTableError."""
    import pyarrow as pa
    from deltalake import CommitProperties, Transaction, write_deltalake
    from deltalake.exceptions import DeltaError

    try:
        table = _table(path)
        new = [one for one in ranges if table is None or _unknown(table, one)]
        if not new:
            return 0
        columns = {
            "topic": pa.array([one.topic for one in new], pa.string()),
            "topic_id": pa.array([one.topic_id for one in new], pa.string()),
            "partition": pa.array([one.partition for one in new], pa.int32()),
            "start_offset": pa.array([one.start_offset for one in new], pa.int64()),
            "end_offset": pa.array([one.end_offset for one in new], pa.int64()),
            "recorded_at": pa.array([now_ms * 1000] * len(new), pa.timestamp("us", tz="UTC")),
        }
        write_deltalake(
            path if table is None else table,
            pa.table(columns),
            mode="append",
            commit_properties=CommitProperties(
                app_transactions=[Transaction(one.app_id, 1) for one in new]
            ),
        )
    except (DeltaError, OSError) as error:
        raise LossTableError(f"lossTable {path}: the lost ranges cannot be written: {error}") from (
            error
        )
    return len(new)


def _table(path: str) -> Any:
    from deltalake import DeltaTable

    return DeltaTable(path) if DeltaTable.is_deltatable(path) else None


def _unknown(table: Any, one: LostRange) -> bool:
    return table.transaction_version(one.app_id) is None
