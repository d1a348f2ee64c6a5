"""JoinGroup, SyncGroup, Heartbeat, LeaveGroup, and commits of members, through the handlers."""

from __future__ import annotations

from typing import Any

import pytest

from josefine_broker.base.errors import ErrorCode
from josefine_broker.engine.purgatory.purgatory import Parked
from josefine_broker.wire import apis
from josefine_broker.wire.entities import join_group
from tests.support.fixtures import fixture_of
from tests.unit.josefine_broker.api.group_clients import (
    REBALANCE_MS,
    SESSION_MS,
    SUBSCRIPTION,
    beat,
    commit,
    committed,
    described,
    group_world,
    join,
    leave,
    newcomer,
    said,
    stable,
    sync,
)
from tests.unit.josefine_broker.api.world import World

world = fixture_of(group_world)


def test_two_members_share_a_group(world: World) -> None:
    """Checklist rows 23 and 25."""
    first = stable(world)
    second = newcomer(world)
    assert isinstance(second, Parked)
    assert not second.done
    assert beat(world, first) is ErrorCode.rebalance_in_progress

    leader, follower = said(join(world, first.member_id)), said(second)

    assert leader.generation_id == follower.generation_id == 2
    assert leader.leader == leader.member_id == first.member_id
    assert {each.member_id for each in leader.members} == {leader.member_id, follower.member_id}
    assert {each.metadata for each in leader.members} == {SUBSCRIPTION}
    assert follower.members == ()
    waiting = sync(world, follower)
    assert not waiting.done
    given = {leader.member_id: b"0", follower.member_id: b"1"}
    assert said(sync(world, leader, given)).assignment == b"0"
    assert said(waiting).assignment == b"1"
    assert beat(world, leader) is beat(world, follower) is ErrorCode.none


def test_first_member_waits_for_others_as_long_as_is_configured() -> None:
    world = group_world(initial_rebalance_delay_ms=3_000)

    waiting = newcomer(world)
    world.advance(2_999)
    assert not waiting.done
    other = newcomer(world)
    world.advance(1)
    assert not waiting.done  # each newcomer lengthens it
    world.advance(3_000)

    assert said(waiting).generation_id == said(other).generation_id == 1


@pytest.mark.parametrize("version", range(10))
def test_newcomer_joins_in_every_version(world: World, version: int) -> None:
    """Since 4 it is told its id first (KIP-394)."""
    answer = join(world, version=version)
    if version >= 4:
        assert answer.error_code is ErrorCode.member_id_required
        answer = join(world, answer.member_id, version=version)

    joined = said(answer)
    assert (joined.error_code, joined.generation_id) == (ErrorCode.none, 1)
    assert joined.leader == joined.member_id
    assert joined.member_id.startswith("c-")


def test_oldest_join_has_its_sessions_time_to_rebalance(world: World) -> None:
    first = said(join(world, version=0, session_ms=7_000))
    sync(world, first, {first.member_id: b"all"}, version=0)
    other = newcomer(world, rebalance_ms=1_000)

    world.advance(6_999)
    assert not other.done
    world.advance(1)

    assert said(other).generation_id == 2


def test_group_without_a_name_is_refused(world: World) -> None:
    assert join(world, group="").error_code is ErrorCode.invalid_group_id


def test_before_anybody_asked_for_a_coordinator_there_is_none() -> None:
    assert join(World()).error_code is ErrorCode.not_coordinator


@pytest.mark.parametrize(
    ("session_ms", "is_fine"), [(5_999, False), (6_000, True), (60_001, False)]
)
def test_session_timeout_is_within_the_bounds_of_the_configuration(
    session_ms: int, is_fine: bool
) -> None:
    world = group_world(session_timeout_max_ms=60_000)

    code = join(world, session_ms=session_ms).error_code

    assert code is (ErrorCode.member_id_required if is_fine else ErrorCode.invalid_session_timeout)


def test_group_takes_as_many_members_as_is_configured() -> None:
    world = group_world(size_max=1)
    stable(world)

    assert join(world).error_code is ErrorCode.group_max_size_reached


