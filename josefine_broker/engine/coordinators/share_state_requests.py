"""Requests of a partition's leader, and of a group's coordinator, to the share coordinator: the
leader of the share partition's partition of `__share_group_state`, here or on another broker.

Rules: each request is answered once, now or later; without an answer the outcome is
COORDINATOR_NOT_AVAILABLE, and nobody knows whether it took effect. A caller may repeat any of them.
The share coordinator is found with each request, and never remembered: its partition may have
another leader by now.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from josefine_broker.base.errors import ErrorCode
from josefine_broker.engine.context import Context
from josefine_broker.engine.coordinators.log import partition_of
from josefine_broker.engine.coordinators.share_states_host import (
    STORE_TIMEOUT_MS,
    Outcome,
    change_states,
    coordinator_key,
)
from josefine_broker.engine.groups.share import stored
from josefine_broker.engine.groups.share.group import ShareGroup
from josefine_broker.engine.groups.share.states import RecordState
from josefine_broker.engine.groups.share.stored import Change
from josefine_broker.engine.groups.share.values import NO_START, ShareKey, ShareState, StateBatch
from josefine_broker.engine.metadata.image import SHARE_STATE_TOPIC
from josefine_broker.engine.purgatory.promises import Promise
from josefine_broker.wire import apis
from josefine_broker.wire.entities import (
    delete_share_group_state,
    initialize_share_group_state,
    read_share_group_state,
    read_share_group_state_summary,
    write_share_group_state,
)

Heard = Callable[[Outcome], None]
"""Gets the outcome; possibly before the function that it is passed to returns."""

ASK_TIMEOUT_MS = 2 * STORE_TIMEOUT_MS
"""Longer than the coordinator waits for its replicas: its own error is better than none."""
UNKNOWN = Outcome(None, ErrorCode.coordinator_not_available, "its share coordinator is away")
"""Without an answer."""


def read_state(ctx: Context, key: ShareKey, leader_epoch: int, heard: Heard) -> None:
    """The stored state, for the partition's leader of that epoch. This writes: the coordinator
    stores the epoch before it answers, and refuses older leaders from then on."""
    e = read_share_group_state
    part = e.PartitionData(partition=key.partition, leader_epoch=leader_epoch)
    topic = e.ReadStateData(topic_id=key.topic_id, partitions=(part,))
    request = e.ReadShareGroupStateRequest(group_id=key.group_id, topics=(topic,))

    def state_of(result: Any) -> ShareState:
        batches = tuple(
            StateBatch(
                each.first_offset,
                each.last_offset,
                RecordState(each.delivery_state),
                each.delivery_count,
            )
            for each in result.state_batches
        )
        return ShareState(result.state_epoch, leader_epoch, result.start_offset, batches)

    change = stored.read(leader_epoch)
    _ask(ctx, key, change, apis.READ_SHARE_GROUP_STATE, request, state_of, heard)


def write_state(ctx: Context, key: ShareKey, state: ShareState, heard: Heard) -> None:
    """Store the state of a share partition. The leader uses only the error code of the outcome, and
    does not take over what the coordinator merged: records that it still has may be finished there.
    """
    e = write_share_group_state
    part = e.PartitionData(
        partition=key.partition,
        state_epoch=state.state_epoch,
        leader_epoch=state.leader_epoch,
        start_offset=state.start_offset,
        delivery_complete_count=state.complete_count,
        state_batches=tuple(
            e.StateBatch(
                first_offset=each.first,
                last_offset=each.last,
                delivery_state=each.state.value,
                delivery_count=each.deliveries,
            )
            for each in state.batches
        ),
    )
    topic = e.WriteStateData(topic_id=key.topic_id, partitions=(part,))
    request = e.WriteShareGroupStateRequest(group_id=key.group_id, topics=(topic,))
    change = stored.written(state)
    _ask(ctx, key, change, apis.WRITE_SHARE_GROUP_STATE, request, lambda _: state, heard)


def initialize_state(
    ctx: Context, key: ShareKey, state_epoch: int, start_offset: int, heard: Heard
) -> None:
    """Let a share partition start there, in a new state epoch."""
    e = initialize_share_group_state
    part = e.PartitionData(
        partition=key.partition, state_epoch=state_epoch, start_offset=start_offset
    )
    topic = e.InitializeStateData(topic_id=key.topic_id, partitions=(part,))
    request = e.InitializeShareGroupStateRequest(group_id=key.group_id, topics=(topic,))
    state = ShareState(state_epoch, 0, start_offset)
    change = stored.initialized(state_epoch, start_offset)
    _ask(ctx, key, change, apis.INITIALIZE_SHARE_GROUP_STATE, request, lambda _: state, heard)


def summarize_state(ctx: Context, key: ShareKey, heard: Heard) -> None:
    """Where a share partition starts, without its batches; no state: there is none. For
    descriptions and alterations of a group, which must not fence the partition's leader."""
    e = read_share_group_state_summary
    part = e.PartitionData(partition=key.partition, leader_epoch=-1)
    topic = e.ReadStateSummaryData(topic_id=key.topic_id, partitions=(part,))
    request = e.ReadShareGroupStateSummaryRequest(group_id=key.group_id, topics=(topic,))

    def state_of(result: Any) -> ShareState | None:
        if result.start_offset == NO_START:
            return None
        return ShareState(
            result.state_epoch,
            result.leader_epoch,
            result.start_offset,
            (),
            result.delivery_complete_count,
        )

    api_key = apis.READ_SHARE_GROUP_STATE_SUMMARY
    _ask(ctx, key, stored.unchanged, api_key, request, state_of, heard)


