"""Committed offsets expire after the retention, counted from when they were last needed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from josefine_broker.base.ids import TopicPartition
from josefine_broker.engine.groups.offsets import CommittedOffset
from josefine_broker.engine.groups.retention import expired, old
from josefine_broker.engine.groups.states import GroupState

A, B = TopicPartition("a", 0), TopicPartition("b", 0)
DAY = 1_000


def committed(at: int, **more: int) -> CommittedOffset:
    return CommittedOffset(5, -1, "", at, **more)


def group(state: GroupState = GroupState.EMPTY, **more: Any) -> Any:
    fields = {"state": state, "writes": (), "empty_since_ms": None, "protocol_type": None,
              "protocol_name": None, "members": {}}  # fmt: skip
    return SimpleNamespace(**{**fields, **more})


@pytest.mark.parametrize(
    ("at", "since", "now", "is_old"),
    [
        (100, -1, 100 + DAY - 1, False),
        (100, -1, 100 + DAY, True),
        (100, 500, 100 + DAY, False),
        (100, 500, 500 + DAY, True),
        (900, 500, 900 + DAY - 1, False),
    ],
)
def test_the_later_of_commit_and_last_member_counts(at, since, now, is_old) -> None:
    assert old({A: committed(at)}, DAY, now, since) == ([A] if is_old else [])


def test_an_expiration_of_its_own_counts_alone() -> None:
    offsets = {A: committed(100, expire_ms=150), B: committed(100, expire_ms=99_999)}

    assert old(offsets, DAY, 149) == []
    assert old(offsets, DAY, 150) == [A]
    assert old(offsets, DAY, 90_000, since_ms=89_999) == [A]


def test_nothing_expires_while_a_change_is_stored_or_the_group_rebalances() -> None:
    offsets = {A: committed(0)}

    assert expired(group(), offsets, DAY, DAY) == [A]
    assert expired(group(writes=("x",)), offsets, DAY, DAY) == []
    assert expired(group(GroupState.PREPARING_REBALANCE), offsets, DAY, DAY) == []


def test_of_members_whose_topics_are_unknown_nothing_expires() -> None:
    offsets = {A: committed(0)}
    of_connect = group(GroupState.STABLE, protocol_type="connect", protocol_name="x")

    assert expired(of_connect, offsets, DAY, DAY) == []


def test_of_a_group_with_members_only_topics_that_nobody_reads_expire() -> None:
    subscription = b"\0\0" + b"\0\0\0\1" + b"\0\1a" + b"\xff\xff\xff\xff"
    member = SimpleNamespace(metadata=lambda name: subscription)
    reading = group(GroupState.STABLE, protocol_type="consumer", protocol_name="range",
                    members={"m": member})  # fmt: skip

    assert expired(reading, {A: committed(0), B: committed(0)}, DAY, DAY) == [B]
    member.metadata = lambda name: b"\0"
    assert expired(reading, {B: committed(0)}, DAY, DAY) == []