def test_member_that_is_silent_for_its_session_is_out(world: World) -> None:
    joined = stable(world)
    world.advance(SESSION_MS - 1)
    assert beat(world, joined) is ErrorCode.none
    assert commit(world, 5, joined) is ErrorCode.none

    world.advance(SESSION_MS)

    assert beat(world, joined) is ErrorCode.unknown_member_id
    assert commit(world, 6, joined) is ErrorCode.unknown_member_id
    assert described(world).group_state == "Empty"
    assert committed(world) == {"orders": 5}


def test_member_that_does_not_join_again_in_time_is_left_behind(world: World) -> None:
    first = stable(world)
    second = newcomer(world)
    for _ in range(REBALANCE_MS // 5_000 - 1):
        world.advance(5_000)
        beat(world, first)
    assert not second.done

    world.advance(5_000)

    assert said(second).leader == said(second).member_id
    assert beat(world, first) is ErrorCode.unknown_member_id


def test_who_leaves_is_missed_at_once(world: World) -> None:
    first = stable(world)

    answer = leave(world, (first.member_id, None), ("nobody", None))

    assert [each.error_code for each in answer.members] == [
        ErrorCode.none,
        ErrorCode.unknown_member_id,
    ]
    assert beat(world, first) is ErrorCode.unknown_member_id
    assert described(world).group_state == "Empty"


def test_static_member_comes_back_as_it_was_and_its_former_process_is_fenced(
    world: World,
) -> None:
    """KIP-345: no rebalance, and the former process commits nothing."""
    before = stable(world, instance_id="i")

    after = said(join(world, instance_id="i"))

    assert after.error_code is ErrorCode.none
    assert after.generation_id == before.generation_id
    assert after.skip_assignment  # KIP-814
    assert said(sync(world, after, group_instance_id="i")).assignment == b"all"
    fenced = ErrorCode.fenced_instance_id
    assert beat(world, before, group_instance_id="i") is fenced
    assert commit(world, 5, before, group_instance_id="i") is fenced
    assert commit(world, 6, after, group_instance_id="i") is ErrorCode.none
    assert committed(world) == {"orders": 6}


def test_static_member_is_taken_out_by_its_instance(world: World) -> None:
    stable(world, instance_id="i")

    (gone,) = leave(world, ("", "i")).members

    assert (gone.error_code, gone.group_instance_id) == (ErrorCode.none, "i")
    assert described(world).members == ()


def test_cooperative_members_keep_their_generation_until_all_have_joined_again(
    world: World,
) -> None:
    """KIP-429: a member that is called goes on, and commits, before it joins again."""
    first = stable(world, protocols=("cooperative-sticky",))
    second = newcomer(world, protocols=("cooperative-sticky", "range"))

    assert commit(world, 5, first) is ErrorCode.none
    leader = said(join(world, first.member_id, protocols=("cooperative-sticky",)))

    assert leader.protocol_name == said(second).protocol_name == "cooperative-sticky"
    assert commit(world, 6, first) is ErrorCode.illegal_generation
    assert commit(world, 6, leader) is ErrorCode.rebalance_in_progress


def test_member_that_understands_none_of_the_others_protocols_is_refused(world: World) -> None:
    stable(world, protocols=("range",))

    for wrong in ({"protocols": ("roundrobin",)}, {"protocols": ()}, {"protocol_type": "connect"}):
        assert join(world, **wrong).error_code is ErrorCode.inconsistent_group_protocol  # type: ignore[arg-type]


def test_sync_names_its_protocol_since_version_5(world: World) -> None:
    joined = stable(world)

    for version, code in (
        (4, ErrorCode.none),
        (5, ErrorCode.inconsistent_group_protocol),
    ):
        answer = sync(world, joined, version=version, protocol_name=None)
        assert said(answer).error_code is code
    nameless = sync(world, joined, group="", version=5, protocol_name=None)
    assert said(nameless).error_code is ErrorCode.inconsistent_group_protocol, "as in Kafka"


def test_simple_consumer_commits_only_while_the_group_has_no_members(world: World) -> None:
    assert commit(world, 5) is ErrorCode.none
    joined = stable(world)

    assert commit(world, 6) is ErrorCode.unknown_member_id
    leave(world, (joined.member_id, None))

    assert commit(world, 7) is ErrorCode.none
    assert committed(world) == {"orders": 7}


def test_commit_of_another_generation_is_refused(world: World) -> None:
    joined = stable(world)

    for generation in (joined.generation_id - 1, joined.generation_id + 1):
        code = commit(world, 5, joined, generation_id_or_member_epoch=generation)
        assert code is ErrorCode.illegal_generation
    assert committed(world) == {}


def test_group_goes_on_where_it_was_behind_a_restart(world: World) -> None:
    """Checklist row 23: members, generation, assignment and offsets are in the log."""
    joined = stable(world)
    commit(world, 5, joined)

    again = world.restart()

    assert beat(again, joined) is ErrorCode.none
    assert said(sync(again, joined)).assignment == b"all"
    assert commit(again, 6, joined) is ErrorCode.none
    assert committed(again) == {"orders": 6}
    again.advance(SESSION_MS)
    assert beat(again, joined) is ErrorCode.unknown_member_id


def test_assignment_that_cannot_be_written_is_not_told(world: World) -> None:
    joined = said(newcomer(world))
    world.files.space_bytes = 0

    answer = said(sync(world, joined, {joined.member_id: b"all"}))

    assert (answer.error_code, answer.assignment) == (ErrorCode.coordinator_not_available, b"")
    world.files.space_bytes = None
    joined = said(join(world, joined.member_id))
    assert said(sync(world, joined, {joined.member_id: b"all"})).assignment == b"all"


def test_who_waits_is_sent_away_by_a_broker_that_stops() -> None:
    """As `host/net/connection.py` does when it drains: nobody holds up a stop."""
    world = group_world(initial_rebalance_delay_ms=3_000)
    waiting = newcomer(world)
    assert waiting.is_cut_short

    world.ctx.parked.forget(waiting)
    waiting.expire(world.clock.monotonic_ms())

    assert said(waiting).error_code is ErrorCode.not_coordinator
    world.advance(3_000)  # its group goes on without an answer to give


def test_client_that_is_gone_is_answered_nothing(world: World) -> None:
    first = stable(world)
    waiting = newcomer(world)
    world.ctx.parked.cancel(waiting)

    assert said(join(world, first.member_id)).generation_id == 2

    assert not waiting.done


def test_all_joins_are_decided_before_the_request_that_follows_the_first_answer() -> None:
    """An answer lets a connection serve its next request, here the leader's sync."""
    world = group_world(initial_rebalance_delay_ms=3_000)
    first, second = newcomer(world), newcomer(world)
    told: list[Any] = []
    syncs: list[Any] = []

    def sync_at_once(parked: Parked) -> None:
        joined = said(parked)
        told.append((joined.member_id, second.done))
        syncs.append(sync(world, joined, {joined.member_id: b"all"}))

    first.on_done = sync_at_once
    second.on_done = lambda parked: told.append(said(parked).member_id)
    world.advance(3_000)
    world.advance(3_000)

    leader, follower = said(first), said(second)
    assert told == [(leader.member_id, True), follower.member_id]
    assert said(syncs[0]).assignment == b"all"


def test_group_that_is_too_large_to_be_stored_is_told_so(world: World) -> None:
    """As Kafka: no client asks again for ever."""
    joined = said(newcomer(world))

    answer = said(sync(world, joined, {joined.member_id: bytes(2_000_000)}))

    assert answer.error_code is ErrorCode.unknown_server_error


def test_member_tells_where_it_comes_from(world: World) -> None:
    stable(world, client_id="name")

    (member,) = described(world).members

    assert (member.client_id, member.client_host) == ("name", "/127.0.0.1")


def test_refused_join_keeps_the_members_id(world: World) -> None:
    answer = join(world, "who")

    assert (answer.error_code, answer.member_id) == (ErrorCode.unknown_member_id, "who")
    request = join_group.JoinGroupRequest(
        group_id="", session_timeout_ms=1, member_id="who", protocol_type="", protocols=()
    )
    assert world.ask(apis.JOIN_GROUP, request).member_id == "who"
