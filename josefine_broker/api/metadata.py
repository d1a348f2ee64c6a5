"""Metadata (key 3): brokers, topics, partitions with leader and epoch, all from one image.

All topics (null), none (empty), by name, by id (KIP-516, since v10). A missing topic is created if
the client allows it and the broker is configured to; the answer then waits for the block, so that
the client need not retry. An answer that would name a leader which this broker has just lost waits
too, for a moment: the next one is about to be elected. So does the answer to a client that asks
long after it connected: its connection to a leader may have ended before ours did.
"""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

from josefine_broker.api.shared.topics import (
    ALL_CLUSTER_OPERATIONS,
    ALL_TOPIC_OPERATIONS,
    NewNames,
    check_name,
    just_fenced_brokers,
    new_topic,
    reachable_brokers,
)
from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.context import Context, RequestInfo
from josefine_broker.engine.metadata.image import (
    INTERNAL_TOPICS,
    METADATA_TOPIC,
    NO_LEADER,
    PartitionEntry,
    TopicEntry,
)
from josefine_broker.engine.metadata.proposals import Proposal
from josefine_broker.engine.proposing import answer_when_settled, submit_change
from josefine_broker.engine.purgatory.purgatory import Parked, PartitionKey
from josefine_broker.wire.entities import metadata as e

LOST_LEADER_WAIT_MS = 500
"""A leader that was lost no longer ago than this is not named yet. After kill -9 the next one is
elected within 20 to 100 ms, or 0.5 s if the controller is gone too and votes split (measured).
librdkafka asks at once, and given the dead leader it asks again only after up to a second."""
STARTED_MS = 1_000
"""A client that starts asks several times within a second after it connected. Later it asks when it
has lost a leader, or by a timer of minutes."""
LATER_WAIT_MS = 50
"""How long the answer to a client that is connected for longer waits for a change. The connections
of a killed broker end one after the other, within milliseconds on a quiet machine: librdkafka asks
1 ms after it lost its own, and was given the dead leader, in five of 16 kills (measured)."""
NEVER_MADE = INTERNAL_TOPICS | {METADATA_TOPIC}
"""Topics that are never created by a client's request."""


def handle(ctx: Context, info: RequestInfo, request: e.MetadataRequest) -> object:
    """The brokers and the requested topics; errors are per topic."""
    deadline_ms = ctx.clock.monotonic_ms() + ctx.settings.metadata_timeout_ms
    refused: dict[str, KafkaError] = {}
    proposals = _create_missing(ctx, request, deadline_ms, refused)

    def build() -> e.MetadataResponse:
        for name, proposal in proposals.items():
            if proposal.error is not None:
                refused[name] = proposal.error
        return _answer(ctx, info, request, refused)

    if not proposals:
        waiting = _wait_of(ctx, info, request)
        if waiting is not None:
            ctx.parked.park(waiting, brokers=True)
            return waiting
    return answer_when_settled(ctx, list(proposals.values()), deadline_ms, build)


Leaders = tuple[tuple[str, int, int, int], ...]
"""(topic, index, leader, leader epoch) of the partitions in an answer."""


def _wait_of(ctx: Context, info: RequestInfo, request: e.MetadataRequest) -> _AwaitLeaders | None:
    """The wait for leaders that may change at once; None: the answer is given now."""
    if len(ctx.image.brokers) < 2:
        return None
    lost_at_ms = _lost_at_ms(ctx, request)
    if lost_at_ms is not None:
        return _AwaitLeaders(ctx, info, request, lost_at_ms + LOST_LEADER_WAIT_MS, None)
    now_ms = ctx.clock.monotonic_ms()
    if info.connected_ms is None or now_ms < info.connected_ms + STARTED_MS:
        return None
    leaders = _leaders(ctx, request)
    # Our own partitions are no reason to wait: we know that we lead them.
    if any(leader not in (NO_LEADER, ctx.broker_id) for _, _, leader, _ in leaders):
        return _AwaitLeaders(ctx, info, request, now_ms + LATER_WAIT_MS, leaders)
    return None


class _AwaitLeaders(Parked):
    """A request whose answer would name a leader that is lost, or may be: answered once it does
    not, or in time."""

    __slots__ = ("_ctx", "_info", "_request", "_same")

    is_cut_short = True

    def __init__(
        self,
        ctx: Context,
        info: RequestInfo,
        request: e.MetadataRequest,
        deadline_ms: int,
        same: Leaders | None,
    ) -> None:
        """`same`: the leaders that it would name, while none of them is known to be lost."""
        super().__init__(deadline_ms)
        self._ctx = ctx
        self._info = info
        self._request = request
        self._same = same

    def try_complete(self, partition: PartitionKey | None, now_ms: int) -> bool:
        if _lost_at_ms(self._ctx, self._request) is not None:
            return False
        if self._same is not None and self._same == _leaders(self._ctx, self._request):
            return False
        self._answer()
        return True

    def expire(self, now_ms: int) -> None:
        lost_at_ms = _lost_at_ms(self._ctx, self._request)
        # One was lost meanwhile: from then on it is waited for as usual. A broker that stops calls
        # this before the deadline, and gets an answer.
        if self._same is not None and lost_at_ms is not None and now_ms >= self.deadline_ms:
            self._same = None
            self.deadline_ms = lost_at_ms + LOST_LEADER_WAIT_MS
            self._ctx.parked.park(self, brokers=True)
            return
        self._answer()

    def _answer(self) -> None:
        self.complete(_answer(self._ctx, self._info, self._request, {}))


