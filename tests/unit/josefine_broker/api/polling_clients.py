"""Clients that poll as the Java client and librdkafka do, in a `World`'s time: what they do at each
error code, and how often they ask. A code that no client has a rule for ends the test.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Mapping
from enum import Enum
from typing import Any, NamedTuple

from josefine_broker.base.errors import ErrorCode
from josefine_broker.engine.context import Context
from josefine_broker.engine.purgatory.purgatory import Parked
from josefine_broker.wire import apis
from josefine_broker.wire import entities as e
from tests.unit.josefine_broker.api import consumer_clients, group_clients
from tests.unit.josefine_broker.api.world import World

BACK_OFF_MS = 100
"""Both clients' shortest pause between two attempts."""
HEARTBEAT_MS = 3_000
REQUESTS_MAX = 2_000
"""That a test ends, whatever is asked."""
TICK_MS = 50


class Act(Enum):
    """What a client does with an answer."""

    GO_ON = "all is well"
    BACK_OFF = "asks the same again after a pause"
    FIND = "asks for the coordinator after a pause"
    JOIN = "joins again at once, as whom it is"
    ANEW = "joins again at once, as somebody new"
    STOP = "tells its user"


_E = ErrorCode
_COORDINATED = {
    _E.none: Act.GO_ON,
    _E.coordinator_load_in_progress: Act.BACK_OFF,
    _E.coordinator_not_available: Act.FIND,
    _E.not_coordinator: Act.FIND,
    _E.group_authorization_failed: Act.STOP,
    _E.invalid_group_id: Act.STOP,
}
_MEMBER = _COORDINATED | {
    _E.fenced_instance_id: Act.STOP,
    _E.illegal_generation: Act.ANEW,
    _E.rebalance_in_progress: Act.JOIN,
    _E.unknown_member_id: Act.ANEW,
}
_PARTITION = {
    _E.none: Act.GO_ON,
    _E.not_leader_or_follower: Act.BACK_OFF,
    _E.offset_not_available: Act.BACK_OFF,
    _E.kafka_storage_error: Act.BACK_OFF,
    _E.topic_authorization_failed: Act.STOP,
    _E.unknown_leader_epoch: Act.BACK_OFF,
    _E.fenced_leader_epoch: Act.BACK_OFF,
    _E.unknown_topic_or_partition: Act.BACK_OFF,
}
ACTS: Mapping[int, Mapping[ErrorCode, Act]] = {
    apis.FIND_COORDINATOR: {
        _E.none: Act.GO_ON,
        _E.coordinator_not_available: Act.BACK_OFF,
        _E.group_authorization_failed: Act.STOP,
    },
    apis.JOIN_GROUP: _MEMBER
    | {
        _E.group_max_size_reached: Act.STOP,
        _E.inconsistent_group_protocol: Act.STOP,
        _E.invalid_session_timeout: Act.STOP,
        _E.member_id_required: Act.JOIN,
        _E.rebalance_in_progress: Act.BACK_OFF,
    },
    apis.SYNC_GROUP: _MEMBER | {_E.inconsistent_group_protocol: Act.STOP},
    apis.HEARTBEAT: _MEMBER,
    apis.CONSUMER_GROUP_HEARTBEAT: _COORDINATED
    | {
        _E.fenced_member_epoch: Act.ANEW,
        _E.group_max_size_reached: Act.STOP,
        _E.inconsistent_group_protocol: Act.STOP,
        _E.invalid_regular_expression: Act.STOP,
        _E.invalid_request: Act.STOP,
        _E.topic_authorization_failed: Act.BACK_OFF,
        _E.unknown_member_id: Act.ANEW,
        _E.unreleased_instance_id: Act.STOP,
        _E.unsupported_assignor: Act.STOP,
        _E.unsupported_version: Act.STOP,
    },
    apis.METADATA: {
        _E.none: Act.GO_ON,
        _E.invalid_topic_exception: Act.STOP,
        _E.leader_not_available: Act.BACK_OFF,
        _E.topic_authorization_failed: Act.STOP,
        _E.unknown_topic_id: Act.BACK_OFF,
        _E.unknown_topic_or_partition: Act.BACK_OFF,
    },
    apis.LIST_OFFSETS: _PARTITION | {_E.unsupported_version: Act.STOP},
    apis.OFFSET_FOR_LEADER_EPOCH: _PARTITION,
    apis.OFFSET_COMMIT: _COORDINATED
    | {
        _E.illegal_generation: Act.STOP,
        _E.offset_metadata_too_large: Act.STOP,
        _E.rebalance_in_progress: Act.BACK_OFF,
        _E.topic_authorization_failed: Act.STOP,
        _E.unknown_member_id: Act.STOP,
        _E.unknown_topic_id: Act.BACK_OFF,
        _E.unknown_topic_or_partition: Act.BACK_OFF,
    },
    apis.OFFSET_FETCH: _COORDINATED
    | {
        _E.stale_member_epoch: Act.STOP,
        _E.topic_authorization_failed: Act.STOP,
        _E.unknown_member_id: Act.STOP,
        _E.unknown_topic_id: Act.BACK_OFF,
        _E.unknown_topic_or_partition: Act.BACK_OFF,
        _E.unstable_offset_commit: Act.BACK_OFF,
    },
}


class Pause(NamedTuple):
    """A client does nothing for so long."""

    ms: int


