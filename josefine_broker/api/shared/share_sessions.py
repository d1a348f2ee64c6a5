"""What ShareFetch and ShareAcknowledge have in common: their session, and the answers that a member
gives for records (KIP-932)."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from josefine_broker.api.rules.asker import asker_of
from josefine_broker.api.shared.hints import leader_of
from josefine_broker.base.acls import Operation, ResourceType
from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.context import Context, RequestInfo
from josefine_broker.engine.coordinators.group_configs_host import config_of
from josefine_broker.engine.coordinators.share_partitions_host import (
    LedShare,
    acknowledge,
    forget_group,
    led_share,
    release_all,
)
from josefine_broker.engine.coordinators.share_states_host import STORE_TIMEOUT_MS
from josefine_broker.engine.groups.share.sessions import (
    FINAL_EPOCH,
    OPENING_EPOCH,
    Part,
    ShareSession,
)
from josefine_broker.engine.groups.share.values import Ack, AckType, ShareKey

ACKNOWLEDGE_TIMEOUT_MS = 5 * STORE_TIMEOUT_MS
"""How long a member waits for its answers to be stored: longer than a write is repeated after its
first failure (`Limits.repeat_ms`), less than the 30 s that Kafka's clients wait. If the coordinator
is silent, a member may hear of a timeout although its answers are stored later."""


class AckBatch(Protocol):
    """Acknowledged records in the wire format."""

    @property
    def first_offset(self) -> int: ...

    @property
    def last_offset(self) -> int: ...

    @property
    def acknowledge_types(self) -> tuple[int, ...]: ...


Asked = dict[Part, tuple[AckBatch, ...]]
"""The partitions of a request, each with what is acknowledged of it."""


def check_member(group_id: str | None, member_id: str | None) -> tuple[str, str]:
    """The group and the member of a request. Raises KafkaError."""
    if not group_id:
        raise KafkaError(ErrorCode.invalid_group_id, "a share session needs a group id")
    if not member_id:
        raise KafkaError(ErrorCode.invalid_request, "a share session needs a member id")
    return group_id, member_id


def session_of(
    ctx: Context, group_id: str, member_id: str, epoch: int, *, may_open: bool
) -> ShareSession:
    """The session of a request, opened or closed by it. Raises KafkaError."""
    sessions, now_ms = ctx.clients.shares.sessions, ctx.clock.monotonic_ms()
    if epoch == FINAL_EPOCH:
        return sessions.close(group_id, member_id)
    if epoch != OPENING_EPOCH:
        return sessions.next(group_id, member_id, epoch, now_ms)
    if not may_open:
        message = "a share session is opened by ShareFetch"
        raise KafkaError(ErrorCode.invalid_share_session_epoch, message)
    session = sessions.open(group_id, member_id, now_ms)
    forget_group(ctx, group_id, but=member_id)
    return session


def close(ctx: Context, session: ShareSession) -> None:
    """Give others what the member of a closed session has not answered for."""
    for topic_id, index in session.parts:
        release_all(ctx, ShareKey(session.group_id, topic_id, index), session.member_id)


def _nobody() -> None:
    """Nothing waits for an answer."""


class Acknowledging:
    """The answers of one request, until they are stored. Mutable."""

    __slots__ = ("_ctx", "_open", "_wake", "errors")

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._wake = _nobody
        self._open: set[Part] = set()
        self.errors: dict[Part, KafkaError | None] = {}
        """By partition: why its answers do not count; None: they do."""

    @property
    def is_decided(self) -> bool:
        return not self._open

    def wait(self, wake: Callable[[], None]) -> None:
        """Call `wake` once all are decided. For a request that waits for that, and no other: it and
        this refer to each other from now on, and only the collector would free both."""
        self._wake = wake

    def give_up(self) -> None:
        """The time is over: nobody knows whether those that are still open count."""
        late = KafkaError(ErrorCode.request_timed_out, "the acknowledgements are not stored yet")
        for part in self._open:
            self.errors[part] = late
        self._open.clear()
        self._wake = _nobody

    def take(
        self, info: RequestInfo, session: ShareSession, asked: Asked, *, is_renewing: bool
    ) -> None:
        """Take the answers of a member for all partitions that it names."""
        may_renew = config_of(self._ctx, session.group_id).share.may_renew
        for part, batches in asked.items():
            if not batches:
                continue
            try:
                acks = [_ack(each, is_renewing=is_renewing) for each in batches]
                if not may_renew and any(AckType.RENEW in each.types for each in acks):
                    message = "renewing locks is not enabled for the group"
                    raise KafkaError(ErrorCode.invalid_record_state, message)
                led = readable(self._ctx, info, session.group_id, part)
                self._open.add(part)
                acknowledge(self._ctx, led, session.member_id, acks, self._settle(part))
            except KafkaError as error:
                self._open.discard(part)
                self.errors[part] = error.without_frames()

    def _settle(self, part: Part) -> Callable[[KafkaError | None], None]:
        def settle(error: KafkaError | None) -> None:
            if part not in self._open:
                return
            self._open.discard(part)
            self.errors[part] = error
            if not self._open:
                wake, self._wake = self._wake, _nobody
                wake()

        return settle


def readable(ctx: Context, info: RequestInfo, group_id: str, part: Part) -> LedShare:
    """A share partition that the client may read. Raises KafkaError."""
    topic_id, index = part
    name = ctx.image.topic_names.get(topic_id)
    asker = asker_of(ctx, info)
    may_read = asker is None or name is None or asker.may(Operation.READ, ResourceType.TOPIC, name)
    if asker is not None and not may_read:
        raise asker.denied(Operation.READ, ResourceType.TOPIC)
    return led_share(ctx, ShareKey(group_id, topic_id, index), config_of(ctx, group_id).share)


def _ack(batch: AckBatch, *, is_renewing: bool) -> Ack:
    """Raises KafkaError(invalid_request)."""
    types = []
    for number in batch.acknowledge_types:
        try:
            types.append(AckType(number))
        except ValueError:
            message = f"{number} is not an acknowledge type"
            raise KafkaError(ErrorCode.invalid_request, message) from None
    if AckType.RENEW in types and not is_renewing:
        message = "IsRenewAck must be set with acknowledge type 4 (renew)"
        raise KafkaError(ErrorCode.invalid_request, message)
    if not types:
        raise KafkaError(ErrorCode.invalid_request, "an acknowledged batch has no type")
    return Ack(batch.first_offset, batch.last_offset, types)


def asked_of(topics: Iterable[Any]) -> Asked:
    """The partitions of a request. Raises KafkaError(invalid_request) for one named twice."""
    found: Asked = {}
    for topic in topics:
        for each in topic.partitions:
            part = topic.topic_id, each.partition_index
            if part in found:
                message = f"partition {part[1]} of topic {part[0]} is named twice"
                raise KafkaError(ErrorCode.invalid_request, message)
            found[part] = each.acknowledgement_batches
    return found


def leader_hint(ctx: Context, part: Part, code: ErrorCode) -> tuple[int, int]:
    """The leader and its epoch, for an error that another leader explains; else -1 for both."""
    name = ctx.image.topic_names.get(part[0])
    found = None if name is None else leader_of(ctx, name, part[1], code)
    return (-1, -1) if found is None else found


def by_topic(results: Mapping[Part, Any]) -> Sequence[tuple[Any, tuple[Any, ...]]]:
    """The results by topic id, in their order."""
    found: dict[Any, list[Any]] = {}
    for (topic_id, _), result in results.items():
        found.setdefault(topic_id, []).append(result)
    return [(topic_id, tuple(each)) for topic_id, each in found.items()]
