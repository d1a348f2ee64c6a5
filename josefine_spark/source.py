"""`format("josefine")`: batch and streaming reads with the columns of Spark's own Kafka source.

Rules: what can be decided without a broker is decided in pure modules; a stream's truth is the
offset that Spark keeps, so `partitions` is a function of its arguments; the reader object lives
as long as the query and caches only what may be asked again. Light imports: PySpark loads this
module in every planner process.
"""

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.types import StructType

from josefine_broker.base.ids import TopicPartition
from josefine_spark.admission import Admission, OffsetRange, split_ranges
from josefine_spark.data_loss import Loss, data_loss_error, find_losses
from josefine_spark.errors import OptionError
from josefine_spark.offsets import (
    Bounds,
    check_order,
    parse_offset,
    resolve_end,
    resolve_start,
    timestamp_queries,
    to_dict,
)
from josefine_spark.options import ReadOptions, SourceOptions
from josefine_spark.positions import Position
from josefine_spark.sink_options import sink_options
from josefine_spark.source_options import source_options
from josefine_spark.topic_offsets import TopicOffsets

try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )
except ImportError:  # PySpark 4.1 has no admission control for Python sources

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        pass


log = logging.getLogger("josefine.spark")

IDLE_POLL_S = 0.1
"""With nothing new, Spark asks every 10 ms. Waiting here keeps an idle query off the broker;
a cached answer instead could be too old for `processAllAvailable`."""


