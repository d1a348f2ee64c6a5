"""ShareFetch (key 78, KIP-932): a member of a share group acknowledges records and gets others.

Rules: a session knows what a member fetches. The request's acknowledgements are taken first, and
the answer waits until they are stored. Then available records are acquired, partition by partition;
a request that finds none waits for them, up to its own limit. Acquire mode 1 gives at most the
requested number of records, mode 0 whole batches (KIP-1206). A request that renews locks acquires
nothing (KIP-1222). `min_bytes` is not waited for: records that are found are sent, for waiting
would take from the time of their lock.
"""

from collections.abc import Sequence

from josefine_broker.api.shared.hints import node_endpoints
from josefine_broker.api.shared.share_sessions import (
    ACKNOWLEDGE_TIMEOUT_MS,
    Acknowledging,
    asked_of,
    by_topic,
    check_member,
    close,
    leader_hint,
    readable,
    session_of,
)
from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.context import Context, RequestInfo
from josefine_broker.engine.coordinators.group_configs_host import config_of
from josefine_broker.engine.coordinators.share_batches import Room
from josefine_broker.engine.coordinators.share_partitions_host import acquire
from josefine_broker.engine.groups.share.sessions import (
    FINAL_EPOCH,
    OPENING_EPOCH,
    Part,
    ShareSession,
)
from josefine_broker.engine.groups.share.values import Acquired
from josefine_broker.engine.hosted import Buffer
from josefine_broker.engine.purgatory.purgatory import Parked, PartitionKey
from josefine_broker.wire.entities import share_fetch as e

RECORD_LIMIT = 1
"""The acquire mode in which not one record more is acquired than the request allows."""
PASSING = frozenset(
    {
        ErrorCode.coordinator_not_available,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.not_coordinator,
        ErrorCode.request_timed_out,
    }
)
"""Reasons why the state of a partition cannot be read yet, for which a fetch waits as for records.
A client could do nothing else."""


def handle(ctx: Context, info: RequestInfo, request: e.ShareFetchRequest) -> object:
    """Answered now, or when records are there, or the wait is over. Raises KafkaError."""
    group_id, member_id = check_member(request.group_id, request.member_id)
    epoch, asked = request.share_session_epoch, asked_of(request.topics)
    if epoch == OPENING_EPOCH and any(asked.values()):
        message = "a new share session has nothing to acknowledge"
        raise KafkaError(ErrorCode.invalid_request, message)
    limits = request.max_wait_ms, request.min_bytes, request.max_bytes, request.max_records
    if request.is_renew_ack and any(limits):
        message = "a request that renews locks fetches nothing: its limits must be 0"
        raise KafkaError(ErrorCode.invalid_request, message)
    session = session_of(ctx, group_id, member_id, epoch, may_open=True)
    fetch = WaitingShareFetch(ctx, info, request, session)
    if epoch != FINAL_EPOCH:
        gone = [
            (t.topic_id, index) for t in request.forgotten_topics_data for index in t.partitions
        ]
        session.changed(asked, [(topic_id, index) for topic_id, index in gone if topic_id])
    fetch.acknowledging.take(info, session, asked, is_renewing=request.is_renew_ack)
    fetch.parts = [] if epoch == FINAL_EPOCH or request.is_renew_ack else list(session.parts)
    if epoch == FINAL_EPOCH:
        close(ctx, session)
    fetch.look_at(fetch.parts)
    for part in fetch.acquired:
        session.rotated(part)
    return fetch.answer_or_wait()


def refuse(request: e.ShareFetchRequest, error: KafkaError) -> e.ShareFetchResponse:
    """The answer when the whole request is refused."""
    return e.ShareFetchResponse(
        error_code=error.code,
        error_message=error.message or None,
        acquisition_lock_timeout_ms=0,
        responses=(),
        node_endpoints=(),
    )


