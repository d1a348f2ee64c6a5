"""Holds a process of Spark at an arrow of sink-protocol.md, until a test has killed whom it wants.

An arrow is armed by a file in the folder that JOSEFINE_ARROWS names; the first process that comes
to it takes the file, says who it is, and waits for the word to go on. Arrows:

| name | the moment |
|---|---|
| `plan:N`, `commit:N` | before the N-th step of `sink_steps`, which is behind the one before it |
| `planned`, `committed` | behind their last step |
| `task:read` | a task of the source has its first rows |
| `task:open`, `task:opened` | before and behind taking the attempt's transactional id |
| `task:half` | the first of its batches is acknowledged, there are more |
| `task:written` | all are, and the driver does not know it yet |
| `pipeline:NAME` | the failpoint of that name (`pipelines.base.failpoints`) |

Spark's workers import this module by its name: `HeldSource` stands in the place of the connector.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.types import StructType

import josefine_spark.write.exactly_once
from josefine_broker.client.transactions import take_ids
from josefine_spark.read.stream_reader import JosefineStreamReader
from josefine_spark.source import JosefineDataSource
from josefine_spark.write import task_writer
from josefine_spark.write.coordinator_store import SinkStore
from josefine_spark.write.exactly_once import ExactlyOnceStreamWriter, ExactlyOnceWriter
from josefine_spark.write.protocol import Abort, Commit, Steps
from josefine_spark.write.sink_options import sink_options
from tests.support.waiting import wait_until

FOLDER = "JOSEFINE_ARROWS"
HELD_S = 300.0
ENDS = {"plan": "planned", "commit": "committed"}


def stop(arrow: str, ids: Iterable[str] = ()) -> None:
    """Wait here when this arrow is armed. `ids`: transactional ids that the next step is about."""
    folder = os.environ.get(FOLDER)
    if folder is None:
        return
    taken = Path(folder, f"{arrow}.{os.getpid()}")
    try:
        Path(folder, f"{arrow}.armed").rename(taken)
    except FileNotFoundError:
        return
    taken.write_text(json.dumps({"pid": os.getpid(), "ids": [*ids]}))
    taken.rename(taken.with_name(f"{arrow}.held"))
    wait_until(taken.with_name(f"{arrow}.go").exists, HELD_S, f"the word to go on at {arrow}")


class HeldStore(SinkStore):
    """Stops before each step and behind the last one."""

    _what = ""
    _steps = 0

    def run(self, steps: Steps) -> Any:
        self._what, self._steps = getattr(steps, "__name__", ""), 0
        result = super().run(steps)
        if self._what in ENDS:
            stop(ENDS[self._what])
        return result

    def _take(self, step: Any) -> Any:
        ids: Iterable[str] = ()
        match step:
            case Commit(transactions):
                ids = transactions
            case Abort(names):
                ids = names
        stop(f"{self._what}:{self._steps}", ids)
        self._steps += 1
        return super()._take(step)


class HeldTaskWriter(task_writer.TaskWriter):
    """Stops while rows are on their way."""

    _sent = 0

    def _send(self) -> None:
        super()._send()
        self._sent += 1
        if self._sent == 1 and self._encoder.sealed_bytes:
            stop("task:half", _named(self))

    def flush(self, timestamp_ms: int) -> None:
        super().flush(timestamp_ms)
        stop("task:written", _named(self))


def _named(writer: task_writer.TaskWriter) -> tuple[str, ...]:
    name = writer._identity.transactional_id
    return () if name is None else (name,)


def _held_take_ids(session: Any, ids: tuple[str, ...], *more: Any, **named: Any) -> Any:
    stop("task:open", ids)
    taken = yield from take_ids(session, ids, *more, **named)
    stop("task:opened", ids)
    return taken


class _Held:
    """Of both writers."""

    def _store(self, sink_id: str) -> SinkStore:
        store: SinkStore = super()._store(sink_id)  # type: ignore[misc]
        store.__class__ = HeldStore
        return store

    def write(self, iterator: Iterator[Any]) -> Any:
        with (
            patch.multiple(josefine_spark.write.exactly_once, take_ids=_held_take_ids),
            patch.multiple(task_writer, TaskWriter=HeldTaskWriter),
        ):
            return super().write(iterator)  # type: ignore[misc]


class HeldStreamWriter(_Held, ExactlyOnceStreamWriter):
    """`df.writeStream`, at its arrows."""


class HeldWriter(_Held, ExactlyOnceWriter):
    """`df.write`, at its arrows."""


class HeldReader(JosefineStreamReader):
    """A stream's reader whose tasks stop behind their first rows."""

    def read(self, partition: InputPartition) -> Iterator[Any]:
        for number, batch in enumerate(super().read(partition)):
            yield batch
            if number == 0:
                stop("task:read")


class HeldSource(JosefineDataSource):
    """The connector under its own name."""

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        reader = super().streamReader(schema)
        reader.__class__ = HeldReader
        return reader

    def streamWriter(  # noqa: N802
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamArrowWriter:
        return HeldStreamWriter(sink_options(self.options), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        return HeldWriter(sink_options(self.options), schema)