class JosefineDataSource(DataSource):
    """What PySpark asks for readers and writers."""

    @classmethod
    def name(cls) -> str:
        return "josefine"

    def schema(self) -> StructType:
        from josefine_spark.columns import spark_schema

        return spark_schema(source_options(self.options, streaming=None).read.include_headers)

    def reader(self, schema: StructType) -> DataSourceReader:
        options = source_options(self.options, streaming=False)
        _check_schema(schema, self.schema())
        _say_without_effect(options)
        return JosefineReader(options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        options = source_options(self.options, streaming=True)
        _check_schema(schema, self.schema())
        _say_without_effect(options)
        return JosefineStreamReader(options)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        from josefine_spark.sink import JosefineWriter

        if overwrite:
            raise OptionError('a topic only grows: write with mode("append")')
        return JosefineWriter(sink_options(self.options), schema)

    def streamWriter(  # noqa: N802
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamArrowWriter:
        from josefine_spark.sink import JosefineStreamWriter

        if overwrite:
            raise OptionError('a topic only grows: write with outputMode("append") or "update"')
        return JosefineStreamWriter(sink_options(self.options), schema)


class JosefineReader(DataSourceReader):
    """A batch read: its ranges are fixed when it is planned."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        from josefine_spark.connections import client_for
        from josefine_spark.discovery import all_bounds, discover

        options = self._options
        client = client_for(options.read.connection)
        found = discover(client, options.subscription, must_exist=True)
        _check_ids(options, found.topic_ids)
        bounds = all_bounds(client, found.partitions, read_committed=options.read.read_committed)
        start = _resolve_start(client, options, bounds)
        ends_found = _found(
            client, options.ending, bounds, read_committed=options.read.read_committed
        )
        end = resolve_end(options.ending, bounds, ends_found)
        end = check_order(options.starting, start, options.ending, end)
        ranges = [
            OffsetRange(
                partition=tp, topic_id=found.topic_ids[tp.topic], start=start[tp], end=end[tp]
            )
            for tp in found.partitions
        ]
        return _input_partitions(options, ranges)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return _read(self._options.read, partition)


class JosefineStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A streaming read. One object per query run on the driver; copies of it in the tasks."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._admission = Admission(
            offsets_max=options.max_offsets_per_trigger,
            offsets_min=options.min_offsets_per_trigger,
            delay_ms_max=options.max_trigger_delay_ms,
        )
        self._initial: TopicOffsets | None = None
        self._latest: TopicOffsets | None = None
        self._last_end: TopicOffsets | None = None
        self._first: dict[tuple[str, TopicPartition], int] = {}
        self._reported: set[Loss] = set()
        self._idle_since: float | None = None

    def getDefaultReadLimit(self) -> Any:  # noqa: N802
        limit = self._admission.offsets_max
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Asked for twice at the start of a query: the first answer stands."""
        if self._initial is None:
            self._initial = self._resolve_initial()
            self._last_end = self._initial
        return to_dict(self._initial)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._admission.freeze(self._look().ends)

    def latestOffset(  # noqa: N802
        self, start: Mapping[str, Any] | None = None, limit: Any = None
    ) -> dict[str, Any]:
        """Where the next batch ends; `start` itself when there is nothing (yet)."""
        self._wait_when_idle()
        begin = parse_offset(start) if start is not None else self._last_end
        if begin is None:
            begin = parse_offset(self.initialOffset())
        now = self._look()
        bounds, losses = self._bounds(begin, now)
        self._report(losses)
        positions = self._positions(begin, now, bounds)
        latest = {tp: bound.latest for tp, bound in bounds.items()}
        offsets_max = getattr(limit, "max_rows", None)
        if start is None:
            offsets_max = self._admission.offsets_max
        ends = self._admission.admit(positions, latest, _now_ms(), offsets_max=offsets_max)
        end = self._end(begin, now, ends)
        self._idle_since = time.monotonic() if end == begin else None
        return to_dict(end)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """What the brokers had when `latestOffset` last looked, for the query's progress."""
        return to_dict(self._latest) if self._latest is not None else None

    def partitions(
        self, start: Mapping[str, Any], end: Mapping[str, Any]
    ) -> Sequence[InputPartition]:
        begin, stop = parse_offset(start), parse_offset(end)
        self._last_end = stop
        ranges = [
            OffsetRange(
                partition=tp,
                topic_id=stop.topic_ids.get(tp.topic, ""),
                start=begin.start_of(tp, stop),
                end=offset,
            )
            for tp, offset in sorted(stop.ends.items())
        ]
        return _input_partitions(self._options, ranges)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return _read(self._options.read, partition)

    def commit(self, end: Mapping[str, Any]) -> None:
        """Nothing to do: the checkpoint is the truth, and this call trails by one batch."""

    def stop(self) -> None:
        """Not dependable (seldom called), so nothing may hang on it."""

    def _resolve_initial(self) -> TopicOffsets:
        from josefine_spark.connections import client_for
        from josefine_spark.discovery import all_bounds, discover

        options = self._options
        client = client_for(options.read.connection)
        found = discover(client, options.subscription, must_exist=True)
        _check_ids(options, found.topic_ids)
        bounds = all_bounds(client, found.partitions, read_committed=options.read.read_committed)
        offsets = _resolve_start(client, options, bounds)
        return TopicOffsets(ends=offsets, first=offsets, topic_ids=found.topic_ids)

    def _look(self) -> TopicOffsets:
        """What there is now: latest offsets and ids of every partition subscribed to."""
        from josefine_spark.connections import client_for
        from josefine_spark.discovery import discover, earliest_offsets, latest_offsets

        options = self._options
        client = client_for(options.read.connection)
        found = discover(client, options.subscription, must_exist=False)
        latest = latest_offsets(
            client, found.partitions, read_committed=options.read.read_committed
        )
        new = [tp for tp in found.partitions if (found.topic_ids[tp.topic], tp) not in self._first]
        for tp, offset in earliest_offsets(client, new).items():
            self._first[found.topic_ids[tp.topic], tp] = offset
        first = {tp: self._first[found.topic_ids[tp.topic], tp] for tp in found.partitions}
        self._latest = TopicOffsets(ends=latest, first=first, topic_ids=found.topic_ids)
        return self._latest

    def _bounds(
        self, begin: TopicOffsets, now: TopicOffsets
    ) -> tuple[dict[TopicPartition, Bounds], list[Loss]]:
        """Bounds of what there is, and what of `begin`'s promise is gone.

        Where partitions begin is asked only when something moved: an idle query does not ask.
        """
        from josefine_spark.connections import client_for
        from josefine_spark.discovery import earliest_offsets

        same = begin.ends == now.ends and begin.topic_ids == now.topic_ids
        earliest: Mapping[TopicPartition, int] = {}
        if not same:
            client = client_for(self._options.read.connection)
            earliest = earliest_offsets(client, now.ends)
        bounds = {tp: Bounds(earliest.get(tp, 0), end) for tp, end in now.ends.items()}
        return bounds, find_losses(begin, now.topic_ids, bounds)

    def _report(self, losses: Sequence[Loss]) -> None:
        if losses and self._options.read.fail_on_data_loss:
            raise data_loss_error(losses)
        for loss in losses:
            if loss not in self._reported:
                self._reported.add(loss)
                log.warning("records are lost: %s", loss)

    def _positions(
        self, begin: TopicOffsets, now: TopicOffsets, bounds: Mapping[TopicPartition, Bounds]
    ) -> dict[TopicPartition, int]:
        """Where the batch starts, for each partition there is now."""
        return {tp: min(begin.start_of(tp, now), bound.latest) for tp, bound in bounds.items()}

    def _end(
        self,
        begin: TopicOffsets,
        now: TopicOffsets,
        ends: Mapping[TopicPartition, int],
    ) -> TopicOffsets:
        """The offset to give to Spark: `first` stays what it was when a partition was found."""
        offsets = dict(ends)
        for tp, offset in begin.ends.items():
            # What is not there now keeps its place: should it come back, nothing is read twice.
            if now.topic_ids.get(tp.topic) in (None, begin.topic_ids[tp.topic]):
                offsets.setdefault(tp, offset)
        ids = {
            tp.topic: now.topic_ids.get(tp.topic, begin.topic_ids.get(tp.topic, ""))
            for tp in offsets
        }
        first = {}
        for tp in offsets:
            known = tp in begin.first and begin.topic_ids.get(tp.topic) == ids[tp.topic]
            first[tp] = begin.first[tp] if known else now.first[tp]
        return TopicOffsets(ends=offsets, first=first, topic_ids=ids)

    def _wait_when_idle(self) -> None:
        if self._idle_since is not None:
            left = self._idle_since + IDLE_POLL_S - time.monotonic()
            if left > 0:
                time.sleep(left)


def _read(options: ReadOptions, partition: InputPartition) -> Iterator[Any]:
    if partition.value is None:
        # PySpark's stand-in for "no partitions".
        return iter(())
    from josefine_spark.reading import read_range

    return read_range(options, partition.value)


def _input_partitions(
    options: SourceOptions, ranges: Sequence[OffsetRange]
) -> list[InputPartition]:
    pieces = split_ranges(
        ranges,
        partitions_min=options.min_partitions,
        records_max=options.max_records_per_partition,
    )
    return [InputPartition(piece) for piece in pieces]


def _resolve_start(
    client: Any, options: SourceOptions, bounds: Mapping[TopicPartition, Bounds]
) -> dict[TopicPartition, int]:
    return resolve_start(
        options.starting,
        bounds,
        _found(client, options.starting, bounds, read_committed=options.read.read_committed),
        options.missing,
        fail_on_data_loss=options.read.fail_on_data_loss,
    )


def _found(
    client: Any,
    position: Position,
    bounds: Mapping[TopicPartition, Bounds],
    *,
    read_committed: bool,
) -> dict[TopicPartition, int]:
    from josefine_spark.discovery import offsets_at

    queries = timestamp_queries(position, bounds)
    return offsets_at(client, queries, read_committed=read_committed)


def _check_ids(options: SourceOptions, topic_ids: Mapping[str, str]) -> None:
    """Offsets given with the ids of their topics are good for those topics only."""
    for topic, given in (options.starting.topic_ids or {}).items():
        if topic in topic_ids and given != topic_ids[topic]:
            raise OptionError(
                f"{options.starting.option}: topic {topic} was deleted and created again "
                f"(id {given}, now {topic_ids[topic]}): its offsets mean other records now"
            )


_said: set[tuple[str, ...]] = set()
"""What this process has said already: Spark makes a reader more than once per query."""


def _say_without_effect(options: SourceOptions) -> None:
    if options.without_effect and options.without_effect not in _said:
        _said.add(options.without_effect)
        log.warning("options without effect here: %s", "; ".join(options.without_effect))


def _check_schema(given: StructType, expected: StructType) -> None:
    if given != expected:
        raise OptionError(
            f"the schema of this source is fixed: {expected.simpleString()}; leave .schema() out"
        )


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000
