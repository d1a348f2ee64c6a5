"""ListOffsets (key 2): start and end offsets of partitions, and offsets by timestamp.

Special timestamps: -1 latest (the high watermark; the last stable offset for read_committed), -2
earliest, -3 the record with the largest timestamp (KIP-734, since v7), -4 earliest local (KIP-405,
since v8), -5 latest tiered (KIP-1005, since v9: the last archived offset), -6 earliest pending
upload (KIP-1023, since v11: the one after it). An archived topic starts where its archive does.

Rules: lookups in records run outside the broker's thread, one partition of a request after another,
and the answer waits for all; then the leader and the log start are checked again. A batch whose
records would expand too far is MESSAGE_TOO_LARGE: clients do not retry that.
"""

from collections.abc import Callable

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.ids import LeaderEpoch, TopicPartition
from josefine_broker.engine.context import Context, RequestInfo
from josefine_broker.engine.hosted import HostedPartition, SearchPort
from josefine_broker.engine.partition.partition import Partition
from josefine_broker.engine.ports import ArchivePort
from josefine_broker.engine.purgatory.promises import Promise
from josefine_broker.records.batch import NO_LEADER_EPOCH
from josefine_broker.wire.entities import list_offsets as e

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED = -1, -2, -3, -4, -5
EARLIEST_PENDING_UPLOAD = -6

