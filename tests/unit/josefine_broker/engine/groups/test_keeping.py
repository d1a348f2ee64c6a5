"""What outlives a coordinator, how a group's record looks, and when groups and offsets go."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from josefine_broker.base.errors import CorruptData, ErrorCode
from josefine_broker.base.ids import TopicPartition
from josefine_broker.engine.groups.offsets import CommittedOffset
from josefine_broker.engine.groups.protocols import subscribed_topics
from josefine_broker.engine.groups.records import (
    decode_key,
    decode_value,
    encode_key,
    encode_value,
    is_group_key,
)
from josefine_broker.engine.groups.states import MemberState
from josefine_broker.engine.groups.values import GroupRecord, GroupSettings, Member, Protocol
from tests.unit.josefine_broker.engine.groups.lab import GROUP, OK, SESSION_MS, WALL_MS, Lab

RETENTION_MS = 100_000
TP = TopicPartition("orders", 0)
SUBSCRIBED = Protocol("range", bytes.fromhex("0001 00000001 0006") + b"orders" + b"\0\0\0\0")

_TEXT = st.text(max_size=8)
members = st.builds(
    Member,
    member_id=_TEXT,
    instance_id=st.none() | _TEXT,
    client_id=_TEXT,
    client_host=_TEXT,
    session_timeout_ms=st.integers(0, 2**31 - 1),
    rebalance_timeout_ms=st.integers(-1, 2**31 - 1),
    protocols=st.binary(max_size=9).map(lambda metadata: (Protocol("p", metadata),)),
    assignment=st.binary(max_size=9),
    state=st.just(MemberState.ASSIGNED),
)
records = st.builds(
    GroupRecord,
    generation=st.integers(0, 2**31 - 1),
    protocol_type=_TEXT,
    protocol_name=st.just("p"),
    leader_id=st.none() | _TEXT,
    members=st.lists(members, max_size=3).map(tuple),
)


@given(_TEXT, records, st.integers(-1, 2**50))
def test_key_and_value_survive_their_bytes(
    group_id: str, record: GroupRecord, stamped_ms: int
) -> None:
    assert decode_key(encode_key(group_id)) == group_id
    assert decode_value(encode_value(record, stamped_ms)) == (record, stamped_ms)


def test_bytes_are_kafkas() -> None:
    """GroupMetadataKey v2 and GroupMetadataValue v3, field by field as their schema has them."""
    member = Member(
        member_id="m",
        instance_id=None,
        client_id="c",
        client_host="/h",
        session_timeout_ms=3,
        rebalance_timeout_ms=4,
        protocols=(Protocol("other", b"x"), Protocol("r", b"s")),
        assignment=b"ab",
    )
    record = GroupRecord(
        generation=7, protocol_type="t", protocol_name="r", leader_id="m", members=(member,)
    )

    assert encode_key("g").hex(" ") == "00 02 00 01 67"
    assert encode_value(record, 9).hex() == "".join(
        [
            "0003" + "000174" + "00000007" + "000172" + "00016d" + "0000000000000009",
            "00000001" + "00016d" + "ffff" + "000163" + "00022f68" + "00000004" + "00000003",
            "00000001" + "73" + "00000002" + "6162",
        ]
    )


def test_older_versions_are_read() -> None:
    """What an upgraded cluster of Kafka's would bring along."""
    head = "000174" + "00000007" + "000172" + "00016d"
    rest = "00000003" + "00000001" + "73" + "00000002" + "6162"
    values = [
        "0000" + head + "00000001" + "00016d" + "000163" + "000168" + rest,
        "0001" + head + "00000001" + "00016d" + "000163" + "000168" + "00000004" + rest,
        "0002" + head + "0000000000000009" + "00000001" + "00016d000163000168" + "00000004" + rest,
    ]

    found = [decode_value(bytes.fromhex(value)) for value in values]

    assert [each.stamped_ms for each in found] == [-1, -1, 9]
    assert [each.record.members[0].rebalance_timeout_ms for each in found] == [3, 4, 4]
    assert {each.record.members[0].assignment for each in found} == {b"ab"}


def test_a_later_version_is_not_guessed_at() -> None:
    with pytest.raises(CorruptData, match="version 4"):
        decode_value(bytes.fromhex("0004"))


@given(st.binary(max_size=60))
def test_damaged_bytes_are_corrupt_or_read(data: bytes) -> None:
    for decode in (decode_key, decode_value):
        try:
            decode(b"\0\3" + data)
        except CorruptData:
            continue


def test_keys_of_offsets_are_no_groups() -> None:
    assert is_group_key(encode_key("g"))
    assert not any(map(is_group_key, (None, b"", b"\0", b"\0\1\0\1g")))


