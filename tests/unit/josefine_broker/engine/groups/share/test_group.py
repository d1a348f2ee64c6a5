"""A share group without a broker: assignments, the replay of its records, and share sessions."""

from __future__ import annotations

from random import Random
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from josefine_broker.base.errors import CorruptData, ErrorCode, KafkaError
from josefine_broker.engine.groups.consumer.subscriptions import Topics
from josefine_broker.engine.groups.consumer.values import Part
from josefine_broker.engine.groups.share.assignor import assign
from josefine_broker.engine.groups.share.group import ShareBeat, ShareGroup
from josefine_broker.engine.groups.share.groups import ShareGroups
from josefine_broker.engine.groups.share.heartbeats import heartbeat
from josefine_broker.engine.groups.share.records import changes, is_share_key
from josefine_broker.engine.groups.share.replay import ShareReplay
from josefine_broker.engine.groups.share.sessions import SESSIONS_MAX, ShareSessions
from josefine_broker.engine.groups.share.states import ShareGroupState

A, B = UUID(int=1), UUID(int=2)
NO_LIMIT = 1_000


def topics(**counts: int) -> Topics:
    """Topics with so many partitions each."""
    ids = {"a": A, "b": B}
    entries: dict[str, Any] = {
        name: SimpleNamespace(topic_id=ids[name], partitions=(None,) * count)
        for name, count in counts.items()
    }
    return cast(Topics, entries)


def beat(member_id: str, epoch: int, *names: str) -> ShareBeat:
    return ShareBeat(member_id=member_id, epoch=epoch, topics=frozenset(names) or None)


def replayed(log: list[tuple[bytes, bytes | None]]) -> dict[str, ShareGroup]:
    replay = ShareReplay()
    for key, value in log:
        assert is_share_key(key)
        replay.take(key, value)
    return replay.groups()


@pytest.mark.parametrize("seed", range(40))
def test_every_partition_has_a_member_and_every_member_a_partition(seed: int) -> None:
    rng = Random(seed)
    counts = {A: rng.randint(1, 6), B: rng.randint(1, 6)}
    before: dict[str, Any] = {}
    for _ in range(5):
        reads = {
            f"m{n}": frozenset(rng.sample([A, B], rng.randint(1, 2)))
            for n in range(rng.randint(1, 8))
        }
        found = assign(reads, counts, before)
        assert found.keys() == reads.keys()
        for member_id, parts in found.items():
            assert parts
            assert {each.topic_id for each in parts} <= reads[member_id]
        for topic_id in frozenset().union(*reads.values()):
            for index in range(counts[topic_id]):
                assert any(Part(topic_id, index) in parts for parts in found.values())
        before = found


def test_partitions_stay_where_they_are() -> None:
    reads = {"m": frozenset({A}), "n": frozenset({A})}
    first = assign(reads, {A: 4}, {})
    assert assign(reads, {A: 4}, first) == first
    assert first["m"] < assign({"m": frozenset({A})}, {A: 4}, first)["m"]


@pytest.mark.parametrize("seed", range(40))
def test_replay_of_the_records_is_the_group(seed: int) -> None:
    rng = Random(seed)
    group: ShareGroup | None = None
    log: list[tuple[bytes, bytes | None]] = []
    known = topics(a=2)
    for _ in range(40):
        if rng.random() < 0.1:
            known = topics(a=rng.randint(1, 4), b=1)
        member_id = rng.choice("xyz")
        before = group or ShareGroup(group_id="g")
        member = before.members.get(member_id)
        epoch = rng.choice((0, -1, 0 if member is None else member.epoch))
        sent = beat(member_id, epoch, *(("a", "b")[: rng.randint(1, 2)] if epoch == 0 else ()))
        try:
            after, answer = heartbeat(before, sent, known, NO_LIMIT, is_news=True)
        except KafkaError as error:
            assert error.code is ErrorCode.unknown_member_id  # noqa: PT017
            continue
        log += changes(group, after)
        group = after
        assert replayed(log) == {"g": group}
        if epoch != -1:
            assert answer.epoch == group.epoch == group.target_epoch
            assert group.members[member_id].assigned == group.target[member_id]
    assert group is not None
    assert replayed(log + changes(group, None)) == {}


def test_member_gets_what_another_left() -> None:
    known = topics(a=2)
    group, _ = heartbeat(ShareGroup(group_id="g"), beat("x", 0, "a"), known, 9, is_news=True)
    group, _ = heartbeat(group, beat("y", 0, "a"), known, 9, is_news=True)
    group, told = heartbeat(group, beat("x", 1), known, 9, is_news=False)
    assert (told.epoch, told.parts) == (2, frozenset({Part(A, 0)}))
    # Its answer was lost: the epoch before is known, an older one is not.
    again, told = heartbeat(group, beat("x", 1), known, 9, is_news=False)
    assert (again, told.parts) == (group, frozenset({Part(A, 0)}))
    group, _ = heartbeat(group, beat("y", -1), known, 9, is_news=False)
    group, told = heartbeat(group, beat("x", 2), known, 9, is_news=False)
    assert told.parts == frozenset({Part(A, 0), Part(A, 1)})
    with pytest.raises(KafkaError) as refused:
        heartbeat(group, beat("x", 1), known, 9, is_news=False)
    assert refused.value.code is ErrorCode.fenced_member_epoch
    with pytest.raises(KafkaError) as full:
        heartbeat(group, beat("z", 0, "a"), known, 1, is_news=False)
    assert full.value.code is ErrorCode.group_max_size_reached


def test_damaged_records_are_refused() -> None:
    group, _ = heartbeat(ShareGroup(group_id="g"), beat("x", 0, "a"), topics(a=2), 9, is_news=True)
    for key, value in changes(None, group):
        assert value is not None
        for bad in (value[:1], b"\0\x09" + value[2:]):
            with pytest.raises(CorruptData):
                ShareReplay().take(key, bad)


def test_members_are_late_after_their_session() -> None:
    groups = ShareGroups(session_timeout_ms=100, size_max=NO_LIMIT)
    known = topics(a=1)
    after, _ = groups.beat("g", beat("x", 0, "a"), known)
    groups.keep(after, 0)
    groups.beaten("g", "x", known, 50)
    assert groups.late(100) == []
    assert groups.wake_at_ms() == 150
    ((group, lost),) = groups.late(150)
    groups.keep(group.without(lost), 150)
    found = groups.get("g")
    assert found is not None
    assert found.state is ShareGroupState.EMPTY
    assert groups.late(10_000) == []


def test_idle_sessions_make_room() -> None:
    sessions = ShareSessions(idle_ms=100)
    for number in range(SESSIONS_MAX):
        sessions.open("g", f"m{number}", 0)
    with pytest.raises(KafkaError) as full:
        sessions.open("g", "one more", 100)
    assert full.value.code is ErrorCode.share_session_limit_reached
    session = sessions.open("g", "one more", 101)
    assert len(sessions) == 1
    session.changed([(A, 0), (A, 1)], [])
    session.rotated((A, 0))
    assert list(session.parts) == [(A, 1), (A, 0)]
    assert sessions.is_open(session)