def _topics_of(ctx: Context, request: e.MetadataRequest) -> Iterator[tuple[str, TopicEntry]]:
    """Name and entry of the topics that the answer describes."""
    image = ctx.image
    if request.topics is None:
        yield from image.topics.items()
        return
    for each in request.topics:
        name = ctx.topic_name(each.name, each.topic_id)
        if name is not None and name in image.topics:
            yield name, image.topics[name]


def _leaders(ctx: Context, request: e.MetadataRequest) -> Leaders:
    return tuple(
        (name, index, entry.leader, entry.leader_epoch)
        for name, topic in _topics_of(ctx, request)
        for index, entry in enumerate(topic.partitions)
    )


def _lost_at_ms(ctx: Context, request: e.MetadataRequest) -> int | None:
    """When a leader that the answer would name was lost, at the latest; None: there is none, or it
    was too long ago to wait for the next one."""
    fetchers = ctx.hosted.fetchers
    lost = fetchers.lost_leaders(ctx.clock.monotonic_ms() - LOST_LEADER_WAIT_MS)
    if not lost:
        return None
    leaders = {entry.leader for _, topic in _topics_of(ctx, request) for entry in topic.partitions}
    times = (fetchers.by_leader[each].lost_at_ms for each in leaders & lost)
    return max((each for each in times if each is not None), default=None)


def refuse(request: e.MetadataRequest, error: KafkaError) -> e.MetadataResponse:
    """The answer when the whole request is refused."""
    return e.MetadataResponse(
        brokers=(),
        topics=tuple(
            _missing(topic.name, topic.topic_id, error.code) for topic in request.topics or ()
        ),
        error_code=error.code,
    )


def _create_missing(
    ctx: Context, request: e.MetadataRequest, deadline_ms: int, refused: dict[str, KafkaError]
) -> dict[str, Proposal]:
    if not (request.allow_auto_topic_creation and ctx.settings.auto_create_topics):
        return {}
    proposals: dict[str, Proposal] = {}
    names, limit = NewNames(ctx.image), ctx.partition_limit()
    for topic in request.topics or ():
        name = topic.name
        known = name is None or name in ctx.image.topics or name in proposals
        if known or topic.topic_id is not None or name in NEVER_MADE:
            continue
        assert name is not None
        try:
            proposals[name] = submit_change(ctx, new_topic(ctx, name, names, limit), deadline_ms)
        except KafkaError as error:
            refused[name] = _told(error)
    return proposals


def _told(error: KafkaError) -> KafkaError:
    """The error for the topic: without a controller the topic may exist soon."""
    if error.code is ErrorCode.not_controller:
        return KafkaError(ErrorCode.leader_not_available, error.message)
    return error


def _answer(
    ctx: Context, info: RequestInfo, request: e.MetadataRequest, refused: dict[str, KafkaError]
) -> e.MetadataResponse:
    brokers = reachable_brokers(ctx, info.listener)
    reachable = frozenset(broker.broker_id for broker, _ in brokers)
    listed = (*brokers, *just_fenced_brokers(ctx, info.listener, reachable))
    operations = -(2**31)
    if request.include_topic_authorized_operations:
        operations = ALL_TOPIC_OPERATIONS
    if request.topics is None:
        topics = [
            _topic(ctx.image.topics[n], reachable, operations) for n in sorted(ctx.image.topics)
        ]
    else:
        # Kafka collects them in a set: a topic that is named twice is answered once.
        topics = [
            _requested(ctx, topic, reachable, operations, refused)
            for topic in dict.fromkeys(request.topics)
        ]
    return e.MetadataResponse(
        brokers=tuple(
            e.MetadataResponseBroker(
                node_id=broker.broker_id, host=at.host, port=at.port, rack=broker.rack
            )
            for broker, at in listed
        ),
        cluster_id=ctx.image.cluster_id,
        controller_id=ctx.cluster.controller_id,
        topics=tuple(topics),
        cluster_authorized_operations=(
            ALL_CLUSTER_OPERATIONS if request.include_cluster_authorized_operations else -(2**31)
        ),
    )


def _requested(
    ctx: Context,
    topic: e.MetadataRequestTopic,
    reachable: frozenset[int],
    operations: int,
    refused: dict[str, KafkaError],
) -> e.MetadataResponseTopic:
    name = ctx.topic_name(topic.name, topic.topic_id)
    if name is None:
        return _missing(None, topic.topic_id, ErrorCode.unknown_topic_id)
    entry = ctx.image.topics.get(name)
    if entry is not None:
        return _topic(entry, reachable, operations)
    if name in refused:
        return _missing(name, None, refused[name].code)
    try:
        check_name(name)
    except KafkaError as error:
        return _missing(name, None, error.code)
    return _missing(name, None, ErrorCode.unknown_topic_or_partition)


def _missing(name: str | None, topic_id: UUID | None, code: ErrorCode) -> e.MetadataResponseTopic:
    return e.MetadataResponseTopic(error_code=code, name=name, topic_id=topic_id, partitions=())


def _topic(
    topic: TopicEntry, reachable: frozenset[int], operations: int
) -> e.MetadataResponseTopic:
    return e.MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=tuple(
            _partition(index, entry, reachable) for index, entry in enumerate(topic.partitions)
        ),
        topic_authorized_operations=operations,
    )


def _partition(
    index: int, entry: PartitionEntry, reachable: frozenset[int]
) -> e.MetadataResponsePartition:
    led = entry.leader in reachable
    return e.MetadataResponsePartition(
        error_code=ErrorCode.none if led else ErrorCode.leader_not_available,
        partition_index=index,
        leader_id=entry.leader if led else -1,
        leader_epoch=entry.leader_epoch,
        replica_nodes=entry.replicas,
        isr_nodes=entry.isr,
        offline_replicas=tuple(each for each in entry.replicas if each not in reachable),
    )
