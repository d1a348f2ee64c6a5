"""What share groups refuse: whole requests, clients without rights, and writes that fail."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from josefine_broker.api import (
    alter_share_group_offsets,
    delete_share_group_offsets,
    delete_share_group_state,
    describe_share_group_offsets,
    initialize_share_group_state,
    read_share_group_state,
    read_share_group_state_summary,
    share_acknowledge,
    share_fetch,
    share_group_describe,
    share_group_heartbeat,
    write_share_group_state,
)
from josefine_broker.api.access import RULES
from josefine_broker.api.rules.share_groups import described_share_topics
from josefine_broker.api.shared.share_sessions import ACKNOWLEDGE_TIMEOUT_MS
from josefine_broker.api.shared.share_states import NO_TOPIC, share_key
from josefine_broker.base.acls import Operation, ResourceType
from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.context import Context
from josefine_broker.engine.coordinators import share_groups_host, share_partitions_host
from josefine_broker.engine.coordinators.loading_share_states import (
    begin_loading_share_states,
    share_states_moved,
)
from josefine_broker.engine.coordinators.log import partition_of
from josefine_broker.engine.coordinators.share_partitions_host import (
    RETRY_MAX_MS,
    RETRY_MS,
    TRANSIENT,
)
from josefine_broker.engine.coordinators.share_state_requests import UNKNOWN, Heard, write_state
from josefine_broker.engine.coordinators.share_states_host import Outcome, coordinator_key
from josefine_broker.engine.groups.share.values import ShareKey, ShareState
from josefine_broker.engine.metadata.image import SHARE_STATE_TOPIC
from josefine_broker.engine.purgatory.purgatory import Parked
from josefine_broker.engine.security.authorizer import Authorizer
from josefine_broker.wire import apis
from tests.unit.josefine_broker.api.share_members import (
    ACCEPT,
    GROUP,
    RELEASE,
    Sharer,
    ack_codes,
    got,
)
from tests.unit.josefine_broker.api.test_access import ALICE, ROOT, codes, grant
from tests.unit.josefine_broker.api.test_share_groups import described, sharing
from tests.unit.josefine_broker.api.test_table import empty_request

FILES: dict[int, Any] = {
    apis.SHARE_GROUP_HEARTBEAT: share_group_heartbeat,
    apis.SHARE_GROUP_DESCRIBE: share_group_describe,
    apis.SHARE_FETCH: share_fetch,
    apis.SHARE_ACKNOWLEDGE: share_acknowledge,
    apis.INITIALIZE_SHARE_GROUP_STATE: initialize_share_group_state,
    apis.READ_SHARE_GROUP_STATE: read_share_group_state,
    apis.WRITE_SHARE_GROUP_STATE: write_share_group_state,
    apis.DELETE_SHARE_GROUP_STATE: delete_share_group_state,
    apis.READ_SHARE_GROUP_STATE_SUMMARY: read_share_group_state_summary,
    apis.DESCRIBE_SHARE_GROUP_OFFSETS: describe_share_group_offsets,
    apis.ALTER_SHARE_GROUP_OFFSETS: alter_share_group_offsets,
    apis.DELETE_SHARE_GROUP_OFFSETS: delete_share_group_offsets,
}


@pytest.mark.parametrize("key", FILES, ids=lambda key: apis.APIS[key].name)
def test_request_that_is_refused_has_the_error_wherever_it_has_a_place(key: int) -> None:
    request = empty_request(key, apis.APIS[key].max_version)
    answer = FILES[key].refuse(request, KafkaError(ErrorCode.cluster_authorization_failed))
    assert set(codes(answer)) <= {ErrorCode.cluster_authorization_failed}


def test_no_topic_has_the_id_of_zeros() -> None:
    assert share_key("g", None, 0) == ShareKey("g", NO_TOPIC, 0)


def test_coordinator_is_found_by_kafkas_name_of_a_share_partition() -> None:
    topic_id = UUID("00010203-0405-0607-0809-0a0b0c0d0e0f")
    assert coordinator_key(ShareKey("g", topic_id, 3)) == "g:AAECAwQFBgcICQoLDA0ODw:3"


class Store:
    """Takes the writes of share states. Mutable."""

    def __init__(self) -> None:
        self.outcome: Outcome | None = None
        """Why it refuses them; None: it does not."""
        self.refused_ms: list[int] = []
        """When it refused one."""

    def write(self, ctx: Context, key: ShareKey, state: ShareState, heard: Heard) -> None:
        if self.outcome is None:
            write_state(ctx, key, state, heard)
        else:
            self.refused_ms.append(ctx.clock.monotonic_ms())
            heard(self.outcome)


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Store:
    """The store of the broker's share states; it works until it gets an outcome."""
    store = Store()
    monkeypatch.setattr(share_partitions_host, "write_state", store.write)
    return store


