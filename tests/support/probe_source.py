"""A Python data source that does nothing but write down what Spark asks of it, one JSON line each.

Options: `log`, the file; `rows`, what each batch gives; `fail`, the sink's batch whose commit
raises. Spark's workers import this module by its name.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

BATCHES = 3
FORMAT = "josefine_probe"


def noted(log: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(log).read_text().splitlines()]


class Notes:
    def __init__(self, log: str) -> None:
        self._log = log

    def note(self, call: str, **facts: Any) -> None:
        line = json.dumps({"call": call, "pid": os.getpid(), **facts}) + "\n"
        with Path(self._log).open("a", encoding="utf-8") as file:
            file.write(line)  # one write of a short line: lines of several processes stay whole


class ProbeSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return "number BIGINT"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        return ProbeReader(self.options["log"], int(self.options.get("rows", "10")))

    def streamWriter(  # noqa: N802
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamArrowWriter:
        return ProbeWriter(self.options["log"], int(self.options.get("fail", "-1")))


class ProbeReader(DataSourceStreamReader):
    """Three batches, then nothing new."""

    def __init__(self, log: str, rows: int) -> None:
        self._notes = Notes(log)
        self._rows = rows
        self._end = 0

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        self._notes.note("initialOffset")
        return {"at": 0}

    def latestOffset(self, *arguments: Any) -> dict[str, int]:  # noqa: N802
        """4.2 takes the form without arguments too, and so this one."""
        if self._end < BATCHES * self._rows:
            self._end += self._rows
        self._notes.note("latestOffset", arguments=len(arguments))
        return {"at": self._end}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        self._notes.note("partitions")
        return [InputPartition((start["at"], end["at"]))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        self._notes.note("read", **of_task())
        yield pa.RecordBatch.from_pydict({"number": list(range(*partition.value))})

    def commit(self, end: dict[str, int]) -> None:
        self._notes.note("source commit")


class ProbeWriter(DataSourceStreamArrowWriter):
    def __init__(self, log: str, fail: int) -> None:
        self._notes = Notes(log)
        self._fail = fail
        self._pickled = False

    def __getstate__(self) -> dict[str, Any]:
        if not self._pickled:
            self._pickled = True
            self._notes.note("writer pickled")
        return self.__dict__

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        rows = sum(batch.num_rows for batch in iterator)
        self._notes.note("write", rows=rows, **of_task())
        return WriterCommitMessage()

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        self._notes.note("commit", batch=batchId, messages=len(messages))
        if batchId == self._fail:
            raise RuntimeError("the commit that fails")

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        self._notes.note("abort", batch=batchId, messages=len(messages))


def of_task() -> dict[str, str | None]:
    """What a task can learn of the batch that it works for."""
    context = TaskContext.get()
    assert context is not None
    return {
        "batch_id": context.getLocalProperty("streaming.sql.batchId"),
        "query_id": context.getLocalProperty("sql.streaming.queryId"),
    }
