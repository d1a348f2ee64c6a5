"""librdkafka's consumers by the consumer protocol (KIP-848), on one broker and on three.

Every wait is for a condition with a deadline, and what passes by itself is never asserted.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest
from confluent_kafka import ConsumerGroupType
from confluent_kafka.admin import AdminClient

from josefine_broker.client import group_admin
from josefine_broker.client.io_blocking import BlockingClient, NewTopic
from josefine_broker.engine.groups.offsets import coordinator_partition
from tests.compat.brokers import Broker, one
from tests.compat.consumers import Librdkafka, LibrdkafkaByHeartbeats, Subscribe
from tests.compat.foreign import FOREIGN
from tests.compat.test_groups import (
    OFFSETS_TOPIC,
    PARTITIONS,
    commits,
    make_topic,
    poll_until,
    produce,
    share,
    values,
)
from tests.support.cluster import REPLICATED, Cluster
from tests.support.fixtures import cluster_fixture

pytestmark = pytest.mark.timeout(400)
SOON = {
    "group__consumer_heartbeat_interval_ms": 300,
    "group__consumer_migration_policy": "bidirectional",
}
"""Steps are taken in heartbeats: here none is to be waited for long."""


@pytest.fixture(scope="module")
def one_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with one(tmp_path_factory.mktemp("heartbeats"), **SOON) as process:
        yield process


cluster = cluster_fixture(**SOON, **REPLICATED)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def member(stack: ExitStack, bootstrap: str, topic: str, **fields: str) -> LibrdkafkaByHeartbeats:
    """Of the group that is called as the topic is."""
    group = fields.pop("group", topic)
    return stack.enter_context(closing(LibrdkafkaByHeartbeats(bootstrap, group, topic, **fields)))


def test_members_share_and_who_is_left_has_them_all(one_broker: Broker, stack: ExitStack) -> None:
    bootstrap = one_broker.bootstrap
    topic = make_topic(bootstrap)
    first = member(stack, bootstrap, topic)
    poll_until(lambda _: share(first), "a member with all partitions", first)
    second = member(stack, bootstrap, topic)
    poll_until(lambda _: share(first, second), "two members", first, second)
    assert set().union(*first.revoked) == second.assigned(), "it gave up only what the other has"
    wanted = produce(bootstrap, topic, 3)
    poll_until(lambda read: values(read) >= wanted, "all records", first, second)

    second.close()

    poll_until(lambda _: share(first), "one member again", first)


def test_the_next_member_goes_on_where_the_last_committed(
    one_broker: Broker, stack: ExitStack
) -> None:
    bootstrap = one_broker.bootstrap
    topic = make_topic(bootstrap)
    before = produce(bootstrap, topic, 2)
    first = member(stack, bootstrap, topic)
    poll_until(lambda read: values(read) >= before, "all records", first)
    first.commit()
    first.close()

    after = produce(bootstrap, topic, 1, "later")
    second = member(stack, bootstrap, topic)
    read = poll_until(lambda read: values(read) >= after, "the new records", second)

    assert values(read) == after


def test_an_expression_finds_topics_that_come_later(one_broker: Broker, stack: ExitStack) -> None:
    bootstrap = one_broker.bootstrap
    topic = make_topic(bootstrap)
    reader = member(stack, bootstrap, f"^{topic}(-more)?", group=topic)
    poll_until(lambda _: share(reader), "what is there", reader)

    with BlockingClient(bootstrap) as client:
        client.create_topics([NewTopic(f"{topic}-more", PARTITIONS, 1, {})])
    wanted = produce(bootstrap, f"{topic}-more", 1)

    poll_until(lambda read: values(read) >= wanted, "records of the later topic", reader)


def test_a_static_member_comes_back_to_its_partitions(one_broker: Broker, stack: ExitStack) -> None:
    bootstrap = one_broker.bootstrap
    topic = make_topic(bootstrap)
    other = member(stack, bootstrap, topic)
    first = member(stack, bootstrap, topic, instance_id="static")
    poll_until(lambda _: share(other, first), "two members", other, first)
    owned, taken = first.assigned(), len(other.revoked)
    first.close()

    again = member(stack, bootstrap, topic, instance_id="static")
    poll_until(lambda _: again.assigned() == owned, "its partitions again", other, again)

    assert len(other.revoked) == taken


def test_admins_see_the_group_and_its_type(one_broker: Broker, stack: ExitStack) -> None:
    bootstrap = one_broker.bootstrap
    topic = make_topic(bootstrap)
    reader = member(stack, bootstrap, topic)
    poll_until(lambda _: share(reader), "a member with all partitions", reader)
    admin = AdminClient({"bootstrap.servers": bootstrap})

    listed = {each.group_id: each for each in admin.list_consumer_groups().result(30).valid}
    assert listed[topic].type is ConsumerGroupType.CONSUMER
    described = admin.describe_consumer_groups([topic])[topic].result(30)
    (found,) = described.members
    assert {each.partition for each in found.assignment.topic_partitions} == set(range(PARTITIONS))
    with BlockingClient(bootstrap) as client:
        ours = client.run(lambda s, t, d: group_admin.describe_group(s, topic, t, d))
    assert (ours.state, ours.assignor, len(ours.members)) == ("Stable", "uniform", 1)
    assert ours.epoch is not None


def test_a_group_changes_its_protocol_when_it_is_empty(
    one_broker: Broker, stack: ExitStack
) -> None:
    bootstrap = one_broker.bootstrap
    topic = make_topic(bootstrap)
    before = produce(bootstrap, topic, 1)
    with closing(Librdkafka(bootstrap, topic, topic)) as classic:
        poll_until(lambda read: values(read) >= before, "all records", classic)
        classic.commit()

    after = produce(bootstrap, topic, 1, "later")
    reader = member(stack, bootstrap, topic)
    read = poll_until(lambda read: values(read) >= after, "the new records", reader)

    assert values(read) == after


@pytest.mark.parametrize(
    "strategy",
    [pytest.param("range,roundrobin", marks=pytest.mark.slow), "cooperative-sticky"],
)
def test_a_group_changes_its_protocol_member_by_member(
    one_broker: Broker, stack: ExitStack, strategy: str
) -> None:
    """Nobody stops for it; each record is read by who has its partition."""
    bootstrap = one_broker.bootstrap
    topic = make_topic(bootstrap)
    old = [
        stack.enter_context(closing(Librdkafka(bootstrap, topic, topic, strategy=strategy)))
        for _ in range(2)
    ]
    poll_until(lambda _: share(*old), "two classic members", *old)
    wanted = produce(bootstrap, topic, 2)
    read = values(poll_until(lambda read: values(read) >= wanted, "all records", *old))
    for each in old:
        each.commit()

    first = member(stack, bootstrap, topic)
    poll_until(lambda _: share(*old, first), "one of three by heartbeats", *old, first)
    after = produce(bootstrap, topic, 2, "later")
    found = poll_until(lambda read: values(read) >= after, "new records", *old, first)
    assert not values(found) & read
    for each in (*old, first):
        each.commit()
    old[0].close()
    second = member(stack, bootstrap, topic)
    poll_until(lambda _: share(old[1], first, second), "two by heartbeats", old[1], first, second)
    old[1].close()

    poll_until(lambda _: share(first, second), "all by heartbeats", first, second)
    last = produce(bootstrap, topic, 2, "last")
    poll_until(lambda read: values(read) >= last, "the last records", first, second)


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["range,roundrobin", "cooperative-sticky"])
def test_classic_members_that_are_left_alone_go_on(
    one_broker: Broker, stack: ExitStack, strategy: str
) -> None:
    bootstrap = one_broker.bootstrap
    topic = make_topic(bootstrap)
    old = [
        stack.enter_context(closing(Librdkafka(bootstrap, topic, topic, strategy=strategy)))
        for _ in range(2)
    ]
    poll_until(lambda _: share(*old), "two classic members", *old)
    first = member(stack, bootstrap, topic)
    poll_until(lambda _: share(*old, first), "one of three by heartbeats", *old, first)
    wanted = produce(bootstrap, topic, 2)
    poll_until(lambda read: values(read) >= wanted, "all records", *old, first)
    for each in (*old, first):
        each.commit()

    first.close()

    poll_until(lambda _: share(*old), "two classic members again", *old)
    later = produce(bootstrap, topic, 2, "later")
    read = poll_until(lambda read: values(read) >= later, "the later records", *old)
    assert not values(read) & wanted
    with BlockingClient(bootstrap) as client:
        ours = client.run(lambda s, t, d: group_admin.describe_group(s, topic, t, d))
    assert (ours.state, len(ours.members), ours.epoch) == ("Stable", 2, None)


def test_members_go_on_behind_a_restart_of_their_only_broker(
    tmp_path_factory: pytest.TempPathFactory, stack: ExitStack
) -> None:
    broker = stack.enter_context(one(tmp_path_factory.mktemp("restart"), **SOON))
    topic = make_topic(broker.bootstrap)
    before = produce(broker.bootstrap, topic, 1)
    reader = member(stack, broker.bootstrap, topic)
    poll_until(lambda read: values(read) >= before, "all records", reader)
    reader.commit()

    broker.kill()
    broker.start()

    after = produce(broker.bootstrap, topic, 1, "later")
    poll_until(lambda read: values(read) >= after, "the new records", reader)


def test_members_and_commits_outlive_the_coordinator(cluster: Cluster, stack: ExitStack) -> None:
    """On three brokers: the one that coordinates is killed, and members keep what they have."""
    topic = make_topic(cluster.bootstrap, replicas=3)
    first = member(stack, cluster.bootstrap, topic)
    second = member(stack, cluster.bootstrap, topic)
    poll_until(lambda _: share(first, second), "two members", first, second)
    # Only now: what one read and the other then took over would be read again, for nobody had
    # committed it.
    before = produce(cluster.bootstrap, topic, 2)
    poll_until(lambda read: values(read) >= before, "all records", first, second)
    first.commit()
    second.commit()
    owned, taken = first.assigned(), len(first.revoked)
    index = coordinator_partition(topic, 8)
    killed = cluster.leader_of(OFFSETS_TOPIC, index)

    cluster.kill(killed)
    try:
        cluster.leader_of(OFFSETS_TOPIC, index, but=killed)
        left = ",".join(cluster.broker(id_).bootstrap for id_ in cluster.alive)
        after = produce(left, topic, 2, "later")
        read = poll_until(lambda read: values(read) >= after, "the new records", first, second)
        assert not values(read) & before
        assert (first.assigned(), len(first.revoked)) == (owned, taken)
    finally:
        cluster.restart(killed)
        cluster.wait_settled()


UPGRADE: dict[str, tuple[Subscribe, Subscribe]] = {
    "librdkafka": (Librdkafka, LibrdkafkaByHeartbeats),
    "java": (FOREIGN["java"], FOREIGN["java-heartbeats"]),
}
"""The members that leave, and those that come; for a downgrade the other way round."""


@pytest.mark.slow
@pytest.mark.parametrize("is_upgrade", [True, False])
@pytest.mark.parametrize("client", UPGRADE)
def test_a_group_that_changes_its_protocol_outlives_its_coordinator(
    cluster: Cluster, stack: ExitStack, client: str, is_upgrade: bool
) -> None:
    """It is killed when members of both protocols are in the group, which goes on, and is moved to
    its end, without that broker."""
    old, new = UPGRADE[client] if is_upgrade else reversed(UPGRADE[client])
    topic, bootstrap = make_topic(cluster.bootstrap, replicas=3), cluster.bootstrap
    leave = [stack.enter_context(closing(old(bootstrap, topic, topic))) for _ in range(2)]
    poll_until(lambda _: share(*leave), "two members of before", *leave)
    come = [stack.enter_context(closing(new(bootstrap, topic, topic)))]
    poll_until(lambda _: share(*leave, *come), "one of three is another's", *leave, *come)
    before = produce(bootstrap, topic, 2)
    poll_until(lambda read: values(read) >= before, "all records", *leave, *come)
    for each in (*leave, *come):
        each.commit()
    index = coordinator_partition(topic, 8)
    killed = cluster.leader_of(OFFSETS_TOPIC, index)

    cluster.kill(killed)
    try:
        cluster.leader_of(OFFSETS_TOPIC, index, but=killed)
        left = ",".join(cluster.broker(id_).bootstrap for id_ in cluster.alive)
        after = produce(left, topic, 2, "later")
        read = poll_until(lambda read: values(read) >= after, "the new records", *leave, *come)
        assert not values(read) & before
        for each in (*leave, *come):
            poll_until(lambda _, each=each: commits(each), "a commit", *leave, *come)
        leave[0].close()
        come.append(stack.enter_context(closing(new(left, topic, topic))))
        poll_until(lambda _: share(leave[1], *come), "two of three are others", leave[1], *come)
        leave[1].close()
        poll_until(lambda _: share(*come), "all are others", *come)
        last = produce(left, topic, 2, "last")
        read = poll_until(lambda read: values(read) >= last, "the last records", *come)
        assert not values(read) & before
        with BlockingClient(left) as admin:
            ours = admin.run(lambda s, t, d: group_admin.describe_group(s, topic, t, d))
        assert (ours.state, len(ours.members)) == ("Stable", 2)
        assert (ours.epoch is not None) is is_upgrade
    finally:
        cluster.restart(killed)
        cluster.wait_settled()
