"""The rows of a table's data files: what Arrow would read as something else is refused."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from pipelines.sinks.table_files import rows_of, stored_files
from pipelines.storage.folders import open_local

AT = pa.schema([("at", pa.timestamp("us", "UTC"))])
WIDER = AT.append(pa.field("more", pa.int64()))
ROWS = pa.Table.from_pylist([{"at": datetime(1500, 1, 1, tzinfo=UTC)}], AT)


@pytest.mark.parametrize("key", ["", "legacyDateTime", "legacyINT96"])
def test_a_file_with_times_of_another_calendar_is_refused(tmp_path: Path, key: str) -> None:
    write_deltalake(tmp_path, ROWS)
    (file,) = stored_files(DeltaTable(tmp_path))
    marked = ROWS.replace_schema_metadata({f"org.apache.spark.{key}": ""} if key else None)
    pq.write_table(marked, tmp_path / file.name)
    folder = open_local(str(tmp_path))
    assert folder is not None

    if key:
        with pytest.raises(OSError, match=rf"{file.name} cannot be read: .* another calendar"):
            [*rows_of(folder, file, WIDER)]
    else:
        (found,) = rows_of(folder, file, WIDER)
        assert found.to_pylist() == [{"at": datetime(1500, 1, 1, tzinfo=UTC), "more": None}]
