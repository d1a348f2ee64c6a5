"""The streaming source `format("josefine_local")`: records without a broker, for trials and tests.

Its offsets have the format of the josefine source, so tables, checkpoints and status work the same.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from josefine_broker.base.ids import TopicPartition
from josefine_spark.base.topic_offsets import TopicOffsets
from josefine_spark.read.offsets import parse_offset, to_dict
from pipelines.sources.local_records import next_end, records_of, start_of

FORMAT = "josefine_local"
IDLE_POLL_S = 0.1
"""Minimum interval between two looks: without new records, Spark asks every 10 ms."""


class LocalDataSource(DataSource):
    """The data source that PySpark asks for a reader."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return self.options["columns"]

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802
        return LocalStreamReader(dict(self.options))

    def reader(self, schema: Any) -> DataSourceReader:
        return LocalReader(dict(self.options))


class LocalReader(DataSourceReader):
    """A batch reader of the records between the offsets `from` and `to`."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._stream = LocalStreamReader(options)
        self._from, self._to = json.loads(options["from"]), json.loads(options["to"])

    def partitions(self) -> Sequence[InputPartition]:
        return self._stream.partitions(self._from, self._to) or [InputPartition(None)]

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        return self._stream.read(partition)


class LocalStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The stream reader that Spark calls while a query runs."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = options
        self._records = records_of(options)
        self._most = int(options["most"]) if "most" in options else None
        self._last: TopicOffsets | None = None
        self._initial: TopicOffsets | None = None
        self._seen: TopicOffsets | None = None

    def getDefaultReadLimit(self) -> Any:  # noqa: N802
        return ReadAllAvailable() if self._most is None else ReadMaxRows(self._most)

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Spark calls this twice at the start of a query: the first answer is kept."""
        if self._initial is None:
            given = self._options.get("at")
            self._initial = _begun(parse_offset(given) if given is not None else self._start())
        return to_dict(self._initial)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._last = self._look()

    def latestOffset(  # noqa: N802
        self, start: Mapping[str, Any] | None = None, limit: Any = None
    ) -> dict[str, Any]:
        begin = parse_offset(start if start is not None else self.initialOffset())
        now = self._seen = self._last or self._look()
        end = next_end(self._records, begin, now, self._most)
        if end.ends == begin.ends:
            time.sleep(IDLE_POLL_S)
            return to_dict(begin)
        return to_dict(end)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """The end offsets of the last look, for the query's progress."""
        return None if self._seen is None else to_dict(self._seen)

    def partitions(
        self, start: Mapping[str, Any], end: Mapping[str, Any]
    ) -> Sequence[InputPartition]:
        begin, stop = parse_offset(start), parse_offset(end)
        return [
            InputPartition((tp.topic, tp.partition, begin.start_of(tp, stop), offset))
            for tp, offset in sorted(stop.ends.items())
            if begin.start_of(tp, stop) < offset
        ]

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        if partition.value is None:
            return
        topic, number, start, end = partition.value
        width = 8 if "headers" in self._options else 7
        for row in self._records.read(TopicPartition(topic, number), start, end):
            yield row[:width]

    def commit(self, end: Mapping[str, Any]) -> None:
        """Nothing to do: the checkpoint has the offsets."""

    def stop(self) -> None:
        """Nothing to release."""

    def _start(self) -> TopicOffsets:
        now = self._look()
        ends = start_of(self._records, self._options["start"], now)
        return TopicOffsets(ends=ends, topic_ids=now.topic_ids)

    def _look(self) -> TopicOffsets:
        return self._records.look(time.time_ns() // 1_000_000)


def _begun(at: TopicOffsets) -> TopicOffsets:
    return TopicOffsets(ends=at.ends, first=at.ends, topic_ids=at.topic_ids)


def at_text(at: TopicOffsets) -> str:
    """Offsets as the text of the option `at`."""
    return json.dumps(to_dict(at))
