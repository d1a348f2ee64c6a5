"""Subscriptions: one holder per partition of a group, as durable as offsets, given up by time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from josefine_broker.base.errors import ErrorCode
from josefine_broker.base.ids import TopicPartition
from josefine_broker.text.subscriptions import HEARD_MAX, SubscriptionId, Subscriptions, parse_id
from tests.unit.josefine_broker.api import consumer_clients as consumer
from tests.unit.josefine_broker.api import group_clients as kafka
from tests.unit.josefine_broker.api.group_clients import group_world, stable
from tests.unit.josefine_broker.api.world import World
from tests.unit.josefine_broker.text.client import TextClient, client_of, front_of, message


def test_no_partition_has_two_holders_in_a_group_and_groups_are_apart() -> None:
    """Checklist row 46."""
    world = World()
    front = front_of(world)
    clients = [TextClient(front, world.advance) for _ in range(3)]
    clients[0].say("CRTP t 5")

    of_g = [id_ for each in clients for id_ in each.data("SUBS t g 2")]
    of_h = clients[0].data("SUBS t h 9")

    assert [parse_id(each).partition for each in of_g] == [0, 1, 2, 3, 4]  # type: ignore[union-attr]
    assert len(set(of_h)) == 5
    assert [clients[0].say("SUBS t g"), clients[0].say("SUBS t h")] == [
        "Failed to create subscription. All partitions are already assigned"
    ] * 2


def test_subscription_survives_a_restart_of_its_broker() -> None:
    """Checklist row 48: alone; rows of a killed broker are for the cluster's tests."""
    world = World()
    client = client_of(world)
    client.say("CRTP t 2")
    client.say(f"PUBS t {message('x')}")
    ids = client.data("SUBS t g 2")

    again = client_of(world.restart())

    assert again.say("SUBS t g").startswith("Failed to create subscription")
    assert [len(again.data(f"CONS t {each} 0")) for each in ids] == [1, 0]


def test_disc_gives_back_what_was_granted_on_its_connection_only() -> None:
    """Checklist rows 48 and 49."""
    world = World()
    front = front_of(world)
    one, other = TextClient(front), TextClient(front)
    one.say("CRTP t 3")
    one.data("SUBS t g 2")
    other.data("SUBS t g 1")

    assert one.say("DISC") == "Done"

    assert one.session.is_closed
    assert [parse_id(each).partition for each in other.data("SUBS t g 9")] == [0, 1]  # type: ignore[union-attr]


def test_connection_that_drops_keeps_its_subscriptions_until_they_time_out() -> None:
    """Checklist row 48."""
    world = World()
    front = front_of(world, session_timeout_ms=1_000)
    one = TextClient(front)
    one.say("CRTP t")
    (id_,) = one.data("SUBS t g")
    one.session.close()
    other = TextClient(front)

    world.advance(1_000)
    assert other.say("SUBS t g").startswith("Failed")
    assert other.data(f"CONS t {id_} 0") == []  # whoever has the id holds the subscription

    world.advance(1_000)
    assert other.say("SUBS t g").startswith("Failed")
    world.advance(1)
    assert other.say(f"CONS t {id_} 0") == (
        f"Error, there is no subscription '{id_}' any more: it timed out"
    )
    (new,) = other.data("SUBS t g")
    assert new != id_
    assert other.say(f"CONS t {id_} 0").startswith("Error, there is no subscription")


def test_reader_that_goes_on_is_remembered_by_the_next_coordinator_too() -> None:
    """What is heard is written three times a session."""
    world = World()
    client = client_of(world, session_timeout_ms=9_000)
    client.say("CRTP t")
    (id_,) = client.data("SUBS t g")
    for _ in range(10):
        world.advance(2_000)
        client.data(f"CONS t {id_} 0")

    committed = world.restart().ctx.clients.groups.coordinator.offsets.committed("g")[
        TopicPartition("t", 0)
    ]

    assert world.clock.now_ms() - committed.commit_time_ms < 4_000


