"""The host of classic members in groups of the consumer protocol (`groups/consumer/classic.py`):
JoinGroup, SyncGroup, Heartbeat and LeaveGroup. Each is answered when the group's change is
committed, without waiting for other members.

Rules: as in `consumer_groups_host.py`. A group accepts new classic members if both protocols are
allowed in one group; existing ones are served in any case.
"""

from collections.abc import Callable, Sequence
from uuid import UUID

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.context import Context
from josefine_broker.engine.coordinators.consumer_groups_host import give_name_to_classic, write
from josefine_broker.engine.coordinators.log import coordinators
from josefine_broker.engine.coordinators.offsets_topic import coordinator_of
from josefine_broker.engine.groups.consumer import classic
from josefine_broker.engine.groups.consumer.leaving import unknown_member
from josefine_broker.engine.groups.consumer.records import changes
from josefine_broker.engine.groups.consumer.values import ClassicSide, ConsumerGroup
from josefine_broker.engine.groups.joining import NAME_CHARS_MAX
from josefine_broker.engine.groups.values import (
    CONSUMER_PROTOCOL_TYPE,
    NO_MEMBER,
    Identity,
    Join,
    JoinAnswer,
    Sync,
    SyncAnswer,
)
from josefine_broker.engine.replicas.committing import Appended, answer_when_committed


def serving(ctx: Context, group_id: str) -> ConsumerGroup | None:
    """The consumer-protocol group of that id, if it has members of either protocol."""
    group = ctx.clients.groups.coordinator.consumers.get(group_id)
    return group if group is not None and group.members else None


def join(
    ctx: Context, group_id: str, request: Join, build: Callable[[JoinAnswer], object]
) -> object:
    """The answer, or a token that gets it when the change is committed. Raises KafkaError."""
    coordinator = ctx.clients.groups.coordinator
    consumers, settings = coordinator.consumers, coordinator.settings
    before = _there(ctx, group_id)
    if request.protocol_type != CONSUMER_PROTOCOL_TYPE:
        raise KafkaError(
            ErrorCode.inconsistent_group_protocol,
            f"group {group_id} has protocol type '{CONSUMER_PROTOCOL_TYPE}'",
        )
    # The limits of the classic protocol: its clients choose the timeout, those of KIP-848 do not.
    timeout_ms, now_ms = request.session_timeout_ms, ctx.clock.monotonic_ms()
    if not settings.session_timeout_min_ms <= timeout_ms <= settings.session_timeout_max_ms:
        raise KafkaError(ErrorCode.invalid_session_timeout)
    # A newcomer has no id yet. Others keep the session that their id has.
    is_newcomer = request.member_id == NO_MEMBER
    if is_newcomer and not settings.admits_classic:
        give_name_to_classic(ctx, group_id)  # raises: the group has members
    member_id = _new_id(ctx, request) if is_newcomer else request.member_id
    # KIP-394: the client gets its id before it counts, so one whose answer was lost leaves no
    # member.
    if is_newcomer and request.takes_id_first and request.instance_id is None:
        consumers.reserve(group_id, member_id, now_ms + timeout_ms)
        return build(JoinAnswer(error=ErrorCode.member_id_required, member_id=member_id))
    is_newcomer = is_newcomer or consumers.is_reserved(group_id, member_id, now_ms)
    asked = classic.ClassicJoin(
        member_id=member_id,
        instance_id=request.instance_id,
        is_newcomer=is_newcomer,
        client_id=request.client_id,
        client_host=request.client_host,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        side=ClassicSide(timeout_ms, tuple((name, data) for name, data in request.protocols)),
    )
    topics = ctx.image.topics
    is_news = consumers.is_news(group_id, topics)
    after, member = classic.join(before, asked, topics, consumers.settings, is_news=is_news)
    # Before the session is renewed: a change that cannot be written must not count as a heartbeat.
    _keep(ctx, before, after)
    consumers.beaten(group_id, member_id, topics, now_ms)
    consumers.joined(group_id, member_id)
    answer = JoinAnswer(
        generation=member.epoch,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        # The coordinator assigns, so the name matters to nobody; the client wants one that it
        # offered.
        protocol_name=request.protocols[0].name,
        member_id=member_id,
    )
    return _told(
        ctx,
        group_id,
        lambda: build(answer),
        lambda error: build(JoinAnswer(error=error.code, member_id=member_id)),
    )


def _new_id(ctx: Context, request: Join) -> str:
    """A member id as Kafka builds it: a readable part, then a random one."""
    named = request.client_id if request.instance_id is None else request.instance_id
    unique = UUID(int=ctx.ports.rng.getrandbits(128), version=4)
    return f"{named[:NAME_CHARS_MAX]}-{unique}"


