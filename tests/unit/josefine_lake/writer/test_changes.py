"""The pending changes of a commit: the latest one of each key, whatever the parts."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from josefine_lake.writer import changes
from josefine_lake.writer.changes import DELETED, PendingChanges

SCHEMA = pa.schema(
    [
        ("key", pa.string()), ("more", pa.int32()), ("_partition", pa.int32()),
        ("_offset", pa.int64()), (DELETED, pa.bool_()),
    ]
)  # fmt: skip
KEYS = st.tuples(st.sampled_from([None, "", "a", "b"]), st.integers(0, 1))
READS = st.lists(
    st.tuples(st.integers(0, 1), st.lists(st.tuples(KEYS, st.booleans()), min_size=1, max_size=9)),
    min_size=1,
    max_size=9,
)
"""(partition, its next changes)"""


@given(reads=READS, part_bytes=st.sampled_from([1, 200, 1 << 20]))
@settings(max_examples=60)
def test_the_latest_change_of_each_key_is_left(reads: Any, part_bytes: int) -> None:
    ends, latest = [0, 0], dict[Any, dict[str, Any]]()
    pending = PendingChanges(("key", "more"), ("_offset", "_partition"))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(changes, "FOLD_BYTES", 300)
        patch.setattr(changes, "PART_BYTES", part_bytes)
        for partition, keys in reads:
            rows = [
                {"key": key, "more": more, "_partition": partition, "_offset": at, DELETED: gone}
                for at, ((key, more), gone) in enumerate(keys, ends[partition])
            ]
            ends[partition] += len(rows)
            pending.add(pa.RecordBatch.from_pylist(rows, SCHEMA))
            for row in rows:
                key, at = (row["key"], row["more"]), (row["_offset"], row["_partition"])
                known = latest.get(key)
                if known is None or at > (known["_offset"], known["_partition"]):
                    latest[key] = row
        closed = pending.close(7)

    def order(row: dict[str, Any]) -> Any:
        return row["_offset"], row["_partition"]

    assert sorted(closed.rows.to_pylist(), key=order) == sorted(latest.values(), key=order)
    assert {each.num_chunks for each in closed.rows.columns} == {1}
    assert (closed.at_ms, pending.rows) == (7, sum(ends))