Client = Generator[Any, Any, None]
"""Yields answers, `Parked`s and pauses; is sent what came of them."""


class Polls:
    """A broker as its clients see it, and what they asked and were told."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.asked: Counter[int] = Counter()
        self.told: set[tuple[int, ErrorCode]] = set()
        self._waiting: dict[Client, Any] = {}

    @property
    def ctx(self) -> Context:
        return self.world.ctx

    def ask(self, api_key: int, request: Any, **how: Any) -> Any:
        self.asked[api_key] += 1
        return self.world.ask(api_key, request, **how)

    def act(self, api_key: int, code: ErrorCode) -> Act:
        name = apis.APIS[api_key].name
        assert code in ACTS[api_key], f"what would a client do at {code.name} of {name}?"
        self.told.add((api_key, code))
        return ACTS[api_key][code]

    def run(self, *clients: Client, span_ms: int) -> None:
        """Let them poll for so long, with those of before."""
        world = self.world
        end_ms = world.clock.elapsed_ms + span_ms
        waiting = self._waiting
        waiting |= {client: self._until(next(client)) for client in clients}
        while waiting and world.clock.elapsed_ms < end_ms:
            has_moved = False
            for client, what in list(waiting.items()):
                if isinstance(what, Parked):
                    if not what.done:
                        continue
                    what = what.response
                elif isinstance(what, int):
                    if world.clock.elapsed_ms < what:
                        continue
                    what = None
                has_moved = True
                try:
                    waiting[client] = self._until(client.send(what))
                except StopIteration:
                    del waiting[client]
            if self.asked.total() > REQUESTS_MAX:
                return
            if not has_moved:
                world.advance(TICK_MS)

    def _until(self, what: Any) -> Any:
        return self.world.clock.elapsed_ms + what.ms if isinstance(what, Pause) else what


def member(
    polls: Polls, *, instance_id: str | None = None, after_ms: int = 0, **fields: Any
) -> Client:
    """A member of a classic group, who leads it where it is asked to."""
    yield Pause(after_ms)
    broker: Any = polls
    group = fields.get("group", group_clients.GROUP)
    member_id = ""
    act = Act.FIND
    while True:
        if act is Act.FIND:
            act = yield from _find(polls, group)
        if act is Act.STOP:
            return
        joined = yield group_clients.join(broker, member_id, instance_id=instance_id, **fields)
        act = polls.act(apis.JOIN_GROUP, joined.error_code)
        member_id = "" if act is Act.ANEW else joined.member_id or member_id
        if act in (Act.BACK_OFF, Act.FIND):
            yield Pause(BACK_OFF_MS)
        if act is not Act.GO_ON:
            continue
        shares = {each.member_id: b"some" for each in joined.members}
        synced = yield group_clients.sync(
            broker, joined, shares, group=group, group_instance_id=instance_id
        )
        act = polls.act(apis.SYNC_GROUP, synced.error_code)
        while act is Act.GO_ON:
            yield Pause(HEARTBEAT_MS)
            code = group_clients.beat(broker, joined, group=group, group_instance_id=instance_id)
            act = polls.act(apis.HEARTBEAT, code)
            if act is Act.BACK_OFF:
                yield Pause(BACK_OFF_MS)
                act = Act.GO_ON
        if act is Act.ANEW:
            member_id = ""
        if act is Act.FIND:
            yield Pause(BACK_OFF_MS)


def _find(polls: Polls, group: str) -> Generator[Any, Any, Act]:
    request = e.find_coordinator.FindCoordinatorRequest(key_type=0, coordinator_keys=(group,))
    while True:
        answer = yield polls.ask(apis.FIND_COORDINATOR, request)
        act = polls.act(apis.FIND_COORDINATOR, answer.coordinators[0].error_code)
        if act is not Act.BACK_OFF:
            return act
        yield Pause(BACK_OFF_MS)


def consumer(polls: Polls, member_id: str, **fields: Any) -> Client:
    """A member of the consumer protocol (KIP-848): the coordinator says how often it is heard."""
    broker: Any = polls
    epoch, owned = 0, None
    while True:
        beating = fields if epoch == 0 else {}
        answer = yield consumer_clients.send_beat(broker, member_id, epoch, owned=owned, **beating)
        act = polls.act(apis.CONSUMER_GROUP_HEARTBEAT, answer.error_code)
        if act is Act.STOP:
            return
        if act is Act.ANEW:
            epoch, owned = 0, None
        elif act is Act.GO_ON:
            assert answer.heartbeat_interval_ms >= BACK_OFF_MS, "it would be heard all the time"
            epoch = answer.member_epoch
            if answer.assignment is not None:
                owned = consumer_clients.owned(answer)
            yield Pause(answer.heartbeat_interval_ms)
        else:
            yield Pause(BACK_OFF_MS)


def poller(polls: Polls, api_key: int, request: Any, *, version: int | None = None) -> Client:
    """Asks until all is well, with a pause where the codes say so."""
    while True:
        answer = yield polls.ask(api_key, request, version=version)
        acts = {polls.act(api_key, code) for code in _codes(answer)}
        if acts <= {Act.GO_ON} or Act.STOP in acts:
            return
        yield Pause(BACK_OFF_MS)


def _codes(answer: Any) -> list[ErrorCode]:
    from tests.unit.josefine_broker.api.test_access import codes

    return [ErrorCode(each) for each in codes(answer)] or [ErrorCode.none]
