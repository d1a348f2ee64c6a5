"""A member of a group, against a coordinator that answers as scripted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.client import membership
from josefine_broker.client.consumer_protocol import (
    decode_assignment,
    encode_assignment,
    encode_subscription,
)
from josefine_broker.client.effects import Call
from josefine_broker.client.membership import Membership
from josefine_broker.wire import apis
from josefine_broker.wire import entities as e
from tests.unit.josefine_broker.client.driver import Driver, is_metadata, metadata

T0, T1, T2 = (TopicPartition("t", p) for p in range(3))


class Script:
    """Answers of one coordinator, in order; the topic has three partitions."""

    def __init__(self, *answers: Any) -> None:
        self.answers: Iterator[Any] = iter(answers)
        self.driver = Driver(self._answer)
        self.member = Membership("g", ("t",))

    def _answer(self, call: Call) -> Any:
        if is_metadata(call):
            return metadata({"t": [1, 1, 1]})
        if call.api_key == apis.FIND_COORDINATOR:
            found = e.find_coordinator.Coordinator(key="g", node_id=1, host="h", port=1)
            return e.find_coordinator.FindCoordinatorResponse(coordinators=(found,))
        return next(self.answers)

    def join(self) -> tuple[TopicPartition, ...]:
        return self.driver.run(lambda t, d: membership.join(self.driver.session, self.member, t, d))

    def heartbeat(self) -> bool:
        return self.driver.run(
            lambda t, d: membership.heartbeat(self.driver.session, self.member, t, d)
        )

    def commit(self) -> bool:
        return self.driver.run(
            lambda t, d: membership.commit(self.driver.session, self.member, {T0: 7}, t, d)
        )

    def sent(self, api_key: int) -> list[Any]:
        return [call.request for call in self.driver.calls if call.api_key == api_key]


def joined(member_id: str = "me", leader: str = "other", **fields: Any) -> Any:
    return e.join_group.JoinGroupResponse(
        generation_id=fields.pop("generation", 3),
        protocol_name="range",
        leader=leader,
        member_id=member_id,
        **fields,
    )


def refused(code: ErrorCode, member_id: str = "") -> Any:
    return e.join_group.JoinGroupResponse(error_code=code, member_id=member_id)


def synced(*partitions: TopicPartition, code: ErrorCode = ErrorCode.none) -> Any:
    assignment = b"" if code else encode_assignment(partitions)
    return e.sync_group.SyncGroupResponse(error_code=code, assignment=assignment)


def beat(code: ErrorCode = ErrorCode.none) -> Any:
    return e.heartbeat.HeartbeatResponse(error_code=code)


def committed(code: ErrorCode = ErrorCode.none) -> Any:
    part = e.offset_commit.OffsetCommitResponsePartition(partition_index=0, error_code=code)
    topic = e.offset_commit.OffsetCommitResponseTopic(name="t", partitions=(part,))
    return e.offset_commit.OffsetCommitResponse(topics=(topic,))


def test_newcomer_joins_with_the_id_that_it_is_told() -> None:
    script = Script(refused(ErrorCode.member_id_required, "me"), joined(), synced(T1))

    assert script.join() == (T1,)

    assert [each.member_id for each in script.sent(apis.JOIN_GROUP)] == ["", "me"]
    assert (script.member.member_id, script.member.generation) == ("me", 3)


def test_leader_assigns_for_every_member() -> None:
    members = tuple(
        e.join_group.JoinGroupResponseMember(member_id=m, metadata=encode_subscription(["t"]))
        for m in ("me", "you")
    )
    script = Script(joined(leader="me", members=members), synced(T0, T1))

    script.join()

    (sync,) = script.sent(apis.SYNC_GROUP)
    assert {a.member_id: decode_assignment(a.assignment) for a in sync.assignments} == {
        "me": (T0, T1),
        "you": (T2,),
    }


def test_leader_that_may_skip_the_assignment_brings_none() -> None:
    """KIP-814."""
    script = Script(joined(leader="me", skip_assignment=True), synced(T0))

    script.join()

    assert script.sent(apis.SYNC_GROUP)[0].assignments == ()


@pytest.mark.parametrize("code", sorted(membership.ENDED))
def test_generation_that_ends_before_its_assignment_is_joined_anew(code: ErrorCode) -> None:
    script = Script(joined(), synced(code=code), joined("me2", generation=4), synced(T2))

    assert script.join() == (T2,)

    second = script.sent(apis.JOIN_GROUP)[1]
    assert second.member_id == ("" if code is ErrorCode.unknown_member_id else "me")
    assert script.member.generation == 4


def test_refusal_of_the_group_is_one_sentence() -> None:
    script = Script(refused(ErrorCode.inconsistent_group_protocol))

    with pytest.raises(KafkaError) as raised:
        script.join()

    assert raised.value.message == "group 'g': inconsistent group protocol"


def test_member_that_is_called_to_join_may_still_commit_what_it_read() -> None:
    script = Script(
        joined(), synced(T0), beat(), beat(ErrorCode.rebalance_in_progress), committed()
    )
    script.join()

    assert script.heartbeat()
    assert not script.heartbeat()
    assert script.commit()

    (request,) = script.sent(apis.OFFSET_COMMIT)
    assert (request.member_id, request.generation_id_or_member_epoch) == ("me", 3)


@pytest.mark.parametrize("code", sorted(membership.ENDED))
def test_commit_of_a_generation_that_is_over_stores_nothing_and_says_so(code: ErrorCode) -> None:
    script = Script(joined(), synced(T0), committed(code))
    script.join()

    assert not script.commit()

    assert not script.member.is_of_a_generation


def test_commit_that_is_refused_for_another_reason_is_an_error() -> None:
    script = Script(joined(), synced(T0), committed(ErrorCode.offset_metadata_too_large))
    script.join()

    with pytest.raises(KafkaError, match="offset of t-0 for group 'g'"):
        script.commit()


def test_member_that_never_joined_leaves_without_a_word() -> None:
    script = Script()

    script.driver.run(lambda t, d: membership.leave(script.driver.session, script.member, t, d))

    assert script.driver.calls == []
