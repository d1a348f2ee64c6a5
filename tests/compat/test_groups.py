"""Consumers of eight clients that subscribe: the same behaviours for each, on one broker and three.

Every wait is for a condition with a deadline, and what passes by itself is never asserted.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing

import pytest
from confluent_kafka.admin import AdminClient
from kafka.admin import KafkaAdminClient

from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.groups import find_coordinator
from josefine_broker.client.io_blocking import BlockingClient, NewTopic
from josefine_broker.engine.groups.offsets import coordinator_partition
from josefine_broker.records.builder import Record, build_batch
from tests.compat.brokers import Broker, one
from tests.compat.consumers import CLIENTS, GroupConsumer, Librdkafka, Read, Subscribe
from tests.compat.coordinators import PARTITIONS as COORDINATORS
from tests.compat.coordinators import daily_is, kept_by
from tests.compat.foreign import FOREIGN
from tests.support.cluster import DEFAULT_TIMINGS, REPLICATED, Cluster
from tests.support.waiting import wait_until

TIMEOUT_S = 90.0
"""Of one condition, on a machine that others use too; a second where it is idle."""
pytestmark = pytest.mark.timeout(400)
PARTITIONS = 4
OFFSETS_TOPIC = "__consumer_offsets"
_NUMBERS = itertools.count(1)


@pytest.fixture(scope="module")
def one_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    # The delay is for groups whose members start at the same time: here it would only cost time.
    with one(tmp_path_factory.mktemp("groups"), group__initial_rebalance_delay_ms=100) as process:
        yield process


@pytest.fixture(scope="module")
def group_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(
        tmp_path_factory.mktemp("groups-of-three"),
        timings=DEFAULT_TIMINGS,
        group__initial_rebalance_delay_ms=100,
        **REPLICATED,
    ) as running:
        with BlockingClient(running.bootstrap) as client:
            # The first look makes the topic of the offsets.
            client.run(lambda s, t, d: find_coordinator(s, s.start(t, d, "find"), "anybody"))
        yield running


@pytest.fixture(
    params=[*CLIENTS, *(pytest.param(each, marks=pytest.mark.slow) for each in FOREIGN)]
)
def subscribe(request: pytest.FixtureRequest) -> Subscribe:
    return {**CLIENTS, **FOREIGN}[request.param]


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def make_topic(bootstrap: str, partitions: int = PARTITIONS, replicas: int = 1) -> str:
    name = f"groups-{next(_NUMBERS)}"
    with BlockingClient(bootstrap) as client:
        client.create_topics([NewTopic(name, partitions, replicas, {})])
    return name


def produce(bootstrap: str, topic: str, count: int, prefix: str = "v") -> set[bytes]:
    """As many records into each partition; their values."""
    made = {
        TopicPartition(topic, partition): [
            f"{prefix}-{partition}-{at}".encode() for at in range(count)
        ]
        for partition in range(PARTITIONS)
    }
    with BlockingClient(bootstrap) as client:
        client.produce(
            {tp: build_batch([Record(value=each) for each in batch]) for tp, batch in made.items()}
        )
    return {value for batch in made.values() for value in batch}


def poll_until(
    condition: Callable[[list[Read]], object], what: str, *consumers: GroupConsumer
) -> list[Read]:
    """Poll them all until that is so of what they read, all together."""
    read: list[Read] = []

    def is_so() -> bool:
        for each in consumers:
            read.extend(each.poll())
        return bool(condition(read))

    wait_until(is_so, TIMEOUT_S, what)
    return read


def values(read: list[Read]) -> set[bytes | None]:
    return {each.value for each in read}


def share(*consumers: GroupConsumer) -> bool:
    """Whether every partition has one owner, and everybody is one."""
    owned = [partition for each in consumers for partition in each.assigned()]
    return sorted(owned) == list(range(PARTITIONS)) and all(each.assigned() for each in consumers)


@pytest.mark.long_proof(share=2)
def test_subscriber_reads_commits_and_is_resumed_where_it_was(
    one_broker: Broker, subscribe: Subscribe
) -> None:
    """Checklist row 23."""
    bootstrap = one_broker.bootstrap
    topic = make_topic(bootstrap)
    before = produce(bootstrap, topic, 3)
    with closing(subscribe(bootstrap, topic, topic)) as first:
        poll_until(lambda read: values(read) >= before, "all records", first)
        first.commit()

    after = produce(bootstrap, topic, 2, "later")
    with closing(subscribe(bootstrap, topic, topic)) as second:
        read = poll_until(lambda read: values(read) >= after, "the new records", second)

    assert values(read) == after  # what was committed is not read again


@pytest.mark.long_proof(share=2)
def test_two_members_share_the_partitions_and_who_is_left_has_them_all(
    one_broker: Broker, subscribe: Subscribe, stack: ExitStack
) -> None:
    """Checklist rows 23 and 25."""
    bootstrap = one_broker.bootstrap
    topic = make_topic(bootstrap)
    first = stack.enter_context(closing(subscribe(bootstrap, topic, topic)))
    poll_until(lambda _: share(first), "a member with all partitions", first)
    second = subscribe(bootstrap, topic, topic)
    try:
        poll_until(lambda _: share(first, second), "two members", first, second)
        wanted = produce(bootstrap, topic, 3)
        poll_until(lambda read: values(read) >= wanted, "all records", first, second)
    finally:
        second.close()

    poll_until(lambda _: share(first), "one member again", first)


def test_cooperative_member_gives_up_only_what_another_takes(
    one_broker: Broker, stack: ExitStack
) -> None:
    """Checklist row 25 (KIP-429): librdkafka is the client here that does it."""
    bootstrap = one_broker.bootstrap
    topic = make_topic(bootstrap)

    def member() -> Librdkafka:
        consumer = Librdkafka(bootstrap, topic, topic, strategy="cooperative-sticky")
        return stack.enter_context(closing(consumer))

    first = member()
    poll_until(lambda _: share(first), "a member with all partitions", first)
    second = member()
    poll_until(lambda _: share(first, second), "two members", first, second)

    given_up = set().union(*first.revoked)
    assert given_up == second.assigned()


@pytest.mark.long_proof(share=2)
def test_static_member_comes_back_to_its_partitions_and_the_others_notice_nothing(
    one_broker: Broker, subscribe: Subscribe, stack: ExitStack
) -> None:
    """KIP-345. The other member is librdkafka's, which tells what was taken from it."""
    bootstrap = one_broker.bootstrap
    topic = make_topic(bootstrap)
    # In this order: aiokafka's constructor waits for its assignment, and librdkafka, once it is in
    # the group, joins again only while somebody polls it.
    restarted = subscribe(bootstrap, topic, topic, "static")
    other = stack.enter_context(closing(Librdkafka(bootstrap, topic, topic)))
    try:
        poll_until(lambda _: share(other, restarted), "two members", other, restarted)
        owned = restarted.assigned()
    finally:
        restarted.close()
    taken = len(other.revoked)

    again = stack.enter_context(closing(subscribe(bootstrap, topic, topic, "static")))
    poll_until(lambda _: again.assigned() == owned, "its partitions again", other, again)
    wanted = produce(bootstrap, topic, 2)
    poll_until(lambda read: values(read) >= wanted, "all records", other, again)

    assert len(other.revoked) == taken
    assert share(other, again)