def test_a_fetch_whose_wait_for_records_is_over_waits_for_its_answers_alone(store: Store) -> None:
    """It waited until both were given up: 25 s, of the 30 s that clients wait."""
    world, a = sharing(b"v0")
    a.fetch()
    store.outcome = UNKNOWN
    waiting = a.fetch((0, 0, ACCEPT), max_wait_ms=100)
    world.advance(100)
    assert not waiting.done
    store.outcome = None
    world.advance(RETRY_MS)
    assert ack_codes(waiting.response) == [ErrorCode.none]


@pytest.mark.parametrize("code", sorted(TRANSIENT))
def test_answers_wait_until_their_share_coordinator_is_back(code: ErrorCode, store: Store) -> None:
    world, a = sharing(b"v0", b"v1")
    b = Sharer(world, "b").join()
    a.fetch()
    store.outcome = Outcome(None, code)
    waiting = a.acknowledge((0, 0, ACCEPT))
    later = a.fetch((1, 1, RELEASE))
    world.advance(RETRY_MS)
    assert isinstance(waiting, Parked)
    assert isinstance(later, Parked)
    assert (waiting.done, later.done, got(b.fetch())) == (False, False, [])
    store.outcome = None
    world.advance(2 * RETRY_MS)
    assert set(codes(waiting.response)) == {ErrorCode.none}
    assert ack_codes(later.response) == [ErrorCode.none]
    assert got(later.response) == [(1, 1, 2)]


def test_repeated_write_that_arrives_late_lowers_no_delivery_count(
    monkeypatch: pytest.MonkeyPatch, store: Store
) -> None:
    """A write got no answer and was repeated, and arrives after newer ones. The next leader must
    know of all deliveries, or the record is delivered more often than its group allows."""
    world, a = sharing(b"v0")
    late: list[tuple[ShareKey, ShareState]] = []

    def lose(ctx: Context, key: ShareKey, state: ShareState, heard: Heard) -> None:
        late.append((key, state))
        heard(UNKNOWN)

    a.fetch()
    monkeypatch.setattr(share_partitions_host, "write_state", lose)
    waiting = a.acknowledge((0, 0, RELEASE))
    monkeypatch.setattr(share_partitions_host, "write_state", store.write)
    world.advance(RETRY_MS)
    assert isinstance(waiting, Parked)
    assert set(codes(waiting.response)) == {ErrorCode.none}
    assert got(a.fetch()) == [(0, 0, 2)]
    assert a.acknowledge((0, 0, RELEASE)) is ErrorCode.none

    heard_of: list[Outcome] = []
    ((key, state),) = late
    write_state(world.ctx, key, state, heard_of.append)
    assert [each.code for each in heard_of] == [ErrorCode.none]
    world.ctx.clients.shares.led.clear()  # the next leader
    assert got(a.fetch()) == [(0, 0, 3)]


def test_answers_that_cannot_be_stored_in_time_do_not_count(store: Store) -> None:
    world, a = sharing(b"v0")
    a.fetch()
    store.outcome = UNKNOWN
    waiting = a.acknowledge((0, 0, ACCEPT))
    assert isinstance(waiting, Parked)
    while not waiting.done:
        world.advance(RETRY_MS)
    assert ErrorCode.coordinator_not_available in set(codes(waiting.response))
    begun_ms = store.refused_ms[0]
    pauses = [0, 500, 1_500, 3_500, 5_500, 7_500, 9_500, 11_500, 13_500]
    assert [each - begun_ms for each in store.refused_ms] == pauses
    # It has the record yet, and may answer again.
    store.outcome = None
    world.advance(RETRY_MAX_MS)
    assert a.acknowledge((0, 0, ACCEPT)) is ErrorCode.none
    assert a.acknowledge((0, 0, ACCEPT)) is ErrorCode.none  # it is finished


