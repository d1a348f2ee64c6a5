"""The reader of a streaming query: one object per query run on the driver, copies of it in tasks.

Rules: the offset in Spark's checkpoint is authoritative, so `partitions` is a function of its
arguments; decisions that need no broker are in `admission.py`, `batch_offsets.py`, `data_loss.py`
and `lag.py`; the object caches only what can be requested again. Light imports: PySpark loads this
module in every planner process.
"""

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from josefine_broker.base.ids import TopicPartition
from josefine_spark.base.plain_errors import without_traceback
from josefine_spark.base.topic_offsets import ByPartition, TopicOffsets
from josefine_spark.options.options import BelowLocalStart, SourceOptions
from josefine_spark.read.admission import Admission, OffsetRange, limit_bytes
from josefine_spark.read.batch_offsets import batch_end, positions
from josefine_spark.read.data_loss import Loss, Reason, data_loss_error, find_losses
from josefine_spark.read.group_commits import GroupCommits
from josefine_spark.read.input_partitions import input_partitions, planning_client, read_task
from josefine_spark.read.lag import LAG, backlog, lag_of
from josefine_spark.read.offsets import Bounds, parse_offset, to_dict
from josefine_spark.read.record_sizes import Sample, offset_bytes
from josefine_spark.read.topic_metadata import MetadataCache

try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadMaxBytes,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )
except ImportError:  # PySpark 4.1 has no admission control for Python sources

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        pass


log = logging.getLogger("josefine.spark")

IDLE_POLL_S = 0.2
"""Without new records Spark asks every 10 ms. This wait limits an idle query to 5 requests to the
broker per second and saves processor time; a cached answer instead could be too old for
`processAllAvailable`."""

SAMPLE_AGE_MS = 2_000
"""How often a query that lags samples its unread batches, to compute the lag."""


class JosefineStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Spark's interface to a running query. Mutable."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._admission = Admission(
            offsets_max=options.max_offsets_per_trigger,
            offsets_min=options.min_offsets_per_trigger,
            delay_ms_max=options.max_trigger_delay_ms,
        )
        self._initial: TopicOffsets | None = None
        self._metadata = MetadataCache(
            options.subscription, read_committed=options.read.read_committed
        )
        self._last_end: TopicOffsets | None = None
        self._reached: TopicOffsets | None = None
        self._reported: set[Loss] = set()
        self._recorded: TopicOffsets | None = None
        self._idle_since: float | None = None
        self._samples: dict[TopicPartition, Sample] = {}
        self._sampled_ms = -SAMPLE_AGE_MS
        group = options.commit_group
        self._group = GroupCommits(options.read.connection, group) if group is not None else None

    def getDefaultReadLimit(self) -> Any:  # noqa: N802
        """The limit that Spark passes to `latestOffset`. Spark takes only one, so with a limit of
        offsets the limit of bytes is applied here."""
        if self._options.max_offsets_per_trigger is not None:
            return ReadMaxRows(self._options.max_offsets_per_trigger)
        if self._options.max_bytes_per_trigger is not None:
            return ReadMaxBytes(self._options.max_bytes_per_trigger)
        return ReadAllAvailable()

    @without_traceback
    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Spark asks twice at the start of a query: both calls return the first answer."""
        if self._initial is None:
            from josefine_spark.read.start_offsets import starts

            found, offsets = starts(self._planning_client(), self._options, _wall_ms())
            self._initial = TopicOffsets(ends=offsets, first=offsets, topic_ids=found.topic_ids)
            self._last_end = self._initial
        return to_dict(self._initial)

    @without_traceback
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._admission.freeze(self._look().ends, self._options.stops_at)

    @without_traceback
    def latestOffset(  # noqa: N802
        self, start: Mapping[str, Any] | None = None, limit: Any = None
    ) -> dict[str, Any]:
        """The end offset of the next batch; `start` itself when there is nothing to read yet."""
        self._wait_when_idle()
        begin = parse_offset(start) if start is not None else self._last_end
        if begin is None:
            begin = parse_offset(self.initialOffset())
        self._record_losses(begin)
        now = self._look(begin)
        if self._options.stops_at is not None and self._admission.target is None:
            # PySpark 4.1 does not report that a run is an AvailableNow one.
            self._admission.freeze(now.ends, self._options.stops_at)
        if start is not None:
            self._commit_group(begin, now)
        bounds, losses = self._bounds(begin, now)
        if losses and self._options.read.fail_on_data_loss:
            raise data_loss_error(losses)
        end = self._admit(begin, now, bounds, losses, limit)
        self._report(losses, end)
        self._idle_since = time.monotonic() if end == begin else None
        self._reached = end
        return to_dict(end)

    @without_traceback
    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """The end offsets that `latestOffset` last saw on the brokers, and the query's lag, for its
        progress (`lag.py`)."""
        latest = self._metadata.latest
        if latest is None:
            return None
        reached = self._reached or latest
        behind = backlog(reached, latest)
        waiting = {tp: reached.ends[tp] for tp, n in behind.items() if n and tp in reached.ends}
        if waiting and _now_ms() - self._sampled_ms >= SAMPLE_AGE_MS:
            self._sample(waiting)
        return to_dict(latest) | {LAG: lag_of(behind, self._samples, _wall_ms())}

    @without_traceback
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
        return input_partitions(self._options, ranges)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return read_task(self._options.read, partition)

    @without_traceback
    def commit(self, end: Mapping[str, Any]) -> None:
        """Used for group commits only: the checkpoint is authoritative, and this call comes one
        batch late."""
        if self._metadata.latest is not None:
            self._commit_group(parse_offset(end), self._metadata.latest)

    def stop(self) -> None:
        """Does nothing: Spark seldom calls it, so no cleanup may depend on it."""

    def _client(self) -> Any:
        from josefine_spark.options.connections import client_for

        return client_for(self._options.read.connection)

    def _planning_client(self) -> Any:
        if self._options.read.archive is BelowLocalStart.BROKER:
            return self._client()
        return planning_client(self._options.read)

    def _look(self, reached: TopicOffsets | None = None) -> TopicOffsets:
        return self._metadata.look(self._planning_client(), _now_ms(), reached)

    def _bounds(
        self, begin: TopicOffsets, now: TopicOffsets
    ) -> tuple[dict[TopicPartition, Bounds], list[Loss]]:
        """The bounds of all partitions, and the losses of a stream that has read up to `begin`.

        Start offsets are requested only when an end or a topic id changed: an idle query saves
        the request.
        """
        from josefine_spark.read.discovery import earliest_offsets

        same = begin.ends == now.ends and begin.topic_ids == now.topic_ids
        earliest: Mapping[TopicPartition, int] = {}
        if not same:
            earliest = earliest_offsets(self._planning_client(), now.ends)
        bounds = {tp: Bounds(earliest.get(tp, 0), end) for tp, end in now.ends.items()}
        return bounds, find_losses(begin, now.topic_ids, bounds)

    def _admit(
        self,
        begin: TopicOffsets,
        now: TopicOffsets,
        bounds: Mapping[TopicPartition, Bounds],
        losses: Sequence[Loss],
        limit: Any,
    ) -> TopicOffsets:
        offsets_max, bytes_max = self._caps(limit)
        at = positions(begin, now, bounds)
        latest = {tp: bound.latest for tp, bound in bounds.items()}
        ends = self._admission.admit(at, latest, _now_ms(), offsets_max=offsets_max)
        if bytes_max is not None:
            ends = self._within(bytes_max, {tp: at[tp] for tp in ends}, ends)
        return batch_end(begin, now, at, ends, losses)

    def _caps(self, limit: Any) -> tuple[int | None, int | None]:
        """The maximum (offsets, bytes) of a batch. PySpark 4.1 passes no limit. Any limit other
        than the two of `getDefaultReadLimit` means all available records (a trigger that runs
        once)."""
        bytes_max = self._options.max_bytes_per_trigger
        if limit is None:
            return self._admission.offsets_max, bytes_max
        if hasattr(limit, "max_rows"):
            return limit.max_rows, bytes_max
        return None, getattr(limit, "max_bytes", None)

    def _within(
        self, bytes_max: int, begins: ByPartition, ends: ByPartition
    ) -> dict[TopicPartition, int]:
        waiting = {tp: begins[tp] for tp, end in ends.items() if end > begins[tp]}
        self._sample(waiting)
        sizes = offset_bytes({tp: s for tp, s in self._samples.items() if tp in ends}, ends)
        return limit_bytes(bytes_max, begins, ends, sizes)

    def _sample(self, at: ByPartition) -> None:
        """Sample the batches from `at` on; a partition that cannot be read keeps its old sample."""
        from josefine_broker.base.errors import CorruptData, KafkaError
        from josefine_spark.read.record_sizes import look

        self._sampled_ms = _now_ms()
        try:
            found = look(self._client(), at, read_committed=self._options.read.read_committed)
        except (KafkaError, CorruptData, OSError) as error:
            log.info("unread batches could not be sampled: %s", error)
            return
        self._samples.update(found)

    def _commit_group(self, reached: TopicOffsets, now: TopicOffsets) -> None:
        """Commit `reached`: Spark continues from there, so everything before it was processed."""
        if self._group is None or reached == self._initial:
            return
        recreated = reached.recreated(now.topic_ids)
        ends = {
            tp: end
            for tp, end in reached.ends.items()
            if tp in now.ends and tp.topic not in recreated
        }
        self._group.commit(ends, _now_ms())

    def _record_losses(self, reached: TopicOffsets) -> None:
        """Write the ranges that the previous batch skipped into the loss table, once."""
        path = self._options.read.loss_table
        if path is None or not reached.lost or reached == self._recorded:
            return
        from josefine_spark.read.loss_table import lost_ranges, record

        record(path, lost_ranges(reached), _wall_ms())
        self._recorded = reached

    def _report(self, losses: Sequence[Loss], end: TopicOffsets) -> None:
        """Log each loss once: when a batch skips it, or when the partition no longer exists."""
        for loss in losses:
            passed = loss.partition in end.lost or loss.reason is Reason.GONE
            if passed and loss not in self._reported:
                self._reported.add(loss)
                log.warning("records are lost: %s", loss)

    def _wait_when_idle(self) -> None:
        if self._idle_since is not None:
            left = self._idle_since + IDLE_POLL_S - time.monotonic()
            if left > 0:
                time.sleep(left)


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000
