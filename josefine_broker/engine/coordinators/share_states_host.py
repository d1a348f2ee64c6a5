"""The host of the share coordinator (`engine/groups/share/stored.py`): it writes changed states to
`__share_group_state`, and answers when these are committed.

Rules: each change is one record, and takes effect in memory once it is in the leader's log. No
answer contains anything that is not on every in-sync replica.

A leader that got an answer relies on it: it finishes records, or takes the leader before for
fenced. If the answer could be lost with this broker, finished records would be delivered again, or
two leaders would use the same share partition.
"""

from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import NamedTuple

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.engine.context import Context
from josefine_broker.engine.coordinators.log import (
    Entry,
    append_entries,
    coordinators,
    led_partition,
    partition_of,
)
from josefine_broker.engine.groups.share.state_records import encode_key, encode_value
from josefine_broker.engine.groups.share.stored import Change
from josefine_broker.engine.groups.share.values import ShareKey, ShareState
from josefine_broker.engine.metadata.image import SHARE_STATE_TOPIC
from josefine_broker.engine.purgatory.promises import AwaitEach
from josefine_broker.engine.replicas.committing import Appended

DELETIONS_MAX = 500
"""Deletions in one record batch, which must not exceed the topic's limit."""
STORE_TIMEOUT_MS = 5_000
"""How long a record waits for its replicas (Kafka's `share.coordinator.write.timeout.ms`)."""


class Outcome(NamedTuple):
    """The result of a change: the state after it, None if there is none; or why it was refused."""

    state: ShareState | None = None
    """Always None with an error; also None after a deletion."""
    code: ErrorCode = ErrorCode.none
    message: str | None = None


def coordinator_key(key: ShareKey) -> str:
    """The name by which FindCoordinator knows a share partition, as Kafka writes it: topic ids are
    base64."""
    topic_id = urlsafe_b64encode(key.topic_id.bytes).decode().rstrip("=")
    return f"{key.group_id}:{topic_id}:{key.partition}"


def forget_missing_states(ctx: Context) -> None:
    """Delete the states of topics that no longer exist. To be called when one was deleted, and when
    states were loaded: the topic may be gone since before this broker coordinates them.

    A deletion that cannot be written is dropped from memory only, as for committed offsets: the
    next coordinator repeats it.
    """
    states, names = ctx.clients.shares.states, ctx.image.topic_names
    gone: dict[TopicPartition, list[ShareKey]] = {}
    for key in states:
        tp = None
        if key.topic_id not in names:
            tp = partition_of(ctx, SHARE_STATE_TOPIC, coordinator_key(key))
        if tp is not None:
            gone.setdefault(tp, []).append(key)
    now_ms = ctx.clock.now_ms()
    for tp, keys in gone.items():
        states.forget(keys)
        hosted = ctx.hosted.partitions.get(tp)
        for at in range(0, len(keys), DELETIONS_MAX):
            entries: list[Entry] = [
                (encode_key(key), None) for key in keys[at : at + DELETIONS_MAX]
            ]
            if hosted is not None:
                with suppress(KafkaError):
                    append_entries(ctx, tp, hosted, entries, now_ms, lambda error: None)


def refused(error: KafkaError) -> Outcome:
    """The outcome of a change that was refused."""
    return Outcome(None, error.code, error.message or None)


def change_states(
    ctx: Context,
    changes: Iterable[tuple[ShareKey, Change]],
    build: Callable[[Mapping[ShareKey, Outcome]], object],
) -> object:
    """Make these changes. Returns the answer of `build`, or a token that gets it when all of them
    are committed or refused, or `STORE_TIMEOUT_MS` has passed. A change that is refused does not
    hold up the others. After the timeout nobody knows whether a change counts: it is in the log,
    and may still be committed."""
    outcomes: dict[ShareKey, Outcome] = {}
    waiting = []
    for key, change in changes:
        try:
            appended = _changed(ctx, key, change, outcomes)
        except KafkaError as error:
            outcomes[key] = refused(error)
            continue
        if not appended.decide():
            waiting.append(appended)
    if not waiting:
        return build(outcomes)
    deadline_ms = ctx.clock.monotonic_ms() + STORE_TIMEOUT_MS
    return AwaitEach(waiting, deadline_ms, lambda: build(outcomes)).park(ctx.parked)


def _changed(
    ctx: Context, key: ShareKey, change: Change, outcomes: dict[ShareKey, Outcome]
) -> Appended:
    """Write one change; the outcome is there once the result is decided. Raises KafkaError when
    nothing was written."""
    states = ctx.clients.shares.states
    tp, hosted = led_partition(
        ctx, SHARE_STATE_TOPIC, coordinator_key(key), ctx.clients.shares.loading
    )
    # Changes of one state come one after the other: this one may build on a state that is not
    # committed yet. Its own record is later in the log, so it is never committed without that one.
    before = states.get(key)
    after = change(before)
    # A leader that has not heard of the deletion of its topic would leave a state for good.
    if before is None and after is not None and key.topic_id not in ctx.image.topic_names:
        message = f"no topic has the id {key.topic_id}"
        raise KafkaError(ErrorCode.unknown_topic_or_partition, message)

    def settle(error: KafkaError | None) -> None:
        outcomes[key] = Outcome(after) if error is None else refused(coordinators(error))

    if after is before:
        # What is answered may rest on an earlier change that is not committed.
        return Appended(ctx, tp, hosted, states.end_offset(key), settle)
    now_ms = ctx.clock.now_ms()
    value = None if after is None else encode_value(after, now_ms)
    appended = append_entries(ctx, tp, hosted, [(encode_key(key), value)], now_ms, settle)
    states.keep(key, after, appended.end_offset)
    return appended