SINCE_VERSION = {
    LATEST: 0,
    EARLIEST: 0,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
READ_COMMITTED = 1
NOT_FOUND = (-1, -1, -1)
Found = tuple[int, int, int] | None
"""(offset, timestamp_ms, leader_epoch) of a record, or None if there is none."""

LOOKUP_TIMEOUT_MS = 30_000
"""Limit of a client's lookups: a client's own default request timeout."""
ATTEMPTS_MAX = 3
"""Limit per search: retention and leader changes do not change a log more often meanwhile."""


def handle(ctx: Context, info: RequestInfo, request: e.ListOffsetsRequest) -> object:
    """One offset for each partition; errors are per partition, also for one named twice."""
    version = info.header.api_version
    lookups: dict[tuple[str, int], Lookup] = {}
    for topic in request.topics:
        for part in topic.partitions:
            tp = (topic.name, part.partition_index)
            if tp in lookups:
                lookups[tp].fail(KafkaError(ErrorCode.invalid_request, f"{tp} is named twice"))
            else:
                lookups[tp] = Lookup(ctx, topic.name, part, request.isolation_level, version)

    def build() -> e.ListOffsetsResponse:
        found: dict[str, list[e.ListOffsetsPartitionResponse]] = {
            topic.name: [] for topic in request.topics
        }
        for (name, _), each in lookups.items():
            assert each.result is not None
            found[name].append(each.result)
        return e.ListOffsetsResponse(
            topics=tuple(
                e.ListOffsetsTopicResponse(name=name, partitions=tuple(parts))
                for name, parts in found.items()
            )
        )

    # Only lookups in records go to the worker; the others are decided here.
    waiting = [each for each in lookups.values() if each.result is None and not each.begin()]
    if not waiting:
        return build()
    searches = Searches(ctx, waiting, build)
    searches.begin()
    promise = searches.promise
    return promise.response if promise.done else promise


def refuse(request: e.ListOffsetsRequest, error: KafkaError) -> e.ListOffsetsResponse:
    """The answer when the whole request is refused."""
    topics = tuple(
        e.ListOffsetsTopicResponse(
            name=topic.name, partitions=tuple(_failed(part, error) for part in topic.partitions)
        )
        for topic in request.topics
    )
    return e.ListOffsetsResponse(topics=topics)


class Lookup:
    """The lookup in one partition: decided if it has a `result`, otherwise its `search` must
    run."""

    __slots__ = ("_attempts", "_ctx", "_isolation", "_part", "_topic", "_version", "hosted",
                 "leader_epoch", "result", "search")  # fmt: skip

    def __init__(
        self, ctx: Context, topic: str, part: e.ListOffsetsPartition, isolation: int, version: int
    ) -> None:
        self._ctx, self._topic, self._part = ctx, topic, part
        self._isolation, self._version = isolation, version
        self._attempts = 0
        self.hosted: HostedPartition | None = None
        self.leader_epoch = NO_LEADER_EPOCH
        """The leader epoch at the start of the search."""
        self.search: SearchPort | None = None
        self.result: e.ListOffsetsPartitionResponse | None = None

    def begin(self) -> bool:
        """Decide without reading records if possible; returns whether that sufficed."""
        part = self._part
        self._attempts += 1
        try:
            if part.timestamp < 0:
                since = SINCE_VERSION.get(part.timestamp)
                if since is None or self._version < since:
                    raise KafkaError(ErrorCode.unsupported_version, f"timestamp {part.timestamp}")
            self.hosted = self._ctx.hosted_partition(self._topic, part.partition_index)
            partition = self.hosted.partition
            partition.check_serves(LeaderEpoch(part.current_leader_epoch))
            if part.timestamp == MAX_TIMESTAMP or part.timestamp >= 0:
                wanted = None if part.timestamp == MAX_TIMESTAMP else part.timestamp
                self.leader_epoch = partition.leader_epoch
                self.search = self._search(self.hosted, wanted)
                if self.search is not None:
                    return False
                self._answer(self._found(self.hosted, None))
            else:
                self._answer(self._at_an_end(self.hosted))
        except KafkaError as error:
            self.fail(error)
        return True

    def settle(self, found: Found | KafkaError) -> bool:
        """Take the search's result; returns whether it decides. Otherwise the search failed on a
        log that was truncated or shortened meanwhile, and must run again."""
        hosted, self.search = self.hosted, None
        tp = self._topic, self._part.partition_index
        try:
            if self._ctx.hosted.partitions.get(tp) is not hosted:
                raise KafkaError(ErrorCode.not_leader_or_follower, "the replica moved meanwhile")
            assert hosted is not None
            hosted.partition.check_serves(self.leader_epoch)
            is_gone = isinstance(found, tuple) and found[0] < hosted.log.log_start_offset
            is_gone = is_gone and self._archive(hosted) is None
            if (is_gone or isinstance(found, KafkaError)) and self._attempts < ATTEMPTS_MAX:
                return self.begin()
            if isinstance(found, KafkaError):
                raise found
            self._answer(self._found(hosted, found))
        except KafkaError as error:
            self.fail(error)
        return True

    def fail(self, error: KafkaError) -> None:
        self.result = _failed(self._part, error)

    def _answer(self, found: tuple[int, int, int]) -> None:
        offset, timestamp_ms, leader_epoch = found
        self.result = e.ListOffsetsPartitionResponse(
            partition_index=self._part.partition_index,
            timestamp=timestamp_ms,
            offset=offset,
            leader_epoch=leader_epoch,
        )

    def _found(self, hosted: HostedPartition, found: Found) -> tuple[int, int, int]:
        """Raises KafkaError."""
        if found is None or found[0] >= self._end(hosted):
            _check_end_known(hosted.partition, self._version)
            return NOT_FOUND
        return found

    @property
    def _tp(self) -> TopicPartition:
        return TopicPartition(self._topic, self._part.partition_index)

    def _archive(self, hosted: HostedPartition) -> ArchivePort | None:
        """Where the records below the local start can be read."""
        return self._ctx.ports.archive if hosted.settings.log.archived else None

    def _search(self, hosted: HostedPartition, timestamp_ms: int | None) -> SearchPort | None:
        archive = self._archive(hosted)
        if archive is None or timestamp_ms is None:
            return hosted.log.timestamp_search(timestamp_ms)
        return archive.search(self._tp, hosted, timestamp_ms)

    def _at_an_end(self, hosted: HostedPartition) -> tuple[int, int, int]:
        """(offset, timestamp or -1, leader epoch or -1). Raises KafkaError."""
        partition, timestamp_ms = hosted.partition, self._part.timestamp
        if timestamp_ms == LATEST:
            _check_end_known(partition, self._version)
            return self._end(hosted), -1, partition.leader_epoch
        archive = self._archive(hosted)
        if timestamp_ms == EARLIEST and archive is not None:
            first = archive.start(self._tp, hosted)
            if first is None:
                raise _not_available(self._version, "the archive's start is not known yet")
            if first < hosted.log.log_start_offset:
                return first, -1, NO_LEADER_EPOCH
        if timestamp_ms in (EARLIEST, EARLIEST_LOCAL):
            start = hosted.log.log_start_offset
            return start, -1, partition.epochs.epoch_of(start)
        assert timestamp_ms in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD)
        return self._at_seam(hosted)

    def _at_seam(self, hosted: HostedPartition) -> tuple[int, int, int]:
        """The last archived offset, or the one after it."""
        if not hosted.settings.log.archived:
            return NOT_FOUND
        epochs, start = hosted.partition.epochs, hosted.log.log_start_offset
        end = self._ctx.ports.archived_end(self._tp)
        if self._part.timestamp == LATEST_TIERED:
            return (end - 1, -1, epochs.epoch_of(end - 1)) if end else NOT_FOUND
        if not end and start:
            return NOT_FOUND  # something is archived, and its end has not been heard of yet
        first = max(end, start)
        return first, -1, epochs.epoch_of(first)

    def _end(self, hosted: HostedPartition) -> int:
        if self._isolation == READ_COMMITTED:
            return max(hosted.partition.last_stable_offset, hosted.log.log_start_offset)
        return hosted.partition.high_watermark


