"""Dispatch of a source to its kind: brokers, or records without a broker."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

from josefine_spark.base.topic_offsets import ByPartition, TopicOffsets
from pipelines.base.errors import SetupError
from pipelines.exactly_once.offset_chain import Batch
from pipelines.exactly_once.table_position import OF_TABLE, is_of_table
from pipelines.model.pipeline import Source
from pipelines.sources.columns import columns_ddl
from pipelines.sources.josefine import JosefineKind, SourceKind, Topics
from pipelines.sources.local_records import Rate, memory_text, records_of
from pipelines.sources.table_stream import TableKind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def options_of(source: Source) -> dict[str, str]:
    """The options of `format("josefine_local")` for a source of the file."""
    local = source.local
    assert local is not None
    most = source.limit.bytes if local.type == "file" else source.limit.rows
    said: dict[str, object] = {
        "kind": local.type,
        "path": local.path,
        "rows_per_second": local.rows_per_second,
        "records": memory_text(local.records),
        "start": _start(source),
        "columns": columns_ddl(headers=source.headers),
        "most": most,
        "headers": "true" if source.headers else None,
    }
    return {name: str(value) for name, value in said.items() if value is not None}


def _start(source: Source) -> str:
    """A start, with relative times resolved to milliseconds since 1970."""
    text = source.start.text
    if source.start.option == "startingTimestamp":
        return f"{text}ms"
    if text.endswith("ms ago"):
        return f"{_now_ms() - int(text.removesuffix('ms ago'))}ms"
    return text


class LocalKind:
    """Local sources: files, a rate, a list of records."""

    def look(self, source: Source) -> Topics:
        """Raises SetupError if the files cannot be read."""
        records = records_of(options_of(source))
        try:
            latest = records.look(_now_ms())
        except OSError as error:
            raise SetupError(f"source `{source.name}`: {error}") from error
        if not latest.ends and not isinstance(records, Rate):
            assert source.local is not None
            raise SetupError(f"source `{source.name}`: {source.told}: nothing to read there")
        return Topics(earliest=dict.fromkeys(latest.ends, 0), latest=latest)

    def committed(self, source: Source, group: str, topics: Topics) -> ByPartition:
        """Never used: a local source cannot start or end at a group."""
        return {}

    def at_time(self, source: Source, time_ms: int, topics: Topics) -> ByPartition:
        """Never used: a local source has no `stop`."""
        return {}

    def open(self, spark: SparkSession, source: Source, at: TopicOffsets | None) -> DataFrame:
        """The stream. `at` is set also with a checkpoint."""
        from pipelines.sources.local_source import FORMAT, LocalDataSource, at_text

        spark.dataSource.register(LocalDataSource)
        options = options_of(source)
        if at is not None:
            options["at"] = at_text(at)
        return spark.readStream.format(FORMAT).options(**options).load()

    def read(
        self, spark: SparkSession, source: Source, batch: Batch, *, marks_unreadable: bool = False
    ) -> DataFrame:
        """Local sources have no record batches, so none is unreadable."""
        from pipelines.sources.local_source import FORMAT, LocalDataSource, at_text

        spark.dataSource.register(LocalDataSource)
        begins = {p: start for p in batch.end.ends if (start := batch.starts.get(p)) is not None}
        begin = TopicOffsets(ends=begins, topic_ids=batch.end.topic_ids)
        options = {**options_of(source), "from": at_text(begin), "to": at_text(batch.end)}
        return spark.read.format(FORMAT).options(**options).load()

    def parse(self, text: str) -> TopicOffsets:
        return JosefineKind().parse(text)

    def advise(self, source: Source, group: str, ends: ByPartition) -> str:
        """Local sources have no consumer groups."""
        return ""


class AnyKind:
    """The kind of a source."""

    def look(self, source: Source) -> Topics:
        return _of(source).look(source)

    def committed(self, source: Source, group: str, topics: Topics) -> ByPartition:
        return _of(source).committed(source, group, topics)

    def at_time(self, source: Source, time_ms: int, topics: Topics) -> ByPartition:
        return _of(source).at_time(source, time_ms, topics)

    def open(self, spark: SparkSession, source: Source, at: TopicOffsets | None) -> DataFrame:
        return _of(source).open(spark, source, at)

    def read(
        self, spark: SparkSession, source: Source, batch: Batch, *, marks_unreadable: bool = False
    ) -> DataFrame:
        return _of(source).read(spark, source, batch, marks_unreadable=marks_unreadable)

    def parse(self, text: str) -> TopicOffsets:
        # The text is looked at first: this runs in each micro-batch of a topic, too.
        if OF_TABLE in text and is_of_table(json.loads(text)):
            return TableKind().parse(text)
        return JosefineKind().parse(text)

    def advise(self, source: Source, group: str, ends: ByPartition) -> str:
        return _of(source).advise(source, group, ends)


ANY_KIND = AnyKind()


def _of(source: Source) -> SourceKind:
    local = source.local
    if local is None:
        return JosefineKind()
    return LocalKind() if local.stream is None else TableKind()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