class WaitingShareFetch(Parked):
    """One request, with what it has acquired."""

    __slots__ = (
        "_bytes_left", "_ctx", "_final_ms", "_info", "_records_left", "_request", "_session",
        "acknowledging", "acquired", "errors", "parts",
    )  # fmt: skip

    is_cut_short = True

    def __init__(
        self, ctx: Context, info: RequestInfo, request: e.ShareFetchRequest, session: ShareSession
    ) -> None:
        now_ms = ctx.clock.monotonic_ms()
        super().__init__(now_ms + max(0, request.max_wait_ms))
        self._final_ms = now_ms + ACKNOWLEDGE_TIMEOUT_MS
        """When answers that are not stored are given up."""
        self._ctx = ctx
        self._info = info
        self._request = request
        self._session = session
        self._records_left = request.max_records
        self._bytes_left = min(request.max_bytes, ctx.settings.fetch.bytes_max)
        self.acknowledging = Acknowledging(ctx)
        self.parts: list[Part] = []
        """What it fetches."""
        self.acquired: dict[Part, tuple[list[Acquired], Sequence[Buffer]]] = {}
        self.errors: dict[Part, KafkaError] = {}

    def look_at(self, parts: Sequence[Part]) -> None:
        """Acquire what there is, for a session that is still open: its records would be locked for
        nobody."""
        if not self._ctx.clients.shares.sessions.is_open(self._session):
            return
        ctx, group_id = self._ctx, self._request.group_id or ""
        member_id = self._request.member_id or ""
        for part in parts:
            if part in self.acquired or self._records_left <= 0:
                continue
            room = Room(
                self._records_left,
                self._bytes_left,
                is_strict=self._request.share_acquire_mode == RECORD_LIMIT,
                at_least_one=not self.acquired and self._bytes_left > 0,
            )
            try:
                led = readable(ctx, self._info, group_id, part)
                config = config_of(ctx, group_id).share
                acquired, records = acquire(ctx, led, member_id, room, config)
            except KafkaError as error:
                if error.code not in PASSING:
                    self.errors[part] = error.without_frames()
                continue
            if acquired:
                self.acquired[part] = acquired, records
                self._records_left -= sum(each.last - each.first + 1 for each in acquired)
                self._bytes_left -= sum(map(len, records))

    def answer_or_wait(self) -> object:
        """The answer if there is one now, else the token."""
        if self.done:
            return self.response
        now_ms = self._ctx.clock.monotonic_ms()
        if self._is_enough or self.deadline_ms <= now_ms:
            if self.acknowledging.is_decided:
                return self._answer()
            self.deadline_ms = self._final_ms
        self.park()
        return self

    def park(self) -> None:
        """Wait for records, and for answers to be stored."""
        if not self.acknowledging.is_decided:
            self.acknowledging.wait(self._decided)
        names = self._ctx.image.topic_names
        keys = [(names[topic_id], index) for topic_id, index in self.parts if topic_id in names]
        group_id = self._session.group_id
        self._ctx.parked.park(self, partitions=dict.fromkeys(keys), group_id=group_id)

    @property
    def _is_enough(self) -> bool:
        """Whether nothing is worth waiting for, but for answers to be stored."""
        return (
            bool(self.acquired or self.errors) or not self.parts or self._request.max_records <= 0
        )

    def _decided(self) -> None:
        """The acknowledgements are stored, or refused."""
        if self not in self._ctx.parked:
            return
        now_ms = self._ctx.clock.monotonic_ms()
        if self._is_enough:
            self._ctx.parked.forget(self)
            self.complete(self._answer())
        elif now_ms >= self._final_ms - ACKNOWLEDGE_TIMEOUT_MS + self._request.max_wait_ms:
            # The wait for records was over before.
            self._ctx.parked.forget(self)
            self.expire(now_ms)

    def try_complete(self, partition: PartitionKey | None, now_ms: int) -> bool:
        if not self.acquired:
            names = self._ctx.image.topic_names
            self.look_at(
                [each for each in self.parts if (names.get(each[0]), each[1]) == partition]
                if partition is not None
                else self.parts
            )
        if self.done:
            return True
        if not self._is_enough or not self.acknowledging.is_decided:
            return False
        self.complete(self._answer())
        return True

    def expire(self, now_ms: int) -> None:
        if not self.acquired:
            self.look_at(self.parts)
        if self.done:
            return
        if not self.acknowledging.is_decided:
            if now_ms < self._final_ms:
                self.deadline_ms = self._final_ms
                self.park()
                return
            self.acknowledging.give_up()
        self.complete(self._answer())

    def _answer(self) -> e.ShareFetchResponse:
        ctx, leaders = self._ctx, set[int]()
        results: dict[Part, e.PartitionData] = {}
        for part in dict.fromkeys((*self.acknowledging.errors, *self.acquired, *self.errors)):
            refused, failed = self.acknowledging.errors.get(part), self.errors.get(part)
            acquired, records = self.acquired.get(part, ([], ()))
            code = failed.code if failed is not None else ErrorCode.none
            ack_code = refused.code if refused is not None else ErrorCode.none
            leader = leader_hint(ctx, part, code if code is not ErrorCode.none else ack_code)
            leaders.add(leader[0])
            size = sum(map(len, records))
            if size:
                ctx.hosted.traffic.sent("", part[0], size)
            results[part] = e.PartitionData(
                partition_index=part[1],
                error_code=code,
                error_message=None if failed is None else failed.message or None,
                acknowledge_error_code=ack_code.value,
                acknowledge_error_message=None if refused is None else refused.message or None,
                current_leader=e.LeaderIdAndEpoch(leader_id=leader[0], leader_epoch=leader[1]),
                records=b"".join(records),  # never null: Kafka 4.4's clients stop at that
                acquired_records=tuple(
                    e.AcquiredRecords(
                        first_offset=each.first,
                        last_offset=each.last,
                        delivery_count=each.deliveries,
                    )
                    for each in acquired
                ),
            )
        leaders.discard(-1)
        group_id = self._request.group_id or ""
        return e.ShareFetchResponse(
            acquisition_lock_timeout_ms=config_of(ctx, group_id).share.limits.lock_ms,
            responses=tuple(
                e.ShareFetchableTopicResponse(topic_id=topic_id, partitions=parts)
                for topic_id, parts in by_topic(results)
            ),
            node_endpoints=tuple(
                e.NodeEndpoint(node_id=each[0], host=each[1], port=each[2], rack=each[3])
                for each in node_endpoints(ctx, leaders, self._info.listener)
            ),
        )