@pytest.mark.long_proof(share=2)
def test_members_go_on_behind_a_restart_of_their_only_broker(
    tmp_path_factory: pytest.TempPathFactory, subscribe: Subscribe, stack: ExitStack
) -> None:
    broker = stack.enter_context(
        one(tmp_path_factory.mktemp("restart"), group__initial_rebalance_delay_ms=100)
    )
    topic = make_topic(broker.bootstrap)
    before = produce(broker.bootstrap, topic, 2)
    consumer = stack.enter_context(closing(subscribe(broker.bootstrap, topic, topic)))
    poll_until(lambda read: values(read) >= before, "all records", consumer)
    consumer.commit()

    broker.kill()
    broker.start()

    after = produce(broker.bootstrap, topic, 2, "later")
    poll_until(lambda read: values(read) >= after, "the new records", consumer)


@pytest.mark.long_proof(share=2)
def test_commits_outlive_the_coordinator(
    group_cluster: Cluster, subscribe: Subscribe, stack: ExitStack
) -> None:
    """Checklist row 23, on three brokers: the one that coordinates is killed."""
    topic = make_topic(group_cluster.bootstrap, replicas=3)
    place = OFFSETS_TOPIC, coordinator_partition(topic, COORDINATORS)
    outlives(group_cluster, subscribe, stack, topic, topic, place)