def test_members_go_on_with_the_next_coordinator() -> None:
    lab = Lab()
    told = lab.stable({}, {"instance_id": "two"})

    other = lab.fail_over()

    assert other.state == "Stable"
    first, second = (each.member_id for each in told)
    assert other.heartbeat(first, 1) is other.heartbeat(second, 1, "two") is OK
    assert other.commit(first, 1) is OK
    assert other.synced(other.sync(second, 1, instance_id="two")).assignment == b"p1"
    # The leader is who it was, and only its join is a rebalance.
    assert other.joined(other.join(second, instance_id="two")).leader_id == first
    other.join(first)
    assert other.joined(other.join(second, instance_id="two")).generation == 2


def test_members_have_a_session_to_find_the_next_coordinator() -> None:
    lab = Lab()
    lab.stable({}, {})
    lab.advance(SESSION_MS - 1)

    other = lab.fail_over()
    other.advance(SESSION_MS - 1)
    assert len(other.members) == 2
    other.advance(1)

    assert other.state == "Empty"


def test_who_waits_is_sent_to_the_next_coordinator() -> None:
    lab = Lab()
    joining = lab.join()
    lab.fail_over()
    syncing_lab = Lab()
    _, follower = syncing_lab.join_all({}, {})
    syncing = syncing_lab.sync(follower.member_id, 1)
    syncing_lab.fail_over()

    assert lab.joined(joining).error is ErrorCode.not_coordinator
    assert syncing_lab.synced(syncing).error is ErrorCode.not_coordinator


def test_an_assignment_that_was_not_stored_is_not_taken_over() -> None:
    lab = Lab()
    (first,) = lab.stable({})
    lab.keeps = False
    lab.join()
    lab.join(first.member_id)
    lab.sync(first.member_id, 2, {first.member_id: b"second"})

    other = lab.fail_over()

    assert other.heartbeat(first.member_id, 2) is ErrorCode.illegal_generation
    assert other.synced(other.sync(first.member_id, 1)).assignment == b"p0"


def test_what_becomes_of_a_record_is_nothing_to_a_later_group() -> None:
    lab = Lab(keeps=False)
    (first,) = lab.join_all({})
    lab.sync(first.member_id, 1, {})
    late = lab.open
    lab.coordinator.unload(lambda group_id: True)
    lab.open = []
    lab.work()
    (again,) = lab.join_all({})
    ticket = lab.sync(again.member_id, 1, {})

    lab.settle_one(late[0], OK)
    lab.work()

    assert ticket not in lab.answers
    assert lab.state == "CompletingRebalance"


def test_groups_of_other_partitions_stay() -> None:
    lab = Lab()
    lab.stable({})
    lab.join(group="other")
    lab.coordinator.offsets.store("simple", TP, CommittedOffset(5, -1, "", 0))

    lab.coordinator.unload(lambda group_id: group_id != GROUP)

    assert [view.group_id for view in lab.coordinator.views()] == [GROUP]


def test_only_a_group_without_members_is_deleted() -> None:
    lab = Lab()
    (member,) = lab.stable({})
    coordinator = lab.coordinator
    coordinator.offsets.store("simple", TP, CommittedOffset(5, -1, "", 0))
    assert coordinator.may_delete(GROUP) is ErrorCode.non_empty_group
    assert coordinator.may_delete("simple") is OK
    assert coordinator.may_delete("nobody") is ErrorCode.group_id_not_found
    lab.leave(member.member_id)
    assert coordinator.may_delete(GROUP) is OK

    coordinator.delete(GROUP)

    assert lab.state == "none"
    assert lab.joined(lab.join(member.member_id)).error is ErrorCode.unknown_member_id


def test_views_are_of_all_groups_with_state_and_members() -> None:
    lab = Lab()
    lab.stable({}, {})
    lab.coordinator.offsets.store("a simple one", TP, CommittedOffset(5, -1, "", 0))

    simple, group = lab.coordinator.views()

    assert (simple.state.value, simple.protocol_type, simple.members) == ("Empty", "", ())
    assert (group.state.value, group.protocol_type, group.protocol_name) == (
        "Stable",
        "consumer",
        "range",
    )
    assert [each.assignment for each in group.members] == [b"p0", b"p1"]


def kept(lab: Lab, at_ms: int) -> list[str]:
    """Topics whose offsets are not expired at that time after WALL_MS."""
    committed = lab.coordinator.offsets.committed(GROUP)
    gone = lab.coordinator.expired(GROUP, WALL_MS + at_ms)
    return sorted({tp.topic for tp in committed} - {tp.topic for tp in gone})