def test_answers_of_a_write_that_no_repetition_helps_are_refused_at_once(store: Store) -> None:
    world, a = sharing(b"v0")
    a.fetch()
    store.outcome = Outcome(None, ErrorCode.message_too_large)
    assert a.acknowledge((0, 0, ACCEPT)) is ErrorCode.message_too_large
    store.outcome = None
    world.advance(RETRY_MS)
    assert a.acknowledge((0, 0, ACCEPT)) is ErrorCode.none


def test_answers_that_are_never_stored_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    world, a = sharing(b"v0", b"v1")
    a.fetch()
    monkeypatch.setattr(share_partitions_host, "write_state", lambda *_: None)
    waiting = a.acknowledge((0, 0, ACCEPT))
    fetching = a.fetch((1, 1, ACCEPT))
    assert isinstance(waiting, Parked)
    assert isinstance(fetching, Parked)
    world.advance(ACKNOWLEDGE_TIMEOUT_MS)
    assert list(codes(waiting.response)) == [ErrorCode.none, ErrorCode.request_timed_out]
    assert ack_codes(fetching.response) == [ErrorCode.request_timed_out]


def test_lost_members_stay_until_that_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    world, _ = sharing()

    def failing(*_: object) -> None:
        raise KafkaError(ErrorCode.coordinator_not_available)

    write = share_groups_host.write
    monkeypatch.setattr(share_groups_host, "write", failing)
    world.advance(46_000)
    assert described(world).group_state == "Stable"
    monkeypatch.setattr(share_groups_host, "write", write)
    world.advance(1_000)
    assert described(world).group_state == "Empty"


def test_states_are_what_they_were_when_they_are_loaded_again() -> None:
    world, a = sharing(b"v0", b"v1")
    a.fetch()
    a.acknowledge((1, 1, ACCEPT))
    ((topic_id, index),) = a.parts
    key = ShareKey(GROUP, topic_id, index)
    before = world.ctx.clients.shares.states.get(key)
    assert before is not None
    tp = partition_of(world.ctx, SHARE_STATE_TOPIC, coordinator_key(key))
    assert tp is not None
    begin_loading_share_states(world.ctx, tp, world.ctx.hosted.partitions[tp])
    assert world.ctx.clients.shares.states.get(key) is None
    waiting = a.acknowledge((0, 0, ACCEPT))
    assert isinstance(waiting, Parked)
    share_states_moved(world.ctx)
    world.advance(RETRY_MS)
    assert set(codes(waiting.response)) == {ErrorCode.none}
    after = world.ctx.clients.shares.states.get(key)
    assert after is not None
    assert (after.start_offset, after.batches) == (2, ())


def test_member_waits_while_the_states_are_loaded() -> None:
    world, a = sharing(b"v0")
    ((topic_id, index),) = a.parts
    key = ShareKey(GROUP, topic_id, index)
    tp = partition_of(world.ctx, SHARE_STATE_TOPIC, coordinator_key(key))
    assert tp is not None
    world.ctx.clients.shares.led.clear()
    begin_loading_share_states(world.ctx, tp, world.ctx.hosted.partitions[tp])
    waiting = a.fetch(max_wait_ms=2 * RETRY_MS)
    assert isinstance(waiting, Parked)
    share_states_moved(world.ctx)
    world.advance(2 * RETRY_MS)
    assert got(waiting.response) == [(0, 0, 1)]


def test_member_needs_rights_on_its_group_and_on_what_it_reads() -> None:
    world, a = sharing(b"v0")
    world.ctx.clients.authorizer = Authorizer(frozenset({ROOT}))
    a.principal = ALICE
    assert a.beat().error_code is ErrorCode.group_authorization_failed
    assert a.fetch().error_code is ErrorCode.group_authorization_failed
    assert a.acknowledge((0, 0, ACCEPT)) is ErrorCode.group_authorization_failed
    grant(world, (Operation.READ, ResourceType.GROUP), name=GROUP)
    assert a.beat().error_code is ErrorCode.none
    assert a.beat(0).error_code is ErrorCode.topic_authorization_failed
    refused = a.fetch()
    denied = {ErrorCode.topic_authorization_failed, ErrorCode.none}
    assert set(codes(refused)) == denied
    assert got(refused) == []
    grant(world, (Operation.READ, ResourceType.TOPIC), name="orders")
    assert got(a.fetch()) == [(0, 0, 1)]
    assert a.acknowledge((0, 0, ACCEPT)) is ErrorCode.none
    assert described_share_topics in RULES[apis.SHARE_GROUP_DESCRIBE]