def gather(
    ctx: Context,
    keys: Iterable[ShareKey],
    ask: Callable[[ShareKey, Heard], None],
    build: Callable[[Mapping[ShareKey, Outcome]], object],
    *,
    requests: int = 1,
) -> object:
    """Ask for each share partition; `build` makes the answer from all outcomes, now or for the
    token that is returned. `requests`: how many `ask` sends for one, one after the other."""
    # Answers may come while the requests are still being sent, or when nobody waits any more.
    outcomes: dict[ShareKey, Outcome] = {}
    waiting: list[Promise] = []
    wanted = list(dict.fromkeys(keys))

    def heard_of(key: ShareKey) -> Heard:
        def heard(outcome: Outcome) -> None:
            outcomes[key] = outcome
            if len(outcomes) == len(wanted):
                for each in waiting:
                    each.keep(lambda: build(outcomes))

        return heard

    for key in wanted:
        ask(key, heard_of(key))
    if len(outcomes) == len(wanted):
        return build(outcomes)

    def late() -> object:
        return build({key: outcomes.get(key, UNKNOWN) for key in wanted})

    # Longer than all requests may take, so that each outcome is known by then.
    deadline_ms = ctx.clock.monotonic_ms() + requests * ASK_TIMEOUT_MS + STORE_TIMEOUT_MS
    waiting.append(Promise(ctx.parked, deadline_ms, late))
    return waiting[0]


def delete_state(ctx: Context, key: ShareKey, heard: Heard) -> None:
    """Forget a share partition."""
    e = delete_share_group_state
    part = e.PartitionData(partition=key.partition)
    topic = e.DeleteStateData(topic_id=key.topic_id, partitions=(part,))
    request = e.DeleteShareGroupStateRequest(group_id=key.group_id, topics=(topic,))
    _ask(ctx, key, stored.deleted, apis.DELETE_SHARE_GROUP_STATE, request, lambda _: None, heard)


def delete_states(ctx: Context, group: ShareGroup) -> None:
    """Forget all share partitions of a deleted group. One whose coordinator is away keeps its
    state, which a group of the same name would continue."""
    for topic_id, count in group.topics.items():
        for index in range(count):
            delete_state(ctx, ShareKey(group.group_id, topic_id, index), lambda outcome: None)


def _ask(
    ctx: Context,
    key: ShareKey,
    change: Change,
    api_key: int,
    request: Any,
    state_of: Callable[[Any], ShareState | None],
    heard: Heard,
) -> None:
    """Make the change here, if this broker coordinates the share partition, or send the request to
    the broker that does."""
    # By the image, like every client; a broker that does not lead it any more refuses.
    tp = partition_of(ctx, SHARE_STATE_TOPIC, coordinator_key(key))
    entry = None if tp is None else ctx.image.partition(tp.topic, tp.partition)
    leader = -1 if entry is None else entry.leader
    if leader == ctx.broker_id:
        change_states(ctx, [(key, change)], lambda outcomes: heard(outcomes[key]))
        return
    ask = ctx.ports.forward
    if leader < 0 or ask is None:
        heard(UNKNOWN)
        return

    def answered(answer: Any | None) -> None:
        if answer is None:
            heard(UNKNOWN)
            return
        # The request named one partition.
        result = answer.results[0].partitions[0]
        if result.error_code is not ErrorCode.none:
            heard(Outcome(None, result.error_code, result.error_message))
        else:
            heard(Outcome(state_of(result)))

    deadline_ms = ctx.clock.monotonic_ms() + ASK_TIMEOUT_MS
    ask(leader, api_key, request, deadline_ms, answered)