def sync(
    ctx: Context, group_id: str, request: Sync, build: Callable[[SyncAnswer], object]
) -> object:
    """See `join`."""
    before = _there(ctx, group_id)
    member = classic.member_of(before, *request.identity)
    names = ctx.image.topic_names
    try:
        after, assignment = classic.sync(before, member, request.generation, names)
    except KafkaError as error:
        # The member has to join again: from now on its time for that runs.
        if error.code is ErrorCode.rebalance_in_progress:
            _call(ctx, group_id, member.member_id)
        raise
    _keep(ctx, before, after)
    _beaten(ctx, group_id, member.member_id)
    answer = SyncAnswer(
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        protocol_name=request.protocol_name,
        assignment=assignment,
    )
    return _told(
        ctx, group_id, lambda: build(answer), lambda error: build(SyncAnswer(error=error.code))
    )


def heartbeat(ctx: Context, group_id: str, identity: Identity, generation: int) -> ErrorCode:
    """Answered at once: the code only reports whether the group changed. Raises KafkaError.

    UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID and ILLEGAL_GENERATION are raised; a returned
    REBALANCE_IN_PROGRESS starts the time limit in which the member has to join again.
    """
    before = _there(ctx, group_id)
    member = classic.member_of(before, *identity)
    topics = ctx.image.topics
    is_news = ctx.clients.groups.coordinator.consumers.is_news(group_id, topics)
    after, code = classic.heartbeat(before, member, generation, topics, is_news=is_news)
    _keep(ctx, before, after)
    _beaten(ctx, group_id, member.member_id)
    if code is ErrorCode.rebalance_in_progress:
        _call(ctx, group_id, member.member_id)
    return code


def leave(ctx: Context, group_id: str, leaving: Sequence[Identity]) -> list[ErrorCode]:
    """The result for each identity. Raises KafkaError when nothing could be written.

    LeaveGroup names several members since version 3 (KIP-345): one write removes all that were
    found.
    """
    before = after = _there(ctx, group_id)
    codes = []
    # Each on the result of the one before; all are one write.
    for identity in leaving:
        try:
            after = classic.leave(after, *identity)
            codes.append(ErrorCode.none)
        except KafkaError as error:
            codes.append(error.code)
    _keep(ctx, before, after)
    return codes


def _there(ctx: Context, group_id: str) -> ConsumerGroup:
    """The group. Raises KafkaError (UNKNOWN_MEMBER_ID): only its members may ask."""
    group = serving(ctx, group_id)
    if group is None:
        raise unknown_member(NO_MEMBER)
    return group


def _call(ctx: Context, group_id: str, member_id: str) -> None:
    """Start the member's time limit to join again."""
    now_ms = ctx.clock.monotonic_ms()
    ctx.clients.groups.coordinator.consumers.called(group_id, member_id, now_ms)


def _beaten(ctx: Context, group_id: str, member_id: str) -> None:
    """Renew the member's session."""
    consumers = ctx.clients.groups.coordinator.consumers
    consumers.beaten(group_id, member_id, ctx.image.topics, ctx.clock.monotonic_ms())


def _keep(ctx: Context, before: ConsumerGroup, after: ConsumerGroup) -> None:
    """Write a change and keep it. Raises KafkaError; then nothing has changed."""
    coordinator = ctx.clients.groups.coordinator
    entries = changes(before, after)
    if entries:
        write(ctx, before.group_id, entries)
        # After the write, which may raise: the group in memory is never ahead of its log.
        coordinator.consumers.keep(after, ctx.clock.monotonic_ms())
        coordinator.counts.rebalances += before.epoch != after.epoch


def _told(
    ctx: Context,
    group_id: str,
    build: Callable[[], object],
    fail: Callable[[KafkaError], object],
) -> object:
    """Answer when every change of the group so far is committed."""
    outcome: list[KafkaError | None] = []

    def settle(error: KafkaError | None) -> None:
        outcome.append(error and coordinators(error))

    def told() -> object:
        (error,) = outcome
        return build() if error is None else fail(error)

    # Also without a change of its own: the answer may rest on an earlier one that is not committed,
    # and that a new coordinator would not know.
    tp, hosted = coordinator_of(ctx, group_id)
    end_offset = ctx.clients.groups.coordinator.consumers.end_offset(group_id)
    written = Appended(ctx, tp, hosted, end_offset, settle)
    return answer_when_committed(ctx, [written], ctx.settings.offsets.timeout_ms, told)
