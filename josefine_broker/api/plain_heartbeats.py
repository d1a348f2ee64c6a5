"""Plain heartbeats: those of members of classic groups, and of consumer and share groups those that
report nothing new while nothing changes. Nearly all heartbeats are that.

Rules: each does what its handler does (`api/heartbeat.py`, `api/consumer_group_heartbeat.py`,
`api/share_group_heartbeat.py`), with the same bytes. A heartbeat that changes its group, brings an
assignment or has to wait for a commit is left to that path, and then nothing was done here.
"""

from functools import lru_cache
from typing import Any, NamedTuple

from josefine_broker.api.plain_fetch import Sender
from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.context import Context
from josefine_broker.engine.coordinators.group_configs_host import config_of
from josefine_broker.engine.coordinators.offsets_topic import coordinator_of
from josefine_broker.engine.groups.consumer.values import JOINING_EPOCH
from josefine_broker.engine.groups.values import Identity
from josefine_broker.engine.replicas.plain_batches import is_open
from josefine_broker.wire.apis import HEARTBEAT
from josefine_broker.wire.codec import RequestHeader
from josefine_broker.wire.entities import (
    consumer_group_heartbeat,
    heartbeat,
    share_group_heartbeat,
)
from josefine_broker.wire.known_requests import KNOWN_MAX, KnownAnswer, key_of, read_once
from josefine_broker.wire.primitives import Buffer

__all__ = ["beat_classic", "beat_consumer", "beat_share"]


def beat_classic(ctx: Context, frame: memoryview, _sender: Sender) -> list[Buffer] | None:
    """The whole response, with any code. None: nothing was done."""
    known = _classic(key_of(frame)) if is_open(ctx) else None
    if known is None or not _coordinates(ctx, known[0]):
        return None
    group_id, identity, generation, api_version = known
    coordinator = ctx.clients.groups.coordinator
    if coordinator.consumers.get(group_id) is not None:  # which may have classic members
        return None
    now_ms = ctx.clock.monotonic_ms()
    code = coordinator.heartbeat(group_id, identity, generation, now_ms)
    return _classic_answer(api_version, code).to(frame[4:8])


def beat_consumer(ctx: Context, frame: memoryview, _sender: Sender) -> list[Buffer] | None:
    """The whole response. None: nothing was done."""
    beat = _consumer(key_of(frame)) if is_open(ctx) else None
    if beat is None or not ctx.image.serves_consumer_groups:
        return None
    group_id, consumers = beat.group_id, ctx.clients.groups.coordinator.consumers
    if not _coordinates(ctx, group_id, consumers.end_offset(group_id)):
        return None
    now_ms, topics = ctx.clock.monotonic_ms(), ctx.image.topics
    who = beat.member_id, beat.instance_id, beat.epoch
    if not consumers.is_idle_beat(group_id, *who, topics, now_ms):
        return None
    return beat.answer(config_of(ctx, group_id).consumer_heartbeat_ms).to(frame[4:8])


def beat_share(ctx: Context, frame: memoryview, _sender: Sender) -> list[Buffer] | None:
    """The whole response. None: nothing was done."""
    beat = _share(key_of(frame)) if is_open(ctx) else None
    if beat is None:
        return None
    group_id, shares = beat.group_id, ctx.clients.groups.coordinator.shares
    if not _coordinates(ctx, group_id, shares.end_offset(group_id)):
        return None
    now_ms, topics = ctx.clock.monotonic_ms(), ctx.image.topics
    if not shares.is_idle_beat(group_id, beat.member_id, beat.epoch, topics, now_ms):
        return None
    return beat.answer(config_of(ctx, group_id).share_heartbeat_ms).to(frame[4:8])


def _coordinates(ctx: Context, group_id: str, end_offset: int = 0) -> bool:
    """Whether this broker coordinates the group, and its records up to there are committed."""
    try:
        _, hosted = coordinator_of(ctx, group_id)
    except KafkaError:
        return False
    return hosted.partition.high_watermark >= end_offset


class _Classic(NamedTuple):
    """A heartbeat of the classic protocol."""

    group_id: str
    identity: Identity
    generation: int
    api_version: int


@lru_cache(KNOWN_MAX)
def _classic(key: bytes) -> _Classic | None:
    """None: its route must serve it, here and below."""
    found = read_once(key)
    if found is None or not found[1].group_id:
        return None
    header, request = found
    identity = Identity(request.member_id, request.group_instance_id)
    return _Classic(request.group_id, identity, request.generation_id, header.api_version)


@lru_cache(64)
def _classic_answer(api_version: int, code: ErrorCode) -> KnownAnswer:
    return KnownAnswer(HEARTBEAT, api_version, heartbeat.HeartbeatResponse(error_code=code))


class _Beat:
    """A heartbeat that reports only who sends it, in which epoch."""

    __slots__ = (
        "_answer", "_header", "_interval_ms", "_response", "epoch", "group_id", "instance_id",
        "member_id",
    )  # fmt: skip

    def __init__(
        self, header: RequestHeader, request: Any, instance_id: str | None, response: Any
    ) -> None:
        """`response`: the class of its response."""
        self.group_id: str = request.group_id
        self.member_id: str = request.member_id
        self.epoch: int = request.member_epoch
        self.instance_id = instance_id
        self._header = header
        self._response = response
        self._interval_ms = -1

    def answer(self, interval_ms: int) -> KnownAnswer:
        """The answer that nothing has changed."""
        if interval_ms != self._interval_ms:
            response = self._response(
                member_id=self.member_id,
                member_epoch=self.epoch,
                heartbeat_interval_ms=interval_ms,
            )
            self._answer = KnownAnswer(self._header.api_key, self._header.api_version, response)
            self._interval_ms = interval_ms
        return self._answer


@lru_cache(KNOWN_MAX)
def _consumer(key: bytes) -> _Beat | None:
    found = read_once(key)
    if found is None:
        return None
    header, request = found
    # What it owns is no news: only a member that is not in its target's epoch is asked for that.
    news = (
        request.rack_id, request.subscribed_topic_names, request.subscribed_topic_regex,
        request.server_assignor,
    )  # fmt: skip
    if _is_news(request, news) or request.rebalance_timeout_ms != -1:
        return None
    response = consumer_group_heartbeat.ConsumerGroupHeartbeatResponse
    return _Beat(header, request, request.instance_id, response)


@lru_cache(KNOWN_MAX)
def _share(key: bytes) -> _Beat | None:
    found = read_once(key)
    if found is None:
        return None
    header, request = found
    if _is_news(request, (request.rack_id, request.subscribed_topic_names)):
        return None
    return _Beat(header, request, None, share_group_heartbeat.ShareGroupHeartbeatResponse)


def _is_news(request: Any, news: tuple[object, ...]) -> bool:
    """Whether a heartbeat reports more than a member, or may not be valid."""
    is_member = request.group_id and request.member_id and request.member_epoch > JOINING_EPOCH
    return not is_member or any(each is not None for each in news)
