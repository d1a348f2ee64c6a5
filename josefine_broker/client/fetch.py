"""Fetches record batches from partition leaders, or from closer replicas (KIP-392, in
`nearest.py`), and keeps the positions of a reader.

Rules: records stay slices of the response's buffer. Retriable errors are retried here, and such
partitions are left out of a result that has others; errors that the caller must decide on (offset
out of range) are in the result. Fetches carry no session (KIP-227): a client with few partitions
gains nothing from one.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.ids import TopicPartition, by_topic
from josefine_broker.client.cluster import ClusterMetadata, topic_name
from josefine_broker.client.effects import Call, Exchange, Operation, Unanswered
from josefine_broker.client.fetched import FetchedPartition
from josefine_broker.client.nearest import follow, send_near
from josefine_broker.client.operations import partition_error, refresh, route
from josefine_broker.client.retry import Action, action_for
from josefine_broker.client.session import Session
from josefine_broker.records.batch import NO_LEADER_EPOCH, iter_batches, verify
from josefine_broker.records.builder import Record
from josefine_broker.records.unreadable import read_whole_batch
from josefine_broker.wire import apis
from josefine_broker.wire import fetch as wire

CONSUMER_REPLICA_ID = -1
NO_SESSION_ID = 0
NO_SESSION_EPOCH = -1
READ_UNCOMMITTED = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchOptions:
    """Bounds of one fetch. A larger first batch is returned complete all the same."""

    bytes_max: int = 50 * 1024 * 1024
    partition_bytes_max: int = 8 * 1024 * 1024
    min_bytes: int = 1
    max_wait_ms: int = 500
    isolation_level: int = READ_UNCOMMITTED
    rack_id: str = ""
    """Rack of the reader: a leader may redirect it to a replica there. Empty: read from leaders."""


def fetch(
    session: Session,
    positions: Mapping[TopicPartition, int],
    options: FetchOptions,
    now_ms: int,
    deadline_ms: int,
) -> Operation[dict[TopicPartition, FetchedPartition]]:
    """Long-poll the leaders of all partitions once. Raises KafkaError when none can be read."""
    attempts = session.start(now_ms, deadline_ms, "fetch")
    known = (session.cluster.routing_error(tp) for tp in positions)
    must_refresh = any(code is not ErrorCode.none for code in known)
    while True:
        if must_refresh:
            _, now_ms = yield from refresh(session, attempts, {tp.topic for tp in positions})
        routes, errors = route(session.cluster, positions)
        near = send_near(session, routes, now_ms) if options.rack_id else set()
        calls = tuple(
            Call(
                node=broker,
                api_key=apis.FETCH,
                request=_request(session.cluster, positions, partitions, options),
            )
            for broker, partitions in routes.items()
        )
        resumed = yield Exchange(calls=calls, deadline_ms=deadline_ms)
        found: dict[TopicPartition, FetchedPartition] = {}
        for partitions, reply in zip(routes.values(), resumed.replies, strict=True):
            if isinstance(reply, Unanswered):
                errors |= dict.fromkeys(partitions, reply.error)
            else:
                _sort_reply(session.cluster, reply, partitions, found, errors)
        now_ms = resumed.now_ms
        if options.rack_id:
            rack_id = follow(session, options.rack_id, near, found, errors, now_ms)
            if positions and not found and not errors:
                options, must_refresh = replace(options, rack_id=rack_id), False
                continue
        if errors:
            # The next fetch refreshes metadata first, even if this one returns records.
            session.forget(tp.topic for tp in errors)
        if found or not positions:
            return found
        for error in errors.values():
            attempts.judge(error, now_ms)
        yield attempts.after(next(iter(errors.values())), now_ms)
        must_refresh = True


def _request(
    cluster: ClusterMetadata,
    positions: Mapping[TopicPartition, int],
    partitions: Iterable[TopicPartition],
    options: FetchOptions,
) -> wire.FetchRequest:
    topics = tuple(
        wire.FetchTopic(
            name=topic,
            topic_id=cluster.topic_id(topic),
            partitions=tuple(
                wire.FetchPartition(
                    index=p,
                    # Without an epoch no broker fences this client after a change of leader.
                    current_leader_epoch=NO_LEADER_EPOCH,
                    fetch_offset=positions[TopicPartition(topic, p)],
                    last_fetched_epoch=NO_LEADER_EPOCH,
                    log_start_offset=-1,
                    max_bytes=options.partition_bytes_max,
                )
                for p in numbers
            ),
        )
        for topic, numbers in by_topic(partitions).items()
    )
    return wire.FetchRequest(
        replica_id=CONSUMER_REPLICA_ID,
        max_wait_ms=options.max_wait_ms,
        min_bytes=options.min_bytes,
        max_bytes=options.bytes_max,
        isolation_level=options.isolation_level,
        session_id=NO_SESSION_ID,
        session_epoch=NO_SESSION_EPOCH,
        topics=topics,
        forgotten=(),
        rack_id=options.rack_id,
    )


def _sort_reply(
    cluster: ClusterMetadata,
    response: wire.FetchResponse,
    partitions: Iterable[TopicPartition],
    found: dict[TopicPartition, FetchedPartition],
    errors: dict[TopicPartition, KafkaError],
) -> None:
    whole = ErrorCode(response.error_code)
    if whole is not ErrorCode.none:
        errors |= {tp: partition_error(tp, whole, None) for tp in partitions}
        return
    for topic in response.topics:
        name = topic_name(cluster, topic.name, topic.topic_id)
        for part in topic.partitions:
            tp, code = TopicPartition(name, part.index), ErrorCode(part.error_code)
            if action_for(code) in (Action.RETRY, Action.REFRESH):
                errors[tp] = partition_error(tp, code, None)
            else:
                found[tp] = _fetched(part, code)


def _fetched(part: wire.FetchPartitionResponse, code: ErrorCode) -> FetchedPartition:
    records = part.records or ()
    if len(records) == 1:
        data = memoryview(records[0])
    else:
        data = memoryview(b"".join(records))
    return FetchedPartition(
        records=data,
        high_watermark=part.high_watermark,
        last_stable_offset=part.last_stable_offset,
        log_start_offset=part.log_start_offset,
        error_code=code,
        aborted=tuple(part.aborted_transactions or ()),
        preferred_read_replica=part.preferred_read_replica,
    )


def records_between(records: memoryview, begin: int, end: int | None) -> Iterator[Record]:
    """The records of complete batches from `begin` to `end` (exclusive; None: all), CRCs verified.

    A batch may start before `begin`; control batches have no records. Raises CorruptData, and
    UnreadableBatchError for a batch whose checksum is right.
    """
    for pos, header in iter_batches(records):
        if header.is_control:
            continue
        verify(records, pos, header)
        if header.end_offset <= begin:
            continue  # a reader that starts after an unreadable batch skips it
        for record in read_whole_batch(records[pos : pos + header.size_bytes], header):
            if end is not None and record.offset >= end:
                return
            if record.offset >= begin:
                yield record


class Positions:
    """Positions of a reader over several partitions, and its end offsets.

    `wanted` rotates, so that one busy partition cannot starve the others (KIP-74). End offsets are
    exclusive; None: no end.
    """

    __slots__ = ("_ends", "_next")

    def __init__(self) -> None:
        self._next: dict[TopicPartition, int] = {}
        self._ends: dict[TopicPartition, int | None] = {}

    def assign(self, tp: TopicPartition, offset: int, end_offset: int | None = None) -> None:
        self._ends[tp] = end_offset
        self._next[tp] = offset
        self._drop_finished(tp)

    def wanted(self) -> dict[TopicPartition, int]:
        """Partition → next offset of all that are not at their end, least recently read first."""
        return dict(self._next)

    def position(self, tp: TopicPartition) -> int | None:
        """The next offset of `tp`; None once it is at its end or was never assigned."""
        return self._next.get(tp)

    def end_offset(self, tp: TopicPartition) -> int | None:
        return self._ends[tp]

    def advance(self, tp: TopicPartition, records: memoryview) -> None:
        """Step over every complete batch in `records`; the partition moves to the end of the
        queue."""
        offset = self._next.pop(tp)
        for _, header in iter_batches(records):
            offset = max(offset, header.end_offset)
        self._next[tp] = offset
        self._drop_finished(tp)

    def _drop_finished(self, tp: TopicPartition) -> None:
        end = self._ends[tp]
        if end is not None and self._next[tp] >= end:
            del self._next[tp]

    @property
    def finished(self) -> bool:
        return not self._next