@pytest.mark.slow
def test_members_go_on_when_the_leader_is_killed(
    group_cluster: Cluster, subscribe: Subscribe, stack: ExitStack
) -> None:
    """It leads a partition of the topic; another broker coordinates."""
    if subscribe is FOREIGN["kafkajs"]:
        pytest.skip("kafkajs may take over a minute to end when a broker that it read from is gone")
    topic = make_topic(group_cluster.bootstrap, replicas=3)
    group, index = kept_by(group_cluster, OFFSETS_TOPIC, topic, PARTITIONS, by_leader=False)
    outlives(group_cluster, subscribe, stack, group, topic, (topic, index))


@pytest.mark.parametrize("subscribe", daily_is("librdkafka", *CLIENTS, *FOREIGN), indirect=True)
def test_members_go_on_when_a_leader_that_coordinates_is_killed(
    group_cluster: Cluster, subscribe: Subscribe, stack: ExitStack
) -> None:
    topic = make_topic(group_cluster.bootstrap, replicas=3)
    group, index = kept_by(group_cluster, OFFSETS_TOPIC, topic, PARTITIONS, by_leader=True)
    outlives(group_cluster, subscribe, stack, group, topic, (topic, index))


def outlives(
    cluster: Cluster,
    subscribe: Subscribe,
    stack: ExitStack,
    group: str,
    topic: str,
    place: tuple[str, int],
) -> None:
    """A member goes on behind what it committed when the broker that leads `place` is killed, and
    so does the next one."""
    before = produce(cluster.bootstrap, topic, 3)
    consumer = stack.enter_context(closing(subscribe(cluster.bootstrap, group, topic)))
    poll_until(lambda read: values(read) >= before, "all records", consumer)
    consumer.commit()
    killed = cluster.leader_of(*place)

    cluster.kill(killed)
    try:
        cluster.leader_of(*place, but=killed)
        left = ",".join(cluster.broker(id_).bootstrap for id_ in cluster.alive)
        after = produce(left, topic, 2, "later")
        read = poll_until(lambda read: values(read) >= after, "the new records", consumer)
        assert not values(read) & before  # it went on, and did not begin anew
        poll_until(lambda _: commits(consumer), "a commit", consumer)
        with closing(subscribe(left, f"{group}-other", topic)) as other:
            poll_until(lambda read: values(read) >= before | after, "all records", other)
        consumer.close()
        last = produce(left, topic, 1, "last")
        with closing(subscribe(left, group, topic)) as next_one:
            read = poll_until(lambda read: values(read) >= last, "the last records", next_one)
        assert values(read) == last
    finally:
        cluster.restart(killed)
        cluster.wait_settled()


def commits(consumer: GroupConsumer) -> bool:
    """Whether it could; a member that has to join again first could not."""
    try:
        consumer.commit()
    except Exception:
        return False
    return True


def test_groups_are_listed_described_and_deleted_by_admins(
    one_broker: Broker, stack: ExitStack
) -> None:
    """Checklist row 23."""
    bootstrap = one_broker.bootstrap
    topic = make_topic(bootstrap)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    wanted = produce(bootstrap, topic, 1)
    member = Librdkafka(bootstrap, topic, topic)
    try:
        poll_until(lambda read: values(read) >= wanted, "all records", member)
        member.commit()

        listed = {each.group_id: each for each in admin.list_consumer_groups().result(30).valid}
        assert listed[topic].state.name == "STABLE"
        described = admin.describe_consumer_groups([topic])[topic].result(30)
        (found,) = described.members
        assert {each.partition for each in found.assignment.topic_partitions} == set(
            range(PARTITIONS)
        )
        assert described.partition_assignor == "range"
    finally:
        member.close()

    other = KafkaAdminClient(bootstrap_servers=bootstrap)
    stack.callback(other.close)
    offsets = other.list_group_offsets(topic)
    assert offsets
    admin.delete_consumer_groups([topic])[topic].result(30)
    assert topic not in {each.group_id for each in admin.list_consumer_groups().result(30).valid}