def committed_at(lab: Lab, ms: int, *topics: str, expire_ms: int = -1) -> None:
    expires = -1 if expire_ms < 0 else WALL_MS + expire_ms
    for topic in topics:
        committed = CommittedOffset(5, -1, "", WALL_MS + ms, expires)
        lab.coordinator.offsets.store(GROUP, TopicPartition(topic, 0), committed)


@pytest.fixture
def lab() -> Lab:
    return Lab(GroupSettings(offsets_retention_ms=RETENTION_MS, initial_rebalance_delay_ms=0))


def test_offsets_of_a_simple_consumer_are_kept_from_its_last_commit(lab: Lab) -> None:
    committed_at(lab, 0, "early")
    committed_at(lab, 50, "late")

    assert kept(lab, RETENTION_MS - 1) == ["early", "late"]
    assert kept(lab, RETENTION_MS) == ["late"]
    assert kept(lab, RETENTION_MS + 50) == []


def test_offsets_of_a_group_are_kept_from_when_it_became_empty(lab: Lab) -> None:
    (member,) = lab.stable({})
    committed_at(lab, 0, "early")
    lab.advance(1000)
    lab.leave(member.member_id)
    old_ms = lab.now_ms + RETENTION_MS

    for fails_over in (False, True):
        each = lab.fail_over_with_offsets() if fails_over else lab
        assert kept(each, old_ms - 1) == ["early"]
        assert kept(each, old_ms) == []


def test_a_commit_into_a_group_long_empty_is_not_old_at_once(lab: Lab) -> None:
    (member,) = lab.stable({})
    lab.leave(member.member_id)

    committed_at(lab, RETENTION_MS, "late")

    assert kept(lab, RETENTION_MS + 5) == ["late"]


def test_of_a_group_with_members_go_the_topics_that_none_of_them_reads(lab: Lab) -> None:
    (member,) = lab.stable({"protocols": (SUBSCRIBED,)})
    committed_at(lab, 0, "orders", "former")

    assert kept(lab, RETENTION_MS - 1) == ["former", "orders"]
    assert kept(lab, RETENTION_MS) == ["orders"]
    lab.join(takes_id_first=True)
    lab.join(member.member_id, protocols=(SUBSCRIBED,))
    assert lab.state == "PreparingRebalance"
    assert kept(lab, RETENTION_MS) == ["former", "orders"]


def test_nothing_goes_where_what_members_read_is_not_to_be_understood(lab: Lab) -> None:
    lab.stable({"protocols": (Protocol("range", b"no subscription"),)})
    committed_at(lab, 0, "orders")

    assert kept(lab, RETENTION_MS) == ["orders"]


def test_an_offset_may_say_itself_when_it_is_old(lab: Lab) -> None:
    committed_at(lab, 0, "short", expire_ms=10)
    committed_at(lab, 0, "long", expire_ms=2 * RETENTION_MS)

    assert kept(lab, 9) == ["long", "short"]
    assert kept(lab, 10) == ["long"]
    assert kept(lab, RETENTION_MS) == ["long"]


def test_an_empty_group_goes_with_its_last_offset(lab: Lab) -> None:
    (member,) = lab.stable({})
    committed_at(lab, 0, "a")
    tps = list(lab.coordinator.offsets.committed(GROUP))
    assert not lab.coordinator.is_forgotten(GROUP, tps)
    lab.leave(member.member_id)

    assert lab.coordinator.is_forgotten(GROUP, tps)
    assert not lab.coordinator.is_forgotten(GROUP, [])


def test_offsets_of_topics_that_members_read_are_not_deleted(lab: Lab) -> None:
    coordinator = lab.coordinator
    assert coordinator.may_delete_offsets(GROUP) is ErrorCode.group_id_not_found
    lab.stable({"protocols": (SUBSCRIBED,)})

    assert coordinator.may_delete_offsets(GROUP) is OK
    assert coordinator.is_subscribed(GROUP, "orders")
    assert not coordinator.is_subscribed(GROUP, "former")


def test_offsets_of_a_group_that_is_not_of_consumers_are_deleted_when_it_is_empty(lab: Lab) -> None:
    (member,) = lab.stable({"protocol_type": "connect"})
    assert lab.coordinator.may_delete_offsets(GROUP) is ErrorCode.non_empty_group

    lab.leave(member.member_id)

    assert lab.coordinator.may_delete_offsets(GROUP) is OK
    assert not lab.coordinator.is_subscribed(GROUP, "orders")


@given(st.binary(max_size=40))
def test_what_is_no_subscription_is_nothing(metadata: bytes) -> None:
    found = subscribed_topics(metadata)

    assert found is None or all(topic.encode() in metadata for topic in found)