class Searches:
    """The searches of one request, run one after another outside the broker's thread."""

    __slots__ = ("_build", "_ctx", "_waiting", "promise")

    def __init__(self, ctx: Context, waiting: list[Lookup], build: Callable[[], object]) -> None:
        self._ctx = ctx
        self._waiting = waiting
        self._build = build
        deadline_ms = ctx.clock.monotonic_ms() + LOOKUP_TIMEOUT_MS
        self.promise = Promise(ctx.parked, deadline_ms, self._too_late)

    def begin(self) -> None:
        """Start every pending search."""
        searches = [each.search for each in self._waiting if each.search is not None]
        try:
            self._ctx.ports.work(
                lambda breathe: [_run(search, breathe) for search in searches],
                lambda: self.promise.is_wanted,
                self._done,
            )
        except KafkaError as error:
            refused = error
            self.promise.keep(lambda: self._fail(refused))

    def _done(self, results: list[Found | KafkaError] | None) -> None:
        if not self.promise.is_wanted:
            return  # the deadline passed, or the client is gone
        if results is None:
            failed = KafkaError(ErrorCode.unknown_server_error, "the lookup failed")
            self.promise.keep(lambda: self._fail(failed))
            return
        pairs = zip(self._waiting, results, strict=True)
        self._waiting = [each for each, result in pairs if not each.settle(result)]
        if self._waiting:
            self.begin()
        else:
            self.promise.keep(self._build)

    def _fail(self, error: KafkaError) -> object:
        for each in self._waiting:
            each.fail(error)
        return self._build()

    def _too_late(self) -> object:
        return self._fail(
            KafkaError(ErrorCode.request_timed_out, "the records were not read in time")
        )


def _run(search: SearchPort, breathe: Callable[[], None]) -> Found | KafkaError:
    """Runs outside the broker's thread."""
    try:
        return search.run(breathe)
    except KafkaError as error:
        return error


def _check_end_known(partition: Partition, version: int) -> None:
    """A new leader's high watermark may lag its predecessor's: offsets must not go back (KIP-207,
    since v5; older clients get another retriable error)."""
    if not partition.knows_high_watermark:
        raise _not_available(version, "the high watermark is not known yet")


def _not_available(version: int, why: str) -> KafkaError:
    """A retriable error of this version."""
    code = ErrorCode.offset_not_available if version >= 5 else ErrorCode.leader_not_available
    return KafkaError(code, why)


def _failed(part: e.ListOffsetsPartition, error: KafkaError) -> e.ListOffsetsPartitionResponse:
    return e.ListOffsetsPartitionResponse(
        partition_index=part.partition_index, error_code=error.code
    )