def test_offset_of_the_reader_is_the_groups_committed_offset() -> None:
    world = World()
    client = client_of(world)
    client.say("CRTP t")
    for body in "abc":
        client.say(f"PUBS t {message(body)}")
    (id_,) = client.data("SUBS t g")
    world.advance(5_000)

    client.data(f"CONS t {id_} 2")

    groups = world.ctx.clients.groups.coordinator.offsets
    assert groups.committed("g")[TopicPartition("t", 0)].offset == 2
    client.say(f"UNSUBS t {id_}")
    client.data("SUBS t g")
    assert groups.committed("g")[TopicPartition("t", 0)].offset == 2


def test_connection_holds_a_bounded_number() -> None:
    client = client_of(World(), subscriptions_max=2)
    client.say("CRTP t 5")

    assert len(client.data("SUBS t g 5")) == 2
    assert client.say("SUBS t g") == (
        "Error, this connection holds 2 subscriptions, which is the limit"
    )
    client.say(f"UNSUBS t {next(iter(client.session._client.held))}")
    assert len(client.data("SUBS t g 5")) == 1


def test_group_with_members_is_left_to_them() -> None:
    world = group_world()
    stable(world)
    client = client_of(world)

    assert client.say("SUBS orders g") == (
        "Error, group 'g' has members, who are Kafka clients: use another"
    )


def test_subscriptions_are_a_group_of_their_own_type_that_no_kafka_member_joins() -> None:
    world = group_world()
    client = client_of(world)
    ids = client.data("SUBS orders g 2")

    assert kafka.listed(world, types_filter=("text",)) == [("g", "Stable")]
    assert kafka.listed(world, types_filter=("classic", "consumer")) == []
    shown = kafka.described(world)
    assert (shown.group_state, shown.protocol_type) == ("Stable", "text")
    assert [(each.member_id, each.member_assignment) for each in shown.members] == [
        (ids[0], b"orders-0"), (ids[1], b"orders-1"),
    ]  # fmt: skip

    inconsistent = ErrorCode.inconsistent_group_protocol
    assert kafka.said(kafka.join(world)).error_code is inconsistent
    assert consumer.beat(world).error_code is inconsistent
    assert kafka.commit(world, 7) is ErrorCode.unknown_member_id
    assert kafka.delete(world, "g") == {"g": ErrorCode.non_empty_group}
    assert len(client.data("SUBS orders g")) == 1

    for id_ in client.session._client.held.copy():
        assert client.say(f"UNSUBS orders {id_}") == "Done"
    assert kafka.listed(world, types_filter=("classic",)) == [("g", "Empty")]
    stable(world)
    assert client.say("SUBS orders g").startswith("Error, group 'g' has members")


def test_subscription_that_timed_out_can_still_be_given_back() -> None:
    """Else its group would be the text protocol's until the offset expires."""
    world = group_world()
    client = client_of(world)
    (id_,) = client.data("SUBS orders g")
    world.advance(10 * 60_000)
    assert client.say(f"CONS orders {id_} 0") == (
        f"Error, there is no subscription '{id_}' any more: it timed out"
    )

    assert client.say(f"UNSUBS orders {id_}") == "Done"
    stable(world)


def test_topic_made_anew_begins_without_subscriptions() -> None:
    world = World()
    client = client_of(world)
    client.say("CRTP t")
    (id_,) = client.data("SUBS t g")
    world.delete("t")
    client.say("CRTP t")

    assert client.say(f"CONS t {id_} 0").startswith("Error, there is no subscription")
    assert client.say("DISC") == "Done"


@given(st.text("ab.-_", min_size=1), st.integers(0, 999), st.integers(0, 2**32 - 1))
def test_id_names_its_group_and_partition(group: str, partition: int, number: int) -> None:
    id_ = SubscriptionId(group, partition, f"{number:08x}")

    assert parse_id(str(id_)) == id_


@pytest.mark.parametrize("text", ["", "-", "--", "g-0", "-0-12345678", "g-x-12345678", "g-0-1"])
def test_other_texts_are_no_ids(text: str) -> None:
    assert parse_id(text) is None


def test_memory_of_who_was_heard_is_bounded() -> None:
    subscriptions = Subscriptions(session_timeout_ms=10, started_ms=0)
    for number in range(HEARD_MAX):
        subscriptions.heard(str(number), number)

    subscriptions.heard("last", HEARD_MAX)

    assert len(subscriptions.heard_ms) == 11
